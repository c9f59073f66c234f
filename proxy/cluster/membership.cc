#include "proxy/cluster/membership.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "proxy/base/check.h"
#include "proxy/cluster/next_settings.h"
#include "proxy/cluster/placement.h"
#include "server-patches/node/format/mutant.h"
#include "server-patches/node/format/record.h"

namespace elastripe {

using node::ClusterMap;
using node::NodeId;
using node::NodeInfo;
using node::NodeState;
using node::Partition;

namespace {

using Group = std::vector<NodeId>;

// What the groups of the new map are made from.
struct Succession {
  const ClusterMap& last;
  const ClusterMap& next;  // its nodes
  const MapRequest& request;
  const Ring& ring;
  mutable size_t moves_left = 0;  // of partitions that could stay where they are

  // The same process, with a role before and after: it has what it had. A node that was suspect has
  // missed what happened since, so it is no source.
  bool is_live(NodeId id) const {
    const NodeInfo& before = last.nodes[id];
    const NodeInfo& after = next.nodes[id];
    return before.state == NodeState::kUp && after.state == NodeState::kUp &&
           before.incarnation == after.incarnation;
  }
  bool is_returned_suspect(NodeId id) const {
    const NodeInfo& before = last.nodes[id];
    const bool was_out = before.state == NodeState::kSuspect || before.state == NodeState::kAway;
    return was_out && next.nodes[id].state == NodeState::kUp &&
           before.incarnation == next.nodes[id].incarnation;
  }
  // One that `last` was made from, or an earlier one, for which it accounts. Where `last` does not
  // say what it was made from, whatever is earlier is taken for one of these.
  bool is_ancestor(const node::Epoch& epoch) const {
    if (last.base.number == 0) return epoch.number < last.epoch.number;
    return epoch.number < last.base.number || epoch == last.base;
  }
  // Two deciders at once may each have some nodes install their maps: whoever has another one than
  // `last` has forgotten what that one does not let it keep.
  bool has_forgotten(NodeId id, size_t partition) const {
    if (id >= request.maps.size() || request.maps[id] == nullptr) return false;
    const ClusterMap& map = *request.maps[id];
    if (map.cluster_id != last.cluster_id || partition >= map.partitions.size()) return true;
    if (map.epoch == last.epoch || is_ancestor(map.epoch)) return false;
    const Partition& kept = map.partitions[partition];
    const bool is_whole = kept.synced && std::ranges::find(kept.homes, id) != kept.homes.end();
    return !is_whole && !is_source(kept, id);
  }
  // Those that have what the last map says of the partition.
  Group live_of(const Group& group, size_t partition) const {
    Group live;
    std::ranges::copy_if(group, std::back_inserter(live),
                         [&](NodeId id) { return is_live(id) && !has_forgotten(id, partition); });
    return live;
  }
  bool has_last_map(NodeId id) const { return request.reports[id].epoch == last.epoch; }
  bool reported_synced(NodeId id, size_t partition) const {
    return has_last_map(id) && has_bit(request.reports[id].synced, partition);
  }
};

bool contains_all(const Group& outer, const Group& inner) {
  return std::ranges::all_of(
      inner, [&](NodeId id) { return std::ranges::find(outer, id) != outer.end(); });
}

// What is on each node of a group is on each node of its subsets: they say it all.
void drop_supersets(std::vector<Group>& groups) {
  std::vector<Group> kept;
  std::ranges::sort(groups, [](const Group& a, const Group& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  for (Group& group : groups) {
    const bool is_superset = std::ranges::any_of(
        kept, [&](const Group& smaller) { return contains_all(group, smaller); });
    if (!is_superset) kept.push_back(std::move(group));
  }
  groups = std::move(kept);
}

// The groups of a partition that nobody has as synced: those of the last map, and its homes, which
// hold what was committed under it.
std::vector<Group> inherited_groups(const Succession& s, size_t number) {
  const Partition& before = s.last.partitions[number];
  std::vector<Group> groups;
  groups.reserve(before.sources.size() + 1);
  for (const Group& group : before.sources) groups.push_back(s.live_of(group, number));
  const Group homes = s.live_of(before.homes, number);
  // A map is served only once every survivor has it. If a live home has not, nothing was committed
  // under it, and what that home holds may be older than all sources: it never forgot it.
  const bool may_have_served =
      std::ranges::all_of(homes, [&](NodeId id) { return s.has_last_map(id); });
  if (may_have_served) groups.push_back(homes);
  return groups;
}

// A partition of the next map, and who can not be a home of it.
struct Choice {
  Partition partition;
  Group left_out;
};

// Nodes without the room to become whole from `sources`, of which `old` are those of the last map:
// who is in none of these has been brought what it has since, if anything. A node with room for its
// own only is left out where it would have to be brought more, and one without any unless it has
// everything, being in all groups.
Group without_room(const Succession& s, const std::vector<Group>& sources,
                   const std::vector<Group>& old) {
  Group left_out;
  if (sources.empty()) return left_out;  // there is nothing to bring
  for (const NodeInfo& node : s.next.nodes) {
    const Room room = s.request.reports[node.id].room;
    const auto has = [&](const Group& group) { return contains_all(group, {node.id}); };
    const bool fits = room == Room::kForMore || std::ranges::all_of(sources, has) ||
                      (room == Room::kForOwn && std::ranges::any_of(old, has));
    if (!fits) left_out.push_back(node.id);
  }
  return left_out;
}

void choose_homes(const Succession& s, size_t number, Choice& choice) {
  const size_t count = s.next.max_parities + size_t{1};
  auto& [partition, left_out] = choice;
  partition.homes = homes_of(s.next, s.ring, number, count, left_out);
  if (!partition.homes.empty()) return;
  // Any node that has something of it must do: what has no home can not even be deleted. Better one
  // that has room for what it has missed.
  for (const Room least : {Room::kForOwn, Room::kNone}) {
    std::erase_if(left_out, [&](NodeId id) {
      return is_source(partition, id) && s.request.reports[id].room <= least;
    });
    partition.homes = homes_of(s.next, s.ring, number, count, left_out);
    if (!partition.homes.empty()) return;
  }
}

// It was away, and is back with what it had then, or with nothing.
bool has_returned(const Succession& s, NodeId id) {
  const NodeInfo& before = s.last.nodes[id];
  return before.state != NodeState::kUp && before.incarnation != 0 && s.next.is_up(id);
}

// Whether a partition whose homes have all of it gets others now. Who was away gets back at once
// what others stood in for; members that are new or leave have to wait for their turn.
bool may_move(const Succession& s, const Group& from, const Group& to) {
  if (from == to || from.size() != to.size()) return true;
  if (std::ranges::any_of(to, [&](NodeId id) { return has_returned(s, id); })) return true;
  if (s.moves_left == 0) return false;
  --s.moves_left;
  return true;
}

// Rule 30.
bool hands_on_too_early(const Succession& s, size_t number) {
  if (!mutant(Mutant::kMoveFromHalfSynced)) return false;
  const Group& homes = s.last.partitions[number].homes;
  const Group belongs = homes_of(s.next, s.ring, number, s.next.max_parities + size_t{1});
  return s.live_of(homes, number) == homes && homes != belongs;
}

Choice next_partition(const Succession& s, size_t number) {
  const Partition& before = s.last.partitions[number];
  Choice choice;
  Partition& after = choice.partition;
  const Group live_homes = s.live_of(before.homes, number);
  const bool was_synced =
      !before.lost && !live_homes.empty() &&
      (before.synced || hands_on_too_early(s, number) ||
       std::ranges::any_of(live_homes, [&](NodeId id) { return s.reported_synced(id, number); }));
  if (was_synced) {
    // Each live home holds all of it. The same incarnations on the same places: nothing to do.
    after.sources = {live_homes};
    choice.left_out = without_room(s, after.sources, after.sources);
    choose_homes(s, number, choice);
    const bool could_stay = live_homes == before.homes;
    if (could_stay && !may_move(s, before.homes, after.homes)) after.homes = before.homes;
    after.synced = after.homes == before.homes && live_homes == before.homes;
    if (mutant(Mutant::kSuspectIsSource)) {
      after.synced |= std::ranges::all_of(after.homes, [&](NodeId id) {
        return s.is_returned_suspect(id) || contains_all(live_homes, {id});
      });
    }
    if (after.synced) after.sources.clear();
    return choice;
  }
  std::vector<Group> groups = inherited_groups(s, number);
  const bool has_gap = std::ranges::any_of(groups, &Group::empty);
  std::erase_if(groups, [](const Group& group) { return group.empty(); });
  drop_supersets(groups);
  if (before.lost || has_gap) {
    // What is left may be older than what is lost, so none of it counts. In a partition that was
    // LOST before, the sources hold what blind SETs have written since.
    // A gap that opens only now has been shown to nobody, so nobody has accepted it.
    const bool starts_again = s.request.accept_loss && before.lost && !has_gap;
    after.lost = !starts_again;
    if (before.lost && !has_gap) after.sources = std::move(groups);
  } else {
    after.sources = std::move(groups);
  }
  if (!after.lost) {  // else its homes take what revives its keys
    std::vector<Group> old;
    old.reserve(before.sources.size());
    for (const Group& group : before.sources) old.push_back(s.live_of(group, number));
    std::erase_if(old, [&](const Group& group) {
      return std::ranges::find(after.sources, group) == after.sources.end();
    });
    choice.left_out = without_room(s, after.sources, old);
  }
  choose_homes(s, number, choice);
  return choice;
}

// Every node left of `last` has just that map, and no rival's that let it forget something.
bool is_everywhere(const ClusterMap& last, const ClusterMap& next,
                   const std::vector<NodeReport>& reports) {
  return std::ranges::all_of(last.nodes, [&](const NodeInfo& node) {
    const bool is_left = node.state == NodeState::kUp && next.is_up(node.id) &&
                         next.nodes[node.id].incarnation == node.incarnation;
    return !is_left || reports[node.id].epoch == last.epoch;
  });
}

}  // namespace

namespace {

// Whether every home of every partition had all of it under `last`. A home is marked as synced only
// when all of them have stored, so one that tells so is enough. What is LOST waits for nobody, but
// for what was written to it before its homes changed.
bool is_all_synced(const ClusterMap& last, const MapRequest& request) {
  const auto tells = [&](NodeId id, size_t p) {
    const NodeReport& report = request.reports[id];
    return report.verdict == Verdict::kAnswers && report.epoch == last.epoch &&
           has_bit(report.synced, p);
  };
  for (size_t p = 0; p < last.partitions.size(); ++p) {
    const Partition& partition = last.partitions[p];
    const bool is_synced =
        partition.synced || (partition.lost && partition.sources.empty()) ||
        std::ranges::any_of(partition.homes, [&](NodeId id) { return tells(id, p); });
    if (!is_synced) return false;
  }
  return true;
}

// Null: `last` does not have it as a member.
const NodeInfo* member_of(const ClusterMap& last, size_t id) {
  const NodeInfo* node = last.find_node(static_cast<NodeId>(id));
  return node == nullptr || node->is_removed() ? nullptr : node;
}

// `last` is null for the first map. A suspect that nothing has to be synced from any more is away:
// it is no longer one of the M that may be silent together.
std::vector<NodeInfo> next_nodes(const ClusterMap* last, const MembershipSettings& settings,
                                 const MapRequest& request) {
  std::vector<NodeInfo> nodes = settings.nodes;
  const bool is_whole = last != nullptr && is_all_synced(*last, request);
  for (size_t id = 0; id < nodes.size(); ++id) {
    const bool is_member = last != nullptr && !nodes[id].is_removed();
    const NodeInfo* before = is_member ? member_of(*last, id) : nullptr;
    Standing standing = standing_of(before, request.reports[id]);
    const bool stays_out = before != nullptr && before->state == NodeState::kSuspect &&
                           standing.state == NodeState::kSuspect;
    if (stays_out && is_whole) standing.state = NodeState::kAway;
    nodes[id].id = static_cast<NodeId>(id);
    nodes[id].state = standing.state;
    nodes[id].incarnation = standing.incarnation;
  }
  return nodes;
}

// To wait for a node that is lost could last for ever; it stays out if it comes back without. One
// that is only silent has a say, as it is to come back as it is, or the operator declares it dead.
node::CapabilitySet common_capabilities(const ClusterMap& map, const MembershipSettings& settings,
                                        const MapRequest& request) {
  node::CapabilitySet common = settings.capabilities.without(node::peer_capabilities());
  for (const NodeInfo& node : map.nodes) {
    if (node.state == NodeState::kLost) continue;
    const NodeReport& report = request.reports[node.id];
    common = common.common_with(report.capabilities.value_or(node::CapabilitySet()));
  }
  return common;
}

// Those of `last`, and what all nodes of `map` and all proxies have beyond.
node::CapabilitySet next_capabilities(const ClusterMap& last, const ClusterMap& map,
                                      const MembershipSettings& settings,
                                      const MapRequest& request) {
  const auto common = common_capabilities(map, settings, request);
  return last.capabilities.with(common.common_with(request.proxies_have.value_or(common)));
}

Result<void> set_epoch(ClusterMap& map, uint32_t last_number, uint64_t last_floor,
                       const MapRequest& request) {
  const uint32_t above = std::max(last_number, request.above_number);
  if (above >= node::kMaxEpoch) {
    return fail(ErrorCode::kInvalid, "a node has a map of epoch {}, and there is none above",
                above);
  }
  map.epoch.number = above + 1;
  map.epoch.decider = request.decider;
  map.version_floor =
      std::max(node::next_block(last_floor), node::first_version_of(map.epoch.number));
  for (const NodeReport& report : request.reports) {
    if (report.verdict != Verdict::kAnswers) continue;
    // The numbers behind it may have been given to updates that nobody tells of.
    map.version_floor = std::max(map.version_floor, node::next_block(report.max_version));
  }
  return {};
}

// More commits of one key than there can be between a report and the map that is made of it. It
// matters where an epoch lasts so long that the versions of a key come near the next one's.
constexpr uint64_t kMostUnreported = uint64_t{1} << (19 + node::kUpdateBits);
static_assert(kMostUnreported < uint64_t{1} << node::kCounterBits);

// After set_epoch(): whatever was committed under a map before is not above the new map's floor.
void set_flush(ClusterMap& map, const ClusterMap& last, const MapRequest& request) {
  const bool is_takeover = !request.maps.empty();
  map.flush_floor = is_takeover && mutant(Mutant::kForgetFlush) ? 0 : last.flush_floor;
  map.flush_at = request.flush.at.value_or(last.flush_at);
  if (!request.flush.now) return;
  for (const NodeReport& report : request.reports) {
    if (report.verdict != Verdict::kAnswers) continue;
    map.version_floor =
        std::max(map.version_floor, node::next_block(report.max_version + kMostUnreported));
  }
  map.flush_floor = map.version_floor;
}

}  // namespace

Standing standing_of(const NodeInfo* last, const NodeReport& report) {
  const Standing before = last == nullptr ? Standing{} : Standing{last->state, last->incarnation};
  switch (report.verdict) {
    case Verdict::kAnswers:
      return {NodeState::kUp, report.incarnation};
    case Verdict::kRefuses:
      return {NodeState::kLost, before.incarnation};
    case Verdict::kSilent:
      // A timeout proves no death (rule 4), and nothing about one who is already out.
      return {before.state == NodeState::kUp ? NodeState::kSuspect : before.state,
              before.incarnation};
  }
  return before;
}

bool needs_map(const ClusterMap& last, const MembershipSettings& settings,
               const MapRequest& request) {
  if (last.max_parities < wanted_parities(last, settings, request)) return true;
  if (next_capabilities(last, last, settings, request) != last.capabilities) return true;
  for (size_t id = 0; id < settings.nodes.size(); ++id) {
    const NodeInfo* before = last.find_node(static_cast<NodeId>(id));
    if (before == nullptr) return true;
    if (standing_of(member_of(last, id), request.reports[id]) !=
            Standing{before->state, before->incarnation} ||
        identity_of(*before) != identity_of(settings.nodes[id])) {
      return true;
    }
  }
  return request.accept_loss && std::ranges::any_of(last.partitions, &Partition::lost);
}

bool needs_away(const ClusterMap& last, const MapRequest& request) {
  const bool is_any_silent = std::ranges::any_of(last.nodes, [&](const NodeInfo& node) {
    return node.state == NodeState::kSuspect &&
           request.reports[node.id].verdict == Verdict::kSilent;
  });
  return is_any_silent && is_all_synced(last, request);
}

namespace {

// How many homes a partition can have: M+1, or as many as there are domains with a node that is up.
size_t possible_homes(const ClusterMap& map) {
  std::set<std::string_view> domains;
  for (const NodeInfo& node : map.nodes) {
    if (node.state == NodeState::kUp) domains.insert(node.domain);
  }
  return std::min(domains.size(), map.max_parities + size_t{1});
}

}  // namespace

bool needs_homes(const ClusterMap& last, const Ring& ring, const MapRequest& request) {
  const Succession same_nodes{last, last, request, ring};
  const size_t possible = possible_homes(last);
  const auto lacks_room = [&](NodeId id) { return request.reports[id].room != Room::kForMore; };
  const bool any_has_room = std::ranges::any_of(last.nodes, [&](const NodeInfo& node) {
    return node.state == NodeState::kUp && !lacks_room(node.id);
  });
  for (size_t p = 0; p < last.partitions.size(); ++p) {
    const Partition& before = last.partitions[p];
    const bool may_grow = any_has_room && before.homes.size() < possible;
    const bool may_refuse = !before.synced && std::ranges::any_of(before.homes, lacks_room);
    if (before.lost || (!may_grow && !may_refuse)) continue;
    const auto& [after, left_out] = next_partition(same_nodes, p);
    const bool drops_one =
        std::ranges::any_of(left_out, [&](NodeId id) { return contains_all(before.homes, {id}); });
    const bool adds_one = std::ranges::any_of(after.homes, [&](NodeId id) {
      return !lacks_room(id) && !contains_all(before.homes, {id});
    });
    if (drops_one || (adds_one && after.homes.size() > before.homes.size())) return true;
  }
  return false;
}

namespace {

size_t count_unsynced(const ClusterMap& last, const MapRequest& request) {
  size_t count = 0;
  for (size_t p = 0; p < last.partitions.size(); ++p) {
    const Partition& partition = last.partitions[p];
    if (partition.lost) continue;  // it waits for nobody
    count += !partition.synced && std::ranges::none_of(partition.homes, [&](NodeId id) {
      const NodeReport& report = request.reports[id];
      return report.epoch == last.epoch && has_bit(report.synced, p);
    });
  }
  return count;
}

}  // namespace

uint32_t count_misplaced(const ClusterMap& map, const Ring& ring) {
  uint32_t count = 0;
  for (size_t p = 0; p < map.partitions.size(); ++p) {
    const Partition& partition = map.partitions[p];
    count +=
        !partition.lost && partition.homes != homes_of(map, ring, p, map.max_parities + size_t{1});
  }
  return count;
}

size_t moves_at_once(size_t partitions) { return std::max<size_t>(1, partitions / 16); }

bool needs_moves(const ClusterMap& last, const Ring& ring, const MapRequest& request) {
  if (count_unsynced(last, request) > 0) return false;
  const Succession same_nodes{last, last, request, ring, last.partitions.size()};
  for (size_t p = 0; p < last.partitions.size(); ++p) {
    if (!last.partitions[p].lost &&
        next_partition(same_nodes, p).partition.homes != last.partitions[p].homes) {
      return true;
    }
  }
  return false;
}

Result<ClusterMap> first_map(const MembershipSettings& settings, const Ring& ring,
                             const MapRequest& request, uint64_t cluster_id) {
  CHECK(request.reports.size() == settings.nodes.size());
  for (size_t id = 0; id < settings.nodes.size(); ++id) {
    const NodeReport& report = request.reports[id];
    if (report.verdict != Verdict::kAnswers) {
      return fail(ErrorCode::kUnavailable,
                  "a new cluster needs all its nodes, and node {} does not answer",
                  settings.nodes[id].name);
    }
    if (report.epoch.number != 0) {
      return fail(ErrorCode::kUnavailable, "node {} already has a map", settings.nodes[id].name);
    }
  }
  ClusterMap map;
  map.cluster_id = cluster_id;
  map.max_parities = settings.max_parities;
  map.nodes = next_nodes(nullptr, settings, request);
  map.capabilities = common_capabilities(map, settings, request);
  if (map.capabilities.has(node::Capability::kSettings)) {
    map.settings = next_settings(map, settings, request);
  }
  if (auto set = set_epoch(map, 0, 0, request); !set) return fail(set.error());
  map.flush_at = request.flush.at.value_or(0);
  map.partitions.resize(settings.partitions);
  for (size_t p = 0; p < map.partitions.size(); ++p) {
    map.partitions[p].homes = homes_of(map, ring, p, settings.max_parities + size_t{1});
    map.partitions[p].synced = true;
  }
  node::seal(map);
  return map;
}

namespace {

// A timeout proves no death (rule 4), so it must not be what makes a partition LOST: a node whose
// exclusion would do that, if there is one. The cluster then waits until it answers or refuses.
std::optional<NodeId> silent_last_copy(const ClusterMap& last, const ClusterMap& next) {
  for (size_t p = 0; p < next.partitions.size(); ++p) {
    const Partition& before = last.partitions[p];
    if (!next.partitions[p].lost || before.lost) continue;
    std::vector<Group> groups = before.sources;
    groups.push_back(before.homes);
    for (const Group& group : groups) {
      for (const NodeId id : group) {
        const bool falls_silent =
            last.nodes[id].state == NodeState::kUp && next.nodes[id].state == NodeState::kSuspect;
        if (falls_silent) return id;
      }
    }
  }
  return std::nullopt;
}

// Nodes that joined the configuration since are no part of the last map: unknown to it.
ClusterMap with_nodes(const ClusterMap& last, const MembershipSettings& settings) {
  ClusterMap map = last;
  for (size_t id = map.nodes.size(); id < settings.nodes.size(); ++id) {
    map.nodes.push_back(settings.nodes[id]);
    map.nodes.back().id = static_cast<NodeId>(id);
    map.nodes.back().state = NodeState::kLost;
    map.nodes.back().incarnation = 0;
  }
  return map;
}

}  // namespace

Result<ClusterMap> next_map(const ClusterMap& last, const MembershipSettings& settings,
                            const Ring& ring, const MapRequest& request) {
  CHECK(request.reports.size() == settings.nodes.size());
  if (auto checked = check_configuration(last, settings); !checked) return fail(checked.error());
  if (!settings.capabilities.has_all(last.capabilities)) {
    const auto lacking = last.capabilities.without(settings.capabilities);
    return fail(ErrorCode::kUnavailable, "the cluster uses {}, for which this proxy is too old",
                node::to_string(lacking));
  }

  ClusterMap map;
  map.cluster_id = last.cluster_id;
  map.max_parities = std::max(last.max_parities, wanted_parities(last, settings, request));
  map.nodes = next_nodes(&last, settings, request);
  const auto count = [&](NodeState state) {
    return static_cast<size_t>(std::ranges::count(map.nodes, state, &NodeInfo::state));
  };
  // Whoever finds the last map only judges by its M whether a later one may have been served
  // without those who have it.
  if (count(NodeState::kSuspect) > last.max_parities) {
    return fail(ErrorCode::kUnavailable,
                "{} nodes have fallen silent since all was synced last; at most {} may be excluded "
                "without proof of their death",
                count(NodeState::kSuspect), last.max_parities);
  }
  if (count(NodeState::kUp) == 0) return fail(ErrorCode::kUnavailable, "no node answers");
  map.capabilities = next_capabilities(last, map, settings, request);
  if (map.capabilities.has(node::Capability::kSettings)) {
    map.settings = next_settings(last, settings, request);
  }
  if (is_everywhere(last, map, request.reports)) map.base = last.epoch;
  if (auto set = set_epoch(map, last.epoch.number, last.version_floor, request); !set) {
    return fail(set.error());
  }
  set_flush(map, last, request);

  const ClusterMap known = with_nodes(last, settings);
  const size_t most = moves_at_once(known.partitions.size());
  const size_t moving = count_unsynced(known, request);
  const Succession succession{known, map, request, ring, moving < most ? most - moving : 0};
  map.partitions.reserve(settings.partitions);
  for (size_t p = 0; p < settings.partitions; ++p) {
    map.partitions.push_back(next_partition(succession, p).partition);
  }
  if (!request.give_up_silent && !mutant(Mutant::kTimeoutIsLoss)) {
    if (const auto silent = silent_last_copy(known, map)) {
      return fail(ErrorCode::kLost, "node {} does not answer and may have the last copy",
                  map.nodes[*silent].name);
    }
  }
  node::seal(map);
  return map;
}

Result<ClusterMap> same_map(const ClusterMap& last, const MembershipSettings& settings,
                            const MapRequest& request) {
  ClusterMap map = with_nodes(last, settings);
  map.base = last.epoch;
  if (auto set = set_epoch(map, last.epoch.number, last.version_floor, request); !set) {
    return fail(set.error());
  }
  set_flush(map, last, request);
  node::seal(map);
  return map;
}

}  // namespace elastripe
