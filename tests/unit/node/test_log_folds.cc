// What folds and commits make of a log.
#include "tests/unit/node/log_fixture.h"

namespace elastripe::node::test {

TEST_CASE("a fold leaves what is newer, and the bytes of other segments") {
  LogNode node({0});
  node.append(90, std::string(20, 'a'));
  node.append(10, "b");
  node.append(110, "c");
  const RecordMeta before = record_of(node.read("key")).meta;
  const Reply first = node.fold(1, 0);
  REQUIRE(status(first) == "OK");
  CHECK(record_of(first).meta.version == next_block(before.version));
  CHECK(record_of(first).meta.value_version == before.value_version);
  CHECK(record_of(first).content.segments[0].folded_lsn == node.version + 1);
  CHECK(node.log() == "10: b @2, 100: " + std::string(10, 'a') + " @1, 110: c @3 | ");
  REQUIRE(status(node.fold(2, 1)) == "OK");
  CHECK(node.log() == "110: c @3 | ");
  REQUIRE(status(node.fold(2, 3)) == "OK");
  CHECK(node.log() == "none");
  CHECK(lsn_of(node.append(0, "d")) == record_of(node.read("key")).meta.version + 1);
}

TEST_CASE("a fold changes shards and checksums of a known version, and takes nothing back") {
  LogNode node({0});
  node.append(0, "a");
  node.append(100, "b");
  REQUIRE(status(node.fold(1, 2)) == "OK");
  RecordContent content = record_of(node.read("key")).content;
  const auto folds = [&](const RecordContent& given) {
    return status(node.apply(node.on_record(Mutation::kFold), given));
  };
  SECTION("a fold that is taken back") {
    content.segments[1].folded_lsn = node.version + 1;
    CHECK(folds(content) == "CONDITION_FAILED");
  }
  SECTION("another size") {
    content.segments[1].length = 99;
    content.size = 199;
    CHECK(folds(content) == "CONDITION_FAILED");
  }
  SECTION("fewer segments") {
    content.segments.pop_back();
    content.size = 100;
    CHECK(folds(content) == "CONDITION_FAILED");
  }
  SECTION("no striped value") { CHECK(folds(inline_content("x")) == "INVALID"); }
  SECTION("without a version") {
    auto request = node.request("key", Mutation::kFold);
    CHECK(status(node.apply(request, content)) == "INVALID");
  }
  SECTION("of a version that is gone") {
    auto request = node.on_record(Mutation::kFold);
    request.condition_argument -= 1;
    CHECK(status(node.apply(request, content)) == "CONDITION_FAILED");
  }
  SECTION("other shards and checksums") {
    content.segments[0].data_txid = {55, 55};
    content.segments[0].parity_txid = {55, 56};
    content.segments[0].crc32c = 9;
    content.segments[0].number = 3;
    content.flags = 99;
    content.exptime = 0;
    CHECK(folds(content) == "OK");
    content.flags = striped_content().flags;  // these are the record's
    CHECK(record_of(node.read("key")).content == content);
  }
  SECTION("a reshape is none") {
    content.segments[0].folded_lsn += 1;
    CHECK(status(node.apply(node.on_record(Mutation::kReshape), content)) == "CONDITION_FAILED");
  }
}

TEST_CASE("a log lasts as long as its value") {
  LogNode node({0});
  node.append(0, "a");
  const auto apply = [&](Mutation mutation, const RecordContent& content) {
    return status(node.apply(node.request("key", mutation), content));
  };
  SECTION("not over a SET") {
    CHECK(apply(Mutation::kSet, object_content()) == "OK");
    CHECK(node.log() == "none");
    const uint64_t value = record_of(node.read("key")).meta.value_version;
    CHECK(status(node.append(0, "b")) == "OTHER_VALUE");
    auto request = node.append_request();
    request.value = value;
    CHECK(lsn_of(node.append(request, "b")) == value + 1);
  }
  SECTION("not over a SET of an inline value") {
    CHECK(apply(Mutation::kSet, inline_content("v")) == "OK");
    CHECK(node.log() == "none");
  }
  SECTION("not over a DELETE") {
    CHECK(status(node.apply(node.request("key", Mutation::kDelete))) == "OK");
    CHECK(node.log() == "none");
    CHECK(status(node.append(0, "b")) == "NOT_FOUND");
  }
  SECTION("over a touch, a fence and a reshape") {
    CHECK(apply(Mutation::kTouch, inline_content("", 2'000'000'000)) == "OK");
    CHECK(status(node.apply(node.request("key", Mutation::kFence))) == "OK");
    RecordContent moved = record_of(node.read("key")).content;
    moved.segments[0].placement[0] = 3;
    CHECK(status(node.apply(node.on_record(Mutation::kReshape), moved)) == "OK");
    CHECK(node.log() == "0: a @1 | ");
    // Numbers go on behind the newest version.
    const uint64_t version = record_of(node.read("key")).meta.version;
    CHECK(lsn_of(node.append(1, "b")) == version + 1);
  }
}

TEST_CASE("what is made of a value is refused if the log has another update by then") {
  LogNode node({0});
  node.append(0, "a");
  auto request = node.request("key", Mutation::kSet);
  SECTION("by its cas") {
    request.condition = Condition::kIfValueVersion;
    request.condition_argument = node.version;
    const Reply refused = node.apply(request, object_content());
    CHECK(status(refused) == "CONDITION_FAILED");
    CHECK(record_of(refused).meta.value_version == node.version);
    request.condition_argument = node.version + 1;
    CHECK(status(node.apply(request, object_content())) == "OK");
  }
  SECTION("by the cas of a version") {
    request = node.on_record(Mutation::kSet);
    request.made_of_cas = node.version;
    CHECK(status(node.apply(request, object_content())) == "CONDITION_FAILED");
    request.made_of_cas = node.version + 1;
    CHECK(status(node.apply(request, object_content())) == "OK");
  }
  SECTION("folded") {
    REQUIRE(status(node.fold(1, 0)) == "OK");
    REQUIRE(node.log() == "none");
    request.condition = Condition::kIfValueVersion;
    request.condition_argument = node.version;
    CHECK(status(node.apply(request, object_content())) == "CONDITION_FAILED");
    request.condition_argument = node.version + 1;
    CHECK(status(node.apply(request, object_content())) == "OK");
  }
  SECTION("without a condition") { CHECK(status(node.apply(request, object_content())) == "OK"); }
}

TEST_CASE("versions of what is or was striped are the first numbers of blocks") {
  LogNode node({0});
  const auto set = [&](const RecordContent& content) {
    return meta_of(node.apply(node.request("key", Mutation::kSet), content)).version;
  };
  const uint64_t striped = set(object_content());
  CHECK(striped == next_block(node.version));
  const uint64_t inlined = set(inline_content("v"));
  CHECK(inlined == next_block(striped));
  CHECK(set(inline_content("v")) == inlined + 1);
  CHECK(set(object_content()) == next_block(inlined + 1));
  const uint64_t first = meta_of(node.set("new", "v")).version;
  CHECK(first == next_block(node.map.version_floor));
  CHECK(meta_of(node.set("new", "v")).version == first + 1);
}

}  // namespace elastripe::node::test
