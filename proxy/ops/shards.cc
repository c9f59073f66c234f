#include "proxy/ops/shards.h"

#include <algorithm>
#include <map>
#include <utility>

#include "proxy/async/when_all.h"
#include "proxy/cluster/record_chain.h"
#include "proxy/ops/attempt.h"
#include "server-patches/node/format/fail_point.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

using node::Status;

node::ShardName shard_name(const node::Segment& segment, const coding::Scheme& scheme,
                           size_t index) {
  const bool is_parity = index >= scheme.k_prime;
  const bool has_generations = is_parity && !mutant(Mutant::kOverwriteParities);
  return {.txid = is_parity && !has_generations ? segment.data_txid
                                                : node::txid_of_shard(segment, scheme, index),
          .segment = segment.number,
          .generation = has_generations ? segment.generation : 0,
          .index = static_cast<uint8_t>(index)};
}

Result<coding::SegmentGeometry> geometry_of(const coding::Scheme& scheme,
                                            const node::Segment& segment) {
  const auto codec = coding::codec_for(scheme);
  if (!codec) return fail(ErrorCode::kInvalid, "{}", codec.error());
  auto geometry = coding::SegmentGeometry::make(**codec, segment.length);
  if (!geometry) return fail(ErrorCode::kInvalid, "{}", geometry.error());
  if (geometry->block_bytes() != segment.block_bytes) {
    return fail(ErrorCode::kInvalid, "segment of {} bytes has blocks of {} bytes, expected {}",
                segment.length, segment.block_bytes, geometry->block_bytes());
  }
  return *geometry;
}

std::optional<ShardRead> read_without_asking(const node::ClusterMap& map, NodeId from) {
  if (map.is_up(from)) return std::nullopt;
  const node::NodeInfo* info = map.find_node(from);
  const bool is_gone = info == nullptr || info->state == node::NodeState::kLost;
  return is_gone ? ShardRead::kMissing : ShardRead::kUnreachable;
}

Task<ShardRead> read_shard(OpsContext& ops, MapPtr map, NodeId from, node::ShardName name,
                           std::vector<MutableByteView> into, std::vector<Buffer> keep,
                           TimePoint deadline, ShardRange range, CallStop* stop) {
  if (const auto known = read_without_asking(*map, from)) co_return *known;
  node::ShardReadRequest message;
  message.name = name;
  message.offset = range.offset;
  message.length = range.length;
  auto read = question(message);
  size_t wanted = 0;
  for (const auto& part : into) wanted += part.size();
  read.frame->into = std::move(into);
  read.frame->keep = std::move(keep);
  read.frame->stop = stop;
  const auto answer =
      co_await ask(ops.nodes, *map, from, std::move(read), call_deadline(ops, deadline));
  if (!answer) {
    const bool is_over = answer.error().code == ErrorCode::kStaleEpoch;
    co_return is_over ? ShardRead::kStaleEpoch : ShardRead::kUnreachable;
  }
  switch (answer->status()) {
    case Status::kOk:
      // Bytes of another size did not go where they were wanted: not the shard that the record
      // names.
      co_return answer->reply.header.payload_bytes() == wanted ? ShardRead::kRead
                                                               : ShardRead::kMissing;
    case Status::kNoLease:  // the map is not over for it
      co_return ShardRead::kUnreachable;
    default:
      co_return ShardRead::kMissing;
  }
}

Task<Result<std::vector<node::ShardConfirmReply::Entry>>> confirm_shards(
    OpsContext& ops, MapPtr map, NodeId on, std::vector<node::ShardName> names, bool check_pages,
    TimePoint deadline) {
  std::vector<node::ShardConfirmReply::Entry> entries;
  while (entries.size() < names.size()) {
    const auto asked = static_cast<ptrdiff_t>(entries.size());
    node::ShardConfirmRequest message;
    message.names.assign(names.begin() + asked, names.end());
    message.check_pages = check_pages;
    const auto answer = co_await ask(ops.nodes, *map, on, message, call_deadline(ops, deadline));
    if (!answer) co_return fail(answer.error());
    const auto& confirmed = answer->args.entries;
    if (confirmed.empty() || confirmed.size() > message.names.size()) {
      co_return fail(malformed(*map, on, "bad confirmation"));
    }
    entries.insert(entries.end(), confirmed.begin(), confirmed.end());
  }
  co_return entries;
}

std::vector<ShardsOnNode> shards_by_node(const coding::Scheme& scheme,
                                         const std::vector<node::Segment>& segments) {
  std::map<NodeId, ShardsOnNode> by_node;
  std::vector<ShardsOnNode> result;
  for (const auto& segment : segments) {
    for (size_t i = 0; i < segment.placement.size(); ++i) {
      if (segment.placement[i] == kNoNode) continue;
      ShardsOnNode& shards = by_node[segment.placement[i]];
      shards.node = segment.placement[i];
      shards.names.push_back(shard_name(segment, scheme, i));
      if (shards.names.size() == kShardsPerFrame) {
        result.push_back(std::exchange(shards, {shards.node, {}}));
      }
    }
  }
  for (auto& [node, shards] : by_node) {
    if (!shards.names.empty()) result.push_back(std::move(shards));
  }
  return result;
}

namespace {

// kStaleEpoch: another map is on its way. What does not answer is left to reclaim.
Task<Result<uint64_t>> try_delete(OpsContext& ops, MapPtr map, ShardsOnNode shards,
                                  TimePoint deadline, uint32_t after_ms) {
  if (!map->is_up(shards.node)) co_return 0;
  node::ShardDeleteRequest message;
  message.names = std::move(shards.names);
  message.after_ms = after_ms;
  const auto deleted = co_await ask(ops.nodes, *map, shards.node, message, deadline);
  if (!deleted && deleted.error().code == ErrorCode::kStaleEpoch) co_return fail(deleted.error());
  if (!deleted) co_return 0;
  fail_point(FailPoint::kDeletionTold);
  co_return deleted->args.deleted;
}

// While partitions move, one map follows another, and none of them shall cost a deletion.
Task<uint64_t> delete_on_node(OpsContext& ops, ShardsOnNode shards, TimePoint deadline,
                              uint32_t after_ms) {
  const auto deleted =
      co_await under_newest_map(ops, deadline, [&](const MapPtr& map, TimePoint& until) {
        return try_delete(ops, map, shards, until, after_ms);
      });
  co_return deleted.value_or(0);
}

}  // namespace

Task<uint64_t> delete_shards_later(OpsContext& ops, std::vector<ShardsOnNode> shards,
                                   Duration after, TimePoint deadline) {
  const auto after_ms =
      static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(after).count());
  std::vector<Task<uint64_t>> deletions;
  deletions.reserve(shards.size());
  for (auto& on_node : shards) {
    deletions.push_back(delete_on_node(ops, std::move(on_node), deadline, after_ms));
  }
  uint64_t deleted = 0;
  for (const uint64_t on_node : co_await when_all(std::move(deletions))) deleted += on_node;
  co_return deleted;
}

Task<void> delete_shards(OpsContext& ops, std::vector<ShardsOnNode> shards, TimePoint deadline) {
  co_await delete_shards_later(ops, std::move(shards), Duration::zero(), deadline);
}

// Superseded shards that wait together, as long as the flow does that deletes them.
struct DeferredDeletion {
  Duration grace;
  std::vector<ShardsOnNode> shards;
  size_t names = 0;     // of all nodes
  bool is_open = true;  // for more, until the nodes are told

  void add(std::vector<ShardsOnNode> more);
};

void DeferredDeletion::add(std::vector<ShardsOnNode> more) {
  for (ShardsOnNode& added : more) {
    names += added.names.size();
    const auto place = std::ranges::find_if(shards, [&](const ShardsOnNode& there) {
      return there.node == added.node && there.names.size() + added.names.size() <= kShardsPerFrame;
    });
    if (place == shards.end()) {
      shards.push_back(std::move(added));
    } else {
      place->names.insert(place->names.end(), added.names.begin(), added.names.end());
    }
  }
}

namespace {

Task<void> wait_and_delete(OpsContext& ops, std::shared_ptr<DeferredDeletion> deletion) {
  const bool may_go_on = co_await ops.clock.sleep_for(kDeletionBatch);
  deletion->is_open = false;
  if (!may_go_on) co_return;
  fail_point(FailPoint::kSuperseded);
  co_await delete_shards_later(ops, std::move(deletion->shards), deletion->grace,
                               ops.clock.now() + ops.settings.node_timeout);
}

void delete_together(OpsContext& ops, std::weak_ptr<DeferredDeletion>& next,
                     std::vector<ShardsOnNode> shards, Duration grace) {
  if (shards.empty()) return;
  auto deletion = next.lock();
  if (deletion != nullptr && deletion->is_open && deletion->names < kShardsPerFrame) {
    return deletion->add(std::move(shards));
  }
  deletion = std::make_shared<DeferredDeletion>(grace);
  deletion->add(std::move(shards));
  next = deletion;
  // If the scope is full, reclaim finds what nothing refers to.
  (void)ops.background.try_spawn(wait_and_delete(ops, std::move(deletion)));
}

}  // namespace

void delete_after_grace(OpsContext& ops, std::vector<ShardsOnNode> shards) {
  delete_together(ops, ops.next_deletion, std::move(shards), ops.settings.read_grace);
}

void delete_patched(OpsContext& ops, std::vector<ShardsOnNode> shards) {
  delete_together(ops, ops.next_patched_deletion, std::move(shards),
                  std::min(ops.settings.read_grace, kPatchedGrace));
}

}  // namespace elastripe
