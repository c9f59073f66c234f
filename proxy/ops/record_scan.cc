#include "proxy/ops/record_scan.h"

#include "proxy/cluster/record_chain.h"

namespace elastripe {

std::map<NodeId, std::vector<uint8_t>> partitions_by_tail(const node::ClusterMap& map,
                                                          const std::vector<bool>& chosen) {
  std::map<NodeId, std::vector<uint8_t>> by_tail;
  for (size_t p = 0; p < map.partitions.size(); ++p) {
    if (!chosen[p] || map.partitions[p].homes.empty()) continue;
    auto& bits = by_tail[map.partitions[p].homes.front()];
    bits.resize((map.partitions.size() + 7) / 8);
    bits[p / 8] = static_cast<uint8_t>(bits[p / 8] | 1u << (p % 8));
  }
  return by_tail;
}

Task<Result<node::RecordScanReply>> scan_records(OpsContext& ops, MapPtr map, NodeId from,
                                                 node::RecordScanRequest message) {
  auto reply = co_await ops.nodes.call(from, stamp_for(*map, from),
                                       make_request(node::Opcode::kRecordScan, message),
                                       ops.clock.now() + ops.settings.node_timeout);
  if (!reply) co_return fail(reply.error());
  if (reply->status() != node::Status::kOk) co_return fail(refusal(from, *reply));
  auto page = node::decode<node::RecordScanReply>(reply->args());
  if (!page) co_return fail(ErrorCode::kInvalid, "node {}: {}", from, page.error());
  co_return std::move(*page);
}

}  // namespace elastripe
