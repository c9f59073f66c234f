#include <catch2/catch.hpp>

#include "proxy/async/scope.h"
#include "proxy/memcache/parse.h"
#include "proxy/session/execute.h"
#include "tests/unit/session/fake_ops.h"

namespace elastripe {
namespace {

class FixedClock : public Clock {
 public:
  TimePoint now() const override { return {}; }
  uint64_t unix_ms() const override { return 1'000'000'000'000; }
  Task<bool> sleep_until(TimePoint) override { co_return true; }
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

  const std::shared_ptr<ReadBudget>& read_budget() override { return budget; }

  Turns turns;
  size_t keys = 0;
  std::shared_ptr<ReadBudget> budget = std::make_shared<ReadBudget>(64 << 20, 0);
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
    ClientCommand command;
    command.assign(request);
    WholeValue in_parts(Buffer::copy_of(value));
    if (ops.stripes(command.key, value.size())) {
      command.source = &in_parts;
    } else {
      command.value = Buffer::copy_of(value);
    }
    std::string reply;
    scope.spawn(run_command(&context, &client, std::move(command), &reply));
    return reply;
  }
  uint64_t count(Stat stat) { return server.worker(0).value(stat); }

  FakeOps ops;
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

TEST_CASE("a retrieval with a key that fails is one error and no value") {
  Fixture f;
  f.ask("set a 0 0 1\r\n", "1");
  f.ops.failures["b"] = {ErrorCode::kLost, "more failures than the scheme survives"};
  REQUIRE(f.ask("get a b\r\n") == "SERVER_ERROR lost: more failures than the scheme survives\r\n");
}

TEST_CASE("a retrieval that does not fit into memory leaves in parts, and ends where a key fails") {
  Fixture f;
  const std::string value(2000, 'v');
  f.ops.budget.emplace(0, 3000);
  f.ask("set a 0 0 2000\r\n", value);
  f.ask("set b 0 0 2000\r\n", value);
  const bool fails = GENERATE(false, true);
  if (fails) f.ops.failures["c"] = {ErrorCode::kLost, "more failures than the scheme survives"};
  memcache::RequestParser parser;
  memcache::Request request;
  REQUIRE(parser.parse("get a b c\r\n", request).status == memcache::ParseStatus::kRequest);
  std::string rest;
  ClientCommand command;
  command.assign(request);
  f.scope.spawn(run_command(&f.context, &f.client, std::move(command), &rest));
  REQUIRE(f.client.received() == "VALUE a 0 2000\r\n" + value + "\r\n");
  REQUIRE(f.scope.live() == 1);
  // Its memory comes back when it has left.
  std::exchange(f.client.parts, {}).clear();
  REQUIRE(f.scope.live() == 0);
  REQUIRE(f.client.received() == "VALUE b 0 2000\r\n" + value + "\r\n");
  REQUIRE(f.client.is_cut == fails);
  REQUIRE(rest == (fails ? "" : "END\r\n"));
}

TEST_CASE("errors say what is known about the outcome") {
  Fixture f;
  f.ops.failures["u"] = {ErrorCode::kUnknownOutcome, "node n1 did not answer"};
  f.ops.failures["s"] = {ErrorCode::kNoSpace, "node n1 is full"};
  f.ops.failures["l"] = {ErrorCode::kTooLarge, "too large"};
  f.ops.failures["x"] = {ErrorCode::kUnavailable, "no home answers"};
  REQUIRE(f.ask("set u 0 0 1\r\n", "1") ==
          "SERVER_ERROR outcome unknown: node n1 did not answer\r\n");
  REQUIRE(f.ask("set s 0 0 1\r\n", "1") == "SERVER_ERROR out of memory storing object\r\n");
  REQUIRE(f.ask("set l 0 0 1\r\n", "1") == "SERVER_ERROR object too large for cache\r\n");
  REQUIRE(f.ask("get x\r\n") == "SERVER_ERROR unavailable: no home answers\r\n");
  f.ops.reason = "deposed by another proxy";
  REQUIRE(f.ask("get x\r\n") == "SERVER_ERROR not serving: deposed by another proxy\r\n");
  // What was sent before may still take effect: that is told before why nothing is served.
  REQUIRE(f.ask("set u 0 0 1\r\n", "1") ==
          "SERVER_ERROR outcome unknown: node n1 did not answer\r\n");
}

TEST_CASE("the time of a store is counted under the path that its value takes") {
  Fixture f;
  f.ops.inline_max_bytes = 3;
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
  REQUIRE(f.ask("flush_all\r\n").starts_with("SERVER_ERROR flush_all is not supported"));
  REQUIRE(f.ask("stats items\r\n") == "END\r\n");
  REQUIRE(f.ask("stats nonsense\r\n") == "ERROR\r\n");
  f.server.settings = [] { return StatPairs{{"admin_addr", "127.0.0.1:9211"}}; };
  REQUIRE(f.ask("stats settings\r\n") == "STAT admin_addr 127.0.0.1:9211\r\nEND\r\n");
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
