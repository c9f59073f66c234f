#include "proxy/main/flow_environment.h"

#include <algorithm>

namespace elastripe {
namespace {

using std::chrono::milliseconds;

PoolTable pools_of(const Config& config) {
  std::vector<Pool> pools;
  pools.reserve(config.pools.size());
  for (const PoolConfig& pool : config.pools) {
    pools.push_back({.prefix = pool.prefix,
                     .scheme = pool.scheme,
                     .inline_max_bytes = pool.inline_max_bytes,
                     .segment_bytes = config.segment_bytes,
                     .degraded_writes = pool.degraded_writes});
  }
  return PoolTable(std::move(pools));
}

Ring ring_of(const Config& config) {
  std::vector<std::string> names;
  names.reserve(config.nodes.size());
  for (const NodeConfig& node : config.nodes) names.push_back(node.name);
  return Ring(names, config.partitions);
}

OpsSettings settings_of(const Config& config) {
  const TimingConfig& timing = config.timing;
  return {.max_object_bytes = config.max_object_bytes,
          .request_timeout = milliseconds(timing.request_timeout_ms),
          .node_timeout = milliseconds(timing.node_timeout_ms()),
          .hedge_after = milliseconds(timing.hedge_after_ms),
          .read_grace = milliseconds(timing.read_grace_ms),
          .upload_idle = milliseconds(timing.upload_idle_ms),
          .tombstone_keep = milliseconds(timing.tombstone_keep_ms)};
}

// What each thread has at least: a segment with parities.
uint64_t segments_at_least(const Config& config) { return uint64_t{2} * config.segment_bytes; }

// What degraded reads of a thread may decode at the same time, in segments: enough to keep it busy
// while their shards come.
constexpr uint64_t kDecodedSegments = 8;

}  // namespace

ProxyShared::ProxyShared(Config config_in, std::vector<NodeAddress> addresses_in,
                         uint32_t threads_in)
    : config(std::move(config_in)),
      addresses(std::move(addresses_in)),
      threads(threads_in),
      proxy_id(fmt::format("{:016x}", SystemRandom().next())),
      pools(pools_of(config)),
      ring(ring_of(config)),
      stats(registry, threads) {}

FlowEnvironment::FlowEnvironment(ProxyShared& shared, uint64_t staged_bytes, uint64_t cache_bytes,
                                 uint64_t read_bytes)
    : clock_(loop_),
      read_bytes_(std::max(read_bytes, segments_at_least(shared.config)),
                  shared.config.segment_bytes),
      ids_(random_),
      nodes_(loop_, clock_, shared.addresses, shared.registry),
      cache_(cache_bytes),
      staged_bytes_(std::max(staged_bytes, segments_at_least(shared.config))),
      rebuild_bytes_(segments_at_least(shared.config)),
      decode_bytes_(kDecodedSegments * shared.config.segment_bytes),
      ops_{.nodes = nodes_,
           .clock = clock_,
           .random = random_,
           .ids = ids_,
           .map = shared.map,
           .ring = shared.ring,
           .pools = shared.pools,
           .cache = cache_,
           .locks = locks_,
           .staged_bytes = staged_bytes_,
           .rebuild_bytes = rebuild_bytes_,
           .decode_bytes = decode_bytes_,
           .read_bytes = read_bytes_,
           .background = background_,
           .settings = settings_of(shared.config),
           .counters = {},
           .head_floors = {}} {}

void FlowEnvironment::cancel_all() {
  nodes_.cancel_all();
  clock_.cancel_all();
}

}  // namespace elastripe
