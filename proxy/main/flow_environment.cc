#include "proxy/main/flow_environment.h"

#include <algorithm>

namespace elastripe {
namespace {

std::vector<Pool> pools_of(const Config& config) {
  std::vector<Pool> pools;
  pools.reserve(config.pools.size());
  for (const PoolConfig& pool : config.pools) {
    pools.push_back({.prefix = pool.prefix,
                     .scheme = pool.scheme,
                     .inline_max_bytes = pool.inline_max_bytes,
                     .segment_bytes = config.segment_bytes,
                     .degraded_writes = pool.degraded_writes,
                     .unreadable_is_miss = pool.unreadable_is_miss,
                     .write_state = pool.write_state,
                     .updates = pool.updates,
                     .log_copies = pool.log_copies,
                     .log_rounds = pool.log_rounds});
  }
  return pools;
}

// What each thread has at least: a segment with parities.
uint64_t segments_at_least(const Config& config) { return uint64_t{2} * config.segment_bytes; }

// What degraded reads of a thread may decode at the same time, in segments: enough to keep it busy
// while their shards come.
constexpr uint64_t kDecodedSegments = 8;

MemorySizes sizes_of(const Config& config, const FlowMemory& memory) {
  return {.staged = std::max(memory.staged, segments_at_least(config)),
          .rebuilt = segments_at_least(config),
          .decoded = kDecodedSegments * config.segment_bytes,
          .read = std::max(memory.read, segments_at_least(config)),
          .max_part = config.segment_bytes};
}

}  // namespace

ProxyShared::ProxyShared(Config config_in, std::unique_ptr<Credentials> credentials_in,
                         std::vector<NodeAddress> addresses_in,
                         std::shared_ptr<Resolver> resolver_in, uint32_t threads_in)
    : config(std::move(config_in)),
      credentials(std::move(credentials_in)),
      addresses(std::move(addresses_in)),
      resolver(std::move(resolver_in)),
      threads(threads_in),
      proxy_id(fmt::format("{:016x}", SystemRandom().next())),
      stats(registry, threads) {}

FlowEnvironment::FlowEnvironment(ProxyShared& shared, const FlowMemory& memory)
    : clock_(loop_),
      memory_(sizes_of(shared.config, memory)),
      ids_(random_),
      nodes_(loop_, clock_, random_, shared.addresses, shared.registry, {},
             shared.credentials->nodes(shared.config)),
      pools_(pools_of(shared.config)),
      cache_(memory.cache),
      ops_{.nodes = nodes_,
           .clock = clock_,
           .random = random_,
           .ids = ids_,
           .map = shared.map,
           .pools = pools_,
           .cache = cache_,
           .locks = locks_,
           .memory = memory_,
           .background = background_,
           .settings = shared.config.ops,
           .counters = {},
           .head_floors = {}} {
  nodes_.follow(shared.map, shared.resolver);
}

void FlowEnvironment::change_settings(const Config& config, const FlowMemory& memory) {
  const bool hedge_early = ops_.settings.hedge_early;  // the thread's own
  ops_.settings = config.ops;
  ops_.settings.hedge_early = hedge_early;
  pools_.replace(pools_of(config));
  memory_.resize(sizes_of(config, memory));
  cache_.resize(memory.cache);
}

void FlowEnvironment::cancel_all() {
  nodes_.cancel_all();
  clock_.cancel_all();
}

}  // namespace elastripe
