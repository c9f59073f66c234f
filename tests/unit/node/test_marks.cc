// Marks and given cas: what a record keeps for memcached's meta commands, and the uses of its item.
#include <catch2/catch.hpp>

#include "server-patches/node/engine/mutation.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

struct MarkedNode : TestNode {
  RecordApplyRequest mark_request(std::string_view key, uint64_t version) {
    auto request = this->request(key, Mutation::kMark);
    request.condition = Condition::kIfVersion;
    request.condition_argument = version;
    return request;
  }
  Record at(const std::string& key) { return record_of(read(key)); }
  Reply mark(const std::string& key, uint8_t marks, uint64_t cas = 0, uint32_t exptime = 0) {
    RecordContent given;
    given.marks = marks;
    given.cas = cas;
    given.exptime = exptime;
    return apply(mark_request(key, at(key).meta.version), given);
  }
};

RecordContent content_of_kind(bool striped) {
  return striped ? striped_content() : inline_content("value");
}

}  // namespace

TEST_CASE("what is marked and given survives its encoding, behind a value or segments", "[marks]") {
  for (const bool striped : {false, true}) {
    for (const bool folded : {false, true}) {
      Record record = make_record(10, "value");
      record.content = content_of_kind(striped);
      if (folded && striped) record.content.segments[0].folded_lsn = 12;
      const size_t bare = encoded(record).size();
      record.content.marks = kStale | kWinTaken;
      record.content.cas = 77;
      record.content.cas_since = 10;
      const std::string bytes = encoded(record);
      CHECK(bytes.size() == bare + kMarksBytes + (striped ? folded ? 0 : 8 : 0));
      CHECK(decode_record(as_view(bytes)) == record);
      std::string_view value;
      CHECK(decode_record(as_view(bytes), value)->content.marks == record.content.marks);
      CHECK(value == record.content.value);
      CHECK(decode_replaced(as_view(bytes))->meta == record.meta);
    }
  }
}

TEST_CASE("a mark changes neither value nor its version, and moves the cas if it is to",
          "[marks]") {
  for (const bool striped : {false, true}) {
    MarkedNode node;
    REQUIRE(status(node.apply(node.request("key", Mutation::kSet), content_of_kind(striped))) ==
            "OK");
    const Record before = node.at("key");
    REQUIRE(status(node.mark("key", kStale, kNewCas, 4'000'000'000)) == "OK");
    const Record stale = node.at("key");
    CHECK(stale.meta.value_version == before.meta.value_version);
    CHECK(stale.content.marks == kStale);
    CHECK(stale.content.exptime == 4'000'000'000);
    CHECK(stale.content.value == before.content.value);
    CHECK(stale.content.segments == before.content.segments);
    CHECK(stale.content.flags == before.content.flags);
    CHECK(cas_of(stale, 0) == stale.meta.version);
    CHECK(last_change(stale, 0) == before.meta.version);
    REQUIRE(status(node.mark("key", kStale | kWinTaken)) == "OK");
    const Record won = node.at("key");
    CHECK(won.content.exptime == 0);
    CHECK(cas_of(won, 0) == cas_of(stale, 0));
    // An update since has a number of its own, which is above.
    CHECK(cas_of(won, stale.meta.version + 1) == stale.meta.version + 1);
    CHECK(cas_of(won, stale.meta.version - 1) == stale.meta.version);
    REQUIRE(status(node.mark("key", 0, 1234)) == "OK");
    CHECK(cas_of(node.at("key"), 0) == 1234);
  }
}

TEST_CASE("only a record of a known version is marked", "[marks]") {
  MarkedNode node;
  REQUIRE(status(node.set("key", "value")) == "OK");
  const uint64_t version = node.at("key").meta.version;
  RecordContent given;
  given.marks = kStale;
  CHECK(status(node.apply(node.mark_request("key", version - 1), given)) == "CONDITION_FAILED");
  auto unconditional = node.mark_request("key", version);
  unconditional.condition = Condition::kAlways;
  CHECK(status(node.apply(unconditional, given)) == "INVALID");
  CHECK(node.at("key").content.marks == 0);
  CHECK(status(node.apply(node.mark_request("none", 0), given)) == "NOT_FOUND");
}

TEST_CASE("a new value has no marks; what keeps the value keeps them", "[marks]") {
  MarkedNode node;
  REQUIRE(status(node.set("key", "5")) == "OK");
  REQUIRE(status(node.mark("key", kStale, 1234)) == "OK");
  const auto change = [&](Mutation mutation, const RecordContent& given = {}) {
    auto request = node.request("key", mutation);
    request.delta = 1;
    const bool carries = mutation != Mutation::kIncrement && mutation != Mutation::kFence;
    REQUIRE(status(carries ? node.apply(request, given) : node.apply(request)) == "OK");
    return node.at("key");
  };
  for (const Mutation mutation : {Mutation::kTouch, Mutation::kFence}) {
    const Record kept = change(mutation);
    CHECK(kept.content.marks == kStale);
    CHECK(cas_of(kept, 0) == 1234);
  }
  const Record counted = change(Mutation::kIncrement);
  CHECK(counted.content.marks == kStale);  // as memcached, which counts in place
  CHECK(cas_of(counted, 0) == counted.meta.version);
  RecordContent more = inline_content("0");
  more.cas = 99;
  const Record longer = change(Mutation::kAppend, more);
  CHECK(longer.content.marks == 0);
  CHECK(cas_of(longer, 0) == 99);
  const Record set = change(Mutation::kSet, inline_content("new"));
  CHECK(set.content.marks == 0);
  CHECK(cas_of(set, 0) == set.meta.version);
}

TEST_CASE("conditions are on the cas that was given", "[marks]") {
  MarkedNode node;
  RecordContent content = inline_content("value");
  content.cas = 1234;
  REQUIRE(status(node.apply(node.request("key", Mutation::kSet), content)) == "OK");
  auto request = node.request("key", Mutation::kSet);
  request.condition = Condition::kIfValueVersion;
  request.condition_argument = node.at("key").meta.version;
  CHECK(status(node.apply(request, inline_content("new"))) == "CONDITION_FAILED");
  request.condition_argument = 1234;
  CHECK(status(node.apply(request, inline_content("new"))) == "OK");
}

TEST_CASE("reads tell of the uses before them", "[marks]") {
  MarkedNode node;
  REQUIRE(status(node.set("key", "value")) == "OK");
  const auto read = [&](bool is_use) {
    const Reply reply = node.send(
        Opcode::kRecordRead,
        encoded(RecordReadRequest{
            .role = Role::kHead, .m = 2, .key = "key", .is_use = is_use, .tells_use = true}));
    REQUIRE(status(reply) == "OK");
    return args_of<RecordReadReply>(reply).use->was_used;
  };
  CHECK_FALSE(args_of<RecordReadReply>(node.read("key")).use);
  CHECK_FALSE(read(false));
  CHECK_FALSE(read(true));
  CHECK(read(false));
  REQUIRE(status(node.mark("key", kStale)) == "OK");
  CHECK(read(false));
  REQUIRE(status(node.set("key", "new")) == "OK");
  CHECK_FALSE(read(false));
}

}  // namespace elastripe::node::test
