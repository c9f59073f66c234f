// What a node knows: synced, not synced, LOST; tenure and floors; rules 3 and 9.
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

using Change = std::function<void(Partition&)>;

void install_changed(TestNode& node, uint32_t number, std::vector<NodeId> homes,
                     const Change& change) {
  ClusterMap next = make_map(number, std::move(homes));
  for (Partition& partition : next.partitions) change(partition);
  node.install(std::move(next));
  node.grant();
}

void unsync(Partition& partition) {
  partition.synced = false;
  partition.sources = {{0, 1}};
}
void lose(Partition& partition) {
  partition.synced = false;
  partition.lost = true;
  partition.sources = {{0}, {}};
}

// Two keys of one partition.
std::pair<std::string, std::string> siblings(const TestNode& node) {
  for (int i = 1;; ++i) {
    if (std::string other = "key" + std::to_string(i);
        node.partition(other) == node.partition("key")) {
      return {"key", other};
    }
  }
}

}  // namespace

TEST_CASE("a home that is not synced says so instead of a miss") {
  TestNode node({0, 1, 2});
  node.store_record("key", make_record(10, "v"));
  install_changed(node, 2, {0, 1, 2}, unsync);
  REQUIRE(status(node.read("key", Role::kTail)) == "NOT_SYNCED");
  REQUIRE(status(node.read("none", Role::kTail)) == "NOT_SYNCED");
  REQUIRE(record_of(node.read("key", Role::kAny)).content.value == "v");
  REQUIRE(status(node.store_record("key", make_record(11, "w"))) == "OK");
  REQUIRE(node.hello().synced == std::vector<uint8_t>{0, 0});
}

TEST_CASE("a key that is marked synced is answered, its siblings are not") {
  TestNode node({0, 1, 2});
  const auto [key, sibling] = siblings(node);
  install_changed(node, 2, {0, 1, 2}, unsync);
  REQUIRE(status(node.mark_synced(key, false, 30)) == "OK");
  const Reply missing = node.read(key, Role::kTail);
  REQUIRE(status(missing) == "NOT_FOUND");
  REQUIRE(args_of<RecordReadReply>(missing).floor == 30);
  REQUIRE(status(node.read(sibling, Role::kTail)) == "NOT_SYNCED");
  REQUIRE(status(node.mark_synced(key, true)) == "OK");
  REQUIRE(status(node.read(sibling, Role::kTail)) == "NOT_FOUND");
  SECTION("until the next epoch") {
    install_changed(node, 3, {0, 1, 2}, unsync);
    REQUIRE(status(node.read(key, Role::kTail)) == "NOT_SYNCED");
  }
}

TEST_CASE("a head that is not synced does not apply") {
  TestNode node({1, 2, 0});
  install_changed(node, 2, {1, 2, 0}, unsync);
  REQUIRE(status(node.set("key", "v")) == "NOT_SYNCED");
  node.mark_synced("key", false);
  REQUIRE(status(node.set("key", "v")) == "OK");
}

TEST_CASE("a mark names a partition of the map and a key of that partition") {
  TestNode node({0, 1, 2});
  const auto mark = [&](uint32_t partition, const std::string& key) {
    return status(node.send(Opcode::kMarkSynced, encoded(MarkSyncedRequest{partition, key, 0})));
  };
  REQUIRE(mark(kPartitions, "") == "INVALID");
  REQUIRE(mark((node.partition("key") + 1) % kPartitions, "key") == "INVALID");
  REQUIRE(status(node.send(Opcode::kRaiseFloor, encoded(RaiseFloorRequest{99, 1}))) == "INVALID");
  TestNode stranger({1, 2, 3});
  REQUIRE(status(stranger.mark_synced("key", false)) == "NOT_HOME");
  REQUIRE(status(stranger.raise_floor("key", 1)) == "NOT_HOME");
}

TEST_CASE("a LOST partition is no miss, and nothing but a blind SET revives a key") {
  TestNode node({1, 2, 0});
  const uint64_t before = meta_of(node.set("key", "stale")).version;
  install_changed(node, 2, {1, 2, 0}, lose);
  REQUIRE(status(node.read("key", Role::kHead)) == "LOST");
  REQUIRE(status(node.set("key", "v")) == "LOST");
  auto request = node.request("key", Mutation::kSet);
  request.blind = true;
  SECTION("not a conditional one") {
    request.condition = Condition::kIfAbsent;
    REQUIRE(status(node.apply(request, inline_content("v"))) == "LOST");
  }
  SECTION("not another mutation") {
    request.mutation = Mutation::kFence;
    REQUIRE(status(node.apply(request)) == "LOST");
  }
  SECTION("not a mark of the partition") {
    REQUIRE(status(node.mark_synced("key", true)) == "LOST");
    REQUIRE(status(node.set("key", "v")) == "LOST");
  }
  SECTION("a blind SET does, as if nothing had been there") {
    const RecordMeta revived = meta_of(node.apply(request, inline_content("v")));
    REQUIRE(revived.version > before);
    REQUIRE(revived.recent.size() == 1);
    REQUIRE(status(node.apply(node.request("key", Mutation::kDelete))) == "OK");
    REQUIRE(status(node.set(siblings(node).second, "v")) == "LOST");
  }
}

TEST_CASE("the store of a revived key marks it at the other homes") {
  TestNode node({0, 1, 2});
  install_changed(node, 2, {0, 1, 2}, lose);
  REQUIRE(status(node.read("key", Role::kTail)) == "LOST");
  node.store_record("key", make_record(10, "plain"));
  REQUIRE(status(node.read("key", Role::kTail)) == "LOST");
  node.store_record("key", make_record(11, "revived"), false, true);
  REQUIRE(record_of(node.read("key", Role::kTail)).content.value == "revived");
  SECTION("in LOST partitions only") {
    install_changed(node, 3, {0, 1, 2}, unsync);
    node.store_record("key", make_record(12, "revived"), false, true);
    REQUIRE(status(node.read("key", Role::kTail)) == "NOT_SYNCED");
  }
}

TEST_CASE("a node keeps what it has while it is a synced home or a source") {
  TestNode node({0, 1, 2});
  node.store_record("key", make_record(10, "v"));
  node.raise_floor("key", 5);
  SECTION("carried over") {
    install_changed(node, 2, {0, 2, 3}, [](Partition&) {});
  }
  SECTION("a home and a source") { install_changed(node, 2, {0, 2, 3}, unsync); }
  SECTION("a source and no home") { install_changed(node, 2, {1, 2, 3}, unsync); }
  const Reply reply = node.read("key");
  REQUIRE(record_of(reply).content.value == "v");
  REQUIRE(args_of<RecordReadReply>(reply).floor == 5);
}

TEST_CASE("a node forgets what it is neither synced home nor source of") {
  TestNode node({0, 1, 2});
  const uint64_t used = node.store.memory().used_bytes;
  node.store_record("key", make_record(10, "stale"));
  node.raise_floor("key", 5);
  if (GENERATE(true, false)) {  // a home that must sync anew
    install_changed(node, 2, {0, 1, 2}, [](Partition& p) {
      p.synced = false;
      p.sources = {{1, 2}};
    });
  } else {  // no home for an epoch
    install_changed(node, 2, {1, 2, 3}, [](Partition&) {});
    install_changed(node, 3, {0, 1, 2}, [](Partition&) {});
  }
  const Reply reply = node.read("key");
  REQUIRE(status(reply) == "NOT_FOUND");
  REQUIRE(args_of<RecordReadReply>(reply).floor == 0);
  std::vector<uint8_t> all(kPartitions / 8, 0xff);
  const RecordScanRequest scan{.max_bytes = 1000, .partitions = all};
  REQUIRE(args_of<RecordScanReply>(node.send(Opcode::kRecordScan, encoded(scan))).records.empty());
  SECTION("a lower version may be stored in its place") {
    REQUIRE(status(node.store_record("key", make_record(3, "new"), true)) == "OK");
    REQUIRE(record_of(node.read("key")).content.value == "new");
    for (int i = 0; i < 10; ++i) node.engine.tick();
    REQUIRE(record_of(node.read("key")).content.value == "new");
    REQUIRE(node.stat("records") == 1);
  }
  SECTION("ticks give the memory back, once the partition is synced") {
    node.mark_synced("key", true);
    for (int i = 0; i < 10; ++i) node.engine.tick();
    REQUIRE(node.store.memory().used_bytes == used);
    REQUIRE(node.stat("records") == 0);
    REQUIRE(node.stat("record_bytes") == 0);
    REQUIRE(node.stat("records_forgotten") == 1);
  }
}

TEST_CASE("a source that is no home forgets once the homes are synced") {
  TestNode node({0, 1, 2});
  node.store_record("key", make_record(10, "v"));
  install_changed(node, 2, {1, 2, 3}, unsync);
  REQUIRE(status(node.read("key")) == "OK");
  REQUIRE(status(node.mark_synced("key", true)) == "OK");
  REQUIRE(status(node.read("key")) == "NOT_SYNCED");  // what is missing there tells nothing
  REQUIRE(status(node.mark_synced("key", true)) == "OK");
}

namespace {

const auto from_others = [](Partition& p) {
  p.synced = false;
  p.sources = {{1, 2}};
};

// Home of a partition that the others are sources of, which has been synced by half or as a whole.
struct HalfSynced : TestNode {
  explicit HalfSynced(bool as_a_whole) : TestNode({1, 2, 3}) {
    replace(2, {0, 1, 2}, from_others);
    store_record("key", make_record(10, "value"), /*sync=*/true);
    mark_synced("key", as_a_whole, /*floor=*/7);
  }
  // By a decider that built upon the map that the node has, and knows of no sync.
  void replace(uint32_t number, std::vector<NodeId> homes,
               const std::function<void(Partition&)>& change) {
    install(next_map(number, std::move(homes), map.epoch, change));
    grant();
  }
  static ClusterMap next_map(uint32_t number, std::vector<NodeId> homes, Epoch base,
                             const std::function<void(Partition&)>& change) {
    ClusterMap next = make_map(number, std::move(homes));
    next.base = base;
    for (Partition& partition : next.partitions) change(partition);
    return next;
  }
};

}  // namespace

TEST_CASE("a home stays synced under a map that was made before it was") {
  HalfSynced node(/*as_a_whole=*/true);
  SECTION("at once") { node.replace(3, {0, 1, 2}, from_others); }
  SECTION("once more") {
    node.replace(3, {0, 1, 2}, from_others);
    node.replace(4, {0, 1, 2}, from_others);
  }
  REQUIRE(record_of(node.read("key", Role::kTail)).content.value == "value");
  REQUIRE(args_of<RecordReadReply>(node.read("key")).floor == 7);
  REQUIRE(node.hello().synced != std::vector<uint8_t>(node.hello().synced.size(), 0));
}

TEST_CASE("a home that stays one keeps what it has, synced or not") {
  HalfSynced node(/*as_a_whole=*/GENERATE(true, false));
  SECTION("beside a new one") { node.replace(3, {0, 1, 3}, from_others); }
  SECTION("without one") { node.replace(3, {0, 1}, from_others); }
  SECTION("on another place") { node.replace(3, {0, 2, 1}, from_others); }
  SECTION("beside one that has started again") {
    ClusterMap next = HalfSynced::next_map(3, {0, 1, 2}, node.map.epoch, from_others);
    ++next.nodes[2].incarnation;
    node.install(next);
    node.grant();
  }
  REQUIRE(status(node.read("key", Role::kTail)) == "NOT_SYNCED");
  REQUIRE(record_of(node.read("key")).content.value == "value");
}

TEST_CASE("a home that may have missed a map, or a loss, forgets") {
  HalfSynced node(/*as_a_whole=*/true);
  SECTION("a map between") {
    Epoch base = node.map.epoch;
    ++base.number;
    node.install(HalfSynced::next_map(4, {0, 1, 2}, base, from_others));
  }
  SECTION("a rival's map") {
    Epoch base = node.map.epoch;
    ++base.decider;
    node.install(HalfSynced::next_map(3, {0, 1, 2}, base, from_others));
  }
  SECTION("a loss") {
    node.replace(3, {0, 1, 2}, [](Partition& p) {
      p.synced = false;
      p.lost = true;
    });
  }
  SECTION("a loss that was accepted") {
    const auto lose = [](Partition& p) {
      p.synced = false;
      p.lost = true;
    };
    node.replace(3, {0, 1, 2}, lose);
    node.store_record("key", make_record(11, "revived"), false, true);
    node.replace(4, {0, 1, 2}, from_others);
  }
  node.grant();
  REQUIRE(status(node.read("key")) == "NOT_FOUND");
}

TEST_CASE("forgetting keeps up with a large table, and rests when all is forgotten") {
  TestNode node({1, 2, 0}, {.buckets = 500'000});
  for (int i = 0; i < 100; ++i) node.set("key" + std::to_string(i), "value");
  node.install(make_map(2, {1, 2, 3}));
  for (int i = 0; i < 10; ++i) node.engine.tick();
  REQUIRE(node.stat("records_forgotten") == 100);
  int walks = 0;
  node.hooked.before_walk = [&] { ++walks; };
  for (int i = 0; i < 10; ++i) node.engine.tick();
  REQUIRE(walks == 0);
  SECTION("until there is more") {
    node.install(make_map(3, {0, 1, 2}));
    node.grant();
    REQUIRE(status(node.read("key1")) == "NOT_FOUND");
    for (int i = 0; i < 10; ++i) node.engine.tick();
    REQUIRE(walks > 0);
  }
  SECTION("a tick may be made as short as a slice") {
    TestNode slow({1, 2, 0}, {.buckets = 10, .buckets_per_walk = 1},
                  {.scan = {.walks_per_tick = 1}});
    for (int i = 0; i < 100; ++i) slow.set("key" + std::to_string(i), "value");
    slow.install(make_map(2, {1, 2, 3}));
    slow.engine.tick();
    REQUIRE(slow.stat("records_forgotten") < 100);
    // What becomes forgotten while it walks is found by another walk.
    slow.install(make_map(3, {1, 2, 3}));
    for (int i = 0; i < 20; ++i) slow.engine.tick();
    REQUIRE(slow.stat("records_forgotten") == 100);
  }
}

namespace {

// A home that was away: its copies are forgotten, and a source may have the same ones.
void come_back(TestNode& node, uint32_t number = 2) {
  install_changed(node, number, {0, 1, 2}, [](Partition& p) {
    p.synced = false;
    p.sources = {{1, 2}};
  });
}

CommitName commit_of(const Record& record) {
  return {record.meta.version, record.meta.recent.back().attempt_id};
}

bool confirm(TestNode& node, const std::string& key, const CommitName& commit) {
  const Reply reply =
      node.send(Opcode::kRecordConfirm, encoded(RecordConfirmRequest{{{key, commit}}}));
  REQUIRE(status(reply) == "OK");
  return args_of<RecordConfirmReply>(reply).held == std::vector<uint8_t>{1};
}

std::vector<ScannedVersion> versions(TestNode& node) {
  const RecordScanRequest scan{.max_bytes = 1 << 20,
                               .versions_only = true,
                               .partitions = std::vector<uint8_t>(kPartitions / 8, 0xff)};
  auto reply = args_of<RecordScanReply>(node.send(Opcode::kRecordScan, encoded(scan)));
  REQUIRE(reply.records.empty());
  return std::move(reply.versions);
}

}  // namespace

TEST_CASE("a forgotten copy becomes current again if it is the very commit that a source has") {
  TestNode node({0, 1, 2});
  const Record record = make_record(10, "v");
  node.store_record("key", record);
  come_back(node);
  REQUIRE(status(node.read("key")) == "NOT_FOUND");
  SECTION("another version is not") {
    REQUIRE_FALSE(confirm(node, "key", commit_of(make_record(11, "w"))));
    REQUIRE_FALSE(confirm(node, "key", commit_of(make_record(9, "u"))));
    REQUIRE(status(node.read("key")) == "NOT_FOUND");
  }
  SECTION("nor another commit of that version") {
    REQUIRE_FALSE(confirm(node, "key", {10, {3, 10}}));
    REQUIRE(status(node.read("key")) == "NOT_FOUND");
  }
  SECTION("this one is") {
    REQUIRE(confirm(node, "key", commit_of(record)));
    REQUIRE(record_of(node.read("key")) == record);
    REQUIRE(confirm(node, "key", commit_of(record)));
    REQUIRE(confirm(node, "key", commit_of(make_record(9, "u"))));
    REQUIRE_FALSE(confirm(node, "key", commit_of(make_record(11, "w"))));
    REQUIRE(status(node.read("key", Role::kTail)) == "NOT_SYNCED");
    for (int i = 0; i < 10; ++i) node.engine.tick();
    REQUIRE(record_of(node.read("key")) == record);
    REQUIRE(node.stat("records") == 1);
  }
  SECTION("not once the key is known to be missing") {
    node.mark_synced("key", false, 10);
    REQUIRE_FALSE(confirm(node, "key", commit_of(record)));
    REQUIRE(status(node.read("key", Role::kTail)) == "NOT_FOUND");
  }
  SECTION("not once the partition is synced without it") {
    node.mark_synced("key", true, 10);
    REQUIRE_FALSE(confirm(node, "key", commit_of(record)));
    REQUIRE(status(node.read("key", Role::kTail)) == "NOT_FOUND");
    for (int i = 0; i < 10; ++i) node.engine.tick();
    REQUIRE(node.stat("records") == 0);
  }
  SECTION("not in a LOST partition") {
    install_changed(node, 3, {0, 1, 2}, lose);
    REQUIRE_FALSE(confirm(node, "key", commit_of(record)));
    for (int i = 0; i < 10; ++i) node.engine.tick();
    REQUIRE(node.stat("records") == 0);
  }
  SECTION("by a home only") {
    install_changed(node, 3, {1, 2, 3}, unsync);
    REQUIRE(status(node.send(Opcode::kRecordConfirm,
                             encoded(RecordConfirmRequest{{{"key", commit_of(record)}}}))) ==
            "NOT_HOME");
  }
}

TEST_CASE("a confirmation needs no room") {
  const auto room_for = [](const std::string& value) {
    TestNode probe({0, 1, 2});
    probe.store_record("key", make_record(10, value));
    return probe.store.memory().used_bytes;
  };
  const std::string value(1000, 'v');
  TestNode node({0, 1, 2}, {.limit_bytes = room_for(value) + 16, .reserve_bytes = 16});
  const Record record = make_record(10, value);
  REQUIRE(status(node.store_record("key", record)) == "OK");
  come_back(node);
  REQUIRE(confirm(node, "key", commit_of(record)));
  REQUIRE(record_of(node.read("key")) == record);
  node.mark_synced("key", false);
  REQUIRE(record_of(node.read("key", Role::kTail)) == record);
}

TEST_CASE("what might be confirmed is kept, as long as there is plenty of room") {
  const bool has_room = GENERATE(true, false);
  TestNode node({0, 1, 2}, {.limit_bytes = 100'000, .reserve_bytes = 1000});
  node.store_record("key", make_record(10, "v"));
  if (!has_room) node.store_record("other", make_record(10, std::string(95'000, 'v')));
  come_back(node);
  for (int i = 0; i < 10; ++i) node.engine.tick();
  REQUIRE((node.stat("records_forgotten") == 0) == has_room);
}

TEST_CASE("a scan of versions names commits, forgotten ones where a source may have the same") {
  TestNode node({0, 1, 2});
  const Record record = make_record(10, "v");
  const Record tombstone = make_tombstone(12);
  node.store_record("key", record);
  auto listed = versions(node);
  REQUIRE(listed.size() == 1);
  REQUIRE(listed[0].key == "key");
  REQUIRE(listed[0].commit == commit_of(record));
  REQUIRE_FALSE(listed[0].forgotten);
  come_back(node);
  listed = versions(node);
  REQUIRE(listed.size() == 1);
  REQUIRE(listed[0].commit == commit_of(record));
  REQUIRE(listed[0].forgotten);
  node.store_record("key", tombstone, true);
  listed = versions(node);
  REQUIRE(listed.size() == 1);
  REQUIRE(listed[0].commit == commit_of(tombstone));
  REQUIRE_FALSE(listed[0].forgotten);
  SECTION("and none of a partition that is synced") {
    come_back(node, 3);
    node.mark_synced("key", true);
    REQUIRE(versions(node).empty());
  }
}

TEST_CASE("many records are fetched at once, as many as fit") {
  TestNode node({0, 1, 2});
  const Record record = make_record(10, std::string(1000, 'v'));
  for (const char* key : {"a", "b", "c"}) node.store_record(key, record);
  install_changed(node, 2, {1, 2, 3}, unsync);
  const auto fetch = [&](uint32_t max_bytes, std::vector<std::string> keys) {
    return node.send(Opcode::kRecordFetch, encoded(RecordFetchRequest{max_bytes, std::move(keys)}));
  };
  const auto bytes = static_cast<uint32_t>(encoded(record).size());
  const Reply all = fetch(1 << 20, {"a", "none", "c"});
  REQUIRE(args_of<RecordFetchReply>(all).sizes == std::vector<uint32_t>{bytes, 0, bytes});
  REQUIRE(payload_of(all) == encoded(record) + encoded(record));
  REQUIRE(args_of<RecordFetchReply>(fetch(2 * bytes, {"a", "b", "c"})).sizes.size() == 2);
  REQUIRE(args_of<RecordFetchReply>(fetch(1, {"none", "a", "b"})).sizes.size() == 2);
  install_changed(node, 3, {1, 2, 3}, [](Partition&) {});
  REQUIRE(status(fetch(1, {"a"})) == "NOT_HOME");
}

TEST_CASE("keys that are synced by themselves take no memory beside the store") {
  TestNode node({0, 1, 2}, {}, {.absent_keys = kPartitions});
  const auto [key, sibling] = siblings(node);
  node.store_record("here", make_record(10, "v"));
  install_changed(node, 2, {0, 1, 2}, unsync);
  node.mark_synced("here", false);
  REQUIRE(record_of(node.read("here", Role::kTail)).content.value == "v");
  // Each partition remembers one of the missing ones, in this test.
  node.mark_synced(key, false);
  REQUIRE(status(node.read(key, Role::kTail)) == "NOT_FOUND");
  SECTION("another missing one takes its place") {
    node.mark_synced(sibling, false);
    REQUIRE(status(node.read(sibling, Role::kTail)) == "NOT_FOUND");
    REQUIRE(status(node.read(key, Role::kTail)) == "NOT_SYNCED");
  }
  SECTION("but not that of one which has been written since") {
    node.store_record(key, make_record(11, "new"));
    node.mark_synced(sibling, false);
    REQUIRE(record_of(node.read(key, Role::kTail)).content.value == "new");
    node.store_record(key, make_tombstone(12));
    REQUIRE(record_of(node.read(key, Role::kTail)).is_tombstone());
  }
  SECTION("until the next map") {
    install_changed(node, 3, {0, 1, 2}, unsync);
    REQUIRE(status(node.read("here", Role::kTail)) == "NOT_SYNCED");
    REQUIRE(status(node.read(key, Role::kTail)) == "NOT_SYNCED");
  }
}

TEST_CASE("a node without a map has nothing to forget") {
  ArenaStore store({});
  FakeClock clock;
  Engine engine({.incarnation = 5}, store, clock);
  engine.tick();
  REQUIRE(engine.statistics().size() > 10);
}

namespace {

std::string drop(TestNode& node, uint32_t partition,
                 std::vector<DropTombstonesRequest::Entry> tombstones) {
  return status(node.send(Opcode::kDropTombstones,
                          encoded(DropTombstonesRequest{partition, std::move(tombstones)})));
}

}  // namespace

TEST_CASE("tombstones of the versions named are dropped, and nothing else") {
  TestNode node({0, 1, 2});
  const auto [key, sibling] = siblings(node);
  const uint32_t partition = node.partition(key);
  node.store_record(key, make_tombstone(20));
  node.store_record(sibling, make_record(10, "live"));
  node.raise_floor(key, 30);
  REQUIRE(drop(node, partition, {{key, 19}, {key, 21}, {sibling, 10}}) == "OK");
  REQUIRE(record_of(node.read(key)).is_tombstone());
  REQUIRE(drop(node, partition, {{key, 20}, {sibling, 10}, {key, 20}}) == "OK");
  REQUIRE(status(node.read(key)) == "NOT_FOUND");
  REQUIRE(record_of(node.read(sibling)).content.value == "live");
  REQUIRE(node.stat("records") == 1);
  SECTION("only by a synced home, of keys of the partition, a bounded number") {
    REQUIRE(drop(node, (partition + 1) % uint32_t{kPartitions}, {{key, 20}}) == "INVALID");
    REQUIRE(drop(node, kPartitions, {}) == "INVALID");
    const std::vector<DropTombstonesRequest::Entry> many(kMaxListEntries, {key, 20});
    REQUIRE(drop(node, partition, many) == "OK");
    auto more = many;
    more.push_back({key, 20});
    REQUIRE(drop(node, partition, more) == "INVALID");
    install_changed(node, 2, {0, 1, 2}, unsync);
    REQUIRE(drop(node, partition, {{key, 20}}) == "NOT_SYNCED");
    install_changed(node, 3, {1, 2, 3}, unsync);
    REQUIRE(drop(node, partition, {{key, 20}}) == "NOT_HOME");
  }
}

TEST_CASE("inline records that have expired are dropped like tombstones, others are not") {
  TestNode node({0, 1, 2});
  const auto [key, sibling] = siblings(node);
  Record expired = make_record(20, "v");
  expired.content.exptime = kNowMs / 1000;
  Record striped = expired;
  striped.content = striped_content();
  striped.content.exptime = kNowMs / 1000;
  node.store_record(key, expired);
  node.store_record(sibling, striped);
  node.raise_floor(key, 30);
  node.now_ms = kNowMs - 1000;  // the sender's clock
  REQUIRE(drop(node, node.partition(key), {{key, 20}, {sibling, 20}}) == "OK");
  REQUIRE(record_of(node.read(key)).content.value == "v");
  node.now_ms = kNowMs;
  REQUIRE(drop(node, node.partition(key), {{key, 20}, {sibling, 20}}) == "OK");
  REQUIRE(status(node.read(key)) == "NOT_FOUND");
  REQUIRE(record_of(node.read(sibling)).is_striped());
}

TEST_CASE("a key that was created and deleted again keeps its newer tombstone") {
  TestNode node({0, 1, 2});
  const auto [key, sibling] = siblings(node);
  node.store_record(key, make_tombstone(20));
  node.store_record(key, make_record(25, "again"));
  node.store_record(key, make_tombstone(26));
  node.store_record(sibling, make_tombstone(40));
  node.raise_floor(key, 40);
  REQUIRE(drop(node, node.partition(key), {{key, 20}, {sibling, 40}}) == "OK");
  REQUIRE(record_of(node.read(key)).meta.version == 26);
  REQUIRE(status(node.read(sibling)) == "NOT_FOUND");
}

TEST_CASE("a tombstone above the floor is not dropped: nothing would stand for it") {
  TestNode node({0, 1, 2});
  node.store_record("key", make_tombstone(20));
  node.raise_floor("key", 19);
  REQUIRE(drop(node, node.partition("key"), {{"key", 20}}) == "OK");
  REQUIRE(record_of(node.read("key")).is_tombstone());
  node.raise_floor("key", 20);
  REQUIRE(drop(node, node.partition("key"), {{"key", 20}}) == "OK");
  REQUIRE(status(node.read("key")) == "NOT_FOUND");
}

}  // namespace elastripe::node::test
