// GET with the record that the value was read under: for flows that go on with what they read.
#pragma once

#include "proxy/cluster/record_cache.h"
#include "proxy/ops/outcome.h"

namespace elastripe {

struct VersionedRead {
  RecordPtr record;      // null: there is none; may be a tombstone or expired
  bool is_live = false;  // decided once: the wall clock may step
  std::vector<Buffer> value;
  ReadPath path = ReadPath::kInline;
};

// The newest committed record and, if it is live, its bytes.
Task<Result<VersionedRead>> read_versioned(OpsContext& ops, std::string key, ReadMemory& memory,
                                           TimePoint deadline);

// The bytes of a record that is no tombstone, expired or not. `deadline` moves by the time that the
// read waits for memory. Errors: those of read_object and of the memory.
Task<Result<VersionedRead>> read_bytes(OpsContext& ops, MapPtr map, std::string key,
                                       RecordPtr record, ReadMemory& memory, TimePoint* deadline);

// What a client gets of a record that was live when it was read.
ReadOutcome found_object(VersionedRead read);

}  // namespace elastripe
