#include <catch2/catch.hpp>
#include <deque>

#include "proxy/async/scope.h"
#include "proxy/memcache/parse.h"
#include "proxy/session/execute.h"
#include "tests/unit/session/fake_ops.h"

using namespace elastripe::objects;

namespace elastripe {
namespace {

class FixedClock : public Clock {
 public:
  TimePoint now() const override { return {}; }
  uint64_t unix_ms() const override { return unix_ms_; }
  void step(uint64_t ms) { unix_ms_ += ms; }
  Task<bool> sleep_until(TimePoint) override { co_return true; }

 private:
  uint64_t unix_ms_ = 1'000'000'000'000;
};

struct TestClient : CommandClient {
  void send(memcache::Output part) override { parts.push_back(std::move(part)); }
  void cut() override { is_cut = true; }
  bool is_gone() const override { return gone; }
  Turns& reads() override { return turns; }
  size_t& keys_read() override { return keys; }

  std::string received() const {
    std::string all;
    for (const auto& part : parts) all += part.flatten();
    return all;
  }

  const std::shared_ptr<ClientMemory>& memory() override { return client_memory; }
  bool has_room() const override { return true; }
  Task<void> room() override { co_return; }

  Turns turns;
  size_t keys = 0;
  std::shared_ptr<ClientMemory> client_memory = std::make_shared<ClientMemory>(64 << 20);
  std::vector<memcache::Output> parts;
  bool is_cut = false;
  bool gone = false;
};

Task<void> run_command(SessionContext* context, CommandClient* client, ClientCommand command,
                       std::string* reply) {
  auto output = co_await execute(*context, *client, command);
  *reply = output.flatten();
}

struct Fixture {
  std::string ask(const std::string& line, const std::string& value = "") {
    memcache::RequestParser parser;
    memcache::Request request;
    REQUIRE(parser.parse(line, request).status == memcache::ParseStatus::kRequest);
    reply.clear();
    ClientCommand command;
    command.assign(request, clock);
    command.value = &values.emplace_back(Buffer::copy_of(value));
    scope.spawn(run_command(&context, &client, std::move(command), &reply));
    return reply;
  }
  uint64_t count(Stat stat) { return server.worker(0).value(stat); }
  double unreadable_keys(const std::string& answered) {
    return registry.value("elastripe_unreadable_keys_total", {{"answered", answered}}).value();
  }

  FakeOps ops;
  std::string reply;              // of the last command that ended
  std::deque<WholeValue> values;  // that were stored
  TestClient client;
  FixedClock clock;
  MetricRegistry registry;
  ServerStats server{registry, 1};
  SessionContext context{ops, clock, server, server.worker(0), {}};
  Scope scope;
};

TEST_CASE("storage commands answer as memcached does") {
  Fixture f;
  REQUIRE(f.ask("set a 5 0 3\r\n", "one") == "STORED\r\n");
  REQUIRE(f.ask("add a 0 0 3\r\n", "two") == "NOT_STORED\r\n");
  REQUIRE(f.ask("cas a 0 0 3 99\r\n", "two") == "EXISTS\r\n");
  REQUIRE(f.ask("cas b 0 0 3 99\r\n", "two") == "NOT_FOUND\r\n");
  REQUIRE(f.ask("get a\r\n") == "VALUE a 5 3\r\none\r\nEND\r\n");
  REQUIRE(f.ask("gets a\r\n") == "VALUE a 5 3 1\r\none\r\nEND\r\n");
  REQUIRE(f.ask("get b\r\n") == "END\r\n");
  REQUIRE(f.count(Stat::kGetHits) == 2);
  REQUIRE(f.count(Stat::kGetMisses) == 1);
  REQUIRE(f.count(Stat::kCmdSet) == 4);
}

TEST_CASE("an expiry relative to now becomes absolute") {
  Fixture f;
  f.ask("set a 0 100 1\r\n", "x");
  REQUIRE(f.ops.entries["a"].exptime == 1'000'000'100);
  REQUIRE(f.ask("gat 200 a\r\n") == "VALUE a 0 1\r\nx\r\nEND\r\n");
  REQUIRE(f.ops.entries["a"].exptime == 1'000'000'200);
  REQUIRE(f.ask("touch a 300\r\n") == "TOUCHED\r\n");
  REQUIRE(f.ask("touch b 300\r\n") == "NOT_FOUND\r\n");
}

TEST_CASE("gat counts as touch, not as get") {
  Fixture f;
  f.ask("set a 0 0 1\r\n", "x");
  for (const char* line : {"gat 100 a\r\n", "gat 100 b\r\n", "get a\r\n", "get b\r\n"}) f.ask(line);
  REQUIRE(f.count(Stat::kCmdGet) == 2);
  REQUIRE(f.count(Stat::kGetHits) == 1);
  REQUIRE(f.count(Stat::kGetMisses) == 1);
  REQUIRE(f.count(Stat::kCmdTouch) == 2);
  REQUIRE(f.count(Stat::kTouchHits) == 1);
  REQUIRE(f.count(Stat::kTouchMisses) == 1);
}

TEST_CASE("counters and deletes answer as memcached does") {
  Fixture f;
  f.ask("set n 0 0 2\r\n", "41");
  f.ask("set t 0 0 2\r\n", "xx");
  REQUIRE(f.ask("incr n 1\r\n") == "42\r\n");
  REQUIRE(f.ask("incr m 1\r\n") == "NOT_FOUND\r\n");
  REQUIRE(f.ask("incr t 1\r\n") ==
          "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
  REQUIRE(f.ask("delete n\r\n") == "DELETED\r\n");
  REQUIRE(f.ask("delete n\r\n") == "NOT_FOUND\r\n");
}

TEST_CASE("a retrieval answers in the order of its keys and leaves misses out") {
  Fixture f;
  f.ask("set a 0 0 1\r\n", "1");
  f.ask("set c 0 0 1\r\n", "3");
  REQUIRE(f.ask("get c b a c\r\n") ==
          "VALUE c 0 1\r\n3\r\nVALUE a 0 1\r\n1\r\nVALUE c 0 1\r\n3\r\nEND\r\n");
}

TEST_CASE("values that can be read arrive, and an error line for keys that can not") {
  Fixture f;
  f.ask("set a 0 0 1\r\n", "1");
  f.ask("set c 0 0 1\r\n", "3");
  f.ops.failures["b"] = {ErrorCode::kLost, "more failures than the scheme survives"};
  REQUIRE(f.ask("get b\r\n") == "CLIENT_ERROR lost: more failures than the scheme survives\r\n");
  REQUIRE(f.ask("get b a b c\r\n") ==
          "VALUE a 0 1\r\n1\r\nVALUE c 0 1\r\n3\r\n"
          "CLIENT_ERROR lost: more failures than the scheme survives (2 of 4 keys)\r\n");
  REQUIRE(f.ask("mg b v k\r\n") == "CLIENT_ERROR lost: more failures than the scheme survives\r\n");
  REQUIRE_FALSE(f.client.is_cut);
  REQUIRE(f.count(Stat::kGetHits) == 2);
  REQUIRE(f.count(Stat::kGetMisses) == 0);
  REQUIRE(f.unreadable_keys("error") == 4);
  REQUIRE(f.unreadable_keys("miss") == 0);
}

TEST_CASE("a key that can not be read is a miss where its pool says so, and is counted") {
  Fixture f;
  f.ask("set a 0 0 1\r\n", "1");
  f.ops.failures["cache:b"] = {ErrorCode::kLost, "more failures than the scheme survives"};
  REQUIRE(f.ask("get cache:b\r\n") == "END\r\n");
  REQUIRE(f.ask("get cache:b a\r\n") == "VALUE a 0 1\r\n1\r\nEND\r\n");
  REQUIRE(f.ask("mg cache:b v k\r\n") == "EN kcache:b\r\n");
  REQUIRE(f.count(Stat::kGetMisses) == 3);
  REQUIRE(f.unreadable_keys("miss") == 3);
  // A proxy that serves nothing knows of no misses.
  f.ops.reason = "deposed by another proxy";
  REQUIRE(f.ask("get cache:b\r\n") == "SERVER_ERROR not serving: deposed by another proxy\r\n");
}

TEST_CASE(
    "a retrieval that does not fit into memory leaves in parts, also those behind a key that "
    "fails") {
  Fixture f;
  const std::string value(100'000, 'v');
  f.ops.limit_reads(0, 150'000);
  f.ask("set a 0 0 100000\r\n", value);
  f.ask("set b 0 0 100000\r\n", value);
  const bool fails = GENERATE(false, true);
  if (fails) f.ops.failures["c"] = {ErrorCode::kLost, "more failures than the scheme survives"};
  memcache::RequestParser parser;
  memcache::Request request;
  REQUIRE(parser.parse("get a b c\r\n", request).status == memcache::ParseStatus::kRequest);
  std::string rest;
  ClientCommand command;
  command.assign(request, f.clock);
  f.scope.spawn(run_command(&f.context, &f.client, std::move(command), &rest));
  REQUIRE(f.client.received() == "VALUE a 0 100000\r\n" + value + "\r\n");
  REQUIRE(f.scope.live() == 1);
  // Its memory comes back when it has left.
  std::exchange(f.client.parts, {}).clear();
  REQUIRE(f.scope.live() == 0);
  REQUIRE(f.client.received() == "VALUE b 0 100000\r\n" + value + "\r\n");
  REQUIRE_FALSE(f.client.is_cut);
  const std::string why = "CLIENT_ERROR lost: more failures than the scheme survives (1 of 3 keys)";
  REQUIRE(rest == (fails ? why : "END") + "\r\n");
}

TEST_CASE("errors say what is known about the outcome") {
  Fixture f;
  f.ops.failures["u"] = {ErrorCode::kUnknownOutcome, "node n1 did not answer"};
  f.ops.failures["s"] = {ErrorCode::kNoSpace, "node n1 is full"};
  f.ops.failures["l"] = {ErrorCode::kTooLarge, "too large"};
  f.ops.failures["x"] = {ErrorCode::kUnavailable, "no home answers"};
  REQUIRE(f.ask("set u 0 0 1\r\n", "1") ==
          "CLIENT_ERROR outcome unknown: node n1 did not answer\r\n");
  REQUIRE(f.ask("set s 0 0 1\r\n", "1") == "SERVER_ERROR out of memory storing object\r\n");
  REQUIRE(f.ask("set l 0 0 1\r\n", "1") == "SERVER_ERROR object too large for cache\r\n");
  REQUIRE(f.ask("get x\r\n") == "CLIENT_ERROR unavailable: no home answers\r\n");
  f.ops.reason = "deposed by another proxy";
  REQUIRE(f.ask("get x\r\n") == "SERVER_ERROR not serving: deposed by another proxy\r\n");
  // What was sent before may still take effect: that is told before why nothing is served.
  REQUIRE(f.ask("set u 0 0 1\r\n", "1") ==
          "CLIENT_ERROR outcome unknown: node n1 did not answer\r\n");
}

TEST_CASE("ms changes a part of a value, and tells what was asked for") {
  Fixture f;
  REQUIRE(f.ask("ms k 2 o1\r\n", "xy") == "NF\r\n");
  REQUIRE(f.ask("ms k 2 o1 c k Oab s\r\n", "xy") == "NF kk Oab\r\n");
  f.ask("set k 5 0 4\r\n", "abcd");
  const uint64_t cas = f.ops.entries["k"].cas;
  REQUIRE(f.ask("ms k 2 o1\r\n", "xy") == "HD\r\n");
  CHECK(f.ops.entries["k"].value == "axyd");
  CHECK(f.ops.entries["k"].flags == 5);
  REQUIRE(f.ask("ms k 1 o3 C" + std::to_string(cas) + "\r\n", "z") == "EX\r\n");
  const std::string now = std::to_string(cas + 1);
  REQUIRE(f.ask("ms k 1 o3 s c C" + now + " k\r\n", "z") ==
          "HD s4 c" + std::to_string(cas + 2) + " kk\r\n");
  CHECK(f.ops.entries["k"].value == "axyz");
  REQUIRE(f.ask("ms k 2 o3 s\r\n", "zz") == "NS s4\r\n");
  REQUIRE(f.ask("ms k 1 o0 q\r\n", "A").empty());
  REQUIRE(f.ask("ms k 5 o0 q\r\n", "ABCDE") == "NS\r\n");
  CHECK(f.ops.entries["k"].value == "Axyz");
  f.ops.failures["u"] = {ErrorCode::kUnknownOutcome, "node n1 did not answer"};
  REQUIRE(f.ask("ms u 1 o0 q\r\n", "A") ==
          "CLIENT_ERROR outcome unknown: node n1 did not answer\r\n");
}

TEST_CASE("mg tells who makes a value anew") {
  Fixture f;
  CHECK(f.ask("mg k v R30 T30\r\n") == "EN\r\n");
  CHECK(f.ask("mg k v s N60 E77 c t Oa k\r\n") == "VA 0 s0 c77 t60 Oa kk W\r\n\r\n");
  CHECK(f.ask("mg k s N60 c\r\n") == "HD s0 c77 Z\r\n");
  CHECK(f.ask("ms k 3 C77 T20\r\n", "abc") == "HD\r\n");
  CHECK(f.ask("mg k R10 v\r\n") == "VA 3\r\nabc\r\n");
  CHECK(f.ask("mg k R21 q\r\n") == "HD W\r\n");
  CHECK(f.ask("mg k R21\r\n") == "HD Z\r\n");
  CHECK(f.ask("md none I\r\n") == "NF\r\n");
  CHECK(f.ask("md k I T90 C1\r\n") == "EX\r\n");
  CHECK(f.ask("md k I T90 q\r\n").empty());
  CHECK(f.ask("get k\r\n") == "VALUE k 0 3\r\nabc\r\nEND\r\n");
  CHECK(f.ask("mg k t v\r\n") == "VA 3 t90 X W\r\nabc\r\n");
  CHECK(f.ask("mg k t\r\n") == "HD t90 Z X\r\n");
  CHECK(f.ask("ms k 3 C1 I\r\n", "old") == "HD\r\n");
  CHECK(f.ask("mg k v t\r\n") == "VA 3 t90 Z X\r\nold\r\n");
  CHECK(f.ask("md k x\r\n") == "HD\r\n");
  CHECK(f.ask("mg k v\r\n") == "VA 0\r\n\r\n");
}

TEST_CASE("mg tells of the uses before it, and may be none itself") {
  Fixture f;
  f.ask("set k 0 0 1\r\n", "x");
  CHECK(f.ask("mg k h l u\r\n") == "HD h0 l0\r\n");
  CHECK(f.ask("mg k l h\r\n") == "HD l0 h0\r\n");
  CHECK(f.ask("mg k h v\r\n") == "VA 1 h1\r\nx\r\n");
}

TEST_CASE("ms, ma and md give a cas") {
  Fixture f;
  CHECK(f.ask("ms k 1 c E12\r\n", "5") == "HD c12\r\n");
  CHECK(f.ask("mg k c\r\n") == "HD c12\r\n");
  CHECK(f.ask("ma k c E13\r\n") == "HD c13\r\n");
  CHECK(f.ask("ma n N0 c E14\r\n") == "HD c14\r\n");
  CHECK(f.ask("md k I E15\r\n") == "HD\r\n");
  CHECK(f.ask("mg k c\r\n") == "HD c15 X W\r\n");
}

TEST_CASE("the time of a store is counted under the path that its value takes") {
  Fixture f;
  f.ops.inline_bytes = 3;
  const auto count_of = [&](const std::string& path) {
    const std::string start =
        "elastripe_request_duration_seconds_count{command=\"set\",path=\"" + path + "\"} ";
    const std::string text = f.registry.text();
    const size_t at = text.find(start);
    REQUIRE(at != std::string::npos);
    return std::stoi(text.substr(at + start.size()));
  };
  f.ask("set a 0 0 3\r\n", "one");
  REQUIRE(count_of("inline") == 1);
  REQUIRE(count_of("striped") == 0);
  f.ask("set a 0 0 5\r\n", "three");
  REQUIRE(count_of("inline") == 1);
  REQUIRE(count_of("striped") == 1);
}

TEST_CASE("administrative commands answer as memcached does") {
  Fixture f;
  REQUIRE(f.ask("version\r\n") == "VERSION 1.6.18-elastripe-0.1.0\r\n");
  REQUIRE(f.ask("verbosity 1\r\n") == "OK\r\n");
  REQUIRE(f.ask("stats nonsense\r\n") == "ERROR\r\n");
  f.server.settings = [] { return StatPairs{{"admin_addr", "127.0.0.1:9211"}}; };
  REQUIRE(f.ask("stats settings\r\n") == "STAT admin_addr 127.0.0.1:9211\r\nEND\r\n");
}

TEST_CASE("all keys are listed, with what memcached tells of them") {
  Fixture f;
  REQUIRE(f.ask("lru_crawler metadump all\r\n") == "END\r\n");
  f.ops.entries = {{"a", {"abc", 5, 0, 1}}, {"b c", {"", 0, 99, 2}}};
  REQUIRE(f.ask("lru_crawler metadump all\r\n") ==
          "key=a exp=-1 la=0 cas=1 fetch=no cls=1 size=3\n"
          "key=b%20c exp=99 la=0 cas=2 fetch=no cls=1 size=0\nEND\r\n");
  REQUIRE(f.ask("stats cachedump 1 0\r\n") == "ITEM a [3 b; 0 s]\r\nEND\r\n");
  f.ops.entries["d"] = {"x", 0, 0, 3};
  REQUIRE(f.ask("stats cachedump 1 1\r\n") == "ITEM a [3 b; 0 s]\r\nEND\r\n");
  REQUIRE(f.ask("stats cachedump 2 0\r\n") == "END\r\n");
  f.context.settings.allows_dump = false;
  REQUIRE(f.ask("lru_crawler metadump all\r\n") == "ERROR metadump not allowed\r\n");
  REQUIRE(f.ask("stats cachedump 1 0\r\n") == "CLIENT_ERROR stats cachedump not allowed\r\n");
}

TEST_CASE("a long listing leaves in parts, and ends when nobody takes it") {
  Fixture f;
  for (int i = 0; i < 1000; ++i) f.ops.entries["key" + std::to_string(i)] = {"x", 0, 0, 1};
  const std::string rest = f.ask("lru_crawler metadump all\r\n");
  REQUIRE(f.client.parts.size() >= 3);
  const std::string all = f.client.received() + rest;
  REQUIRE(std::ranges::count(all, '\n') == 1001);
  f.client.parts.clear();
  f.client.gone = true;
  f.ask("lru_crawler metadump all\r\n");
  REQUIRE(f.client.parts.empty());
}

TEST_CASE("a listing that fails ends with the reason and the connection") {
  Fixture f;
  f.ops.entries["a"] = {"x", 0, 0, 1};
  f.ops.failures.emplace("list", Error{ErrorCode::kLost, "gone"});
  REQUIRE(f.ask("stats cachedump 1 0\r\n").empty());
  REQUIRE(f.client.received() == "ITEM a [1 b; 0 s]\r\nCLIENT_ERROR lost: gone\r\n");
  REQUIRE(f.client.is_cut);
}

TEST_CASE("one listing runs at a time") {
  Fixture f;
  f.ops.slow = {"list"};
  REQUIRE(f.ask("lru_crawler metadump all\r\n").empty());
  REQUIRE(f.ask("lru_crawler metadump all\r\n") == "BUSY currently processing crawler request\r\n");
  f.ops.slow.clear();
  f.ops.turnstile.let_through();
  REQUIRE(f.ask("lru_crawler metadump all\r\n") == "END\r\n");
}

TEST_CASE("stats answer wherever memcached's do, with what is known") {
  Fixture f;
  for (const char* list : {"items", "items x", "conns", "cachedump 2 100", "detail dump"}) {
    CAPTURE(list);
    REQUIRE(f.ask("stats " + std::string(list) + "\r\n") == "END\r\n");
  }
  REQUIRE(f.ask("stats sizes\r\n") == "STAT sizes_status disabled\r\nEND\r\n");
  REQUIRE(f.ask("stats detail on\r\n") == "OK\r\n");
  REQUIRE(f.ask("stats detail\r\n") == "CLIENT_ERROR usage: stats detail on|off|dump\r\n");
  REQUIRE(f.ask("stats sizesx\r\n") == "ERROR\r\n");
  REQUIRE(f.registry.value("elastripe_commands_total",
                           {{"command", "stats"}, {"status", "client_error"}}) == 2);
  f.server.stored = [] { return StoredItems{7, 1000, 2000, 5000}; };
  const std::string general = f.ask("stats\r\n");
  for (const char* line : {"curr_items 7", "bytes 1000", "limit_maxbytes 5000", "evictions 0"}) {
    CAPTURE(line);
    REQUIRE(general.find("STAT " + std::string(line) + "\r\n") != std::string::npos);
  }
  REQUIRE(f.ask("stats slabs\r\n") == "STAT active_slabs 0\r\nSTAT total_malloced 2000\r\nEND\r\n");
}

TEST_CASE("stats count stores, refused ones too, and meta commands") {
  Fixture f;
  f.ops.failures["full"] = {ErrorCode::kNoSpace, "node n1 is full"};
  f.ops.failures["large"] = {ErrorCode::kTooLarge, "too large"};
  f.ask("set a 0 0 1\r\n", "1");
  f.ask("add a 0 0 1\r\n", "1");
  f.ask("set full 0 0 1\r\n", "1");
  f.ask("set large 0 0 1\r\n", "1");
  f.ask("mg a v\r\n");
  REQUIRE(f.count(Stat::kTotalItems) == 1);
  REQUIRE(f.count(Stat::kStoreNoMemory) == 1);
  REQUIRE(f.count(Stat::kStoreTooLarge) == 1);
  REQUIRE(f.count(Stat::kCmdMeta) == 1);
}

TEST_CASE("flush_all flushes at once, later, or not at all") {
  Fixture f;
  f.ask("set a 0 0 1\r\n", "x");
  REQUIRE(f.ask("flush_all 100\r\n") == "OK\r\n");
  REQUIRE(f.ask("flush_all 2000000000\r\n") == "OK\r\n");
  REQUIRE(f.ops.started ==
          std::vector<std::string>{"store a", "flush_all 1000000100", "flush_all 2000000000"});
  REQUIRE(f.ask("get a\r\n") != "END\r\n");
  REQUIRE(f.ask("flush_all -5\r\n") == "OK\r\n");
  REQUIRE(f.ops.started.back() == "flush_all 0");
  REQUIRE(f.ask("get a\r\n") == "END\r\n");
  f.ops.failures["flush_all"] = {ErrorCode::kUnknownOutcome, "deposed"};
  REQUIRE(f.ask("flush_all\r\n") == "CLIENT_ERROR outcome unknown: deposed\r\n");
  REQUIRE(f.count(Stat::kCmdFlush) == 4);
  f.context.settings.allows_flush = false;
  REQUIRE(f.ask("flush_all\r\n") == "CLIENT_ERROR flush_all not allowed\r\n");
  REQUIRE(f.count(Stat::kCmdFlush) == 5);
}

TEST_CASE("mg tells the time to live as of its answer") {
  Fixture f;
  f.ops.entries["k"] = {.value = "v", .exptime = 1'000'000'100, .cas = 1};
  f.ops.slow.insert("k");
  CHECK(f.ask("mg k v t\r\n").empty());
  f.clock.step(40'000);
  f.ops.turnstile.let_through();
  CHECK(f.reply == "VA 1 t60\r\nv\r\n");
}

TEST_CASE("stats reset starts the counts of stats again, not the metrics") {
  Fixture f;
  f.ask("get a\r\n");
  REQUIRE(f.ask("stats\r\n").find("STAT get_misses 1\r\n") != std::string::npos);
  REQUIRE(f.ask("stats reset\r\n") == "RESET\r\n");
  f.ask("get a\r\n");
  f.ask("get a\r\n");
  REQUIRE(f.ask("stats\r\n").find("STAT get_misses 2\r\n") != std::string::npos);
  REQUIRE(f.ask("stats reset\r\n") == "RESET\r\n");
  REQUIRE(f.ask("stats\r\n").find("STAT get_misses 0\r\n") != std::string::npos);
  REQUIRE(f.registry.value("elastripe_commands_total", {{"command", "get"}, {"status", "miss"}}) ==
          3);
}

}  // namespace
}  // namespace elastripe
