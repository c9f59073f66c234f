#include "tools/bench/runner.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <ranges>

#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

std::atomic<bool> interrupted{false};
void on_interrupt(int) { interrupted = true; }

}  // namespace

cli::Result<Rows> measure(std::vector<Group> groups, const Pace& pace) {
  using Clock = std::chrono::steady_clock;
  std::mt19937_64 random(1);
  const auto end = Clock::now() + pace.budget;
  const auto rounds = static_cast<size_t>(pace.rounds);
  for (size_t round = pace.warm_up ? 0 : 1; round <= rounds || Clock::now() < end; ++round) {
    if (pace.budget.count() == 0) fmt::print(stderr, "round {} of {}\n", round, rounds);
    for (Group& group : groups) {
      std::vector<Case*> order;
      order.reserve(group.size());
      for (Case& c : group) order.push_back(&c);
      if (pace.shuffled) std::ranges::shuffle(order, random);
      for (Case* c : order) {
        const auto done = c->turn(c->notes, round);
        TRY(check_interrupt());  // it may have cut the turn short
        if (!done) return cli::fail("{}: {}", c->labels.dump(), done.error());
        if (round == 0) c->notes.samples.clear();
      }
    }
  }
  Rows rows;
  for (const Case& c : groups | std::views::join) {
    Json& row = rows.emplace_back(c.labels);
    for (const auto& [path, samples] : c.notes.samples) {
      row[Json::json_pointer("/" + path)] = c.spread(samples);
    }
    row.update(c.notes.figures, true);
  }
  return rows;
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
