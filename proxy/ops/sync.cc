#include "proxy/ops/sync.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "proxy/async/when_all.h"
#include "proxy/cluster/membership.h"
#include "proxy/cluster/record_chain.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/batches.h"
#include "proxy/ops/sync_copies.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

using node::Opcode;
using node::Partition;
using node::Status;

namespace {

constexpr uint32_t kPageBytes = 256 << 10;
constexpr size_t kKeysAtOnce = 32;  // of each source; heartbeats share the channels
constexpr size_t kMarksAtOnce = 64;

// Live nodes of all groups.
std::vector<NodeId> sources_of(const Partition& partition) {
  std::set<NodeId> nodes;
  for (const auto& group : partition.sources) nodes.insert(group.begin(), group.end());
  std::vector<NodeId> sources(nodes.begin(), nodes.end());
  if (mutant(Mutant::kSyncOneSource) && sources.size() > 1) sources.resize(1);
  return sources;
}

void add_missing(std::vector<NodeId>& nodes, const std::vector<NodeId>& more) {
  for (const NodeId id : more) {
    if (std::ranges::find(nodes, id) == nodes.end()) nodes.push_back(id);
  }
}

Task<Result<void>> mark(NodeClient& nodes, MapPtr map, NodeId to, node::MarkSyncedRequest message,
                        TimePoint deadline) {
  if (mutant(Mutant::kSyncForgetsFloor)) message.floor = 0;
  auto reply = co_await nodes.call(to, stamp_for(*map, to),
                                   make_request(Opcode::kMarkSynced, message), deadline);
  if (!reply) co_return fail(reply.error());
  if (reply->status() != Status::kOk) co_return fail(refusal(to, *reply));
  co_return Result<void>{};
}

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

// Store-if-greater on each of `homes`; the maximum of all sources is what stays. Who has no room
// for it is added to `full`; then, unless there is another error, kNoSpace.
Task<Result<void>> store_all(NodeClient& nodes, NodeRoomsPtr rooms, MapPtr map,
                             std::vector<NodeId> homes, std::string key, EncodedRecord record,
                             TimePoint deadline, std::set<NodeId>* full = nullptr) {
  node::RecordStoreRequest message;
  message.m = map->max_parities;
  message.sync = true;
  message.key = key;
  std::vector<Task<Result<void>>> stores;
  stores.reserve(homes.size());
  for (const NodeId home : homes) {
    stores.push_back(store_record(nodes, *rooms, map, home, message, record, deadline));
  }
  const auto all = co_await when_all(std::move(stores));
  Result<void> result;
  for (size_t i = 0; i < all.size(); ++i) {
    // kConflict: the home is synced already, and has collected a newer tombstone of the key.
    if (all[i] || all[i].error().code == ErrorCode::kConflict) continue;
    const bool is_full = all[i].error().code == ErrorCode::kNoSpace;
    if (is_full && full != nullptr) full->insert(homes[i]);
    if (result || !is_full) result = all[i];
  }
  co_return result;
}

// sync_key(), but for kNoSpace.
Task<Result<void>> sync_one(OpsContext& ops, MapPtr map, std::string key, TimePoint deadline) {
  const size_t number = map->partition_of(key);
  const Partition& partition = map->partitions[number];
  const node::MarkSyncedRequest synced{static_cast<uint32_t>(number), key, 0};
  if (mutant(Mutant::kMarkBeforeStored)) {
    auto marked =
        co_await mark_all(ops.nodes, map, partition.homes, synced, call_deadline(ops, deadline));
    if (!marked) co_return marked;
  }

  std::vector<NodeId> nodes = sources_of(partition);
  if (!mutant(Mutant::kSyncOneSource) || nodes.empty()) add_missing(nodes, partition.homes);
  const auto copies = co_await read_copies(ops, map, key, std::move(nodes), deadline);
  if (!copies) co_return fail(copies.error());
  const RecordPtr newest = copies->newest;
  if (partition.lost && newest == nullptr) {
    co_return fail(ErrorCode::kLost, "partition {} is lost", number);
  }
  if (newest != nullptr) {
    std::string encoded;
    node::encode(*newest, encoded);
    auto stored = co_await store_all(ops.nodes, ops.map.rooms(), map, partition.homes, key,
                                     {{Buffer::copy_of(encoded)}}, call_deadline(ops, deadline));
    if (!stored) co_return stored;
  }
  node::MarkSyncedRequest message = synced;
  message.floor = copies->floor;
  auto marked =
      co_await mark_all(ops.nodes, map, partition.homes, message, call_deadline(ops, deadline));
  if (marked) ++ops.counters.key_syncs;
  co_return marked;
}

}  // namespace

Task<Result<void>> sync_key(OpsContext& ops, MapPtr map, std::string key, TimePoint deadline) {
  auto synced = co_await sync_one(ops, std::move(map), std::move(key), deadline);
  if (synced || synced.error().code != ErrorCode::kNoSpace) co_return synced;
  co_return fail(ErrorCode::kUnavailable, "{}, and shall be a home of the key",
                 synced.error().message);
}

namespace {

using Floors = std::map<uint32_t, uint64_t>;  // by partition

// What one sweep has met of homes without room: it asks them no more, and goes on with the others.
struct Refusals {
  std::set<NodeId> homes;
  std::set<uint32_t> partitions;
  std::set<uint32_t> damaged;  // partitions with a record that no node has intact
};

// One record of a source's scan, to the homes that may lack it.
Task<Result<void>> push_scanned(OpsContext& ops, MapPtr map, NodeId source,
                                const node::ScannedRecord& record, Refusals& refusals) {
  const TimePoint deadline = ops.clock.now() + ops.settings.node_timeout;
  const auto number = static_cast<uint32_t>(map->partition_of(record.key));
  const Partition& partition = map->partitions[number];
  Result<void> stored;
  // Of a LOST partition every copy counts; a record without its bytes did not fit in the page.
  if (partition.lost || record.record.empty()) {
    stored = co_await sync_one(ops, map, record.key, deadline);
  } else {
    std::vector<NodeId> homes = partition.homes;
    std::erase(homes, source);
    const size_t refused =
        std::erase_if(homes, [&](NodeId home) { return refusals.homes.contains(home); });
    if (refused > 0) refusals.partitions.insert(number);
    stored = co_await store_all(ops.nodes, ops.map.rooms(), map, std::move(homes), record.key,
                                {{Buffer::copy_of(record.record)}}, deadline, &refusals.homes);
  }
  if (!stored && stored.error().code == ErrorCode::kNoSpace) {
    refusals.partitions.insert(number);
    co_return Result<void>{};
  }
  // One record must not hold up all others. (In a LOST partition its key stays lost.)
  if (!stored && stored.error().code == ErrorCode::kLost) {
    if (!partition.lost) refusals.damaged.insert(number);
    co_return Result<void>{};
  }
  co_return stored;
}

// One pass over everything that one source holds of `partitions`, pushed to the homes a few
// records at a time.
Task<Result<Floors>> scan_source(OpsContext& ops, MapPtr map, NodeId source,
                                 std::vector<uint8_t> partitions, Refusals& refusals) {
  node::RecordScanRequest message;
  message.max_bytes = kPageBytes;
  message.partitions = std::move(partitions);
  Floors floors;
  do {
    auto reply = co_await ops.nodes.call(source, stamp_for(*map, source),
                                         make_request(Opcode::kRecordScan, message),
                                         ops.clock.now() + ops.settings.node_timeout);
    if (!reply) co_return fail(reply.error());
    if (reply->status() != Status::kOk) co_return fail(refusal(source, *reply));
    auto page = node::decode<node::RecordScanReply>(reply->args());
    if (!page) co_return fail(ErrorCode::kInvalid, "node {}: {}", source, page.error());
    for (const auto& [partition, floor] : page->floors) {
      floors[partition] = std::max(floors[partition], floor);
    }

    auto pushed = co_await in_batches(
        page->records.size(), kKeysAtOnce,
        [&](size_t i) { return push_scanned(ops, map, source, page->records[i], refusals); },
        [](size_t, Result<void> stored) { return stored; });
    if (!pushed) co_return fail(pushed.error());
    message.cursor = page->cursor;
  } while (message.cursor != 0);
  co_return floors;
}

// Every home holds all of the partition: says so to all homes, and when they know, to the sources
// that are no homes, which then forget it.
Task<Result<void>> mark_partition(OpsContext& ops, MapPtr map, uint32_t number, uint64_t floor) {
  const Partition& partition = map->partitions[number];
  const TimePoint deadline = ops.clock.now() + ops.settings.node_timeout;
  const node::MarkSyncedRequest message{number, {}, floor};
  auto marked = co_await mark_all(ops.nodes, map, partition.homes, message, deadline);
  if (!marked) co_return marked;
  ++ops.counters.partition_syncs;
  std::vector<NodeId> others = sources_of(partition);
  std::erase_if(others, [&](NodeId id) {
    return std::ranges::find(partition.homes, id) != partition.homes.end();
  });
  // Memory only: the next map has them forget it too.
  (void)co_await mark_all(ops.nodes, map, std::move(others), message, deadline);
  co_return Result<void>{};
}

// A node's synced bits under `map`; nothing if it does not tell.
Task<std::vector<uint8_t>> synced_bits(NodeClient& nodes, MapPtr map, NodeId id,
                                       TimePoint deadline) {
  std::vector<uint8_t> bits;
  NodeRequest hello;
  hello.opcode = Opcode::kHello;
  auto reply = co_await nodes.call(id, Stamp{}, std::move(hello), deadline);
  if (!reply || reply->status() != Status::kOk || reply->header.epoch != map->epoch) co_return bits;
  if (auto decoded = node::decode<node::HelloReply>(reply->args())) bits = decoded->synced;
  co_return bits;
}

// The partitions that some home has not got as synced yet, without those that nothing can be synced
// for.
Task<std::vector<uint32_t>> unsynced_partitions(OpsContext& ops, MapPtr map) {
  const TimePoint deadline = ops.clock.now() + ops.settings.node_timeout;
  std::vector<Task<std::vector<uint8_t>>> hellos;
  for (const node::NodeInfo& info : map->nodes) {
    if (info.state != node::NodeState::kUp) continue;
    hellos.push_back(synced_bits(ops.nodes, map, info.id, deadline));
  }
  const auto answers = co_await when_all(std::move(hellos));
  std::map<NodeId, std::vector<uint8_t>> bits;
  size_t next = 0;
  for (const node::NodeInfo& info : map->nodes) {
    if (info.state == node::NodeState::kUp) bits[info.id] = answers[next++];
  }
  std::vector<uint32_t> unsynced;
  for (uint32_t p = 0; p < map->partitions.size(); ++p) {
    const Partition& partition = map->partitions[p];
    if (partition.synced || (partition.lost && partition.sources.empty())) continue;
    const bool everywhere =
        std::ranges::all_of(partition.homes, [&](NodeId home) { return has_bit(bits[home], p); });
    if (!everywhere) unsynced.push_back(p);
  }
  co_return unsynced;
}

// Marks what is complete, a bounded number at once. `floors`: nothing for a partition whose sources
// could not all be read.
Task<Result<void>> mark_partitions(OpsContext& ops, MapPtr map, Floors floors, const bool* stop) {
  Result<void> result;
  for (auto next = floors.begin(); next != floors.end();) {
    if (stop != nullptr && *stop) co_return fail(ErrorCode::kCancelled, "sync was stopped");
    std::vector<Task<Result<void>>> marks;
    for (; next != floors.end() && marks.size() < kMarksAtOnce; ++next) {
      marks.push_back(mark_partition(ops, map, next->first, next->second));
    }
    for (auto& marked : co_await when_all(std::move(marks))) {
      if (!marked && result) result = marked;
    }
    if (!result && result.error().code == ErrorCode::kStaleEpoch) break;
  }
  co_return result;
}

}  // namespace

Task<Result<void>> sync_partitions(OpsContext& ops, MapPtr map, const bool* stop) {
  const std::vector<uint32_t> unsynced = co_await unsynced_partitions(ops, map);
  std::map<NodeId, std::vector<uint8_t>> wanted;  // per source, one bit a partition
  Floors floors;
  for (const uint32_t p : unsynced) {
    if (!map->partitions[p].lost) floors[p] = 0;
    for (const NodeId source : sources_of(map->partitions[p])) {
      auto& bits = wanted[source];
      bits.resize((map->partitions.size() + 7) / 8);
      bits[p / 8] = static_cast<uint8_t>(bits[p / 8] | 1u << (p % 8));
    }
  }
  if (mutant(Mutant::kMarkBeforeStored)) {
    auto marked = co_await mark_partitions(ops, map, floors, stop);
    if (!marked) co_return marked;
  }

  std::vector<Task<Result<Floors>>> scans;
  scans.reserve(wanted.size());
  Refusals refusals;
  for (const auto& [source, bits] : wanted) {
    scans.push_back(scan_source(ops, map, source, bits, refusals));
  }
  const auto scanned = co_await when_all(std::move(scans));
  Result<void> result;
  size_t next = 0;
  for (const auto& [source, bits] : wanted) {
    const Result<Floors>& scan = scanned[next++];
    if (scan) {
      for (const auto& [partition, floor] : *scan) {
        auto known = floors.find(partition);
        if (known != floors.end()) known->second = std::max(known->second, floor);
      }
      continue;
    }
    if (scan.error().code == ErrorCode::kStaleEpoch) co_return fail(scan.error());
    if (result) result = fail(scan.error());
    std::erase_if(floors, [&](const auto& entry) { return has_bit(bits, entry.first); });
  }
  for (const uint32_t p : refusals.partitions) floors.erase(p);
  for (const uint32_t p : refusals.damaged) floors.erase(p);
  if (!mutant(Mutant::kMarkBeforeStored)) {
    auto marked = co_await mark_partitions(ops, map, std::move(floors), stop);
    if (!marked) co_return marked;
  }
  if (result && !refusals.partitions.empty()) {
    co_return fail(ErrorCode::kNoSpace, "{} partitions wait, as {} of their homes lack room",
                   refusals.partitions.size(), refusals.homes.size());
  }
  if (result && !refusals.damaged.empty()) {
    co_return fail(ErrorCode::kLost, "{} partitions have a record of which every copy is damaged",
                   refusals.damaged.size());
  }
  co_return result;
}

}  // namespace elastripe
