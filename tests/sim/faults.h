// The faults of a schedule: what dies, stalls, gets cut or goes wrong, at random moments or at the
// very worst ones. None happens in a calm world.
#pragma once

#include <optional>
#include <set>

#include "tests/sim/clients.h"

namespace elastripe::sim {

class Faults {
 public:
  Faults(Run& run, Cluster& cluster, Promise& promise, Clients& clients)
      : run_(run),
        plan_(run.scenario.faults),
        random_(run.random),
        cluster_(cluster),
        promise_(promise),
        clients_(clients) {}

  // Draws the moments of all faults of the scenario.
  void plan();
  // Everything is well from now on: nodes that are not dead for good start again, links are mended,
  // whoever was paused goes on, clocks are right.
  void end();
  // After that: faults may be planned again.
  void begin_round();
  // Has proxies die in a moment, if they are just repairing then. For so long they may.
  Duration kill_repairers();
  // The proxy's wall clock may be wrong from its start.
  void set_clock_wrong(SimProxy& proxy);

  // Moments that random kills hardly ever hit. `head` has answered a commit of `proxy`, which does
  // not know it yet:
  void after_commit(int proxy, node::NodeId head);
  void after_append(int proxy, node::NodeId tail);
  // A node has acknowledged a parity that `proxy` stages:
  void after_staging(int proxy);
  // A client has just heard that this is done:
  void after_answer(const Operation& op);

 private:
  // Each at most once for a call, if there is a victim.
  void kill_a_node();
  void kill_many();
  void bury_one();
  void stall_a_node();
  void declare_wrongly();
  void declare(SimProxy& decider, std::vector<node::NodeId> stalled, TimePoint until);
  void divide(SimProxy& decider, const std::vector<node::NodeId>& stalled);
  void stick_a_node();
  void flip_a_bit();
  void step_a_clock();
  void change_a_member();
  void change_settings();
  void stop_etcd();
  void cut_etcd();
  void part_etcd();
  void end_etcd();
  void cut_a_link();
  void part_decider();
  void kill_a_proxy();
  void kill_a_repairer(int left, TimePoint until);
  void pause_a_proxy();
  void plan_upgrade();
  void upgrade_a_node();
  void restart_proxies() { cluster_.restart_proxies(); }

  bool may_doom(node::NodeId id);
  void kill_node(SimNode& victim);
  void put_stray(SimNode& at);
  void cut(SimProxy& proxy, node::NodeId id, Duration how_long);
  void pause_proxy(SimProxy& paused);
  SimProxy* victim_proxy();
  void set_clocks_right();

  Run& run_;
  const FaultPlan& plan_;
  SimRandom& random_;
  Cluster& cluster_;
  Promise& promise_;
  Clients& clients_;
  std::set<node::NodeId> buried_;           // died for good
  std::optional<node::NodeId> to_upgrade_;  // in this round
};

}  // namespace elastripe::sim
