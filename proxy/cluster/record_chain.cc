#include "proxy/cluster/record_chain.h"

#include "proxy/async/when_all.h"
#include "server-patches/node/format/fail_point.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

using node::RecordReadRequest;
using node::RecordStoreRequest;
using node::Status;

Chain chain_of(const node::ClusterMap& map, std::string_view key) {
  Chain chain;
  chain.partition = map.partition_of(key);
  chain.nodes = map.partitions[chain.partition].homes;
  return chain;
}

namespace {

// Outside of the coroutines, so that what only these need lies in no frame.
[[gnu::noinline]] Question<RecordReadRequest> read_question(const node::ClusterMap& map,
                                                            node::Role role, std::string_view key,
                                                            uint64_t if_version, LogQuestion log) {
  RecordReadRequest message;
  message.role = role;
  message.m = map.max_parities;
  message.if_version = if_version;
  message.key = key;
  message.log = log.wanted;
  message.log_offset = log.offset;
  message.log_length = log.length;
  message.is_use = log.is_use;
  message.tells_use = log.tells_use;
  return question(message);
}

Result<LogViewPtr> log_of(const node::ClusterMap& map, NodeId from, std::string& encoded,
                          uint64_t age_ms) {
  auto view = std::make_shared<LogView>();
  view->encoded = std::move(encoded);
  auto image = node::decode_log(node::as_view(view->encoded));
  if (!image) return fail(malformed(map, from, image.error()));
  view->image = std::move(*image);
  view->age_ms = age_ms;
  return view;
}

[[gnu::noinline]] Result<RecordReply> record_of(const node::ClusterMap& map, NodeId from,
                                                Answer<RecordReadRequest>& answer) {
  RecordReply result;
  result.status = answer.status();
  if (result.status == Status::kNotSynced) return result;
  result.floor = answer.args.floor;
  if (result.status == Status::kBadPage) result.damaged_version = answer.args.damaged_version;
  if (result.status == Status::kOk || !answer.payload().empty()) {
    const auto record = new_record();
    // The node looked at the bytes before it sent them: the next reading may bring them intact.
    auto decoded = node::decode_record(answer.payload(), *record);
    if (!decoded) {
      return fail(ErrorCode::kUnavailable, "{}", malformed(map, from, decoded.error()).message);
    }
    result.record = record;
  }
  if (!answer.args.log.empty()) {
    auto log = log_of(map, from, answer.args.log, answer.args.log_age_ms);
    if (!log) return fail(log.error());
    result.log = std::move(*log);
  }
  result.synced_in = answer.args.synced_in;
  result.use = answer.args.use;
  return result;
}

void note_refused_sync(const NodeRooms& rooms, const node::ClusterMap& map, NodeId node,
                       std::string_view key) {
  const bool as_source = node::is_source(map.partitions[map.partition_of(key)], node);
  rooms.note_refused_sync(node, map.nodes[node].incarnation, as_source);
}

[[gnu::noinline]] Question<RecordStoreRequest> store_question(const RecordStoreRequest& message,
                                                              const EncodedRecord& record) {
  auto store = question(message);
  store.payload(record.pieces);
  return store;
}

}  // namespace

Task<Result<RecordReply>> read_record(NodeClient& nodes, const MapPtr& map, NodeId from,
                                      node::Role role, std::string_view key, uint64_t if_version,
                                      TimePoint deadline, LogQuestion log) {
  auto answer =
      co_await ask(nodes, *map, from, read_question(*map, role, key, if_version, log), deadline);
  if (!answer) co_return fail(answer.error());
  co_return record_of(*map, from, *answer);
}

Task<Result<void>> store_record(NodeClient& nodes, const NodeRooms& rooms, const MapPtr& map,
                                NodeId to, const RecordStoreRequest& message,
                                const EncodedRecord& record, TimePoint deadline) {
  const auto answer = co_await ask(nodes, *map, to, store_question(message, record), deadline);
  if (!answer) co_return fail(answer.error());
  rooms.note_free_bytes(to, answer->reply.header.free_bytes);
  if (message.sync && answer->status() == Status::kNoSpace) {
    if (mutant(Mutant::kFullIsStored)) co_return Result<void>{};
    note_refused_sync(rooms, *map, to, message.key);
  }
  if (answer->status() != Status::kOk) co_return fail(refusal(*map, to, answer->reply));
  co_return Result<void>{};
}

namespace {

Task<Result<void>> store_at_all(NodeClient& nodes, const NodeRooms& rooms, const MapPtr& map,
                                std::span<const NodeId> homes, const RecordStoreRequest& message,
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
                                    const Chain& chain, const RecordStoreRequest& message,
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
  RecordStoreRequest message;
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
