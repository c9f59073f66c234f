// Rewrite: a striped object some of whose segments are written again, under fresh names, or that
// gets more of them. Where a small part of a segment changes, its nodes make the new shards out of
// the old ones (patch_segment.h). The record's commit takes them in place of the old ones, whose
// shards are deleted after a grace. So readers meet the old value or the new one, over any number
// of segments, and the other segments are not touched.
#pragma once

#include <optional>
#include <vector>

#include "proxy/ops/objects/value.h"
#include "proxy/ops/records/commit.h"

namespace elastripe::objects {

// A segment that is written: in the place of neighbours, with their bytes and what the log has for
// them, or between two.
struct SegmentChange {
  size_t first = 0;  // of those that it replaces, in the record's table; or before which it comes
  size_t count = 1;  // of those that it replaces
  uint32_t length = 0;
  uint32_t kept_at = 0;      // where their bytes begin in it
  ByteRange given = {0, 0};  // of the bytes that are given
  uint32_t given_at = 0;     // where these begin in it, over the others
};

struct Rewrite {
  std::string_view key;  // outlives the rewrite
  RecordPtr record;      // striped; what the tail has
  LogViewPtr log;        // all of it; null: there is none
  Buffer given;
  std::vector<SegmentChange> changes;  // in the order of the value
  bool keeps_marks = false;
  uint64_t cas = 0;  // given by the client; 0: none is
};

// Has the rewrite take along what it has to: the value gets another version, so its log goes away.
void add_logged(Rewrite& rewrite);

// What a rewrite takes of memory beside the bytes that are given: one segment after the other, with
// its parities, and of several that are joined one after the other.
uint64_t memory_of(const node::RecordContent& content, const std::vector<SegmentChange>& changes);

// One try under `map`, if `record` is the newest but for touches, repairs and the like, and nothing
// was added to the log since. Nothing: its shards are gone, so there is a newer one. `deadline`
// moves with each segment. An object that is read around missing shards counts as a degraded read.
// Errors: those of read_segment, prepare and commit; kLost: too many
// shards are gone.
Task<Result<std::optional<records::CommitResult>>> rewrite_segments(OpsContext& ops, MapPtr map,
                                                                    Rewrite rewrite,
                                                                    TimePoint& deadline);

// cas_of() the record, of which its log is known.
uint64_t cas_with(const node::Record& record, const LogViewPtr& log);

}  // namespace elastripe::objects
