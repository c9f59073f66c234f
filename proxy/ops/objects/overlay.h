// What of an object's bytes lies in its update log goes over those that come from its shards.
#pragma once

#include <vector>

#include "proxy/base/error.h"
#include "proxy/cluster/record_chain.h"

namespace elastripe::objects {

// `bytes` are those of the object from `offset` on, as the shards of a segment have them, that has
// all updates up to `folded_lsn`. kLost: an update does not match its checksum.
Result<void> lay_over(MutableByteView bytes, uint64_t offset, uint64_t folded_lsn,
                      const LogView* log);

// Bytes of the log that the shards of a segment lack, for a range of the object; they lie in the
// log.
struct Overlaid {
  uint64_t offset = 0;  // in the object
  ByteView bytes;
};
// Ascending, disjoint: the newest of each place. kLost as above.
Result<std::vector<Overlaid>> overlaid(uint64_t offset, uint64_t length, uint64_t folded_lsn,
                                       const LogView& log);

// How many bytes the log has of [offset, offset + length) that the segment's shards lack, some of
// them perhaps more than once.
uint64_t bytes_over(const LogView* log, uint64_t offset, uint64_t length, uint64_t folded_lsn);
inline bool has_over(const LogView* log, uint64_t offset, uint64_t length, uint64_t folded_lsn) {
  return bytes_over(log, offset, length, folded_lsn) > 0;
}

}  // namespace elastripe::objects
