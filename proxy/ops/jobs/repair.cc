#include "proxy/ops/jobs/repair.h"

#include <algorithm>

#include "proxy/ops/attempt.h"
#include "proxy/ops/jobs/fingerprints.h"
#include "proxy/ops/jobs/reshape.h"
#include "proxy/ops/objects/prepare.h"
#include "proxy/ops/objects/read_segment.h"
#include "proxy/ops/records/commit.h"
#include "proxy/ops/records/read_tail.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::jobs {

using node::Segment;
using objects::StagedObject;
using objects::StagedPtr;
using objects::StagedSegment;

namespace {

// Segments that are restored and committed together; their bytes are in memory one by one.
constexpr size_t kWindowSegments = 4;

constexpr const char* kDoesNotFit = "shards do not fit together: scrub it";
constexpr const char* kTooManyGone = "more shards are gone than the scheme survives";

struct ShardCount {
  uint64_t shards = 0;
  uint64_t bytes = 0;
};

// One try at some segments of one object.
struct RepairWindow {
  RecordPtr record;
  StagedPtr staged;                    // the segments, as they will be
  std::vector<size_t> places;          // of these in the record's table
  std::vector<coding::ShardSet> gone;  // what is to be written
  std::vector<bool> copies;            // it is not gone, but leaving
  ShardCount restored, moved;
  Traffic traffic;
};
using RepairWindowPtr = std::shared_ptr<RepairWindow>;

// Whether a shard may stay on the node, or go there.
bool is_place(const node::ClusterMap& map, NodeId id) {
  return map.is_up(id) && map.nodes[id].role == node::NodeRole::kMember;
}

// `segment` as it will be. What is gone has no place yet, if its node is gone too, or leaving.
StagedSegment to_restore(const node::ClusterMap& map, const Segment& segment,
                         const coding::ShardSet& gone) {
  const size_t shards = segment.placement.size();
  StagedSegment staged;
  staged.segment = segment;
  staged.written.assign(shards, true);
  staged.checksum.assign(shards, 0);
  staged.coming.resize(shards);
  for (size_t i = 0; i < shards; ++i) {
    if (!gone.test(i)) continue;
    staged.written[i] = false;
    if (!is_place(map, segment.placement[i])) staged.segment.placement[i] = kNoNode;
  }
  return staged;
}

// What is leaving stays where no other node has a place for it. False if all of it stays.
bool keep_unplaced(const node::ClusterMap& map, const Segment& before, StagedSegment& staged,
                   coding::ShardSet& leaving) {
  for (size_t i = 0; i < staged.written.size(); ++i) {
    if (!leaving.test(i) || is_place(map, staged.segment.placement[i])) continue;
    staged.segment.placement[i] = before.placement[i];
    staged.written[i] = true;
    staged.coming[i] = {};
    leaving.reset(i);
  }
  return leaving.any();
}

// Names what is to be written by a txid of this try: no other may take the same names. What has no
// node, too: it gets one if another node turns out to be full. False if nothing has a node.
bool name_missing(StagedSegment& staged, const node::Id128& txid) {
  bool any = false;
  for (size_t i = 0; i < staged.written.size(); ++i) {
    if (staged.written[i]) continue;
    if (!mutant(Mutant::kReuseShardNames)) node::name_moved_shard(staged.segment, i, txid);
    any |= staged.segment.placement[i] != kNoNode;
  }
  return any;
}

void count_written(RepairWindow& window, size_t index, const coding::SegmentGeometry& geometry) {
  ShardCount& count = window.copies[index] ? window.moved : window.restored;
  const StagedSegment& segment = window.staged->segments[index];
  const size_t block_bytes = segment.segment.block_bytes;
  for (size_t i = 0; i < segment.written.size(); ++i) {
    if (!window.gone[index].test(i) || !segment.written[i]) continue;
    const size_t bytes = geometry.shard_bytes(segment.segment.state, static_cast<int>(i));
    ++count.shards;
    count.bytes += bytes;
    window.traffic += {.blocks_sent = bytes / block_bytes, .bytes_sent = bytes};
  }
}

Task<Result<void>> copy_segment(OpsContext& ops, MapPtr map, RepairWindowPtr window, size_t index,
                                TimePoint& deadline) {
  StagedSegment& segment = window->staged->segments[index];
  const objects::SegmentPtr before(window->record,
                                   &window->record->content.segments[window->places[index]]);
  const auto geometry = geometry_of(window->staged->scheme, *before);
  if (!geometry) co_return fail(geometry.error());
  for (size_t i = 0; i < segment.written.size(); ++i) {
    if (segment.written[i]) continue;
    const size_t bytes = geometry->shard_bytes(before->state, static_cast<int>(i));
    const TimePoint asked = ops.clock.now();
    const auto memory = co_await ops.memory.rebuilt.acquire(bytes);
    deadline += ops.clock.now() - asked;
    auto copied =
        co_await objects::copy_missing(ops, map, window->staged, index, i, before, deadline);
    if (!copied) co_return copied;
    window->traffic += {.blocks_read = bytes / before->block_bytes, .bytes_read = bytes};
  }
  count_written(*window, index, *geometry);
  co_return Result<void>{};
}

Task<Result<void>> restore_segment(OpsContext& ops, MapPtr map, RepairWindowPtr window,
                                   size_t index, TimePoint& deadline) {
  StagedSegment& segment = window->staged->segments[index];
  const auto geometry = geometry_of(window->staged->scheme, segment.segment);
  if (!geometry) co_return fail(geometry.error());
  const auto bytes = objects::staged_bytes(*window->staged, index);
  if (!bytes) co_return fail(bytes.error());
  const TimePoint asked = ops.clock.now();
  segment.memory = co_await ops.memory.rebuilt.acquire(*bytes);
  deadline += ops.clock.now() - asked;
  // By the names that the shards still have. What is gone is not asked for: it may be there, but
  // bad or wrong.
  const auto before =
      std::make_shared<Segment>(window->record->content.segments[window->places[index]]);
  for (size_t i = 0; i < before->placement.size(); ++i) {
    if (window->gone[index].test(i)) before->placement[i] = kNoNode;
  }
  const auto blocks = static_cast<size_t>(geometry->codec().layout().blocks());
  window->traffic += {.blocks_read = blocks, .bytes_read = blocks * before->block_bytes};
  auto read = co_await objects::read_segment(ops, map, window->staged->scheme, before,
                                             {0, before->length}, nullptr, deadline);
  if (!read) {
    segment.let_go();
    co_return fail(read.error());
  }
  segment.data = std::move(read->bytes);
  auto restored = co_await objects::write_missing(ops, map, window->staged, index, deadline);
  segment.let_go();
  count_written(*window, index, *geometry);
  co_return restored;
}

// Whether what was written is there, and fits what the segment had. Another shard may be wrong if
// the rest outvotes it. kNotFound: it does not fit.
Task<Result<void>> check_restored(OpsContext& ops, MapPtr map, RepairWindowPtr window, size_t index,
                                  TimePoint deadline) {
  const StagedSegment& segment = window->staged->segments[index];
  const auto geometry = geometry_of(window->staged->scheme, segment.segment);
  if (!geometry) co_return fail(geometry.error());
  const auto told =
      co_await take_fingerprints(ops, map, window->staged->scheme, segment.segment, deadline);
  if (!told) co_return fail(told.error());
  coding::ShardSet restored;
  for (size_t i = 0; i < segment.written.size(); ++i) {
    if (!window->gone[index].test(i) || !segment.written[i]) continue;
    restored.set(i);
    if (told->shards[i].empty()) {
      co_return fail(ErrorCode::kUnavailable, "a shard that was just written does not answer");
    }
  }
  const SegmentVerdict verdict = judge(*geometry, segment.segment, *told);
  if ((verdict.wrong & restored).any() || verdict.has_unexplained || !verdict.data_matches) {
    co_return fail(ErrorCode::kNotFound, "{}", kDoesNotFit);
  }
  co_return Result<void>{};
}

Reshape reshape_of(const RepairWindow& window) {
  Reshape reshape{window.staged->key, window.record, {}};
  for (size_t i = 0; i < window.places.size(); ++i) {
    reshape.segments.emplace_back(window.places[i], window.staged->segments[i].segment);
  }
  return reshape;
}

// Deletes what a try wrote that definitely did not commit, and never will.
void abandon(OpsContext& ops, const RepairWindow& window) {
  std::vector<Segment> segments;
  for (size_t i = 0; i < window.places.size(); ++i) {
    Segment& segment = segments.emplace_back(window.staged->segments[i].segment);
    for (size_t shard = 0; shard < segment.placement.size(); ++shard) {
      if (!window.gone[i].test(shard)) segment.placement[shard] = kNoNode;
    }
  }
  (void)ops.background.try_spawn(delete_shards(ops, shards_by_node(window.staged->scheme, segments),
                                               ops.clock.now() + ops.settings.node_timeout));
}

// The shards in whose place others have been committed: what was bad or wrong, and what was copied,
// is still where it was.
void delete_replaced(OpsContext& ops, const RepairWindow& window, bool is_scrubbed) {
  std::vector<Segment> segments;
  for (size_t i = 0; i < window.places.size(); ++i) {
    if (!window.copies[i] && !is_scrubbed) continue;
    Segment& segment = segments.emplace_back(window.record->content.segments[window.places[i]]);
    for (size_t shard = 0; shard < segment.placement.size(); ++shard) {
      const bool is_replaced =
          window.gone[i].test(shard) && window.staged->segments[i].written[shard];
      if (!is_replaced) segment.placement[shard] = kNoNode;
    }
  }
  if (segments.empty()) return;
  delete_after_grace(ops, shards_by_node(window.staged->scheme, segments));
}

// One try under one map.
Task<Result<ReshapeEnd>> try_window(OpsContext& ops, MapPtr map, RepairWindowPtr window,
                                    Reshape& reshape, TimePoint& deadline) {
  auto homes = records::check_homes(ops, *map, window->staged->key);
  if (!homes) co_return fail(homes.error());
  for (size_t i = 0; i < window->places.size(); ++i) {
    Result<void> restored = fail(ErrorCode::kNotFound, "");
    if (window->copies[i]) restored = co_await copy_segment(ops, map, window, i, deadline);
    // What is damaged where it was is as good as gone.
    const bool is_to_make = !restored && restored.error().code == ErrorCode::kNotFound;
    if (is_to_make) restored = co_await restore_segment(ops, map, window, i, deadline);
    // A copy is what it was. Where the nodes do not know fingerprints, all shards would have to be
    // read again.
    const bool is_checked = map->capabilities.has(node::Capability::kShardFingerprints);
    if (restored && is_to_make && is_checked) {
      restored = co_await check_restored(ops, map, window, i, deadline);
    }
    if (restored) continue;
    abandon(ops, *window);
    co_return fail(restored.error());
  }
  reshape = reshape_of(*window);
  auto end = co_await commit_reshape(ops, map, reshape, deadline);
  const bool is_unknown = !end && end.error().code == ErrorCode::kUnknownOutcome;
  if (!is_unknown && (!end || *end != ReshapeEnd::kCommitted)) abandon(ops, *window);
  co_return end;
}

// The repair of one object, a window after the other.
class ObjectRepair {
 public:
  ObjectRepair(OpsContext& ops, RepairRequest request) : ops_(ops), request_(std::move(request)) {}

  ~ObjectRepair() { put_moves_back(); }
  ObjectRepair(const ObjectRepair&) = delete;
  ObjectRepair& operator=(const ObjectRepair&) = delete;

  Task<Result<RepairOutcome>> run() {
    return under_newest_map(
        ops_, fresh_deadline(ops_),
        [this](const MapPtr& map, TimePoint& deadline) { return next_window(map, deadline); });
  }

 private:
  // Nothing: there is more to do.
  using MaybeOutcome = std::optional<RepairOutcome>;

  Task<Result<MaybeOutcome>> next_window(MapPtr map, TimePoint& deadline) {
    if (!map->capabilities.has(node::Capability::kMovedShards)) {
      co_return fail(ErrorCode::kInvalid, "not all nodes know moved shards: upgrade them first");
    }
    if (looked_in_ != map->epoch) {
      auto ended_early = co_await look(map, deadline);
      if (!ended_early) co_return fail(ended_early.error());
      if (*ended_early) co_return std::move(*ended_early);
    }
    RepairWindowPtr window = open_window(*map);
    if (window->places.empty()) co_return all_tried();
    co_return co_await repair_window(std::move(map), std::move(window), deadline);
  }

  // Finds out what is gone. The outcome, if there is nothing to do.
  Task<Result<MaybeOutcome>> look(MapPtr map, TimePoint deadline) {
    auto tail =
        co_await records::try_read_tail(ops_, map, request_.key, /*if_version=*/0, deadline);
    if (!tail) co_return fail(tail.error());
    const RecordPtr record = tail->record;
    if (record == nullptr || !is_live_now(ops_, *map, *record)) {
      co_return ended(ObjectStatus::kNoObject);
    }
    outcome_.object_bytes = record->content.size;
    if (!record->is_striped()) co_return ended(ObjectStatus::kSkipped, "inline");
    std::vector<Lacking> objects;
    objects.push_back({.key = request_.key, .record = record});
    const auto asked = co_await find_lacking(ops_, map, objects, request_.given_up);
    if (!asked) co_return fail(asked.error());
    if (!*asked) co_return fail(ErrorCode::kTimeout, "not all nodes told which shards they have");
    object_ = std::move(objects.front());
    add_scrubbed();
    if (request_.balance != nullptr) take_moves(*map);
    looked_in_ = map->epoch;
    next_segment_ = 0;
    room_error_.reset();
    const bool is_lost = object_.is_lost();
    if (request_.on) object_.keep_only(*request_.on);
    if (is_lost && object_.is_lacking()) co_return co_await refuse_if_still(kTooManyGone, deadline);
    co_return std::nullopt;
  }

  void add_scrubbed() {
    if (request_.scrubbed == nullptr || request_.scrubbed->record == nullptr) return;
    const auto& seen = request_.scrubbed->record->content.segments;
    const auto& segments = object_.record->content.segments;
    for (size_t i = 0; i < std::min(seen.size(), segments.size()); ++i) {
      if (seen[i] == segments[i]) object_.gone[i] |= request_.scrubbed->segments[i].to_restore();
    }
  }

  // What is to move, and nothing else. What lacks shards is repair's, and what leaves a node, too.
  void take_moves(const node::ClusterMap& map) {
    put_moves_back();
    const auto& content = object_.record->content;
    moves_.resize(content.segments.size());
    for (size_t i = 0; i < content.segments.size(); ++i) {
      const bool is_whole = (object_.gone[i] | object_.silent[i] | object_.leaving[i]).none();
      object_.gone[i].reset();
      object_.leaving[i].reset();
      if (!is_whole) continue;
      moves_[i] = request_.balance->take(map, content.scheme, content.segments[i]);
      for (const ShardMove& move : moves_[i]) object_.leaving[i].set(move.shard);
    }
  }

  // Those that have not been committed.
  void put_moves_back() {
    for (const auto& moves : moves_) {
      for (const ShardMove& move : moves) request_.balance->put_back(move);
    }
    moves_.clear();
  }

  // From the next segment on: those of which something can be restored.
  RepairWindowPtr open_window(const node::ClusterMap& map) {
    auto window = std::make_shared<RepairWindow>();
    window->record = object_.record;
    window->staged = std::make_shared<StagedObject>();
    StagedObject& staged = *window->staged;
    staged.key = request_.key;
    staged.scheme = object_.record->content.scheme;
    staged.degraded_writes = true;  // what has no node now is restored later
    const auto& segments = object_.record->content.segments;
    for (; next_segment_ < segments.size() && window->places.size() < kWindowSegments;
         ++next_segment_) {
      const bool copies = object_.gone[next_segment_].none();
      coding::ShardSet gone = (copies ? object_.leaving : object_.gone)[next_segment_];
      if (gone.none()) continue;
      staged.segments.push_back(to_restore(map, segments[next_segment_], gone));
      const size_t index = staged.segments.size() - 1;
      if (request_.balance != nullptr) {
        for (const ShardMove& move : moves_[next_segment_]) {
          staged.segments[index].segment.placement[move.shard] = move.to;
          staged.segments[index].coming[move.shard] =
              ComingBytes(ops_.map.rooms(), move.to, move.bytes);
        }
      }
      auto placed = objects::place_missing(ops_, map, staged, index);
      if (!placed && placed.error().code == ErrorCode::kNoSpace) room_error_ = placed.error();
      const bool goes = placed && (!copies || keep_unplaced(map, segments[next_segment_],
                                                            staged.segments[index], gone));
      if (!goes || !name_missing(staged.segments[index], ops_.ids.next())) {
        staged.segments.pop_back();
        continue;
      }
      window->places.push_back(next_segment_);
      window->gone.push_back(gone);
      window->copies.push_back(copies);
    }
    return window;
  }

  Task<Result<MaybeOutcome>> repair_window(MapPtr map, RepairWindowPtr window,
                                           TimePoint& deadline) {
    Reshape reshape;
    const auto end = co_await try_window(ops_, map, window, reshape, deadline);
    if (request_.spent != nullptr) *request_.spent += window->traffic;
    if (end && *end == ReshapeEnd::kCommitted) {
      take_committed(*window, reshape);
      deadline = fresh_deadline(ops_);
      co_return MaybeOutcome();
    }
    looked_in_ = {};
    if (end && *end == ReshapeEnd::kOverwritten) co_return ended(ObjectStatus::kOverwritten);
    if (end) co_return MaybeOutcome();
    // A page is bad, or more has gone since it was looked for, or another write took it away.
    if (end.error().code == ErrorCode::kNotFound) {
      co_return co_await refuse_if_still(end.error().message, deadline);
    }
    co_return fail(end.error());
  }

  void take_committed(const RepairWindow& window, const Reshape& reshape) {
    outcome_.shards += window.restored.shards + window.moved.shards;
    outcome_.bytes += window.restored.bytes + window.moved.bytes;
    ops_.counters.repaired_shards += window.restored.shards;
    ops_.counters.repaired_bytes += window.restored.bytes;
    ops_.counters.moved_shards += window.moved.shards;
    ops_.counters.moved_bytes += window.moved.bytes;
    delete_replaced(ops_, window, request_.scrubbed != nullptr);
    for (size_t i = 0; i < window.places.size() && request_.balance != nullptr; ++i) {
      std::erase_if(moves_[window.places[i]], [&](const ShardMove& move) {
        return window.gone[i].test(move.shard) && window.staged->segments[i].written[move.shard];
      });
    }
    // What others have committed since may be another value, or have other shards.
    auto expected = object_.record->content.segments;
    for (const auto& [place, segment] : reshape.segments) expected[place] = segment;
    if (reshape.committed->content.segments != expected) {
      looked_in_ = {};
      return;
    }
    object_.record = reshape.committed;
    for (size_t i = 0; i < window.places.size(); ++i) {
      const auto& written = window.staged->segments[i].written;
      for (size_t shard = 0; shard < written.size(); ++shard) {
        if (!written[shard]) continue;
        object_.gone[window.places[i]].reset(shard);
        if (window.gone[i].test(shard)) object_.leaving[window.places[i]].reset(shard);
      }
    }
  }

  Result<MaybeOutcome> all_tried() {
    if (room_error_) return fail(*room_error_);
    if (object_.is_lacking()) {
      return ended(ObjectStatus::kRefused, "there is no node for what is gone");
    }
    if (object_.is_leaving() && outcome_.shards == 0) {
      return ended(ObjectStatus::kRefused,
                   "no other node is up, with room, for what is on one that drains");
    }
    return ended(outcome_.shards > 0 ? ObjectStatus::kDone : ObjectStatus::kAlreadyThere);
  }

  // Shards are gone, too, when the object was overwritten after its record was read.
  Task<Result<MaybeOutcome>> refuse_if_still(std::string reason, TimePoint deadline) {
    const auto tail = co_await records::read_tail(ops_, request_.key, deadline);
    if (!tail) co_return fail(tail.error());
    looked_in_ = {};
    const bool is_still = tail->record != nullptr &&
                          tail->record->content.segments == object_.record->content.segments;
    if (is_still) co_return ended(ObjectStatus::kRefused, std::move(reason));
    co_return MaybeOutcome();
  }

  MaybeOutcome ended(ObjectStatus status, std::string reason = {}) {
    outcome_.status = status;
    outcome_.reason = std::move(reason);
    return outcome_;
  }

  OpsContext& ops_;
  const RepairRequest request_;
  RepairOutcome outcome_;
  Lacking object_;           // as the nodes told under the map of...
  node::Epoch looked_in_;    // number 0: they are to be asked
  size_t next_segment_ = 0;  // to be tried
  // That the balance has taken, by segment; none that is committed.
  std::vector<std::vector<ShardMove>> moves_;
  std::optional<Error> room_error_;  // of a segment that was passed over
};

}  // namespace

Task<Result<RepairOutcome>> repair_object(OpsContext& ops, RepairRequest request) {
  ObjectRepair repair(ops, std::move(request));
  co_return co_await repair.run();
}

}  // namespace elastripe::jobs
