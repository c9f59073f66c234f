#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "proxy/config/config.h"

using namespace elastripe;

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

  // Every setting that the proxy prints is explained there.
  std::ifstream file(EXAMPLE_CONFIG);
  const std::string example{std::istreambuf_iterator<char>(file), {}};
  const std::string printed = print_config(*config);
  for (size_t colon = printed.find(':'); colon != std::string::npos;
       colon = printed.find(':', colon + 1)) {
    const size_t begin = printed.find_last_of(" {\n\"", colon - 1) + 1;
    const std::string key = printed.substr(begin, colon - begin + 1);
    CAPTURE(key);
    if (colon + 1 < printed.size() && (printed[colon + 1] == ' ' || printed[colon + 1] == '\n')) {
      CHECK(example.find(key) != std::string::npos);
    }
  }
}

TEST_CASE("every setting is read", "[config]") {
  const Config config = parse(
      "cluster: c-1\n"
      "listen: {host: '::1', port: 0}\n"
      "admin: {host: localhost, port: 81}\n"
      "insecure: true\n"
      "refused_is_dead: false\n"
      "threads: 3\n"
      "log_level: debug\n"
      "partitions: 64\n"
      "segment_bytes: 1MiB\n"
      "max_object_bytes: 1GiB\n"
      "record_cache_bytes: 0\n"
      "nodes:\n"
      "  - {name: a, host: 10.0.0.1, port: 1, domain: r1}\n"
      "  - {name: b, host: node-b.example, port: 1, domain: r2}\n"
      "  - {name: c, host: 10.0.0.1, port: 2}\n"
      "pools:\n"
      "  - {prefix: 'u:', scheme: 'rs:1,2', inline_max_bytes: 64KiB, degraded_writes: true}\n"
      "  - {scheme: 'rep:3'}\n"
      "limits: {connections: 5, staged_bytes: 2GiB, read_bytes: 3GiB}\n"
      "timing:\n"
      "  heartbeat_ms: 11\n"
      "  suspect_after_ms: 22\n"
      "  lease_ms: 33\n"
      "  read_grace_ms: 144\n"
      "  upload_idle_ms: 155\n"
      "  request_timeout_ms: 166\n"
      "  hedge_after_ms: 77\n"
      "  tombstone_keep_ms: 2177\n"
      "  client_idle_ms: 188\n"
      "  client_keepalive_ms: 199\n");
  Config expected;
  expected.cluster = "c-1";
  expected.listen = {"::1", 0};
  expected.admin = {"localhost", 81};
  expected.insecure = true;
  expected.refused_is_dead = false;
  expected.threads = 3;
  expected.log_level = "debug";
  expected.partitions = 64;
  expected.segment_bytes = 1 << 20;
  expected.max_object_bytes = 1 << 30;
  expected.record_cache_bytes = 0;
  expected.nodes = {{"a", {"10.0.0.1", 1}, "r1"},
                    {"b", {"node-b.example", 1}, "r2"},
                    {"c", {"10.0.0.1", 2}, "c"}};
  expected.pools = {{"u:", {coding::LayoutKind::kRs, 1, 2, 1}, 64 << 10, true},
                    {"", {coding::LayoutKind::kRs, 1, 2, 1}, 16 << 10, false}};
  expected.limits = {5, uint64_t{2} << 30, uint64_t{3} << 30};
  expected.timing = {11, 22, 33, 144, 155, 166, 77, 2177, 188, 199};
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
  expected.partitions = 8;
  expected.timing.lease_ms = 6000;
  expected.nodes[1].address.port = 7;
  expected.nodes[5] = {"x", {"localhost", 9}, "d"};
  expected.nodes.push_back({"y", {"localhost", 10}, "y"});
  expected.pools = {{"", {coding::LayoutKind::kRs, 1, 2, 1}, 16 << 10, false},
                    {"p", {coding::LayoutKind::kRs, 1, 1, 1}, 16 << 10, false}};
  expected.limits.connections = 7;
  CHECK(config == expected);
}

TEST_CASE("a profile sets times together, and single settings override it", "[config]") {
  TimingConfig local;
  local.heartbeat_ms = 50;
  local.suspect_after_ms = 300;
  local.lease_ms = 900;
  local.hedge_after_ms = 50;
  CHECK(parse(kNodes + "timing: {profile: local}\n").timing == local);
  CHECK(parse(kNodes, {"timing.profile=local"}).timing == local);
  CHECK(parse(kNodes + "timing: {profile: standard}\n").timing == TimingConfig{});
  local.lease_ms = 1200;
  CHECK(parse(kNodes + "timing: {lease_ms: 1200, profile: local}\n").timing == local);
}

TEST_CASE("one call to a node takes a share of what a request may take", "[config]") {
  CHECK(parse(kNodes).timing.node_timeout_ms() == 2000);
  CHECK(parse(kNodes + "timing: {request_timeout_ms: 30000}\n").timing.node_timeout_ms() == 2000);
  CHECK(parse(kNodes + "timing: {request_timeout_ms: 1000}\n").timing.node_timeout_ms() == 250);
}

TEST_CASE("a configuration can come from overrides alone", "[config]") {
  const Config config =
      parse("", {"nodes=[{name: a, host: localhost, port: 1}, {name: b, host: localhost, port: 2}]",
                 "pools=[{scheme: 'rep:2'}]"});
  CHECK(config.nodes.size() == 2);
  CHECK(config.pools[0].scheme.m == 1);
}
