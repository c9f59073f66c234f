// Proxies that decide or follow, as they find each other.
#pragma once

#include <catch2/catch.hpp>

#include "tests/unit/ops/cluster_fixture.h"

namespace elastripe {

struct Proxies : ClusterFixture {
  using ClusterFixture::ClusterFixture;

  // Decides where nobody else does.
  sim::SimProxy& add() {
    sim::SimProxy& proxy = add_proxy();
    proxy.follow_by(decider_settings, /*may_decide=*/true);
    return proxy;
  }
  sim::SimProxy& add_serving() {
    sim::SimProxy& proxy = add();
    REQUIRE(run_until([&] { return serves(proxy); }));
    return proxy;
  }
  // Without the last of its nodes, which is in no file then. This adds it.
  MemberChange leave_out_last() {
    MemberChange change{.kind = MemberChange::Kind::kAdd, .node = {}};
    const auto& last = decider_settings.nodes.back();
    change.node.name = last.name;
    change.node.host = last.host;
    change.node.port = last.port;
    decider_settings.nodes.pop_back();
    return change;
  }
  static bool decides(sim::SimProxy& proxy) {
    return proxy.is_alive() && proxy.decider() != nullptr && !proxy.decider_has_ended();
  }
  static bool serves(sim::SimProxy& proxy) { return proxy.map().current() != nullptr; }
  static uint32_t epoch(sim::SimProxy& proxy) {
    return serves(proxy) ? proxy.map().current()->epoch.number : 0;
  }
  // The time for which the proxy serves nothing, until `condition` holds.
  template <class Condition>
  Duration outage(sim::SimProxy& proxy, Condition condition) {
    Duration total{};
    TimePoint before = events().now();
    REQUIRE(run_until([&] {
      if (!serves(proxy)) total += events().now() - before;
      before = events().now();
      return condition();
    }));
    return total;
  }
  // The process is stopped for longer than leases are. What its clients have sent meanwhile is not
  // to be refused as it wakes up: for how long it serves nothing then.
  Duration outage_after_stop(sim::SimProxy& proxy) {
    proxy.pause();
    run_for(std::chrono::seconds(30));
    proxy.resume();
    const TimePoint end = events().now() + std::chrono::seconds(10);
    return outage(proxy, [&] { return events().now() >= end; });
  }
};

}  // namespace elastripe
