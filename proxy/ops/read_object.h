// Reading the bytes of a striped record: data shards, and around missing ones (degraded read).
#pragma once

#include <vector>

#include "proxy/cluster/record_cache.h"
#include "proxy/ops/outcome.h"
#include "proxy/ops/shards.h"

namespace elastripe {

struct ObjectBytes {
  std::vector<Buffer> segments;  // verified against the record's checksums
  bool is_degraded = false;
};

// All segments of `record`, at once. `hold` stays with their buffers.
// Errors: kStaleEpoch: the map is over. kNotFound: more shards are missing than the code makes up
// for, and for good; the record may be superseded: read it again. kUnavailable: the same, but some
// of them only do not answer. kLost: a checksum does not match.
Task<Result<ObjectBytes>> read_object(OpsContext& ops, MapPtr map, RecordPtr record,
                                      MemoryHold hold, TimePoint deadline);

}  // namespace elastripe
