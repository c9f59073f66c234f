#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "proxy/main/config.h"

using namespace elastripe;
using namespace std::chrono_literals;

namespace {

const std::string kNodes =
    "nodes:\n"
    "  - {name: n1, host: 127.0.0.1, port: 11401}\n"
    "  - {name: n2, host: 127.0.0.1, port: 11402}\n"
    "  - {name: n3, host: 127.0.0.1, port: 11403}\n"
    "  - {name: n4, host: 127.0.0.1, port: 11404}\n"
    "  - {name: n5, host: 127.0.0.1, port: 11405}\n"
    "  - {name: n6, host: 127.0.0.1, port: 11406}\n";

Config parse(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  const Result<Config> config = parse_config(yaml, "test.yaml", overrides);
  if (!config) FAIL(config.error().message);
  return *config;
}

Config defaults() {
  Config config;
  for (uint16_t i = 1; i <= 6; ++i) {
    const std::string name = "n" + std::to_string(i);
    config.nodes.push_back({name, {"127.0.0.1", static_cast<uint16_t>(11400 + i)}, name});
  }
  return config;
}

}  // namespace

TEST_CASE("a file with nodes alone gives the defaults", "[config]") {
  CHECK(parse(kNodes) == defaults());
}

TEST_CASE("the example file shows every setting with its default", "[config]") {
  const Result<Config> config = load_config(EXAMPLE_CONFIG);
  if (!config) FAIL(config.error().message);
  CHECK(*config == defaults());

  // Who adds a setting writes the file again: elastripe-proxy --example-config > FILE
  std::ifstream file(EXAMPLE_CONFIG);
  const std::string example{std::istreambuf_iterator<char>(file), {}};
  CHECK(example == example_config());
}

TEST_CASE("every setting is read", "[config]") {
  const Config config = parse(
      "cluster: c-1\n"
      "listen: {host: '::1', port: 0}\n"
      "admin: {host: localhost, port: 81}\n"
      "insecure: true\n"
      "refused_is_dead: false\n"
      "flush_all: refuse\n"
      "threads: 3\n"
      "log_level: debug\n"
      "partitions: 64\n"
      "segment_bytes: 1MiB\n"
      "max_object_bytes: 512MiB\n"
      "record_cache_bytes: 0\n"
      "nodes:\n"
      "  - {name: a, host: 10.0.0.1, port: 1, domain: r1}\n"
      "  - {name: b, host: node-b.example, port: 1, domain: r2}\n"
      "  - {name: c, host: 10.0.0.1, port: 2}\n"
      "pools:\n"
      "  - {prefix: 'u:', scheme: 'rs:1,2', inline_max_bytes: 64KiB, degraded_writes: true,\n"
      "     unreadable: miss}\n"
      "  - {prefix: 'w:', scheme: 'ers-1:1,1,2', write_state: wide}\n"
      "  - {prefix: 'b:', scheme: 'ers-1:1,1,2', write_state: as_before}\n"
      "  - {scheme: 'rep:3', write_state: narrow}\n"
      "limits: {connections: 5, staged_bytes: 2GiB, read_bytes: 3GiB}\n"
      "timing:\n"
      "  profile: local\n"
      "  heartbeat_ms: 11\n"
      "  suspect_after_ms: 22\n"
      "  lease_ms: 33\n"
      "  read_grace_ms: 144\n"
      "  upload_idle_ms: 155\n"
      "  request_timeout_ms: 168\n"
      "  hedge_after_ms: 77\n"
      "  tombstone_keep_ms: 2177\n"
      "  client_idle_ms: 188\n"
      "  client_yield_ms: 201\n"
      "  client_keepalive_ms: 199\n"
      "  shutdown_delay_ms: 212\n"
      "  shutdown_wait_ms: 213\n");
  Config expected;
  expected.cluster = "c-1";
  expected.listen.address = {"::1", 0};
  expected.admin = {"localhost", 81};
  expected.insecure = true;
  expected.decider.refused_is_dead = false;
  expected.sessions.allows_flush = false;
  expected.threads = 3;
  expected.log_level = LogLevel::kDebug;
  expected.decider.partitions = 64;
  expected.segment_bytes = 1 << 20;
  expected.ops.max_object_bytes = expected.sessions.max_object_bytes = uint64_t{1} << 29;
  expected.record_cache_bytes = 0;
  expected.nodes = {{"a", {"10.0.0.1", 1}, "r1"},
                    {"b", {"node-b.example", 1}, "r2"},
                    {"c", {"10.0.0.1", 2}, "c"}};
  const coding::Scheme elastic = {coding::LayoutKind::kErs1, 1, 1, 2};
  expected.pools = {{"u:", {coding::LayoutKind::kRs, 1, 2, 1}, 64 << 10, true, true},
                    {"w:", elastic, 16 << 10, false, false, WriteState::kWide},
                    {"b:", elastic, 16 << 10, false, false, WriteState::kAsBefore},
                    {"", {coding::LayoutKind::kRs, 1, 2, 1}, 16 << 10, false}};
  expected.max_parities = 2;
  expected.sessions.max_connections = 5;
  expected.staged_bytes = uint64_t{2} << 30;
  expected.read_bytes = uint64_t{3} << 30;
  expected.profile = TimingProfile::kLocal;
  expected.decider.heartbeat = 11ms;
  expected.decider.suspect_after = 22ms;
  expected.decider.lease = 33ms;
  expected.ops.read_grace = 144ms;
  expected.ops.upload_idle = expected.sessions.stall_timeout = 155ms;
  expected.ops.request_timeout = 168ms;
  expected.ops.node_timeout = 42ms;
  expected.ops.hedge_after = 77ms;
  expected.ops.tombstone_keep = 2177ms;
  expected.sessions.idle_timeout = 188ms;
  expected.sessions.yield_timeout = 201ms;
  expected.client_keepalive = 199ms;
  expected.shutdown_delay = 212ms;
  expected.shutdown_wait = 213ms;
  CHECK(config == expected);
  CHECK(parse(print_config(config)) == config);
  CHECK(to_string(config.listen) == "[::1]:0");
  CHECK(to_string(config.nodes[0].address) == "10.0.0.1:1");
}

TEST_CASE("a printed configuration is read back as it was", "[config]") {
  Config config = defaults();
  CHECK(parse(print_config(config)) == config);
  config.pools.push_back({R"(a"b\c:{x})", config.pools[0].scheme, 0, true});
  CHECK(parse(print_config(config)) == config);
}

TEST_CASE("overrides replace settings and add what is not there", "[config]") {
  const Config config =
      parse(kNodes, {"partitions=8", "timing.lease_ms=5000", "timing.lease_ms=6000",
                     "nodes.1.port=7", "nodes.5={name: x, host: localhost, port: 9, domain: d}",
                     "nodes.6.name=y", "nodes.6.host=localhost", "nodes.6.port=10",
                     "pools=[{scheme: 'rep:3'}]", "pools.1.prefix=p", "pools.1.scheme=rep:2",
                     "pools.0.prefix=", "limits={connections: 7}"});
  Config expected = defaults();
  expected.decider.partitions = 8;
  expected.decider.lease = 6s;
  expected.nodes[1].address.port = 7;
  expected.nodes[5] = {"x", {"localhost", 9}, "d"};
  expected.nodes.push_back({"y", {"localhost", 10}, "y"});
  expected.pools = {{"", {coding::LayoutKind::kRs, 1, 2, 1}, 16 << 10, false},
                    {"p", {coding::LayoutKind::kRs, 1, 1, 1}, 16 << 10, false}};
  expected.max_parities = 2;
  expected.sessions.max_connections = 7;
  CHECK(config == expected);
}

TEST_CASE("a profile sets times together, and single settings override it", "[config]") {
  Config local = defaults();
  local.profile = TimingProfile::kLocal;
  local.decider.heartbeat = 50ms;
  local.decider.suspect_after = 300ms;
  local.decider.lease = 900ms;
  local.ops.hedge_after = 50ms;
  CHECK(parse(kNodes + "timing: {profile: local}\n") == local);
  CHECK(parse(kNodes, {"timing.profile=local"}) == local);
  CHECK(parse(kNodes + "timing: {profile: standard}\n") == defaults());
  local.decider.lease = 1200ms;
  CHECK(parse(kNodes + "timing: {lease_ms: 1200, profile: local}\n") == local);
}

TEST_CASE("one call to a node takes a share of what a request may take", "[config]") {
  CHECK(parse(kNodes).ops.node_timeout == 2s);
  CHECK(parse(kNodes + "timing: {request_timeout_ms: 30000}\n").ops.node_timeout == 2s);
  CHECK(parse(kNodes + "timing: {request_timeout_ms: 1000}\n").ops.node_timeout == 250ms);
}

TEST_CASE("no two settings have the same name in the statistics", "[config]") {
  std::set<std::string> names;
  for (const auto& [name, value] : setting_stats(defaults())) CHECK(names.insert(name).second);
  CHECK(names.contains("lease_ms"));
  CHECK_FALSE(names.contains("host"));
}

TEST_CASE("the list of settings has each with its default and a sentence", "[config]") {
  const std::string list = list_settings();
  CHECK(
      list.contains("  timing.heartbeat_ms=100 [10..60000]\n    How often every node is asked "
                    "whether it lives."));
  CHECK(list.contains("  pools.0.inline_max_bytes=16KiB [0..1MiB]\n    Objects up to this size"));
}

TEST_CASE("a configuration can come from overrides alone", "[config]") {
  const Config config =
      parse("", {"nodes=[{name: a, host: localhost, port: 1}, {name: b, host: localhost, port: 2}]",
                 "pools=[{scheme: 'rep:2'}]"});
  CHECK(config.nodes.size() == 2);
  CHECK(config.pools[0].scheme.m == 1);
}
