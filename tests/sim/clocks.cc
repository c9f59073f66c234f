// World's wall clocks: each proxy has its own, which may be wrong from the start, and steps.
//
// What is promised: who judges by a clock that is wrong judges wrongly, but nobody's clock destroys
// what has not expired. A decider's clock is right when it starts; it may step afterwards.
#include <algorithm>

#include "tests/sim/world_internal.h"

namespace elastripe::sim {

using std::chrono::milliseconds;

namespace {

// By so much a decider may be ahead unnoticed, or a little more.
constexpr uint64_t kExpiryTolerance_ms = 120'000;

}  // namespace

Duration World::choose_step() {
  const Duration step = random_.between(scenario_.clock_step_max / 8, scenario_.clock_step_max);
  return random_.chance(0.5) ? step : -step;
}

void World::step_a_clock() {
  SimProxy* proxy = victim_proxy();
  if (proxy != nullptr) step_clock(*proxy, choose_step());
}

void World::step_clock(SimProxy& proxy, Duration step) {
  const auto step_ms = std::chrono::duration_cast<milliseconds>(step).count();
  trace_.add("the wall clock of proxy {} steps by {} ms", proxy.id(), step_ms);
  for (auto& [index, pending] : pending_) {
    if (history_[index].proxy == proxy.id()) {
      pending->latest_ms = std::max(pending->latest_ms, proxy.clock().unix_ms());
    }
  }
  ++result_.totals.clock_steps;
  proxy.clock().set_wall_clock_by(step);
  // Of an unknown outcome, nobody knows by which of its clocks it is decided.
  for (Operation& op : history_) {
    if (op.proxy != proxy.id() || op.returned != UINT64_MAX) continue;
    op.invoked_ms = std::min(op.invoked_ms, proxy.clock().unix_ms());
  }
}

// As a time service does in the end.
void World::set_clocks_right() {
  for (auto& proxy : proxies_) {
    const auto ahead = static_cast<int64_t>(proxy->clock().unix_ms() - clock_.unix_ms());
    if (ahead != 0) step_clock(*proxy, milliseconds(-ahead));
  }
}

// The latest time by which an operation that ends now may have found its key expired: its proxy's,
// or that of a decider which collected it.
uint64_t World::latest_ms(const Pending& pending, SimProxy& proxy) const {
  const bool may_step = scenario_.clock_steps > 0;
  const uint64_t collected = clock_.unix_ms() + (may_step ? kExpiryTolerance_ms : 0);
  return std::max({pending.latest_ms, proxy.clock().unix_ms(), collected});
}

}  // namespace elastripe::sim
