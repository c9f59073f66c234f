#include "tests/sim/promise.h"

#include <fmt/ranges.h>

#include <algorithm>

using namespace elastripe::decider;

namespace elastripe::sim {

Promise::Promise(Run& run, Cluster& cluster) : run_(run), cluster_(cluster) {
  doomed_ = choose_doomed();
  considered_ = cluster.nodes();
  cluster.watch_maps([this] { count_failures(); });
}

const std::vector<node::NodeId>& Promise::doomed() {
  for (; considered_ < cluster_.nodes(); ++considered_) {
    if (run_.scenario.expect.records_only)
      doomed_.push_back(static_cast<node::NodeId>(considered_));
  }
  return doomed_;
}

bool Promise::is_doomed(node::NodeId id) const {
  return std::ranges::find(doomed_, id) != doomed_.end();
}

bool Promise::doom(node::NodeId id) {
  (void)doomed();
  if (is_doomed(id)) return true;
  const auto domain = [&](node::NodeId of) { return domain_of(run_.scenario, of); };
  const auto has_died = [&](node::NodeId of) {
    return std::ranges::any_of(killed_, [&](auto dead) { return domain(dead) == domain(of); });
  };
  const auto spared = std::ranges::find_if_not(doomed_, has_died);
  if (spared == doomed_.end()) return false;
  const std::string old = domain(*spared);
  std::erase_if(doomed_, [&](node::NodeId other) { return domain(other) == old; });
  for (node::NodeId other = 0; other < cluster_.nodes(); ++other) {
    if (domain(other) == domain(id)) doomed_.push_back(other);
  }
  return true;
}

void Promise::begin_round() {
  doomed_ = choose_doomed();
  killed_.clear();
  suspected_.clear();
}

bool Promise::is_broken() const {
  return (run_.scenario.expect.beyond_promise && !cluster_.has_accepted_loss()) ||
         count_domains(failed_) > tolerated();
}

std::string Promise::describe() const {
  return fmt::format("{}, of them killed in this round {}, of {} that may", fmt::join(failed_, " "),
                     fmt::join(killed_, " "), tolerated());
}

bool Promise::explains_unrest(bool has_lost) const {
  // A damaged copy is a copy less, as a failed node is.
  if (run_.totals.bit_flips > 0 && failed_.size() > tolerated()) return true;
  return (has_lost || run_.totals.burials > 0) && is_broken();
}

bool Promise::has_died_since(node::NodeId id, uint64_t epoch) const {
  const auto kill = last_kill_.find(id);
  return kill != last_kill_.end() && kill->second >= epoch;
}

void Promise::note_written(const std::string& key) {
  flipped_.erase(key);
  lost_by_damage_.erase(key);
}

// Nodes of as many domains as may lose their memory.
std::vector<node::NodeId> Promise::choose_doomed() {
  std::set<std::string> domains;
  for (size_t id = 0; id < cluster_.nodes(); ++id) domains.insert(domain_of(run_.scenario, id));
  // Were all nodes empty at once, a new and empty cluster would be formed.
  size_t most = run_.scenario.expect.beyond_promise ? domains.size() - 1
                                                    : cluster_.configuration().parities();
  if (!run_.scenario.cluster.more_pools().empty()) {
    // What each pool survives, in turn.
    const auto& all = cluster_.pools().pools();
    most = static_cast<size_t>(all[run_.random.below(all.size())].scheme.m);
  }
  if (run_.scenario.cluster.log_copies == LogCopies::kTwo) most = 1;
  if (run_.scenario.expect.records_only) most = domains.size();
  if (!run_.scenario.faults.other_scheme.empty()) {
    const Configuration other(run_.scenario, cluster_.nodes(), run_.scenario.faults.other_scheme);
    most = std::min(most, other.parities());
  }
  std::vector<std::string> left(domains.begin(), domains.end());
  std::vector<node::NodeId> doomed;
  for (; most > 0; --most) {
    const size_t pick = run_.random.below(left.size());
    for (size_t id = 0; id < cluster_.nodes(); ++id) {
      if (domain_of(run_.scenario, id) == left[pick])
        doomed.push_back(static_cast<node::NodeId>(id));
    }
    left.erase(left.begin() + static_cast<ptrdiff_t>(pick));
  }
  return doomed;
}

bool Promise::is_tolerated(node::NodeId id) const {
  std::set<node::NodeId> failed = failed_;
  failed.insert(id);
  return count_domains(failed) <= tolerated();
}

bool Promise::may_fail(node::NodeId id) const {
  return run_.scenario.expect.beyond_promise || is_tolerated(id);
}

bool Promise::can_spare(node::NodeId id, bool silently) {
  if (run_.scenario.faults.burials == 0 || run_.scenario.faults.forced > 0) return true;
  const size_t silent = cluster_.silent_nodes().size() + (silently ? 1 : 0);
  size_t answering = 0;
  for (size_t other = 0; other < cluster_.nodes(); ++other) {
    answering += other != id && cluster_.node(other).is_up();
  }
  return answering > silent;
}

size_t Promise::tolerated() const {
  size_t most = spare_homes_;
  for (const auto& configuration : cluster_.configurations()) {
    most = std::min(most, configuration->parities());
  }
  if (run_.scenario.cluster.log_copies == LogCopies::kTwo) most = std::min<size_t>(most, 1);
  return run_.scenario.faults.bit_flips > 0 && most > 0 ? most - 1 : most;
}

void Promise::note_failed(node::NodeId id) {
  failed_.insert(id);
  const bool has_few = run_.scenario.cluster.log_copies == LogCopies::kTwo;
  may_lack_updates_ |= has_few && count_domains(failed_) > 1;
}

void Promise::note_failure(node::NodeId id) {
  note_failed(id);
  killed_.insert(id);
  last_kill_[id] = cluster_.newest_epoch();
  // Any map counts that may have been made in ignorance of it.
  if (cluster_.newest_map() != nullptr)
    failed_in_epoch_ = std::max(failed_in_epoch_, cluster_.newest_map()->epoch.number);
  for (const auto& proxy : cluster_.proxies()) {
    if (!proxy->is_alive() || proxy->decider() == nullptr) continue;
    failed_in_epoch_ = std::max(failed_in_epoch_, proxy->decider()->status().epoch.number);
  }
  ++run_.totals.node_kills;
}

// A map may be past before anybody looks at its decider. Who was excluded by it is no source of
// records in the next one.
void Promise::note_installed(const node::ClusterMap& map) {
  check_losses(map);
  installed_.insert_or_assign(map.epoch.map_hash, map);
  for (const node::NodeInfo& node : map.nodes) {
    if (node.state != node::NodeState::kSuspect || failed_.contains(node.id)) continue;
    note_failed(node.id);
    suspected_.insert(node.id);
    failed_in_epoch_ = std::max(failed_in_epoch_, map.epoch.number - 1);
  }
}

// Shards may not be repaired yet, so whatever died in this round counts for an object; in a pool
// that writes with too few nodes, and while a value arrives, so does who was out. why_unreadable()
// is exact about it.
bool Promise::may_lack_shards(const std::string& key, bool arrives) const {
  const Pool& pool = cluster_.pools().pool_of(key);
  std::set<node::NodeId> gone = killed_;
  if (pool.degraded_writes || arrives) gone.insert(suspected_.begin(), suspected_.end());
  return is_broken() || count_domains(gone) > static_cast<size_t>(pool.scheme.m);
}

void Promise::count_failures() {
  SimProxy* source = cluster_.decider();
  if (source == nullptr) return;
  const ClusterStatus status = source->decider()->status();
  const bool whole = is_complete(status);
  if (status.partitions_short > 0) run_.totals.short_of_room = 1;
  // Whoever makes maps may exclude nodes: a decider that is about to be deposed, too.
  std::set<node::NodeId> suspects;
  const auto add_suspects = [&](const ClusterStatus& of) {
    for (const NodeStatus& node : of.nodes) {
      if (node.info.state == node::NodeState::kSuspect) suspects.insert(node.info.id);
    }
  };
  add_suspects(status);
  for (const auto& proxy : cluster_.proxies()) {
    if (!proxy->is_alive() || proxy->decider() == nullptr || proxy->decider_has_ended()) continue;
    if (proxy.get() != source) add_suspects(proxy->decider()->status());
  }
  if (whole && status.epoch.number > failed_in_epoch_) {
    // What the only node left of its sources has damaged stays lost until it is set.
    if (is_broken()) lost_by_damage_.insert(flipped_.begin(), flipped_.end());
    failed_.clear();
    note_spare_homes(*source);
    // What they had is synced elsewhere.
    if (run_.scenario.faults.burials > 0)
      std::erase_if(suspects, [&](auto id) { return !cluster_.node_is_up(id); });
  }
  for (const node::NodeId suspect : suspects) note_failed(suspect);
  suspected_.insert(suspects.begin(), suspects.end());
}

// Every partition is synced at all the homes that it should have, on nodes that are alive.
bool Promise::is_complete(const ClusterStatus& status) {
  if (status.state != "serving" || status.partitions == 0 || status.partitions_short > 0 ||
      status.partitions_synced < status.partitions) {
    return false;
  }
  std::set<node::NodeId> removed;
  for (const NodeStatus& node : status.nodes) {
    if (node.info.is_removed()) removed.insert(node.info.id);
    if (node.info.is_removed()) continue;
    const bool is_up = node.info.state == node::NodeState::kUp;
    const SimNode& process = cluster_.node(node.info.id);
    if (is_up && !process.is_incarnation(node.info.incarnation)) return false;
    if (!is_up && !run_.scenario.expect.records_only && run_.scenario.faults.burials == 0)
      return false;
  }
  return run_.scenario.expect.records_only || run_.scenario.faults.burials > 0 ||
         std::ranges::all_of(killed_, [&](node::NodeId id) {
           return cluster_.node_is_up(id) || removed.contains(id);
         });
}

void Promise::note_spare_homes(SimProxy& source) {
  const node::MapPtr map = source.map().current();
  if (map == nullptr) return;
  spare_homes_ = SIZE_MAX;
  for (const node::Partition& partition : map->partitions) {
    spare_homes_ = std::min(spare_homes_, partition.homes.size() - 1);
  }
}

// A timeout proves no death: no map excludes a node for one and gives up what it may have the last
// copy of (rule 4), unless the operator says so.
void Promise::check_losses(const node::ClusterMap& map) {
  const auto before = installed_.find(map.base.map_hash);
  const bool is_known = installed_.contains(map.epoch.map_hash);
  if (is_known || before == installed_.end() || run_.scenario.expect.accept_loss || gave_up_silent_)
    return;
  const node::ClusterMap& base = before->second;
  for (size_t p = 0; p < map.partitions.size(); ++p) {
    if (!map.partitions[p].lost || base.partitions[p].lost) continue;
    for (const node::NodeInfo& node : map.nodes) {
      const bool falls_silent = node.state == node::NodeState::kSuspect && base.is_up(node.id);
      const std::vector<node::NodeId>& homes = base.partitions[p].homes;
      const bool has_copy = node::is_source(base.partitions[p], node.id) ||
                            std::ranges::find(homes, node.id) != homes.end();
      if (!falls_silent || !has_copy) continue;
      run_.violation(Fault::kLost,
                     fmt::format("partition {} is LOST in epoch {}, for which node {} was "
                                 "only silent",
                                 p, map.epoch.number, node.id));
    }
  }
}

// Those of one domain are one failure.
size_t Promise::count_domains(const std::set<node::NodeId>& nodes) const {
  std::set<std::string> domains;
  for (const node::NodeId id : nodes) domains.insert(domain_of(run_.scenario, id));
  return domains.size();
}

}  // namespace elastripe::sim
