// Update logs at the other copies.
#include "server-patches/node/engine/versions.h"
#include "server-patches/node/update/log_pool.h"
#include "tests/unit/node/log_fixture.h"

namespace elastripe::node::test {

TEST_CASE("a copy stores updates under the numbers that they have") {
  LogNode node(GENERATE(kAsHead, kAsMiddle, kAsTail));
  CHECK(missing_of(node.store({node.update(1, 0, "aaaa"), node.update(2, 2, "bb")})).empty());
  CHECK(node.log() == " | 0: aaaa @1, 2: bb @2");
  CHECK(missing_of(node.store({node.update(3, 9, "c")}, 2)).empty());
  CHECK(node.log() == "0: aa @1, 2: bb @2 | 9: c @3");
  const LogImage image = node.image();
  CHECK(image.last == node.version + 3);
  CHECK(image.rank == node.version + 3);
  CHECK(image.settled_to == node.version + 2);
  CHECK(image.recent.size() == 3);
  // Again, and late.
  CHECK(missing_of(node.store({node.update(1, 0, "aaaa"), node.update(3, 9, "c")}, 1)).empty());
  CHECK(node.log() == "0: aa @1, 2: bb @2 | 9: c @3");
}

TEST_CASE("a copy tells what it lacks, and takes nothing before it has it") {
  LogNode node(kAsHead);
  const auto first = node.update(1, 0, "a");
  const auto second = node.update(2, 1, "b");
  const auto third = node.update(3, 2, "c");
  REQUIRE(missing_of(node.store({second})).empty());
  CHECK(missing_of(node.store({third}, 2, {first.name, second.name})) ==
        std::vector<Id128>{first.name.id});
  CHECK(node.log() == " | 1: b @2");
  CHECK(node.image().last == node.version + 2);
  CHECK(node.image().recent == std::vector<UpdateName>{second.name});
  CHECK(node.image().settled_to == 0);
  CHECK(missing_of(node.store({first, third}, 2, {first.name, second.name})).empty());
  CHECK(node.log() == "0: a @1, 1: b @2 | 2: c @3");
}

TEST_CASE("what comes ahead of others waits for them, and gets its number by name") {
  LogNode node(kAsHead);
  const auto first = node.update(1, 0, "a");
  const auto second = node.update(2, 1, "b");
  const auto third = node.update(3, 2, "c");
  const auto fourth = node.update(4, 3, "d");
  const auto ids = [](std::initializer_list<Update> updates) {
    std::vector<Id128> all;
    for (const Update& update : updates) all.push_back(update.name.id);
    return all;
  };
  SECTION("though they are asked for before") {
    CHECK(missing_of(node.store({second}, 0, {first.name})) == ids({first}));
    CHECK(missing_of(node.store({second}, 0, {first.name})) == ids({first}));
    CHECK(missing_of(node.store({}, 0, {first.name, second.name})) == ids({first}));
    CHECK(missing_of(node.store({first})).empty());
    CHECK(node.log() == " | 0: a @1");
    node.store({third, fourth}, 0, {second.name});
  }
  SECTION("one by one") {
    CHECK(missing_of(node.store({fourth}, 0, {first.name, third.name})) == ids({first, third}));
    CHECK(missing_of(node.store({second}, 0, {first.name})) == ids({first}));
    CHECK(node.log() == " | ");
    CHECK(missing_of(node.store({first}, 0, {second.name})).empty());
    CHECK(node.log() == " | 0: a @1, 1: b @2");
    CHECK(missing_of(node.store({third}, 0, {fourth.name})).empty());
  }
  SECTION("in one frame, as far as nothing is missing") {
    CHECK(missing_of(node.store({first, third, fourth}, 0, {second.name})) == ids({second}));
    CHECK(node.log() == " | 0: a @1");
    CHECK(missing_of(node.store({second}, 0, {first.name, third.name, fourth.name})).empty());
  }
  SECTION("and those that came early are no part of what is told") {
    node.store({fourth}, 0, {third.name});
    CHECK(node.image().last == 0);
    CHECK(node.image().recent.empty());
    node.store({first, second, third, fourth});
  }
  CHECK(node.log() == " | 0: a @1, 1: b @2, 2: c @3, 3: d @4");
  CHECK(missing_of(node.store({}, 0, {first.name, fourth.name})).empty());
}

TEST_CASE("what came ahead of others is forgotten with the value, and beside many") {
  LogNode node(kAsHead);
  const auto first = node.update(1, 0, "a");
  const auto second = node.update(2, 1, "b");
  SECTION("not with the map") {
    REQUIRE(missing_of(node.store({second}, 0, {first.name})).size() == 1);
    install_next(node, kAsHead);
    REQUIRE(missing_of(node.store({first}, 0, {second.name})).empty());
    CHECK(node.log() == " | 0: a @1, 1: b @2");
  }
  SECTION("the value") {
    REQUIRE(missing_of(node.store({second}, 0, {first.name})).size() == 1);
    REQUIRE(status(node.apply(node.request("key", Mutation::kSet), object_content())) == "OK");
    const uint64_t value = record_of(node.read("key")).meta.version;
    const Update other{{{9, 1}, value + 1}, 0, "x"};
    REQUIRE(missing_of(node.store({other}, 0, {}, "key", value)).empty());
    CHECK(node.image().unsettled.size() == 1);
  }
  SECTION("what is in the shards by then") {
    REQUIRE(missing_of(node.store({first, second})).empty());
    REQUIRE(status(node.fold(2, 2)) == "OK");
    REQUIRE(node.log() == "none");
    // Late, or once more: nobody remembers the first.
    CHECK(missing_of(node.store({second}, 0, {first.name})).size() == 2);
    CHECK(node.log() == "none");
    CHECK(missing_of(node.store({}, 0, {first.name, second.name})).size() == 2);
    CHECK(node.log() == "none");
  }
  SECTION("many") {
    std::vector<UpdateName> names;
    for (uint64_t lsn = 2; lsn <= 100; ++lsn) {
      const auto update = node.update(lsn, lsn, "b");
      node.store({update}, 0, {first.name});
      names.push_back(update.name);
    }
    CHECK(missing_of(node.store({first}, 0, names)).size() == 35);
    CHECK(node.image().unsettled.size() == 65);
    CHECK(node.image().last == node.version + 65);
  }
}

TEST_CASE("updates whose payload is not theirs are refused as a whole") {
  LogNode node(kAsHead);
  const std::string bytes = "onethree";
  LogStoreRequest request{.m = 2,
                          .value = node.version,
                          .settled_to = 0,
                          .entries = {{{{8, 1}, node.version + 1}, 0, 3, crc32c(as_view("one"))},
                                      {{{8, 2}, node.version + 2}, 0, 5, crc32c(as_view("three"))}},
                          .unsettled = {},
                          .key = "key"};
  const auto stored = [&](const std::string& payload) {
    return status(node.send(Opcode::kLogStore, encoded(request), payload));
  };
  SECTION("too short") { CHECK(stored("onethre") == "INVALID"); }
  SECTION("too long") { CHECK(stored("onethree!") == "INVALID"); }
  SECTION("changed") { CHECK(stored("onethrew") == "INVALID"); }
  SECTION("out of order") {
    std::swap(request.entries[0], request.entries[1]);
    CHECK(stored("threeone") == "INVALID");
  }
  SECTION("without a name") {
    request.entries[1].name.id = {};
    CHECK(stored(bytes) == "INVALID");
  }
  SECTION("at a node that has another place") {
    request.m = 1;
    CHECK(stored(bytes) == "NOT_HOME");
  }
  CHECK(node.log() == "none");
  request = {
      .m = 2, .value = node.version, .settled_to = 0, .entries = {}, .unsettled = {}, .key = "key"};
  CHECK(stored("") == "OK");
}

TEST_CASE("a copy that is not synced takes no updates") {
  LogNode node(kAsMiddle);
  install_next(node, {0, 1, 3}, unsync);
  CHECK(status(node.store({node.update(1, 0, "a")})) == "NOT_SYNCED");
  node.mark_synced("key", false);
  CHECK(missing_of(node.store({node.update(1, 0, "a")})).empty());
}

TEST_CASE("what is in the shards by then is not stored again") {
  LogNode node(kAsHead);
  node.store({node.update(1, 0, "a"), node.update(2, 150, "b")});
  REQUIRE(status(node.fold(1, 2)) == "OK");
  CHECK(node.log() == "none");
  CHECK(missing_of(node.store({node.update(1, 0, "a")})).empty());
  CHECK(node.log() == "none");
  // The update is of one segment, and the fold was of the other.
  REQUIRE(missing_of(node.store({node.update(3, 90, std::string(20, 'c'))})).empty());
  REQUIRE(status(node.fold(3, 2)) == "OK");
  CHECK(node.log() == "100: " + std::string(10, 'c') + " @3 | ");
}

TEST_CASE("a head that has another value says whether it had the update before") {
  LogNode node(kAsHead);
  const auto had = node.update(1, 0, "a");
  const auto had_not = node.update(2, 0, "b");
  REQUIRE(missing_of(node.store({had})).empty());
  SECTION("after a SET") {
    const Reply set = node.apply(node.request("key", Mutation::kSet), object_content());
    REQUIRE(status(set) == "OK");
  }
  SECTION("after a SET of an inline value") { REQUIRE(status(node.set("key", "v")) == "OK"); }
  SECTION("after a DELETE") {
    REQUIRE(status(node.apply(node.request("key", Mutation::kDelete))) == "OK");
  }
  SECTION("after two SETs") {
    REQUIRE(status(node.set("key", "v")) == "OK");
    REQUIRE(status(node.set("key", "w")) == "OK");
  }
  SECTION("after its tombstone was collected") {
    const Reply deleted = node.apply(node.request("key", Mutation::kDelete));
    const uint64_t version = meta_of(deleted).version;
    REQUIRE(status(node.raise_floor("key", version)) == "OK");
    const std::string drop =
        encoded(DropTombstonesRequest{node.partition("key"), {{"key", version}}});
    REQUIRE(status(node.send(Opcode::kDropTombstones, drop)) == "OK");
    REQUIRE(status(node.read("key")) == "NOT_FOUND");
    CHECK(payload_of(node.store({had_not})).empty());
  }
  CHECK(status(node.store({had})) == "OK");
  const Reply reply = node.store({had_not});
  CHECK(status(reply) == "OTHER_VALUE");
  if (reply.payload.size() > 0) {
    CHECK(record_of(reply).meta.version == record_of(node.read("key")).meta.version);
  }
  CHECK(status(node.store({had, had_not})) == "OTHER_VALUE");
  CHECK(node.log() == "none");
}

TEST_CASE("a head that lacks the log of a value that it had not refuses all of its updates") {
  LogNode node(kAsHead);
  REQUIRE(status(node.set("key", "v")) == "OK");
  CHECK(status(node.store({node.update(1, 0, "a")})) == "OTHER_VALUE");
}

// More than a log remembers.
constexpr uint64_t kMany = kRecentUpdates + 12;

TEST_CASE("a head that had updates and has forgotten which says so") {
  LogNode node(kAsHead);
  SECTION("as there were many of the key") {
    for (uint64_t lsn = 1; lsn <= kMany; ++lsn) {
      REQUIRE(missing_of(node.store({node.update(lsn, 0, "a")}, lsn - 1)).empty());
    }
    REQUIRE(status(node.set("key", "v")) == "OK");
    CHECK(status(node.store({node.update(kMany, 0, "a")})) == "OK");
    CHECK(status(node.store({node.update(1, 0, "a")})) == "FORGOTTEN");
    CHECK(status(node.store({node.update(1, 0, "a"), node.update(kMany, 0, "a")})) == "FORGOTTEN");
    CHECK(status(node.store({node.update(1, 0, "a"), node.update(kMany + 1, 0, "a")})) ==
          "OTHER_VALUE");
  }
  SECTION("as there were many others") {
    REQUIRE(missing_of(node.store({node.update(1, 0, "a")})).empty());
    REQUIRE(status(node.set("key", "v")) == "OK");
    // The keys share one of the 16 latches of the node.
    int others = 0;
    for (int i = 0; others < 64; ++i) {
      const std::string key = "key" + std::to_string(i);
      if ((hash_key(key) & 15) != (hash_key("key") & 15)) continue;
      CHECK(status(node.store({node.update(1, 0, "a")})) == "OK");
      REQUIRE(status(node.store_record(key, object_of(node.version, node.version))) == "OK");
      REQUIRE(missing_of(node.store({node.update(2, 0, "a")}, 0, {}, key)).empty());
      REQUIRE(status(node.set(key, "v")) == "OK");
      ++others;
    }
    CHECK(status(node.store({node.update(1, 0, "a")})) == "FORGOTTEN");
    CHECK(status(node.store({node.update(2, 0, "a")})) == "OTHER_VALUE");
  }
  SECTION("as others had many") {
    REQUIRE(missing_of(node.store({node.update(1, 0, "a")})).empty());
    REQUIRE(status(node.set("key", "v")) == "OK");
    int others = 0;
    for (int i = 0; others < 2; ++i) {
      const std::string key = "key" + std::to_string(i);
      if ((hash_key(key) & 15) != (hash_key("key") & 15)) continue;
      CHECK(status(node.store({node.update(1, 0, "a")})) == "OK");
      REQUIRE(status(node.store_record(key, object_of(node.version, node.version))) == "OK");
      for (uint64_t lsn = 2; lsn <= kRecentUpdates + 1; ++lsn) {
        REQUIRE(missing_of(node.store({node.update(lsn, 0, "a")}, lsn - 1, {}, key)).empty());
      }
      REQUIRE(status(node.set(key, "v")) == "OK");
      ++others;
    }
    CHECK(status(node.store({node.update(1, 0, "a")})) == "FORGOTTEN");
  }
  SECTION("as they were folded where it was not") {
    Record folded = object_of(next_block(node.version), node.version);
    folded.content.segments[0].folded_lsn = node.version + 1;
    folded.content.segments[1].folded_lsn = node.version + 2;
    REQUIRE(status(node.store_record("key", folded)) == "OK");
    SECTION("at once") {}
    SECTION("and touched") {
      REQUIRE(status(node.apply(node.request("key", Mutation::kTouch), inline_content("", 0))) ==
              "OK");
    }
    SECTION("and asked for since") {
      REQUIRE(missing_of(node.store({}, 0, {{{8, 9}, node.version + 9}})).size() == 1);
    }
    REQUIRE(status(node.apply(node.request("key", Mutation::kSet), object_content())) == "OK");
    CHECK(status(node.store({node.update(1, 0, "a")})) == "FORGOTTEN");
    CHECK(status(node.store({node.update(2, 150, "b")})) == "FORGOTTEN");
    CHECK(status(node.store({node.update(3, 0, "c")})) == "OTHER_VALUE");
  }
}

TEST_CASE("a head remembers updates that were folded before the value went") {
  LogNode node(kAsHead);
  REQUIRE(missing_of(node.store({node.update(1, 0, "a"), node.update(2, 150, "b")})).empty());
  REQUIRE(status(node.fold(1, 2)) == "OK");
  REQUIRE(node.log() == "none");
  uint64_t unknown = 3;
  SECTION("at once") {}
  SECTION("and touched") {
    REQUIRE(status(node.apply(node.request("key", Mutation::kTouch), inline_content("", 0))) ==
            "OK");
  }
  SECTION("and asked for since") {
    REQUIRE(missing_of(node.store({}, 0, {{{8, 9}, node.version + 9}})).size() == 1);
  }
  SECTION("and others came since") {
    const uint64_t later = record_of(node.read("key")).meta.version - node.version + 1;
    REQUIRE(missing_of(node.store({node.update(later, 0, "d")})).empty());
    REQUIRE(node.image().reach > node.version + 2);
    unknown = later + 1;
  }
  REQUIRE(status(node.apply(node.request("key", Mutation::kSet), object_content())) == "OK");
  CHECK(status(node.store({node.update(1, 0, "a")})) == "OK");
  CHECK(status(node.store({node.update(2, 150, "b")})) == "OK");
  CHECK(status(node.store({node.update(unknown, 0, "c")})) == "OTHER_VALUE");
}

TEST_CASE("a head that has forgotten all that came says so, too") {
  LogNode node(kAsHead);
  install_next(node, {1, 3, 0}, unsync);
  LogImage image = image_of(node, 1);
  image.reach = image.settled_to = image.last;
  image.recent.clear();
  image.unsettled.clear();
  REQUIRE(status(sync(node, encoded(image))) == "OK");
  REQUIRE(status(node.mark_synced("key", false)) == "OK");
  REQUIRE(node.image().reach == node.version + 1);
  REQUIRE(status(node.set("key", "v")) == "OK");
  CHECK(status(node.store({node.update(1, 0, "a")})) == "FORGOTTEN");
  CHECK(status(node.store({node.update(2, 0, "a")})) == "OTHER_VALUE");
}

TEST_CASE("a head that has another value answers for the names that come without bytes, too") {
  LogNode node(kAsHead);
  for (uint64_t lsn = 1; lsn <= kMany; ++lsn) {
    REQUIRE(missing_of(node.store({node.update(lsn, 0, "a")}, lsn - 1)).empty());
  }
  const auto had = node.update(kMany, 0, "a");
  const auto forgotten = node.update(1, 0, "a");
  const auto had_not = node.update(kMany + 1, 0, "a");
  REQUIRE(status(node.set("key", "v")) == "OK");
  CHECK(status(node.store({}, 0, {had.name})) == "OK");
  CHECK(status(node.store({}, 0, {had_not.name})) == "OTHER_VALUE");
  CHECK(status(node.store({}, 0, {had.name, had_not.name})) == "OTHER_VALUE");
  CHECK(status(node.store({}, 0, {forgotten.name})) == "FORGOTTEN");
  CHECK(status(node.store({}, 0, {forgotten.name, had_not.name})) == "OTHER_VALUE");
  // The copy took the update that comes only with those before it.
  CHECK(status(node.store({had}, 0, {forgotten.name})) == "OK");
  CHECK(status(node.store({had}, 0, {had_not.name})) == "OTHER_VALUE");
  CHECK(status(node.store({forgotten}, 0, {had.name})) == "FORGOTTEN");
}

TEST_CASE("other copies leave it to the head what becomes of updates of a value that is gone") {
  LogNode node(GENERATE(kAsMiddle, kAsTail));
  const uint64_t newer = next_block(node.version);
  REQUIRE(status(node.store_record("key", object_of(newer, newer))) == "OK");
  CHECK(missing_of(node.store({node.update(1, 0, "a")})).empty());
  CHECK(node.log() == "none");
  CHECK(missing_of(node.store({node.update(70'000, 0, "b")}, 0, {}, "key", newer)).empty());
  CHECK(node.log() == " | 0: b @70000");
}

TEST_CASE("a newer record takes the log of the value before with it") {
  LogNode node(GENERATE(kAsMiddle, kAsTail));
  REQUIRE(missing_of(node.store({node.update(1, 0, "a"), node.update(2, 150, "b")})).empty());
  const uint64_t newer = next_block(node.version);
  Record record = object_of(newer, node.version);
  SECTION("of the same value") {
    REQUIRE(status(node.store_record("key", record)) == "OK");
    CHECK(node.log() == " | 0: a @1, 150: b @2");
  }
  SECTION("of the same value, folded") {
    record.content.segments[0].folded_lsn = node.version + 2;
    REQUIRE(status(node.store_record("key", record)) == "OK");
    CHECK(node.log() == "150: b @2 | ");
    record.meta.version = next_block(newer);
    record.content.segments[1].folded_lsn = node.version + 2;
    REQUIRE(status(node.store_record("key", record)) == "OK");
    CHECK(node.log() == "none");
  }
  SECTION("of another value") {
    record.meta.value_version = newer;
    REQUIRE(status(node.store_record("key", record)) == "OK");
    CHECK(node.log() == "none");
  }
}

TEST_CASE("accepted updates go beyond the quota, not beyond the memory") {
  LogNode node(kAsHead, {.log_unit_bytes = 900 + LogPool::kBesideBytes, .log_units = 1},
               {.limit_bytes = 20'000, .reserve_bytes = 4'000, .buckets = 16});
  const std::string bytes(900, 'a');
  uint64_t lsn = 0;
  for (;;) {
    const Reply reply = node.store({node.update(lsn + 1, 0, bytes)});
    if (status(reply) == "NO_SPACE") break;
    REQUIRE(status(reply) == "OK");
    ++lsn;
  }
  CHECK(lsn > 5);
  CHECK(node.image().last == node.version + lsn);
  CHECK(status(node.store({node.update(lsn + 1, 0, bytes)}, lsn)) == "NO_SPACE");
  CHECK(node.image().settled_to == 0);
  // What is settled on top of each other leaves room.
  CHECK(missing_of(node.store({}, lsn)).empty());
  CHECK(missing_of(node.store({node.update(lsn + 1, 0, bytes)}, lsn)).empty());
  CHECK(node.log() == "0: " + bytes + " @" + std::to_string(lsn) + " | 0: " + bytes + " @" +
                          std::to_string(lsn + 1));
}

// Two updates under one number: one of them would be lost, and both acknowledged.
TEST_CASE("a number that another update has is refused, and changes nothing") {
  LogNode node(GENERATE(kAsHead, kAsMiddle, kAsTail));
  const auto first = node.update(1, 0, "a");
  const auto second = node.update(2, 1, "b");
  REQUIRE(missing_of(node.store({first, second}, GENERATE(uint64_t{0}, uint64_t{1}))).empty());
  const std::string before = node.log();
  const auto named = [&](uint64_t id, uint64_t lsn) {
    return UpdateName{{8, id}, node.version + lsn};
  };
  const auto renamed = [&](uint64_t id, uint64_t lsn) {
    Update update = node.update(lsn, 2, "c");
    update.name = named(id, lsn);
    return update;
  };
  SECTION("of an update that it does not know") {
    CHECK(status(node.store({renamed(9, 2)}, 2)) == "INVALID");
  }
  SECTION("of one that it knows by another number") {
    CHECK(status(node.store({renamed(2, 3)}, 3)) == "INVALID");
  }
  SECTION("of one that is named alone") {
    CHECK(status(node.store({}, 2, {named(9, 2)})) == "INVALID");
    CHECK(status(node.store({}, 3, {named(2, 3)})) == "INVALID");
  }
  SECTION("when it is told numbers") {
    for (const UpdateName& name : {named(9, 2), named(2, 3)}) {
      const LogSettleRequest request{{{"key", node.version, node.version + 2, {name}}}};
      const auto reply = args_of<LogSettleReply>(node.send(Opcode::kLogSettle, encoded(request)));
      CHECK(reply.lacking == std::vector<uint32_t>{0});
    }
  }
  CHECK(node.log() == before);
}

// One such number would count for good: nothing later outranks it.
TEST_CASE("numbers that no epoch can have assigned are refused, and change nothing") {
  LogNode node(kAsHead);
  REQUIRE(status(node.store({node.update(1, 0, "first")})) == "OK");
  const std::string before = node.log();
  const LogImage image_before = node.image();
  const bool is_just_above = GENERATE(true, false);
  const auto wrong_now = [&] { return is_just_above ? max_version(node.map) + 1 : UINT64_MAX; };
  const uint64_t wrong = wrong_now();
  const Id128 id{8, 9};
  const LogStoreRequest store{
      .m = 2, .value = node.version, .settled_to = 0, .entries = {}, .unsettled = {}, .key = "key"};
  const auto refuses = [&](LogStoreRequest request, std::string_view bytes = {}) {
    CHECK(status(node.send(Opcode::kLogStore, encoded(request), bytes)) == "INVALID");
  };
  SECTION("of an update") {
    LogStoreRequest request = store;
    request.entries = {{{id, wrong}, 0, 1, crc32c(as_view("x"))}};
    refuses(request, "x");
  }
  SECTION("of an update that is named") {
    LogStoreRequest request = store;
    request.unsettled = {{id, wrong}};
    refuses(request);
  }
  SECTION("up to which all is settled") {
    LogStoreRequest request = store;
    request.settled_to = wrong;
    refuses(request);
  }
  SECTION("that an update knows of") {
    LogStoreRequest request = store;
    request.entries = {{{id, 0}, 0, 1, crc32c(as_view("x"))}};
    request.known = wrong;
    refuses(request, "x");
  }
  SECTION("that is told alone") {
    const LogSettleRequest named{{{"key", node.version, 0, {{id, wrong}}}}};
    CHECK(status(node.send(Opcode::kLogSettle, encoded(named))) == "INVALID");
    const LogSettleRequest settled{{{"key", node.version, wrong}}};
    CHECK(status(node.send(Opcode::kLogSettle, encoded(settled))) == "INVALID");
  }
  SECTION("that what is cancelled knew of") {
    const LogCancelRequest cancel{
        .m = 2, .value = node.version, .known = wrong, .key = "key", .ids = {id}};
    CHECK(status(node.send(Opcode::kLogCancel, encoded(cancel))) == "INVALID");
  }
  SECTION("of an image of a log") {
    LogImage image = image_of(node, 5);
    install_next(node, {1, 3, 0}, unsync);
    const uint64_t above = wrong_now();
    SECTION("rank") { image.rank = above; }
    SECTION("settled_to") { image.settled_to = above; }
    SECTION("reach") { image.reach = above; }
    SECTION("recent") { image.recent.back().lsn = above; }
    SECTION("unsettled") { image.unsettled.back().lsn = above; }
    CHECK(status(sync(node, encoded(image))) == "INVALID");
  }
  CHECK(node.log() == before);
  CHECK(node.image().last == image_before.last);
  CHECK(node.image().settled_to == image_before.settled_to);
  REQUIRE(status(node.store({node.update(2, 0, "second")})) != "INVALID");
}

}  // namespace elastripe::node::test
