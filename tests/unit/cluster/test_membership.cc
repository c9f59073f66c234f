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

TEST_CASE("a map that flushes has a floor that no version before it exceeds") {
  Cluster c(4, 1);
  const ClusterMap before = c.map;
  CHECK(before.flush_floor == 0);
  c.step();
  CHECK(c.map.flush_floor == 0);
  c.request.flush.now = true;
  c.step();
  CHECK(c.map.flush_floor == c.map.version_floor);
  CHECK(c.map.flush_floor > before.version_floor + (uint64_t{1} << node::kCounterBits) - 1);
  // An epoch may be so long that its versions have outgrown the next one's number, and go on.
  c.request.reports[2].max_version = 100ull << node::kCounterBits;
  c.step();
  CHECK(c.map.flush_floor == c.map.version_floor);
  CHECK(c.map.flush_floor > (100ull << node::kCounterBits) + 1'000'000);
  const uint64_t floor = c.map.flush_floor;
  c.request.flush = {};
  c.step();
  CHECK(c.map.flush_floor == floor);
  c.kill(1);
  c.step();
  CHECK(c.map.flush_floor == floor);
  CHECK(c.map.version_floor >= floor);
}

TEST_CASE("a suspect is known by its last incarnation") {
  Cluster c(4, 1);
  c.silence(2);
  c.step();
  CHECK(c.map.nodes[2].state == NodeState::kSuspect);
  CHECK(c.map.nodes[2].incarnation == 102);
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
  // And above the numbers of updates behind that version, of which nobody tells.
  CHECK(c.map.version_floor == node::next_block((uint64_t{9} << node::kCounterBits) + 5));
  const uint64_t floor = c.map.version_floor;
  c.kill(2);
  c.step();
  CHECK(c.map.version_floor == node::next_block(floor));
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

TEST_CASE("as many may be excluded without proof as the last map has copies for") {
  Cluster c(7, 1);
  c.settings.max_parities = 2;
  c.silence(0);
  c.silence(1);
  const auto next = next_map(c.map, c.settings, c.ring, c.request);
  REQUIRE_FALSE(next);
  CHECK(next.error().message.ends_with("at most 1 may be excluded without proof of their death"));
  c.wake(1);
  c.step();
  CHECK(c.map.max_parities == 2);
}

TEST_CASE("records get more copies when a pool wants them, and never fewer") {
  Cluster c(6, 2);
  c.settings.max_parities = 1;  // of a proxy with other pools
  CHECK_FALSE(needs_map(c.map, c.settings, c.request));
  c.kill(0);
  c.step();
  CHECK(c.map.max_parities == 2);
  for (const node::Partition& partition : c.map.partitions) CHECK(partition.homes.size() == 3);
  c.settings.max_parities = 3;
  CHECK(needs_map(c.map, c.settings, c.request));
  c.step();
  CHECK(c.map.max_parities == 3);
}

namespace {

node::ClusterSettings settings_with(uint32_t lease_ms) {
  return {.version = 0,
          .heartbeat_ms = 100,
          .suspect_after_ms = 500,
          .lease_ms = lease_ms,
          .longest_lease_ms = lease_ms,
          .refused_is_dead = true,
          .text = std::to_string(lease_ms)};
}

// All know of such, and the next map has the first.
void give_settings(Cluster& c) {
  c.settings.own = settings_with(3000);
  for (NodeReport& report : c.request.reports) report.capabilities = c.settings.capabilities;
  c.step();
}

// The next map has these settings.
void change_settings(Cluster& c, uint32_t lease_ms, uint8_t max_parities = 1) {
  c.request.settings = SettingsChange{.of_version = c.map.settings.version,
                                      .max_parities = max_parities,
                                      .settings = settings_with(lease_ms)};
  c.step();
  c.request.settings.reset();
}

}  // namespace

TEST_CASE("a cluster without settings gets those of the proxy that decides, and keeps them") {
  Cluster c(5, 1);
  CHECK(c.map.settings.version == 0);
  c.settings.own = settings_with(3000);
  const node::CapabilitySet known = c.settings.capabilities;
  SECTION("once all members know of such") {
    c.request.reports[2].capabilities = node::CapabilitySet();
    for (const int id : {0, 1, 3, 4}) {
      c.request.reports[static_cast<size_t>(id)].capabilities = known;
    }
    c.step();
    CHECK(c.map.settings == node::ClusterSettings{});
  }
  for (NodeReport& report : c.request.reports) report.capabilities = known;
  c.step();
  CHECK(c.map.settings.version == 1);
  CHECK(c.map.settings.text == "3000");
  c.settings.own = settings_with(900);
  c.step();
  CHECK(c.map.settings.version == 1);
  CHECK(c.map.settings.lease_ms == 3000);
}

TEST_CASE("the map says how long leases may be that nodes have from maps before") {
  Cluster c(5, 1);
  give_settings(c);
  CHECK(c.map.settings.longest_lease_ms == 3000);
  change_settings(c, 6000);
  CHECK(c.map.settings.version == 2);
  CHECK(c.map.settings.longest_lease_ms == 6000);
  c.request.was_served = true;
  change_settings(c, 1000);
  CHECK(c.map.settings.longest_lease_ms == 6000);  // of the map that was served before
  c.request.was_served = false;                    // another proxy takes over
  change_settings(c, 900);
  c.step();
  CHECK(c.map.settings.lease_ms == 900);
  CHECK(c.map.settings.longest_lease_ms == 6000);
  c.request.was_served = true;
  c.step();
  CHECK(c.map.settings.longest_lease_ms == 900);
}

TEST_CASE("the settings of the cluster say how many copies of records there are") {
  Cluster c(6, 1);
  give_settings(c);
  c.settings.max_parities = 3;  // of a proxy with another file
  CHECK_FALSE(needs_map(c.map, c.settings, c.request));
  c.step();
  CHECK(c.map.max_parities == 1);
  change_settings(c, 3000, /*max_parities=*/2);
  CHECK(c.map.max_parities == 2);
  change_settings(c, 3000, /*max_parities=*/1);
  CHECK(c.map.max_parities == 2);
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

TEST_CASE("a node that claims the last number there is leaves none for a map") {
  Cluster c(4, 1);
  c.request.above_number = node::kMaxEpoch;
  CHECK(!next_map(c.map, c.settings, c.ring, c.request));
  for (auto& report : c.request.reports) report.epoch = {};
  CHECK(!first_map(c.settings, c.ring, c.request, 42));
  c.request.above_number = node::kMaxEpoch - 1;
  CHECK(first_map(c.settings, c.ring, c.request, 42)->epoch.number == node::kMaxEpoch);
}

TEST_CASE("a capability is used once all that are up have it, and for good") {
  const node::CapabilitySet some(uint64_t{1} << 60);
  const node::CapabilitySet more(uint64_t{3} << 60);
  const node::CapabilitySet all(uint64_t{7} << 60);
  Cluster cluster(4, 1);
  cluster.settings.capabilities = more;
  CHECK(cluster.map.capabilities == node::CapabilitySet());
  const auto after_restart_of = [&](node::NodeId id, node::CapabilitySet build) {
    cluster.restart(id);
    cluster.request.reports[id].capabilities = build;
    cluster.step();
    cluster.sync_all();
    return cluster.map.capabilities;
  };
  CHECK(after_restart_of(0, more) == node::CapabilitySet());
  CHECK(after_restart_of(1, more) == node::CapabilitySet());
  CHECK(after_restart_of(2, some) == node::CapabilitySet());
  CHECK(after_restart_of(3, more) == some);
  CHECK(after_restart_of(2, more) == more);
  cluster.kill(2);
  cluster.step();
  cluster.sync_all();
  CHECK(cluster.map.capabilities == more);

  SECTION("and a node that is only silent has a say") {
    cluster.settings.capabilities = all;
    cluster.silence(1);
    CHECK(after_restart_of(2, all) == more);
    cluster.request.reports[1].verdict = Verdict::kRefuses;
    cluster.request.reports[0].capabilities = all;
    cluster.request.reports[3].capabilities = all;
    cluster.step();
    CHECK(cluster.map.capabilities == all);
  }
  SECTION("and an older proxy makes no maps then") {
    cluster.settings.capabilities = some;
    const auto next = next_map(cluster.map, cluster.settings, cluster.ring, cluster.request);
    REQUIRE_FALSE(next);
    CHECK(next.error().code == ErrorCode::kUnavailable);
    CHECK(next.error().message == "the cluster uses bit 61, for which this proxy is too old");
  }
}

TEST_CASE("a new cluster uses what all its nodes and its proxy have") {
  Cluster cluster(3, 1);
  for (NodeReport& report : cluster.request.reports) {
    report.capabilities = node::CapabilitySet(7);
    report.epoch = {};
  }
  cluster.request.reports[1].capabilities = node::CapabilitySet(5);
  cluster.settings.capabilities = node::CapabilitySet(3);
  const auto map = first_map(cluster.settings, cluster.ring, cluster.request, 42);
  REQUIRE(map);
  CHECK(map->capabilities == node::CapabilitySet(1));
}
