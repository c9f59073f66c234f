// Judges from outside by which maps proxies serve, and who begins to decide (docs/decider.md, "Who
// follows"). Nodes refuse what is not of their map, and serve nothing without a lease: of what goes
// wrong here clients see nothing but the time that it costs.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "tests/sim/cluster.h"

namespace elastripe::sim {

class MapJudge {
 public:
  MapJudge(Run& run, Cluster& cluster);  // looks at it from now on

  // What it has found is the verdict of a schedule that has no other: more may come of the same
  // cause that clients do see.
  void tell();

 private:
  // What was seen of a proxy.
  struct Served {
    node::MapPtr map = {};  // the last that it served
    TimePoint since{};      // that it has followed, by this map
    const decider::Follower* follower = nullptr;
    TimePoint awake_since{};
  };

  void look();
  void look_at_nodes();
  void look_at_proxy(SimProxy& proxy);
  void note_installed(node::NodeId at, const node::ClusterMap& map);
  void note_beginning(SimProxy& proxy);
  void check_order(const SimProxy& proxy, const Served& before, const node::ClusterMap& map);
  void check_installed(const SimProxy& proxy, const node::ClusterMap& map);
  void check_leases(SimProxy& proxy, const Served& served);
  void find(std::string what);

  Run& run_;
  Cluster& cluster_;
  TimePoint looked_at_nodes_{};
  std::map<int, Served> served_;                          // by proxy
  std::map<uint64_t, std::set<node::NodeId>> installed_;  // by hash of the map
  std::map<uint64_t, TimePoint> leased_;                  // likewise: at any node
  std::set<uint64_t> fully_installed_;                    // likewise
  std::map<node::NodeId, TimePoint> hears_since_;         // a decider, of nodes that are well
  std::map<std::pair<int, node::NodeId>, TimePoint> linked_since_;
  std::string found_;  // the first
};

}  // namespace elastripe::sim
