// A cluster of reports: what the tests of membership and takeover ask about.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/cluster/membership.h"

namespace elastripe {

using Homes = std::vector<node::NodeId>;

// A cluster whose nodes say what a test tells them to.
struct Cluster {
  explicit Cluster(size_t nodes, uint8_t max_parities, uint32_t partitions = 16)
      : settings{.nodes = {}, .partitions = partitions, .max_parities = max_parities},
        ring(names(nodes), partitions) {
    for (size_t i = 0; i < nodes; ++i) {
      node::NodeInfo info;
      info.id = static_cast<node::NodeId>(i);
      info.name = names(nodes)[i];
      info.domain = info.name;
      settings.nodes.push_back(info);
      request.reports.push_back({Verdict::kAnswers, 100 + i, 0, {}, {}});
    }
    request.decider = 7;
    map = first_map(settings, ring, request, 42).value();
    install();
  }
  static std::vector<std::string> names(size_t count) {
    std::vector<std::string> result;
    for (size_t i = 0; i < count; ++i) result.push_back("node-" + std::to_string(i));
    return result;
  }

  // Every node that answers installs the map: its bits are what the map says.
  void install() {
    for (size_t id = 0; id < request.reports.size(); ++id) {
      NodeReport& report = request.reports[id];
      if (report.verdict != Verdict::kAnswers || !map.is_up(static_cast<node::NodeId>(id)))
        continue;
      report.epoch = map.epoch;
      report.synced.assign((settings.partitions + 7) / 8, 0);
      for (size_t p = 0; p < map.partitions.size(); ++p) {
        if (map.partitions[p].synced) set_synced(static_cast<node::NodeId>(id), p);
      }
    }
  }
  void set_synced(node::NodeId id, size_t p) {
    auto& bits = request.reports[id].synced;
    bits[p / 8] = static_cast<uint8_t>(bits[p / 8] | 1u << (p % 8));
  }
  void sync_all() {
    for (size_t p = 0; p < map.partitions.size(); ++p) {
      for (const node::NodeId home : map.partitions[p].homes) set_synced(home, p);
    }
  }
  void kill(node::NodeId id) {
    request.reports[id] = {};
    request.reports[id].verdict = Verdict::kRefuses;
  }
  void restart(node::NodeId id) {
    request.reports[id] = {
        Verdict::kAnswers, request.reports[id].incarnation + 1000 + ++restarts, 0, {}, {}};
  }
  void silence(node::NodeId id) { request.reports[id].verdict = Verdict::kSilent; }
  void wake(node::NodeId id) { request.reports[id].verdict = Verdict::kAnswers; }
  void step() {
    map = next_map(map, settings, ring, request).value();
    install();
  }
  // A partition whose homes are these, in any order; for tests that need one.
  size_t partition_with(node::NodeId home) const {
    for (size_t p = 0; p < map.partitions.size(); ++p) {
      if (std::ranges::find(map.partitions[p].homes, home) != map.partitions[p].homes.end()) {
        return p;
      }
    }
    FAIL("no such partition");
    return 0;
  }

  MembershipSettings settings;
  Ring ring;
  MapRequest request;
  node::ClusterMap map;
  uint64_t restarts = 0;
};

}  // namespace elastripe
