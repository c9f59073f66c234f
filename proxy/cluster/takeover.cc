#include "proxy/cluster/takeover.h"

#include <algorithm>
#include <map>
#include <string>

#include "server-patches/node/format/mutant.h"

namespace elastripe {

using node::ClusterMap;
using node::NodeId;
using node::NodeInfo;
using node::NodeState;
using node::Partition;

namespace {

// Whether `map` has the very process as lost that answers: a wrong word of the operator, or an
// address that refused connections for another reason. It had no part in later maps, and whoever
// made these may have taken it for gone where a majority was counted.
bool is_left_for_dead(const ClusterMap& map, size_t id, const NodeReport& report) {
  const NodeInfo* info = map.find_node(static_cast<NodeId>(id));
  return report.verdict == Verdict::kAnswers && info != nullptr &&
         info->state == NodeState::kLost && info->incarnation == report.incarnation &&
         report.epoch.number < map.epoch.number && !mutant(Mutant::kCountLeftForDead);
}

// Nodes that count where a majority for a later map than `map` was counted.
size_t count_members(const ClusterMap& map, const std::vector<NodeReport>& reports) {
  size_t members = 0;
  for (size_t id = 0; id < reports.size(); ++id) {
    members += !reports[id].is_removed && !is_left_for_dead(map, id, reports[id]);
  }
  return members;
}

// Whether it can say that there is no later map than `map`, as it would have it. One without any
// map can if it is the process that `map` has joined: a later map had that process, and it would
// too.
bool tells(const ClusterMap& map, size_t id, const NodeReport& report) {
  if (report.verdict != Verdict::kAnswers || report.epoch.number > map.epoch.number) return false;
  const NodeInfo* info = map.find_node(static_cast<NodeId>(id));
  return report.epoch.number != 0 || (info != nullptr && info->incarnation == report.incarnation);
}

// Nodes that can not say whether there is a later map than `map`.
size_t nodes_not_telling(const ClusterMap& map, const std::vector<NodeReport>& reports) {
  size_t count = 0;
  for (size_t id = 0; id < reports.size(); ++id) {
    const NodeReport& report = reports[id];
    if (report.is_removed || is_left_for_dead(map, id, report)) continue;
    count += !tells(map, id, report);
  }
  return count;
}

// The members of `map` among them. Whatever a later map served came from members of this one: nodes
// that it had left out, or that joined the configuration since, can not have had it without them.
std::vector<NodeId> members_not_telling(const ClusterMap& map,
                                        const std::vector<NodeReport>& reports) {
  std::vector<NodeId> members;
  for (const NodeInfo& member : map.nodes) {
    if (member.state != NodeState::kUp || member.id >= reports.size()) continue;
    const NodeReport& report = reports[member.id];
    const bool is_member = report.incarnation == member.incarnation;
    if (!is_member || !tells(map, member.id, report)) members.push_back(member.id);
  }
  return members;
}

// Whether a later map may have been served by nodes that do not tell: silent, dead or empty by now,
// or with a later map already. Those that tell an older one were no part of it; of them, the
// members of `map` must have been excluded by timeouts or wrong words, M at most (operators have to
// see to that), and its nodes were a quorum beside them, some of which had `map`.
bool may_be_superseded(const ClusterMap& map, const std::vector<NodeReport>& reports) {
  size_t still_have_it = 0;
  for (size_t id = 0; id < reports.size(); ++id) {
    still_have_it += reports[id].verdict == Verdict::kAnswers && reports[id].epoch == map.epoch &&
                     map.is_up(static_cast<NodeId>(id));
  }
  const size_t members = count_members(map, reports);
  const size_t not_telling = nodes_not_telling(map, reports);
  return still_have_it <= map.max_parities && not_telling > members - not_telling &&
         !members_not_telling(map, reports).empty();
}

std::string names_of(const std::vector<NodeInfo>& infos, const std::vector<NodeId>& nodes) {
  std::string names;
  for (const NodeId id : nodes) names += (names.empty() ? "" : ", ") + infos[id].name;
  return names;
}

// `map` for a decider that must assume that all records of it are old.
node::MapPtr with_all_lost(const ClusterMap& map) {
  ClusterMap known = map;
  for (Partition& partition : known.partitions) {
    partition = {};
    partition.lost = true;
  }
  return std::make_shared<const ClusterMap>(std::move(known));
}

}  // namespace

bool names_as_known(const ClusterMap& map, const NodeInfo& asked, uint64_t incarnation) {
  const auto is_process = [&](const NodeInfo& node) {
    return !node.is_removed() && node.incarnation == incarnation;
  };
  // Ids mostly mean the same to both.
  if (const NodeInfo* same = map.find_node(asked.id); same != nullptr && is_process(*same)) {
    return same->name == asked.name;
  }
  for (const NodeInfo& node : map.nodes) {
    if (is_process(node)) return node.name == asked.name;
  }
  const auto named = std::ranges::find(map.nodes, asked.name, &NodeInfo::name);
  return named != map.nodes.end() && named->host == asked.host && named->port == asked.port;
}

node::MapPtr newest_of_cluster(const std::vector<node::MapPtr>& maps,
                               const std::vector<NodeInfo>& configured, uint32_t partitions) {
  struct Cluster {
    node::MapPtr newest;
    size_t count = 0;
  };
  const auto has_configured = [&](const ClusterMap& map) {
    return std::ranges::any_of(configured, [&](const NodeInfo& node) {
      return std::ranges::find(map.nodes, node.name, &NodeInfo::name) != map.nodes.end();
    });
  };
  const auto fits = [&](const node::MapPtr& map) {
    return map != nullptr && map->partitions.size() == partitions && has_configured(*map);
  };
  const bool any_fits = std::ranges::any_of(maps, fits);
  std::map<uint64_t, Cluster> clusters;
  for (const node::MapPtr& map : maps) {
    if (map == nullptr || (any_fits ? !fits(map) : !has_configured(*map))) continue;
    auto& [newest, count] = clusters[map->cluster_id];
    ++count;
    if (newest == nullptr || map->epoch.number > newest->epoch.number) newest = map;
  }
  const auto by_count = [](const auto& a, const auto& b) {
    return a.second.count < b.second.count;
  };
  const auto largest = std::ranges::max_element(clusters, by_count);
  if (largest == clusters.end()) return nullptr;
  const bool is_alone = std::ranges::none_of(clusters, [&](const auto& other) {
    return other.first != largest->first && other.second.count == largest->second.count;
  });
  return is_alone ? largest->second.newest : nullptr;
}

Result<std::vector<NodeId>> find_strays(const MembershipSettings& settings,
                                        const std::vector<NodeReport>& reports,
                                        const std::vector<node::MapPtr>& maps,
                                        const node::MapPtr& own) {
  // By cluster: the nodes that belong to it.
  std::map<uint64_t, std::vector<NodeId>> ours, others;
  for (size_t id = 0; id < maps.size(); ++id) {
    if (maps[id] == nullptr || reports[id].verdict != Verdict::kAnswers) continue;
    auto& clusters = check_configuration(*maps[id], settings) ? ours : others;
    clusters[maps[id]->cluster_id].push_back(static_cast<NodeId>(id));
  }
  std::vector<NodeId> strays;
  if (ours.empty()) return strays;  // a changed configuration, rather: next_map() says so
  const auto by_size = [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  };
  const auto known = own == nullptr ? ours.end() : ours.find(own->cluster_id);
  const bool is_known = known != ours.end();
  const auto mine = is_known ? known : std::ranges::max_element(ours, by_size);
  for (const auto& [cluster, nodes] : ours) {
    if (cluster == mine->first) continue;
    if (!is_known && nodes.size() == mine->second.size()) {
      const auto names = [&](const std::vector<NodeId>& ids) {
        return names_of(settings.nodes, ids);
      };
      return fail(ErrorCode::kInvalid, "nodes belong to different clusters: {} and {}",
                  names(mine->second), names(nodes));
    }
    strays.insert(strays.end(), nodes.begin(), nodes.end());
  }
  for (const auto& [cluster, nodes] : others) {
    if (cluster != mine->first) strays.insert(strays.end(), nodes.begin(), nodes.end());
  }
  std::ranges::sort(strays);
  return strays;
}

Result<node::MapPtr> choose_base(const std::vector<NodeReport>& reports,
                                 const std::vector<node::MapPtr>& maps, const node::MapPtr& own,
                                 bool accept_loss) {
  const auto answers = [&](size_t id) { return reports[id].verdict == Verdict::kAnswers; };
  // The numbers of the maps that the answering members of `map` have.
  const auto numbers_of_members = [&](const ClusterMap& map) {
    std::vector<uint32_t> numbers;
    for (const NodeInfo& member : map.nodes) {
      if (member.state != NodeState::kUp || member.id >= reports.size() || !answers(member.id) ||
          reports[member.id].incarnation != member.incarnation) {
        continue;
      }
      // A node accepts one map of a number: the other one never.
      const node::Epoch& epoch = reports[member.id].epoch;
      const bool is_rival = epoch.number == map.epoch.number && epoch != map.epoch;
      numbers.push_back(is_rival ? 0 : epoch.number);
    }
    return numbers;
  };

  // Only that very one: there may be two maps of one number.
  const auto has_member_with = [&](const ClusterMap& map, const node::Epoch& epoch) {
    return std::ranges::any_of(map.nodes, [&](const NodeInfo& member) {
      if (member.state != NodeState::kUp || member.id >= reports.size()) return false;
      const NodeReport& report = reports[member.id];
      return answers(member.id) && report.incarnation == member.incarnation &&
             report.epoch == epoch;
    });
  };

  std::vector<node::MapPtr> found;  // one of each epoch
  const bool is_own_newest =
      own != nullptr && std::ranges::none_of(reports, [&](const NodeReport& report) {
        return report.verdict == Verdict::kAnswers && report.epoch.number > own->epoch.number;
      });
  if (is_own_newest) found.push_back(own);
  for (size_t id = 0; id < maps.size(); ++id) {
    if (maps[id] == nullptr || !answers(id)) continue;
    const auto is_same = [&](const node::MapPtr& map) {
      return map->epoch == maps[id]->epoch && map->cluster_id == maps[id]->cluster_id;
    };
    if (std::ranges::none_of(found, is_same)) found.push_back(maps[id]);
  }
  node::MapPtr newest;
  node::MapPtr base;
  bool is_ambiguous = false;
  std::vector<node::MapPtr> served;  // maybe
  for (const node::MapPtr& map : found) {
    if (map->cluster_id != found.front()->cluster_id) {
      return fail(ErrorCode::kInvalid, "the nodes belong to different clusters");
    }
    if (newest == nullptr || map->epoch.number > newest->epoch.number) newest = map;
    const auto members = numbers_of_members(*map);
    const auto is_later = [&](uint32_t number) { return number > map->epoch.number; };
    const auto is_earlier = [&](uint32_t number) { return number < map->epoch.number; };
    if (std::ranges::any_of(members, is_later)) continue;  // superseded
    const bool was_served = map == own || std::ranges::none_of(members, is_earlier);
    const bool supersedes = std::ranges::any_of(found, [&](const node::MapPtr& older) {
      return older->epoch.number < map->epoch.number && has_member_with(*older, map->epoch);
    });
    if (!was_served && !supersedes) continue;
    if (was_served) served.push_back(map);
    is_ambiguous |= base != nullptr;
    if (base == nullptr || map->epoch.number > base->epoch.number) base = map;
  }
  const bool any_silent = std::ranges::any_of(
      reports, [](const NodeReport& report) { return report.verdict == Verdict::kSilent; });
  // The others were not: each has a member that tells so.
  if (is_ambiguous && !any_silent && served.size() == 1) {
    base = served.front();
    is_ambiguous = false;
  }
  if (base == nullptr) base = newest;
  // What only those had who had it is gone, whatever others tell of older maps.
  const bool is_own_orphaned = is_own_newest && !has_member_with(*own, own->epoch);
  const bool is_certain = !is_ambiguous && !is_own_orphaned;
  if (base == nullptr || (is_certain && !may_be_superseded(*base, reports))) return base;
  if (any_silent) {
    return fail(ErrorCode::kUnavailable,
                "nodes that do not answer may have another map in use than epoch {}",
                base->epoch.number);
  }
  // Nobody is left who could tell: the newest knows the most. If so many memories are gone that
  // what a later map stored may be gone with them, what is left of the newest's is no answer (rule
  // 3). That is for the operator to say: once it is, the survivors forget what they have.
  const auto gone = members_not_telling(*newest, reports);
  const bool is_left = !may_be_superseded(*newest, reports) || gone.size() <= newest->max_parities;
  if (is_left && !is_own_orphaned) return newest;
  if (accept_loss) return with_all_lost(*newest);
  return fail(ErrorCode::kLost, "nodes {} are gone, and may have had a later map than epoch {}",
              names_of(newest->nodes, gone), newest->epoch.number);
}

bool loses_more(const ClusterMap& last, const ClusterMap& next) {
  for (size_t p = 0; p < next.partitions.size(); ++p) {
    if (next.partitions[p].lost && !last.partitions[p].lost) return true;
  }
  return false;
}

}  // namespace elastripe
