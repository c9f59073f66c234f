// GET with the record that the value was read under: for flows that change what they read.
#pragma once

#include "proxy/cluster/record_cache.h"
#include "proxy/ops/outcome.h"

namespace elastripe {

struct VersionedRead {
  RecordPtr record;  // null: there is none; may be a tombstone or expired
  std::vector<Buffer> value;
  ReadPath path = ReadPath::kInline;
};

// The newest committed record and, unless it is dead at ops.clock.unix_ms(), its bytes.
Task<Result<VersionedRead>> read_versioned(OpsContext& ops, std::string key, TimePoint deadline);

}  // namespace elastripe
