// The account of failures: how many there were since all was synced last, and what the promise
// covers. m failures between two complete syncs lose nothing; a node that was excluded by a timeout
// is one of them: it comes back with its shards, but is no source of records.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/cluster.h"

namespace elastripe::sim {

class Promise {
 public:
  Promise(Run& run, Cluster& cluster);  // follows the cluster's maps from now on

  // Nodes whose memory may be lost: of at most as many domains as the schemes survive.
  const std::vector<node::NodeId>& doomed();
  bool is_doomed(node::NodeId id) const;
  // It takes the place of another one, if it is not yet among them: with its domain that of one
  // which has not lost its memory in this round. False: there is none.
  bool doom(node::NodeId id);
  // Whether the promise covers one more failure.
  bool is_tolerated(node::NodeId id) const;
  // Whether the scenario lets the node fail now.
  bool may_fail(node::NodeId id) const;
  // Whether a node may die, in silence or not: a cluster that can not get over it proves nothing.
  bool can_spare(node::NodeId id, bool silently);
  size_t tolerated() const;  // so many failures since the last complete sync lose nothing

  // All is repaired: other nodes may die from now on.
  void begin_round();
  void note_failure(node::NodeId id);  // its memory is lost
  void forget_failures() { failed_.clear(); }
  // A node has installed the map. What it excludes has failed; what it gives up must not be what a
  // node that was only silent has the last copy of.
  void note_installed(const node::ClusterMap& map);
  // The operator has given up what silent nodes may have.
  void note_silent_given_up() { gave_up_silent_ = true; }

  bool is_broken() const;        // more has failed than is tolerated
  std::string describe() const;  // what has failed
  // With log_copies two: more nodes have failed at some time than two copies of a log survive.
  bool may_lack_updates() const { return may_lack_updates_; }
  // Whether it is no wonder that the cluster does not come to rest, with LOST partitions or
  // without.
  bool explains_unrest(bool has_lost) const;
  // Whether an object of the key may lack more shards than its scheme has parities; `arrives`: one
  // whose value was still coming.
  bool may_lack_shards(const std::string& key, bool arrives) const;
  // Whether the node has lost its memory in that epoch or since.
  bool has_died_since(node::NodeId id, uint64_t epoch) const;

  // A copy of the key's record is damaged, until it is written again; false: one is already.
  bool note_damage(const std::string& key) { return flipped_.insert(key).second; }
  void note_written(const std::string& key);
  // Whether the record may be lost by damage.
  bool may_be_damaged(const std::string& key) const { return lost_by_damage_.contains(key); }

 private:
  void note_failed(node::NodeId id);
  std::vector<node::NodeId> choose_doomed();
  void count_failures();
  bool is_complete(const decider::ClusterStatus& status);
  void note_spare_homes(SimProxy& source);
  void check_losses(const node::ClusterMap& map);
  size_t count_domains(const std::set<node::NodeId>& nodes) const;

  Run& run_;
  Cluster& cluster_;
  std::vector<node::NodeId> doomed_;
  size_t considered_ = 0;          // nodes, for doomed_
  std::set<node::NodeId> killed_;  // ever
  bool may_lack_updates_ = false;
  std::set<node::NodeId> failed_;  // killed or excluded since the last complete sync
  uint32_t failed_in_epoch_ = 0;
  std::set<node::NodeId> suspected_;                // ever
  std::map<node::NodeId, uint64_t> last_kill_;      // and the newest epoch served until then
  std::map<uint64_t, node::ClusterMap> installed_;  // by hash
  bool gave_up_silent_ = false;
  size_t spare_homes_ = SIZE_MAX;  // beside one, of any partition, at the last complete sync
  std::set<std::string> flipped_;  // keys with a damaged copy, maybe
  std::set<std::string> lost_by_damage_;
};

}  // namespace elastripe::sim
