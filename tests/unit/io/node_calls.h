// Calls of a TcpNodeClient on a loop of its own, for tests against node stubs.
#pragma once

#include <event2/event.h>

#include <catch2/catch.hpp>
#include <functional>

#include "proxy/async/scope.h"
#include "proxy/io/loop_clock.h"
#include "proxy/io/system_random.h"
#include "proxy/io/tcp_node_client.h"
#include "tests/unit/io/node_stub.h"

namespace elastripe::node_calls {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Outcome {
  std::optional<Result<NodeReply>> result;
  bool done() const { return result.has_value(); }
};

inline Task<void> do_call(NodeClient* client, NodeId to, NodeRequestPtr request, TimePoint deadline,
                          Outcome* out, uint64_t incarnation = 7) {
  Stamp stamp{.cluster_id = 1, .epoch = {}, .incarnation = incarnation};
  out->result = co_await client->call(to, stamp, std::move(request), deadline);
}

// Runs the loop until `done`, with the test thread playing the node in between.
struct Fixture {
  Fixture() : Fixture(ChannelLimits{}) {}
  explicit Fixture(ChannelLimits limits)
      : clock(loop), client(loop, clock, random, {{"n1", {stub.address()}}}, registry, limits) {}
  ~Fixture() {
    client.cancel_all();
    REQUIRE(scope.live() == 0);
  }

  void start(Outcome& out, NodeRequestPtr request, Duration timeout = seconds(10), NodeId to = 0,
             uint64_t incarnation = 7) {
    scope.spawn(do_call(&client, to, std::move(request), clock.now() + timeout, &out, incarnation));
  }
  // A few turns: what is ready is served.
  void turns(int count = 3) {
    for (int i = 0; i < count; ++i) {
      loop.post([this] { loop.stop(); });
      loop.run();
    }
  }
  void until(const std::function<bool()>& done) {
    const TimePoint limit = clock.now() + seconds(10);
    while (!done()) {
      REQUIRE(clock.now() < limit);
      turns(1);
    }
  }
  // Lets the channel connect and send, then takes the connection and the first request.
  NodeStub::Received first_request() {
    turns();
    stub.accept();
    turns();
    return stub.receive();
  }

  NodeStub stub;
  MetricRegistry registry;
  Loop loop;
  LoopClock clock;
  SystemRandom random;
  TcpNodeClient client;
  Scope scope;
};

inline NodeRequestPtr request_with(std::string args) {
  NodeRequestPtr request = new_request(node::Opcode::kShardRead);
  request->args = std::move(args);
  return request;
}

inline NodeRequestPtr read_into(Buffer buffer, size_t split) {
  NodeRequestPtr request = request_with("read");
  request->into = {buffer.mutable_bytes().first(split), buffer.mutable_bytes().subspan(split)};
  request->keep = {buffer};
  return request;
}

}  // namespace elastripe::node_calls
