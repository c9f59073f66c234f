// One key on access, and the steps that the sweep shares with it.
#include <algorithm>

#include "proxy/async/when_all.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/sync.h"
#include "proxy/ops/sync_copies.h"
#include "proxy/ops/sync_steps.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

using node::Opcode;
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

Task<Result<void>> mark(NodeClient& nodes, MapPtr map, NodeId to, node::MarkSyncedRequest message,
                        TimePoint deadline) {
  if (mutant(Mutant::kSyncForgetsFloor)) message.floor = 0;
  auto reply = co_await nodes.call(to, stamp_for(*map, to),
                                   make_request(Opcode::kMarkSynced, message), deadline);
  if (!reply) co_return fail(reply.error());
  if (reply->status() != Status::kOk) co_return fail(refusal(to, *reply));
  co_return Result<void>{};
}

}  // namespace

Task<Result<void>> mark_all(NodeClient& nodes, MapPtr map, std::vector<NodeId> homes,
                            node::MarkSyncedRequest message, TimePoint deadline) {
  std::vector<Task<Result<void>>> marks;
  marks.reserve(homes.size());
  for (const NodeId home : homes) marks.push_back(mark(nodes, map, home, message, deadline));
  for (auto& marked : co_await when_all(std::move(marks))) {
    if (!marked) co_return fail(marked.error());
  }
  co_return Result<void>{};
}

Task<Result<void>> store_synced(OpsContext& ops, MapPtr map, NodeId home, std::string key,
                                EncodedRecord record, TimePoint deadline) {
  node::RecordStoreRequest message;
  message.m = map->max_parities;
  message.sync = true;
  message.key = key;
  const NodeRoomsPtr rooms = ops.map.rooms();
  auto stored = co_await store_record(ops.nodes, *rooms, map, home, message, record, deadline);
  if (!stored && stored.error().code == ErrorCode::kConflict) co_return Result<void>{};
  co_return stored;
}

namespace {

// The maximum of all sources is what stays. An error that is not kNoSpace comes first.
Task<Result<void>> store_all(OpsContext& ops, MapPtr map, std::vector<NodeId> homes,
                             std::string key, EncodedRecord record, TimePoint deadline) {
  std::vector<Task<Result<void>>> stores;
  stores.reserve(homes.size());
  for (const NodeId home : homes) {
    stores.push_back(store_synced(ops, map, home, key, record, deadline));
  }
  Result<void> result;
  for (auto& stored : co_await when_all(std::move(stores))) {
    if (stored) continue;
    if (result || stored.error().code != ErrorCode::kNoSpace) result = std::move(stored);
  }
  co_return result;
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

  const auto copies = co_await read_copies(ops, map, key, holders_of(partition), deadline);
  if (!copies) co_return fail(copies.error());
  const RecordPtr newest = copies->newest;
  if (partition.lost && newest == nullptr) {
    co_return fail(ErrorCode::kLost, "partition {} is lost", number);
  }
  if (newest != nullptr) {
    std::string encoded;
    node::encode(*newest, encoded);
    auto stored = co_await store_all(ops, map, partition.homes, key, {{Buffer::copy_of(encoded)}},
                                     call_deadline(ops, deadline));
    if (!stored) co_return stored;
  }
  node::MarkSyncedRequest message = synced;
  message.floor = copies->floor;
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

}  // namespace elastripe
