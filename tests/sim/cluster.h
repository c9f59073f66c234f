// The simulated cluster: its nodes and their network, its proxies, and the stand-ins for what keeps
// a real one going: a supervisor that starts deciders, a watch by which proxies hear of new maps,
// and an operator who changes the configuration.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/configuration.h"
#include "tests/sim/proxy.h"
#include "tests/sim/run.h"
#include "tests/sim/settings_changes.h"

namespace elastripe::sim {

class Cluster {
 public:
  using Proxies = std::vector<std::unique_ptr<SimProxy>>;
  using Configurations = std::vector<std::unique_ptr<Configuration>>;

  explicit Cluster(Run& run);

  // Starts the nodes and the first decider.
  void start();
  // From now on a decider that ends is followed by another one, until stop().
  void keep_deciding();
  // Kills every proxy. What they counted, and the network, is in the totals.
  void stop();

  Network& network() { return network_; }
  size_t nodes() const { return network_.nodes(); }
  SimNode& node(size_t id) { return network_.node(id); }
  bool node_is_up(node::NodeId id) { return network_.node(id).is_up(); }
  std::set<node::NodeId> silent_nodes();
  // More than half of the nodes that are not known to be gone answer: without that nobody makes
  // maps but whom the operator tells that the silent ones are dead.
  bool has_majority(const std::set<node::NodeId>& known_dead);

  EtcdStore* etcd() { return etcd_.get(); }            // null: the nodes tell who decides
  const Proxies& proxies() const { return proxies_; }  // ever started, by id
  // On the machine of that one, which is gone; null: on another machine.
  SimProxy* add_proxy(const SimProxy* in_place_of = nullptr);
  // The operator has the decider, if there is one, add, drain or remove a node.
  void change_a_member(SimRandom& random);
  // He asks this proxy for other settings: leases get longer, or shorter.
  void change_settings(SimProxy& at);
  bool has_long_leases();
  SettingsChanges& settings() { return settings_; }
  // What starts from now on has these.
  void install_build(node::CapabilitySet capabilities);
  SimProxy* choose_proxy(SimRandom& random);  // any that is alive; null: none is
  void kill_proxy(SimProxy& proxy);
  void restart_proxies();  // all, with the scenario's other scheme

  bool has_lasting_decider();  // which serves, and nobody has made a map after its own
  static bool is_deciding(SimProxy& proxy);
  SimProxy* decider();  // the newest; null if it is dead
  void start_new_decider();
  // As above, if it is still this one and somebody is to decide at all.
  void replace_decider(SimProxy& old);

  // What proxies start with is the last one.
  const Configurations& configurations() const { return configurations_; }
  const Configuration& configuration() const { return *configurations_.back(); }
  const PoolTable& pools() const { return configuration().pools; }

  // Called often, and always before a map may go with the proxy that has made it.
  void watch_maps(std::function<void()> watch) { map_watches_.push_back(std::move(watch)); }
  // Called when a proxy begins to decide, as it hears of nobody who does.
  void watch_beginnings(std::function<void(SimProxy&)> watch) {
    beginning_watch_ = std::move(watch);
  }
  node::MapPtr newest_map() const { return followed_; }  // that a decider served; null: none
  uint32_t newest_epoch();                               // of all that were ever served
  void note_epoch(uint32_t number);                      // somebody has seen it served
  void note_installed(uint32_t number) { newest_installed_ = std::max(newest_installed_, number); }
  // So many nodes were up; nothing if nobody noticed the epoch.
  std::optional<size_t> nodes_up_in(uint64_t epoch) const;

  // The operator has accepted that LOST partitions start again: none may be left.
  void note_accepted_loss() { accepted_loss_ = true; }
  bool has_accepted_loss() const { return accepted_loss_; }

  // The map says what is true of every node, all is synced, and every proxy has that map.
  bool is_settled();
  std::string why_unsettled();
  // Calm and settled for so long.
  bool is_at_rest_for(Duration time) const { return run_.events.now() - time >= at_rest_since_; }
  // The map has dealt with the death of the node.
  bool is_settled_without(node::NodeId id);

 private:
  void look_at_maps();
  void choose_wrong_machines();
  void note_wrong_decider(const SimProxy& decider);
  void check_election(SimProxy& proxy);
  void tick_nodes();
  void check_builds();
  void follow_maps();
  void tell(size_t proxy);
  void keep_a_decider();
  void change_configuration();
  // `then` is called with whether that was done, as far as the operator knows.
  void ask_member(MemberChange::Kind kind, node::NodeId id, std::function<void(bool)> then);
  void refill_a_member(node::NodeId id);
  void stop_removed(const node::ClusterMap& served);

  Run& run_;
  Network network_;
  std::unique_ptr<EtcdStore> etcd_;
  Configurations configurations_;
  std::string scheme_;  // of the default pool, in the newest configuration
  Proxies proxies_;
  std::map<int, Duration> wall_leads_;  // by the first proxy of a machine whose clock is wrong
  int looks_at_wrong_ = 0;              // at a decider whose clock is ahead
  int decider_ = -1;                    // index of the newest decider
  bool decider_wanted_ = false;
  node::CapabilitySet build_ = node::own_capabilities();  // of what starts
  std::map<int, std::set<node::NodeId>> vouched_dead_;    // so the decider of that proxy was told
  std::vector<std::function<void()>> map_watches_;
  std::function<void(SimProxy&)> beginning_watch_;
  node::MapPtr followed_;
  uint32_t newest_epoch_ = 0;
  uint32_t newest_installed_ = 0;
  std::map<uint64_t, size_t> up_in_epoch_;
  std::vector<uint32_t> scheduled_epochs_;  // by proxy: the newest map on its way
  std::vector<uint32_t> heard_epochs_;
  SettingsChanges settings_;
  std::set<node::NodeId>
      leaving_;  // the operator wants them removed, and then stops their processes
  TimePoint at_rest_since_ = TimePoint::max();
  bool accepted_loss_ = false;
};

}  // namespace elastripe::sim
