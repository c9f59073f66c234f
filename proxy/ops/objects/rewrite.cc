#include "proxy/ops/objects/rewrite.h"

#include <algorithm>

#include "proxy/async/when_all.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/overlay.h"
#include "proxy/ops/objects/patch_segment.h"
#include "proxy/ops/objects/prepare.h"
#include "proxy/ops/records/read_tail.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::objects {

using node::Segment;
using records::CommitResult;
using records::CommitStatus;

namespace {

// What a segment that is inserted is next to: it is coded as that one is.
size_t neighbour_of(const SegmentChange& change) {
  return change.count > 0 || change.first == 0 ? change.first : change.first - 1;
}

bool has_length_of(const SegmentChange& change, const std::vector<Segment>& table) {
  return change.count == 1 && table[change.first].length == change.length;
}

class Rewriting {
 public:
  Rewriting(OpsContext& ops, MapPtr map, Rewrite rewrite)
      : ops_(ops),
        map_(std::move(map)),
        key_(rewrite.key),
        record_(std::move(rewrite.record)),
        log_(std::move(rewrite.log)),
        given_(std::move(rewrite.given)),
        changes_(std::move(rewrite.changes)),
        keeps_marks_(rewrite.keeps_marks),
        cas_(rewrite.cas),
        staged_(std::make_shared<StagedObject>()),
        made_(changes_.size()) {
    uint64_t begin = 0;
    begins_.reserve(table().size());
    for (const Segment& segment : table()) {
      begins_.push_back(begin);
      begin += segment.length;
      next_number_ = std::max(next_number_, segment.number + 1);
    }
    staged_->key = key_;
    staged_->scheme = record_->content.scheme;
    staged_->degraded_writes = ops.pools.pool_of(key_).degraded_writes;
  }

  Task<Result<std::optional<CommitResult>>> run(TimePoint& deadline) {
    auto homes = records::check_homes(ops_, *map_, key_);
    if (!homes) co_return fail(homes.error());
    auto result = co_await stage_and_commit(deadline);
    staged_->let_go();
    const bool is_committed = result && result->status == CommitStatus::kCommitted;
    const bool is_unknown = !result && result.error().code == ErrorCode::kUnknownOutcome &&
                            !mutant(Mutant::kAbandonUnknown);
    // Nothing will ever refer to these shards.
    if (!is_committed && !is_unknown) {
      (void)ops_.background.try_spawn(abandon(ops_, staged_));
      for (const Made& made : made_) drop_patch(made);
    }
    if (!result && result.error().code == ErrorCode::kNotFound) {
      co_return co_await again_unless_same(result.error(), deadline);
    }
    if (!result) co_return fail(result.error());
    // Most of them are in the new table, too (rule 31).
    if (!mutant(Mutant::kUpdateDropsAll)) result->superseded.clear();
    if (is_committed) delete_replaced();
    co_return std::move(*result);
  }

 private:
  const std::vector<Segment>& table() const { return record_->content.segments; }

  // What is to become of a change: a staged segment, or one that is patched.
  struct Made {
    std::optional<size_t> staged;
    std::optional<SegmentPatch> patch;
  };

  Task<Result<CommitResult>> stage_and_commit(TimePoint& deadline) {
    staged_->segments.reserve(changes_.size());
    for (size_t i = 0; i < changes_.size(); ++i) {
      if (can_be_patched(changes_[i])) continue;
      auto written = co_await write(i, deadline);
      if (!written) co_return fail(written.error());
    }
    const TimePoint began = ops_.clock.now();
    auto patched = co_await patch_others(deadline);
    if (!patched) co_return fail(patched.error());
    auto prepared = co_await prepare(ops_, map_, staged_, deadline);
    if (!prepared) co_return fail(prepared.error());
    // What nodes acknowledged longer ago they may have lost since (rule 6a).
    if (ops_.clock.now() - began > kAcknowledgedLately) {
      for (size_t i = 0; i < changes_.size(); ++i) {
        if (!made_[i].patch) continue;
        auto written = co_await write(i, deadline);
        if (!written) co_return fail(written.error());
      }
      prepared = co_await prepare(ops_, map_, staged_, deadline);
      if (!prepared) co_return fail(prepared.error());
    }
    for (RecordPtr current = record_;;) {
      records::Commit commit = commit_of(*current);
      auto result = co_await records::commit(ops_, map_, commit, deadline);
      const bool is_refused = result && result->status == CommitStatus::kConditionFailed;
      if (!is_refused || ops_.clock.now() >= deadline) co_return result;
      if (ops_.clock.now() - began > kAcknowledgedLately) co_return result;  // as above
      if (!may_go_on(*current, result->record)) co_return result;
      current = std::move(result->record);
    }
  }

  // More than half of a segment is written as fast as it is patched.
  bool can_be_patched(const SegmentChange& change) const {
    if (!has_length_of(change, table()) || is_in_place(ops_.pools.pool_of(key_).updates)) {
      return false;
    }
    const Segment& segment = table()[change.first];
    const uint64_t logged =
        bytes_over(log_.get(), begins_[change.first], segment.length, segment.folded_lsn);
    return 2 * (change.given.length + logged) <= segment.length;
  }

  Task<Result<void>> patch_others(TimePoint& deadline) {
    const node::Id128 txid = ops_.ids.next();
    std::vector<size_t> tried;
    std::vector<Task<Result<PatchEnd>>> patches;
    tried.reserve(changes_.size());
    patches.reserve(changes_.size());
    for (size_t i = 0; i < changes_.size(); ++i) {
      if (made_[i].staged) continue;
      const Segment& segment = table()[changes_[i].first];
      auto pieces = pieces_of(changes_[i]);
      if (!pieces) co_return fail(pieces.error());
      SegmentPatch& patch = made_[i].patch.emplace(SegmentPatch{
          std::string(key_), staged_->scheme, segment, segment, begins_[changes_[i].first]});
      patch.after.folded_lsn = 0;  // the new value has no log
      tried.push_back(i);
      patches.push_back(patch_segment(ops_, map_, patch, std::move(*pieces), txid, deadline));
    }
    const auto ends = co_await when_all(std::move(patches));
    for (size_t n = 0; n < ends.size(); ++n) {
      if (!ends[n]) co_return fail(ends[n].error());
      if (*ends[n] == PatchEnd::kPatched) continue;
      deadline = std::max(deadline, fresh_deadline(ops_));
      auto written = co_await write(tried[n], deadline);
      if (!written) co_return fail(written.error());
    }
    co_return Result<void>{};
  }

  // What changes of a segment: what is given, and what the log has beside it.
  Result<std::vector<Overlaid>> pieces_of(const SegmentChange& change) const {
    const Segment& segment = table()[change.first];
    const uint64_t begin = begins_[change.first];
    std::vector<Overlaid> pieces;
    if (log_ != nullptr) {
      auto logged = overlaid(begin, segment.length, segment.folded_lsn, *log_);
      if (!logged) return logged;
      pieces = std::move(*logged);
    }
    if (change.given.length == 0) return pieces;
    const uint64_t from = begin + change.given_at;
    const uint64_t to = from + change.given.length;
    std::vector<Overlaid> laid;
    laid.reserve(pieces.size() + 2);
    for (const auto& [offset, bytes] : pieces) {
      if (offset < from)
        laid.push_back({offset, bytes.first(std::min(bytes.size(), from - offset))});
    }
    laid.push_back(
        {from, ByteView(given_.bytes()).subspan(change.given.offset, change.given.length)});
    for (const auto& [offset, bytes] : pieces) {
      const uint64_t first = std::max(offset, to);
      if (first < offset + bytes.size()) laid.push_back({first, bytes.subspan(first - offset)});
    }
    return laid;
  }

  // They are not referred to, nor ever will be.
  void drop_patch(const Made& made) {
    if (made.patch) objects::drop_patch(ops_, *made.patch);
  }

  const Segment& made(size_t change) const {
    return made_[change].staged ? staged_->segments[*made_[change].staged].segment
                                : made_[change].patch->after;
  }

  Task<Result<void>> write(size_t index_of_change, TimePoint& deadline) {
    const SegmentChange& change = changes_[index_of_change];
    Made& made = made_[index_of_change];
    drop_patch(made);
    made.patch.reset();
    if (!staged_->segments.empty()) deadline = std::max(deadline, fresh_deadline(ops_));
    auto bytes = co_await bytes_of(change, deadline);
    if (!bytes) co_return fail(bytes.error());
    auto segment = staged_of(change);
    if (!segment) co_return fail(segment.error());
    StagedSegment& written = staged_->segments.emplace_back(std::move(*segment));
    written.data = std::move(*bytes);
    const size_t index = staged_->segments.size() - 1;
    made.staged = index;
    auto prepared = co_await prepare_segment(ops_, map_, staged_, index, deadline);
    // One at a time is in memory: what is missing later is made again from the shards.
    if (changes_.size() > 1) staged_->segments[index].let_go();
    co_return prepared;
  }

  Result<StagedSegment> staged_of(const SegmentChange& change) {
    const Segment& neighbour = table()[neighbour_of(change)];
    if (has_length_of(change, table())) return replacement_of(neighbour, ops_.ids.next());
    auto staged = new_segment(staged_->scheme, neighbour.state, change.length, ops_.ids.next());
    if (staged) staged->segment.number = change.count > 0 ? neighbour.number : next_number_++;
    return staged;
  }

  Task<Result<Buffer>> bytes_of(const SegmentChange& change, TimePoint deadline) {
    const Buffer given = given_.slice(change.given.offset, change.given.length);
    if (given.size() == change.length) co_return given;
    Buffer whole;
    size_t at = change.kept_at;
    for (size_t i = change.first; i < change.first + change.count; ++i) {
      auto kept = co_await kept_bytes(i, deadline);
      if (!kept) co_return fail(kept.error());
      if (has_length_of(change, table())) {
        whole = std::move(*kept);
        break;
      }
      if (whole.empty()) whole = Buffer::allocate(change.length);
      std::ranges::copy(kept->bytes(), whole.mutable_data() + at);
      at += kept->size();
    }
    std::ranges::copy(given.bytes(), whole.mutable_data() + change.given_at);
    co_return whole;
  }

  Task<Result<Buffer>> kept_bytes(size_t index, TimePoint deadline) {
    const Segment& segment = table()[index];
    auto read = co_await read_segment(ops_, map_, staged_->scheme, SegmentPtr(record_, &segment),
                                      {0, segment.length}, nullptr, deadline);
    if (!read) co_return fail(read.error());
    if (read->is_degraded && !std::exchange(is_degraded_, true)) ++ops_.counters.degraded_reads;
    auto laid =
        lay_over(read->bytes.mutable_bytes(), begins_[index], segment.folded_lsn, log_.get());
    if (!laid) co_return fail(laid.error());
    co_return std::move(read->bytes);
  }

  records::Commit commit_of(const node::Record& current) const {
    records::Commit commit;
    commit.key = key_;
    commit.condition = node::Condition::kIfVersion;
    commit.condition_argument = current.meta.version;
    commit.known_version = current.meta.version;
    // Known before the first shard was written: a fence since then refuses it (rule 7).
    commit.base_version = record_->meta.version;
    commit.made_of_cas = cas_with(*record_, log_);
    commit.content = current.content;
    if (!keeps_marks_) commit.content.marks = 0;
    commit.content.cas = cas_;
    commit.content.cas_since = 0;
    commit.content.segments = table_with(current.content.segments);
    commit.content.size = 0;
    for (const Segment& segment : commit.content.segments) commit.content.size += segment.length;
    return commit;
  }

  // The new segments in the places of the old ones, and between the others.
  std::vector<Segment> table_with(const std::vector<Segment>& current) const {
    std::vector<Segment> segments;
    segments.reserve(current.size() + changes_.size());
    auto next = current.begin();
    for (size_t i = 0; i < changes_.size(); ++i) {
      const auto first = current.begin() + static_cast<ptrdiff_t>(changes_[i].first);
      segments.insert(segments.end(), next, first);
      segments.push_back(made(i));
      next = first + static_cast<ptrdiff_t>(changes_[i].count);
    }
    segments.insert(segments.end(), next, current.end());
    return segments;
  }

  // Whether what was staged is still right under a newer record: a touch, a repair or a fold has
  // come between, and the segments that are replaced are as they were. One that is new stays like
  // its neighbour: a transition takes both or none.
  bool may_go_on(const node::Record& current, const RecordPtr& newest) const {
    if (newest == nullptr || !newest->is_striped() || !is_live_now(ops_, *map_, *newest))
      return false;
    // Then it is the log that has changed.
    if (newest->meta.version == current.meta.version) return false;
    if (newest->meta.value_version != record_->meta.value_version) return false;
    const auto& segments = newest->content.segments;
    if (segments.size() != table().size()) return false;
    for (size_t i = 0; i < changes_.size(); ++i) {
      const SegmentChange& change = changes_[i];
      const auto begin = static_cast<ptrdiff_t>(change.first);
      const auto end = begin + static_cast<ptrdiff_t>(change.count);
      if (!std::equal(segments.begin() + begin, segments.begin() + end, table().begin() + begin)) {
        return false;
      }
      if (segments[neighbour_of(change)].state != made(i).state) return false;
    }
    return true;
  }

  // Shards of an object that was overwritten since are gone, too.
  Task<Result<std::optional<CommitResult>>> again_unless_same(Error missing, TimePoint deadline) {
    const auto tail = co_await records::try_read_tail(ops_, map_, key_, /*if_version=*/0, deadline);
    if (!tail) co_return fail(tail.error());
    const bool is_same = tail->record != nullptr && tail->record->content.segments == table();
    if (is_same) co_return fail(ErrorCode::kLost, "object lost: {}", missing.message);
    co_return std::nullopt;
  }

  void delete_replaced() {
    std::vector<Segment> replaced;
    replaced.reserve(table().size());
    for (size_t i = 0; i < changes_.size(); ++i) {
      if (made_[i].patch) {
        delete_patched(ops_, made_[i].patch->old_shards());
        continue;
      }
      const SegmentChange& change = changes_[i];
      const auto first = table().begin() + static_cast<ptrdiff_t>(change.first);
      replaced.insert(replaced.end(), first, first + static_cast<ptrdiff_t>(change.count));
    }
    delete_after_grace(ops_, shards_by_node(staged_->scheme, replaced));
  }

  OpsContext& ops_;
  const MapPtr map_;
  const std::string_view key_;
  const RecordPtr record_;
  const LogViewPtr log_;
  const Buffer given_;
  const std::vector<SegmentChange> changes_;
  const bool keeps_marks_;
  const uint64_t cas_;
  const StagedPtr staged_;
  std::vector<Made> made_;        // by change
  std::vector<uint64_t> begins_;  // of the record's segments, in the object
  uint32_t next_number_ = 0;      // that no segment has
  bool is_degraded_ = false;
};

}  // namespace

void add_logged(Rewrite& rewrite) {
  const auto& segments = rewrite.record->content.segments;
  const std::vector<SegmentChange> given = std::move(rewrite.changes);
  rewrite.changes = {};
  auto next = given.begin();
  size_t replaced = 0;  // all before it are
  uint64_t begin = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    for (; next != given.end() && next->first == i; ++next) {
      replaced = next->first + next->count;
      rewrite.changes.push_back(*next);
    }
    const Segment& segment = segments[i];
    if (i >= replaced && has_over(rewrite.log.get(), begin, segment.length, segment.folded_lsn)) {
      rewrite.changes.push_back({.first = i, .length = segment.length});
    }
    begin += segment.length;
  }
  rewrite.changes.insert(rewrite.changes.end(), next, given.end());
}

uint64_t memory_of(const node::RecordContent& content, const std::vector<SegmentChange>& changes) {
  const auto codec = coding::codec_for(content.scheme);
  if (!codec) return 0;
  uint64_t most = 0;
  for (const SegmentChange& change : changes) {
    const auto geometry = coding::SegmentGeometry::make(**codec, change.length);
    if (!geometry) continue;
    uint64_t bytes = change.length;
    bytes += content.scheme.m *
             geometry->parity_shard_bytes(content.segments[neighbour_of(change)].state);
    uint64_t joined = 0;
    for (size_t i = change.first; i < change.first + change.count; ++i) {
      joined = std::max<uint64_t>(joined, content.segments[i].length);
    }
    most = std::max(most, bytes + (has_length_of(change, content.segments) ? 0 : joined));
  }
  return most;
}

Task<Result<std::optional<CommitResult>>> rewrite_segments(OpsContext& ops, MapPtr map,
                                                           Rewrite rewrite, TimePoint& deadline) {
  Rewriting rewriting(ops, std::move(map), std::move(rewrite));
  co_return co_await rewriting.run(deadline);
}

uint64_t cas_with(const node::Record& record, const LogViewPtr& log) {
  return node::cas_of(record, log == nullptr ? 0 : log->image.last);
}

}  // namespace elastripe::objects
