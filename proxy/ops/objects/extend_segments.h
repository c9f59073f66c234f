// append and prepend of a striped object: new segments come behind or before the others, which stay
// as they are.
#pragma once

#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/objects/rewrite.h"

namespace elastripe::objects {

struct Extension {
  std::string_view key;  // outlives the flow
  Buffer added;
  bool in_front = false;
  std::optional<uint64_t> cas = {};  // only if the value has this one
  uint64_t new_cas = 0;              // given to the new one; 0: none is
  // So many bytes are reserved for segments.
  uint64_t memory = 0;
};

enum class ExtensionEnd : uint8_t {
  kStored,
  kNotStored,  // there is no such object
  kExists,     // its cas is another one
  kChanged,    // others were faster
  // It is not striped, or will not be, or not as the pool says, or has too many segments: write all
  // of it again.
  kWhole,
};
struct ExtensionOutcome {
  ExtensionEnd end = ExtensionEnd::kStored;
  // Not 0: nothing was done, as it takes so much more than is reserved.
  uint64_t wanted_memory = 0;
  // kStored: of the value now, as in StoreOutcome.
  uint64_t cas = 0;
  uint64_t size = 0;
};

// One try at the newest value, under newer and newer maps. Errors: kTooLarge: it would be larger
// than an object may be; and those of rewrite_segments().
Task<Result<ExtensionOutcome>> extend_segments(OpsContext& ops, const Pool& pool,
                                               Extension extension, TimePoint deadline);

// What is to be written to add so many bytes to a striped object. Short segments at that
// end are joined with what is added while they fit in one, and are shorter than twice as much or
// than a 64th of the pool's segment_bytes. So each is at least twice as long as the one further
// out, or does not fit in one with it: few are short, and a byte is rarely written again, however
// little each change adds.
std::vector<SegmentChange> changes_of_extension(const Pool& pool,
                                                const node::RecordContent& content, uint64_t added,
                                                bool in_front);

}  // namespace elastripe::objects
