#include "server-patches/node/engine/mutation.h"

#include <algorithm>

#include "server-patches/node/format/counter.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::node {
namespace {

bool is_flushed(const Record& record, Moment now) {
  if (mutant(Mutant::kChangeFlushed)) return false;
  if (mutant(Mutant::kTouchRevives)) return record.meta.version <= now.flush_floor;
  return record.is_flushed(now.flush_floor);
}

bool is_live(const Record* current, Moment now) {
  return current != nullptr && !current->is_tombstone() && !current->is_expired(now.now_ms) &&
         !is_flushed(*current, now);
}

// Only a value that was made from the record's own is set if it has a certain version. A record
// that is gone was flushed or has expired, and the floor may be its version by chance.
bool is_made_of_dead(const RecordApplyRequest& request, const Record* current, Moment now) {
  return request.mutation == Mutation::kSet && (current == nullptr || is_flushed(*current, now)) &&
         !mutant(Mutant::kExtendFlushed);
}

RecordContent with_value(const RecordContent& old, std::string value) {
  RecordContent content = old;
  content.value = std::move(value);
  content.size = content.value.size();
  content.cas = content.cas_since = 0;
  return content;
}

std::expected<RecordContent, Status> concatenate(const RecordApplyRequest& request,
                                                 const RecordContent& old,
                                                 const RecordContent& given) {
  const size_t limit = std::min<size_t>(request.inline_max_bytes, kMaxInlineBytes);
  if (old.value.size() + given.value.size() > limit) return std::unexpected(Status::kTooLarge);
  RecordContent content =
      with_value(old, request.mutation == Mutation::kAppend ? old.value + given.value
                                                            : given.value + old.value);
  content.marks = given.marks;
  content.cas = given.cas;
  return content;
}

RecordContent marked(const RecordContent& old, const RecordContent& given) {
  RecordContent content = old;
  content.exptime = given.exptime;
  content.marks = given.marks;
  if (given.cas != 0) {
    content.cas = given.cas;
    content.cas_since = kNewCas;
  }
  return content;
}

// The same value in other shards: whatever the data says of itself stays.
bool is_reshaped(const RecordContent& old, const RecordContent& given) {
  return old.kind == RecordKind::kStriped && given.kind == RecordKind::kStriped &&
         old.scheme == given.scheme && old.size == given.size &&
         std::ranges::equal(old.segments, given.segments, [](const Segment& a, const Segment& b) {
           return a.data_txid == b.data_txid && a.number == b.number && a.length == b.length &&
                  a.block_bytes == b.block_bytes && a.crc32c == b.crc32c &&
                  a.folded_lsn == b.folded_lsn && a.placement.size() == b.placement.size();
         });
}

// The same value, more of it in the shards.
bool is_folded(const RecordContent& old, const RecordContent& given) {
  return old.kind == RecordKind::kStriped && given.kind == RecordKind::kStriped &&
         old.scheme == given.scheme && old.size == given.size &&
         std::ranges::equal(old.segments, given.segments, [](const Segment& a, const Segment& b) {
           return a.length == b.length && a.block_bytes == b.block_bytes &&
                  a.folded_lsn <= b.folded_lsn && a.placement.size() == b.placement.size();
         });
}

}  // namespace

std::optional<Status> check_condition(const RecordApplyRequest& request, const Record* current,
                                      uint64_t floor, uint64_t last_lsn, Moment now) {
  const bool live = is_live(current, now);
  // Every update that a client knows of is in the log of the head, too.
  const uint64_t cas =
      current == nullptr ? floor : cas_of(*current, mutant(Mutant::kCasIgnoresLog) ? 0 : last_lsn);
  const auto hold = [](bool holds) {
    return holds ? std::nullopt : std::optional(Status::kConditionFailed);
  };
  switch (request.condition) {
    case Condition::kAlways:
      return std::nullopt;
    case Condition::kIfVersion:
      return hold((current != nullptr ? current->meta.version : floor) ==
                      request.condition_argument &&
                  (request.made_of_cas == 0 || request.made_of_cas == cas) &&
                  !is_made_of_dead(request, current, now));
    case Condition::kIfAbsent:
      return hold(!live);
    case Condition::kIfPresent:
      return hold(live);
    case Condition::kIfValueVersion:
      if (!live) return Status::kNotFound;
      return hold(cas == request.condition_argument);
  }
  return Status::kInvalid;
}

std::expected<RecordContent, Status> mutate(const RecordApplyRequest& request,
                                            const Record* current, Moment now,
                                            RecordContent given) {
  if (request.mutation == Mutation::kSet) return given;
  if (request.mutation == Mutation::kFence) {
    return current != nullptr ? current->content : RecordContent{};
  }
  // Reclaim's delete of an expired record (rule 9): whoever names the version knows what it
  // deletes.
  const bool names_version = request.condition == Condition::kIfVersion;
  if (request.mutation == Mutation::kDelete && names_version && current != nullptr &&
      !current->is_tombstone()) {
    return RecordContent{};
  }
  if (!is_live(current, now)) return std::unexpected(Status::kNotFound);
  const RecordContent& old = current->content;
  if (request.mutation == Mutation::kDelete) return RecordContent{};
  if (request.mutation == Mutation::kTouch) {
    RecordContent content = old;
    content.exptime = given.exptime;
    return content;
  }
  if (request.mutation == Mutation::kMark) return marked(old, given);
  if (request.mutation == Mutation::kReshape || request.mutation == Mutation::kFold) {
    const bool fits =
        request.mutation == Mutation::kFold ? is_folded(old, given) : is_reshaped(old, given);
    if (!fits) return std::unexpected(Status::kConditionFailed);
    RecordContent content = old;
    content.segments = std::move(given.segments);
    return content;
  }
  if (old.kind != RecordKind::kInline) return std::unexpected(Status::kNotInline);
  if (request.mutation == Mutation::kAppend || request.mutation == Mutation::kPrepend) {
    return concatenate(request, old, given);
  }
  auto sum = add_delta(old.value, request.mutation == Mutation::kIncrement, request.delta);
  if (!sum) return std::unexpected(Status::kNotNumber);
  return with_value(old, std::move(sum->text));
}

void name_given_cas(RecordContent& content, uint64_t version) {
  if (content.cas_since != kNewCas) return;
  content.cas_since = version;
  if (content.cas == kNewCas) content.cas = version;
}

bool changes_value(Mutation mutation) {
  return mutation != Mutation::kTouch && mutation != Mutation::kFence &&
         mutation != Mutation::kReshape && mutation != Mutation::kFold &&
         mutation != Mutation::kMark;
}

}  // namespace elastripe::node
