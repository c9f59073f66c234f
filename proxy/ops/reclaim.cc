#include "proxy/ops/reclaim.h"

#include <algorithm>
#include <map>
#include <optional>
#include <ranges>
#include <set>

#include "proxy/async/when_all.h"
#include "proxy/cluster/record_chain.h"
#include "proxy/ops/batches.h"
#include "proxy/ops/commit.h"
#include "proxy/ops/record_scan.h"
#include "proxy/ops/shards.h"
#include "proxy/ops/sync.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

using node::Condition;
using node::Mutation;
using node::Opcode;
using node::Role;
using node::Status;

namespace {

constexpr uint32_t kScanEntries = 1024;
constexpr uint32_t kScanBytes = 256 << 10;
constexpr size_t kKeysAtOnce = 32;
constexpr size_t kMaxKeysPerRound = 4096;   // more are left to the next round
constexpr size_t kMaxTombstones = 1 << 20;  // remembered
constexpr size_t kMaxDropped = 1024;        // in one frame

// Errors that end the round; others leave one thing to the next.
bool ends_round(const Error& error) {
  return error.code == ErrorCode::kStaleEpoch || error.code == ErrorCode::kCancelled;
}

TimePoint soon(const OpsContext& ops) { return ops.clock.now() + ops.settings.node_timeout; }

Result<void> end_or_go_on(const Error& error) {
  return ends_round(error) ? Result<void>(fail(error)) : Result<void>{};
}

// Whether the record refers to that shard on that node.
bool refers_to(const node::Record& record, NodeId on, const node::ShardName& name) {
  if (record.content.kind != node::RecordKind::kStriped) return false;
  for (const node::Segment& segment : record.content.segments) {
    if (segment.number != name.segment || name.index >= segment.placement.size()) continue;
    if (shard_name(segment, record.content.scheme, name.index) == name &&
        segment.placement[name.index] == on) {
      return true;
    }
  }
  return false;
}

struct Orphan {
  NodeId node = 0;
  node::ShardName name;
  uint64_t age_ms = 0;
};
using Orphans = std::map<std::string, std::vector<Orphan>>;  // by key

Task<Result<node::ShardScanReply>> scan_shards(OpsContext& ops, MapPtr map, NodeId from,
                                               uint64_t cursor, uint32_t min_age_ms) {
  node::ShardScanRequest message;
  message.cursor = cursor;
  message.max_entries = kScanEntries;
  message.min_age_ms = min_age_ms;
  auto reply = co_await ops.nodes.call(from, stamp_for(*map, from),
                                       make_request(Opcode::kShardScan, message), soon(ops));
  if (!reply) co_return fail(reply.error());
  if (reply->status() != Status::kOk) co_return fail(refusal(from, *reply));
  auto page = node::decode<node::ShardScanReply>(reply->args());
  if (!page) co_return fail(ErrorCode::kInvalid, "node {}: {}", from, page.error());
  co_return std::move(*page);
}

Task<Result<RecordReply>> read_at_tail(OpsContext& ops, MapPtr map, std::string key) {
  const Chain chain = chain_of(*map, key);
  if (chain.nodes.empty()) co_return fail(ErrorCode::kUnavailable, "no home is up");
  for (bool synced = false;; synced = true) {
    auto reply = co_await read_record(ops.nodes, map, chain.tail(), Role::kTail, key,
                                      /*if_version=*/0, soon(ops));
    if (!reply || reply->status != Status::kNotSynced) co_return reply;
    if (synced) co_return fail(ErrorCode::kUnavailable, "the key is not synced");
    // Of a synced partition: the copy was damaged.
    auto mended = co_await sync_key(ops, map, key, soon(ops));
    if (!mended) co_return fail(mended.error());
  }
}

Task<Result<NodeReply>> apply_at(OpsContext& ops, MapPtr map, NodeId head,
                                 node::RecordApplyRequest message) {
  for (bool synced = false;; synced = true) {
    auto reply = co_await ops.nodes.call(head, stamp_for(*map, head),
                                         make_request(Opcode::kRecordApply, message), soon(ops));
    if (!reply || reply->status() != Status::kNotSynced || synced) co_return reply;
    auto mended = co_await sync_key(ops, map, std::string(message.key), soon(ops));
    if (!mended) co_return fail(mended.error());
  }
}

// The floor of a head that has no record either, if it is above the `expected` one of the tail: a
// RAISE_FLOOR, which begins at the head, did not reach the tail. A missing record counts as the
// head's. (One below would make a tombstone that the tail must refuse.)
std::optional<uint64_t> higher_floor(const NodeReply& reply, uint64_t expected) {
  if (reply.status() != Status::kConditionFailed || !reply.payload().empty()) return std::nullopt;
  const auto args = node::decode<node::RecordApplyReply>(reply.args());
  return args && args->floor > expected ? std::optional(args->floor) : std::nullopt;
}

// One commit at the head without content, pushed down the chain. The record as committed; nothing
// if the head has another version than `expected`: then that one was pushed down, should its proxy
// have died before it could.
struct ChainCommit {
  RecordPtr record;
  bool completed_other = false;
};
Task<Result<ChainCommit>> commit_down(OpsContext& ops, MapPtr map, std::string key,
                                      Mutation mutation, uint64_t expected,
                                      node::Id128 attempt_id) {
  const Chain chain = chain_of(*map, key);
  node::RecordApplyRequest message;
  message.m = map->max_parities;
  message.attempt_id = attempt_id;
  message.base_version = UINT64_MAX;
  message.condition = Condition::kIfVersion;
  message.condition_argument = expected;
  message.mutation = mutation;
  message.key = key;
  auto reply = co_await apply_at(ops, map, chain.head(), message);
  if (!reply) co_return fail(reply.error());
  if (const auto floor = higher_floor(*reply, expected); floor && mutation == Mutation::kFence) {
    message.condition_argument = *floor;
    reply = co_await apply_at(ops, map, chain.head(), message);
    if (!reply) co_return fail(reply.error());
  }
  ChainCommit result;
  std::string encoded;
  if (reply->status() == Status::kOk) {
    encoded = std::string(as_string_view(reply->payload()));
    if (mutation == Mutation::kDelete) {
      // Only the meta is answered: the content of a tombstone is known.
      node::encode(node::RecordContent{}, encoded);
    }
    auto record = node::decode_record(as_bytes(encoded));
    if (!record) co_return fail(ErrorCode::kInvalid, "node {}: {}", chain.head(), record.error());
    result.record = std::make_shared<const node::Record>(std::move(*record));
  } else if (reply->status() == Status::kConditionFailed && !reply->payload().empty()) {
    encoded = std::string(as_string_view(reply->payload()));
    result.completed_other = true;
  } else {
    co_return fail(refusal(chain.head(), *reply));
  }
  const NodeRoomsPtr rooms = ops.map.rooms();
  const EncodedRecord bytes{{Buffer::copy_of(encoded)}};
  auto pushed = co_await push_down(ops.nodes, *rooms, map, key, bytes, /*revive=*/false, soon(ops));
  if (!pushed) {
    if (pushed.error().code == ErrorCode::kConflict && result.completed_other) {
      auto other = node::decode_record(as_bytes(encoded));
      if (other) {
        co_await lift_above_floor(
            ops, map, key, std::make_shared<const node::Record>(std::move(*other)), soon(ops));
      }
    }
    co_return fail(pushed.error());
  }
  co_return result;
}

}  // namespace

Task<Result<ReclaimReport>> Reclaimer::round(MapPtr map, std::vector<bool> synced) {
  ReclaimReport report;
  auto done = co_await expire_records(map, synced, report);
  if (done) done = co_await collect_tombstones(map, synced, report);
  if (done) done = co_await reclaim_shards(map, synced, report);
  ops_.counters.reclaimed_shards += report.shards_deleted;
  ops_.counters.reclaimed_records += report.records_expired + report.tombstones_dropped;
  ops_.counters.fences += report.keys_fenced;
  if (!done) co_return fail(done.error());
  co_return report;
}

namespace {

// Of one page: which shards does no record refer to, as the tails have them?
Task<Result<void>> add_orphans(OpsContext& ops, MapPtr map, NodeId on,
                               std::vector<node::ScannedShard> shards, Orphans& orphans) {
  std::map<std::string, std::vector<node::ScannedShard>> by_key;
  for (auto& shard : shards) by_key[shard.key].push_back(shard);
  std::vector<std::string> keys;
  keys.reserve(by_key.size());
  for (const auto& [key, _] : by_key) keys.push_back(key);
  co_return co_await in_batches(
      keys.size(), kKeysAtOnce, [&](size_t i) { return read_at_tail(ops, map, keys[i]); },
      [&](size_t i, const Result<RecordReply>& tail) {
        if (!tail) return end_or_go_on(tail.error());
        for (const node::ScannedShard& shard : by_key[keys[i]]) {
          if (mutant(Mutant::kDropStaged) && shard.name.generation == 0) continue;
          if (tail->record != nullptr && refers_to(*tail->record, on, shard.name)) continue;
          orphans[keys[i]].push_back({on, shard.name, shard.age_ms});
        }
        return Result<void>{};
      });
}

// Keys with shards of that age that nothing refers to; at most kMaxKeysPerRound.
Task<Result<Orphans>> find_old_orphans(OpsContext& ops, MapPtr map, std::vector<bool> synced,
                                       uint32_t min_age_ms) {
  Orphans orphans;
  for (const node::NodeInfo& info : map->nodes) {
    if (info.state != node::NodeState::kUp) continue;
    uint64_t cursor = 0;
    do {
      auto page = co_await scan_shards(ops, map, info.id, cursor, min_age_ms);
      if (!page && ends_round(page.error())) co_return fail(page.error());
      if (!page) break;
      cursor = page->cursor;
      // Where homes are not synced, a record that refers to the shard may still turn up.
      std::erase_if(page->shards, [&](const node::ScannedShard& shard) {
        return !synced[map->partition_of(shard.key)];
      });
      auto added = co_await add_orphans(ops, map, info.id, std::move(page->shards), orphans);
      if (!added) co_return fail(added.error());
    } while (cursor != 0 && orphans.size() < kMaxKeysPerRound);
  }
  co_return orphans;
}

// Drops the keys that have any shard, referred to or not, younger than the limit: it may belong to
// an upload that is going on, whose older shards are waiting for its commit. False if a node with
// shards does not answer for them.
Task<Result<void>> drop_busy_keys(OpsContext& ops, MapPtr map, uint32_t min_age_ms,
                                  Orphans& orphans) {
  for (const node::NodeInfo& info : map->nodes) {
    if (info.state != node::NodeState::kUp) continue;
    uint64_t cursor = 0;
    do {
      auto page = co_await scan_shards(ops, map, info.id, cursor, 0);
      if (!page) co_return fail(page.error());
      cursor = page->cursor;
      for (const node::ScannedShard& shard : page->shards) {
        if (shard.age_ms < min_age_ms) orphans.erase(shard.key);
      }
    } while (cursor != 0);
  }
  co_return Result<void>{};
}

// Fences the key, so that no transaction that could refer to these shards can commit any more; then
// keeps only the shards that the fenced record does not refer to.
Task<Result<ChainCommit>> fence_key(OpsContext& ops, MapPtr map, std::string key) {
  auto tail = co_await read_at_tail(ops, map, key);
  if (!tail) co_return fail(tail.error());
  const uint64_t expected = tail->record != nullptr ? tail->record->meta.version : tail->floor;
  if (mutant(Mutant::kReclaimWithoutFence) || mutant(Mutant::kReclaimByTimer) ||
      mutant(Mutant::kDropStaged)) {
    static const auto nothing = std::make_shared<const node::Record>();
    co_return ChainCommit{tail->record != nullptr ? tail->record : nothing, false};
  }
  node::Id128 attempt_id = ops.ids.next();
  if (mutant(Mutant::kAttemptIsTxid) && tail->record != nullptr &&
      !tail->record->content.segments.empty()) {
    attempt_id = tail->record->content.segments.front().data_txid;
  }
  co_return co_await commit_down(ops, map, key, Mutation::kFence, expected, attempt_id);
}

}  // namespace

Task<Result<void>> Reclaimer::reclaim_shards(MapPtr map, const std::vector<bool>& synced,
                                             ReclaimReport& report) {
  const auto abandoned_ms =
      static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                kAbandonedAfter * ops_.settings.upload_idle)
                                .count());
  const bool by_timer = mutant(Mutant::kReclaimByTimer) || mutant(Mutant::kDropStaged);
  const uint32_t min_age_ms = by_timer ? 0 : abandoned_ms;
  auto orphans = co_await find_old_orphans(ops_, map, synced, min_age_ms);
  if (!orphans) co_return fail(orphans.error());
  if (orphans->empty()) co_return Result<void>{};
  if (auto dropped = co_await drop_busy_keys(ops_, map, min_age_ms, *orphans); !dropped) {
    // Who does not answer may hold the young shard of any of them.
    co_return ends_round(dropped.error()) ? dropped : Result<void>{};
  }

  std::vector<std::string> keys;
  for (const auto& [key, _] : *orphans) keys.push_back(key);
  std::map<NodeId, std::vector<node::ShardName>> doomed;
  auto fenced = co_await in_batches(
      keys.size(), kKeysAtOnce, [&](size_t i) { return fence_key(ops_, map, keys[i]); },
      [&](size_t i, const Result<ChainCommit>& fence) {
        if (!fence) return end_or_go_on(fence.error());
        report.chains_completed += fence->completed_other;
        if (fence->record == nullptr) return Result<void>{};
        ++report.keys_fenced;
        for (const Orphan& orphan : (*orphans)[keys[i]]) {
          if (refers_to(*fence->record, orphan.node, orphan.name)) continue;
          doomed[orphan.node].push_back(orphan.name);
        }
        return Result<void>{};
      });
  if (!fenced) co_return fenced;
  if (doomed.empty()) co_return Result<void>{};

  // Readers of a record that was superseded a moment ago may still want them (rule 8).
  if (!co_await ops_.clock.sleep_for(ops_.settings.read_grace)) {
    co_return fail(ErrorCode::kCancelled, "shutting down");
  }
  for (auto& [on, names] : doomed) {
    for (size_t first = 0; first < names.size(); first += kScanEntries) {
      const size_t end = std::min(names.size(), first + kScanEntries);
      node::ShardDeleteRequest message;
      message.names.assign(names.begin() + static_cast<ptrdiff_t>(first),
                           names.begin() + static_cast<ptrdiff_t>(end));
      auto reply = co_await ops_.nodes.call(
          on, stamp_for(*map, on), make_request(Opcode::kShardDelete, message), soon(ops_));
      if (!reply) break;
      if (reply->status() != Status::kOk) {
        const Error error = refusal(on, *reply);
        if (ends_round(error)) co_return fail(error);
        break;
      }
      auto deleted = node::decode<node::ShardDeleteReply>(reply->args());
      if (deleted) report.shards_deleted += deleted->deleted;
    }
  }
  co_return Result<void>{};
}

namespace {

struct KeyVersion {
  std::string key;
  uint64_t version = 0;
};

// What the tails of the synced partitions have of one kind, page by page.
class TailScan {
 public:
  enum class Kind : uint8_t { kExpired, kTombstones };

  TailScan(OpsContext& ops, MapPtr map, const std::vector<bool>& synced, Kind kind)
      : ops_(ops),
        map_(std::move(map)),
        kind_(kind),
        by_tail_(partitions_by_tail(*map_, synced)),
        tail_(by_tail_.begin()) {}

  // The next page, which may be empty; nothing after the last. A tail that does not answer is left
  // to the next round.
  Task<Result<std::optional<std::vector<KeyVersion>>>> next() {
    if (tail_ == by_tail_.end()) co_return std::nullopt;
    node::RecordScanRequest message;
    message.cursor = cursor_;
    message.max_bytes = kScanBytes;
    message.tombstones_only = kind_ == Kind::kTombstones;
    message.expired_only = kind_ == Kind::kExpired;
    message.partitions = tail_->second;
    auto page = co_await scan_records(ops_, map_, tail_->first, std::move(message));
    if (!page && ends_round(page.error())) co_return fail(page.error());
    cursor_ = page ? page->cursor : 0;
    if (cursor_ == 0) ++tail_;
    std::vector<KeyVersion> found;
    if (!page) co_return found;
    for (node::ScannedRecord& scanned : page->records) {
      RecordPtr record;
      if (scanned.record.empty()) {  // it did not fit in the page
        auto read = co_await read_at_tail(ops_, map_, scanned.key);
        if (!read && ends_round(read.error())) co_return fail(read.error());
        if (read) record = read->record;
      } else if (auto decoded = node::decode_record(as_bytes(scanned.record))) {
        record = std::make_shared<const node::Record>(std::move(*decoded));
      }
      if (record == nullptr || !is_wanted(*record)) continue;
      found.push_back({std::move(scanned.key), record->meta.version});
    }
    co_return found;
  }

 private:
  bool is_wanted(const node::Record& record) const {
    if (kind_ == Kind::kTombstones) return record.is_tombstone();
    return !record.is_tombstone() && record.is_expired(ops_.clock.unix_ms());
  }

  OpsContext& ops_;
  const MapPtr map_;
  const Kind kind_;
  const std::map<NodeId, std::vector<uint8_t>> by_tail_;
  std::map<NodeId, std::vector<uint8_t>>::const_iterator tail_;
  uint64_t cursor_ = 0;
};

}  // namespace

Task<Result<void>> Reclaimer::expire_records(MapPtr map, const std::vector<bool>& synced,
                                             ReclaimReport& report) {
  TailScan scan(ops_, map, synced, TailScan::Kind::kExpired);
  for (;;) {
    const auto page = co_await scan.next();
    if (!page) co_return fail(page.error());
    if (!*page) co_return Result<void>{};
    const std::vector<KeyVersion>& expired = **page;
    auto done = co_await in_batches(
        expired.size(), kKeysAtOnce,
        [&](size_t i) {
          return commit_down(ops_, map, expired[i].key, Mutation::kDelete, expired[i].version,
                             ops_.ids.next());
        },
        [&](size_t, const Result<ChainCommit>& commit) {
          if (!commit) return end_or_go_on(commit.error());
          report.chains_completed += commit->completed_other;
          report.records_expired += commit->record != nullptr;
          return Result<void>{};
        });
    if (!done) co_return done;
  }
}

void Reclaimer::remember_tombstone(const std::string& key, uint64_t version) {
  auto known = tombstones_.find(key);
  if (known == tombstones_.end()) {
    if (tombstones_.size() >= kMaxTombstones) return;
    known = tombstones_.emplace(key, Seen{}).first;
  }
  Seen& tombstone = known->second;
  if (tombstone.version != version) tombstone = {version, ops_.clock.now(), true};
  tombstone.seen_in_round = true;
}

Task<Result<void>> Reclaimer::collect_tombstones(MapPtr map, const std::vector<bool>& synced,
                                                 ReclaimReport& report) {
  for (auto& [_, tombstone] : tombstones_) tombstone.seen_in_round = false;
  TailScan scan(ops_, map, synced, TailScan::Kind::kTombstones);
  for (;;) {
    const auto page = co_await scan.next();
    if (!page) co_return fail(page.error());
    if (!*page) break;
    for (const KeyVersion& found : **page) remember_tombstone(found.key, found.version);
  }
  std::erase_if(tombstones_, [](const auto& entry) { return !entry.second.seen_in_round; });

  TombstonesByPartition due;
  for (const auto& [key, tombstone] : tombstones_) {
    if (ops_.clock.now() - tombstone.first_seen < ops_.settings.tombstone_keep) continue;
    auto& tombstones = due[static_cast<uint32_t>(map->partition_of(key))];
    if (tombstones.size() < kMaxDropped) tombstones.push_back({key, tombstone.version});
  }
  for (auto& [partition, tombstones] : due) {
    auto dropped = co_await drop_tombstones(map, partition, std::move(tombstones), report);
    if (!dropped && ends_round(dropped.error())) co_return dropped;
  }
  co_return Result<void>{};
}

namespace {

template <class Message>
Task<Result<void>> at_home(OpsContext& ops, MapPtr map, NodeId home, Opcode opcode,
                           Message message) {
  auto reply = co_await ops.nodes.call(home, stamp_for(*map, home), make_request(opcode, message),
                                       soon(ops));
  if (!reply) co_return fail(reply.error());
  if (reply->status() != Status::kOk) co_return fail(refusal(home, *reply));
  co_return Result<void>{};
}

template <class Message>
Task<Result<void>> at_all_homes(OpsContext& ops, MapPtr map, uint32_t partition, Opcode opcode,
                                Message message) {
  std::vector<Task<Result<void>>> calls;
  for (const NodeId home : map->partitions[partition].homes) {
    calls.push_back(at_home(ops, map, home, opcode, message));
  }
  for (auto& done : co_await when_all(std::move(calls))) {
    if (!done) co_return done;
  }
  co_return Result<void>{};
}

}  // namespace

Task<Result<void>> Reclaimer::drop_tombstones(MapPtr map, uint32_t partition, Tombstones tombstones,
                                              ReclaimReport& report) {
  if (!mutant(Mutant::kDropWithoutFloor)) {
    node::RaiseFloorRequest raise{partition, 0};
    for (const auto& tombstone : tombstones) raise.floor = std::max(raise.floor, tombstone.version);
    // The head first: a record that it commits meanwhile is never below the floors further down.
    const std::vector<NodeId> homes = map->partitions[partition].homes;
    for (const NodeId home : homes | std::views::reverse) {
      auto raised = co_await at_home(ops_, map, home, Opcode::kRaiseFloor, raise);
      if (!raised) co_return raised;
    }
  }
  const size_t count = tombstones.size();
  const node::DropTombstonesRequest drop{partition, std::move(tombstones)};
  auto dropped = co_await at_all_homes(ops_, map, partition, Opcode::kDropTombstones, drop);
  if (!dropped) co_return dropped;
  report.tombstones_dropped += count;
  co_return Result<void>{};
}

}  // namespace elastripe
