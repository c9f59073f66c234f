// RECORD_APPLY: versions, fences, attempts, conditions, mutations; rules 5-7 and 9.
#include <functional>

#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

constexpr uint64_t kFloorOfEpoch1 = 1ull << kCounterBits;

}  // namespace

TEST_CASE("the head assigns versions above the map's floor, one a commit") {
  TestNode node;
  const RecordMeta first = meta_of(node.set("key", "a"));
  REQUIRE(first.version == next_block(kFloorOfEpoch1));
  REQUIRE(first.value_version == first.version);
  REQUIRE(first.fence == 0);
  const RecordMeta second = meta_of(node.set("key", "b"));
  REQUIRE(second.version == first.version + 1);
  REQUIRE(second.recent.size() == 2);
  REQUIRE(second.recent.back().version == second.version);
  const Record record = record_of(node.read("key"));
  REQUIRE(record.meta == second);
  REQUIRE(record.content == inline_content("b"));
}

TEST_CASE("a version is above the partition's floor too") {
  TestNode node;
  node.raise_floor("key", 5 * kFloorOfEpoch1);
  REQUIRE(meta_of(node.set("key", "a")).version == next_block(5 * kFloorOfEpoch1));
  REQUIRE(node.hello().max_version == next_block(5 * kFloorOfEpoch1));
}

TEST_CASE("only the head applies and only the tail answers tail reads") {
  TestNode node({1, 2, 0});
  auto request = node.request("key", Mutation::kSet);
  REQUIRE(status(node.read("key", Role::kTail)) == "NOT_HOME");
  request.m = 1;
  REQUIRE(status(node.apply(request, inline_content("v"))) == "NOT_HOME");
  request.m = 0;
  REQUIRE(status(node.apply(request, inline_content("v"))) == "INVALID");
  request.m = 3;
  REQUIRE(status(node.apply(request, inline_content("v"))) == "INVALID");

  TestNode tail({0, 1, 2});
  REQUIRE(status(tail.set("key", "v")) == "NOT_HOME");
  REQUIRE(status(tail.read("key", Role::kTail)) == "NOT_FOUND");
  REQUIRE(status(tail.read("key", Role::kHead)) == "NOT_HOME");

  TestNode stranger({1, 2, 3});
  REQUIRE(status(stranger.read("key", Role::kAny)) == "NOT_HOME");
}

TEST_CASE("with fewer homes than m+1 the last of them decides") {
  TestNode last({1, 0});
  REQUIRE(status(last.set("key", "v")) == "OK");
  TestNode first({0, 1});
  REQUIRE(status(first.set("key", "v")) == "NOT_HOME");
  REQUIRE(status(first.read("key", Role::kTail)) == "NOT_FOUND");
  TestNode only({0});
  REQUIRE(status(only.set("key", "v")) == "OK");
  REQUIRE(status(only.read("key", Role::kTail)) == "OK");
  TestNode none({});
  REQUIRE(status(none.set("key", "v")) == "NOT_HOME");
}

TEST_CASE("a reshape changes state, parities and nodes of the segments, and nothing else") {
  TestNode node;
  const RecordContent content = striped_content();
  auto request = node.request("key", Mutation::kSet);
  const RecordMeta first = meta_of(node.apply(request, content));

  const auto reshape = [&](const RecordContent& given) {
    request = node.request("key", Mutation::kReshape);
    request.condition = Condition::kIfVersion;
    request.condition_argument = record_of(node.read("key")).meta.version;
    return node.apply(request, given);
  };
  RecordContent next = content;
  next.segments[0].state = coding::State::kWide;
  next.segments[0].generation = 1;
  next.segments[0].parity_txid = {3, 4};
  next.segments[0].placement = {0, 1, 5};
  const RecordMeta second = meta_of(reshape(next));
  CHECK(second.version > first.version);
  CHECK(second.value_version == first.value_version);
  CHECK(record_of(node.read("key")).content == next);

  const std::vector<std::function<void(RecordContent&)>> others = {
      [](RecordContent& c) { c.size = 99; },
      [](RecordContent& c) { c.scheme.layout = coding::LayoutKind::kSrs; },
      [](RecordContent& c) { c.segments.emplace_back(c.segments[0]); },
      [](RecordContent& c) { c.segments[0].data_txid = {5, 6}; },
      [](RecordContent& c) { c.segments[0].number = 1; },
      [](RecordContent& c) { c.segments[0].crc32c = 1; },
  };
  for (size_t i = 0; i < others.size(); ++i) {
    INFO(i);
    RecordContent other = next;
    others[i](other);
    CHECK(status(reshape(other)) != "OK");
    CHECK(record_of(node.read("key")).content == next);
  }
}

TEST_CASE("a read with the right version costs no record") {
  TestNode node;
  const uint64_t version = meta_of(node.set("key", "value")).version;
  const Reply same = node.read("key", Role::kHead, version);
  REQUIRE(status(same) == "SAME");
  REQUIRE(same.payload.size() == 0);
  REQUIRE(status(node.read("key", Role::kHead, version - 1)) == "OK");
}

TEST_CASE("conditions hold or refuse with the current record") {
  TestNode node;
  const auto try_set = [&](Condition condition, uint64_t argument) {
    auto request = node.request("key", Mutation::kSet);
    request.condition = condition;
    request.condition_argument = argument;
    return node.apply(request, inline_content("new"));
  };
  SECTION("of a missing record") {
    REQUIRE(status(try_set(Condition::kIfPresent, 0)) == "CONDITION_FAILED");
    REQUIRE(status(try_set(Condition::kIfVersion, 1)) == "CONDITION_FAILED");
    const Reply absent = try_set(Condition::kIfValueVersion, 0);
    REQUIRE(status(absent) == "NOT_FOUND");
    REQUIRE(absent.payload.size() == 0);
    // What is set under a version was made of the record that had it.
    SECTION("version 0") {
      REQUIRE(status(try_set(Condition::kIfVersion, 0)) == "CONDITION_FAILED");
    }
    SECTION("absent") { REQUIRE(status(try_set(Condition::kIfAbsent, 0)) == "OK"); }
    SECTION("the floor counts as its version") {
      node.raise_floor("key", 50);
      const Reply failed = try_set(Condition::kIfVersion, 0);
      REQUIRE(status(failed) == "CONDITION_FAILED");
      REQUIRE(args_of<RecordApplyReply>(failed).floor == 50);
      REQUIRE(status(try_set(Condition::kIfVersion, 50)) == "CONDITION_FAILED");
      auto fence = node.request("key", Mutation::kFence);
      fence.condition = Condition::kIfVersion;
      fence.condition_argument = 50;
      REQUIRE(status(node.apply(fence)) == "OK");
    }
  }
  SECTION("of a live record") {
    const RecordMeta meta = meta_of(node.set("key", "old"));
    const Reply failed = try_set(Condition::kIfAbsent, 0);
    REQUIRE(status(failed) == "CONDITION_FAILED");
    REQUIRE(record_of(failed).content.value == "old");
    REQUIRE(status(try_set(Condition::kIfVersion, meta.version - 1)) == "CONDITION_FAILED");
    REQUIRE(status(try_set(Condition::kIfValueVersion, meta.version - 1)) == "CONDITION_FAILED");
    REQUIRE(record_of(node.read("key")).meta == meta);
    SECTION("version") { REQUIRE(status(try_set(Condition::kIfVersion, meta.version)) == "OK"); }
    SECTION("value version") {
      REQUIRE(status(try_set(Condition::kIfValueVersion, meta.value_version)) == "OK");
    }
    SECTION("present") { REQUIRE(status(try_set(Condition::kIfPresent, 0)) == "OK"); }
  }
  SECTION("of an expired record and of a tombstone") {
    bool tombstone = GENERATE(false, true);
    node.set("key", "old", tombstone ? 0 : kNowMs / 1000);
    if (tombstone) node.apply(node.request("key", Mutation::kDelete));
    REQUIRE(status(try_set(Condition::kIfPresent, 0)) == "CONDITION_FAILED");
    const Reply not_found = try_set(Condition::kIfValueVersion, 0);
    REQUIRE(status(not_found) == "NOT_FOUND");
    REQUIRE(record_of(not_found).is_tombstone() == tombstone);  // the proxy pushes it down
    REQUIRE(status(try_set(Condition::kIfAbsent, 0)) == "OK");
  }
}

TEST_CASE("an attempt commits once") {
  TestNode node;
  auto request = node.request("key", Mutation::kIncrement);
  request.delta = 1;
  node.set("key", "5");
  const Reply first = node.apply(request);
  REQUIRE(record_of(first).content.value == "6");
  const Reply again = node.apply(request);
  REQUIRE(status(again) == "OK");
  REQUIRE(payload_of(again) == payload_of(first));
  REQUIRE(args_of<RecordApplyReply>(again).whole_record);
  node.set("key", "100");
  const Reply late = node.apply(request);
  REQUIRE(status(late) == "SUPERSEDED");
  REQUIRE(record_of(late).content.value == "100");
  SECTION("the list keeps the last eight") {
    for (int i = 0; i < 6; ++i) node.set("key", "1");
    REQUIRE(status(node.apply(request)) == "SUPERSEDED");
    node.set("key", "1");
    REQUIRE(record_of(node.read("key")).meta.recent.size() == kRecentAttempts);
    REQUIRE(record_of(node.apply(request)).content.value == "2");
  }
}

TEST_CASE("a transaction that began before the fence starts again") {
  TestNode node;
  const uint64_t version = meta_of(node.set("key", "v")).version;
  const Record fenced = record_of(node.apply(node.request("key", Mutation::kFence)));
  REQUIRE(fenced.meta.fence == version + 1);
  REQUIRE(fenced.meta.version == version + 1);
  REQUIRE(fenced.meta.value_version == version);
  REQUIRE(fenced.content.value == "v");
  auto request = node.request("key", Mutation::kSet);
  request.base_version = version;
  const Reply refused = node.apply(request, inline_content("late"));
  REQUIRE(status(refused) == "FENCED");
  REQUIRE(record_of(refused) == fenced);
  request.base_version = fenced.meta.version;
  const Reply applied = node.apply(request, inline_content("new"));
  REQUIRE(status(applied) == "OK");
  REQUIRE(meta_of(applied).fence == fenced.meta.fence);
}

TEST_CASE("the floor fences a missing record, and a fence of one leaves a tombstone") {
  TestNode node;
  node.raise_floor("key", 70);
  auto request = node.request("key", Mutation::kSet);
  request.base_version = 69;
  const Reply refused = node.apply(request, inline_content("late"));
  REQUIRE(status(refused) == "FENCED");
  REQUIRE(refused.payload.size() == 0);
  REQUIRE(args_of<RecordApplyReply>(refused).floor == 70);
  const Record fence = record_of(node.apply(node.request("key", Mutation::kFence)));
  REQUIRE(fence.is_tombstone());
  REQUIRE(fence.meta.fence == fence.meta.version);
  REQUIRE(fence.meta.value_version == fence.meta.version);
}

TEST_CASE("append and prepend add to a live inline value and keep its flags") {
  TestNode node;
  node.set("key", "middle", kNowMs / 1000 + 10);
  node.apply(node.request("key", Mutation::kAppend), inline_content(">"));
  const Record record =
      record_of(node.apply(node.request("key", Mutation::kPrepend), inline_content("<")));
  REQUIRE(record.content == inline_content("<middle>", kNowMs / 1000 + 10));
  REQUIRE(record.meta.value_version == record.meta.version);
  SECTION("up to the request's limit") {
    auto request = node.request("key", Mutation::kAppend);
    request.inline_max_bytes = 9;
    REQUIRE(status(node.apply(request, inline_content("12"))) == "TOO_LARGE");
    REQUIRE(record_of(node.read("key")) == record);
    REQUIRE(status(node.apply(request, inline_content("1"))) == "OK");
  }
  SECTION("not to a missing, an expired or a striped object") {
    REQUIRE(status(node.apply(node.request("none", Mutation::kAppend), inline_content("x"))) ==
            "NOT_FOUND");
    node.now_ms += 10'000;
    REQUIRE(status(node.apply(node.request("key", Mutation::kAppend), inline_content("x"))) ==
            "NOT_FOUND");
    node.apply(node.request("striped", Mutation::kSet), striped_content());
    const Reply striped =
        node.apply(node.request("striped", Mutation::kPrepend), inline_content("x"));
    REQUIRE(status(striped) == "NOT_INLINE");
    REQUIRE(record_of(striped).content == striped_content());
  }
}

TEST_CASE("increment and decrement change numbers only") {
  TestNode node;
  node.set("key", "10");
  auto request = node.request("key", Mutation::kDecrement);
  request.delta = 3;
  REQUIRE(record_of(node.apply(request)).content.value == "7 ");
  node.set("key", "apples");
  const Reply refused = node.apply(node.request("key", Mutation::kIncrement));
  REQUIRE(status(refused) == "NOT_NUMBER");
  REQUIRE(record_of(refused).content.value == "apples");
  REQUIRE(status(node.apply(node.request("none", Mutation::kIncrement))) == "NOT_FOUND");
  node.apply(node.request("striped", Mutation::kSet), striped_content());
  REQUIRE(status(node.apply(node.request("striped", Mutation::kIncrement))) == "NOT_INLINE");
}

TEST_CASE("touch moves the expiry and not the value's version") {
  TestNode node;
  const RecordMeta before = meta_of(node.set("key", "v"));
  RecordContent expiry;
  expiry.exptime = 12345;
  const Record record = record_of(node.apply(node.request("key", Mutation::kTouch), expiry));
  REQUIRE(record.content == inline_content("v", 12345));
  REQUIRE(record.meta.version == before.version + 1);
  REQUIRE(record.meta.value_version == before.value_version);
  REQUIRE(status(node.apply(node.request("none", Mutation::kTouch), expiry)) == "NOT_FOUND");
}

TEST_CASE("delete leaves a tombstone that keeps the versions rising") {
  TestNode node;
  const RecordMeta before = meta_of(node.set("key", "v"));
  const RecordMeta deleted = meta_of(node.apply(node.request("key", Mutation::kDelete)));
  REQUIRE(deleted.version == before.version + 1);
  REQUIRE(deleted.value_version == deleted.version);
  REQUIRE(record_of(node.read("key")).is_tombstone());
  REQUIRE(status(node.apply(node.request("key", Mutation::kDelete))) == "NOT_FOUND");
  REQUIRE(meta_of(node.set("key", "w")).version == deleted.version + 1);
}

TEST_CASE("the answer tells which shards a commit superseded, and what its payload is") {
  TestNode node;
  const auto superseded = [&](const Reply& reply) {
    return args_of<RecordApplyReply>(reply).superseded;
  };
  REQUIRE(superseded(node.apply(node.request("key", Mutation::kSet), striped_content())).empty());
  const Reply touched = node.apply(node.request("key", Mutation::kTouch), RecordContent{});
  REQUIRE(superseded(touched).empty());
  REQUIRE(args_of<RecordApplyReply>(touched).whole_record);
  const Reply set = node.set("key", "inline");
  REQUIRE(superseded(set) == encoded(striped_content()));
  REQUIRE_FALSE(args_of<RecordApplyReply>(set).whole_record);
  REQUIRE(superseded(node.set("key", "again")).empty());
  node.apply(node.request("key", Mutation::kSet), striped_content());
  const Reply deleted = node.apply(node.request("key", Mutation::kDelete));
  REQUIRE(superseded(deleted) == encoded(striped_content()));
}

TEST_CASE("a read returns what has expired; the sender's time decides") {
  TestNode node;
  node.set("key", "v", kNowMs / 1000 - 5);
  const Record record = record_of(node.read("key"));
  REQUIRE(record.is_expired(kNowMs));
}

TEST_CASE("an apply whose content does not suit its mutation is invalid") {
  TestNode node;
  REQUIRE(status(node.apply(node.request("key", Mutation::kSet), RecordContent{})) == "INVALID");
  REQUIRE(status(node.apply(node.request("key", Mutation::kSet))) == "INVALID");
  REQUIRE(status(node.apply(node.request("key", Mutation::kDelete), inline_content("x"))) ==
          "INVALID");
  REQUIRE(status(node.apply(node.request("key", Mutation::kAppend), striped_content())) ==
          "INVALID");
  auto request = node.request("key", Mutation::kDelete);
  request.attempt_id = {};
  REQUIRE(status(node.apply(request)) == "INVALID");
  REQUIRE(status(node.read("key")) == "NOT_FOUND");
}

TEST_CASE("without memory a commit is refused and what is stored is intact") {
  const size_t cost = ArenaStore::cost(4, 8 + 2000);
  TestNode node({1, 2, 0}, {.limit_bytes = 4 * cost, .reserve_bytes = cost, .buckets = 16});
  const std::string value(1500, 'v');
  REQUIRE(status(node.set("one", value)) == "OK");
  REQUIRE(status(node.set("two", value)) == "OK");
  REQUIRE(status(node.set("six", value)) == "OK");
  const Record before = record_of(node.read("one"));
  const Reply full = node.set("one", value);
  REQUIRE(status(full) == "NO_SPACE");
  REQUIRE(full.header.free_bytes < cost);
  REQUIRE(record_of(node.read("one")) == before);
  auto append = node.request("two", Mutation::kAppend);
  REQUIRE(status(node.apply(append, inline_content("x"))) == "NO_SPACE");
  REQUIRE(record_of(node.read("two")).content.value == value);
  REQUIRE(node.stat("out_of_memory") == 2);
  SECTION("a touch, a fence and a delete use the reserve") {
    RecordContent expiry;
    REQUIRE(status(node.apply(node.request("one", Mutation::kTouch), expiry)) == "OK");
    REQUIRE(status(node.apply(node.request("two", Mutation::kFence))) == "OK");
    REQUIRE(status(node.apply(node.request("six", Mutation::kDelete))) == "OK");
    REQUIRE(status(node.set("one", value)) == "OK");
  }
}

TEST_CASE(
    "what sync brings a new home leaves the reserve to commits and to what a source has missed") {
  const size_t cost = ArenaStore::cost(4, 8 + 2000);
  TestNode node({1, 2, 0}, {.limit_bytes = 6 * cost, .reserve_bytes = 4 * cost, .buckets = 16});
  const auto unsynced = [&](uint32_t number, std::vector<NodeId> sources) {
    ClusterMap next = make_map(number, {1, 2, 0});
    for (Partition& partition : next.partitions) {
      partition.synced = false;
      partition.sources = {sources};
    }
    node.install(std::move(next));
    node.grant();
  };
  const std::string value(1500, 'v');
  const auto sync = [&](const std::string& key) {
    return status(node.store_record(key, make_record(10, value), /*sync=*/true));
  };
  unsynced(2, {1, 2});
  REQUIRE(sync("one") == "OK");
  REQUIRE(sync("two") == "OK");
  REQUIRE(sync("six") == "NO_SPACE");
  REQUIRE(sync("two") == "OK");  // it has that
  REQUIRE(status(node.store_record("six", make_record(10, value))) == "OK");
  SECTION("a source may use it") {
    unsynced(3, {0, 1});
    REQUIRE(sync("ten") == "OK");
  }
}

TEST_CASE("a tombstone fits in place of the smallest record when all memory is gone") {
  TestNode node({1, 2, 0}, {.limit_bytes = 20'000, .reserve_bytes = 0, .buckets = 16});
  int stored = 0;
  while (status(node.set("key" + std::to_string(stored), "")) == "OK") ++stored;
  REQUIRE(stored > 10);
  for (int i = 0; i < stored; ++i) {
    const std::string key = "key" + std::to_string(i);
    REQUIRE(status(node.apply(node.request(key, Mutation::kDelete))) == "OK");
    REQUIRE(record_of(node.read(key)).is_tombstone());
  }
}

TEST_CASE("content whose record would not fit in a reply is refused") {
  TestNode node;
  const auto set = [&](size_t value_bytes) {
    const RecordContent content = inline_content(std::string(value_bytes, 'v'));
    const std::string payload = encoded(content);
    return status(
        node.send(Opcode::kRecordApply, encoded(node.request("key", Mutation::kSet)), payload));
  };
  const size_t overhead = encoded(inline_content("")).size();
  REQUIRE(set(kMaxContentBytes - overhead + 1) == "INVALID");
  REQUIRE(set(kMaxContentBytes - overhead) == "OK");
  REQUIRE(status(node.read("key")) == "OK");
  auto fence = node.request("key", Mutation::kFence);
  REQUIRE(status(node.apply(fence)) == "OK");
}

TEST_CASE("every mutation makes the same of a record in one piece and of one in chunks") {
  ArenaStore::Options memory;
  memory.view_max_bytes = GENERATE(size_t{0}, size_t{64} << 10);
  TestNode node({1, 2, 0}, memory);
  const std::string key(kMaxKeyBytes, 'k');  // the item's key is the longest there can be
  const auto stored = [&] { return record_of(node.read(key)); };
  // What a commit answers is what is stored, byte for byte.
  const auto apply_whole = [&](const RecordApplyRequest& request, const RecordContent& content) {
    const Reply reply = node.apply(request, content);
    REQUIRE(status(reply) == "OK");
    REQUIRE(payload_of(reply) == payload_of(node.read(key)));
  };
  node.set(key, "10", 2'000'000'000);
  REQUIRE(stored().content == inline_content("10", 2'000'000'000));
  apply_whole(node.request(key, Mutation::kAppend), inline_content("5"));
  apply_whole(node.request(key, Mutation::kPrepend), inline_content("2"));
  REQUIRE(stored().content == inline_content("2105", 2'000'000'000));
  auto count = node.request(key, Mutation::kIncrement);
  count.delta = 95;
  REQUIRE(payload_of(node.apply(count)) == payload_of(node.read(key)));
  count = node.request(key, Mutation::kDecrement);
  count.delta = 1;
  REQUIRE(payload_of(node.apply(count)) == payload_of(node.read(key)));
  REQUIRE(stored().content == inline_content("2199", 2'000'000'000));
  apply_whole(node.request(key, Mutation::kTouch), inline_content("", 1'900'000'000));
  REQUIRE(stored().content == inline_content("2199", 1'900'000'000));
  REQUIRE(payload_of(node.apply(node.request(key, Mutation::kFence))) ==
          payload_of(node.read(key)));
  REQUIRE(stored().content == inline_content("2199", 1'900'000'000));
  REQUIRE(stored().meta.recent.size() == 7);
  node.apply(node.request(key, Mutation::kSet), striped_content());
  REQUIRE(stored().content == striped_content());
  REQUIRE(stored().meta.recent.size() == kRecentAttempts);
  const auto replaced = args_of<RecordApplyReply>(node.set(key, ""));
  REQUIRE(replaced.superseded == encoded(striped_content()));
  REQUIRE(stored().content == inline_content(""));
  REQUIRE(status(node.apply(node.request(key, Mutation::kDelete))) == "OK");
  REQUIRE(stored().content == RecordContent{});
}

}  // namespace elastripe::node::test
