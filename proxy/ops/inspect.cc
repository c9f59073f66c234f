// What `elastripe object KEY` shows: the record, and which of its shards are missing.
#include "proxy/async/when_all.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/outcome.h"
#include "proxy/ops/read_tail.h"
#include "proxy/ops/shards.h"

namespace elastripe {

namespace {

Task<bool> is_present(OpsContext& ops, MapPtr map, NodeId node, node::ShardName name,
                      TimePoint deadline) {
  if (!map->is_up(node)) co_return false;
  node::ShardConfirmRequest message;
  message.names.push_back(name);
  auto reply = co_await ops.nodes.call(node, stamp_for(*map, node),
                                       make_request(node::Opcode::kShardConfirm, message),
                                       call_deadline(ops, deadline));
  if (!reply || reply->status() != node::Status::kOk) co_return false;
  const auto confirmed = node::decode<node::ShardConfirmReply>(reply->args());
  co_return confirmed && confirmed->entries.size() == 1 && confirmed->entries[0].present;
}

}  // namespace

Task<Result<ObjectReport>> inspect_object(OpsContext& ops, std::string key, TimePoint deadline) {
  auto tail = co_await read_tail(ops, key, deadline);
  if (!tail) co_return fail(tail.error());
  ObjectReport report;
  report.record = tail->record;
  report.homes = chain_of(*tail->map, key).nodes;
  if (report.record == nullptr) co_return report;

  const auto& content = report.record->content;
  for (const auto& segment : content.segments) {
    std::vector<Task<bool>> checks;
    checks.reserve(segment.placement.size());
    for (size_t i = 0; i < segment.placement.size(); ++i) {
      checks.push_back(is_present(ops, tail->map, segment.placement[i],
                                  shard_name(segment, content.scheme, i), deadline));
    }
    const auto present = co_await when_all(std::move(checks));
    SegmentHealth health;
    for (size_t i = 0; i < present.size(); ++i) {
      if (!present[i]) health.missing.push_back(static_cast<uint8_t>(i));
    }
    report.segments.push_back(std::move(health));
  }
  co_return report;
}

}  // namespace elastripe
