#include <string>

#include "catch2/catch.hpp"
#include "proxy/async/scope.h"
#include "tests/support/virtual_clock.h"

namespace elastripe {
namespace {

using std::chrono::milliseconds;

Task<void> note_after(Clock& clock, Duration delay, std::string word, std::string& log) {
  const bool elapsed = co_await clock.sleep_for(delay);
  log += word + (elapsed ? " " : "(cancelled) ");
}

void run_all(EventQueue& events) {
  while (events.run_one()) {
  }
}

TEST_CASE("sleepers wake in the order of their times") {
  EventQueue events(1);
  VirtualClock clock(events);
  Scope scope;
  std::string log;
  scope.spawn(note_after(clock, milliseconds(20), "b", log));
  scope.spawn(note_after(clock, milliseconds(10), "a", log));
  run_all(events);
  REQUIRE(log == "a b ");
  REQUIRE(clock.unix_ms() == VirtualClock::kUnixStartMs + 20);
}

TEST_CASE("a paused process wakes late, by a clock that went on") {
  EventQueue events(1);
  VirtualClock clock(events);
  Scope scope;
  std::string log;
  scope.spawn(note_after(clock, milliseconds(10), "a", log));
  clock.pause();
  events.after(milliseconds(500), [&] { clock.resume(); });
  while (log.empty()) REQUIRE(events.run_one());
  REQUIRE(clock.now() == TimePoint(milliseconds(500)));
}

TEST_CASE("a cancelled process ends its sleeps, then and later") {
  EventQueue events(1);
  VirtualClock clock(events);
  Scope scope;
  std::string log;
  scope.spawn(note_after(clock, milliseconds(10), "a", log));
  clock.cancel();
  scope.spawn(note_after(clock, milliseconds(10), "b", log));
  REQUIRE(log == "a(cancelled) b(cancelled) ");
  run_all(events);
  REQUIRE(scope.live() == 0);
}

TEST_CASE("what is called off does not happen, and takes nothing else along") {
  EventQueue events(1);
  std::string log;
  events.call_off({});  // names nothing
  const EventQueue::Ticket a = events.after(milliseconds(10), [&] { log += "a"; });
  events.after(milliseconds(20), [&] { log += "b"; });
  events.call_off(a);
  REQUIRE(events.run_one());
  REQUIRE(events.now() == TimePoint(milliseconds(20)));
  // Its place is another's by now.
  events.after(milliseconds(10), [&] { log += "c"; });
  events.after(milliseconds(20), [&] { log += "d"; });
  events.call_off(a);
  run_all(events);
  REQUIRE(log == "bcd");
}

TEST_CASE("events of one instant run in an order that the seed decides") {
  const auto order = [](uint64_t seed) {
    EventQueue events(seed);
    std::string log;
    for (char c = 'a'; c < 'i'; ++c) {
      events.after(milliseconds(1), [&log, c] { log += c; });
    }
    run_all(events);
    return log;
  };
  REQUIRE(order(1) == order(1));
  REQUIRE(order(1) != order(2));
}

}  // namespace
}  // namespace elastripe
