#include "proxy/ops/records/sync.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "proxy/async/when_all.h"
#include "proxy/cluster/membership.h"
#include "proxy/ops/records/sync_window.h"

namespace elastripe::records {

using node::Partition;
using node::Status;

namespace {

constexpr size_t kWindowsAtOnce = 2;  // one that waits for a slow node does not hold up all
constexpr size_t kLeastWindows = 8;   // so that what is through is marked early

// What a node told, under `map`; nothing if it does not tell.
Task<std::optional<node::HelloReply>> hello(NodeClient& nodes, MapPtr map, NodeId id,
                                            TimePoint deadline) {
  auto told =
      co_await ask(nodes, *map, id, node::HelloRequest{.known_map = map->epoch.map_hash}, deadline);
  if (!told || told->reply.header.epoch != map->epoch) co_return std::nullopt;
  co_return std::move(told->args);
}

// What is left to be done: the partitions that some home has not got as synced yet, without those
// that nothing can be synced for.
struct Rest {
  std::vector<uint32_t> partitions;
  uint64_t records = 0;  // of all nodes, all partitions and copies
};

Task<Rest> find_rest(OpsContext& ops, MapPtr map) {
  const TimePoint deadline = ops.clock.now() + ops.settings.node_timeout;
  std::vector<NodeId> asked;
  std::vector<Task<std::optional<node::HelloReply>>> hellos;
  for (const node::NodeInfo& info : map->nodes) {
    if (info.state != node::NodeState::kUp) continue;
    asked.push_back(info.id);
    hellos.push_back(hello(ops.nodes, map, info.id, deadline));
  }
  auto answers = co_await when_all(std::move(hellos));
  Rest rest;
  std::map<NodeId, std::vector<uint8_t>> bits;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (!answers[i]) continue;
    bits[asked[i]] = std::move(answers[i]->synced);
    rest.records += answers[i]->statistics.records;
  }
  for (uint32_t p = 0; p < map->partitions.size(); ++p) {
    const Partition& partition = map->partitions[p];
    if (partition.synced || (partition.lost && partition.sources.empty())) continue;
    const bool everywhere =
        std::ranges::all_of(partition.homes, [&](NodeId home) { return has_bit(bits[home], p); });
    if (!everywhere) rest.partitions.push_back(p);
  }
  co_return rest;
}

// Deaths that what is acknowledged of the partition survives at least.
size_t copies_of(const Partition& partition) {
  size_t copies = SIZE_MAX;
  for (const auto& group : partition.sources) copies = std::min(copies, group.size());
  return copies;
}

using Windows = std::deque<std::vector<uint32_t>>;

// LOST partitions are last, and by themselves; before, what has the fewest copies is first.
Windows windows_of(const node::ClusterMap& map, Rest rest) {
  const auto rank = [&](uint32_t p) {
    const Partition& partition = map.partitions[p];
    return std::tuple(partition.lost, copies_of(partition), p);
  };
  std::ranges::sort(rest.partitions, {}, rank);
  const size_t copies = map.partitions.size() * (map.max_parities + size_t{1});
  const size_t keys = rest.records / copies + 1;  // of a partition, by estimate
  const size_t at_most = (rest.partitions.size() + kLeastWindows - 1) / kLeastWindows;
  const size_t size = std::clamp<size_t>(kWindowKeys / keys, 1, std::max<size_t>(at_most, 1));
  Windows windows;
  for (const uint32_t p : rest.partitions) {
    const bool fits = !windows.empty() && windows.back().size() < size &&
                      map.partitions[windows.back().front()].lost == map.partitions[p].lost;
    if (!fits) windows.emplace_back();
    windows.back().push_back(p);
  }
  return windows;
}

// Takes windows until there are none. What has too many keys is split.
Task<bool> sync_windows(Sweep& sweep, Windows& windows) {
  while (!windows.empty() && !sweep.is_stopped()) {
    const std::vector<uint32_t> partitions = std::move(windows.front());
    windows.pop_front();
    SyncWindow window(sweep, partitions);
    if (co_await window.run()) continue;
    const auto middle = partitions.begin() + static_cast<ptrdiff_t>(partitions.size() / 2);
    windows.emplace_front(middle, partitions.end());
    windows.emplace_front(partitions.begin(), middle);
  }
  co_return true;
}

}  // namespace

Task<Result<SyncEnd>> sync_partitions(OpsContext& ops, MapPtr map, const bool* stop) {
  Windows windows = windows_of(*map, co_await find_rest(ops, map));
  Sweep sweep{.ops = ops, .map = map, .stop = stop};
  std::vector<Task<bool>> takers;
  takers.reserve(kWindowsAtOnce);
  for (size_t i = 0; i < kWindowsAtOnce; ++i) takers.push_back(sync_windows(sweep, windows));
  co_await when_all(std::move(takers));
  if (sweep.is_stopped()) co_return fail(ErrorCode::kCancelled, "sync was stopped");
  if (!sweep.failure) co_return fail(sweep.failure.error());
  SyncEnd end;
  size_t waiting = 0;
  for (const uint32_t p : sweep.refused) ++(map->partitions[p].lost ? end.lost_waiting : waiting);
  if (waiting > 0) {
    co_return fail(ErrorCode::kNoSpace, "{} partitions wait, as their homes lack room", waiting);
  }
  co_return end;
}

}  // namespace elastripe::records
