// Memory that fails: whatever changes in a stored record or on the way to it, no node answers with
// other bytes, takes the key for missing, or assigns a version twice. docs/node-protocol.md,
// "Damage".
#include <array>
#include <memory>

#include "server-patches/node/engine/item_formats.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

const std::string kKey = "key";

size_t item_bytes(TestNode& node) {
  return node.store.value_bytes(node.store.find(record_item_key(kKey)));
}

void change_bit(TestNode& node, size_t byte, unsigned bit) {
  const ItemRef item = node.store.find(record_item_key(kKey));
  std::array<std::byte, 1> changed;
  node.store.read(item, byte, changed);
  changed[0] ^= static_cast<std::byte>(1u << bit);
  node.store.write(item, byte, changed);
}
// Changes one of the record's own bytes.
void damage(TestNode& node) { change_bit(node, kRecordPrefixBytes, 1); }
void damage_behind_version(TestNode& node) {
  change_bit(node, kRecordPrefixBytes + sizeof(uint64_t), 1);
}

Record striped_record(uint64_t version) {
  Record record = make_record(version, "");
  record.content = striped_content();
  return record;
}

std::vector<Record> one_of_each_kind() {
  return {make_record(40, std::string(300, 'v')), striped_record(40), make_tombstone(40)};
}

const std::string kPadding = "padding";

// "NOT_SYNCED", or, where only padding has changed, kPadding: what it must be everywhere else too.
std::string read_tail(TestNode& node, const Record& record) {
  const Reply reply = node.read(kKey, Role::kTail);
  if (status(reply) != "OK") return status(reply);
  return record_of(reply) == record ? kPadding : "wrong bytes";
}

RecordScanReply scan(TestNode& node, RecordScanRequest request) {
  request.max_bytes = 4096;
  request.partitions = {0xff, 0xff};
  return args_of<RecordScanReply>(node.send(Opcode::kRecordScan, encoded(request)));
}

// The node becomes the head of partitions that another one is the only source of.
void make_new_head(TestNode& node) {
  ClusterMap map = make_map(2, {1, 2, 0});
  for (Partition& partition : map.partitions) {
    partition.synced = false;
    partition.sources = {{1}};
  }
  node.install(map);
  node.grant();
}

}  // namespace

TEST_CASE("no changed bit of a stored record becomes a value or a miss") {
  for (const Record& record : one_of_each_kind()) {
    size_t bytes = 1;
    size_t padding = 0;
    for (size_t byte = 0; byte < bytes; ++byte) {
      TestNode node({0, 1, 2});
      REQUIRE(status(node.store_record(kKey, record)) == "OK");
      bytes = item_bytes(node);
      INFO("byte " << byte << " of " << bytes);
      change_bit(node, byte, static_cast<unsigned>(byte % 8));

      const std::string tail = read_tail(node, record);
      if (tail == kPadding) {
        ++padding;
        continue;
      }
      REQUIRE(tail == "NOT_SYNCED");
      const Reply any = node.read(kKey);
      REQUIRE(status(any) == "BAD_PAGE");
      REQUIRE(any.payload.size() == 0);
      REQUIRE(status(node.read(kKey, Role::kTail, record.meta.version)) == "NOT_SYNCED");
      for (const int kind : {0, 1, 2}) {
        RecordScanRequest request;
        request.without_values = kind == 1;
        request.tombstones_only = request.expired_only = kind == 2;
        const RecordScanReply page = scan(node, request);
        REQUIRE(page.records.size() == 1);
        REQUIRE(page.records[0].key == kKey);
        REQUIRE(page.records[0].record.empty());
      }
      const DropTombstonesRequest drop{node.partition(kKey), {{kKey, record.meta.version}}};
      node.raise_floor(kKey, record.meta.version);
      REQUIRE(status(node.send(Opcode::kDropTombstones, encoded(drop))) == "OK");
      node.engine.tick();
      REQUIRE(read_tail(node, record) == "NOT_SYNCED");
      REQUIRE(node.stat("bad_records") == 1);

      // What sync brings takes its place, of whatever version the damaged bytes seem to be.
      REQUIRE(status(node.store_record(kKey, record, /*sync=*/true)) == "OK");
      REQUIRE(status(node.mark_synced(kKey, false)) == "OK");
      REQUIRE(read_tail(node, record) == kPadding);
    }
    REQUIRE(padding < 10);
  }
}

TEST_CASE("no changed bit of a record gets into what replaces it") {
  for (Record record : one_of_each_kind()) {
    record.meta.fence = record.meta.version;
    size_t bits = 1;
    size_t replaced = 0;
    for (size_t bit = 0; bit < bits; ++bit) {
      const auto damaged = [&](std::unique_ptr<TestNode> node = std::make_unique<TestNode>()) {
        REQUIRE(status(node->store_record(kKey, record)) == "OK");
        bits = 8 * item_bytes(*node);
        change_bit(*node, bit / 8, static_cast<unsigned>(bit % 8));
        return node;
      };
      INFO("bit " << bit << " of " << bits);
      // A SET needs to know of it what its checksums of the meta and of the segments cover.
      const auto head = damaged();
      const Reply set = head->set(kKey, "new");
      if (status(set) == "OK") {
        ++replaced;
        RecordContent superseded;
        const auto args = args_of<RecordApplyReply>(set);
        if (record.is_striped()) {
          Reader in(as_view(args.superseded));
          superseded = decode_content(in).value();
          REQUIRE(superseded.segments == record.content.segments);
        } else {
          REQUIRE(args.superseded.empty());
        }
        const Record next = record_of(head->read(kKey, Role::kHead));
        REQUIRE(next.content.value == "new");
        REQUIRE(next.meta.version > record.meta.version);
        REQUIRE(next.meta.recent.size() == record.meta.recent.size() + 1);
      } else {
        REQUIRE(status(set) == "NOT_SYNCED");
      }
      // One that is refused would tell the record.
      const auto fences = damaged();
      RecordApplyRequest old = fences->request(kKey, Mutation::kSet);
      old.base_version = 0;
      const Reply refused = fences->apply(old, inline_content("new"));
      if (status(refused) == "FENCED") {
        REQUIRE(record_of(refused) == record);
      } else {
        REQUIRE(status(refused) == "NOT_SYNCED");
      }
      const auto home = damaged();
      REQUIRE(status(home->store_record(kKey, make_record(50, "newer"))) == "OK");
      REQUIRE(record_of(home->read(kKey, Role::kHead)) == make_record(50, "newer"));
      // What is offered again mends what nobody has noticed.
      const auto tail = damaged(std::make_unique<TestNode>(std::vector<NodeId>{0, 1, 2}));
      REQUIRE(status(tail->store_record(kKey, record)) == "OK");
      REQUIRE(record_of(tail->read(kKey, Role::kTail)) == record);
    }
    // All of an inline value.
    REQUIRE(replaced >= 8 * record.content.value.size());
  }
}

TEST_CASE("a scan that meets a damaged record first tells its key, and all others") {
  TestNode node({0, 1, 2});
  for (int i = 0; i < 20; ++i) {
    node.store_record("other" + std::to_string(i), make_record(5, "value"));
  }
  node.store_record(kKey, make_record(40, "value"));
  damage(node);
  size_t whole = 0;
  for (const ScannedRecord& scanned : scan(node, {}).records) {
    whole += decode_record(as_view(scanned.record)).has_value();
    REQUIRE(scanned.record.empty() == (scanned.key == kKey));
  }
  REQUIRE(whole == 20);
  REQUIRE(node.stat("bad_records") == 1);
  REQUIRE(status(node.read(kKey, Role::kTail)) == "NOT_SYNCED");
}

TEST_CASE("no changed bit of a record or content that arrives is stored") {
  TestNode tail({0, 1, 2});
  TestNode head;
  const auto try_changed = [](TestNode& node, Opcode opcode, const std::string& args,
                              std::string payload) {
    for (size_t byte = 0; byte < payload.size(); ++byte) {
      std::string changed = payload;
      changed[byte] = static_cast<char>(changed[byte] ^ 1 << byte % 8);
      INFO("byte " << byte << " of " << payload.size());
      REQUIRE(status(node.send(opcode, args, changed)) == "INVALID");
    }
    REQUIRE(status(node.send(opcode, args, payload)) == "OK");
  };
  for (const Record& record : one_of_each_kind()) {
    const std::string key = "key" + std::to_string(static_cast<int>(record.content.kind));
    try_changed(tail, Opcode::kRecordStore, encoded(RecordStoreRequest{.m = 2, .key = key}),
                encoded(record));
  }
  try_changed(head, Opcode::kRecordApply, encoded(head.request(kKey, Mutation::kSet)),
              encoded(inline_content("value")));
  try_changed(head, Opcode::kRecordApply, encoded(head.request(kKey, Mutation::kAppend)),
              encoded(inline_content("more")));
  REQUIRE(record_of(head.read(kKey)).content.value == "valuemore");
}

TEST_CASE("a head changes nothing that is damaged") {
  for (const Mutation mutation : {Mutation::kAppend, Mutation::kPrepend, Mutation::kIncrement,
                                  Mutation::kTouch, Mutation::kDelete, Mutation::kFence}) {
    TestNode node;
    REQUIRE(status(node.set(kKey, "1234")) == "OK");
    damage(node);
    const RecordApplyRequest request = node.request(kKey, mutation);
    const bool has_content = mutation == Mutation::kAppend || mutation == Mutation::kPrepend ||
                             mutation == Mutation::kTouch;
    const Reply reply =
        has_content ? node.apply(request, inline_content("5")) : node.apply(request);
    CHECK(status(reply) == "NOT_SYNCED");
  }
}

TEST_CASE("what a store brings to a damaged copy is not read before sync has marked the key") {
  TestNode node({0, 1, 2});
  REQUIRE(status(node.store_record(kKey, make_record(40, "newest"))) == "OK");
  damage(node);
  REQUIRE(status(node.read(kKey, Role::kTail)) == "NOT_SYNCED");
  // The late store of a commit that others have followed.
  REQUIRE(status(node.store_record(kKey, make_record(39, "older"))) == "OK");
  REQUIRE(status(node.read(kKey, Role::kTail)) == "NOT_SYNCED");
  const Reply any = node.read(kKey);
  REQUIRE(status(any) == "BAD_PAGE");
  REQUIRE(record_of(any).content.value == "older");
  ClusterMap next = make_map(2, {0, 1, 2});
  node.install(next);
  node.grant();
  REQUIRE(status(node.read(kKey, Role::kTail)) == "NOT_SYNCED");

  REQUIRE(status(node.store_record(kKey, make_record(40, "newest"), /*sync=*/true)) == "OK");
  REQUIRE(status(node.mark_synced(kKey, false)) == "OK");
  REQUIRE(record_of(node.read(kKey, Role::kTail)).content.value == "newest");
}

TEST_CASE("a later commit takes the place of a damaged copy, and a late one does not") {
  TestNode node({0, 1, 2});
  REQUIRE(status(node.store_record("other", make_record(90, "of a higher version"))) == "OK");
  REQUIRE(status(node.store_record(kKey, make_record(40, "value"))) == "OK");
  const size_t byte = GENERATE(range<size_t>(0, kRecordPrefixBytes + 2 * sizeof(uint64_t)));
  change_bit(node, byte, static_cast<unsigned>(byte % 8));
  const Reply any = node.read(kKey);
  REQUIRE(status(any) == "BAD_PAGE");
  REQUIRE(args_of<RecordReadReply>(any).damaged_version == 40);
  REQUIRE(status(node.store_record(kKey, make_record(39, "value"))) == "OK");
  REQUIRE(status(node.read(kKey, Role::kTail)) == "NOT_SYNCED");
  const uint64_t version = byte % 2 == 0 ? 40 : 41;
  REQUIRE(status(node.store_record(kKey, make_record(version, "newer"))) == "OK");
  REQUIRE(record_of(node.read(kKey, Role::kTail)).content.value == "newer");
}

TEST_CASE("where even the version is damaged, a commit counts from the node's highest on") {
  TestNode node({0, 1, 2});
  REQUIRE(status(node.store_record("other", make_record(90, "of a higher version"))) == "OK");
  REQUIRE(status(node.store_record(kKey, make_record(40, "value"))) == "OK");
  damage(node);
  change_bit(node, 1, 1);
  REQUIRE(args_of<RecordReadReply>(node.read(kKey)).damaged_version == 90);
  REQUIRE(status(node.store_record(kKey, make_record(89, "newer"))) == "OK");
  REQUIRE(status(node.read(kKey, Role::kTail)) == "NOT_SYNCED");
  REQUIRE(status(node.store_record(kKey, make_record(90, "newest"))) == "OK");
  REQUIRE(record_of(node.read(kKey, Role::kTail)).content.value == "newest");
}

TEST_CASE("a record that nobody has intact is lost at its new homes too, until it is set") {
  TestNode node;
  make_new_head(node);
  const auto store_lost = [&](uint64_t version, bool sync = true, const std::string& payload = "") {
    const RecordStoreRequest lost{.m = 2, .sync = sync, .lost_version = version, .key = kKey};
    return node.send(Opcode::kRecordStore, encoded(lost), payload);
  };
  REQUIRE(status(store_lost(40, /*sync=*/false)) == "INVALID");
  REQUIRE(status(store_lost(40, true, encoded(make_record(40, "value")))) == "INVALID");
  REQUIRE(status(store_lost(uint64_t{1} << 60)) == "INVALID");

  SECTION("whatever older copy it has") {
    REQUIRE(status(node.store_record(kKey, make_record(39, "old"), /*sync=*/true)) == "OK");
  }
  SECTION("if it has nothing") {}
  SECTION("and is told twice") { REQUIRE(status(store_lost(39)) == "OK"); }
  REQUIRE(args_of<RecordStoreReply>(store_lost(40)).version == 0);
  REQUIRE(status(store_lost(40)) == "SAME");
  REQUIRE(status(node.read(kKey, Role::kHead)) == "NOT_SYNCED");
  REQUIRE(status(node.read(kKey)) == "BAD_PAGE");
  REQUIRE(args_of<RecordReadReply>(node.read(kKey)).damaged_version == 40);
  RecordScanRequest versions;
  versions.versions_only = true;
  const RecordScanReply page = scan(node, versions);
  REQUIRE(page.versions.size() == 1);
  REQUIRE(page.versions[0].damaged);
  // Also once the partition is synced.
  REQUIRE(status(node.mark_synced(kKey, true)) == "OK");
  REQUIRE(status(node.read(kKey, Role::kHead)) == "NOT_SYNCED");
  REQUIRE(status(node.set(kKey, "not blind")) == "NOT_SYNCED");

  RecordApplyRequest blind = node.request(kKey, Mutation::kSet);
  blind.blind = true;
  REQUIRE(status(node.apply(blind, inline_content("new"))) == "OK");
  const Record record = record_of(node.read(kKey, Role::kHead));
  REQUIRE(record.content.value == "new");
  REQUIRE(record.meta.version > 40);
  // An intact copy of the version that was lost is the newest.
  REQUIRE(args_of<RecordStoreReply>(store_lost(record.meta.version)).version ==
          record.meta.version);
  // Who has not heard of that says it again.
  REQUIRE(args_of<RecordStoreReply>(store_lost(40)).version == record.meta.version);
  REQUIRE(args_of<RecordStoreReply>(store_lost(record.meta.version)).version ==
          record.meta.version);
  REQUIRE(record_of(node.read(kKey, Role::kHead)).content.value == "new");
}

TEST_CASE("an intact copy of the version that others have damaged stays") {
  TestNode node;
  make_new_head(node);
  const uint64_t version = GENERATE(40u, 41u);
  REQUIRE(status(node.store_record(kKey, make_record(version, "value"), /*sync=*/true)) == "OK");
  const RecordStoreRequest lost{.m = 2, .sync = true, .lost_version = 40, .key = kKey};
  const Reply reply = node.send(Opcode::kRecordStore, encoded(lost));
  REQUIRE(args_of<RecordStoreReply>(reply).version == version);
  REQUIRE(record_of(node.read(kKey)).content.value == "value");
}

TEST_CASE("a node that forgets a partition forgets what was damaged there") {
  TestNode node({0, 1, 2});
  REQUIRE(status(node.store_record(kKey, make_record(40, "value"))) == "OK");
  damage_behind_version(node);
  REQUIRE(status(node.read(kKey)) == "BAD_PAGE");
  node.install(make_map(2, {1, 2, 3}));
  node.grant();
  ClusterMap back = make_map(3, {0, 1, 2});
  for (Partition& partition : back.partitions) {
    partition.synced = false;
    partition.sources = {{1, 2}};
  }
  node.install(back);
  node.grant();
  REQUIRE(status(node.mark_synced(kKey, true)) == "OK");
  REQUIRE(status(node.read(kKey, Role::kTail)) == "NOT_FOUND");
}

TEST_CASE("a head whose copy was damaged assigns no version twice") {
  TestNode node;
  REQUIRE(status(node.set(kKey, "one")) == "OK");
  const Record one = record_of(node.read(kKey));
  REQUIRE(status(node.set(kKey, "two")) == "OK");
  const Record two = record_of(node.read(kKey));
  damage(node);
  // The other homes know nothing of the second commit yet.
  const Reply any = node.read(kKey);
  REQUIRE(status(any) == "BAD_PAGE");
  const uint64_t floor = args_of<RecordReadReply>(any).floor;
  REQUIRE(floor >= two.meta.version);
  REQUIRE(status(node.store_record(kKey, one, /*sync=*/true)) == "OK");
  REQUIRE(status(node.mark_synced(kKey, false, floor)) == "OK");
  REQUIRE(status(node.apply(node.request(kKey, Mutation::kAppend), inline_content("+"))) == "OK");
  const Record three = record_of(node.read(kKey));
  REQUIRE(three.content.value == "one+");
  REQUIRE(three.meta.version > two.meta.version);

  // Where the floor has come, the second commit is no longer taken; the third is.
  TestNode tail({0, 1, 2});
  REQUIRE(status(tail.store_record(kKey, one)) == "OK");
  REQUIRE(status(tail.raise_floor(kKey, floor)) == "OK");
  REQUIRE(status(tail.store_record(kKey, one)) == "OK");
  REQUIRE(status(tail.store_record(kKey, two)) == "FENCED");
  REQUIRE(status(tail.store_record(kKey, three)) == "OK");
  REQUIRE(status(tail.store_record(kKey, one)) == "OK");  // the third comes of it
  REQUIRE(status(tail.store_record(kKey, two)) == "FENCED");
}

TEST_CASE("a blind SET takes the place of a damaged record, and tells nothing of what was before") {
  TestNode node;
  REQUIRE(status(node.set(kKey, "one")) == "OK");
  const uint64_t before = record_of(node.read(kKey)).meta.version;
  damage(node);
  REQUIRE(status(node.set(kKey, "two")) == "NOT_SYNCED");  // maybe a copy is intact elsewhere
  RecordApplyRequest blind = node.request(kKey, Mutation::kSet);
  blind.blind = true;
  blind.base_version = before - 1;
  REQUIRE(status(node.apply(blind, inline_content("two"))) == "FENCED");
  blind.base_version = UINT64_MAX;
  REQUIRE(status(node.apply(blind, inline_content("two"))) == "OK");
  const Record record = record_of(node.read(kKey, Role::kHead));
  REQUIRE(record.content.value == "two");
  REQUIRE(record.meta.version > before);
  REQUIRE(record.meta.recent.size() == kRecentAttempts);
  REQUIRE(record.meta.recent.front().version > before - 1);
  REQUIRE(record.meta.fence >= before);
}

}  // namespace elastripe::node::test
