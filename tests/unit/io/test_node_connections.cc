// Connections to nodes: refused, lost, tried again, and to where a node is now.
#include <catch2/catch.hpp>

#include "tests/unit/io/node_calls.h"

namespace elastripe {
namespace {

using namespace node_calls;

TEST_CASE("a node that there is not is no node that refuses connections") {
  Fixture f;
  Outcome out;
  f.start(out, request_with("x"), std::chrono::hours(1), /*to=*/1);
  REQUIRE(out.done());
  REQUIRE(out.result->error().code == ErrorCode::kInvalid);
}

TEST_CASE("a refused connection answers unavailable at once") {
  Fixture f;
  f.stub.stop_listening();
  Outcome out;
  f.start(out, request_with("x"), std::chrono::hours(1));
  f.until([&] { return out.done(); });
  REQUIRE(out.result->error().code == ErrorCode::kUnavailable);
}

TEST_CASE("a node that comes back is connected to again") {
  Fixture f;
  Outcome first;
  f.start(first, request_with("1"));
  f.first_request();
  f.stub.hang_up();
  f.until([&] { return first.done(); });
  REQUIRE(first.result->error().code == ErrorCode::kDisconnected);
  Outcome second;
  f.start(second, request_with("2"));
  const auto got = f.first_request();
  f.stub.send(NodeStub::reply_to(got, "back", ""));
  f.until([&] { return second.done(); });
  REQUIRE(as_string_view((*second.result)->args()) == "back");
}

TEST_CASE("a node that refuses connections is left alone for a while") {
  Fixture f(ChannelLimits{.first_backoff = std::chrono::hours(1),
                          .longest_backoff = std::chrono::hours(1)});
  const SocketAddress there = f.stub.address();
  f.stub.stop_listening();
  Outcome first;
  f.start(first, request_with("x"));
  f.until([&] { return first.done(); });
  f.stub.listen_again(there);

  Outcome again;
  f.start(again, request_with("x"));
  f.turns(1);
  REQUIRE(again.done());  // nobody was asked
  CHECK(again.result->error().code == ErrorCode::kUnavailable);
  CHECK(again.result->error().message == first.result->error().message);

  SECTION("but who knows of another process there is not kept waiting") {
    Outcome other, same;
    f.start(other, request_with("to the next process"), seconds(10), 0, 8);
    f.start(same, request_with("x"));
    const auto got = f.first_request();
    CHECK(got.args == "to the next process");
    CHECK(same.result->error().code == ErrorCode::kUnavailable);
    f.stub.send(NodeStub::reply_to(got, "", ""));
    f.until([&] { return other.done(); });
    CHECK(other.result->has_value());
  }
  SECTION("but for control frames, by which it is found when it is back") {
    Outcome refused, heard;
    f.stub.stop_listening();
    f.start(refused, new_request(node::Opcode::kHeartbeat));
    f.until([&] { return refused.done(); });
    CHECK(refused.result->error().code == ErrorCode::kUnavailable);
    f.stub.listen_again(there);
    f.start(heard, new_request(node::Opcode::kHeartbeat));
    f.stub.send(NodeStub::reply_to(f.first_request(), "", ""));
    f.until([&] { return heard.done(); });
    CHECK(heard.result->has_value());
  }
}

TEST_CASE("after a while a node that refused connections is tried again") {
  Fixture f(ChannelLimits{.first_backoff = milliseconds(1), .longest_backoff = milliseconds(1)});
  const SocketAddress there = f.stub.address();
  f.stub.stop_listening();
  Outcome first;
  f.start(first, request_with("x"));
  f.until([&] { return first.done(); });
  f.stub.listen_again(there);
  std::deque<Outcome> tries;
  f.until([&] {
    if (tries.empty() || tries.back().done()) f.start(tries.emplace_back(), request_with("x"));
    f.turns();
    return !tries.back().done();
  });
  f.stub.send(NodeStub::reply_to(f.first_request(), "", ""));
  f.until([&] { return tries.back().done(); });
  CHECK(tries.back().result->has_value());
}

TEST_CASE("pauses before a connect double, up to the longest, less up to half by chance") {
  struct Fixed final : Random {
    uint64_t value = 0;
    uint64_t next() override { return value; }
  };
  Fixed random;
  Backoff backoff(milliseconds(10), milliseconds(100));
  for (const int expected : {10, 20, 40, 80, 100, 100}) {
    CHECK(backoff.next(random) == milliseconds(expected));
  }
  random.value = milliseconds(50) / Duration(1);
  CHECK(backoff.next(random) == milliseconds(50));
  random.value = 0;
  backoff.reset();
  CHECK(backoff.next(random) == milliseconds(10));
}

TEST_CASE("calls follow a node that is elsewhere now, and one that is new") {
  Fixture f;
  NodeStub elsewhere, added;
  MapView view;
  const auto node_at = [](NodeId id, const std::string& name, uint16_t port) {
    node::NodeInfo info;
    info.id = id;
    info.name = name;
    info.host = "127.0.0.1";
    info.port = port;
    return info;
  };
  view.know_members({node_at(0, "n1", elsewhere.port()), node_at(1, "n2", added.port())}, 1);
  Outcome old;
  f.start(old, request_with("to the old one"));
  const auto waits = f.first_request();
  f.client.follow(view, nullptr);

  Outcome moved, fresh;
  f.start(moved, request_with("moved"));
  f.start(fresh, request_with("new"), seconds(10), 1);
  f.turns();
  for (auto* const there : {&elsewhere, &added}) {
    there->accept();
    f.turns();
    const auto got = there->receive();
    CHECK(got.args == (there == &elsewhere ? "moved" : "new"));
    there->send(NodeStub::reply_to(got, "reply", ""));
  }
  f.until([&] { return moved.done() && fresh.done(); });
  CHECK(moved.result->has_value());
  CHECK(fresh.result->has_value());
  // What is under way still gets its answer.
  f.stub.send(NodeStub::reply_to(waits, "late", ""));
  f.until([&] { return old.done(); });
  REQUIRE(old.result->has_value());
  CHECK(as_string_view((*old.result)->args()) == "late");
}

}  // namespace
}  // namespace elastripe
