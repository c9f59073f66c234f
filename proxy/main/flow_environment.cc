#include "proxy/main/flow_environment.h"

#include <algorithm>

namespace elastripe {
namespace {

PoolTable pools_of(const Config& config) {
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
  return PoolTable(std::move(pools));
}

// What each thread has at least: a segment with parities.
uint64_t segments_at_least(const Config& config) { return uint64_t{2} * config.segment_bytes; }

// What degraded reads of a thread may decode at the same time, in segments: enough to keep it busy
// while their shards come.
constexpr uint64_t kDecodedSegments = 8;

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
      pools(pools_of(config)),
      stats(registry, threads) {}

FlowEnvironment::FlowEnvironment(ProxyShared& shared, uint64_t staged_bytes, uint64_t cache_bytes,
                                 uint64_t read_bytes)
    : clock_(loop_),
      memory_({.staged = std::max(staged_bytes, segments_at_least(shared.config)),
               .rebuilt = segments_at_least(shared.config),
               .decoded = kDecodedSegments * shared.config.segment_bytes,
               .read = std::max(read_bytes, segments_at_least(shared.config)),
               .max_part = shared.config.segment_bytes}),
      ids_(random_),
      nodes_(loop_, clock_, random_, shared.addresses, shared.registry, {},
             shared.credentials->nodes(shared.config)),
      cache_(cache_bytes),
      ops_{.nodes = nodes_,
           .clock = clock_,
           .random = random_,
           .ids = ids_,
           .map = shared.map,
           .pools = shared.pools,
           .cache = cache_,
           .locks = locks_,
           .memory = memory_,
           .background = background_,
           .settings = shared.config.ops,
           .counters = {},
           .head_floors = {}} {
  nodes_.follow(shared.map, shared.resolver);
}

void FlowEnvironment::cancel_all() {
  nodes_.cancel_all();
  clock_.cancel_all();
}

}  // namespace elastripe
