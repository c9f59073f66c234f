// Connections to nodes on which nothing is sent.
#include <catch2/catch.hpp>
#include <random>

#include "tests/unit/io/node_calls.h"

namespace elastripe {
namespace {

using namespace node_calls;

NodeRequestPtr request_of(node::Opcode opcode) { return new_request(opcode); }

double failures(Fixture& f) {
  double sum = 0;
  for (const std::string code : {"timeout", "disconnected", "unavailable", "not_sent"}) {
    sum +=
        f.registry.value("elastripe_node_errors_total", {{"node", "n1"}, {"code", code}}).value();
  }
  return sum;
}

TEST_CASE("a connection on which nothing is sent is closed, and the next call makes another") {
  Fixture f(ChannelLimits{.idle = milliseconds(20)});
  const auto opcode = GENERATE(node::Opcode::kShardRead, node::Opcode::kHeartbeat);
  for (int round = 0; round < 3; ++round) {
    Outcome out;
    f.start(out, request_of(opcode));
    f.stub.send(NodeStub::reply_to(f.first_request(), "answer", ""));
    f.until([&] { return out.done(); });
    REQUIRE(out.result->has_value());
    f.until([&] { return f.stub.is_hung_up_on(); });
  }
  CHECK(failures(f) == 0);
}

// Two nodes; `other` is there to see time pass.
struct TwoNodes : Fixture {
  explicit TwoNodes(Duration idle)
      : two(loop, clock, random, {{"n1", {stub.address()}}, {"n2", {other.address()}}}, registry,
            ChannelLimits{.idle = idle}) {}
  ~TwoNodes() { two.cancel_all(); }

  void start(Outcome& out, NodeRequestPtr request, Duration timeout = seconds(10), NodeId to = 0) {
    scope.spawn(do_call(&two, to, std::move(request), clock.now() + timeout, &out));
  }
  // Until a connection that was made now has been idle for long enough to be closed.
  void pass_idle_time() {
    Outcome out;
    start(out, request_with("witness"), seconds(10), 1);
    turns();
    other.accept();
    turns();
    other.send(NodeStub::reply_to(other.receive(), "", ""));
    until([&] { return out.done() && other.is_hung_up_on(); });
  }

  NodeStub other;
  TcpNodeClient two;
};

TEST_CASE("a connection is not idle while something may come from the node") {
  TwoNodes f(milliseconds(20));
  const std::string payload(1000, 'x');
  Outcome out;
  std::string rest;
  SECTION("an answer that is waited for") {
    f.start(out, request_with("slow"));
    rest = NodeStub::reply_to(f.first_request(), "", payload);
  }
  SECTION("an answer that nobody waits for any more") {
    CallStop stop;
    NodeRequestPtr request = request_with("stopped");
    request->stop = &stop;
    f.start(out, std::move(request));
    rest = NodeStub::reply_to(f.first_request(), "", payload);
    stop.stop();
    REQUIRE(out.done());
  }
  SECTION("the rest of an answer that nobody waits for any more") {
    Buffer into = Buffer::allocate(payload.size());
    CallStop stop;
    NodeRequestPtr request = read_into(into, 500);
    request->stop = &stop;
    f.start(out, std::move(request));
    rest = NodeStub::reply_to(f.first_request(), "", payload);
    f.stub.send(rest.substr(0, 300));
    rest.erase(0, 300);
    f.until([&] { return into.text().front() == 'x'; });
    stop.stop();
    REQUIRE(out.done());
  }
  f.pass_idle_time();
  REQUIRE_FALSE(f.stub.is_hung_up_on());

  f.stub.send(rest);
  f.until([&] { return out.done() && f.stub.is_hung_up_on(); });
  const bool is_late = !out.result->has_value();
  CHECK((!is_late || out.result->error().code == ErrorCode::kTimeout));
}

TEST_CASE("a connection that is used now and then is kept") {
  constexpr Duration kIdle = milliseconds(20);
  Fixture f(ChannelLimits{.idle = kIdle});
  TimePoint connected;
  TimePoint used;
  // Until it has been used for long enough to be closed, had it not been used. Where this machine
  // stands still for that long in between, it may be closed, and it is another one from then on.
  f.until([&] {
    const TimePoint before = f.clock.now();
    Outcome out;
    f.start(out, request_with("x"));
    f.turns();
    if (f.stub.has_caller()) {
      if (f.stub.connected()) CHECK(f.clock.now() - used >= kIdle);
      f.stub.accept();
      connected = f.clock.now();
      f.turns();
    }
    used = before;
    f.stub.send(NodeStub::reply_to(f.stub.receive(), "", ""));
    f.until([&] { return out.done(); });
    REQUIRE(out.result->has_value());
    return f.clock.now() - connected > 3 * kIdle;
  });
  CHECK(failures(f) == 0);
}

TEST_CASE("no call fails because it comes when the connection is closed as idle") {
  Fixture f(ChannelLimits{.idle = milliseconds(1)});
  const auto seed = std::random_device{}();
  INFO("seed " << seed);
  std::minstd_rand random(seed);
  int connections = 0;
  for (int round = 0; round < 500; ++round) {
    Outcome out;
    f.start(out, request_with("x"));
    f.turns();
    if (f.stub.has_caller()) {
      f.stub.accept();
      f.turns();
      ++connections;
    }
    f.stub.send(NodeStub::reply_to(f.stub.receive(), "", ""));
    f.until([&] { return out.done(); });
    REQUIRE(out.result->has_value());
    const TimePoint next = f.clock.now() + std::chrono::microseconds(random() % 2500);
    f.until([&] { return f.clock.now() >= next; });
  }
  CHECK(connections > 1);
  CHECK(failures(f) == 0);
}

}  // namespace
}  // namespace elastripe
