// Pools: key prefixes and how their objects are stored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coding/scheme.h"

namespace elastripe {

struct Pool {
  std::string prefix;  // of its keys; empty for the default pool
  coding::Scheme scheme;
  uint32_t inline_max_bytes = 16 << 10;  // objects up to this live whole in their record
  uint32_t segment_bytes = 4 << 20;
  bool degraded_writes = false;
};

// Immutable after construction; one pool has the empty prefix.
class PoolTable {
 public:
  explicit PoolTable(std::vector<Pool> pools);

  // The pool with the longest prefix of the key.
  const Pool& pool_of(std::string_view key) const;
  const std::vector<Pool>& pools() const { return pools_; }
  int max_parities() const;  // M: the largest m of any pool

 private:
  std::vector<Pool> pools_;  // longest prefix first
};

}  // namespace elastripe
