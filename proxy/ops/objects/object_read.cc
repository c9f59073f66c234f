#include "proxy/ops/objects/object_read.h"

#include <algorithm>

#include "proxy/base/memory_pool.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/overlay.h"
#include "proxy/ops/records/log_copies.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::objects {

using node::Segment;

namespace {

// Segments that are read at the same time: one leaves while others arrive.
constexpr size_t kSegmentsAhead = 3;

// It goes on by itself when nobody waits for it any more.
Task<void> read_into(OpsContext& ops, MapPtr map, coding::Scheme scheme, SegmentPtr segment,
                     ByteRange range, MemoryHold hold, TimePoint deadline,
                     std::shared_ptr<ArrivingSegment> arriving) {
  auto bytes = co_await read_segment(ops, std::move(map), scheme, std::move(segment), range,
                                     std::move(hold), deadline, &arriving->waited);
  arriving->bytes.set(std::move(bytes));
}

// What a reader that only looks at data shards makes of a newer record (rule 26).
RecordPtr with_known_parities(RecordPtr record, const RecordPtr& known) {
  if (!mutant(Mutant::kIgnoreGeneration) || record == nullptr || known == nullptr) return record;
  const auto& segments = record->content.segments;
  const auto& others = known->content.segments;
  if (segments.size() != others.size() || segments.empty()) return record;
  const auto same_data = [&](const Segment& a, const Segment& b) {
    return has_same_data_shards(a, b, known->content.scheme);
  };
  if (!std::ranges::equal(segments, others, same_data)) return record;
  auto mixed = std::make_shared<node::Record>(*record);
  mixed->content.segments = others;
  return mixed;
}

// Whether what is read of the data shards of `known` is what `newest` refers to: all but the
// parities, which a transition replaces.
bool has_same_data(const node::Record& newest, const node::Record& known) {
  if (newest.meta.value_version != known.meta.value_version || !newest.is_striped() ||
      newest.content.scheme != known.content.scheme) {
    return false;
  }
  const auto same_but_parities = [&](const Segment& a, const Segment& b) {
    return a.length == b.length && a.block_bytes == b.block_bytes && a.crc32c == b.crc32c &&
           has_same_data_shards(a, b, known.content.scheme);
  };
  return std::ranges::equal(newest.content.segments, known.content.segments, same_but_parities);
}

}  // namespace

ObjectRead::ObjectRead(OpsContext& ops, std::string_view key, ReadMemory& memory, ByteRange range,
                       TimePoint deadline, records::Use use)
    : ops_(ops), key_(key), memory_(memory), wanted_(range), deadline_(deadline), use_(use) {}

Task<Result<void>> ObjectRead::open() {
  auto part = co_await read_part();
  if (!part) co_return fail(part.error());
  is_open_ = true;
  if (!part->empty()) first_ = std::move(*part);
  co_return Result<void>{};
}

Task<Result<void>> ObjectRead::open(RecordPtr record) {
  auto map = current_map(ops_);
  if (!map) co_return fail(map.error());
  record_ = std::move(record);
  map_ = std::move(*map);
  if (record_->is_striped() && records::may_have_log(*map_)) {
    // Only the tail knows what lies over its shards.
    auto tail = co_await records::try_read_updated(ops_, map_, key_, record_->meta.version,
                                                   wanted_.offset, wanted_.length, deadline_);
    if (!tail) co_return fail(tail.error());
    const RecordPtr newest = tail->same ? record_ : tail->record;
    if (newest == nullptr || newest->meta.value_version != record_->meta.value_version) {
      co_return co_await open();  // the log of that value is gone
    }
    record_ = newest;
    log_ = std::move(tail->log);
  }
  is_live_ = is_current_ = true;
  begin_reading(record_);
  co_return co_await open();
}

Object ObjectRead::object() const {
  const auto& content = record_->content;
  return {.flags = content.flags,
          .cas = cas_of(key_, cas()),
          .size = content.size,
          .range_bytes = range_.length,
          .exptime = content.exptime,
          .is_stale = content.has_mark(node::kStale),
          .win_is_taken = content.has_mark(node::kWinTaken),
          .was_used = used_before_.was_used,
          .idle_s = used_before_.idle_s};
}

Task<Result<Buffer>> ObjectRead::next() {
  if (first_) co_return *std::exchange(first_, std::nullopt);
  deadline_ = std::max(deadline_, fresh_deadline(ops_));
  co_return co_await read_part();
}

// Empty if there is nothing to read.
Task<Result<Buffer>> ObjectRead::read_part() { return is_current_ ? go_on() : read_newest(); }

// What is being read goes on under its map, even while the proxy serves none.
Task<Result<Buffer>> ObjectRead::go_on() {
  if (auto bytes = take_now()) co_return std::move(*bytes);
  auto part = co_await take_later();
  if (part && *part) co_return std::move(**part);
  if (!part) {
    auto again = co_await before_retry(ops_, map_, part.error(), deadline_);
    if (!again) co_return fail(again.error());
  }
  co_return co_await read_newest();
}

Task<Result<Buffer>> ObjectRead::read_newest() {
  return under_newest_map(ops_, deadline_, [this](const MapPtr& map, TimePoint& deadline) {
    return read_part_under(map, deadline);
  });
}

// Asks the tail, and beside that, should the record known here still be the newest, for its shards.
Task<Result<std::optional<Buffer>>> ObjectRead::read_part_under(const MapPtr& map,
                                                                TimePoint& deadline) {
  map_ = map;
  const RecordPtr known = known_record(*map);
  if (known != nullptr) {
    begin_reading(known);
    read_ahead();
  }
  const uint64_t version = known == nullptr ? 0 : known->meta.version;
  auto tail = co_await records::try_read_updated(ops_, map, key_, version, wanted_.offset,
                                                 wanted_.length, deadline_, use_);
  if (tail) use_ = records::Use::kNone;  // what comes later is the same use
  if (tail && tail->use) used_before_ = *tail->use;
  auto taken = tail ? take_newest(std::move(*tail), known) : fail(tail.error());
  if (!taken) {
    ahead_.clear();
    co_return fail(taken.error());
  }
  if (auto bytes = take_now()) co_return std::move(*bytes);
  auto part = co_await take_later();
  deadline = deadline_;
  co_return part;
}

// Null if none is known that may be the newest.
RecordPtr ObjectRead::known_record(const node::ClusterMap& map) {
  if (is_open_) return record_;
  RecordPtr known = ops_.cache.find(key_);
  return known != nullptr && is_live_now(ops_, map, *known) ? known : nullptr;
}

// Whether what the tail has is the value that was begun with. Its shards may be others, with more
// of the log in them.
bool ObjectRead::has_value_of(const records::TailRead& tail, const RecordPtr& newest) const {
  if (newest == nullptr || !newest->is_striped()) return false;
  if (mutant(Mutant::kMixVersions)) return newest->content.size == record_->content.size;
  return newest->meta.value_version == record_->meta.value_version &&
         node::last_change(*newest, tail.last_lsn()) ==
             node::last_change(*record_, log_ == nullptr ? 0 : log_->image.last);
}

Result<void> ObjectRead::take_newest(records::TailRead tail, const RecordPtr& known) {
  RecordPtr newest = tail.same ? known : with_known_parities(std::move(tail.record), known);
  if (is_open_ && !has_value_of(tail, newest)) {
    return fail(ErrorCode::kConflict, "the object was overwritten while it was read");
  }
  if (!is_open_) is_live_ = newest != nullptr && is_live_now(ops_, *map_, *newest);
  record_ = std::move(newest);
  log_ = std::move(tail.log);
  is_current_ = true;
  if (!is_live_) {
    ops_.cache.erase(key_);
  } else if (!tail.same && known != nullptr && has_same_data(*record_, *known)) {
    reading_ = record_;
  } else if (!tail.same) {
    begin_reading(record_);
  }
  return {};
}

// The next part, waited for, by the record that is the newest as far as is known. Nothing: its
// shards are gone, so there may be a newer one.
Task<Result<std::optional<Buffer>>> ObjectRead::take_later() {
  auto part = co_await take_part();
  if (part) co_return std::move(*part);
  is_current_ = false;
  ahead_.clear();
  if (part.error().code != ErrorCode::kNotFound) co_return fail(part.error());
  const uint64_t version = record_->meta.version;
  if (undecodable_version_ == version || mutant(Mutant::kNoReread)) {
    co_return fail(ErrorCode::kLost, "object lost: {}", part.error().message);
  }
  undecodable_version_ = version;
  if (!mutant(Mutant::kIgnoreGeneration)) ops_.cache.erase(key_);
  co_return std::nullopt;
}

void ObjectRead::begin_reading(RecordPtr record) {
  reading_ = std::move(record);
  ahead_.clear();
  range_ = wanted_.within(reading_->content.size);
  segment_ = 0;
  offsets_.clear();
  if (!reading_->is_striped()) return;
  uint64_t offset = 0;
  for (const auto& segment : reading_->content.segments) {
    offsets_.push_back(offset);
    offset += segment.length;
    if (offset <= range_.offset + given_) ++segment_;
  }
  offsets_.push_back(offset);
}

ByteRange ObjectRead::range_in_segment(size_t index) const {
  const uint64_t begin = std::max(range_.offset, offsets_[index]);
  const uint64_t end = std::min(range_.offset + range_.length, offsets_[index + 1]);
  return {begin - offsets_[index], end - begin};
}

// As far as there is memory now.
void ObjectRead::read_ahead() {
  if (given_ == range_.length) return;
  const uint64_t end = range_.offset + range_.length;
  while (ahead_.size() < kSegmentsAhead) {
    const size_t next = segment_ + ahead_.size();
    if (!reading_->is_striped() || offsets_[next] >= end) return;
    MemoryHold hold = memory_.try_reserve(range_in_segment(next).length);
    if (hold == nullptr || !start(std::move(hold))) return;
  }
}

// False if the proxy is shutting down.
bool ObjectRead::start(MemoryHold hold) {
  const size_t index = segment_ + ahead_.size();
  const auto& content = reading_->content;
  auto arriving = std::make_shared<ArrivingSegment>();
  arriving->record = reading_;
  const bool started = ops_.background.try_spawn(
      read_into(ops_, map_, content.scheme, SegmentPtr(reading_, &content.segments[index]),
                range_in_segment(index), std::move(hold), deadline_, arriving));
  if (started) ahead_.push_back(std::move(arriving));
  return started;
}

Task<Result<Buffer>> ObjectRead::take_part() {
  if (!record_->is_striped()) {
    auto hold = co_await wait_for_memory(range_.length);
    if (!hold) co_return fail(hold.error());
    co_return inline_bytes(std::move(*hold));
  }
  if (!is_open_) ops_.cache.put(key_, record_);
  if (given_ == range_.length) co_return Buffer{};
  auto segment = co_await next_segment();
  if (!segment) co_return fail(segment.error());
  const Segment& read = ahead_.front()->record->content.segments[segment_];
  auto laid =
      lay_over(segment->bytes.mutable_bytes(), range_.offset + given_, read.folded_lsn, log_.get());
  if (!laid) co_return fail(laid.error());
  ahead_.erase(ahead_.begin());
  ++segment_;
  given_ += segment->bytes.size();
  undecodable_version_.reset();
  if (segment->is_degraded && path_ != ReadPath::kDegraded) ++ops_.counters.degraded_reads;
  if (segment->is_degraded || path_ == ReadPath::kInline) {
    path_ = segment->is_degraded ? ReadPath::kDegraded : ReadPath::kStriped;
  }
  read_ahead();
  co_return std::move(segment->bytes);
}

Task<Result<SegmentBytes>> ObjectRead::next_segment() {
  for (;;) {
    read_ahead();
    if (ahead_.empty()) {
      auto hold = co_await wait_for_memory(range_in_segment(segment_).length);
      if (!hold) co_return fail(hold.error());
      if (!start(std::move(*hold))) co_return fail(ErrorCode::kCancelled, "shutting down");
    }
    const Arriving arriving = ahead_.front();
    auto segment = co_await arriving->bytes;
    deadline_ += arriving->waited;
    if (segment || arriving->record == reading_) co_return segment;
    // The parities of the record before may be gone: only the newest tells what is lost.
    ahead_.clear();
  }
}

// Nothing if it has to wait, for shards or for memory.
std::optional<Buffer> ObjectRead::take_now() {
  if (!is_live_) return Buffer{};
  if (record_->is_striped()) return std::nullopt;
  if (range_.length == 0) return Buffer{};
  MemoryHold hold = memory_.try_reserve(range_.length);
  if (hold == nullptr) return std::nullopt;
  return inline_bytes(std::move(hold));
}

Buffer ObjectRead::inline_bytes(MemoryHold hold) {
  given_ = range_.length;
  const auto bytes = as_bytes(record_->content.value).subspan(range_.offset, range_.length);
  struct InlineBytes {
    RecordPtr record;
    MemoryHold hold;
  };
  auto owner = std::allocate_shared<const InlineBytes>(Pooled<InlineBytes>(),
                                                       InlineBytes{record_, std::move(hold)});
  return Buffer::sharing(std::move(owner), bytes);
}

Task<Result<MemoryHold>> ObjectRead::wait_for_memory(uint64_t bytes) {
  const TimePoint asked = ops_.clock.now();
  auto hold = co_await memory_.reserve(bytes);
  deadline_ += ops_.clock.now() - asked;
  co_return hold;
}

}  // namespace elastripe::objects
