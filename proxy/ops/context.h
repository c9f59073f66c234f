// OpsContext: what every flow works with. One per worker (and one for the control thread); the
// simulator makes its own. Everything it refers to outlives the flows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "proxy/async/clock.h"
#include "proxy/async/key_locks.h"
#include "proxy/async/scope.h"
#include "proxy/cluster/ask.h"
#include "proxy/cluster/map_view.h"
#include "proxy/cluster/placement.h"
#include "proxy/cluster/pool.h"
#include "proxy/cluster/record_cache.h"
#include "proxy/ops/counters.h"
#include "proxy/ops/hedging.h"
#include "proxy/ops/log_room.h"
#include "proxy/ops/memory_budgets.h"
#include "proxy/ops/settings.h"
#include "proxy/ops/settling.h"
#include "proxy/ops/storing.h"

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

struct DeferredDeletion;  // proxy/ops/shards.cc

struct OpsContext {
  NodeClient& nodes;
  Clock& clock;
  Random& random;
  IdSource& ids;
  MapView& map;
  const PoolTable& pools;
  RecordCache& cache;
  KeyLocks& locks;
  MemoryBudgets& memory;
  Scope& background;  // deletions after a grace, and the like
  OpsSettings settings;
  OpsCounters counters;
  // Version floors of partitions as *heads* told them: every version that a head assigns later is
  // above, so they are a safe base (rule 7) for a key without a record. A tail's floor would not
  // be.
  std::unordered_map<size_t, uint64_t> head_floors{};
  // What the next superseded shards join; null or expired: they start another.
  std::weak_ptr<DeferredDeletion> next_deletion{};
  std::weak_ptr<DeferredDeletion> next_patched_deletion{};  // the same of patched shards
  Hedging hedging{};
  Settling settling{};
  Storing storing{};
  LogRoom log_room{};
};

}  // namespace elastripe
