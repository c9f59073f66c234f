// What a proxy that runs takes of a configuration that is read again.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/main/config.h"

using namespace elastripe;
using namespace std::chrono_literals;

namespace {

using Texts = std::vector<std::string>;

const std::string kNodes =
    "nodes:\n"
    "  - {name: n1, host: 127.0.0.1, port: 11401}\n"
    "  - {name: n2, host: 127.0.0.1, port: 11402}\n"
    "  - {name: n3, host: 127.0.0.1, port: 11403}\n"
    "  - {name: n4, host: 127.0.0.1, port: 11404}\n"
    "  - {name: n5, host: 127.0.0.1, port: 11405}\n"
    "  - {name: n6, host: 127.0.0.1, port: 11406}\n";

Config parse(const std::vector<std::string>& overrides = {}) {
  const Result<Config> config = parse_config(kNodes, "test.yaml", overrides);
  if (!config) FAIL(config.error().message);
  return *config;
}

ConfigChange change(const Config& running, const Config& wanted) {
  Result<ConfigChange> change = change_config(running, wanted);
  if (!change) FAIL(change.error().message);
  return *change;
}

Config with_pools(const std::string& pools) { return parse({"pools=[" + pools + "]"}); }

const std::string kDefaultPool = "{prefix: '', scheme: 'ers:3,2,4'}";

// The one thing that needs a restart, where nothing is taken.
std::string obstacle(const Config& running, const Config& wanted) {
  const ConfigChange done = change(running, wanted);
  CHECK(done.config == running);
  CHECK(done.taken.empty());
  REQUIRE(done.need_restart.size() == 1);
  return done.need_restart.front();
}

}  // namespace

TEST_CASE("a configuration that says the same changes nothing", "[config]") {
  const ConfigChange done = change(parse(), parse());
  CHECK(done.config == parse());
  CHECK(done.taken.empty());
  CHECK(done.need_restart.empty());
}

TEST_CASE("what can change is taken, and what can not is named", "[config]") {
  const Config wanted =
      parse({"limits.connections=10", "max_object_bytes=2MiB", "timing.request_timeout_ms=4000",
             "timing.upload_idle_ms=20000", "repair.automatic=false", "flush_all=refuse",
             "log_level=debug", "threads=3", "timing.lease_ms=4000", "admin.port=1",
             "listeners=[{port: 12}]", "tls.ca=other.pem"});
  const ConfigChange done = change(parse(), wanted);
  CHECK(done.taken == Texts{"log_level=debug", "tls.ca=\"other.pem\"", "max_object_bytes=2MiB",
                            "timing.upload_idle_ms=20000", "timing.request_timeout_ms=4000",
                            "repair.automatic=false", "flush_all=refuse", "limits.connections=10"});
  CHECK(done.need_restart == Texts{"threads", "admin.port", "timing.lease_ms", "listeners"});
  Config expected = wanted;
  expected.threads = parse().threads;
  expected.admin = parse().admin;
  expected.decider = parse().decider;
  expected.listeners.clear();
  CHECK(done.config == expected);  // what follows from others, too
  CHECK(done.config.ops.node_timeout == 1s);
  CHECK(done.config.sessions.stall_timeout == 20s);
}

TEST_CASE("what only the command line says stays", "[config]") {
  Config running = parse();
  running.decider.force_epoch = true;
  CHECK(change(running, parse({"limits.connections=10"})).config.decider.force_epoch);
}

TEST_CASE("a profile is taken as far as its times are", "[config]") {
  const ConfigChange done = change(parse(), parse({"timing.profile=local"}));
  CHECK(done.taken == Texts{"timing.hedge_after_ms=50"});
  CHECK(done.need_restart == Texts{"timing.profile", "timing.heartbeat_ms",
                                   "timing.suspect_after_ms", "timing.lease_ms"});
  CHECK(done.config.decider == parse().decider);
}

TEST_CASE("what does not fit what stays is refused", "[config]") {
  const auto refused =
      change_config(parse(), parse({"segment_bytes=1MiB", "limits.staged_bytes=1MiB"}));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "together with what needs a restart: limits.staged_bytes: is 1048576, below segment_bytes "
        "(4194304)");
}

TEST_CASE("pools come, go and get other schemes", "[config]") {
  const Config running = with_pools(kDefaultPool);
  const Config wanted = with_pools(
      "{prefix: '', scheme: 'rs:4,2', inline_max_bytes: 0}, {prefix: b, scheme: 'rep:3', updates: "
      "off}");
  const ConfigChange done = change(running, wanted);
  CHECK(done.taken == Texts{"pools"});
  CHECK(done.need_restart.empty());
  CHECK(done.config == wanted);
  CHECK(change(wanted, running).config == running);
}

TEST_CASE("pools that survive less go back to what they were", "[config]") {
  const Config running = with_pools(kDefaultPool);
  const Config less = change(running, with_pools("{prefix: '', scheme: 'rep:2'}")).config;
  CHECK(less.max_parities == 2);  // records have as many copies as before
  CHECK(change(less, running).config == running);
}

TEST_CASE("no pool survives more crashes than records do", "[config]") {
  const Config running = with_pools(kDefaultPool);
  CHECK(obstacle(running, with_pools(kDefaultPool + ", {prefix: a, scheme: 'rep:4'}")) ==
        "pools (rep:4 wants 4 copies of each record, and nodes keep 3)");
}

TEST_CASE("updates stay where they are logged", "[config]") {
  const Config running = with_pools(kDefaultPool);
  CHECK(obstacle(running, with_pools("{prefix: '', scheme: 'ers:3,2,4', log_copies: two}")) ==
        "pools (updates of keys with the prefix '' may lie where they were logged before)");
  // Keys would get into another pool.
  const Config two = with_pools(kDefaultPool + ", {prefix: a, scheme: 'rep:3', log_copies: two}");
  CHECK(obstacle(running, two) ==
        "pools (updates of keys with the prefix 'a' may lie where they were logged before)");
  CHECK(obstacle(two, running) ==
        "pools (updates of keys with the prefix 'a' may lie where they were logged before)");
  CHECK(change(two, with_pools(kDefaultPool + ", {prefix: a, scheme: 'rep:2', log_copies: two}"))
            .need_restart.empty());
}

TEST_CASE("methods that update shards in place need a restart", "[config]") {
  const auto in_place = [](const std::string& method) {
    return parse({"experimental=true",
                  "pools=[{prefix: '', scheme: 'ers:3,2,4', updates: " + method + "}]"});
  };
  CHECK(obstacle(in_place("home"), in_place("pl")).starts_with("pools (updates of keys"));
  CHECK(obstacle(in_place("pl"), in_place("off")).starts_with("pools (updates of keys"));
  CHECK(change(in_place("off"), in_place("home")).taken == Texts{"pools"});
}

TEST_CASE("pools are checked against the nodes that are listed now", "[config]") {
  const Config running = with_pools(kDefaultPool);
  const Config more = parse({"nodes.6={name: n7, host: 127.0.0.1, port: 11407}",
                             "pools=[{prefix: '', scheme: 'ers:4,2,5'}]"});
  const ConfigChange done = change(running, more);
  CHECK(done.taken == Texts{"pools"});
  CHECK(done.need_restart == Texts{"nodes (members change by `elastripe node`)"});
  CHECK(done.config.nodes == running.nodes);
}
