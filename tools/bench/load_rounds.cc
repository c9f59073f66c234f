#include "tools/bench/load_rounds.h"

#include <algorithm>
#include <random>

#include "tools/bench/interrupt.h"
#include "tools/bench/processor_time.h"

namespace elastripe::bench {
namespace {

constexpr std::chrono::milliseconds kWarmUp{200};

}  // namespace

LoadSettings load_settings(const LoadCase& c) {
  return {.host = c.target->host,
          .port = c.target->port,
          .key_prefix = c.target->key_prefix,
          .connections = c.connections,
          .depth = c.depth,
          .threads = c.threads,
          .duration = c.duration};
}

cli::Result<> measure_round(LoadCase& c) {
  const double front = process_seconds(c.target->front);
  const double back = process_seconds(c.target->back);
  const auto result = run_load(load_settings(c), *c.objects, c.sources);
  if (!result) return cli::fail("{}: {}", c.target->name, result.error());
  c.front_cpu_seconds += process_seconds(c.target->front) - front;
  c.back_cpu_seconds += process_seconds(c.target->back) - back;
  c.sum.add(*result);
  c.per_second.push_back(result->per_second());
  return {};
}

cli::Result<> measure_rounds(std::vector<std::vector<LoadCase>>& groups, int rounds) {
  std::mt19937_64 random(1);
  for (int round = -1; round < rounds; ++round) {
    if (round >= 0) fmt::print(stderr, "round {} of {}\n", round + 1, rounds);
    for (auto& group : groups) {
      std::vector<LoadCase*> order;
      order.reserve(group.size());
      for (LoadCase& c : group) order.push_back(&c);
      std::ranges::shuffle(order, random);
      for (LoadCase* c : order) {
        if (was_interrupted()) return cli::fail("interrupted");
        if (round >= 0) {
          if (auto done = measure_round(*c); !done) return done;
          continue;
        }
        LoadCase warm_up = *c;
        if (warm_up.duration) warm_up.duration = std::min(*warm_up.duration, kWarmUp);
        if (auto done = measure_round(warm_up); !done) return done;
      }
    }
  }
  return {};
}

}  // namespace elastripe::bench
