#include <algorithm>
#include <catch2/catch.hpp>

#include "server-patches/node/format/record.h"
#include "tests/unit/cluster/membership_fixture.h"

using namespace elastripe;
using node::ClusterMap;
using node::NodeId;
using node::NodeState;
using Groups = std::vector<std::vector<NodeId>>;

namespace {

Homes without(Homes homes, NodeId id) {
  std::erase(homes, id);
  std::ranges::sort(homes);
  return homes;
}
Groups sorted(Groups groups) {
  for (auto& group : groups) std::ranges::sort(group);
  std::ranges::sort(groups);
  return groups;
}

}  // namespace

TEST_CASE("a new cluster needs every node, none of them with a map") {
  Cluster c(4, 1);
  MapRequest request = c.request;
  for (auto& report : request.reports) report = {Verdict::kAnswers, 5, 0, {}, {}};
  const auto formed = first_map(c.settings, c.ring, request, 9);
  REQUIRE(formed);
  CHECK(formed->epoch.number == 1);
  CHECK(formed->cluster_id == 9);
  for (const auto& partition : formed->partitions) {
    CHECK(partition.synced);
    CHECK(partition.homes.size() == 2);
  }
  for (const Verdict verdict : {Verdict::kSilent, Verdict::kRefuses}) {
    request.reports[2].verdict = verdict;
    CHECK(!first_map(c.settings, c.ring, request, 9));
  }
  request.reports[2].verdict = Verdict::kAnswers;
  request.reports[2].epoch.number = 3;
  CHECK(!first_map(c.settings, c.ring, request, 9));
}

TEST_CASE("nothing changed needs no map") {
  Cluster c(4, 1);
  CHECK(!needs_map(c.map, c.settings, c.request));
  c.silence(1);
  CHECK(needs_map(c.map, c.settings, c.request));
}

TEST_CASE("a lost node's partitions are synced from the homes that are left") {
  Cluster c(5, 2);
  const ClusterMap before = c.map;
  c.kill(3);
  c.step();
  CHECK(c.map.nodes[3].state == NodeState::kLost);
  for (size_t p = 0; p < before.partitions.size(); ++p) {
    const auto& old_homes = before.partitions[p].homes;
    const auto& partition = c.map.partitions[p];
    CHECK(!partition.lost);
    if (std::ranges::find(old_homes, 3) == old_homes.end()) {
      CHECK(partition.synced);
      CHECK(partition.homes == old_homes);
    } else {
      CHECK(!partition.synced);
      CHECK(sorted(partition.sources) == Groups{without(old_homes, 3)});
    }
  }
}

TEST_CASE("a home with a new incarnation is no synced home, though the homes are the same") {
  Cluster c(3, 2);
  c.restart(1);
  c.step();
  CHECK(c.map.nodes[1].state == NodeState::kUp);
  for (const auto& partition : c.map.partitions) {
    CHECK(!partition.synced);
    CHECK(sorted(partition.sources) == Groups{{0, 2}});
  }
}

TEST_CASE("a suspect is excluded, and is no source when it returns") {
  Cluster c(4, 1);
  c.silence(2);
  c.step();
  CHECK(c.map.nodes[2].state == NodeState::kSuspect);
  CHECK(c.map.nodes[2].incarnation == 102);
  for (const auto& partition : c.map.partitions) {
    CHECK(without(partition.homes, 2).size() == partition.homes.size());
  }
  c.sync_all();
  c.wake(2);
  c.step();
  CHECK(c.map.nodes[2].state == NodeState::kUp);
  for (const auto& partition : c.map.partitions) {
    for (const auto& group : partition.sources) {
      CHECK(std::ranges::find(group, 2) == group.end());
    }
    const bool is_home = without(partition.homes, 2).size() != partition.homes.size();
    CHECK(partition.synced == !is_home);
  }
}

TEST_CASE("timeouts never exclude more than M nodes together") {
  Cluster c(6, 2);
  c.silence(0);
  c.silence(1);
  c.step();
  // All is synced but what node 2 has nothing to do with.
  for (size_t p = 0; p < c.map.partitions.size(); ++p) {
    const auto& partition = c.map.partitions[p];
    if (without(partition.homes, 2).size() == partition.homes.size()) continue;
    for (const NodeId home : partition.homes) c.set_synced(home, p);
  }
  c.silence(2);
  const auto waits = next_map(c.map, c.settings, c.ring, c.request);
  REQUIRE(!waits);
  CHECK(waits.error().code == ErrorCode::kUnavailable);
  SECTION("a death that is proven makes room") {
    c.kill(0);
    CHECK(next_map(c.map, c.settings, c.ring, c.request).has_value());
  }
  SECTION("a node that was lost before does not count, however silent") {
    Cluster d(6, 2);
    d.kill(5);
    d.step();
    for (const NodeId id : Homes{5, 0, 1}) d.silence(id);
    const auto next = next_map(d.map, d.settings, d.ring, d.request);
    REQUIRE(next);
    CHECK(next->nodes[5].state == NodeState::kLost);
  }
}

TEST_CASE("a timeout makes no partition LOST") {
  Cluster c(6, 1);
  const Homes homes = c.map.partitions[0].homes;
  c.kill(homes[0]);
  c.silence(homes[1]);
  const auto waits = next_map(c.map, c.settings, c.ring, c.request);
  REQUIRE(!waits);
  CHECK(waits.error().code == ErrorCode::kLost);
  SECTION("unless the operator gives the silent node up") {
    c.request.accept_loss = true;
    CHECK(!next_map(c.map, c.settings, c.ring, c.request));
    c.request.accept_loss = false;
    c.request.give_up_silent = true;
    CHECK(next_map(c.map, c.settings, c.ring, c.request)->partitions[0].lost);
  }
  c.request.give_up_silent = false;
  c.kill(homes[1]);
  CHECK(next_map(c.map, c.settings, c.ring, c.request)->partitions[0].lost);
}

TEST_CASE("groups of an epoch without complete sync carry on, and a superset says nothing new") {
  Cluster c(6, 2);
  const size_t p = 0;
  const Homes first = c.map.partitions[p].homes;
  c.kill(first[0]);
  c.step();
  CHECK(sorted(c.map.partitions[p].sources) == Groups{without(first, first[0])});
  const Homes second = c.map.partitions[p].homes;
  // The one that joined last dies: the groups are the old homes that are left, and [homes] minus
  // it, which is the same.
  c.kill(second.back());
  c.step();
  CHECK(sorted(c.map.partitions[p].sources) == Groups{without(first, first[0])});
}

TEST_CASE("a partition is LOST once a group has no live node, and stays so") {
  Cluster c(6, 1);
  const size_t p = 0;
  const Homes homes = c.map.partitions[p].homes;
  c.kill(homes[0]);
  c.kill(homes[1]);
  c.step();
  CHECK(c.map.partitions[p].lost);
  CHECK(!c.map.partitions[p].synced);
  CHECK(c.map.partitions[p].sources.empty());
  c.restart(homes[0]);
  c.restart(homes[1]);
  c.step();
  CHECK(c.map.partitions[p].lost);

  SECTION("what was written since is on the homes of the LOST epoch") {
    CHECK(c.map.partitions[p].sources.size() == 1);
  }
  SECTION("the operator accepts the loss") {
    c.request.accept_loss = true;
    CHECK(needs_map(c.map, c.settings, c.request));
    c.step();
    CHECK(!c.map.partitions[p].lost);
    c.sync_all();
    c.request.accept_loss = false;
    CHECK(!needs_map(c.map, c.settings, c.request));
  }
  SECTION("what is accepted is the loss of before, not what dies meanwhile") {
    const Homes written_since = c.map.partitions[p].homes;
    for (const NodeId home : written_since) c.restart(home);
    c.request.accept_loss = true;
    c.step();
    CHECK(c.map.partitions[p].lost);
    c.step();
    CHECK(!c.map.partitions[p].lost);
  }
}

TEST_CASE("a suspect does not save a partition whose other homes died") {
  Cluster c(5, 1);
  const Homes homes = c.map.partitions[0].homes;
  c.silence(homes[0]);
  c.step();
  c.kill(homes[1]);
  c.step();
  CHECK(c.map.partitions[0].lost);
  c.wake(homes[0]);
  c.step();
  CHECK(c.map.partitions[0].lost);
}

TEST_CASE("homes that never had the last map prove nothing about it") {
  // Epoch 2 brings a node back and is never served, because a home does not install it: that home
  // remembers what it had long before, and must not become a source of it.
  Cluster c(4, 1);
  const size_t p = c.partition_with(1);
  c.silence(1);
  c.step();
  c.sync_all();
  c.wake(1);
  const ClusterMap made = next_map(c.map, c.settings, c.ring, c.request).value();
  const auto sources = made.partitions[p].sources;
  const ClusterMap after = next_map(made, c.settings, c.ring, c.request).value();
  CHECK(sorted(after.partitions[p].sources) == sorted(sources));
}

TEST_CASE("who has taken another map meanwhile is no source of what that let it forget") {
  // Two deciders make the next map at once, and each has some nodes install its own.
  Cluster c(5, 1);
  const size_t p = c.partition_with(1);
  const NodeId other = c.map.partitions[p].homes[c.map.partitions[p].homes[0] == 1 ? 1 : 0];
  c.kill(1);
  ClusterMap made = next_map(c.map, c.settings, c.ring, c.request).value();
  REQUIRE(made.partitions[p].sources == Groups{{other}});
  REQUIRE(made.base == c.map.epoch);
  auto rival = std::make_shared<ClusterMap>(made);
  rival->epoch.decider = 8;
  // Also if it is older, but not what `made` was made from.
  made.epoch.number += GENERATE(0u, 1u);
  node::seal(made);
  SECTION("which is everything, where that takes the partition for LOST") {
    rival->partitions[p] = {.homes = made.partitions[p].homes, .sources = {}, .lost = true};
  }
  SECTION("which is nothing, where that knows it as a source") {}
  node::seal(*rival);
  const bool keeps = !rival->partitions[p].lost;

  c.request.maps.assign(5, std::make_shared<const ClusterMap>(made));
  for (NodeReport& report : c.request.reports) {
    report.epoch = made.epoch;
    report.synced.clear();
  }
  c.request.maps[other] = rival;
  c.request.reports[other].epoch = rival->epoch;
  const ClusterMap next = next_map(made, c.settings, c.ring, c.request).value();
  CHECK(next.partitions[p].lost == !keeps);
  CHECK(next.partitions[p].sources == (keeps ? Groups{{other}} : Groups{}));
}

TEST_CASE("a map names what it was made from if all who are left had just that") {
  Cluster c(4, 1);
  const auto made = [&] { return next_map(c.map, c.settings, c.ring, c.request).value(); };
  c.kill(1);
  CHECK(made().base == c.map.epoch);
  SECTION("not if one of them has a rival's") { c.request.reports[2].epoch.decider = 8; }
  SECTION("not if one of them never had it") { c.request.reports[2].epoch.number = 0; }
  CHECK(made().base == node::Epoch{});
  c.kill(2);
  CHECK(made().base == c.map.epoch);
}

TEST_CASE("the version floor rises above the epoch and above every version that was seen") {
  Cluster c(3, 1);
  CHECK(c.map.version_floor == uint64_t{1} << node::kCounterBits);
  c.request.reports[2].max_version = (uint64_t{9} << node::kCounterBits) + 5;
  c.restart(0);
  c.step();
  CHECK(c.map.version_floor == (uint64_t{9} << node::kCounterBits) + 5);
  const uint64_t floor = c.map.version_floor;
  c.kill(2);
  c.step();
  CHECK(c.map.version_floor == floor);
}

TEST_CASE("the number is above every number seen") {
  Cluster c(3, 1);
  c.kill(0);
  c.request.above_number = 20;
  c.step();
  CHECK(c.map.epoch.number == 21);
}

TEST_CASE("a map of another configuration is refused, one that has grown is taken on") {
  Cluster c(4, 1);
  MembershipSettings other = c.settings;
  other.nodes[1].name = "someone else";
  CHECK(next_map(c.map, other, c.ring, c.request).error().code == ErrorCode::kInvalid);
  other = c.settings;
  other.partitions = 8;
  CHECK(next_map(c.map, other, c.ring, c.request).error().code == ErrorCode::kInvalid);

  const Cluster grown(5, 1);
  MapRequest request = c.request;
  request.reports.push_back({Verdict::kAnswers, 500, 0, {}, {}});
  const auto next = next_map(c.map, grown.settings, grown.ring, request);
  REQUIRE(next);
  CHECK(next->nodes[4].state == NodeState::kUp);
  CHECK(next->nodes[4].incarnation == 500);
  for (const auto& partition : next->partitions)
    CHECK((partition.synced || !partition.sources.empty()));
}

TEST_CASE("a quorum is more than half of the nodes that may be alive") {
  CHECK(is_quorum(3, 0, 2));
  CHECK(!is_quorum(3, 0, 1));
  CHECK(is_quorum(3, 2, 1));
  CHECK(!is_quorum(3, 1, 1));
  CHECK(is_quorum(2, 1, 1));
  CHECK(!is_quorum(4, 0, 2));
  CHECK(!is_quorum(2, 2, 0));
}

TEST_CASE("a node that lacks room is no home of what it would have to be synced for") {
  Cluster c(5, 1, 64);
  const ClusterMap before = c.map;
  c.kill(3);
  c.step();
  const ClusterMap first = c.map;
  // Whoever took the most of the dead node's partitions refuses.
  c.request.reports[1].room = Room::kForOwn;
  CHECK(!needs_map(c.map, c.settings, c.request));
  CHECK(needs_homes(c.map, c.ring, c.request));
  c.step();
  CHECK(!needs_homes(c.map, c.ring, c.request));
  size_t replaced = 0;
  for (size_t p = 0; p < first.partitions.size(); ++p) {
    const Homes& old = before.partitions[p].homes;
    const auto& partition = c.map.partitions[p];
    CHECK(partition.homes.size() == 2);
    const bool had_it = std::ranges::find(old, 1) != old.end();
    const bool has_it = std::ranges::find(partition.homes, 1) != partition.homes.end();
    CHECK(has_it == had_it);
    if (partition.homes == first.partitions[p].homes) continue;
    ++replaced;
    CHECK(partition.sources == Groups{without(old, 3)});
  }
  CHECK(replaced > 0);
}

TEST_CASE(
    "where nobody has room a partition has the homes that have it, and more when there is room") {
  Cluster c(5, 2, 64);
  const ClusterMap before = c.map;
  c.kill(3);
  c.step();
  for (auto& report : c.request.reports) report.room = Room::kForOwn;
  REQUIRE(needs_homes(c.map, c.ring, c.request));
  c.step();
  for (size_t p = 0; p < before.partitions.size(); ++p) {
    CHECK(without(c.map.partitions[p].homes, 3) == without(before.partitions[p].homes, 3));
  }
  CHECK(!needs_homes(c.map, c.ring, c.request));
  c.sync_all();
  CHECK(!needs_homes(c.map, c.ring, c.request));

  c.request.reports[0].room = Room::kForMore;
  REQUIRE(needs_homes(c.map, c.ring, c.request));
  c.step();
  for (size_t p = 0; p < before.partitions.size(); ++p) {
    const Homes& homes = c.map.partitions[p].homes;
    const bool is_home = std::ranges::find(homes, 0) != homes.end();
    CHECK((homes.size() == 3 || is_home));
    CHECK(c.map.partitions[p].lost == false);
  }
  // Synced or not, this is all that there is to have.
  CHECK(!needs_homes(c.map, c.ring, c.request));
  c.sync_all();
  CHECK(!needs_homes(c.map, c.ring, c.request));
}

TEST_CASE("with too few nodes for M+1 homes it is not room that is missing") {
  Cluster c(3, 2);
  c.kill(1);
  c.step();
  CHECK(!needs_homes(c.map, c.ring, c.request));
}

TEST_CASE("a partition that is moved by a returning node goes back if that has no room") {
  Cluster c(4, 1, 64);
  const ClusterMap before = c.map;
  c.kill(2);
  c.step();
  c.sync_all();
  c.restart(2);
  c.step();
  const ClusterMap moved = c.map;
  c.request.reports[2].room = Room::kForOwn;
  REQUIRE(needs_homes(c.map, c.ring, c.request));
  c.step();
  for (size_t p = 0; p < before.partitions.size(); ++p) {
    const auto& partition = c.map.partitions[p];
    CHECK(partition.homes.size() == 2);
    CHECK(without(partition.homes, 2).size() == 2);
    // Those that had it before, and what was written since on the homes of that time.
    if (!moved.partitions[p].synced) CHECK(!partition.sources.empty());
  }
}

TEST_CASE("where nobody has everything and nobody has room, who has something is home") {
  Cluster c(4, 1);
  node::Partition& partition = c.map.partitions[0];
  partition.synced = false;
  partition.homes = {0, 1};
  partition.sources = {{2}, {3}};
  node::seal(c.map);
  c.install();
  for (auto& report : c.request.reports) report.room = Room::kForOwn;
  c.kill(0);
  c.step();
  CHECK(c.map.partitions[0].homes.size() == 2);
  CHECK(sorted(c.map.partitions[0].sources) == Groups{{1}, {2}, {3}});
}

TEST_CASE("a LOST partition has homes, whether they have room or not") {
  Cluster c(4, 1);
  const Homes homes = c.map.partitions[0].homes;
  for (const NodeId home : homes) c.kill(home);
  for (auto& report : c.request.reports) report.room = Room::kForOwn;
  c.step();
  CHECK(c.map.partitions[0].lost);
  CHECK(c.map.partitions[0].homes.size() == 2);
  CHECK(!needs_homes(c.map, c.ring, c.request));
}
