#include <catch2/catch.hpp>
#include <thread>

#include "proxy/async/scope.h"
#include "proxy/io/loop.h"
#include "proxy/io/loop_clock.h"

namespace elastripe {
namespace {

using std::chrono::milliseconds;

struct Recorder : Timer {
  Recorder(std::vector<int>& order_in, int name_in) : order(order_in), name(name_in) {}
  void on_timer() override { order.push_back(name); }
  std::vector<int>& order;
  int name;
};

struct CountingTurnEnd : TurnEnd {
  CountingTurnEnd(Loop& loop, int again_in) : TurnEnd(loop), again(again_in) {}
  void on_turn_end() override {
    ++runs;
    if (again-- > 0) request_turn_end();
  }
  int again;
  int runs = 0;
};

Task<void> sleep_then_stop(Loop* loop, LoopClock* clock, Duration duration, bool* in_time) {
  *in_time = co_await clock->sleep_for(duration);
  loop->stop();
}
Task<void> sleep_long(LoopClock* clock, int* woken) {
  const bool in_time = co_await clock->sleep_for(std::chrono::hours(1));
  if (!in_time) ++*woken;
}

Task<void> take_turns(Loop* loop, LoopClock* clock, char name, int turns, std::string* log) {
  for (int i = 0; i < turns; ++i) {
    log->push_back(name);
    ELASTRIPE_CHECK(co_await clock->next_turn());
    loop->post([log] { log->push_back('.'); });
  }
  if (name == 'b') loop->stop();
}

TEST_CASE("timers fire in the order of their deadlines, whatever order they were armed in") {
  Timers timers;
  std::vector<int> order;
  std::vector<std::unique_ptr<Recorder>> all;
  const TimePoint start{};
  for (int i = 0; i < 200; ++i) {
    all.push_back(std::make_unique<Recorder>(order, (i * 37) % 200));
    timers.arm(*all.back(), start + milliseconds(all.back()->name));
  }
  for (auto& timer : all) {
    if (timer->name % 3 == 0) timer->cancel();
  }
  REQUIRE(timers.next() == start + milliseconds(1));
  timers.fire(start + milliseconds(100));
  REQUIRE(order.size() == 67);
  timers.fire(start + milliseconds(1000));
  REQUIRE(order.size() == 133);
  REQUIRE(std::ranges::is_sorted(order));
  REQUIRE_FALSE(timers.next().has_value());
}

TEST_CASE("a timer that is armed again moves") {
  Timers timers;
  std::vector<int> order;
  Recorder first(order, 1), second(order, 2);
  const TimePoint start{};
  timers.arm(first, start + milliseconds(1));
  timers.arm(second, start + milliseconds(2));
  timers.arm(first, start + milliseconds(3));
  timers.fire(start + milliseconds(5));
  REQUIRE(order == std::vector<int>{2, 1});
}

TEST_CASE("jobs posted by another thread run on the loop, in order") {
  Loop loop;
  std::vector<int> seen;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) loop.post([&seen, i] { seen.push_back(i); });
    loop.stop();
  });
  loop.run();
  other.join();
  REQUIRE(seen.size() == 1000);
  REQUIRE(std::ranges::is_sorted(seen));
}

TEST_CASE("what is asked for several times in a turn runs once at its end") {
  Loop loop;
  CountingTurnEnd target(loop, 0);
  loop.post([&] {
    target.request_turn_end();
    target.request_turn_end();
    loop.stop();
  });
  loop.run();
  REQUIRE(target.runs == 1);
}

TEST_CASE("a turn's end may ask for itself again before the loop waits") {
  Loop loop;
  CountingTurnEnd target(loop, 2);
  target.request_turn_end();
  loop.stop();
  loop.run();
  REQUIRE(target.runs == 3);
}

TEST_CASE("a turn's end that is destroyed is forgotten") {
  Loop loop;
  {
    CountingTurnEnd target(loop, 0);
    target.request_turn_end();
  }
  loop.stop();
  loop.run();
  SUCCEED();
}

TEST_CASE("a sleep ends when its time has come") {
  Loop loop;
  LoopClock clock(loop);
  Scope scope;
  bool in_time = false;
  const TimePoint start = clock.now();
  scope.spawn(sleep_then_stop(&loop, &clock, milliseconds(2), &in_time));
  loop.run();
  REQUIRE(in_time);
  REQUIRE(clock.now() - start >= milliseconds(2));
}

TEST_CASE("flows that wait for the next turn take turns with each other and with what is ready") {
  Loop loop;
  LoopClock clock(loop);
  Scope scope;
  std::string log;
  // Other deadlines do not make a turn longer.
  int woken = 0;
  for (int i = 0; i < 100; ++i) scope.spawn(sleep_long(&clock, &woken));
  scope.spawn(take_turns(&loop, &clock, 'a', 3, &log));
  scope.spawn(take_turns(&loop, &clock, 'b', 3, &log));
  loop.run();
  // What was posted in a turn runs in the next one, before the flows.
  REQUIRE(log == "abab..ab....");
  clock.cancel_all();
  REQUIRE(woken == 100);
}

TEST_CASE("cancelling a clock ends its sleeps, and later ones at once") {
  Loop loop;
  LoopClock clock(loop);
  Scope scope;
  int woken = 0;
  for (int i = 0; i < 3; ++i) scope.spawn(sleep_long(&clock, &woken));
  REQUIRE(woken == 0);
  clock.cancel_all();
  REQUIRE(woken == 3);
  scope.spawn(sleep_long(&clock, &woken));
  REQUIRE(woken == 4);
}

}  // namespace
}  // namespace elastripe
