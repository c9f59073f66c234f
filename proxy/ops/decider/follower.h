// Follower: a proxy that makes no maps. It learns from the nodes which one is served.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "proxy/ops/context.h"
#include "proxy/ops/decider/decider_peer.h"
#include "proxy/ops/decider/election.h"
#include "proxy/ops/decider/settings.h"

namespace elastripe::decider {

// A node that has a lease under a map says that all members have that map: whoever decides grants
// leases only then (rule 2). So any node tells which map is served, a few are asked in turns, and
// no proxy has to know another one. A node refuses what is not of its map, so a follower that is
// behind does no harm; it never goes back to an older map.
//
// Runs on the control thread.
class Follower {
 public:
  // `election`: says whether it may begin when it hears of no decider; outlives it. `starts`: the
  // process has just begun.
  Follower(OpsContext& ops, DeciderSettings settings, Election& election, bool starts);

  // Publishes maps through ops.map, where the one that it finds there stays until there is a newer
  // one. Ends when it is cancelled; true: when no decider was heard of for suspect_after, or the
  // one that was has left, and it may begin.
  Task<bool> run();
  // After run(), before it is destroyed: its calls have to end, for which nobody need wait else.
  Task<void> join() { return scope_.join(); }

  ClusterStatus status() const;  // control thread
  // The times that it goes by: the cluster's, as far as it has heard of a map.
  const DeciderSettings& settings() const { return settings_; }
  // Names of nodes that did not answer when they were asked last.
  std::vector<std::string> silent() const;

 private:
  // What is asked of one node, beside what it is known for.
  struct Asked {
    TimePoint heard_at = TimePoint::min();     // an answer, or that there is none
    node::Epoch leased = {};                   // in its last answer; number 0: it had no lease
    TimePoint leased_at = {};                  // when that came
    std::optional<TimePoint> decider_at = {};  // as its last answer told: a decider was heard of
    uint64_t decider_of = 0;                   // the cluster of that one
    size_t calls = 0;                          // on their way
  };

  Task<bool> sleep_to_turn(TimePoint end);
  void turn();
  void ask_some();
  void ask(size_t id);
  Task<void> greet(size_t id);
  Task<void> beat(size_t id, node::MapPtr map);
  bool heard(size_t id, TimePoint sent, const Result<NodeReply>& reply);
  void told(size_t id, const NodeReply& reply);
  void look();
  void wait(std::string reason);
  void follow_members();
  void meet_members(const std::vector<node::NodeInfo>& nodes);
  void tell_strays(const std::vector<MapPtr>& maps, const MapPtr& newest);
  void know_members(std::vector<node::NodeInfo> nodes);
  void note_free_bytes();
  bool is_before_own(const node::ClusterMap& map) const;
  bool is_served(const node::ClusterMap& map, TimePoint since) const;
  bool may_be_followed(const Peer& peer) const;
  bool would_go_back(TimePoint since) const;
  void look_why_unserved(TimePoint lately);
  bool is_unfit() const { return is_too_old_ || is_misled_ || is_passed_over_; }
  void look_for_decider();
  TimePoint may_begin_at() const;
  bool has_majority() const;
  bool has_looked() const;
  bool is_ours(const node::ClusterMap& map) const;
  TimePoint now() const { return ops_.clock.now(); }

  OpsContext& ops_;
  Election& election_;
  DeciderSettings settings_;  // its times are those of the newest map that is known
  const std::vector<node::NodeInfo> configured_;
  std::vector<node::NodeInfo> members_;  // by id
  node::Epoch members_of_;               // the map that named them; number 0: the configuration
  uint64_t cluster_id_ = 0;              // of that map; 0: none is known
  std::deque<Peer> peers_;               // by id
  std::deque<Asked> asked_;
  uint64_t peers_version_ = 0;  // one more when ids have got another meaning
  Scope scope_;
  bool over_ = false;
  std::vector<size_t> order_;  // in which nodes are asked, at random
  size_t next_ = 0;            // to be asked, in that order
  TimePoint last_turn_;
  TimePoint looks_since_;                   // since then it looks for a decider
  std::optional<TimePoint> alone_since_;    // nobody decides
  TimePoint last_sign_ = TimePoint::min();  // of a decider, at any node
  node::MapPtr known_;                      // the newest that was seen, served or not
  node::MapPtr map_;                        // that was published last
  bool serving_ = false;
  TimePoint served_until_;       // was seen to be served then
  bool is_too_old_ = false;      // for the map that is served
  bool is_misled_ = false;       // by its configuration: the cluster has other partitions
  bool is_passed_over_ = false;  // nodes serve what is older than what this proxy has served
  std::string reason_;
};

}  // namespace elastripe::decider
