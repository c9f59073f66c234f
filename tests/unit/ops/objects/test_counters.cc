// Each of the OpsCounters counts what it says, once.
#include <catch2/catch.hpp>

#include "proxy/ops/records/commit.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe::records;
using namespace elastripe::objects;

namespace elastripe {
namespace {

using namespace std::chrono_literals;

const std::string kBig(3000, 'b');  // one segment

struct Serving : ClusterFixture {
  explicit Serving(size_t nodes = 6, const std::string& scheme = "rs:2,1")
      : ClusterFixture(nodes, scheme), proxy(add_decider()) {
    REQUIRE(run_until([&] { return serves_whole(proxy); }));
  }
  const OpsCounters counters() const { return proxy.counters(); }
  // Another proxy, under the map of the first.
  sim::SimProxy& add_follower() {
    sim::SimProxy& follower = add_proxy();
    follower.map().serve(proxy.map().current());
    return follower;
  }
  void kill_and_settle(size_t id) {
    const uint32_t before = proxy.map().current()->epoch.number;
    node(id).kill(/*silent=*/false);
    REQUIRE(run_until(
        [&] { return serves_whole(proxy) && proxy.map().current()->epoch.number > before; }));
  }
  Result<StoreOutcome> append(const std::string& key, const std::string& value) {
    StoreRequest request;
    request.verb = StoreVerb::kAppend;
    request.key = key;
    return run(store_value(proxy.ops(), request, value, deadline()));
  }
  // The PUT of another proxy, beside what runs.
  void put_beside(sim::SimProxy& other, std::string_view key, const std::string& value) {
    StoreRequest request;
    request.key = key;
    beside.spawn(forget(store_value(other.ops(), request, value, deadline())));
  }

  sim::SimProxy& proxy;
  Scope beside;

 private:
  static Task<void> forget(Task<Result<StoreOutcome>> flow) { co_await std::move(flow); }
};

TEST_CASE("a degraded read is counted for each object that is read through missing shards") {
  Serving s;
  const std::string value(1500, 'v');
  REQUIRE(s.put(s.proxy, "k", value));
  REQUIRE(s.get(s.proxy, "k") == value);
  REQUIRE(s.counters().degraded_reads == 0);
  const auto report = s.run(inspect_object(s.proxy.ops(), "k", s.deadline()));
  s.kill_and_settle(report->record->content.segments[0].placement[0]);
  REQUIRE(s.get(s.proxy, "k") == value);
  REQUIRE(s.counters().degraded_reads == 1);
  // An append reads too what is not longer than it adds by far, and writes it again.
  const std::string more(1000, 'm');
  REQUIRE(s.append("k", more) == StoreStatus::kStored);
  REQUIRE(s.counters().degraded_reads == 2);
  REQUIRE(s.get(s.proxy, "k") == value + more);
  REQUIRE(s.counters().degraded_reads == 2);
}

TEST_CASE("a degraded write is counted once for each object, striped or inline") {
  Serving s(3);
  REQUIRE(s.put(s.proxy, "soft:whole", kBig));
  REQUIRE(s.counters().degraded_writes == 0);
  s.kill_and_settle(0);
  REQUIRE(s.put(s.proxy, "soft:large", std::string(9000, 'l')));  // three segments
  REQUIRE(s.counters().degraded_writes == 1);
  REQUIRE(s.put(s.proxy, "soft:small", "both homes are up"));
  REQUIRE(s.counters().degraded_writes == 1);
  s.kill_and_settle(1);
  REQUIRE(s.put(s.proxy, "soft:small", "one home is up"));
  REQUIRE(s.counters().degraded_writes == 2);
  REQUIRE_FALSE(s.put(s.proxy, "soft:large", kBig));
  REQUIRE(s.counters().degraded_writes == 2);
}

TEST_CASE("an operation whose outcome is unknown is counted once") {
  Serving s;
  s.network().set_delay_rule(
      [](int, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode == node::Opcode::kRecordApply) return Duration(1h);
        return std::nullopt;
      });
  const auto removed = s.run(remove_object(s.proxy.ops(), "k", s.deadline()));
  REQUIRE_FALSE(removed.has_value());
  REQUIRE(removed.error().code == ErrorCode::kUnknownOutcome);
  // The reply to the client says it already.
  REQUIRE(removed.error().message.find("outcome unknown") == std::string::npos);
  REQUIRE(s.counters().unknown_outcomes == 1);
}

TEST_CASE("an append that another writer overtakes is a conflict") {
  Serving s;
  REQUIRE(s.put(s.proxy, "k", kBig));
  sim::SimProxy& other = s.add_follower();
  // The proxy that appends is delayed: its first APPLY is refused, as the object is striped; the
  // second commits what was read and is overtaken.
  int applies = 0;
  s.network().set_delay_rule(
      [&](int proxy, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (proxy != 0 || header.opcode != node::Opcode::kRecordApply || ++applies != 2) {
          return std::nullopt;
        }
        s.events().after(Duration::zero(), [&] { s.put_beside(other, "k", kBig + "other"); });
        return Duration(500ms);
      });
  REQUIRE(s.append("k", "mine") == StoreStatus::kStored);
  REQUIRE(s.counters().commit_conflicts == 1);
  REQUIRE(s.get(s.proxy, "k") == kBig + "othermine");
}

TEST_CASE("a PUT that a fence makes start again is a conflict") {
  Serving s;
  REQUIRE(s.put(s.proxy, "k", kBig));
  sim::SimProxy& other = s.add_follower();
  Commit fence;
  fence.key = "k";
  fence.condition = node::Condition::kIfPresent;
  fence.mutation = node::Mutation::kFence;
  const auto fenced = s.run(commit_record(other.ops(), fence, s.deadline()));
  REQUIRE(fenced.has_value());
  REQUIRE(fenced->status == CommitStatus::kCommitted);
  REQUIRE(s.put(s.proxy, "k", kBig + "new"));
  REQUIRE(s.counters().commit_conflicts == 1);
  REQUIRE(s.put(s.proxy, "k", kBig + "newer"));
  REQUIRE(s.counters().commit_conflicts == 1);
}

TEST_CASE("synced partitions are counted") {
  Serving s;
  REQUIRE(s.counters().partition_syncs == 0);
  s.kill_and_settle(2);
  REQUIRE(s.counters().partition_syncs > 0);
}

TEST_CASE("what reclaim fences and collects is counted") {
  Serving s;
  sim::SimProxy& other = s.add_follower();
  s.network().set_delay_rule(
      [](int proxy, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (proxy == 1 && header.opcode == node::Opcode::kRecordApply) return Duration(1h);
        return std::nullopt;
      });
  s.put_beside(other, "abandoned", kBig);
  REQUIRE(s.run_until([&] { return s.shards() == 3; }));
  other.kill();
  REQUIRE(s.run_until([&] { return s.counters().reclaimed_shards == 3; }, 5min));
  REQUIRE(s.counters().fences == 1);
  REQUIRE(s.run_until([&] { return s.shards() == 0; }));

  REQUIRE(s.put(s.proxy, "deleted", "value"));
  REQUIRE(s.run(remove_object(s.proxy.ops(), "deleted", s.deadline())) == true);
  REQUIRE(s.run_until([&] { return s.counters().reclaimed_records >= 1; }, 5min));
}

}  // namespace
}  // namespace elastripe
