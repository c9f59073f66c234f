#include "tests/sim/proxy.h"

#include "tests/sim/totals.h"

using namespace elastripe::decider;

namespace elastripe::sim {

namespace {
constexpr size_t kCacheBytes = 64 << 10;
}  // namespace

SimProxy::Worker::Worker(SimProxy& proxy, Network& network, const PoolTable& pools,
                         const OpsSettings& settings, const ProxyMemory& sizes)
    : nodes(network, proxy.clock_, proxy.id_),
      ids(proxy.random_),
      cache(kCacheBytes),
      memory({.staged = sizes.staged_bytes,
              .rebuilt = sizes.staged_bytes,
              .decoded = sizes.decode_bytes,
              .read = sizes.read_bytes,
              .max_part = sizes.read_bytes}),
      ops{.nodes = nodes,
          .clock = proxy.clock_,
          .random = proxy.random_,
          .ids = ids,
          .map = proxy.map_,
          .pools = pools,
          .cache = cache,
          .locks = locks,
          .memory = memory,
          .background = background,
          .settings = settings,
          .counters = {},
          .head_floors = {}} {}

SimProxy::SimProxy(int id, EventQueue& events, Network& network, uint64_t seed,
                   const PoolTable& pools, const OpsSettings& settings, const ProxyMemory& memory)
    : id_(id),
      clock_(events),
      random_(seed),
      data_(*this, network, pools, settings, memory),
      control_(*this, network, pools, settings, memory) {}

void SimProxy::start_decider(const DeciderSettings& settings) {
  forced_ = settings.force_epoch;
  decider_.emplace(control_.ops, settings);
  flows_.spawn(run_decider());
}

void SimProxy::start_recycler(const jobs::RecyclerSettings& settings) {
  recycler_.emplace(data_.ops, settings);
  flows_.spawn(recycler_->run());
}

void SimProxy::start_repairer(const jobs::RepairSettings& settings) {
  repairer_.emplace(data_.ops, settings);
  flows_.spawn(repairer_->run());
}

Task<void> SimProxy::run_decider() {
  co_await decider_->run();
  decider_ended_ = true;
}

void SimProxy::kill() {
  data_.nodes.close();
  control_.nodes.close();
  clock_.cancel();
  data_.nodes.cancel_calls();
  control_.nodes.cancel_calls();
}

bool SimProxy::is_quiet() const {
  return flows_.live() == 0 && data_.background.live() == 0 && control_.background.live() == 0;
}

OpsCounters SimProxy::counters() const {
  OpsCounters sum = data_.ops.counters;
  add_counters(sum, control_.ops.counters);
  return sum;
}

}  // namespace elastripe::sim
