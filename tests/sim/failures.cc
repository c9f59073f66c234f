// World's account of failures: how many there were since the last complete sync, what the promise
// covers, and the nodes that die for good.
#include <algorithm>

#include "tests/sim/world_internal.h"

namespace elastripe::sim {

using std::chrono::milliseconds;

// The promise is about m failures between two complete syncs, and a node that was excluded by a
// timeout is one of them: it comes back with its shards, but is no source of records.
void World::count_failures() {
  SimProxy* source = decider();
  if (source == nullptr) return;
  const ClusterStatus status = source->decider()->status();
  const bool whole = is_complete(status);
  had_too_little_room_ |= status.partitions_short > 0;
  // Whoever makes maps may exclude nodes: a decider that is about to be deposed, too.
  std::set<node::NodeId> suspects;
  for (const auto& proxy : proxies_) {
    if (!proxy->is_alive() || proxy->decider() == nullptr || proxy->decider_has_ended()) continue;
    for (const NodeStatus& node : proxy->decider()->status().nodes) {
      if (node.info.state == node::NodeState::kSuspect) suspects.insert(node.info.id);
    }
  }
  if (whole && status.epoch.number > failed_in_epoch_) {
    // What the only node left of its sources has damaged stays lost until it is set.
    if (is_beyond_promise()) lost_by_damage_.insert(flipped_.begin(), flipped_.end());
    failed_.clear();
    note_spare_homes(*source);
    // What they had is synced elsewhere.
    if (scenario_.burials > 0) std::erase_if(suspects, [&](auto id) { return !node_is_up(id); });
  }
  failed_.insert(suspects.begin(), suspects.end());
  suspected_.insert(suspects.begin(), suspects.end());
}

// A map may be past before anybody looks at its decider. Who was excluded by it is no source of
// records in the next one.
void World::note_installed(const node::ClusterMap& map) {
  check_losses(map);
  installed_.insert_or_assign(map.epoch.map_hash, map);
  for (const node::NodeInfo& node : map.nodes) {
    if (node.state != node::NodeState::kSuspect || !failed_.insert(node.id).second) continue;
    suspected_.insert(node.id);
    failed_in_epoch_ = std::max(failed_in_epoch_, map.epoch.number - 1);
  }
}

// A timeout proves no death: no map excludes a node for one and gives up what it may have the last
// copy of (rule 4), unless the operator says so.
void World::check_losses(const node::ClusterMap& map) {
  const auto before = installed_.find(map.base.map_hash);
  const bool is_known = installed_.contains(map.epoch.map_hash);
  if (is_known || before == installed_.end() || scenario_.accept_loss || gave_up_silent_) return;
  const node::ClusterMap& base = before->second;
  for (size_t p = 0; p < map.partitions.size(); ++p) {
    if (!map.partitions[p].lost || base.partitions[p].lost) continue;
    for (const node::NodeInfo& node : map.nodes) {
      const bool falls_silent = node.state == node::NodeState::kSuspect && base.is_up(node.id);
      const std::vector<node::NodeId>& homes = base.partitions[p].homes;
      const bool has_copy = node::is_source(base.partitions[p], node.id) ||
                            std::ranges::find(homes, node.id) != homes.end();
      if (!falls_silent || !has_copy) continue;
      violation(Fault::kLost, fmt::format("partition {} is LOST in epoch {}, for which node {} was "
                                          "only silent",
                                          p, map.epoch.number, node.id));
    }
  }
}

// Every partition is synced at all the homes that it should have, on nodes that are alive.
bool World::is_complete(const ClusterStatus& status) {
  if (status.state != "serving" || status.partitions == 0 || status.partitions_short > 0 ||
      status.partitions_synced < status.partitions) {
    return false;
  }
  for (const NodeStatus& node : status.nodes) {
    const bool is_up = node.info.state == node::NodeState::kUp;
    const SimNode& process = network_.node(node.info.id);
    if (is_up && !process.is_incarnation(node.info.incarnation)) return false;
    if (!is_up && !scenario_.records_only && scenario_.burials == 0) return false;
  }
  return scenario_.records_only || scenario_.burials > 0 ||
         std::ranges::all_of(killed_, [&](node::NodeId id) { return node_is_up(id); });
}

void World::note_spare_homes(SimProxy& source) {
  const node::MapPtr map = source.map().current();
  if (map == nullptr) return;
  spare_homes_ = SIZE_MAX;
  for (const node::Partition& partition : map->partitions) {
    spare_homes_ = std::min(spare_homes_, partition.homes.size() - 1);
  }
}

// So many failures since the last complete sync lose nothing.
size_t World::tolerated() const {
  size_t most = spare_homes_;
  for (const auto& configuration : configurations_) {
    most = std::min(most, configuration->parities());
  }
  return scenario_.bit_flips > 0 && most > 0 ? most - 1 : most;
}

// Those of one domain are one failure.
size_t World::count_domains(const std::set<node::NodeId>& nodes) const {
  std::set<std::string> domains;
  for (const node::NodeId id : nodes) domains.insert(domain_of(scenario_, id));
  return domains.size();
}

bool World::is_tolerated(node::NodeId id) const {
  std::set<node::NodeId> failed = failed_;
  failed.insert(id);
  return count_domains(failed) <= tolerated();
}

bool World::may_fail(node::NodeId id) const { return scenario_.beyond_promise || is_tolerated(id); }

void World::note_failure(node::NodeId id) {
  failed_.insert(id);
  killed_.insert(id);
  last_kill_[id] = newest_epoch();
  // Of any map that may have been made in ignorance of it.
  if (followed_ != nullptr) failed_in_epoch_ = std::max(failed_in_epoch_, followed_->epoch.number);
  for (const auto& proxy : proxies_) {
    if (!proxy->is_alive() || proxy->decider() == nullptr) continue;
    failed_in_epoch_ = std::max(failed_in_epoch_, proxy->decider()->status().epoch.number);
  }
  ++result_.totals.node_kills;
}

bool World::is_beyond_promise() const {
  return (scenario_.beyond_promise && !accepted_loss_) || count_domains(failed_) > tolerated();
}

// Shards are not repaired, so whatever died since an object was written counts for it; in a pool
// that writes with too few nodes, and while a value arrives, so does who was out. why_unreadable()
// is exact about it.
bool World::may_lack_shards(const std::string& key, bool arrives) const {
  const Pool& pool = pools().pool_of(key);
  std::set<node::NodeId> gone = killed_;
  if (pool.degraded_writes || arrives) gone.insert(suspected_.begin(), suspected_.end());
  return is_beyond_promise() || count_domains(gone) > static_cast<size_t>(pool.scheme.m);
}

// Of the nodes that are not known to be gone, more than half answer: without that nobody makes maps
// but whom the operator tells that the silent ones are dead.
bool World::has_majority(const std::set<node::NodeId>& known_dead) {
  size_t silent = 0, answering = 0;
  for (size_t id = 0; id < network_.nodes(); ++id) {
    const bool is_known = known_dead.contains(static_cast<node::NodeId>(id));
    answering += network_.node(id).is_up();
    silent += !network_.node(id).runs() && network_.node(id).is_silent() && !is_known;
  }
  return answering > silent;
}

std::set<node::NodeId> World::silent_nodes() {
  std::set<node::NodeId> silent;
  for (size_t id = 0; id < network_.nodes(); ++id) {
    const SimNode& node = network_.node(id);
    if (!node.runs() && node.is_silent()) silent.insert(node.id());
  }
  return silent;
}

// Whether a node may die, in silence or not: a cluster that can not get over it proves nothing.
bool World::can_spare(node::NodeId id, bool silently) {
  if (scenario_.burials == 0 || scenario_.forced > 0) return true;
  const size_t silent = silent_nodes().size() + (silently ? 1 : 0);
  size_t answering = 0;
  for (size_t other = 0; other < network_.nodes(); ++other) {
    answering += other != id && network_.node(other).is_up();
  }
  return answering > silent;
}

// One more dies for good, if what the ones before it had is synced.
void World::bury_one() {
  if (calm_ || buried_.size() >= static_cast<size_t>(scenario_.burials)) return;
  std::vector<node::NodeId> candidates;
  for (const node::NodeId id : doomed_) {
    if (node_is_up(id) && may_fail(id) && can_spare(id, false)) candidates.push_back(id);
  }
  if (decider() != nullptr && !candidates.empty()) {
    SimNode& victim = network_.node(candidates[random_.below(candidates.size())]);
    note_failure(victim.id());
    buried_.insert(victim.id());
    ++result_.totals.burials;
    const bool silent = random_.chance(scenario_.silent_kills) && can_spare(victim.id(), true);
    victim.kill(silent);
    if (scenario_.strays > 0 && random_.chance(scenario_.strays)) {
      events_.after(random_.between(Duration::zero(), milliseconds(2000)),
                    [this, &victim] { put_stray(victim); });
    }
    if (random_.chance(scenario_.successions)) {
      events_.after(random_.between(Duration::zero(), milliseconds(2000)), [this] {
        if (!calm_ && decider() != nullptr) kill_proxy(*decider());
      });
    }
  }
  events_.after(random_.between(milliseconds(50), milliseconds(900)), [this] { bury_one(); });
}

// Somebody who has nothing but what the nodes tell makes the maps from now on.
void World::take_over() {
  trace_.add("-- another decider takes over");
  if (decider() != nullptr) kill_proxy(*decider());
  start_new_decider();
  if (!run_until(kHealLimit, [this] { return is_settled(); })) {
    return unsettled("nobody takes the cluster over");
  }
  audit("after a takeover");
}

}  // namespace elastripe::sim
