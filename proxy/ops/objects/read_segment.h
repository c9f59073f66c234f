// Reading the bytes of one segment: from its data shards, and around missing ones (degraded read).
#pragma once

#include <memory>

#include "proxy/ops/context.h"
#include "proxy/ops/objects/value.h"
#include "proxy/ops/shards.h"

namespace elastripe::objects {

// A segment of a record or of an object being written, which it keeps alive.
using SegmentPtr = std::shared_ptr<const node::Segment>;

struct SegmentBytes {
  Buffer bytes;
  bool is_degraded = false;
};

// The bytes of `range` (within the segment, not empty). `hold` stays with their buffer; what a
// degraded read takes beyond them is ops.memory.decoded's. Only the shards that have some of them
// are asked; a whole segment is verified against its checksum, the pages of a part are verified by
// the nodes. Shards that are late (OpsSettings::hedge_after, Hedging) are decoded from parities, if
// as few are late or missing as the code makes up for; what comes first counts. Errors:
// kStaleEpoch: the map is over. kNotFound: more shards are missing than the code makes up for, and
// for good; the record may be superseded: read it again. kUnavailable: the same, but some of them
// only do not answer. kLost: a checksum does not match.
Task<Result<SegmentBytes>> read_segment(OpsContext& ops, MapPtr map, coding::Scheme scheme,
                                        SegmentPtr segment, ByteRange range, MemoryHold hold,
                                        TimePoint deadline, Duration* waited = nullptr);

}  // namespace elastripe::objects
