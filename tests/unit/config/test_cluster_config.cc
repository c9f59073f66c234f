// The settings that the cluster has in common, in place of what a file says.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/main/cluster_config.h"

using namespace elastripe;
using namespace std::chrono_literals;

namespace {

using Texts = std::vector<std::string>;

Config parse(const Texts& overrides = {}) {
  std::string yaml = "nodes:\n";
  for (int i = 1; i <= 6; ++i) {
    yaml += fmt::format("  - {{name: n{}, host: 127.0.0.1, port: {}}}\n", i, 11400 + i);
  }
  const Result<Config> config = parse_config(yaml, "test.yaml", overrides);
  if (!config) FAIL(config.error().message);
  return *config;
}

const std::string kPools =
    "pools=[{prefix: '', scheme: 'ers:3,2,4'}, {prefix: 'a,{b', scheme: 'rep:2'}]";

// That of a cluster of six nodes that was formed by a proxy with that configuration.
node::ClusterMap map_of(const Config& config) {
  node::ClusterMap map;
  for (const NodeConfig& node : config.nodes) {
    node::NodeInfo info;
    info.name = info.domain = node.name;
    map.nodes.push_back(info);
  }
  map.settings.version = 3;
  map.settings.text = cluster_text(config);
  return map;
}

SettingsChange change(const Config& running, const Texts& settings, bool is_recycled = false) {
  auto change = change_cluster(running, map_of(running), settings, is_recycled);
  if (!change) FAIL(change.error().message);
  return *change;
}

std::string refusal(const Config& running, const Texts& settings) {
  const auto change = change_cluster(running, map_of(running), settings, /*is_recycled=*/false);
  REQUIRE_FALSE(change);
  return change.error().message;
}

}  // namespace

TEST_CASE("what is the cluster's takes the place of what the file says", "[config]") {
  const Config first = parse({kPools, "timing.lease_ms=5000", "timing.profile=local",
                              "timing.request_timeout_ms=4000", "limits.connections=7"});
  const Config file = parse({"timing.lease_ms=2000", "timing.read_grace_ms=777", "threads=3",
                             "limits.connections=9", "refused_is_dead=false",
                             "pools=[{prefix: '', scheme: 'rep:2'}]"});
  const auto followed = with_cluster(file, cluster_text(first));
  REQUIRE(followed);
  CHECK(followed->pools == first.pools);
  CHECK(followed->decider.lease == 5s);
  CHECK(followed->decider.heartbeat == 50ms);
  CHECK(followed->decider.refused_is_dead);
  CHECK(followed->ops.request_timeout == 4s);
  CHECK(followed->ops.node_timeout == 1s);
  CHECK(followed->ops.read_grace == first.ops.read_grace);
  CHECK(followed->max_parities == 2);
  CHECK(followed->threads == 3);
  CHECK(followed->sessions.max_connections == 9);
  CHECK(followed->ops.hedge_after == file.ops.hedge_after);
  CHECK(cluster_text(*followed) == cluster_text(first));
  const Texts differ = overruled(file, *followed);
  CHECK(std::ranges::count(differ, "timing.lease_ms=2000") == 1);
  CHECK(std::ranges::count(differ, "timing.read_grace_ms=777") == 1);
  CHECK(std::ranges::count(differ, "refused_is_dead=false") == 1);
  CHECK(std::ranges::count(differ, "pools") == 1);
  CHECK(std::ranges::count(differ, "threads=3") == 0);
  CHECK(overruled(first, *with_cluster(first, cluster_text(first))).empty());

  // A proxy that runs takes them, whatever needs a restart in a file.
  const auto taken = change_config(file, *followed, /*is_of_cluster=*/true);
  REQUIRE(taken);
  CHECK(taken->need_restart.empty());
  CHECK(taken->config.decider.lease == 5s);
  CHECK(taken->config.pools == first.pools);
}

TEST_CASE("only what a file says itself is overruled", "[config]") {
  const Config first =
      parse({kPools, "timing.read_grace_ms=777", "timing.lease_ms=5000", "refused_is_dead=false"});
  const auto differ = [&](const Texts& said) {
    const Config file = parse(said);
    const auto followed = with_cluster(file, cluster_text(first));
    REQUIRE(followed);
    return overruled(file, *followed);
  };
  CHECK(differ({}).empty());
  CHECK(differ({"timing.read_grace_ms=10000"}) == Texts{"timing.read_grace_ms=10000"});
  CHECK(differ({"refused_is_dead=true"}) == Texts{"refused_is_dead=true"});
  CHECK(differ({"timing={lease_ms: 5000}"}).empty());
  CHECK(differ({"pools=[{prefix: '', scheme: 'rep:2'}]"}) == Texts{"pools"});
  // A profile says several at once.
  CHECK(differ({"timing.profile=local"}) ==
        Texts{"timing.heartbeat_ms=50", "timing.suspect_after_ms=300", "timing.lease_ms=900"});
}

TEST_CASE("what a cluster text does not say is as by default", "[config]") {
  const Config file = parse({"timing.tombstone_keep_ms=777000", kPools});
  const auto followed = with_cluster(file, "timing: {lease_ms: 4000}");
  REQUIRE(followed);
  CHECK(followed->ops.tombstone_keep == Config().ops.tombstone_keep);
  CHECK(followed->pools == Config().pools);
}

TEST_CASE("a cluster text that a proxy can not follow is refused with the reason", "[config]") {
  const auto refused = [](const Config& file, const std::string& text) {
    const auto followed = with_cluster(file, text);
    REQUIRE_FALSE(followed);
    return followed.error().message;
  };
  CHECK(refused(parse(), "timing: {of_a_newer_build: 1}").find("of_a_newer_build") !=
        std::string::npos);
  CHECK(refused(parse(), "threads: 1").find("threads") != std::string::npos);
  CHECK(refused(parse(), "pools: [").find("not valid YAML") != std::string::npos);
  // What does not fit the rest is refused where it is taken.
  const Config large = parse({"segment_bytes=28MiB", "pools=[{prefix: '', scheme: 'rs:4,1'}]"});
  const auto followed = with_cluster(large, "pools: [{prefix: '', scheme: 'rs:3,1'}]");
  REQUIRE(followed);
  const auto taken = change_config(large, *followed, /*is_of_cluster=*/true);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().message.find("segment_bytes") != std::string::npos);
  // The nodes are the map's, however few the file lists.
  CHECK(with_cluster(parse(), "pools: [{prefix: '', scheme: 'rs:9,2'}]"));
}

TEST_CASE("a change of the cluster's settings is checked with all that stays", "[config]") {
  const Config running = parse({kPools});
  const SettingsChange done = change(running, {"timing.lease_ms=5000", "pools.1.scheme='rep:4'"});
  CHECK(done.of_version == 3);
  CHECK(done.max_parities == 3);
  CHECK(done.settings.version == 4);
  CHECK(done.settings.lease_ms == 5000);
  CHECK(done.settings.heartbeat_ms == 100);
  CHECK(done.settings.refused_is_dead);
  const auto followed = with_cluster(running, done.settings.text);
  REQUIRE(followed);
  CHECK(followed->pools[1].prefix == "a,{b");
  CHECK(followed->pools[1].scheme == coding::parse_scheme("rep:4"));
  CHECK(change(running, {}).settings.text == cluster_text(running));

  CHECK(refusal(running, {"timing.lease_ms=500"}).find("suspect_after_ms") != std::string::npos);
  CHECK(refusal(running, {"pools.0.scheme='rs:5,2'"}).find("needs 7 nodes") != std::string::npos);
  CHECK(refusal(running, {"limits.connections=5"}) ==
        "limits.connections: is not the cluster's: set it in the file of each proxy");
  CHECK(refusal(running, {"partitions=100"}) ==
        "partitions: is fixed since the cluster was formed");
  CHECK(refusal(running, {"timing.profile=local"})
            .find("timing.heartbeat_ms, timing.suspect_after_ms and timing.lease_ms") !=
        std::string::npos);
  CHECK(refusal(running, {"timing"}).find("PATH=VALUE") != std::string::npos);
  CHECK(refusal(running, {"nodes.0.port=5"}).find("nodes") != std::string::npos);
  CHECK(refusal(running, {"pools.0.log_copies=two"}).find("recycled first") != std::string::npos);
  CHECK(change(running, {"pools.0.log_copies=two"}, /*is_recycled=*/true).settings.version == 4);
  std::string many = "pools=[{prefix: '', scheme: 'rep:2'}";
  for (int i = 0; i < 200; ++i) many += fmt::format(", {{prefix: 'p{}', scheme: 'rep:2'}}", i);
  CHECK(refusal(running, {many + "]"}).find("of a cluster map") != std::string::npos);

  // Some nodes were removed since: what does not concern pools may change.
  node::ClusterMap smaller = map_of(running);
  smaller.nodes.resize(4);
  CHECK(change_cluster(running, smaller, Texts{"timing.lease_ms=5000"}, false));
  CHECK_FALSE(change_cluster(running, smaller, Texts{"pools.1.scheme='rep:4'"}, false));

  node::ClusterMap without = map_of(running);
  without.settings = {};
  const auto early = change_cluster(running, without, Texts{"timing.lease_ms=5000"}, false);
  REQUIRE_FALSE(early);
  CHECK(early.error().code == ErrorCode::kUnavailable);
}

TEST_CASE("a proxy that joins has no nodes listed", "[config]") {
  const auto joined = parse_config("join: 'n1.example:11401'", "test.yaml");
  REQUIRE(joined);
  CHECK(joined->join == "n1.example:11401");
  CHECK(joined->nodes.empty());
  CHECK(*parse_config(print_config(*joined), "printed.yaml") == *joined);
  CHECK_FALSE(parse_config("join: n1", "test.yaml"));
  CHECK_FALSE(parse_config("join: 'n1:1'\nnodes: [{name: a, host: a, port: 1}]", "test.yaml"));
  // Then it is checked with those that the cluster has.
  Config with_nodes = *joined;
  with_nodes.nodes.push_back({"n1", {"10.0.0.1", 11401}, "n1"});
  const auto checked = recheck_config(with_nodes);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().message.find("can be reached from other machines") != std::string::npos);
  with_nodes.insecure = true;
  CHECK(recheck_config(with_nodes));
}

TEST_CASE("an endpoint is a host and a port", "[config]") {
  CHECK(parse_endpoint("n1:5") == Endpoint{"n1", 5});
  CHECK(parse_endpoint("[::1]:65535") == Endpoint{"::1", 65535});
  for (const char* wrong :
       {"", "n1", "n1:", "n1:0", "n1:65536", "n1:5x", ":5", "::1:5", "[n1]:5", "[::1]", "n 1:5"}) {
    INFO(wrong);
    CHECK_FALSE(parse_endpoint(wrong));
  }
}
