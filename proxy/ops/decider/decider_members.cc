// Who the nodes are: told by the configuration of a new cluster, by the newest map of one that
// there is, and changed one by one by the operator.
#include <algorithm>

#include "proxy/cluster/takeover.h"
#include "proxy/ops/decider/decider_events.h"
#include "proxy/ops/decider/decider_impl.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

namespace {

const char* name_of(MemberChange::Kind kind) {
  switch (kind) {
    case MemberChange::Kind::kAdd:
      return "add";
    case MemberChange::Kind::kDrain:
      return "drain";
    case MemberChange::Kind::kRefill:
      return "refill";
    case MemberChange::Kind::kRemove:
      return "remove";
  }
  return "unknown";
}

}  // namespace

// Peers keep what is known of them; those of new ids are to be asked.
void Decider::Impl::know_members(std::vector<node::NodeInfo> nodes) {
  membership_.nodes = std::move(nodes);
  peers_.resize(membership_.nodes.size());
  ops_.map.know_members(membership_.nodes, membership_.partitions);
  members_ = ops_.map.members();
}

// By node id; null: none, or it is of a process that is none of ours.
std::vector<MapPtr> Decider::Impl::maps_found() const {
  std::vector<MapPtr> maps;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Peer& peer = peers_[id];
    const bool answers = peer.report.verdict == Verdict::kAnswers && peer.found != nullptr;
    const bool is_ours =
        answers && names_as_known(*peer.found, membership_.nodes[id], peer.report.incarnation);
    maps.push_back(is_ours ? peer.found : nullptr);
  }
  return maps;
}

// A proxy that starts asks the nodes of its configuration, and may find a map with others, or with
// the same in another order. Then it asks those. True if it has to. The map is the one to build
// upon; where too few answer to tell which one that is, the newest leads on.
//
// Every process that was removed while it lived has the map that removed it, or a later one. So
// however old the configuration is, the maps of its nodes lead to those that are members now, one
// after the other; and as members change one at a time, each change in a map that a majority before
// it and a majority after it has, no majority is found beside them.
bool Decider::Impl::follow_members() {
  std::vector<MapPtr> maps = maps_found();
  const auto base = choose_base(request().reports, maps, ops_.map.last_served());
  maps.push_back(ops_.map.last_served());
  const MapPtr leads = base && *base != nullptr
                           ? *base
                           : newest_of_cluster(maps, configured_, membership_.partitions);
  if (leads == nullptr || leads->partitions.size() != membership_.partitions) return false;
  ops_.map.hear_of(leads);
  std::vector<node::NodeInfo> members = merged_members(leads->nodes, configured_);
  if (are_same_members(members, membership_.nodes)) return false;
  if (!followed_.insert(leads->epoch.map_hash).second) {
    // Round in circles, as nodes come and go: not at once again.
    followed_.clear();
    start_after_ = now() + 4 * settings_.heartbeat;
    return false;
  }
  log_membership(LogLevel::kInfo,
                 LogFields().add("event", "members").add("epoch", leads->epoch.number));
  warn_of_ignored(members);
  ++peers_version_;
  peers_.clear();
  know_members(std::move(members));
  is_unfit_ = false;  // that was of others
  return true;
}

// Addresses and domains are the map's.
void Decider::Impl::warn_of_ignored(const std::vector<node::NodeInfo>& members) const {
  for (const node::NodeInfo& configured : configured_) {
    const auto member = std::ranges::find(members, configured.name, &node::NodeInfo::name);
    if (member == members.end() || member->is_removed()) continue;
    if (member->host == configured.host && member->port == configured.port &&
        member->domain == configured.domain) {
      continue;
    }
    log_membership(LogLevel::kWarning,
                   LogFields()
                       .add("event", "configuration_ignored")
                       .add("node", configured.name)
                       .add("configured", fmt::format("{}:{}", configured.host, configured.port))
                       .add("is", fmt::format("{}:{}", member->host, member->port))
                       .add("domain", member->domain));
  }
}

// Someone who is drained has nothing that anybody needs; who is lost has nothing.
Result<void> Decider::Impl::may_remove(const std::string& name) const {
  const auto found = std::ranges::find(map_->nodes, name, &node::NodeInfo::name);
  if (found == map_->nodes.end() || found->is_removed()) return {};
  if (found->state == node::NodeState::kLost || mutant(Mutant::kRemoveUndrained)) return {};
  if (found->state != node::NodeState::kUp || found->role != node::NodeRole::kDraining) {
    return fail(ErrorCode::kConflict, "node {} is {}: drain it first, or stop its process", name,
                found->role == node::NodeRole::kDraining ? node::name(found->state)
                                                         : "a member and has data");
  }
  const auto homes = std::ranges::count_if(map_->partitions, [&](const node::Partition& partition) {
    const auto number = static_cast<uint32_t>(&partition - map_->partitions.data());
    return std::ranges::find(partition.homes, found->id) != partition.homes.end() ||
           (node::is_source(partition, found->id) && !is_synced(number));
  });
  if (homes > 0) {
    return fail(ErrorCode::kUnavailable,
                "node {} has {} partitions yet, which move away; try again", name, homes);
  }
  const Peer& peer = peers_[found->id];
  if (peer.statistics.shards > 0) {
    return fail(ErrorCode::kUnavailable, "node {} has {} shards yet, which move away; try again",
                name, peer.statistics.shards);
  }
  return {};
}

// The map with these members; what is known of them stays so only if there is one.
Result<node::ClusterMap> Decider::Impl::try_members(std::vector<node::NodeInfo> members,
                                                    const MemberChange& change) {
  const std::vector<node::NodeInfo> before = membership_.nodes;
  const std::deque<Peer> peers = peers_;
  know_members(std::move(members));
  if (change.kind == MemberChange::Kind::kAdd) {
    const auto added =
        std::ranges::find(membership_.nodes, change.node.name, &node::NodeInfo::name);
    peers_[added->id].begin_anew(now());
  }
  auto next = next_map(*map_, membership_, ring(), request());
  if (next && !peers_quorum()) {
    next = fail(ErrorCode::kUnavailable,
                "of the nodes that may be alive then, no majority would answer");
  }
  if (next && is_false_loss(*next)) {
    sync_stop_ = true;
    next = fail(ErrorCode::kUnavailable, "nodes have just died; try again");
  }
  if (!next) {
    know_members(before);
    for (size_t id = 0; id < peers_.size(); ++id) peers_[id] = peers[id];
  }
  return next;
}

// One change follows another when the cluster has come to rest.
Result<void> Decider::Impl::may_change() const {
  if (over_) return fail(ErrorCode::kUnavailable, "{}", deposed_ ? reason_ : "shutting down");
  if (map_ == nullptr || !serving_ || !peers_quorum() || !knows_all_peers() || !unserved_.empty() ||
      is_blocked_by_lease() || needs_map(*map_, membership_, request())) {
    return fail(ErrorCode::kUnavailable, "the cluster is just changing; try again");
  }
  return {};
}

// Nothing: they are as they shall be.
Result<std::optional<node::ClusterMap>> Decider::Impl::map_with(const MemberChange& change) {
  if (auto may = may_change(); !may) return fail(may.error());
  if (!map_->capabilities.has(node::Capability::kMembers)) {
    return fail(ErrorCode::kUnavailable,
                "some nodes are of a build that knows no changes of the members; upgrade them");
  }
  if (change.kind == MemberChange::Kind::kRemove) {
    if (auto may = may_remove(change.node.name); !may) return fail(may.error());
  }
  auto members = changed_members(map_->nodes, change);
  if (!members) return fail(members.error());
  if (are_same_members(*members, map_->nodes)) return std::nullopt;
  auto next = try_members(std::move(*members), change);
  if (!next) return fail(next.error());
  return std::optional(std::move(*next));
}

Task<Result<void>> Decider::Impl::change_members(MemberChange change, TimePoint deadline) {
  auto next = map_with(change);
  if (!next) co_return fail(next.error());
  if (*next) {
    log_membership(LogLevel::kInfo, LogFields()
                                        .add("event", "asked")
                                        .add("change", name_of(change.kind))
                                        .add("node", change.node.name));
  }
  co_return co_await have_served(std::move(*next), deadline);
}

// A process that still answers shall know that it is removed, so that a proxy whose configuration
// names it, and only such, is led on to those that are members.
void Decider::Impl::tell_removed(size_t id) {
  const Peer& peer = peers_[id];
  if (map_ == nullptr || peer.report.verdict != Verdict::kAnswers) return;
  if (peer.report.epoch.number == 0) return;
  if (peer.installing || !peer.is_known(decider_id_) || !may_install(id)) return;
  if (peer.report.epoch.number >= map_->epoch.number) return;
  scope_.spawn(install(id, map_));
}

}  // namespace elastripe::decider
