// OpsContext: what every flow works with. One per worker (and one for the control thread); the
// simulator makes its own. Everything it refers to outlives the flows.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "proxy/async/clock.h"
#include "proxy/async/key_locks.h"
#include "proxy/async/scope.h"
#include "proxy/async/semaphore.h"
#include "proxy/cluster/map_view.h"
#include "proxy/cluster/node_client.h"
#include "proxy/cluster/placement.h"
#include "proxy/cluster/pool.h"
#include "proxy/cluster/record_cache.h"
#include "proxy/cluster/ring.h"
#include "proxy/ops/read_memory.h"

namespace elastripe {

// Fresh names: unique over all workers and proxies, since `hi` is random for each source.
class IdSource {
 public:
  explicit IdSource(Random& random) : hi_(random.next()), lo_(random.next()) {}
  node::Id128 next() { return {hi_, ++lo_}; }

 private:
  uint64_t hi_;
  uint64_t lo_;
};

struct OpsSettings {
  uint64_t max_object_bytes = 64u << 20;
  Duration request_timeout = std::chrono::seconds(8);
  // One call to one node; shorter than the request, so that a flow can go on after a node's death.
  Duration node_timeout = std::chrono::seconds(2);
  // A shard that has not come for so long, and for much longer than the others took, is done
  // without if parities make up for it.
  Duration hedge_after = std::chrono::milliseconds(100);
  Duration read_grace = std::chrono::seconds(10);
  Duration upload_idle = std::chrono::seconds(30);
  Duration tombstone_keep = std::chrono::seconds(60);
};

// What flows count; the proxy shows them as metrics (proxy/admin/ops_metrics.h), the simulator in
// its report. Owned by one thread.
struct OpsCounters {
  uint64_t degraded_reads = 0;    // objects read through missing shards
  uint64_t degraded_writes = 0;   // commits with fewer homes or shards than the scheme has
  uint64_t unknown_outcomes = 0;  // operations that ended with kUnknownOutcome
  uint64_t commit_conflicts =
      0;                    // values prepared again, since another writer or a fence came first
  uint64_t reprepares = 0;  // values prepared again, since the map changed before the commit
  uint64_t key_syncs = 0;   // keys that were synced by themselves
  uint64_t partition_syncs = 0;
  uint64_t records_mended = 0;  // of which a copy was damaged
  uint64_t fences = 0;
  uint64_t reclaimed_shards = 0;   // by reclaim; deletions after a grace are not counted
  uint64_t reclaimed_records = 0;  // expired ones, and tombstones
};

struct DeferredDeletion;  // proxy/ops/shards.cc

struct OpsContext {
  NodeClient& nodes;
  Clock& clock;
  Random& random;
  IdSource& ids;
  MapView& map;
  const Ring& ring;
  const PoolTable& pools;
  RecordCache& cache;
  KeyLocks& locks;
  // Segments on their way into shards. Who waits for it holds neither the lock of a key nor memory
  // that is not let go by itself.
  Semaphore& staged_bytes;
  // The same for who may hold these: segments that are rebuilt or written again, and values derived
  // from others. Who has some of it waits for nodes only.
  Semaphore& rebuild_bytes;
  // Parities, and of a part all of its segment, while a degraded read decodes. Who has some of it
  // waits for nodes only, and for no other memory.
  Semaphore& decode_bytes;
  ReadBudget& read_bytes;  // object bytes on their way to clients
  Scope& background;       // deletions after a grace, and the like
  OpsSettings settings;
  OpsCounters counters;
  // Version floors of partitions as *heads* told them: every version that a head assigns later is
  // above, so they are a safe base (rule 7) for a key without a record. A tail's floor would not
  // be.
  std::unordered_map<size_t, uint64_t> head_floors{};
  // What the next superseded shards join; null or expired: they start another.
  std::weak_ptr<DeferredDeletion> next_deletion{};
};

}  // namespace elastripe
