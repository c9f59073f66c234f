// Updates that a copy of a log has without a number: they came while the tail was asked for it.
// Rules 10, 13, 14 and 16 of docs/consistency.md.
#include <numeric>

#include "tests/unit/node/log_fixture.h"

namespace elastripe::node::test {
namespace {

class Copy : public LogNode {
 public:
  using LogNode::LogNode;

  // An update that knows of the record's version, and of no update.
  LogStoreReply send_ahead(uint64_t name, uint64_t offset, std::string_view bytes,
                           std::vector<UpdateName> numbers = {}) {
    LogStoreRequest request{.m = 2,
                            .value = value == 0 ? version : value,
                            .settled_to = 0,
                            .entries = {{{id(name), 0},
                                         offset,
                                         static_cast<uint32_t>(bytes.size()),
                                         crc32c(as_view(bytes))}},
                            .unsettled = std::move(numbers),
                            .key = "key",
                            .known = known == 0 ? version : known};
    const Reply reply = send(Opcode::kLogStore, encoded(request), bytes);
    REQUIRE(status(reply) == "OK");
    return args_of<LogStoreReply>(reply);
  }
  bool takes(uint64_t name, uint64_t offset, std::string_view bytes) {
    return send_ahead(name, offset, bytes).missing.empty();
  }
  UpdateName numbered(uint64_t name, uint64_t lsn) const { return {id(name), version + lsn}; }
  // True if they are all here under these numbers now.
  bool number(std::vector<UpdateName> numbers) {
    const LogSettleRequest request{{{"key", version, 0, std::move(numbers)}}};
    const Reply reply = send(Opcode::kLogSettle, encoded(request));
    REQUIRE(status(reply) == "OK");
    return args_of<LogSettleReply>(reply).lacking.empty();
  }
  Reply cancel(std::vector<uint64_t> names, uint64_t known_then = 0) {
    LogCancelRequest request{
        .m = 2, .value = version, .known = known_then, .key = "key", .ids = {}};
    for (const uint64_t name : names) request.ids.push_back(id(name));
    return send(Opcode::kLogCancel, encoded(request));
  }
  std::vector<uint64_t> cancelled(std::vector<uint64_t> names, uint64_t known_then = 0) {
    const Reply reply = cancel(std::move(names), known_then);
    REQUIRE(status(reply) == "OK");
    return args_of<LogCancelReply>(reply).lsns;
  }
  // "0: a, 5: b" of those without a number.
  std::string unnumbered(LogWanted wanted = LogWanted::kUnsettled) {
    const std::string bytes = log_bytes(wanted);
    if (bytes.empty()) return "none";
    const auto image = decode_log(as_view(bytes));
    REQUIRE(image.has_value());
    std::string out;
    for (const LogExtent& extent : image->unnumbered) {
      if (!out.empty()) out += ", ";
      out += std::to_string(extent.offset) + ": " + std::string(extent.bytes);
    }
    return out;
  }
  void install_next(std::vector<NodeId> homes, bool is_synced) {
    ClusterMap next = make_map(map.epoch.number + 1, std::move(homes));
    next.base = map.epoch;
    for (Partition& partition : next.partitions) {
      partition.synced = is_synced;
      if (!is_synced) partition.sources = {{0, 1}};
    }
    install(std::move(next));
    grant();
  }
  Reply sync(const std::string& image) {
    return send(Opcode::kRecordStore,
                encoded(RecordStoreRequest{.m = 2, .sync = true, .key = "key", .log = image}),
                encoded(object_of(version, version)));
  }

  static Id128 id(uint64_t name) { return {7, name}; }

  uint64_t value = 0;  // that updates are sent for; 0: the record's
  uint64_t known = 0;  // by them; 0: the record's version
};

}  // namespace

TEST_CASE("an update waits at a copy until it gets its number") {
  Copy copy(GENERATE(kAsHead, kAsMiddle));
  REQUIRE(copy.takes(1, 0, "aaaa"));
  REQUIRE(copy.takes(2, 2, "bb"));
  CHECK(copy.unnumbered() == "0: aaaa, 2: bb");
  CHECK(copy.log() == " | ");
  CHECK(copy.image().last == 0);
  SECTION("with the next update") {
    const auto reply = copy.send_ahead(3, 9, "c", {copy.numbered(1, 1), copy.numbered(2, 2)});
    CHECK(reply.missing.empty());
    CHECK(copy.unnumbered() == "9: c");
    CHECK(copy.number({copy.numbered(3, 3)}));
  }
  SECTION("with others that have theirs already") {
    REQUIRE(status(copy.store({copy.update(3, 9, "c")}, 0,
                              {copy.numbered(1, 1), copy.numbered(2, 2)})) == "OK");
  }
  SECTION("by itself, with its bytes once more") {
    Update first{copy.numbered(1, 1), 0, "aaaa"};
    REQUIRE(status(copy.store({first}, 0, {copy.numbered(2, 2)})) == "OK");
  }
  SECTION("from who tells only that") {
    CHECK(copy.number({copy.numbered(1, 1), copy.numbered(2, 2)}));
    CHECK(copy.number({copy.numbered(1, 1), copy.numbered(2, 2)}));
  }
  SECTION("not from who takes the node for a home") {
    copy.install_next({1, 2, 3}, true);
    const LogSettleRequest request{{{"key", copy.version, 0, {copy.numbered(1, 1)}}}};
    CHECK(status(copy.send(Opcode::kLogSettle, encoded(request))) == "NOT_HOME");
    CHECK(status(copy.cancel({1})) == "NOT_HOME");
    return;
  }
  SECTION("but not over others that are missing") {
    CHECK_FALSE(copy.number({copy.numbered(1, 1), copy.numbered(9, 2), copy.numbered(2, 3)}));
    CHECK(copy.log() == " | 0: aaaa @1");
    CHECK(copy.unnumbered() == "2: bb");
    CHECK(copy.number({copy.numbered(2, 2)}));
  }
  CHECK(copy.log().starts_with(" | 0: aaaa @1, 2: bb @2"));
}

TEST_CASE("a copy tells which updates it has put under one without a number") {
  Copy copy(kAsHead);
  const auto ahead = [&](uint64_t name, uint64_t offset, std::string_view bytes) {
    return copy.send_ahead(name, offset, bytes).ahead;
  };
  CHECK(ahead(1, 0, "aaaa").empty());
  CHECK(ahead(2, 3, "bb") == std::vector{Copy::id(1)});
  CHECK(ahead(3, 5, "c").empty());
  CHECK(ahead(4, 0, "dddddd") == std::vector{Copy::id(1), Copy::id(2), Copy::id(3)});
  CHECK(ahead(2, 3, "bb") == std::vector{Copy::id(1)});  // once more
  REQUIRE(copy.number({copy.numbered(1, 1), copy.numbered(2, 2)}));
  CHECK(ahead(5, 0, "e") == std::vector{Copy::id(4)});
}

// A sync would give it a number, and the tail would tell so of an object that was gone before.
TEST_CASE("a copy takes nothing without a number for a value that is gone") {
  Copy copy(GENERATE(kAsHead, kAsMiddle));
  REQUIRE(copy.takes(1, 0, "a"));
  SECTION("as its time was up") {
    Record expired = object_of(copy.version + 1, copy.version);
    expired.content.exptime = kNowMs / 1000;
    REQUIRE(status(copy.store_record("key", expired)) == "OK");
  }
  SECTION("as all were flushed") {
    ClusterMap next = make_map(copy.map.epoch.number + 1, copy.map.partitions[0].homes);
    next.base = copy.map.epoch;
    next.flush_floor = next.version_floor;
    copy.install(std::move(next));
    copy.grant();
  }
  CHECK_FALSE(copy.takes(2, 1, "b"));
  CHECK(copy.unnumbered() == "0: a");
  // The tail has taken it before.
  CHECK(missing_of(copy.store({copy.update(2, 1, "b")})).empty());
}

TEST_CASE("a copy takes nothing without a number that it may have had") {
  Copy copy(kAsHead);
  SECTION("of another value") {
    copy.value = copy.version - 65536;
    CHECK_FALSE(copy.takes(1, 0, "a"));
    CHECK(copy.unnumbered() == "none");
  }
  SECTION("that knows of no later version than what is in the shards") {
    copy.store({copy.update(1, 0, "a")});
    REQUIRE(status(copy.fold(1, 1)) == "OK");
    CHECK_FALSE(copy.takes(1, 0, "a"));
    copy.known = record_of(copy.read("key")).meta.version;
    CHECK(copy.takes(1, 0, "a"));
  }
  SECTION("that knows of no later update than it has forgotten") {
    for (uint64_t lsn = 1; lsn <= kRecentUpdates + 1; ++lsn) {
      copy.store({copy.update(lsn, 0, "a")}, lsn);
    }
    CHECK_FALSE(copy.takes(1, 0, "a"));
    copy.known = copy.version + 1;
    CHECK(copy.takes(1, 0, "a"));
  }
  SECTION("that it has") {
    REQUIRE(copy.takes(1, 0, "a"));
    REQUIRE(copy.number({copy.numbered(1, 1)}));
    CHECK(copy.takes(1, 0, "a"));
    CHECK(copy.unnumbered().empty());
  }
  SECTION("beside much that is not settled, which sync would have to carry") {
    const std::string bytes(20'000, 'a');
    constexpr uint64_t kMost = kMaxUnnumberedBytes / 20'000;
    for (uint64_t name = 1; name <= kMost; ++name) {
      REQUIRE(copy.takes(name, 0, bytes));
      REQUIRE(copy.number({copy.numbered(name, name)}));
    }
    CHECK_FALSE(copy.takes(100, 0, bytes));
    copy.store({Update{copy.numbered(100, kMost + 1), 0, bytes}}, kMost + 1);
    CHECK(copy.takes(101, 0, bytes));
  }
  SECTION("beside many") {
    for (uint64_t name = 1; name <= kMaxUnnumbered; ++name) CHECK(copy.takes(name, name, "a"));
    CHECK_FALSE(copy.takes(100, 0, "a"));
    REQUIRE(copy.number({copy.numbered(1, 1)}));
    CHECK(copy.takes(100, 0, "a"));
  }
  SECTION("that the cluster does not know about") {
    ClusterMap next = make_map(copy.map.epoch.number + 1, kAsHead);
    next.base = copy.map.epoch;
    next.capabilities = CapabilitySet();
    copy.install(std::move(next));
    copy.grant();
    CHECK_FALSE(copy.takes(1, 0, "a"));
  }
  SECTION("another value drops") {
    REQUIRE(copy.takes(1, 0, "a"));
    REQUIRE(status(copy.apply(copy.request("key", Mutation::kSet), object_content())) == "OK");
    CHECK(copy.unnumbered() == "none");
    CHECK_FALSE(copy.takes(1, 0, "a"));
  }
}

TEST_CASE("what is cancelled is not made") {
  SECTION("the tail takes it no more, under the same map") {
    Copy tail(kAsTail);
    auto request = tail.append_request();
    request.id = Copy::id(1);
    CHECK(tail.cancelled({1}) == std::vector<uint64_t>{0});
    CHECK(status(tail.append(request, "a")) == "FORGOTTEN");
    CHECK(tail.cancelled({1, 2}) == std::vector<uint64_t>{0, 0});
    tail.install_next(kAsTail, true);
    CHECK(status(tail.append(request, "a")) == "OK");
  }
  SECTION("but for what the tail has") {
    Copy tail(kAsTail);
    auto request = tail.append_request();
    request.id = Copy::id(1);
    REQUIRE(status(tail.append(request, "a")) == "OK");
    CHECK(tail.cancelled({2, 1}) == std::vector<uint64_t>{0, tail.version + 1});
    CHECK(tail.log() == " | 0: a @1");
  }
  SECTION("the tail does not remember any number of them, until the record has another version") {
    Copy tail(kAsTail);
    std::vector<uint64_t> names(kMaxUnnumbered);
    std::iota(names.begin(), names.end(), 1);
    CHECK(tail.cancelled(names) == std::vector<uint64_t>(kMaxUnnumbered));
    CHECK(status(tail.cancel({100})) == "NO_SPACE");
    CHECK(tail.cancelled(names) == std::vector<uint64_t>(kMaxUnnumbered));
    auto request = tail.append_request();
    request.id = Copy::id(1);
    request.known = tail.version;
    REQUIRE(status(tail.store_record("key", object_of(tail.version + 65536, tail.version))) ==
            "OK");
    CHECK(tail.cancelled({100}) == std::vector<uint64_t>{0});
    CHECK(status(tail.append(request, "a")) == "FORGOTTEN");
  }
  SECTION("a copy forgets it, and what may come later of it") {
    Copy copy(kAsHead);
    REQUIRE(copy.takes(1, 0, "a"));
    REQUIRE(copy.takes(2, 1, "b"));
    CHECK(copy.cancelled({1}, copy.version) == std::vector<uint64_t>{0});
    CHECK(copy.unnumbered() == "1: b");
    CHECK_FALSE(copy.takes(1, 0, "a"));
    copy.known = copy.version + 1;
    CHECK(copy.takes(3, 0, "c"));
  }
  SECTION("a copy that never had it refuses it when it comes") {
    Copy copy(kAsMiddle);
    CHECK(copy.cancelled({1}, copy.version) == std::vector<uint64_t>{0});
    CHECK_FALSE(copy.takes(1, 0, "a"));
    CHECK_FALSE(copy.takes(1, 0, "a"));  // nor once more
  }
  SECTION("of another value, or without an object, there is nothing to forget") {
    Copy copy(kAsHead);
    REQUIRE(status(copy.apply(copy.request("key", Mutation::kSet), object_content())) == "OK");
    CHECK(copy.cancelled({1}) == std::vector<uint64_t>{0});
    REQUIRE(status(copy.apply(copy.request("key", Mutation::kDelete))) == "OK");
    CHECK(copy.cancelled({1}) == std::vector<uint64_t>{0});
  }
}

TEST_CASE("sync gives numbers to what has none, in the order in which it came") {
  Copy old(kAsHead);
  old.store({old.update(1, 0, "aa")});
  REQUIRE(old.takes(5, 1, "bb"));
  REQUIRE(old.takes(4, 2, "cc"));
  CHECK(old.unnumbered(LogWanted::kImage).empty());  // as long as the tail gives numbers
  old.install_next({2, 1, 0}, false);
  CHECK(old.unnumbered(LogWanted::kImage) == "1: bb, 2: cc");
  const std::string image = old.log_bytes();

  Copy home(kAsHead);
  home.install_next(GENERATE(kAsMiddle, kAsTail), false);
  const uint64_t floor = home.map.version_floor - home.version;
  const auto expected =
      " | 0: aa @1, 1: bb @" + std::to_string(floor + 1) + ", 2: cc @" + std::to_string(floor + 2);
  SECTION("where there is no log") {
    REQUIRE(status(home.sync(image)) == "OK");
    CHECK(home.log() == expected);
  }
  SECTION("in the place of its own, and once") {
    REQUIRE(status(old.sync(image)) == "OK");
    CHECK(old.unnumbered().empty());
    CHECK(old.log() == expected);
    REQUIRE(status(old.sync(image)) == "OK");
    CHECK(old.log() == expected);
  }
}

TEST_CASE("a head that has updates without numbers does not compare a cas") {
  Copy head(kAsHead);
  REQUIRE(head.takes(1, 0, "a"));
  auto by_cas = head.request("key", Mutation::kSet);
  by_cas.condition = Condition::kIfValueVersion;
  by_cas.condition_argument = head.version;
  const auto refusal = [&](const RecordApplyRequest& request) {
    const Reply reply = head.apply(request, object_content());
    return status(reply) + (args_of<RecordApplyReply>(reply).has_unnumbered ? " yet" : "");
  };
  CHECK(refusal(by_cas) == "CONDITION_FAILED yet");
  auto made_of = head.on_record(Mutation::kSet);
  made_of.made_of_cas = head.version;
  CHECK(refusal(made_of) == "CONDITION_FAILED yet");
  SECTION("but one that can not be that of the value") {
    by_cas.condition_argument = head.version - 1;
    CHECK(refusal(by_cas) == "CONDITION_FAILED");
    made_of.condition_argument = head.version - 1;
    CHECK(refusal(made_of) == "CONDITION_FAILED");
    by_cas.condition_argument = head.version + 1;  // of the update, maybe
    CHECK(refusal(by_cas) == "CONDITION_FAILED yet");
  }
  SECTION("until they have some") {
    REQUIRE(head.number({head.numbered(1, 1)}));
    by_cas.attempt_id = {9, 9};
    CHECK(refusal(by_cas) == "CONDITION_FAILED");
    by_cas.condition_argument = head.version + 1;
    CHECK(refusal(by_cas) == "OK");
  }
  SECTION("or are cancelled") {
    REQUIRE(head.cancelled({1}) == std::vector<uint64_t>{0});
    by_cas.attempt_id = {9, 9};
    CHECK(refusal(by_cas) == "OK");
  }
  SECTION("but replaces the value") { CHECK(refusal(head.request("key", Mutation::kSet)) == "OK"); }
  SECTION("and gives it other shards") { CHECK(status(head.fold(0, 0)) == "OK"); }
}

TEST_CASE("a node tells what has waited long for its number") {
  Copy copy(kAsMiddle);
  REQUIRE(copy.takes(1, 0, "a"));
  CHECK(copy.scan_logs().unnumbered.empty());
  copy.clock.now_ms += 2000;
  copy.grant();
  CHECK(copy.scan_logs().unnumbered == std::vector<std::string>{"key"});
  CHECK(copy.scan_logs().logs.empty());
  REQUIRE(copy.number({copy.numbered(1, 1)}));
  CHECK(copy.scan_logs().unnumbered.empty());
}

}  // namespace elastripe::node::test
