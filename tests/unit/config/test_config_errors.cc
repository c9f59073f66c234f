#include <catch2/catch.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "proxy/main/config.h"

using namespace elastripe;

namespace {

// Lines 1 to 7.
const std::string kNodes =
    "nodes:\n"
    "  - {name: n1, host: 127.0.0.1, port: 11401, domain: a}\n"
    "  - {name: n2, host: 127.0.0.1, port: 11402, domain: b}\n"
    "  - {name: n3, host: 127.0.0.1, port: 11403, domain: c}\n"
    "  - {name: n4, host: 127.0.0.1, port: 11404, domain: d}\n"
    "  - {name: n5, host: 127.0.0.1, port: 11405, domain: e}\n"
    "  - {name: n6, host: 127.0.0.1, port: 11406, domain: f}\n";

std::string error_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  const Result<Config> config = parse_config(yaml, "f", overrides);
  CAPTURE(yaml);
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error().code == ErrorCode::kInvalid);
  CHECK(config.error().message.find('\n') == std::string::npos);
  return config.error().message;
}

// The error of a line after the nodes: line 8.
std::string line_error(const std::string& line) { return error_of(kNodes + line + "\n"); }

}  // namespace

TEST_CASE("unknown settings are refused with their line", "[config]") {
  CHECK(line_error("colour: red") == "f:8: colour: is no known setting");
  CHECK(line_error("timing:\n  lease: 5") == "f:9: timing.lease: is no known setting");
  CHECK(line_error("pools:\n - scheme: rep:2\n   size: 5") ==
        "f:10: pools.0.size: is no known setting");
  CHECK(line_error("force_epoch: true") == "f:8: force_epoch: is no known setting");
  CHECK(line_error("threads: 1\nthreads: 2") == "f:8: threads: is set again in line 9");
}

TEST_CASE("an error is one line, whatever it quotes", "[config]") {
  const std::string layouts = "unknown layout; use rep, rs, srs, ers-1 or ers-2";
  CHECK(error_of(kNodes + "pools: [{scheme: rep:2}]\n", {"pools.0.scheme=\"r\\n\\t:1\""}) ==
        "--set pools.0.scheme=\"r\\n\\t:1\": pools.0.scheme: scheme 'r  :1': " + layouts);
  CHECK(line_error("insecure: true\nlisten: {host: \"::2\\0\\n\"}") ==
        "f:9: listen.host: is '::2\\x00\\x0a', must be a host name or an IP address");
  CHECK(error_of("cluster: \"\\\rc\"").find('\r') == std::string::npos);
}

TEST_CASE("what an unreadable key is told as has two words", "[config]") {
  CHECK(line_error("pools:\n - scheme: rep:2\n   unreadable: nothing") ==
        "f:10: pools.0.unreadable: is 'nothing', must be error or miss");
}

TEST_CASE("wrong types are refused", "[config]") {
  CHECK(line_error("partitions: many") == "f:8: partitions: is 'many', must be a whole number");
  CHECK(line_error("partitions: -8") == "f:8: partitions: is '-8', must be a whole number");
  CHECK(line_error("partitions: 1KiB") == "f:8: partitions: is '1KiB', must be a whole number");
  CHECK(line_error("partitions: 8.5") == "f:8: partitions: is '8.5', must be a whole number");
  CHECK(line_error("partitions: [8]") == "f:8: partitions: must be a number");
  CHECK(line_error("partitions:") == "f:8: partitions: must be a number");
  CHECK(line_error("insecure: yes") == "f:8: insecure: is 'yes', must be true or false");
  CHECK(line_error("flush_all: yes") == "f:8: flush_all: is 'yes', must be allow or refuse");
  CHECK(line_error("cluster: {a: b}") == "f:8: cluster: must be a text");
  CHECK(line_error("pools: 5") == "f:8: pools: must be a list");
  CHECK(line_error("pools: [5]") == "f:8: pools.0: must be a map of settings");
  CHECK(line_error("timing: 5") == "f:8: timing: must be a map of settings");
  CHECK(line_error("segment_bytes: 4MB") ==
        "f:8: segment_bytes: is '4MB', must be a whole number of bytes, or one with KiB, MiB or "
        "GiB");
  CHECK(error_of("[1, 2]") == "f: must be a map of settings");
  CHECK(error_of("? [a]\n: b") == "f: has a key that is not a word");
}

TEST_CASE("values out of bounds are refused", "[config]") {
  CHECK(line_error("partitions: 131072") == "f:8: partitions: is 131072, must be 1..65536");
  CHECK(line_error("listen: {port: 65536}") == "f:8: listen.port: is 65536, must be 0..65535");
  CHECK(line_error("threads: 99999999999999999999") ==
        "f:8: threads: is 99999999999999999999, must be 0..256");
  CHECK(line_error("record_cache_bytes: 18446744073709551615GiB").find("must be 0..") !=
        std::string::npos);
  CHECK(line_error("partitions: 1000") == "f:8: partitions: is 1000, must be a power of two");
  CHECK(line_error("log_level: loud") ==
        "f:8: log_level: is 'loud', must be debug, info, warning, error or off");
  CHECK(line_error("log_level: Info").starts_with("f:8: log_level: is 'Info', must be "));
  CHECK(line_error("log_level: ''").starts_with("f:8: log_level: is '', must be "));
  CHECK(line_error("cluster: 'a b'").starts_with("f:8: cluster: is 'a\\x20b'"));
}

TEST_CASE("every setting refuses what is not in its brackets", "[config]") {
  std::istringstream list(list_settings());
  size_t refused = 0;
  for (std::string line; std::getline(list, line);) {
    const size_t equals = line.find('=');
    if (!line.starts_with("  ") || line[2] == ' ' || !line.ends_with(']')) continue;
    const std::string path = line.substr(2, equals - 2);
    CAPTURE(line);
    CHECK(error_of(kNodes + "pools: [{}]\n", {path + "=99999999999999999999"})
              .starts_with(fmt::format("--set {0}=99999999999999999999: {0}: is ", path)));
    ++refused;
  }
  CHECK(refused > 20);
}

TEST_CASE("broken YAML is refused with its line", "[config]") {
  CHECK(line_error("pools: [").starts_with("f:"));
  CHECK(line_error("a: b: c").starts_with("f:8: not valid YAML"));
  CHECK(error_of("a: 1\n---\nb: 2\n") == "f: is not one YAML document");
  CHECK(error_of(", a: 1}\n- {b: 2}") == "f: is not one YAML document");
  CHECK(error_of(kNodes + "}") != "");
  CHECK(error_of(std::string(20000, '[')).starts_with("f:"));
}

TEST_CASE("nodes must be complete and distinct", "[config]") {
  const auto node_error = [](const std::string& node) { return error_of(kNodes + "  - " + node); };
  CHECK(error_of("") == "f: nodes: at least one node must be listed, or one to `join`");
  CHECK(node_error("{host: localhost, port: 1}") == "f:8: nodes.6.name: is missing");
  CHECK(node_error("{name: n7, port: 1}") == "f:8: nodes.6.host: is missing");
  CHECK(node_error("{name: n7, host: localhost}") == "f:8: nodes.6.port: is missing");
  CHECK(node_error("{name: n7, host: localhost, port: 0}") ==
        "f:8: nodes.6.port: is 0, must be 1..65535");
  CHECK(node_error("{name: n2, host: localhost, port: 1}") ==
        "f:8: nodes.6.name: n2 is the name of nodes.1 too");
  CHECK(node_error("{name: n7, host: 127.0.0.1, port: 11403}") ==
        "f:8: nodes.6.port: 127.0.0.1:11403 is the address of nodes.2 too");
  CHECK(node_error("{name: n7, host: 127.0.0.1, port: 11211}") ==
        "f:8: nodes.6.port: 127.0.0.1:11211 is the address of listen too");
  CHECK(node_error("{name: n7, host: 'a b', port: 1}").starts_with("f:8: nodes.6.host: is"));
  CHECK(node_error("{name: '', host: localhost, port: 1}").starts_with("f:8: nodes.6.name: is"));
  CHECK(node_error("{name: n7, host: localhost, port: 1, domain: ''}")
            .starts_with("f:8: nodes.6.domain: is"));
}

TEST_CASE("schemes that cannot survive what they promise are refused", "[config]") {
  CHECK(line_error("pools:\n - {scheme: 'rs:5,2'}") ==
        "f:9: pools.0.scheme: rs:5,2 needs 7 nodes (k' + m), 6 are listed");
  CHECK(error_of(kNodes, {"nodes.5.domain=a"}) ==
        "f: pools.0.scheme: ers-2:4,1,5 needs 6 failure domains (k' + m), the nodes are in 5: it "
        "could not survive what it promises");
  CHECK(line_error("pools: [{scheme: 'ers:5,1,5'}]").starts_with("f:8: pools.0.scheme: "));
  CHECK(line_error("pools: [{scheme: 'srs:5,1,4'}]").starts_with("f:8: pools.0.scheme: "));
  CHECK(line_error("pools: [{scheme: raid5}]").starts_with("f:8: pools.0.scheme: "));
}

TEST_CASE("only an elastic scheme has states to choose from", "[config]") {
  CHECK(line_error("pools: [{scheme: 'rs:4,1', write_state: wide}]") ==
        "f:8: pools.0.write_state: is wide, but rs:4,1 has one state only");
  CHECK(line_error("pools: [{scheme: 'rep:2', write_state: as_before}]")
            .starts_with("f:8: pools.0.write_state: is as_before, but "));
  CHECK(line_error("pools: [{write_state: broad}]") ==
        "f:8: pools.0.write_state: is 'broad', must be narrow, wide or as_before");
}

TEST_CASE("pools must be distinct and cover all keys", "[config]") {
  CHECK(line_error("pools:\n - {scheme: 'rep:2'}\n - {prefix: a}\n - {prefix: a}") ==
        "f:11: pools.2.prefix: 'a' is the prefix of pools.1 too");
  CHECK(line_error("pools: [{prefix: a}]") ==
        "f:8: pools: one pool must have the empty prefix, for all other keys");
  CHECK(line_error("pools: []") ==
        "f:8: pools: one pool must have the empty prefix, for all other keys");
  CHECK(line_error("pools: [{prefix: 'a b'}]").starts_with("f:8: pools.0.prefix: must be"));
  CHECK(line_error("max_object_bytes: 8KiB")
            .ends_with("pools.0.inline_max_bytes: is 16384, above max_object_bytes (8192)"));
  CHECK(line_error("segment_bytes: 64MiB").starts_with("f:8: segment_bytes: is 67108864: a shard"));
  // Narrow parities are the largest shards: 32 MiB / 4, though 32 MiB / 5 would do.
  CHECK(line_error("segment_bytes: 32MiB\npools: [{prefix: '', scheme: 'ers:4,1,5'}]")
            .starts_with("f:8: segment_bytes: is 33554432: a shard"));
  CHECK(parse_config(kNodes + "segment_bytes: 28MiB\npools: [{prefix: '', scheme: 'ers:4,1,5'}]\n",
                     "f", {}));
}

TEST_CASE("addresses beyond loopback need insecure: true", "[config]") {
  for (const char* host :
       {"0.0.0.0", "10.1.2.3", "'::'", "example.org", "128.0.0.1", "'fe80::1'"}) {
    for (const char* which : {"listen", "admin"}) {
      const std::string yaml = std::string(which) + ": {host: " + host + "}";
      CHECK(line_error(yaml).starts_with("f:8: " + std::string(which) + ".host: "));
      CHECK(parse_config(kNodes + "insecure: true\n" + yaml, "f").has_value());
    }
    CHECK(error_of(kNodes, {std::string("nodes.0.host=") + host}).find("nodes.0.host: ") !=
          std::string::npos);
  }
  for (const char* host : {"127.0.0.1", "127.9.9.9", "localhost", "'::1'"}) {
    CHECK(parse_config(kNodes + "listen: {host: " + host + "}", "f").has_value());
  }
}

TEST_CASE("timings and budgets that defeat each other are refused", "[config]") {
  CHECK(line_error("timing: {lease_ms: 1000}").starts_with("f:8: timing.lease_ms: is 1000, must"));
  CHECK(line_error("timing:\n  suspect_after_ms: 100")
            .starts_with("f:9: timing.suspect_after_ms: is 100, must be above heartbeat_ms"));
  CHECK(line_error("timing: {tombstone_keep_ms: 9999}")
            .starts_with("f:8: timing.tombstone_keep_ms: is 9999, must be at least 2000 above "
                         "request_timeout_ms (8000): "));
  CHECK(parse_config(kNodes + "timing: {tombstone_keep_ms: 10000}", "f").has_value());
  CHECK(line_error("timing: {suspect_after_ms: 199}")
            .starts_with("f:8: timing.suspect_after_ms: is 199, must be at least twice "
                         "heartbeat_ms (100): "));
  CHECK(line_error("timing: {heartbeat_ms: 100, suspect_after_ms: 250, lease_ms: 299}")
            .starts_with("f:8: timing.lease_ms: is 299, must be at least three times "
                         "heartbeat_ms (100): "));
  CHECK(line_error("timing: {request_timeout_ms: 100}")
            .starts_with("f:8: timing.hedge_after_ms: is 100, must be below request_timeout_ms "
                         "(100): "));
  CHECK(line_error("timing:\n  upload_idle_ms: 600")
            .starts_with("f:9: timing.upload_idle_ms: is 600: three times as long must be above "
                         "2000, which one shard may take at a request_timeout_ms of 8000: "));
  CHECK(parse_config(kNodes + "timing: {upload_idle_ms: 700}", "f").has_value());
  CHECK(parse_config(kNodes + "timing: {upload_idle_ms: 600, request_timeout_ms: 4000}", "f"));
  CHECK(line_error("timing: {profile: fast}") ==
        "f:8: timing.profile: is 'fast', must be standard or local");
  CHECK(line_error("segment_bytes: 4KiB")
            .ends_with("is 1073741824, more than 16384 segments of segment_bytes (4096)"));
  CHECK(line_error("limits: {staged_bytes: 2MiB}")
            .ends_with("limits.staged_bytes: is 2097152, below segment_bytes (4194304)"));
  CHECK(line_error("limits: {read_bytes: 2MiB}")
            .ends_with("limits.read_bytes: is 2097152, below segment_bytes (4194304)"));
}

TEST_CASE("maps that no frame could take are refused", "[config]") {
  const auto with = [](int partitions, const char* scheme) {
    std::string yaml = "partitions: " + std::to_string(partitions) + "\npools: [{scheme: '" +
                       scheme + "'}]\nnodes:\n";
    for (int i = 0; i < 9; ++i) {
      yaml += fmt::format("  - {{name: n{}, host: localhost, port: {}}}\n", i, i + 1);
    }
    return yaml;
  };
  CHECK(error_of(with(65536, "rs:1,8"))
            .starts_with("f:1: partitions: is 65536, too many for pools of m = 8: "));
  CHECK(error_of(with(65536, "rs:3,6")).starts_with("f:1: partitions: is 65536, too many"));
  CHECK(parse_config(with(65536, "rs:4,5"), "f").has_value());
  CHECK(parse_config(with(32768, "rs:1,8"), "f").has_value());
}

TEST_CASE("errors in overrides name the flag", "[config]") {
  CHECK(error_of(kNodes, {"partitions=7"}) ==
        "--set partitions=7: partitions: is 7, must be a power of two");
  CHECK(error_of(kNodes, {"timing={lease_ms: 50}"})
            .starts_with("--set timing={lease_ms: 50}: timing.lease_ms: is 50"));
  CHECK(error_of(kNodes, {"colour=red"}) == "--set colour=red: colour: is no known setting");
  CHECK(error_of(kNodes, {"nosuch.key=1"}) == "--set nosuch.key=1: nosuch: is no known setting");
  CHECK(error_of(kNodes, {"timing.nosuch.key=1"}) ==
        "--set timing.nosuch.key=1: timing.nosuch: is no known setting");
  CHECK(error_of(kNodes + "colour: red\n", {"partitions=8"}) == "f:8: colour: is no known setting");
  CHECK(error_of(kNodes, {"partitions"}) == "--set partitions: must be PATH=VALUE");
  CHECK(error_of(kNodes, {"=5"}) == "--set =5: must be PATH=VALUE");
  CHECK(error_of(kNodes, {"a..b=5"}) == "--set a..b=5: the path has an empty part");
  CHECK(error_of(kNodes, {"nodes.7.port=5"}) ==
        "--set nodes.7.port=5: '7' is no index into a list of 6");
  CHECK(error_of(kNodes, {"nodes.x=5"}) == "--set nodes.x=5: 'x' is no index into a list of 6");
  CHECK(error_of(kNodes, {"nodes.0.port.x=5"}) == "--set nodes.0.port.x=5: 'x' is below a value");
  CHECK(error_of(kNodes, {"pools=["}).starts_with("--set pools=[:"));
  CHECK(error_of(kNodes, {"nodes.1.name=n1"}) ==
        "--set nodes.1.name=n1: nodes.1.name: n1 is the name of nodes.0 too");
}

TEST_CASE("a file that is not there is an error", "[config]") {
  const Result<Config> config = load_config("/nonexistent/elastripe.yaml");
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error().code == ErrorCode::kNotFound);
}

TEST_CASE("a directory in the file's place is an error", "[config]") {
  const Result<Config> config = load_config("/");
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error().message == "/: is a directory, must be a file");
}

TEST_CASE("any change to a good file gives a configuration or one line of error", "[config]") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::string good = kNodes + "pools: [{prefix: '', scheme: 'rep:2'}]\ntiming: {}\n";
  const std::string alphabet = "[]{}:,-? \n'\"&*!|>%@#~01az";
  for (int round = 0; round < 2000; ++round) {
    std::string yaml = good;
    for (size_t i = 1 + random() % 4; i > 0; --i) {
      const char c = alphabet[random() % alphabet.size()];
      const size_t at = random() % yaml.size();
      if (random() % 2 == 0) {
        yaml[at] = c;
      } else {
        yaml.insert(at, 1, c);
      }
    }
    const Result<Config> config = parse_config(yaml, "f");
    CAPTURE(yaml);
    if (config) {
      REQUIRE(parse_config(print_config(*config), "printed") == *config);
    } else {
      REQUIRE(config.error().message.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("what is wrong about etcd is told", "[config]") {
  const auto of_etcd = [&](const std::string& etcd) { return error_of(kNodes + "etcd: " + etcd); };
  const std::string here = "endpoints: 'http://127.0.0.1:2379'";
  CHECK(parse_config(kNodes + "etcd: {" + here + "}", "f"));
  CHECK(
      parse_config(kNodes + "etcd: {endpoints: 'https://10.0.0.1:2379,https://[::1]:2379'}", "f"));
  for (const char* url :
       {"127.0.0.1:2379", "ftp://h:1", "http://", "http://h", "http://h:0", "http://h:1/v3",
        "http://h:1,,http://h:2", "http://h:1 ", "http://us er@h:1", "https://:2379"}) {
    INFO(url);
    CHECK_THAT(of_etcd(fmt::format("{{endpoints: '{}'}}", url)),
               Catch::Matchers::Contains("etcd.endpoints: has '"));
  }
  CHECK_THAT(of_etcd("{endpoints: 'http://10.0.0.1:2379'}"),
             Catch::Matchers::Contains("etcd.endpoints: http://10.0.0.1:2379 is on another "
                                       "machine, in clear: use https"));
  CHECK(parse_config(kNodes + "insecure: true\netcd: {endpoints: 'http://10.0.0.1:2379'}", "f"));
  CHECK_THAT(of_etcd("{" + here + ", user: stripes}"),
             Catch::Matchers::Contains("etcd.user: and password_file are set together"));
  CHECK_THAT(of_etcd("{" + here + ", key: a.key}"),
             Catch::Matchers::Contains("etcd.certificate: and key are set together"));
  CHECK_THAT(of_etcd("{" + here + ", prefix: 'a b'}"),
             Catch::Matchers::Contains("etcd.prefix: must be printable"));
  CHECK_THAT(of_etcd("{" + here + ", ttl_ms: 100}"), Catch::Matchers::Contains("etcd.ttl_ms"));
}

TEST_CASE("with etcd no node need be listed, and the prefix is by the cluster", "[config]") {
  const auto config = parse_config("cluster: one\netcd: {endpoints: 'http://127.0.0.1:2379'}", "f");
  REQUIRE(config);
  CHECK(config->joins);
  CHECK(etcd_prefix(*config) == "/elastripe/one/");
  CHECK(*parse_config(print_config(*config), "printed.yaml") == *config);
  Config named = *config;
  named.etcd.prefix = "/ours";
  CHECK(etcd_prefix(named) == "/ours/");
}
