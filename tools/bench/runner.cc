#include "tools/bench/runner.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <random>

#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

std::atomic<bool> interrupted{false};
void on_interrupt(int) { interrupted = true; }

}  // namespace

cli::Result<> NotedCase::turn(size_t number) {
  const auto done = turn_(notes_, number);
  if (!done) return cli::fail("{}: {}", labels().dump(), done.error());
  if (number == 0) notes_.samples.clear();
  return {};
}

void NotedCase::add_figures(Json& row) const {
  row.update(notes_.figures, true);
  for (const auto& [path, samples] : notes_.samples) {
    row[Json::json_pointer("/" + path)] = spread_(samples);
  }
}

cli::Result<Rows> measure(const std::vector<Group>& groups, const Pace& pace) {
  using Clock = std::chrono::steady_clock;
  std::mt19937_64 random(1);
  const auto end = Clock::now() + pace.budget;
  const auto rounds = static_cast<size_t>(pace.rounds);
  for (size_t round = pace.warm_up ? 0 : 1; round <= rounds || Clock::now() < end; ++round) {
    if (pace.budget.count() == 0) fmt::print(stderr, "round {} of {}\n", round, rounds);
    for (const Group& group : groups) {
      std::vector<Case*> order;
      order.reserve(group.size());
      for (const auto& c : group) order.push_back(c.get());
      if (pace.shuffled) std::ranges::shuffle(order, random);
      for (Case* c : order) {
        TRY(check_interrupt());
        TRY(c->turn(round));
      }
    }
  }
  TRY(check_interrupt());  // it may have cut the last turn short
  Rows rows;
  for (const Group& group : groups) {
    for (const auto& c : group) c->add_figures(rows.emplace_back(c->labels()));
  }
  return rows;
}

cli::Result<Rows> measure(Group group, const Pace& pace) {
  std::vector<Group> groups;
  groups.push_back(std::move(group));
  return measure(groups, pace);
}

void watch_interrupts() {
  ::signal(SIGINT, on_interrupt);
  ::signal(SIGTERM, on_interrupt);
}

bool was_interrupted() { return interrupted; }

cli::Result<> check_interrupt() {
  if (interrupted) return cli::fail("interrupted");
  return {};
}

}  // namespace elastripe::bench
