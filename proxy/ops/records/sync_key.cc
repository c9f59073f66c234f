// One key on access, and the steps that the sweep shares with it.
#include <algorithm>

#include "proxy/async/when_all.h"
#include "proxy/base/log.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/records/sync.h"
#include "proxy/ops/records/sync_copies.h"
#include "proxy/ops/records/sync_steps.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::records {

using node::Partition;
using node::Status;

std::vector<NodeId> sources_of(const Partition& partition) {
  std::set<NodeId> nodes;
  for (const auto& group : partition.sources) nodes.insert(group.begin(), group.end());
  std::vector<NodeId> sources(nodes.begin(), nodes.end());
  if (mutant(Mutant::kSyncOneSource) && sources.size() > 1) sources.resize(1);
  return sources;
}

std::vector<NodeId> holders_of(const Partition& partition) {
  std::vector<NodeId> nodes = sources_of(partition);
  if (mutant(Mutant::kSyncOneSource) && !nodes.empty()) return nodes;
  for (const NodeId id : partition.homes) {
    if (std::ranges::find(nodes, id) == nodes.end()) nodes.push_back(id);
  }
  return nodes;
}

namespace {

template <class Message>
Task<Result<void>> tell_all(NodeClient& nodes, MapPtr map, std::vector<NodeId> homes,
                            Message message, TimePoint deadline) {
  std::vector<Task<Result<void>>> calls;
  calls.reserve(homes.size());
  for (const NodeId home : homes) {
    calls.push_back(tell(nodes, map, home, message, deadline));
  }
  for (auto& told : co_await when_all(std::move(calls))) {
    if (!told) co_return fail(told.error());
  }
  co_return Result<void>{};
}

}  // namespace

Task<Result<void>> mark_all(NodeClient& nodes, MapPtr map, std::vector<NodeId> homes,
                            node::MarkSyncedRequest message, TimePoint deadline) {
  if (mutant(Mutant::kSyncForgetsFloor)) message.floor = 0;
  return tell_all(nodes, std::move(map), std::move(homes), std::move(message), deadline);
}

Task<Result<void>> raise_floors(NodeClient& nodes, MapPtr map, std::vector<NodeId> homes,
                                node::RaiseFloorRequest message, TimePoint deadline) {
  return tell_all(nodes, std::move(map), std::move(homes), message, deadline);
}

namespace {

node::RecordStoreRequest store_request(const node::ClusterMap& map, std::string_view key) {
  node::RecordStoreRequest message;
  message.m = map.max_parities;
  message.sync = true;
  message.key = key;
  return message;
}

}  // namespace

Task<Result<void>> store_synced(OpsContext& ops, MapPtr map, NodeId home, std::string key,
                                EncodedRecord record, TimePoint deadline, LogViewPtr log) {
  node::RecordStoreRequest message = store_request(*map, key);
  if (log != nullptr) message.log = log->encoded;
  const NodeRoomsPtr rooms = ops.map.rooms();
  auto stored = co_await store_record(ops.nodes, *rooms, map, home, message, record, deadline);
  if (!stored && stored.error().code == ErrorCode::kConflict) co_return Result<void>{};
  co_return stored;
}

namespace {

// The maximum of all sources is what stays. An error that is not kNoSpace comes first.
Task<Result<void>> store_at_each(OpsContext& ops, MapPtr map, std::vector<NodeId> homes,
                                 std::string key, EncodedRecord record, LogViewPtr log,
                                 TimePoint deadline) {
  std::vector<Task<Result<void>>> stores;
  stores.reserve(homes.size());
  for (const NodeId home : homes) {
    stores.push_back(store_synced(ops, map, home, key, record, deadline, log));
  }
  Result<void> result;
  for (auto& stored : co_await when_all(std::move(stores))) {
    if (stored) continue;
    if (result || stored.error().code != ErrorCode::kNoSpace) result = std::move(stored);
  }
  co_return result;
}

// At the tail last: one that stays synced serves what it gets at once, so all others must have it.
// Homes give numbers to what has none in the log: the tail before them. If it got the log last, and
// the next map, or a later version of the record, came before that, it would number otherwise.
Task<Result<void>> store_all(OpsContext& ops, MapPtr map, std::vector<NodeId> homes,
                             std::string key, EncodedRecord record, LogViewPtr log,
                             TimePoint deadline) {
  const NodeId tail = chain_of(*map, key).tail();
  std::erase(homes, tail);
  const bool gives_numbers = log != nullptr && !log->image.unnumbered.empty();
  const LogViewPtr log_with_record = gives_numbers ? nullptr : log;
  auto at_others = co_await store_at_each(ops, map, homes, key, record, log_with_record,
                                          call_deadline(ops, deadline));
  // A home without room keeps the record from no other: the more have it, the safer it is.
  if (!at_others && at_others.error().code != ErrorCode::kNoSpace) co_return at_others;
  auto at_tail =
      co_await store_at_each(ops, map, {tail}, key, record, log, call_deadline(ops, deadline));
  if (!at_tail || !at_others || !gives_numbers) co_return at_tail ? at_others : at_tail;
  co_return co_await store_at_each(ops, map, homes, key, record, log, call_deadline(ops, deadline));
}

constexpr int kLooks = 4;  // at copies of a key that is lost, and written anew meanwhile

enum class Loss : uint8_t { kStored, kKnown, kRefuted };

// The key's record counts as damaged at the home from now on, unless the home knows better.
Task<Result<Loss>> store_lost(NodeClient& nodes, MapPtr map, NodeId home, std::string key,
                              uint64_t lost_version, TimePoint deadline) {
  node::RecordStoreRequest message = store_request(*map, key);
  message.lost_version = lost_version;
  const auto stored = co_await ask(nodes, *map, home, message, deadline);
  if (!stored) co_return fail(stored.error());
  if (stored->status() == Status::kSame) co_return Loss::kKnown;
  if (stored->status() != Status::kOk) co_return fail(refusal(*map, home, stored->reply));
  co_return stored->args.version == 0 ? Loss::kStored : Loss::kRefuted;
}

// So that nobody takes the key for missing once the partition is synced, or an older copy for the
// newest. First at the head: what is committed there afterwards has a version above the floor, and
// stays. False: some home knows better, as a commit came first; all have to be looked at again.
Task<Result<bool>> spread_loss(OpsContext& ops, MapPtr map, std::string key, uint64_t lost_version,
                               TimePoint deadline) {
  const auto number = static_cast<uint32_t>(map->partition_of(key));
  const std::vector<NodeId>& homes = map->partitions[number].homes;
  auto raised = co_await raise_floors(ops.nodes, map, homes, {number, lost_version},
                                      call_deadline(ops, deadline));
  if (!raised) co_return fail(raised.error());
  const NodeId head = chain_of(*map, key).head();
  auto at_head =
      co_await store_lost(ops.nodes, map, head, key, lost_version, call_deadline(ops, deadline));
  if (!at_head) co_return fail(at_head.error());
  if (*at_head == Loss::kRefuted) co_return false;
  std::vector<Task<Result<Loss>>> stores;
  stores.reserve(homes.size());
  for (const NodeId home : homes) {
    if (home == head) continue;
    stores.push_back(
        store_lost(ops.nodes, map, home, key, lost_version, call_deadline(ops, deadline)));
  }
  bool is_news = *at_head == Loss::kStored;
  bool is_refuted = false;
  for (const auto& stored : co_await when_all(std::move(stores))) {
    if (!stored) co_return fail(stored.error());
    is_news |= *stored == Loss::kStored;
    is_refuted |= *stored == Loss::kRefuted;
  }
  if (is_refuted) co_return false;
  if (!is_news) co_return true;
  log_warning(
      "partition {}: every copy of the newest record of \"{}\" was damaged in memory: it is "
      "lost until it is set again",
      number, key);
  co_return true;
}

// What is to be stored everywhere; nothing if the record is lost, and every home knows it.
Task<Result<std::optional<Copies>>> find_copies(OpsContext& ops, MapPtr map, std::string key,
                                                TimePoint deadline) {
  const Partition& partition = map->partitions[map->partition_of(key)];
  for (int looks = 0; looks < kLooks; ++looks) {
    auto copies = co_await read_copies(ops, map, key, holders_of(partition), deadline);
    if (!copies) co_return fail(copies.error());
    if (copies->lost_version == 0) co_return std::move(*copies);
    // In a synced partition these are the homes themselves, and in a LOST one all keys are lost.
    const bool homes_know = partition.sources.empty() || partition.lost;
    if (homes_know || partition.homes.empty()) co_return std::nullopt;
    auto spread = co_await spread_loss(ops, map, key, copies->lost_version, deadline);
    if (!spread) co_return fail(spread.error());
    if (*spread) co_return std::nullopt;
  }
  co_return fail(ErrorCode::kUnavailable, "homes disagree on whether a record is lost");
}

}  // namespace

Task<Result<void>> sync_one(OpsContext& ops, MapPtr map, std::string key, TimePoint deadline) {
  const size_t number = map->partition_of(key);
  const Partition& partition = map->partitions[number];
  const node::MarkSyncedRequest synced{static_cast<uint32_t>(number), key, 0};
  if (mutant(Mutant::kMarkBeforeStored)) {
    auto marked =
        co_await mark_all(ops.nodes, map, partition.homes, synced, call_deadline(ops, deadline));
    if (!marked) co_return marked;
  }

  const auto found = co_await find_copies(ops, map, key, deadline);
  if (!found) co_return fail(found.error());
  if (!*found)
    co_return fail(ErrorCode::kLost, "every copy of the key's record was damaged in memory");
  const Copies& copies = **found;
  const RecordPtr newest = copies.newest;
  if (partition.lost && newest == nullptr) {
    co_return fail(ErrorCode::kLost, "partition {} is lost", number);
  }
  if (newest != nullptr) {
    std::string encoded;
    node::encode(*newest, encoded);
    auto stored = co_await store_all(ops, map, partition.homes, key, {{Buffer::copy_of(encoded)}},
                                     copies.log, deadline);
    if (!stored) co_return stored;
  }
  node::MarkSyncedRequest message = synced;
  message.floor = copies.floor;
  auto marked =
      co_await mark_all(ops.nodes, map, partition.homes, message, call_deadline(ops, deadline));
  if (marked) ++ops.counters.key_syncs;
  co_return marked;
}

Task<Result<void>> sync_key(OpsContext& ops, MapPtr map, std::string key, TimePoint deadline) {
  auto synced = co_await sync_one(ops, std::move(map), std::move(key), deadline);
  if (synced || synced.error().code != ErrorCode::kNoSpace) co_return synced;
  co_return fail(ErrorCode::kUnavailable, "{}, and shall be a home of the key",
                 synced.error().message);
}

}  // namespace elastripe::records
