#include "proxy/ops/objects/baselines/in_place_update.h"

#include <algorithm>
#include <map>

#include "proxy/async/when_all.h"
#include "proxy/cluster/ask.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/baselines/data_updates.h"
#include "proxy/ops/records/commit.h"
#include "proxy/ops/records/log_copies.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/records/sync.h"

namespace elastripe::objects {

using node::LogAppendRequest;
using node::Segment;
using node::Status;

namespace {

// What the tail says to an update that brings it no bytes.
struct Numbered {
  Status status = Status::kOk;
  uint64_t lsn = 0;
  RecordPtr record;  // of kOtherValue
};

// Two rounds: the data shards write the bytes; then the parities get what that is to them (or
// replicas get what is kept), and the tail gives the update its number. It does so last, and
// only if the record is still the one whose shards were changed. Who has read that number as a cas
// has read the bytes, too.
class InPlaceUpdate {
 public:
  InPlaceUpdate(OpsContext& ops, const UpdateRequest& request, Buffer bytes)
      : ops_(ops),
        key_(request.key),
        method_(ops.pools.pool_of(request.key).updates),
        cas_(request.cas),
        offset_(request.offset),
        bytes_(std::move(bytes)) {}

  Task<Result<std::optional<UpdateOutcome>>> run(TimePoint deadline) {
    auto end = co_await under_newest_map(
        ops_, deadline,
        [this](const MapPtr& map, TimePoint& until) { return attempt(map, until); });
    if (end) co_return end->outcome;
    if (has_written()) co_return unknown_outcome(ops_, end.error().message);
    co_return fail(end.error());
  }

 private:
  struct End {
    std::optional<UpdateOutcome> outcome;
  };
  using MaybeEnd = std::optional<End>;  // nothing: begin again at once

  MaybeEnd ended(UpdateStatus status) const {
    return End{UpdateOutcome{
        .status = status, .cas = 0, .size = record_ == nullptr ? 0 : record_->content.size}};
  }

  bool has_written() const {
    return std::ranges::any_of(changed_, [](const ChangedSegment& changed) {
      return std::ranges::any_of(changed.data, &ShardUpdate::is_done);
    });
  }

  Task<Result<MaybeEnd>> attempt(MapPtr map, TimePoint& deadline) {
    if (!map->capabilities.has(node::Capability::kShardUpdates)) {
      co_return fail(ErrorCode::kInvalid, "not all nodes can change shards in place");
    }
    auto homes = records::check_homes(ops_, *map, key_);
    if (!homes) co_return fail(homes.error());
    if (changed_.empty()) {
      auto begun = co_await begin(map, deadline);
      if (!begun || *begun) co_return begun;
      if (changed_.empty()) co_return std::nullopt;  // with the record that it has found
    }
    auto nodes = check_nodes(*map);
    if (!nodes) co_return fail(nodes.error());
    auto written = co_await write_data(map, deadline);
    if (!written) {
      if (written.error().code != ErrorCode::kNotFound) co_return fail(written.error());
      co_return co_await look_again(map, written.error(), deadline);
    }
    auto [parities, numbered] =
        co_await when_both(write_parities(map, deadline), number(map, /*cas=*/0, deadline));
    if (!parities) co_return fail(parities.error());
    if (!numbered) co_return fail(numbered.error());
    co_return finish(*numbered);
  }

  // Finds the record, and what of its shards is to change.
  Task<Result<MaybeEnd>> begin(MapPtr map, TimePoint deadline) {
    if (record_ == nullptr) record_ = ops_.cache.find(key_);
    if (record_ == nullptr || !fits()) {
      auto tail = co_await records::try_read_tail(ops_, map, key_, /*if_version=*/0, deadline);
      if (!tail) co_return fail(tail.error());
      take_record(tail->record);
      if (record_ == nullptr || !is_live_now(ops_, *map, *record_)) {
        co_return ended(UpdateStatus::kNotFound);
      }
      if (!fits()) co_return ended(UpdateStatus::kOutOfRange);
    }
    if (!record_->is_striped()) co_return End{};
    if (cas_ && !is_admitted_) {
      auto admitted = co_await number(map, version_of_cas(key_, *cas_), deadline);
      if (!admitted) co_return fail(admitted.error());
      if (admitted->status == Status::kConditionFailed) co_return ended(UpdateStatus::kExists);
      if (admitted->status == Status::kOtherValue) {
        take_record(admitted->record);
        co_return std::nullopt;
      }
      if (admitted->status != Status::kOk) co_return refused(*admitted);
      is_admitted_ = true;
    }
    co_return make_changes();
  }

  bool fits() const {
    const uint64_t size = record_->content.size;
    return bytes_.size() <= size && offset_ <= size - bytes_.size();
  }

  void take_record(RecordPtr record) {
    record_ = std::move(record);
    if (record_ != nullptr && record_->is_striped()) {
      ops_.cache.put(key_, record_);
    } else {
      ops_.cache.erase(key_);
    }
  }

  Result<MaybeEnd> make_changes() {
    uint64_t begin = 0;  // of the segment, in the object
    for (const Segment& segment : record_->content.segments) {
      const uint64_t from = std::max(offset_, begin);
      const uint64_t to = std::min(offset_ + bytes_.size(), begin + segment.length);
      if (from < to) {
        auto made =
            make_change(segment, from - begin, bytes_.bytes().subspan(from - offset_, to - from));
        if (!made) return fail(made.error());
      }
      begin += segment.length;
    }
    return std::nullopt;
  }

  Result<void> make_change(const Segment& segment, uint64_t offset, ByteView bytes) {
    if (segment.crc32c != 0) {
      changed_.clear();
      return fail(ErrorCode::kInvalid,
                  "the object was stored when its pool had another method of updates");
    }
    const coding::Scheme& scheme = record_->content.scheme;
    const auto geometry = geometry_of(scheme, segment);
    if (!geometry) return fail(geometry.error());
    std::map<int, std::vector<coding::DataExtent>> extents;
    for (const coding::DataExtent& extent : coding::data_extents(*geometry, offset, bytes.size())) {
      extents[extent.shard].push_back(extent);
    }
    ChangedSegment& changed =
        changed_.emplace_back(ChangedSegment{.scheme = scheme, .segment = segment});
    changed.data.reserve(extents.size());
    for (auto& [shard, of_shard] : extents) {
      std::ranges::sort(of_shard, {}, &coding::DataExtent::shard_offset);
      ShardUpdate& update = changed.data.emplace_back(
          data_update(method_, segment, scheme, static_cast<size_t>(shard)));
      for (const coding::DataExtent& extent : of_shard) {
        update.add(extent.shard_offset,
                   bytes.subspan(extent.segment_offset - offset, extent.bytes));
      }
    }
    return {};
  }

  // What a node that is down has not got could not be made up for.
  Result<void> check_nodes(const node::ClusterMap& map) const {
    for (const ChangedSegment& changed : changed_) {
      for (const NodeId id : changed.segment.placement) {
        if (id != kNoNode && map.is_up(id)) continue;
        return fail(ErrorCode::kTooFewNodes,
                    "a node of the object is down: its pool updates shards in place, which takes "
                    "all of them");
      }
    }
    return {};
  }

  Task<Result<void>> write_data(MapPtr map, TimePoint deadline) {
    std::vector<Task<Result<void>>> writes;
    writes.reserve(changed_.size());
    for (ChangedSegment& changed : changed_) {
      writes.push_back(write_data_shards(ops_, method_, map, changed, deadline));
    }
    for (auto& written : co_await when_all(std::move(writes))) {
      if (written) continue;
      if (is_worth_retrying(written.error()) || !has_written()) co_return written;
      // The parities shall at least be those of what was written.
      (void)co_await write_parities(map, deadline);
      co_return fail(ErrorCode::kUnknownOutcome, "{}", written.error().message);
    }
    co_return Result<void>{};
  }

  Task<Result<void>> write_parities(MapPtr map, TimePoint deadline) {
    std::vector<Task<Result<void>>> writes;
    writes.reserve(changed_.size());
    for (ChangedSegment& changed : changed_) {
      if (changed.parities.empty()) {
        auto made = co_await make_parity_updates(ops_, method_, changed);
        if (!made) co_return made;
      }
      writes.push_back(update_parities(ops_, method_, map, changed, deadline));
    }
    Result<void> result;
    for (auto& written : co_await when_all(std::move(writes))) {
      if (!written && (result || !is_worth_retrying(written.error()))) result = written;
    }
    co_return result;
  }

  // A record of before, whose shards are gone? Else it is the shards that are missing.
  Task<Result<MaybeEnd>> look_again(MapPtr map, Error missing, TimePoint deadline) {
    auto tail = co_await records::try_read_tail(ops_, map, key_, /*if_version=*/0, deadline);
    if (!tail) co_return fail(tail.error());
    const bool is_same =
        tail->record != nullptr && tail->record->content.segments == record_->content.segments;
    if (is_same) co_return fail(ErrorCode::kLost, "{}: repair it first", missing.message);
    changed_.clear();
    take_record(tail->record);
    co_return std::nullopt;
  }

  Task<Result<Numbered>> number(MapPtr map, uint64_t cas, TimePoint deadline) {
    const NodeId tail = chain_of(*map, key_).tail();
    for (;;) {
      LogAppendRequest message;
      message.m = map->max_parities;
      message.id = ops_.ids.next();
      message.value = record_->meta.value_version;
      message.known = record_->meta.version;
      message.cas = cas;
      message.offset = offset_;
      message.key = key_;
      auto answer = co_await ask(ops_.nodes, *map, tail, message, call_deadline(ops_, deadline));
      if (!answer) co_return fail(answer.error());
      if (answer->status() == Status::kNotSynced) {
        if (ops_.clock.now() >= deadline) {
          co_return fail(ErrorCode::kTimeout, "the key could not be synced in time");
        }
        auto synced = co_await records::sync_key(ops_, map, std::string(key_), deadline);
        if (!synced) co_return fail(synced.error());
        continue;
      }
      Numbered numbered{.status = answer->status(), .lsn = answer->args.lsn, .record = {}};
      if (numbered.status == Status::kRenumber) {
        auto record = co_await records::renumber(ops_, map, key_, deadline);
        if (!record) co_return fail(record.error());
        numbered.status = *record == nullptr ? Status::kNotFound : Status::kOtherValue;
        numbered.record = *record;
      } else if (numbered.status == Status::kOtherValue) {
        const auto record = new_record();
        auto decoded = node::decode_record(answer->payload(), *record);
        if (!decoded) co_return fail(malformed(*map, tail, decoded.error()));
        numbered.record = record;
      }
      const bool has_same_shards = numbered.record != nullptr &&
                                   numbered.record->meta.value_version == message.value &&
                                   numbered.record->content.segments == record_->content.segments;
      if (!has_same_shards) co_return numbered;
      take_record(numbered.record);  // a touch, or numbers behind another version
    }
  }

  Result<MaybeEnd> finish(const Numbered& numbered) {
    switch (numbered.status) {
      case Status::kOk: {
        ops_.cache.note_lsn(key_, numbered.lsn);
        UpdateOutcome outcome;
        outcome.cas = cas_of(key_, numbered.lsn);
        outcome.size = record_->content.size;
        return End{outcome};
      }
      case Status::kOtherValue:
        // What has changed are shards that nobody reads any more.
        if (numbered.record->meta.value_version != record_->meta.value_version) {
          is_admitted_ = false;
        }
        changed_.clear();
        take_record(numbered.record);
        return std::nullopt;
      default:
        return refused(numbered);
    }
  }

  Result<MaybeEnd> refused(const Numbered& numbered) {
    if (numbered.status == Status::kNotFound) {
      changed_.clear();
      take_record(nullptr);
      return ended(UpdateStatus::kNotFound);
    }
    return fail(ErrorCode::kInvalid, "the object has updates in a log of another method ({})",
                node::name(numbered.status));
  }

  OpsContext& ops_;
  const std::string key_;
  const UpdateMethod method_;
  const std::optional<uint64_t> cas_;
  const uint64_t offset_;
  const Buffer bytes_;

  RecordPtr record_;          // whose shards change
  bool is_admitted_ = false;  // it had the cas that it was to have
  std::vector<ChangedSegment> changed_;
};

}  // namespace

Task<Result<std::optional<UpdateOutcome>>> update_in_place(OpsContext& ops,
                                                           const UpdateRequest& request,
                                                           Buffer bytes, TimePoint deadline) {
  InPlaceUpdate update(ops, request, std::move(bytes));
  co_return co_await update.run(deadline);
}

Task<Result<void>> drain_updates(OpsContext& ops, MapPtr map, RecordPtr record,
                                 TimePoint deadline) {
  if (!map->capabilities.has(node::Capability::kShardUpdates)) co_return Result<void>{};
  for (const Segment& segment : record->content.segments) {
    auto drained = co_await drain_parities(ops, map, record->content.scheme, segment, deadline);
    if (!drained) co_return drained;
  }
  co_return Result<void>{};
}

}  // namespace elastripe::objects
