// Update logs at the tail, which numbers updates.
#include <set>

#include "server-patches/node/update/update_log.h"
#include "tests/unit/node/log_fixture.h"

namespace elastripe::node::test {
namespace {

// The record gets a segment of 1 MiB.
void store_large(LogNode& node) {
  RecordContent content = striped_content();
  content.segments[0].length = content.size = 1 << 20;
  content.segments[0].block_bytes = 1 << 20;
  Record record = object_of(node.version + 1, node.version);
  record.content = content;
  REQUIRE(status(node.store_record("key", record)) == "OK");
}

}  // namespace

TEST_CASE("the tail numbers updates behind the record's version, and reads have them") {
  LogNode node(kAsTail);
  CHECK(node.log() == "none");
  const Reply first = node.append(10, "first");
  CHECK(lsn_of(first) == node.version + 1);
  const auto told_first = args_of<LogAppendReply>(first);
  CHECK(told_first.settled_to == 0);
  CHECK(told_first.last == node.version + 1);
  CHECK(told_first.unsettled.empty());

  const auto second = args_of<LogAppendReply>(node.append(12, "second"));
  CHECK(second.lsn == node.version + 2);
  CHECK(second.unsettled == std::vector<UpdateName>{{{9, 1}, node.version + 1}});
  CHECK(node.log() == " | 10: first @1, 12: second @2");
  CHECK(node.log(LogWanted::kView, 11, 1) == " | 10: first @1");
  CHECK(node.log(LogWanted::kView, 0, 10) == " | ");
  CHECK(node.log(LogWanted::kNone) == "none");

  const LogImage image = node.image();
  CHECK(image.value == node.version);
  CHECK(image.last == node.version + 2);
  CHECK(image.rank == node.version + 2);
  CHECK(image.reach == node.version);
  CHECK(image.recent.size() == 2);
  CHECK(image.unsettled[1].id == Id128{9, 2});
  CHECK(image.unsettled[1].crc32c == crc32c(as_view("second")));
  // The record is as it was.
  CHECK(record_of(node.read("key", Role::kTail)).meta.version == node.version);
}

TEST_CASE("an update tells which before it are settled, and who lacks some asks for the others") {
  LogNode node(kAsTail);
  node.append(10, "first");
  node.append(20, "second");
  LogAppendRequest third = node.append_request(30);
  third.settled_to = node.version + 1;
  const auto told = args_of<LogAppendReply>(node.append(third, "third"));
  CHECK(told.settled_to == node.version + 1);
  CHECK(told.unsettled == std::vector<UpdateName>{{{9, 2}, node.version + 2}});
  CHECK(node.log() == "10: first @1 | 20: second @2, 30: third @3");
  CHECK(node.log(LogWanted::kUnsettled) == " | 20: second @2, 30: third @3");
  // What it says of another value, or of updates that there are none of, changes nothing.
  LogAppendRequest other = node.append_request(40);
  other.value = node.version - 1;
  other.settled_to = node.version + 2;
  CHECK(status(node.append(other, "fourth")) == "OTHER_VALUE");
  CHECK(node.log(LogWanted::kUnsettled) == " | 20: second @2, 30: third @3");
  LogAppendRequest beyond = node.append_request(40);
  beyond.settled_to = node.version + 9;
  CHECK(args_of<LogAppendReply>(node.append(beyond, "fourth")).settled_to == node.version + 3);
  CHECK(node.log(LogWanted::kUnsettled) == " | 40: fourth @4");
}

TEST_CASE("a log is as full as the units of its node, unless it is small") {
  LogNode node(kAsTail, {.log_unit_bytes = 64 << 10, .log_units = 4});
  store_large(node);
  const auto cost_of = [&](size_t place) {
    const auto told = args_of<LogAppendReply>(node.append(place * 4096, std::string(4096, 'x')));
    REQUIRE(told.lsn != 0);
    return told.cost;
  };
  const uint32_t first = cost_of(0);
  CHECK(first == UpdateLog::cost_of(4096));
  uint32_t last = 0;
  for (size_t place = 1; place < 40; ++place) last = cost_of(place);
  CHECK(40 * UpdateLog::cost_of(4096) < kMaxLogBytes / 8);
  CHECK(last == kMaxLogBytes / 4 * 3);  // 3 of 4 units
}

TEST_CASE("who knows the record gets the log all the same") {
  LogNode node(kAsTail);
  node.append(10, "first");
  const RecordReadRequest request{.role = Role::kTail,
                                  .m = 2,
                                  .if_version = node.version,
                                  .key = "key",
                                  .log = LogWanted::kView,
                                  .log_length = 200};
  const Reply reply = node.send(Opcode::kRecordRead, encoded(request));
  REQUIRE(status(reply) == "SAME");
  const auto args = args_of<RecordReadReply>(reply);
  const auto log = decode_log(as_view(args.log));
  REQUIRE(log);
  CHECK(told(log->unsettled, node.version) == "10: first @1");
  CHECK(log->recent.empty());
}

TEST_CASE("an update that comes again is answered again, and taken once") {
  LogNode node(kAsTail);
  const auto request = node.append_request(10);
  CHECK(lsn_of(node.append(request, "first")) == node.version + 1);
  CHECK(lsn_of(node.append(20, "second")) == node.version + 2);
  const auto again = args_of<LogAppendReply>(node.append(request, "first"));
  CHECK(again.lsn == node.version + 1);
  CHECK(again.last == node.version + 2);
  CHECK(again.unsettled.empty());
  SECTION("with other bytes") { CHECK(lsn_of(node.append(request, "other")) == node.version + 1); }
  SECTION("settled") {
    node.settle(2);
    const auto settled = args_of<LogAppendReply>(node.append(request, "first"));
    CHECK(settled.lsn == node.version + 1);
    CHECK(settled.settled_to == node.version + 2);
    CHECK(node.log() == "10: first @1, 20: second @2 | ");
    return;
  }
  SECTION("with a cas that the value does not have any more") {
    auto with_cas = request;
    with_cas.cas = node.version;
    CHECK(lsn_of(node.append(with_cas, "first")) == node.version + 1);
  }
  SECTION("knowing less than the tail remembers") {
    auto early = request;
    early.known = 0;
    CHECK(lsn_of(node.append(early, "first")) == node.version + 1);
  }
  CHECK(node.log() == " | 10: first @1, 20: second @2");
}

TEST_CASE("what is no update of the object is refused, and leaves no trace") {
  LogNode node(kAsTail);
  auto request = node.append_request(10);
  SECTION("too many bytes") {
    CHECK(status(node.append(request, std::string(kMaxLoggedBytes + 1, 'x'))) == "INVALID");
  }
  SECTION("no id") {
    request.id = {};
    CHECK(status(node.append(request, "x")) == "INVALID");
  }
  SECTION("an end beyond all numbers") {
    request.offset = UINT64_MAX;
    CHECK(status(node.append(request, "x")) == "INVALID");
  }
  SECTION("other bytes than were sent") {
    request.crc32c = crc32c(as_view("y"));
    CHECK(status(node.send(Opcode::kLogAppend, encoded(request), "x")) == "INVALID");
  }
  SECTION("beyond the end") {
    request.offset = 199;
    CHECK(status(node.append(request, "xy")) == "OUT_OF_RANGE");
    CHECK(node.log() == "none");
    CHECK(status(node.append(request, "x")) == "OK");
    return;
  }
  SECTION("of another value") {
    request.value = node.version - 1;
    const Reply refused = node.append(request, "x");
    CHECK(status(refused) == "OTHER_VALUE");
    CHECK(record_of(refused) == object_of(node.version, node.version));
  }
  SECTION("under another cas") {
    request.cas = node.version + 1;
    CHECK(status(node.append(request, "x")) == "CONDITION_FAILED");
    request.cas = node.version;
    CHECK(lsn_of(node.append(request, "x")) == node.version + 1);
    auto next = node.append_request();
    next.cas = node.version;
    CHECK(status(node.append(next, "y")) == "CONDITION_FAILED");
    next.cas = node.version + 1;
    CHECK(lsn_of(node.append(next, "y")) == node.version + 2);
    return;
  }
  SECTION("of a key that there is not") {
    request.key = "other";
    CHECK(status(node.append(request, "x")) == "NOT_FOUND");
  }
  SECTION("knowing of nothing newer than what it forgets") {
    request.known = node.version - 1;
    const Reply refused = node.append(request, "x");
    CHECK(status(refused) == "FORGOTTEN");
    CHECK(args_of<LogAppendReply>(refused).last == node.version);
    request.known = node.version;
    CHECK(lsn_of(node.append(request, "x")) == node.version + 1);
    return;
  }
  CHECK(node.log() == "none");
}

TEST_CASE("only live striped records are updated") {
  LogNode node(kAsTail);
  Record record = object_of(node.version + 5, node.version);
  SECTION("a tombstone") {
    record.content = {};
    node.store_record("key", record);
    CHECK(status(node.append(0, "x")) == "NOT_FOUND");
  }
  SECTION("expired") {
    record.content.exptime = kNowMs / 1000;
    node.store_record("key", record);
    CHECK(status(node.append(0, "x")) == "NOT_FOUND");
  }
  SECTION("expired since") {
    record.content.exptime = kNowMs / 1000 + 1;
    node.store_record("key", record);
    const auto request = node.append_request();
    const uint64_t lsn = lsn_of(node.append(request, "x"));
    CHECK(lsn == node.version + 6);
    node.now_ms += 1000;
    CHECK(status(node.append(0, "y")) == "NOT_FOUND");
    CHECK(lsn_of(node.append(request, "x")) == lsn);  // it was taken
  }
  SECTION("inline") {
    record.content = inline_content("value");
    node.store_record("key", record);
    const Reply refused = node.append(0, "x");
    CHECK(status(refused) == "OTHER_VALUE");
    CHECK(record_of(refused) == record);
  }
}

TEST_CASE("only the synced tail takes updates") {
  LogNode head(kAsHead);
  CHECK(status(head.append(0, "x")) == "NOT_HOME");
  LogNode middle(kAsMiddle);
  CHECK(status(middle.append(0, "x")) == "NOT_HOME");
  LogNode tail(kAsTail);
  ClusterMap next = make_map(2, kAsTail);
  for (Partition& partition : next.partitions) {
    partition.synced = false;
    partition.sources = {{0, 1}};
  }
  tail.install(next);
  tail.grant();
  CHECK(status(tail.append(0, "x")) == "NOT_SYNCED");
  tail.mark_synced("key", false);
  // Whatever a tail that is gone has given lies below the map's floor.
  CHECK(lsn_of(tail.append(0, "x")) == next.version_floor + 1);
}

TEST_CASE("the only home of a key has nobody to wait for") {
  LogNode node({0});
  CHECK(lsn_of(node.append(0, "first")) == node.version + 1);
  CHECK(node.log() == "0: first @1 | ");
  CHECK(args_of<LogAppendReply>(node.append(2, "second")).unsettled.empty());
  CHECK(node.log() == "0: fi @1, 2: second @2 | ");
}

TEST_CASE("who knows of too little to be told apart from one that came before is refused") {
  LogNode node(kAsTail);
  const auto first = node.append_request();
  lsn_of(node.append(first, "a"));
  for (size_t i = 0; i < kRecentUpdates; ++i) {
    const uint64_t lsn = lsn_of(node.append(0, "b"));
    node.settle(lsn - node.version);
  }
  const uint64_t last = node.version + 1 + kRecentUpdates;
  auto early = first;
  early.known = node.version;
  const Reply refused = node.append(early, "a");
  REQUIRE(status(refused) == "FORGOTTEN");
  CHECK(args_of<LogAppendReply>(refused).last == last);
  early.known = node.version + 1;
  CHECK(lsn_of(node.append(early, "a")) == last + 1);
}

TEST_CASE("numbers end with the block of the record's version") {
  LogNode node(kAsTail);
  const uint64_t end = last_of_block(node.version);
  REQUIRE(end == node.version + 65'535);
  REQUIRE(status(node.store_record("key", object_of(end - 1, node.version))) == "OK");
  auto first = node.append_request();
  first.known = end - 1;
  CHECK(lsn_of(node.append(first, "a")) == end);
  auto second = node.append_request();
  second.known = end;
  CHECK(status(node.append(second, "b")) == "RENUMBER");
  CHECK(status(node.append(second, "b")) == "RENUMBER");
  CHECK(node.log() == " | 0: a @65535");
  CHECK(node.image().recent == std::vector<UpdateName>{{first.id, end}});
  CHECK(node.image().reach == end - 1);
  SECTION("and go on behind the next version") {
    REQUIRE(status(node.store_record("key", object_of(end + 1, node.version))) == "OK");
    CHECK(node.log() == " | 0: a @65535");
    auto third = node.append_request();
    third.known = end;
    CHECK(lsn_of(node.append(third, "c")) == end + 2);
    // What was refused is new when it comes again.
    CHECK(lsn_of(node.append(second, "b")) == end + 3);
    CHECK(lsn_of(node.append(second, "b")) == end + 3);
    CHECK(node.image().recent.size() == 3);
    CHECK(lsn_of(node.append(first, "a")) == end);
  }
  SECTION("without a log, too") {
    REQUIRE(status(node.store_record("key", object_of(end + 65'536, end + 65'536))) == "OK");
    auto third = node.append_request();
    third.value = third.known = end + 65'536;
    CHECK(status(node.append(third, "c")) == "RENUMBER");
    CHECK(node.log() == "none");
    REQUIRE(status(node.store_record("key", object_of(end + 65'537, end + 65'536))) == "OK");
    CHECK(status(node.append(third, "c")) == "FORGOTTEN");
    auto fourth = node.append_request();
    fourth.value = end + 65'536;
    CHECK(lsn_of(node.append(fourth, "d")) == end + 65'538);
  }
}

TEST_CASE("a log has so many unsettled updates, and what it refuses leaves nothing behind") {
  LogNode node(kAsTail);
  for (size_t i = 0; i < kMaxUnsettled; ++i) lsn_of(node.append(i % 100, "a"));
  const auto refused = node.append_request();
  CHECK(status(node.append(refused, "b")) == "LOG_FULL");
  CHECK(status(node.append(refused, "b")) == "LOG_FULL");
  CHECK(node.image().unsettled.size() == kMaxUnsettled);
  CHECK(node.image().recent.size() == kMaxUnsettled);
  CHECK(node.image().reach == node.version);
  CHECK(node.image().last == node.version + kMaxUnsettled);
  CHECK(node.image().rank == node.version + kMaxUnsettled);
  CHECK(status(node.settle(10)) == "OK");
  CHECK(lsn_of(node.append(0, "c")) == node.version + kMaxUnsettled + 1);
  CHECK(lsn_of(node.append(refused, "b")) == node.version + kMaxUnsettled + 2);
  CHECK(lsn_of(node.append(refused, "b")) == node.version + kMaxUnsettled + 2);
}

TEST_CASE("a log has so many bytes, with what goes with each piece of them") {
  LogNode node(kAsTail, {.log_unit_bytes = 128 << 10, .log_units = 1000});
  store_large(node);
  size_t count = 0;
  SECTION("large ones") {
    const std::string bytes(kMaxLoggedBytes, 'x');
    while (status(node.append(0, bytes)) == "OK") ++count;
    CHECK(count == kMaxLogBytes / UpdateLog::cost_of(kMaxLoggedBytes));
    const size_t room = kMaxLogBytes - count * UpdateLog::cost_of(kMaxLoggedBytes);
    const size_t fits = room - UpdateLog::cost_of(0);
    CHECK(status(node.append(0, bytes.substr(0, fits + 1))) == "LOG_FULL");
    CHECK(status(node.append(0, bytes.substr(0, fits))) == "OK");
    CHECK(status(node.append(0, "x")) == "LOG_FULL");
  }
  SECTION("small ones") {
    uint64_t offset = 0;
    for (;;) {
      const Reply reply = node.append(offset += 2, "x");
      if (status(reply) != "OK") break;
      if (++count % 200 == 0) node.settle(args_of<LogAppendReply>(reply).lsn - node.version);
    }
    CHECK(count == kMaxLogBytes / UpdateLog::cost_of(1));
    CHECK(status(node.append(0, "x")) == "LOG_FULL");
  }
  const std::string bytes = node.log_bytes();
  CHECK(bytes.size() < 2 * kMaxLogBytes);
  CHECK(decode_log(as_view(bytes)).has_value());
}

TEST_CASE("the logs of a node have so many units for new updates") {
  LogNode node(kAsTail, {.log_unit_bytes = UpdateLog::cost_of(100), .log_units = 2});
  lsn_of(node.append(0, std::string(100, 'a')));
  lsn_of(node.append(0, std::string(100, 'b')));
  const auto refused = node.append_request();
  CHECK(status(node.append(refused, "c")) == "LOG_FULL");
  REQUIRE(status(node.store_record("other", object_of(node.version, node.version))) == "OK");
  auto of_other = node.append_request();
  of_other.key = "other";
  CHECK(status(node.append(of_other, "c")) == "LOG_FULL");
  CHECK(node.log_bytes(LogWanted::kImage, 0, 0, "other").empty());
  node.settle(2);  // the first has no bytes on top any more
  const std::string settled = "0: " + std::string(100, 'b') + " @2 | ";
  CHECK(node.log() == settled);
  CHECK(node.image().recent.size() == 2);
  CHECK(lsn_of(node.append(refused, "c")) == node.version + 3);
  CHECK(status(node.append(0, "d")) == "LOG_FULL");
  CHECK(node.log() == settled + "0: c @3");
}

TEST_CASE("what all copies have is told to the tail") {
  LogNode node(kAsTail);
  node.append(0, "aaaa");
  node.append(2, "bb");
  node.append(3, "c");
  CHECK(status(node.settle(2, node.version + 1)) == "OK");  // of another value
  CHECK(node.log() == " | 0: aaaa @1, 2: bb @2, 3: c @3");
  CHECK(status(node.settle(2)) == "OK");
  CHECK(node.log() == "0: aa @1, 2: bb @2 | 3: c @3");
  CHECK(node.image().settled_to == node.version + 2);
  CHECK(status(node.settle(1)) == "OK");
  CHECK(node.image().settled_to == node.version + 2);
  CHECK(status(node.settle(500)) == "OK");  // more than there is
  CHECK(node.image().settled_to == node.version + 3);
  node.append(0, "d");
  CHECK(node.log() == "0: aa @1, 2: b @2, 3: c @3 | 0: d @4");

  const LogSettleRequest many{
      std::vector<LogSettleRequest::Entry>(kMaxListEntries + 1, {"key", node.version, 1})};
  CHECK(status(node.send(Opcode::kLogSettle, encoded(many))) == "INVALID");
  LogNode head(kAsHead);
  CHECK(status(head.settle(1)) == "OK");  // it has none
}

TEST_CASE("a scan lists the logs that the node has as a tail") {
  LogNode node(kAsTail);
  CHECK(node.scan_logs().logs.empty());
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key" + std::to_string(i);
    REQUIRE(status(node.store_record(key, object_of(node.version, node.version))) == "OK");
    auto request = node.append_request();
    request.key = key;
    lsn_of(node.append(request, "abc"));
    node.clock.now_ms += 10;
    node.grant();
  }
  const auto all = node.scan_logs();
  CHECK(all.logs.size() == 20);
  CHECK(all.cursor == 0);
  for (const ScannedLog& log : all.logs) {
    CHECK(log.bytes == 3);
    CHECK(log.age_ms == 200 - 10 * std::stoull(log.key.substr(3)));
  }
  CHECK(node.scan_logs({.max_entries = 100, .min_age_ms = 150}).logs.size() == 6);
  // In slices.
  std::set<std::string> keys;
  uint64_t cursor = 0;
  int slices = 0;
  do {
    const auto slice = node.scan_logs({.cursor = cursor, .max_entries = 3});
    for (const ScannedLog& log : slice.logs) CHECK(keys.insert(log.key).second);
    CHECK((slice.cursor == 0 || slice.cursor > cursor));
    cursor = slice.cursor;
    ++slices;
  } while (cursor != 0);
  CHECK(keys.size() == 20);
  CHECK(slices > 3);
  CHECK(node.scan_logs({.cursor = UINT64_MAX, .max_entries = 3}).cursor == 0);

  const std::string scan = encoded(
      RecordScanRequest{.max_bytes = 1 << 20, .versions_only = true, .partitions = {0xff, 0xff}});
  for (const ScannedVersion& scanned :
       args_of<RecordScanReply>(node.send(Opcode::kRecordScan, scan)).versions) {
    CHECK(scanned.has_log == (scanned.key != "key"));
  }

  LogNode head(kAsHead);
  REQUIRE(status(head.store({head.update(1, 0, "a")})) == "OK");
  CHECK(head.scan_logs().logs.empty());
}

TEST_CASE("the age of a log is that of its oldest update, or since it was folded last") {
  LogNode node({0});
  const auto age = [&] {
    const auto scanned = node.scan_logs();
    REQUIRE(scanned.logs.size() == 1);
    return scanned.logs[0].age_ms;
  };
  const auto wait = [&](uint64_t ms) {
    node.clock.now_ms += ms;
    node.grant();
  };
  node.append(0, "a");
  wait(100);
  node.append(110, "b");
  wait(100);
  CHECK(age() == 200);
  REQUIRE(status(node.fold(1, 0)) == "OK");
  wait(30);
  CHECK(age() == 30);
  REQUIRE(status(node.fold(1, 2)) == "OK");
  CHECK(node.scan_logs().logs.empty());
  wait(500);
  lsn_of(node.append(0, "c"));
  CHECK(age() == 0);
}

TEST_CASE("a read tells the age of the log that it tells of") {
  LogNode node({0});
  const auto age = [&] {
    const RecordReadRequest r{.m = 2, .key = "key", .log = LogWanted::kImage};
    return args_of<RecordReadReply>(node.send(Opcode::kRecordRead, encoded(r))).log_age_ms;
  };
  CHECK(age() == 0);
  node.append(0, "a");
  node.clock.now_ms += 70;
  node.append(110, "b");
  node.clock.now_ms += 30;
  CHECK(age() == 100);
}

TEST_CASE("statistics tell what lies in logs, what was merged there, and what was refused") {
  LogNode node({0}, {.log_unit_bytes = UpdateLog::cost_of(4), .log_units = 2});
  const auto told = [&] {
    node.engine.tick();
    return node.hello().statistics;
  };
  const auto wait = [&](uint64_t ms) {
    node.clock.now_ms += ms;
    node.grant();
  };
  const NodeStatistics before = told();
  CHECK(before.logs == 0);
  CHECK(before.log_bytes == 0);
  CHECK(before.log_used_bytes == 0);
  CHECK(before.log_limit_bytes == 2 * UpdateLog::cost_of(4));
  CHECK(before.log_age_ms == 0);
  node.append(0, "abcd");
  wait(1000);
  node.append(110, "efgh");
  CHECK(status(node.append(0, "i")) == "LOG_FULL");
  const NodeStatistics full = told();
  CHECK(full.logs == 1);
  CHECK(full.log_bytes == 8);
  CHECK(full.log_used_bytes == before.log_limit_bytes);
  CHECK(full.log_age_ms == 1000);
  CHECK(full.log_refusals == 1);
  CHECK(full.log_merged_bytes == 0);
  CHECK(node.stat("log_bytes") == 8);
  CHECK(node.stat("log_age_ms") == 1000);

  REQUIRE(status(node.fold(1, 0)) == "OK");  // what it has is folded, not merged
  const uint64_t lsn = lsn_of(node.append(111, "ij"));
  wait(1000);
  const NodeStatistics folded = told();
  CHECK(folded.log_bytes == 4);
  CHECK(folded.log_age_ms == 1000);
  CHECK(folded.log_merged_bytes == 2);
  REQUIRE(status(node.fold(1, lsn - node.version)) == "OK");
  wait(1000);
  const NodeStatistics after = told();
  CHECK(after.logs == 0);
  CHECK(after.log_bytes == 0);
  CHECK(after.log_age_ms == 0);
  CHECK(after.log_merged_bytes == 2);
}

}  // namespace elastripe::node::test
