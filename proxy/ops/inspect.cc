// What `elastripe object KEY` shows: the record, and which of its shards are missing.
#include "proxy/async/when_all.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/outcome.h"
#include "proxy/ops/read_tail.h"
#include "proxy/ops/shards.h"

namespace elastripe {

namespace {

using node::Status;

// kRead: the node has it, whole.
Task<ShardRead> look_for_shard(OpsContext& ops, MapPtr map, NodeId node, node::ShardName name,
                               TimePoint deadline) {
  if (!map->is_up(node)) {
    const node::NodeInfo* info = map->find_node(node);
    const bool is_gone = info == nullptr || info->state == node::NodeState::kLost;
    co_return is_gone ? ShardRead::kMissing : ShardRead::kUnreachable;
  }
  node::ShardConfirmRequest message;
  message.names.push_back(name);
  auto reply = co_await ops.nodes.call(node, stamp_for(*map, node),
                                       make_request(node::Opcode::kShardConfirm, message),
                                       call_deadline(ops, deadline));
  if (!reply) {
    const bool is_gone = reply.error().code == ErrorCode::kUnavailable;
    co_return is_gone ? ShardRead::kMissing : ShardRead::kUnreachable;
  }
  if (reply->status() != Status::kOk) {
    const bool is_over = refusal(node, *reply).code == ErrorCode::kStaleEpoch;
    co_return is_over ? ShardRead::kStaleEpoch : ShardRead::kUnreachable;
  }
  const auto confirmed = node::decode<node::ShardConfirmReply>(reply->args());
  const bool is_there =
      confirmed && confirmed->entries.size() == 1 && confirmed->entries[0].present;
  co_return is_there ? ShardRead::kRead : ShardRead::kMissing;
}

// kStaleEpoch: the map is over, so what nodes said under it tells nothing of their shards.
Task<Result<ObjectReport>> try_inspect(OpsContext& ops, MapPtr map, std::string key,
                                       TimePoint deadline) {
  auto tail = co_await try_read_tail(ops, map, key, /*if_version=*/0, deadline);
  if (!tail) co_return fail(tail.error());
  ObjectReport report;
  report.record = tail->record;
  report.homes = map->partitions[map->partition_of(key)].homes;
  if (report.record == nullptr) co_return report;

  const auto& content = report.record->content;
  for (const auto& segment : content.segments) {
    std::vector<Task<ShardRead>> looks;
    looks.reserve(segment.placement.size());
    for (size_t i = 0; i < segment.placement.size(); ++i) {
      looks.push_back(look_for_shard(ops, map, segment.placement[i],
                                     shard_name(segment, content.scheme, i), deadline));
    }
    const auto found = co_await when_all(std::move(looks));
    SegmentHealth health;
    for (size_t i = 0; i < found.size(); ++i) {
      const auto index = static_cast<uint8_t>(i);
      if (found[i] == ShardRead::kStaleEpoch) {
        co_return fail(ErrorCode::kStaleEpoch, "the cluster map has changed; ask again");
      }
      if (found[i] == ShardRead::kMissing) health.missing.push_back(index);
      if (found[i] == ShardRead::kUnreachable) health.unreachable.push_back(index);
    }
    report.segments.push_back(std::move(health));
  }
  co_return report;
}

}  // namespace

Task<Result<ObjectReport>> inspect_object(OpsContext& ops, std::string key, TimePoint deadline) {
  for (;;) {
    auto map = current_map(ops);
    if (!map) co_return fail(map.error());
    auto report = co_await try_inspect(ops, *map, key, deadline);
    if (report) co_return report;
    auto again = co_await before_retry(ops, *map, report.error(), deadline);
    if (!again) co_return fail(again.error());
  }
}

}  // namespace elastripe
