// What sync and new maps make of the update logs of a node.
#include "tests/unit/node/log_fixture.h"

namespace elastripe::node::test {

TEST_CASE("a copy that lags behind can still be told of as a whole") {
  LogNode node(kAsHead);
  // Twice as many as the tail had at any time: all but the newest of it are settled there.
  for (uint64_t lsn = 1; lsn <= 2 * kMaxUnsettled; ++lsn) {
    REQUIRE(status(node.store({node.update(lsn, 0, "a")}, 0)) == "OK");
  }
  CHECK(node.image().unsettled.size() == 2 * kMaxUnsettled);
}

TEST_CASE("sync brings no log of a key that is synced") {
  LogNode node(kAsTail);
  CHECK(status(sync(node, encoded(image_of(node, 5)))) == "OK");
  CHECK(node.log() == "none");
}

TEST_CASE("only sync brings a log, and only that of the record's value") {
  LogNode node(kAsTail);
  install_next(node, {0, 1, 3}, unsync);
  const LogImage image = image_of(node, 5);
  SECTION("not by a commit") { CHECK(status(sync(node, encoded(image), false)) == "OK"); }
  SECTION("not if it is none") { CHECK(status(sync(node, "image")) == "INVALID"); }
  SECTION("not of another value") {
    LogImage other = image;
    other.value -= 1;
    CHECK(status(sync(node, encoded(other))) == "OK");
  }
  CHECK(node.log() == "none");
}

// Another home may have synced the key by itself before the map, and have all that came since.
TEST_CASE("who stays synced outranks nobody before the sync that a map asks for") {
  LogNode node(kAsTail);
  const auto synced_in = [&] {
    const RecordReadRequest read{.m = 2, .key = "key", .log = LogWanted::kImage};
    return args_of<RecordReadReply>(node.send(Opcode::kRecordRead, encoded(read))).synced_in;
  };
  const uint32_t before = synced_in();
  install_next(node, kAsTail, unsync);
  CHECK(synced_in() == before);
  REQUIRE(status(node.mark_synced("key", true)) == "OK");
  CHECK(synced_in() == node.map.epoch.number);
}

TEST_CASE("sync brings a home the log with the record") {
  LogNode node(kAsTail);
  const std::string image = encoded(image_of(node, 5));
  install_next(node, {0, 1, 3}, unsync);
  const uint64_t floor = node.map.version_floor;
  REQUIRE(status(sync(node, image)) == "OK");
  CHECK(node.log() == " | 0: synced @1");
  CHECK(node.image().rank == floor);
  CHECK(node.image().settled_to == 0);
  CHECK(node.image().reach == node.version);
  SECTION("which from then on outranks those before") {
    REQUIRE(status(sync(node, encoded(image_of(node, 9, "others")))) == "OK");
    CHECK(node.log() == " | 0: synced @1");
  }
  SECTION("numbers are above all that were given before") {
    REQUIRE(status(node.mark_synced("key", true)) == "OK");
    auto request = node.append_request();
    request.known = floor;
    CHECK(args_of<LogAppendReply>(node.append(request, "b")).lsn == floor + 1);
    // And what came before is known.
    request.id = {8, 1};
    CHECK(args_of<LogAppendReply>(node.append(request, "synced")).lsn == node.version + 1);
  }
  SECTION("of a record that has been folded since") {
    Record folded = object_of(next_block(node.version), node.version);
    folded.content.segments[0].folded_lsn = node.version + 1;
    const std::string args =
        encoded(RecordStoreRequest{.m = 2, .sync = true, .key = "key", .log = image});
    REQUIRE(status(node.send(Opcode::kRecordStore, args, encoded(folded))) == "OK");
    CHECK(node.log() == "none");
  }
}

TEST_CASE("the log that sync has chosen takes the place of a home's, once") {
  LogNode node(kAsTail);
  const auto own = node.update(1, 0, "own");
  const auto own_too = node.update(2, 50, "too");
  REQUIRE(missing_of(node.store({own, own_too})).empty());
  install_next(node, {0, 1, 3}, unsync);
  REQUIRE(node.image().rank == node.version + 2);
  LogImage image = image_of(node, 2);
  SECTION("lower") {
    image.rank = node.version + 1;
    REQUIRE(status(sync(node, encoded(image))) == "OK");
    CHECK(node.log() == " | 0: synced @1");
  }
  SECTION("once more") {
    REQUIRE(status(sync(node, encoded(image))) == "OK");
    const std::string late = encoded(image_of(node, 3, "late"));
    REQUIRE(status(sync(node, late)) == "OK");
    CHECK(node.log() == " | 0: synced @1");
  }
  SECTION("higher") {
    image.rank = node.version + 3;
    REQUIRE(status(sync(node, encoded(image))) == "OK");
    CHECK(node.log() == " | 0: synced @1");
  }
  SECTION("higher, of another value") {
    image.rank = node.version + 3;
    image.value -= 1;
    REQUIRE(status(sync(node, encoded(image))) == "OK");
    CHECK(node.log() == " | 0: own @1, 50: too @2");
  }
  SECTION("the same, of the same updates") {
    image.last = node.version + 2;
    image.recent = {own.name, own_too.name};
    REQUIRE(status(sync(node, encoded(image))) == "OK");
    CHECK(node.log() == " | 0: own @1, 50: too @2");
  }
  SECTION("the same, without one that not all copies had") {
    image.last = node.version + 2;
    image.recent = {own_too.name};
    image.unsettled = {{own_too.name.id, own_too.name.lsn, 50, crc32c(as_view("too")), "too"}};
    REQUIRE(status(sync(node, encoded(image))) == "OK");
    CHECK(node.log() == " | 50: too @2");
  }
}

TEST_CASE("a log for which there is no memory is not synced") {
  LogNode node(kAsTail, {.log_unit_bytes = 5000}, {.limit_bytes = 4000, .reserve_bytes = 1000});
  install_next(node, {0, 1, 3}, unsync);
  const std::string image = encoded(image_of(node, 5));
  CHECK(status(sync(node, image)) == "NO_SPACE");
  CHECK(node.log() == "none");
  CHECK(status(sync(node, "")) == "OK");
}

TEST_CASE("a home that stays keeps its logs") {
  LogNode node(kAsTail);
  REQUIRE(missing_of(node.store({node.update(1, 0, "a")})).empty());
  SECTION("with the same homes") {
    install_next(node, kAsTail);
    CHECK(args_of<LogAppendReply>(node.append(0, "b")).lsn == node.version + 2);
  }
  SECTION("in another place") {
    install_next(node, kAsHead);
    CHECK(missing_of(node.store({node.update(1, 0, "a")})).empty());
  }
  SECTION("to be synced") { install_next(node, {3, 0, 1}, unsync); }
  SECTION("as a source") {
    install_next(node, {3, 2, 1}, unsync);
    node.engine.tick();
  }
  CHECK(node.log().starts_with(" | 0: a @1"));
}

TEST_CASE("a node that is neither home nor source any more forgets its logs") {
  LogNode node(kAsTail);
  REQUIRE(missing_of(node.store({node.update(1, 0, "a")})).empty());
  const uint64_t used = node.TestNode::store.memory().used_bytes;
  install_next(node, {1, 2, 3});
  const bool ticks = GENERATE(true, false);
  if (ticks) {
    for (int i = 0; i < 10; ++i) node.engine.tick();
    CHECK(node.TestNode::store.memory().used_bytes < used);
  }
  // And does not take them up again, whatever it finds.
  install_next(node, kAsTail);
  REQUIRE(status(node.store_record("key", object_of(node.version, node.version), true)) == "OK");
  CHECK(node.log() == "none");
  CHECK(node.scan_logs().logs.empty());
  CHECK(missing_of(node.store({}, 0, {{{8, 1}, node.version + 1}})).size() == 1);
}

TEST_CASE("a damaged record has no log that anybody is told of") {
  LogNode node(kAsHead);
  REQUIRE(missing_of(node.store({node.update(1, 0, "a")})).empty());
  REQUIRE(node.TestNode::store.corrupt(1) == "key");
  CHECK(status(node.store({node.update(2, 0, "b")})) == "NOT_SYNCED");
  auto blind = node.request("key", Mutation::kSet);
  blind.blind = true;
  REQUIRE(status(node.apply(blind, inline_content("v"))) == "OK");
  CHECK(status(node.store({node.update(1, 0, "a")})) == "OK");
  CHECK(status(node.store({node.update(2, 0, "b")})) == "OTHER_VALUE");
}

TEST_CASE("images of logs that contradict themselves are refused") {
  const auto takes = [](const std::function<void(LogImage&)>& change) {
    LogImage image{.value = 1,
                   .last = 9,
                   .rank = 9,
                   .settled_to = 7,
                   .reach = 5,
                   .recent = {{{1, 6}, 6}, {{1, 8}, 8}},
                   .settled = {{{}, 7, 100, 3, "settled"}, {{}, 6, 107, 4, "too"}},
                   .unsettled = {{{1, 8}, 8, 103, 5, "over it"}, {{1, 9}, 9, 0, 6, "un"}},
                   .unnumbered = {{{1, 12}, 0, 0, 7, "waits"}}};
    change(image);
    const std::string bytes = encoded(image);
    const auto back = decode_log(as_view(bytes));
    if (back) CHECK(back->unsettled == image.unsettled);
    if (back) CHECK(back->settled == image.settled);
    return back.has_value();
  };
  CHECK(takes([](LogImage&) {}));
  CHECK(takes([](LogImage& image) { image.rank = 10; }));
  CHECK_FALSE(takes([](LogImage& image) { image.rank = 8; }));
  CHECK_FALSE(takes([](LogImage& image) { image.unnumbered[0].id = {}; }));
  CHECK_FALSE(takes(
      [](LogImage& image) { image.unnumbered.assign(kMaxUnnumbered + 1, image.unnumbered[0]); }));
  CHECK_FALSE(takes([](LogImage& image) { std::swap(image.recent[0], image.recent[1]); }));
  CHECK_FALSE(takes([](LogImage& image) { image.recent[1].lsn = 6; }));
  CHECK_FALSE(takes([](LogImage& image) { image.settled[1].offset = 106; }));
  CHECK_FALSE(takes([](LogImage& image) { std::swap(image.settled[0], image.settled[1]); }));
  CHECK_FALSE(takes([](LogImage& image) { image.settled[0].bytes = {}; }));
  CHECK_FALSE(takes([](LogImage& image) { image.unsettled[1].bytes = {}; }));
  CHECK_FALSE(takes([](LogImage& image) { image.unsettled[1].lsn = 8; }));
  CHECK_FALSE(takes([](LogImage& image) { image.unsettled[1].offset = UINT64_MAX - 1; }));
  const std::string large(kMaxLoggedBytes + 1, 'x');
  CHECK_FALSE(takes([&](LogImage& image) { image.unsettled[1].bytes = large; }));
  CHECK(takes(
      [&](LogImage& image) { image.unsettled[1].bytes = std::string_view(large).substr(1); }));
  const auto of_many = [](size_t count) {
    return [count](LogImage& image) {
      image.last = image.rank = count;
      image.unsettled.clear();
      for (uint64_t lsn = 1; lsn <= count; ++lsn) {
        image.unsettled.push_back({{1, lsn}, lsn, 0, 5, "u"});
      }
    };
  };
  CHECK(takes(of_many(2 * kMaxUnsettled)));
  CHECK_FALSE(takes(of_many(2 * kMaxUnsettled + 1)));
  const auto remembers = [](size_t count) {
    return [count](LogImage& image) {
      image.recent.clear();
      for (uint64_t lsn = 1; lsn <= count; ++lsn) image.recent.push_back({{1, lsn}, lsn});
    };
  };
  CHECK(takes(remembers(kRecentUpdates)));
  CHECK_FALSE(takes(remembers(kRecentUpdates + 1)));
}

}  // namespace elastripe::node::test
