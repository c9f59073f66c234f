#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch2/catch.hpp"
#include "proxy/base/check.h"
#include "tests/sim/history_file.h"
#include "tests/sim/linearizability.h"

namespace elastripe::sim {
namespace {

// A little language: op(verb, from, to, answer) with the fields that matter set afterwards.
Operation op(Verb verb, uint64_t invoked, uint64_t returned, Answer answer,
             std::string value = {}) {
  Operation operation;
  operation.verb = verb;
  operation.key = "k";
  operation.invoked = invoked;
  operation.returned = returned;
  operation.invoked_ms = invoked * 1000;
  operation.returned_ms = returned == UINT64_MAX ? UINT64_MAX : returned * 1000;
  operation.answer = answer;
  (verb == Verb::kGet ? operation.read_value : operation.value) = std::move(value);
  return operation;
}
Operation set(uint64_t from, uint64_t to, std::string value) {
  return op(Verb::kSet, from, to, Answer::kDone, std::move(value));
}
Operation unknown_set(uint64_t from, std::string value) {
  return op(Verb::kSet, from, UINT64_MAX, Answer::kUnknown, std::move(value));
}
Operation hit(uint64_t from, uint64_t to, std::string value) {
  return op(Verb::kGet, from, to, Answer::kHit, std::move(value));
}
Operation miss(uint64_t from, uint64_t to) { return op(Verb::kGet, from, to, Answer::kMiss); }
Operation removed(uint64_t from, uint64_t to) { return op(Verb::kDelete, from, to, Answer::kDone); }
Operation cas(uint64_t from, uint64_t to, std::string expected, std::string value, Answer answer) {
  Operation operation = op(Verb::kCas, from, to, answer, std::move(value));
  operation.expected = std::move(expected);
  return operation;
}
Operation count(uint64_t from, uint64_t to, uint64_t delta, uint64_t number) {
  Operation operation = op(Verb::kIncrement, from, to, Answer::kDone);
  operation.delta = delta;
  operation.number = number;
  return operation;
}
Operation expiring(uint64_t from, uint64_t to, std::string value, uint32_t exptime) {
  Operation operation = set(from, to, std::move(value));
  operation.exptime = exptime;
  return operation;
}

bool linearizable(const History& history) {
  return check_key(history, "k").verdict == Verdict::kLinearizable;
}

TEST_CASE("a flush is a delete of every key at one moment") {
  const auto flush = [](uint64_t from, uint64_t to, Answer answer) {
    Operation operation = op(Verb::kFlush, from, to, answer);
    operation.key.clear();
    return operation;
  };
  CHECK(linearizable({set(1, 2, "a"), flush(3, 4, Answer::kDone), miss(5, 6)}));
  CHECK_FALSE(linearizable({set(1, 2, "a"), flush(3, 4, Answer::kDone), hit(5, 6, "a")}));
  CHECK(linearizable({set(1, 2, "a"), flush(3, 8, Answer::kDone), hit(5, 6, "a"), miss(9, 10)}));
  CHECK_FALSE(
      linearizable({set(1, 2, "a"), flush(3, 9, Answer::kDone), miss(4, 5), hit(6, 7, "a")}));
  CHECK(linearizable({flush(1, 2, Answer::kDone), miss(3, 4)}));
  const Operation unknown = flush(3, UINT64_MAX, Answer::kUnknown);
  CHECK(linearizable({set(1, 2, "a"), unknown, hit(5, 6, "a"), miss(7, 8)}));
  CHECK(linearizable({set(1, 2, "a"), unknown, hit(5, 6, "a")}));
  CHECK_FALSE(linearizable({set(1, 2, "a"), flush(3, 4, Answer::kNone), miss(5, 6)}));

  const auto of = [](std::string key, Operation operation) {
    operation.key = std::move(key);
    return operation;
  };
  const std::vector<std::string> keys = {"k", "l"};
  const auto together = [&](const History& history) {
    return check_keys(history, keys, 1000).verdict == Verdict::kLinearizable;
  };
  const History both = {set(1, 2, "a"), of("l", set(1, 2, "b")), flush(3, 20, Answer::kDone)};
  History seen_twice = both;
  seen_twice.insert(seen_twice.end(), {miss(4, 5), of("l", miss(6, 7))});
  CHECK(together(seen_twice));
  History seen_once = both;  // each key by itself could be as it was read
  seen_once.insert(seen_once.end(), {miss(4, 5), of("l", hit(6, 7, "b"))});
  CHECK(linearizable(seen_once));
  CHECK_FALSE(together(seen_once));
}

TEST_CASE("a read that broke off, or of a range, has a part of one value that was there") {
  const auto part = [](Answer answer, uint64_t from, uint64_t offset, std::string bytes) {
    Operation read = op(Verb::kGet, from, from + 1, answer, std::move(bytes));
    read.read_size = 6;
    read.offset = offset;
    read.length = 3;
    return read;
  };
  const History written{set(1, 2, "abcdef"), set(10, 11, "uvwxyz")};
  const auto explains = [&](Operation read) {
    History history = written;
    history.push_back(std::move(read));
    return linearizable(history);
  };
  REQUIRE(explains(part(Answer::kHit, 4, 2, "cde")));
  REQUIRE(explains(part(Answer::kHit, 12, 4, "yz")));
  REQUIRE(explains(part(Answer::kHit, 12, 9, "")));
  REQUIRE_FALSE(explains(part(Answer::kHit, 4, 2, "cd")));
  REQUIRE_FALSE(explains(part(Answer::kHit, 4, 2, "wxy")));
  REQUIRE(explains(part(Answer::kCutOff, 4, 2, "cd")));
  REQUIRE(explains(part(Answer::kCutOff, 12, 2, "")));
  REQUIRE_FALSE(explains(part(Answer::kCutOff, 12, 2, "cd")));
  REQUIRE_FALSE(explains(part(Answer::kCutOff, 12, 2, "wy")));
  REQUIRE_FALSE(explains(part(Answer::kCutOff, 12, 2, "wxyz")));
}

TEST_CASE("sequential reads and writes are linearizable") {
  REQUIRE(linearizable({miss(1, 2), set(3, 4, "a"), hit(5, 6, "a"), removed(7, 8), miss(9, 10)}));
}

TEST_CASE("a stale read is rejected") {
  REQUIRE_FALSE(linearizable({set(1, 2, "a"), set(3, 4, "b"), hit(5, 6, "a")}));
}

TEST_CASE("a lost write is rejected") { REQUIRE_FALSE(linearizable({set(1, 2, "a"), miss(3, 4)})); }

TEST_CASE("a value that nobody wrote is rejected") {
  REQUIRE_FALSE(linearizable({set(1, 2, "a"), set(1, 2, "b"), hit(3, 4, "ab")}));
}

TEST_CASE("concurrent writes may go in either order, but all readers agree on it") {
  REQUIRE(linearizable({set(1, 4, "a"), set(2, 3, "b"), hit(5, 6, "a")}));
  REQUIRE(linearizable({set(1, 4, "a"), set(2, 3, "b"), hit(5, 6, "b")}));
  REQUIRE_FALSE(linearizable({set(1, 4, "a"), set(2, 3, "b"), hit(5, 6, "a"), hit(7, 8, "b")}));
}

TEST_CASE("a read during a write may see the old or the new value, but not new then old") {
  REQUIRE(linearizable({set(1, 2, "a"), set(3, 10, "b"), hit(4, 5, "a"), hit(6, 7, "b")}));
  REQUIRE_FALSE(linearizable({set(1, 2, "a"), set(3, 10, "b"), hit(4, 5, "b"), hit(6, 7, "a")}));
}

TEST_CASE("an unknown write may take effect late, or never, but not twice") {
  const History never{set(1, 2, "a"), unknown_set(3, "b"), hit(4, 5, "a")};
  REQUIRE(linearizable(never));
  const History late{set(1, 2, "a"), unknown_set(3, "b"), hit(4, 5, "a"), hit(6, 7, "b")};
  REQUIRE(linearizable(late));
  const History twice{set(1, 2, "a"), unknown_set(3, "b"), hit(4, 5, "b"), set(6, 7, "c"),
                      hit(8, 9, "b")};
  REQUIRE_FALSE(linearizable(twice));
}

TEST_CASE("an unknown write does not take effect before it was asked for") {
  REQUIRE_FALSE(linearizable({set(1, 2, "a"), hit(3, 4, "b"), unknown_set(5, "b")}));
}

TEST_CASE("a write that reported failure must not be seen") {
  REQUIRE_FALSE(linearizable(
      {set(1, 2, "a"), op(Verb::kAdd, 3, 4, Answer::kNotStored, "b"), hit(5, 6, "b")}));
  REQUIRE_FALSE(linearizable({op(Verb::kAdd, 3, 4, Answer::kNotStored, "b"), miss(5, 6)}));
}

TEST_CASE("operations without information are ignored") {
  REQUIRE(linearizable({set(1, 2, "a"), op(Verb::kSet, 3, 4, Answer::kNone, "b"), hit(5, 6, "a")}));
  REQUIRE_FALSE(
      linearizable({set(1, 2, "a"), op(Verb::kSet, 3, 4, Answer::kNone, "b"), hit(5, 6, "b")}));
}

TEST_CASE("an append that is applied twice is rejected") {
  const auto append = op(Verb::kAppend, 3, 4, Answer::kDone, "+");
  REQUIRE(linearizable({set(1, 2, "a"), append, hit(5, 6, "a+")}));
  REQUIRE_FALSE(linearizable({set(1, 2, "a"), append, hit(5, 6, "a++")}));
  REQUIRE_FALSE(linearizable({set(1, 2, "a"), append, hit(5, 6, "a")}));
  const auto prepend = op(Verb::kPrepend, 3, 4, Answer::kDone, "-");
  REQUIRE(linearizable({set(1, 2, "a"), prepend, hit(5, 6, "-a")}));
}

TEST_CASE("an update changes its bytes, once, and none beyond the end") {
  const auto update = [](uint64_t from, uint64_t to, uint64_t offset, std::string bytes,
                         Answer answer, std::string expected = {}) {
    Operation operation = op(Verb::kUpdate, from, to, answer, std::move(bytes));
    operation.offset = offset;
    operation.cas = expected.empty() ? 0 : 1;
    operation.expected = std::move(expected);
    return operation;
  };
  const auto first = set(1, 2, "abcd");
  const auto xy = update(3, 4, 1, "xy", Answer::kDone);
  REQUIRE(linearizable({first, xy, hit(5, 6, "axyd")}));
  REQUIRE_FALSE(linearizable({first, xy, hit(5, 6, "abcd")}));
  REQUIRE_FALSE(linearizable({first, xy, hit(5, 6, "axcd")}));  // torn
  REQUIRE(linearizable({first, update(3, UINT64_MAX, 1, "xy", Answer::kUnknown), hit(5, 6, "abcd"),
                        hit(7, 8, "axyd")}));
  REQUIRE(linearizable({first, update(3, 4, 3, "xy", Answer::kNotStored), hit(5, 6, "abcd")}));
  REQUIRE_FALSE(linearizable({first, update(3, 4, 2, "xy", Answer::kNotStored)}));
  REQUIRE_FALSE(linearizable({first, update(3, 4, 3, "xy", Answer::kDone)}));
  REQUIRE(linearizable({first, xy, update(5, 6, 0, "z", Answer::kExists, "abcd")}));
  REQUIRE_FALSE(linearizable({first, xy, update(5, 6, 0, "z", Answer::kDone, "abcd")}));
  REQUIRE(linearizable({first, removed(3, 4), update(5, 6, 0, "z", Answer::kNotFound)}));
}

TEST_CASE("only one of two cas on the same value succeeds") {
  const auto first = cas(3, 6, "a", "b", Answer::kDone);
  REQUIRE(linearizable({set(1, 2, "a"), first, cas(4, 7, "a", "c", Answer::kExists)}));
  REQUIRE_FALSE(linearizable({set(1, 2, "a"), first, cas(4, 7, "a", "c", Answer::kDone)}));
  REQUIRE_FALSE(linearizable({set(1, 2, "a"), cas(3, 4, "a", "b", Answer::kExists)}));
  REQUIRE(linearizable({set(1, 2, "a"), removed(3, 4), cas(5, 6, "a", "b", Answer::kNotFound)}));
}

TEST_CASE("counters add up") {
  REQUIRE(linearizable({set(1, 2, "10"), count(3, 6, 5, 17), count(4, 7, 2, 12), hit(8, 9, "17")}));
  REQUIRE_FALSE(linearizable({set(1, 2, "10"), count(3, 6, 5, 15), count(4, 7, 2, 12)}));
  REQUIRE_FALSE(linearizable({set(1, 2, "x"), count(3, 6, 5, 15)}));
  REQUIRE(linearizable({set(1, 2, "x"), op(Verb::kIncrement, 3, 4, Answer::kNotNumber)}));
}

TEST_CASE("an expired value is a miss and a live one is not") {
  REQUIRE(linearizable({expiring(1, 2, "a", 5), hit(3, 4, "a"), miss(6, 7)}));
  REQUIRE_FALSE(linearizable({expiring(1, 2, "a", 5), miss(3, 4)}));
  REQUIRE_FALSE(linearizable({expiring(1, 2, "a", 5), hit(6, 7, "a")}));
  REQUIRE(linearizable({expiring(1, 2, "a", 5), hit(4, 6, "a")}));
  REQUIRE(linearizable({expiring(1, 2, "a", 5), miss(4, 6)}));
}

TEST_CASE("a touch moves the expiry and nothing else") {
  Operation touch = op(Verb::kTouch, 3, 4, Answer::kDone);
  touch.exptime = 9;
  REQUIRE(linearizable({expiring(1, 2, "a", 5), touch, hit(6, 7, "a"), miss(10, 11)}));
  REQUIRE_FALSE(linearizable({touch, hit(6, 7, "a")}));
}

TEST_CASE("other keys do not matter") {
  Operation other = set(3, 4, "b");
  other.key = "other";
  REQUIRE(linearizable({set(1, 2, "a"), other, hit(5, 6, "a")}));
}

TEST_CASE("a long history with many unknown writes is decided") {
  History history;
  uint64_t time = 1;
  std::string last;
  for (int i = 0; i < 60; ++i) {
    last = std::to_string(i);
    history.push_back(set(time, time + 1, last));
    if (i % 6 == 0) history.push_back(unknown_set(time, "u" + last));
    history.push_back(hit(time + 2, time + 3, last));
    time += 4;
  }
  REQUIRE(linearizable(history));
  history.push_back(hit(time, time + 1, "3"));
  REQUIRE(check_key(history, "k").verdict == Verdict::kNotLinearizable);
}

TEST_CASE("the check names the operation that no order explains") {
  const Check check = check_key({set(1, 2, "a"), miss(3, 4), hit(5, 6, "a")}, "k");
  REQUIRE(check.verdict == Verdict::kNotLinearizable);
  REQUIRE(check.stuck_at == 1);
}

TEST_CASE("a transition explains nothing, however it ends") {
  const auto transition = [](Answer answer) {
    return op(Verb::kTransition, 2, answer == Answer::kUnknown ? UINT64_MAX : 4, answer);
  };
  for (const Answer answer : {Answer::kDone, Answer::kUnknown}) {
    REQUIRE(linearizable({set(1, 3, "a"), transition(answer), hit(5, 6, "a")}));
    REQUIRE_FALSE(linearizable({set(1, 3, "a"), transition(answer), miss(5, 6)}));
  }
}

TEST_CASE("cas uniques follow values and never go back") {
  const auto read = [](uint64_t from, std::string value, uint64_t unique) {
    Operation operation = hit(from, from + 1, std::move(value));
    operation.cas = unique;
    return operation;
  };
  REQUIRE(check_cas_uniques({read(1, "a", 1), read(3, "a", 1), read(5, "b", 2)}, "k").empty());
  REQUIRE_FALSE(check_cas_uniques({read(1, "a", 1), read(3, "a", 2)}, "k").empty());
  REQUIRE_FALSE(check_cas_uniques({read(1, "a", 1), read(3, "b", 1)}, "k").empty());
  REQUIRE_FALSE(check_cas_uniques({read(1, "a", 5), read(3, "b", 2)}, "k").empty());
}

TEST_CASE("a line of a history file has what another checker needs") {
  Operation write = set(1, 3, "a\n\"b");
  write.client = 2;
  write.exptime = 9;
  CHECK(to_json(write) ==
        R"({"client":2,"key":"k","verb":"set","value":"a\n\"b","exptime":9,"answer":"done",)"
        R"("call":1,"call_ms":1000,"return":3,"return_ms":3000})");
  Operation range = hit(5, 6, "bc");
  range.offset = 1;
  range.length = 2;
  range.read_size = 4;
  CHECK(to_json(range) ==
        R"({"client":0,"key":"k","verb":"get","offset":1,"length":2,"answer":"hit",)"
        R"("read_value":"bc","read_flags":0,"read_size":4,"call":5,"call_ms":5000,"return":6,)"
        R"("return_ms":6000})");
  const std::string open = to_json(op(Verb::kDelete, 7, UINT64_MAX, Answer::kUnknown));
  CHECK(open.find("return") == std::string::npos);
  CHECK(open.find(R"("answer":"unknown")") != std::string::npos);
}

Result<History> read_lines(const std::string& lines) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("elastripe-history-" + std::to_string(::getpid()) + ".jsonl");
  std::ofstream(path) << lines;
  auto history = read_history(path);
  std::filesystem::remove(path);
  return history;
}

TEST_CASE("a history file is read as it was written") {
  Operation range = hit(5, 6, "bc");
  range.offset = 1;
  range.length = 2;
  range.read_size = 4;
  Operation update = op(Verb::kUpdate, 7, UINT64_MAX, Answer::kUnknown);
  update.value = "x";
  update.cas = 1;
  update.expected = "abcd";
  std::string lines;
  for (const Operation& operation : {set(1, 3, "abcd"), range, update, miss(8, 9)}) {
    lines += to_json(operation) + '\n';
  }
  const auto history = read_lines(lines);
  REQUIRE(history);
  std::string again;
  for (const Operation& operation : *history) again += to_json(operation) + '\n';
  CHECK(again == lines);
  for (const char* bad :
       {"{", "[]", R"({"client":1})",
        R"({"client":1,"key":"k","verb":"eat","answer":"hit","call":1,"call_ms":1})",
        R"({"client":1,"key":"k","verb":"get","answer":"hit","call":1,"call_ms":1})"}) {
    const auto read = read_lines(lines + bad + '\n');
    REQUIRE_FALSE(read);
    CHECK(read.error().message.find(":5: ") != std::string::npos);
  }
  CHECK(read_history("/nowhere").error().code == ErrorCode::kNotFound);
}

TEST_CASE("a history is judged key by key") {
  History history{set(1, 3, "a"), hit(5, 6, "a")};
  Operation stale = miss(7, 8);
  stale.key = "other";
  Operation other = set(1, 3, "b");
  other.key = "other";
  history.push_back(other);
  CHECK(judge(history).refused.empty());
  history.push_back(stale);
  Judgement judgement = judge(history);
  CHECK(judgement.keys == 2);
  REQUIRE(judgement.refused.size() == 1);
  CHECK(judgement.refused.front().find("get other -> miss") != std::string::npos);
  CHECK(judgement.undecided.empty());
  for (uint64_t i = 0; i < 600; ++i) history.push_back(hit(10 + 2 * i, 11 + 2 * i, "a"));
  judgement = judge(history);
  CHECK(judgement.undecided == std::vector<std::string>{"k"});
  CHECK(judgement.refused.size() == 1);
}

TEST_CASE("numbers are read and written as memcached does") {
  uint64_t number = 0;
  REQUIRE(parse_number("12", number));
  REQUIRE(number == 12);
  REQUIRE(parse_number("9  ", number));
  REQUIRE(number == 9);
  REQUIRE_FALSE(parse_number("1a", number));
  REQUIRE_FALSE(parse_number("", number));
  REQUIRE_FALSE(parse_number("123456789012345678901", number));
  REQUIRE(counter_text(9, 2) == "9 ");
  REQUIRE(counter_text(100, 2) == "100");
}

}  // namespace
}  // namespace elastripe::sim
