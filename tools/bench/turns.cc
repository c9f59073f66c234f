#include "tools/bench/turns.h"

#include <algorithm>
#include <map>
#include <random>

#include "tools/bench/interrupt.h"
#include "tools/bench/object_bytes.h"
#include "tools/bench/processor_time.h"
#include "tools/bench/statistics.h"

namespace elastripe::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kValues = 2;

// Makes one request and adds it to the samples.
template <class Request>
cli::Result<> timed(const TurnCase& c, Turns& turns, Request request) {
  const double front = process_seconds(c.target->front);
  const double back = process_seconds(c.target->back);
  const auto start = SteadyClock::now();
  const cli::Result<> done = request();
  const auto took = SteadyClock::now() - start;
  turns.us.push_back(std::chrono::duration<double, std::micro>(took).count());
  turns.front_cpu_seconds += process_seconds(c.target->front) - front;
  turns.back_cpu_seconds += process_seconds(c.target->back) - back;
  if (!done) return cli::fail("{}: {}", c.name, done.error());
  return {};
}

cli::Result<> take_turn(TurnCase& c, const TurnSettings& settings, size_t turn, std::string& got) {
  const std::string& key = c.keys[turn % c.keys.size()];
  const std::string& value = turn_value(settings.object_bytes, settings.puts ? turn : 0);
  if (settings.puts) {
    const auto done = timed(c, c.put, [&] { return c.client->put(key, value); });
    if (!done) return done;
  }
  const auto done = timed(c, c.get, [&] { return c.client->get(key, got); });
  if (!done) return done;
  if (got != value) return cli::fail("{}: wrong bytes of {}", c.name, key);
  return {};
}

}  // namespace

const std::string& turn_value(size_t object_bytes, size_t number) {
  static std::map<std::pair<size_t, size_t>, std::string> values;
  std::string& value = values[{object_bytes, number % kValues}];
  if (value.empty()) value = make_object(object_bytes, number % kValues);
  return value;
}

cli::Result<> measure_turns(std::vector<TurnCase>& cases, const TurnSettings& settings) {
  std::vector<TurnCase*> order;
  order.reserve(cases.size());
  for (TurnCase& c : cases) order.push_back(&c);
  std::mt19937_64 random(1);
  std::string got;
  const auto end = SteadyClock::now() + settings.budget;
  const auto least = static_cast<size_t>(settings.least);
  for (size_t turn = 0; turn <= least || SteadyClock::now() < end; ++turn) {
    std::ranges::shuffle(order, random);
    for (TurnCase* c : order) {
      if (was_interrupted()) return cli::fail("interrupted");
      if (auto done = take_turn(*c, settings, turn, got); !done) return done;
      if (turn == 0) {
        c->put = {};
        c->get = {};
      }
    }
  }
  return {};
}

Json json_of(const Turns& turns) {
  return {{"p50_us", median(turns.us)},         {"p25_us", quantile(turns.us, 0.25)},
          {"p75_us", quantile(turns.us, 0.75)}, {"p99_us", quantile(turns.us, 0.99)},
          {"requests", turns.us.size()},        {"front_cpu_us", turns.front_cpu_us()},
          {"back_cpu_us", turns.back_cpu_us()}};
}

}  // namespace elastripe::bench
