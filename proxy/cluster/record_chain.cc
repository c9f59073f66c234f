#include "proxy/cluster/record_chain.h"

#include "proxy/async/when_all.h"
#include "server-patches/node/format/fail_point.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

using node::Opcode;
using node::Status;

Chain chain_of(const node::ClusterMap& map, std::string_view key) {
  Chain chain;
  chain.partition = map.partition_of(key);
  chain.nodes = map.partitions[chain.partition].homes;
  return chain;
}

namespace {

ErrorCode code_of(Status status) {
  switch (status) {
    case Status::kStaleEpoch:
    case Status::kNoLease:
    case Status::kJoining:
    case Status::kNotHome:
    case Status::kNotSynced:
      return ErrorCode::kStaleEpoch;
    case Status::kLost:
      return ErrorCode::kLost;
    case Status::kNoSpace:
      return ErrorCode::kNoSpace;
    case Status::kNotFound:
    case Status::kNotHere:
    case Status::kBadPage:
      return ErrorCode::kNotFound;
    case Status::kTooLarge:
      return ErrorCode::kTooLarge;
    case Status::kConditionFailed:
    case Status::kFenced:
    case Status::kExists:
      return ErrorCode::kConflict;
    default:
      return ErrorCode::kInvalid;
  }
}

// In the words of docs/consistency.md: clients are shown it.
std::string reason_of(NodeId node, const NodeReply& reply) {
  switch (reply.status()) {
    case Status::kLost:
      return "every home of the key's partition crashed";
    case Status::kStaleEpoch:
      return fmt::format("node {} has another cluster map", node);
    case Status::kNoLease:
      return fmt::format("node {} has no lease", node);
    case Status::kJoining:
      return fmt::format("node {} is in no cluster map yet", node);
    case Status::kNotHome:
      return fmt::format("node {} is no home of the key in its map", node);
    case Status::kNotSynced:
      return fmt::format("node {} has not synced the key yet", node);
    case Status::kNoSpace:
      return fmt::format("node {} is full", node);
    default:
      return fmt::format("node {} answers {} to {}", node, node::name(reply.status()),
                         node::name(reply.header.opcode));
  }
}

}  // namespace

Error refusal(NodeId node, const NodeReply& reply) {
  return {code_of(reply.status()), reason_of(node, reply)};
}

namespace {

// Outside of the coroutines, so that what only these need lies in no frame.
[[gnu::noinline]] NodeRequest read_request(const node::ClusterMap& map, node::Role role,
                                           std::string_view key, uint64_t if_version) {
  node::RecordReadRequest message;
  message.role = role;
  message.m = map.max_parities;
  message.if_version = if_version;
  message.key = key;
  return make_request(Opcode::kRecordRead, message);
}

[[gnu::noinline]] Result<RecordReply> read_reply(NodeId from, const NodeReply& reply) {
  RecordReply result;
  result.status = reply.status();
  if (result.status == Status::kNotSynced) return result;
  if (result.status != Status::kOk && result.status != Status::kSame &&
      result.status != Status::kNotFound && result.status != Status::kBadPage) {
    return fail(refusal(from, reply));
  }
  if (result.status == Status::kBadPage) {
    const auto damaged = node::decode<node::DamagedReply>(reply.args());
    if (!damaged) return fail(ErrorCode::kInvalid, "node {}: {}", from, damaged.error());
    result.floor = damaged->floor;
    result.damaged_version = damaged->version;
  } else {
    const auto floor = node::decode<node::FloorReply>(reply.args());
    if (!floor) return fail(ErrorCode::kInvalid, "node {}: {}", from, floor.error());
    result.floor = floor->floor;
  }
  if (result.status == Status::kOk || !reply.payload().empty()) {
    const auto record = new_record();
    // The node looked at the bytes before it sent them: the next reading may bring them intact.
    auto decoded = node::decode_record(reply.payload(), *record);
    if (!decoded) return fail(ErrorCode::kUnavailable, "node {}: {}", from, decoded.error());
    result.record = record;
  }
  return result;
}

void note_refused_sync(const NodeRooms& rooms, const node::ClusterMap& map, NodeId node,
                       std::string_view key) {
  const bool as_source = node::is_source(map.partitions[map.partition_of(key)], node);
  rooms.note_refused_sync(node, map.nodes[node].incarnation, as_source);
}

[[gnu::noinline]] NodeRequest store_request(const node::RecordStoreRequest& message,
                                            const EncodedRecord& record) {
  NodeRequest request = make_request(Opcode::kRecordStore, message);
  add_payload(request, record.pieces);
  return request;
}

}  // namespace

Task<Result<RecordReply>> read_record(NodeClient& nodes, const MapPtr& map, NodeId from,
                                      node::Role role, std::string_view key, uint64_t if_version,
                                      TimePoint deadline) {
  auto reply = co_await nodes.call(from, stamp_for(*map, from),
                                   read_request(*map, role, key, if_version), deadline);
  if (!reply) co_return fail(reply.error());
  co_return read_reply(from, *reply);
}

Task<Result<void>> store_record(NodeClient& nodes, const NodeRooms& rooms, const MapPtr& map,
                                NodeId to, const node::RecordStoreRequest& message,
                                const EncodedRecord& record, TimePoint deadline) {
  auto reply =
      co_await nodes.call(to, stamp_for(*map, to), store_request(message, record), deadline);
  if (!reply) co_return fail(reply.error());
  rooms.note_free_bytes(to, reply->header.free_bytes);
  if (message.sync && reply->status() == Status::kNoSpace) {
    if (mutant(Mutant::kFullIsStored)) co_return Result<void>{};
    note_refused_sync(rooms, *map, to, message.key);
  }
  if (reply->status() != Status::kOk) co_return fail(refusal(to, *reply));
  co_return Result<void>{};
}

namespace {

Task<Result<void>> store_at_all(NodeClient& nodes, const NodeRooms& rooms, const MapPtr& map,
                                std::span<const NodeId> homes,
                                const node::RecordStoreRequest& message,
                                const EncodedRecord& record, TimePoint deadline) {
  std::vector<Task<Result<void>>> stores;
  for (const NodeId home : homes) {
    stores.push_back(store_record(nodes, rooms, map, home, message, record, deadline));
  }
  for (auto& stored : co_await when_all(std::move(stores))) {
    if (!stored) co_return fail(stored.error());
  }
  co_return Result<void>{};
}

// A single one, which most chains with middles have, needs no lists of stores.
Task<Result<void>> store_at_middles(NodeClient& nodes, const NodeRooms& rooms, const MapPtr& map,
                                    const Chain& chain, const node::RecordStoreRequest& message,
                                    const EncodedRecord& record, TimePoint deadline) {
  const auto middles = chain.middles();
  if (middles.size() > 1) {
    return store_at_all(nodes, rooms, map, middles, message, record, deadline);
  }
  return store_record(nodes, rooms, map, middles.front(), message, record, deadline);
}

}  // namespace

Task<Result<void>> push_down(NodeClient& nodes, const NodeRooms& rooms, const MapPtr& map,
                             std::string_view key, const EncodedRecord& record, bool revive,
                             TimePoint deadline) {
  const Chain chain = chain_of(*map, key);
  node::RecordStoreRequest message;
  message.m = map->max_parities;
  message.revive = revive;
  message.key = key;
  if (!chain.middles().empty()) {
    auto stored = co_await store_at_middles(nodes, rooms, map, chain, message, record, deadline);
    if (!stored) co_return stored;
  }
  if (chain.nodes.size() > 1) {
    fail_point(FailPoint::kMiddlesStored);
    co_return co_await store_record(nodes, rooms, map, chain.tail(), message, record, deadline);
  }
  co_return Result<void>{};
}

}  // namespace elastripe
