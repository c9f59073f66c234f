#include "tests/sim/map_judge.h"

#include <fmt/core.h>

#include <algorithm>

using namespace elastripe::decider;

namespace elastripe::sim {

using std::chrono::milliseconds;

namespace {

// Looking at a node takes a frame.
constexpr Duration kLookEvery = milliseconds(100);

}  // namespace

// Where the simulator tells proxies of maps, they follow by other rules.
MapJudge::MapJudge(Run& run, Cluster& cluster) : run_(run), cluster_(cluster) {
  if (!run.scenario.cluster.followers) return;
  cluster.watch_maps([this] { look(); });
  cluster.watch_beginnings([this](SimProxy& proxy) { note_beginning(proxy); });
  cluster.network().watch_installs(
      [this](node::NodeId at, const node::ClusterMap& map) { note_installed(at, map); });
}

void MapJudge::tell() {
  if (!found_.empty()) run_.violation(Fault::kMaps, found_);
}

void MapJudge::find(std::string what) {
  run_.trace.add("-- {}", what);
  if (found_.empty()) found_ = std::move(what);
}

void MapJudge::note_installed(node::NodeId at, const node::ClusterMap& map) {
  installed_[map.epoch.map_hash].insert(at);
}

void MapJudge::look() {
  if (run_.events.now() - looked_at_nodes_ >= kLookEvery) look_at_nodes();
  for (const auto& proxy : cluster_.proxies()) {
    if (proxy->is_alive()) look_at_proxy(*proxy);
  }
}

void MapJudge::look_at_nodes() {
  const TimePoint now = looked_at_nodes_ = run_.events.now();
  const Duration lately = cluster_.configuration().decider.suspect_after / 2;
  for (node::NodeId id = 0; id < cluster_.nodes(); ++id) {
    SimNode& node = cluster_.node(id);
    bool hears = false;
    if (node.is_up()) {
      const node::Reply reply = node.hello();
      const auto told = node::decode<node::HelloReply>(node::as_view(reply.args));
      if (told && told->has_lease) leased_[reply.header.epoch.map_hash] = now;
      hears = told && told->decider_age_ms && milliseconds(*told->decider_age_ms) < lately &&
              !node.is_stalled() && !node.is_stuck();
    }
    if (!hears) {
      hears_since_.erase(id);
    } else {
      hears_since_.emplace(id, now);
    }
    for (const auto& proxy : cluster_.proxies()) {
      if (!proxy->is_alive()) continue;
      const auto link = std::pair(proxy->id(), id);
      if (cluster_.network().is_cut(proxy->id(), id)) {
        linked_since_.erase(link);
      } else {
        linked_since_.emplace(link, now);
      }
    }
  }
}

void MapJudge::look_at_proxy(SimProxy& proxy) {
  const TimePoint now = run_.events.now();
  Served& served = served_.try_emplace(proxy.id(), Served{.awake_since = now}).first->second;
  if (proxy.clock().paused()) served.awake_since = now;
  const node::MapPtr map = proxy.map().current();
  if (map != nullptr && map != served.map) {
    check_order(proxy, served, *map);
    check_installed(proxy, *map);
    served.map = map;
    served.since = now;
  }
  if (map != nullptr && !proxy.goes_by(map->settings)) {
    find(fmt::format("proxy {} serves epoch {}, and goes by other settings than that has",
                     proxy.id(), map->epoch.number));
  }
  // Whoever begins to follow anew has time to look again.
  const bool follows = !Cluster::is_deciding(proxy) && proxy.follower() == served.follower;
  if (map == nullptr || !follows) served.since = now;
  served.follower = proxy.follower();
  check_leases(proxy, served);
}

// It never goes back, nor to a rival of the same number.
void MapJudge::check_order(const SimProxy& proxy, const Served& before,
                           const node::ClusterMap& map) {
  if (before.map == nullptr) return;
  if (before.map->cluster_id != map.cluster_id) {
    find(fmt::format("proxy {} serves a map of another cluster", proxy.id()));
  } else if (map.epoch != before.map->epoch && map.epoch.number <= before.map->epoch.number) {
    find(fmt::format("proxy {} serves epoch {} of proxy {:08x} after epoch {} of proxy {:08x}",
                     proxy.id(), map.epoch.number, map.epoch.decider, before.map->epoch.number,
                     before.map->epoch.decider));
  }
}

// Rule 2: a map is served once all its members have it, and a node that has a lease proves that.
void MapJudge::check_installed(const SimProxy& proxy, const node::ClusterMap& map) {
  if (!fully_installed_.insert(map.epoch.map_hash).second) return;
  const std::set<node::NodeId>& have = installed_[map.epoch.map_hash];
  for (const node::NodeInfo& node : map.nodes) {
    if (node.state != node::NodeState::kUp || have.contains(node.id)) continue;
    return find(fmt::format("proxy {} serves epoch {}, which node {} has not got", proxy.id(),
                            map.epoch.number, node.id));
  }
}

// It may learn late that there are none any more: as late as an answer may be, and look at that for
// as long as it counts; then it serves on for a lease and as long as a node may be silent.
void MapJudge::check_leases(SimProxy& proxy, const Served& served) {
  if (served.map == nullptr || proxy.follower() == nullptr) return;
  const DeciderSettings& times = proxy.follower()->settings();
  const Duration longest = times.lease + 3 * times.suspect_after + milliseconds(500);
  const TimePoint leased = leased_[served.map->epoch.map_hash];
  const TimePoint since = std::max({leased, served.since, served.awake_since});
  if (run_.events.now() - since <= longest) return;
  find(fmt::format("proxy {} serves on under epoch {}, of which no node has had a lease for {} ms",
                   proxy.id(), served.map->epoch.number,
                   std::chrono::duration_cast<milliseconds>(run_.events.now() - leased).count()));
}

// A majority of the nodes has heard of a decider all the time, and would have told.
void MapJudge::note_beginning(SimProxy& proxy) {
  const Duration long_enough = 2 * cluster_.configuration().decider.suspect_after;
  const TimePoint since = run_.events.now() - long_enough;
  const auto seen = served_.find(proxy.id());
  if (seen == served_.end() || seen->second.awake_since > since) return;
  size_t hearing = 0;
  for (node::NodeId id = 0; id < cluster_.nodes(); ++id) {
    const auto hears = hears_since_.find(id);
    const auto linked = linked_since_.find({proxy.id(), id});
    hearing += hears != hears_since_.end() && hears->second <= since &&
               linked != linked_since_.end() && linked->second <= since;
  }
  if (2 * hearing <= cluster_.nodes()) return;
  find(fmt::format("proxy {} begins to decide, though {} nodes that it reaches hear of a decider",
                   proxy.id(), hearing));
}

}  // namespace elastripe::sim
