#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxy/admin/admin_json.h"
#include "proxy/ops/shards.h"

using namespace elastripe::objects;
using namespace elastripe::decider;
using namespace elastripe::jobs;

namespace elastripe {
namespace {

using nlohmann::json;

ClusterStatus three_nodes() {
  ClusterStatus status;
  status.state = "serving";
  status.epoch = {.number = 3, .decider = 0xabc, .map_hash = 0x123};
  status.cluster_id = 0xfeed;
  status.partitions = 8;
  status.partitions_synced = 7;
  status.partitions_lost = 1;
  status.partitions_short = 4;
  const node::NodeState states[] = {node::NodeState::kUp, node::NodeState::kSuspect,
                                    node::NodeState::kLost};
  for (uint16_t id = 0; id < 3; ++id) {
    NodeStatus node;
    node.info = {id,          "n" + std::to_string(id + 1),
                 "127.0.0.1", static_cast<uint16_t>(11401 + id),
                 "rack",      0x77,
                 states[id]};
    node.statistics.records = 5;
    node.statistics.used_bytes = 3;
    node.statistics.limit_bytes = 100;
    node.statistics.record_bytes = 1;
    node.statistics.shard_bytes = id;
    node.statistics.log_bytes = 7;
    node.statistics.log_age_ms = uint64_t{100} - id;
    node.free_bytes = 90;
    status.nodes.push_back(node);
  }
  return status;
}

MapPtr map_of(const ClusterStatus& status) {
  auto map = std::make_shared<node::ClusterMap>();
  for (const auto& node : status.nodes) map->nodes.push_back(node.info);
  return map;
}

TEST_CASE("status tells the state, the epoch and the numbers of nodes and partitions") {
  const json status = json::parse(status_json(three_nodes(), {}, {}, "v1", "0a1b"));
  REQUIRE(status["version"] == "v1");
  REQUIRE(status["state"] == "serving");
  REQUIRE(status["cluster_id"] == "000000000000feed");
  REQUIRE(status["epoch"]["number"] == 3);
  REQUIRE(status["nodes"]["up"] == 1);
  REQUIRE(status["nodes"]["suspect"] == 1);
  REQUIRE(status["nodes"]["lost"] == 1);
  REQUIRE(status["partitions"]["lost"] == 1);
  REQUIRE(status["partitions"]["short"] == 4);
  // The memory of the one that is up and the one that is suspect, and the room on the first.
  REQUIRE(status["memory"] == json({{"used_bytes", 6},
                                    {"limit_bytes", 200},
                                    {"record_bytes", 2},
                                    {"shard_bytes", 1},
                                    {"other_bytes", 3},
                                    {"free_bytes", 90}}));
}

TEST_CASE("status tells which proxies serve, and who decides") {
  ClusterStatus cluster = three_nodes();
  cluster.proxies.resize(2);
  cluster.proxies[0].is_self = true;
  cluster.proxies[1].card.clients = "host:7";
  cluster.proxies[1].card.decides_as = 9;
  cluster.proxies[1].age = std::chrono::milliseconds(30);
  const json proxies = json::parse(status_json(cluster, {}, {}, "v1", "0a1b"))["proxies"];
  REQUIRE(proxies.size() == 2);
  CHECK(proxies[0]["self"] == true);
  CHECK(proxies[1] == json({{"proxy_id", ""},
                            {"clients", "host:7"},
                            {"admin", ""},
                            {"version", ""},
                            {"decides", true},
                            {"decides_as", "00000009"},
                            {"leaves", false},
                            {"self", false},
                            {"age_ms", 30}}));
}

TEST_CASE("status sums up the update logs of the nodes that are up") {
  ClusterStatus cluster = three_nodes();
  cluster.nodes[2].info.state = node::NodeState::kUp;
  const node::NodeStatistics told{.logs = 2,
                                  .log_bytes = 30,
                                  .log_used_bytes = 40,
                                  .log_limit_bytes = 50,
                                  .log_age_ms = 60,
                                  .log_merged_bytes = 70,
                                  .log_refusals = 80};
  for (auto& node : cluster.nodes) node.statistics = told;
  cluster.nodes[2].statistics.log_age_ms = 61;
  CHECK(json::parse(status_json(cluster, {}, {}, "v1", "0a1b"))["update_logs"] ==
        json({{"logs", 4},
              {"bytes", 60},
              {"used_bytes", 80},
              {"limit_bytes", 100},
              {"age_ms", 61},
              {"merged_bytes", 140},
              {"refusals", 160}}));
}

TEST_CASE("status tells how many objects survive how many further failures") {
  ClusterStatus status = three_nodes();
  status.objects_lacking = 3;
  status.objects_surviving = {0, 3, 100};
  CHECK(
      json::parse(status_json(status, {}, {}, "v1", "0a1b"))["objects"] ==
      json({{"lacking_shards", 3}, {"lost", 0}, {"surviving", {{"0", 0}, {"1", 3}, {"2", 100}}}}));
}

TEST_CASE("status tells what repair and scrubs do at the proxy that decides") {
  const RepairStatus there{
      .waits_for = "node n2", .settled_in = {.number = 7}, .now_in = {.number = 8}, .progress = {}};
  ClusterStatus status = three_nodes();
  const auto shown = [&] { return json::parse(status_json(status, {}, {}, "v1", "0a1b")); };
  const json own = shown();
  status.maintenance = maintenance_json(there, {.scrubs = 5});
  CHECK(shown()["repair"]["settled_epoch"] == 7);
  CHECK(shown()["repair"]["epoch"] == 8);
  CHECK(shown()["repair"]["waits_for"] == "node n2");
  CHECK(shown()["scrub"]["ended"] == 5);
  for (const char* unreadable : {"", "{", "7", "[]", "{\"repair\": "}) {
    status.maintenance = unreadable;
    CHECK(shown() == own);
  }
}

TEST_CASE("status tells what repair does, and when it will be through") {
  RepairStatus repair{.waits_for = "node n2 to come back",
                      .settled_in = {.number = 3},
                      .now_in = {},
                      .progress = {}};
  const auto shown = [&] {
    return json::parse(status_json(three_nodes(), repair, {}, "v1", "0a1b"))["repair"];
  };
  CHECK(shown()["state"] == "waiting");
  CHECK(shown()["waits_for"] == "node n2 to come back");
  CHECK(shown()["settled_epoch"] == 3);
  CHECK(shown()["seconds_left"].is_null());
  repair.is_running = true;
  CHECK(shown()["seconds_left"].is_null());  // nothing is restored yet
  repair.progress.planned.objects = 4;
  repair.progress.planned.traffic.bytes_read = 4000;
  repair.progress.settled_bytes = 1000;
  repair.progress.counts.done = 1;
  repair.progress.elapsed = std::chrono::seconds(2);
  CHECK(shown()["state"] == "running");
  CHECK(shown()["objects"]["restored"] == 1);
  CHECK(shown()["seconds_left"] == 6);
  CHECK(shown()["problem"] == "");
  repair.progress.problems = {{"a\nb", "no room"}, {"c", "no room either"}};
  CHECK(shown()["problem"] == "a\\x0ab: no room");
  repair = {.is_automatic = false, .waits_for = "", .settled_in = {}, .now_in = {}, .progress = {}};
  CHECK(shown()["state"] == "off");
}

TEST_CASE("nodes tells each node with its statistics") {
  const json nodes = json::parse(nodes_json(three_nodes()));
  REQUIRE(nodes["nodes"].size() == 3);
  REQUIRE(nodes["nodes"][1]["name"] == "n2");
  REQUIRE(nodes["nodes"][1]["state"] == "suspect");
  REQUIRE(nodes["nodes"][1]["address"] == "127.0.0.1:11402");
  REQUIRE(nodes["nodes"][1]["statistics"]["records"] == 5);
  REQUIRE(nodes["nodes"][1]["statistics"]["log_bytes"] == 7);
  REQUIRE(nodes["nodes"][1]["statistics"]["log_age_ms"] == 99);
}

TEST_CASE("a striped object shows every shard by its node, and which are missing") {
  node::Record record;
  record.meta.version = 9;
  record.content.kind = node::RecordKind::kStriped;
  record.content.size = 4096;
  record.content.flags = 7;
  record.content.scheme = {coding::LayoutKind::kErs2, 1, 1, 2};
  node::Segment segment;
  segment.length = 4096;
  segment.generation = 2;
  segment.placement = {0, 1, 2};
  record.content.segments = {segment, segment};
  record.content.segments[1].folded_lsn = 12;
  node::name_moved_shard(record.content.segments[1], 0, {1, 2});
  node::name_moved_shard(record.content.segments[1], 2, {3, 0xff});
  ObjectReport report;
  report.record = std::make_shared<node::Record>(record);
  report.homes = {2, 0};
  report.segments.emplace_back().missing = {1};
  report.segments.back().unreachable = {2};
  report.segments.emplace_back();
  const json object = json::parse(object_json("a/b", report, map_of(three_nodes())));
  REQUIRE(object["key"] == "a/b");
  REQUIRE(object["kind"] == "striped");
  REQUIRE(object["homes"] == json({"n3", "n1"}));
  REQUIRE(object["missing_shards"] == 1);
  REQUIRE(object["segments_total"] == 2);
  REQUIRE_FALSE(object["segments"][0].contains("moved"));
  REQUIRE(object["segments"][0]["folded_lsn"] == 0);
  REQUIRE(object["segments"][1]["folded_lsn"] == 12);
  REQUIRE(object["last_lsn"] == 12);
  REQUIRE(object["log"].is_null());
  REQUIRE(object["segments"][1]["moved"] ==
          json::array({{{"role", "D0"}, {"txid", "00000000000000010000000000000002"}},
                       {{"role", "P0"}, {"txid", "000000000000000300000000000000ff"}}}));
  const json& shards = object["segments"][0]["shards"];
  REQUIRE(object["unreachable_shards"] == 1);
  const auto shard = [](const char* role, const char* node, bool missing, bool unreachable) {
    return json(
        {{"role", role}, {"node", node}, {"missing", missing}, {"unreachable", unreachable}});
  };
  REQUIRE(shards[0] == shard("D0", "n1", false, false));
  REQUIRE(shards[1] == shard("D1", "n2", true, false));
  REQUIRE(shards[2] == shard("P0", "n3", false, true));
}

TEST_CASE("an object that is being updated shows its log") {
  node::Record record;
  record.content.kind = node::RecordKind::kStriped;
  record.content.scheme = {coding::LayoutKind::kErs2, 1, 1, 2};
  ObjectReport report;
  report.record = std::make_shared<node::Record>(record);
  report.log = objects::LogHealth{
      .last_lsn = 9, .settled_to = 7, .settled_bytes = 100, .unsettled_bytes = 20, .age_ms = 300};
  const json object = json::parse(object_json("key", report, map_of(three_nodes())));
  REQUIRE(object["last_lsn"] == 9);
  REQUIRE(object["log"] == json({{"bytes", 120},
                                 {"settled_bytes", 100},
                                 {"unsettled_bytes", 20},
                                 {"settled_to", 7},
                                 {"age_ms", 300}}));
}

TEST_CASE("a shard that was never written is on no node") {
  node::Record record;
  record.content.kind = node::RecordKind::kStriped;
  record.content.scheme = {coding::LayoutKind::kErs2, 1, 1, 2};
  node::Segment segment;
  segment.placement = {0, 1, kNoNode};
  record.content.segments = {segment};
  ObjectReport report;
  report.record = std::make_shared<node::Record>(record);
  report.segments.emplace_back().missing = {2};
  const json object = json::parse(object_json("key", report, map_of(three_nodes())));
  REQUIRE(object["missing_shards"] == 1);
  REQUIRE(object["segments"][0]["shards"][2] ==
          json({{"role", "P0"}, {"node", nullptr}, {"missing", true}, {"unreachable", false}}));
}

TEST_CASE("a key that is no text, and a node that no map names, are still shown") {
  node::Record record;
  record.content.kind = node::RecordKind::kInline;
  ObjectReport report;
  report.record = std::make_shared<node::Record>(record);
  report.homes = {5};
  const json object = json::parse(object_json("\xff\xfe", report, nullptr));
  REQUIRE(object["key"] == "\\xff\\xfe");
  REQUIRE(object["homes"] == json::array({"#5"}));
}

}  // namespace
}  // namespace elastripe
