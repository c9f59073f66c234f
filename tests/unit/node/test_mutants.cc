// In builds with ELASTRIPE_MUTANTS: every rule violation of the node shows when it is switched on.
#include "server-patches/node/format/mutant.h"
#include "tests/unit/node/node_fixture.h"

#ifdef ELASTRIPE_MUTANTS

namespace elastripe::node::test {
namespace {

class Switched {
 public:
  explicit Switched(Mutant which) { active_mutant = which; }
  ~Switched() { active_mutant = Mutant::kNone; }
};

std::string tail_read_in(const std::function<void(Partition&)>& change) {
  TestNode node({0, 1, 2});
  ClusterMap next = make_map(2, {0, 1, 2});
  for (Partition& partition : next.partitions) change(partition);
  node.install(next);
  node.grant();
  return status(node.read("key", Role::kTail));
}

}  // namespace

TEST_CASE("a node that ignores epochs, incarnations or its lease serves what it must not") {
  TestNode node({0, 1, 2});
  const auto read = [&](const std::function<void(RequestHeader&)>& change) {
    return status(node.send(Opcode::kRecordRead,
                            encoded(RecordReadRequest{.role = Role::kAny, .key = "key"}), {},
                            change));
  };
  {
    const Switched on(Mutant::kIgnoreEpoch);
    REQUIRE(read([](auto& h) { h.epoch.number = 9; }) == "NOT_FOUND");
  }
  {
    ClusterMap next = make_map(2, {0, 1, 2});
    next.nodes[0].incarnation = 5;  // of its predecessor
    node.install(next);
    node.grant();
    REQUIRE(read([](auto& h) { h.incarnation = 5; }) == "STALE_EPOCH");
    const Switched on(Mutant::kIgnoreIncarnation);
    REQUIRE(read([](auto& h) { h.incarnation = 5; }) == "NOT_FOUND");
  }
  node.install(make_map(3, {0, 1, 2}));
  REQUIRE(read({}) == "NO_LEASE");
  const Switched on(Mutant::kIgnoreLease);
  REQUIRE(read({}) == "NOT_FOUND");
}

TEST_CASE("a node that answers what it does not know calls it a miss") {
  const auto unsync = [](Partition& p) { p.synced = false; };
  const auto lose = [](Partition& p) { p.synced = false, p.lost = true; };
  REQUIRE(tail_read_in(unsync) == "NOT_SYNCED");
  REQUIRE(tail_read_in(lose) == "LOST");
  {
    const Switched on(Mutant::kAnswerUnsynced);
    REQUIRE(tail_read_in(unsync) == "NOT_FOUND");
  }
  const Switched on(Mutant::kLostIsMiss);
  REQUIRE(tail_read_in(lose) == "NOT_FOUND");
}

TEST_CASE("a head without its checks commits what it must refuse") {
  TestNode node;
  node.set("key", "v");
  node.apply(node.request("key", Mutation::kFence));
  auto request = node.request("key", Mutation::kSet);
  request.base_version = 1;
  {
    const Switched on(Mutant::kIgnoreFence);
    REQUIRE(status(node.apply(request, inline_content("late"))) == "OK");
  }
  request = node.request("key", Mutation::kSet);
  request.condition = Condition::kIfVersion;
  {
    const Switched on(Mutant::kBlindHead);
    REQUIRE(status(node.apply(request, inline_content("blind"))) == "OK");
  }
  const Switched on(Mutant::kDeleteForgets);
  REQUIRE(status(node.apply(node.request("key", Mutation::kDelete))) == "OK");
  REQUIRE(status(node.read("key")) == "NOT_FOUND");
}

TEST_CASE("a home that stores any version goes back in time") {
  TestNode node({0, 1, 2});
  node.store_record("key", make_record(10, "new"));
  const Switched on(Mutant::kStoreAnyVersion);
  node.store_record("key", make_record(9, "old"));
  REQUIRE(record_of(node.read("key")).content.value == "old");
}

}  // namespace elastripe::node::test

#endif  // ELASTRIPE_MUTANTS
