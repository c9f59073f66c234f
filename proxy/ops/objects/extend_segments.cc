#include "proxy/ops/objects/extend_segments.h"

#include <algorithm>

#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/prepare.h"
#include "proxy/ops/objects/put.h"
#include "proxy/ops/records/read_tail.h"

namespace elastripe::objects {

using node::Segment;

namespace {

constexpr uint32_t kShortest = 64;  // of them make a segment

class ExtendSegments {
 public:
  ExtendSegments(OpsContext& ops, const Pool& pool, Extension extension)
      : ops_(ops), pool_(pool), extension_(std::move(extension)) {}

  Task<Result<ExtensionOutcome>> run(TimePoint deadline) {
    return under_newest_map(ops_, deadline, [this](const MapPtr& map, TimePoint& until) {
      return attempt(map, until);
    });
  }

 private:
  Task<Result<ExtensionOutcome>> attempt(MapPtr map, TimePoint& deadline) {
    const std::string_view key = extension_.key;
    const RecordPtr known = ops_.cache.find(key);
    auto tail = co_await records::try_read_updated(ops_, map, key,
                                                   known == nullptr ? 0 : known->meta.version,
                                                   /*offset=*/0, UINT64_MAX, deadline);
    if (!tail) co_return fail(tail.error());
    const RecordPtr record = tail->same ? known : tail->record;
    if (record == nullptr || !is_live_now(ops_, *map, *record)) {
      co_return ExtensionOutcome{ExtensionEnd::kNotStored};
    }
    const uint64_t cas = cas_of(key, node::cas_of(*record, tail->last_lsn()));
    if (extension_.cas && *extension_.cas != cas) {
      co_return ExtensionOutcome{ExtensionEnd::kExists};
    }
    const uint64_t size = record->content.size + extension_.added.size();
    if (size > ops_.settings.max_object_bytes) {
      co_return fail(ErrorCode::kTooLarge, "object too large for cache");
    }
    // Segments of one scheme may be too long for another one, whose shards are larger.
    const bool stays_as_it_is = record->is_striped() && record->content.scheme == pool_.scheme &&
                                storage_of(pool_, size) == Storage::kStriped;
    if (!stays_as_it_is) co_return ExtensionOutcome{ExtensionEnd::kWhole};
    Rewrite rewrite{.key = key,
                    .record = record,
                    .log = tail->log,
                    .given = extension_.added,
                    .changes = changes_of_extension(pool_, record->content, extension_.added.size(),
                                                    extension_.in_front),
                    .cas = extension_.new_cas};
    if (record->content.segments.size() + rewrite.changes.size() >
        most_segments(record->content.scheme)) {
      co_return ExtensionOutcome{ExtensionEnd::kWhole};
    }
    add_logged(rewrite);
    const uint64_t memory = memory_of(record->content, rewrite.changes);
    if (memory > extension_.memory) {
      co_return ExtensionOutcome{.end = ExtensionEnd::kChanged, .wanted_memory = memory};
    }
    auto result = co_await rewrite_segments(ops_, map, std::move(rewrite), deadline);
    if (!result) co_return fail(result.error());
    if (*result) after_commit(ops_, key, **result);
    const bool is_stored = *result && (*result)->status == records::CommitStatus::kCommitted;
    if (!is_stored) co_return ExtensionOutcome{ExtensionEnd::kChanged};
    co_return ExtensionOutcome{
        .end = ExtensionEnd::kStored, .cas = cas_after(key, **result), .size = size};
  }

  OpsContext& ops_;
  const Pool& pool_;
  const Extension extension_;
};

}  // namespace

std::vector<SegmentChange> changes_of_extension(const Pool& pool,
                                                const node::RecordContent& content, uint64_t added,
                                                bool in_front) {
  const auto& segments = content.segments;
  size_t joined = 0;
  uint64_t length = added;
  for (; joined < segments.size(); ++joined) {
    const Segment& next = segments[in_front ? joined : segments.size() - 1 - joined];
    const bool is_short = next.length < 2 * length || next.length < pool.segment_bytes / kShortest;
    if (!is_short || length + next.length > pool.segment_bytes) break;
    length += next.length;
  }
  const size_t first = in_front ? 0 : segments.size() - joined;
  std::vector<SegmentChange> changes;
  if (joined > 0) {
    changes.push_back({.first = first,
                       .count = joined,
                       .length = static_cast<uint32_t>(length),
                       .kept_at = in_front ? static_cast<uint32_t>(added) : 0,
                       .given = {0, added},
                       .given_at = in_front ? 0 : static_cast<uint32_t>(length - added)});
    return changes;
  }
  // The shortest is the outermost.
  const uint64_t rest = added % pool.segment_bytes;
  changes.reserve(added / pool.segment_bytes + 1);
  for (uint64_t at = 0; at < added;) {
    uint64_t part = std::min<uint64_t>(pool.segment_bytes, added - at);
    if (in_front && at == 0 && rest > 0) part = rest;
    changes.push_back(
        {.first = first, .count = 0, .length = static_cast<uint32_t>(part), .given = {at, part}});
    at += part;
  }
  return changes;
}

Task<Result<ExtensionOutcome>> extend_segments(OpsContext& ops, const Pool& pool,
                                               Extension extension, TimePoint deadline) {
  ExtendSegments extending(ops, pool, std::move(extension));
  co_return co_await extending.run(deadline);
}

}  // namespace elastripe::objects
