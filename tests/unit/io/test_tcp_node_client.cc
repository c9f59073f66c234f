#include <event2/event.h>

#include <catch2/catch.hpp>
#include <deque>
#include <functional>

#include "proxy/async/scope.h"
#include "proxy/io/loop_clock.h"
#include "proxy/io/system_random.h"
#include "proxy/io/tcp_node_client.h"
#include "tests/unit/io/node_stub.h"

namespace elastripe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Outcome {
  std::optional<Result<NodeReply>> result;
  bool done() const { return result.has_value(); }
};

Task<void> do_call(NodeClient* client, NodeId to, NodeRequestPtr request, TimePoint deadline,
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

NodeRequestPtr request_with(std::string args) {
  NodeRequestPtr request = new_request(node::Opcode::kShardRead);
  request->args = std::move(args);
  return request;
}

NodeRequestPtr read_into(Buffer buffer, size_t split) {
  NodeRequestPtr request = request_with("read");
  request->into = {buffer.mutable_bytes().first(split), buffer.mutable_bytes().subspan(split)};
  request->keep = {buffer};
  return request;
}

TEST_CASE("a request carries its stamp, args and payload, and gets its reply") {
  Fixture f;
  NodeRequestPtr request = request_with("args");
  const Buffer first = Buffer::copy_of("pay");
  const Buffer second = Buffer::copy_of("load");
  request->payload = {first, second};
  request->keep = {first, second};
  Outcome out;
  f.start(out, std::move(request));
  const auto got = f.first_request();
  REQUIRE(got.header.opcode == node::Opcode::kShardRead);
  REQUIRE(got.header.cluster_id == 1);
  REQUIRE(got.header.incarnation == 7);
  REQUIRE(got.header.now_ms > 1'000'000'000'000);
  REQUIRE(got.args == "args");
  REQUIRE(got.payload == "payload");
  f.stub.send(NodeStub::reply_to(got, "reply args", "reply payload"));
  f.until([&] { return out.done(); });
  REQUIRE(out.result->has_value());
  REQUIRE(as_string_view((*out.result)->args()) == "reply args");
  REQUIRE(as_string_view((*out.result)->payload()) == "reply payload");
}

TEST_CASE("a reply that is split at any byte is read the same") {
  Fixture f;
  bool direct = GENERATE(false, true);
  Outcome warm;
  f.start(warm, request_with("warm"));
  f.stub.send(NodeStub::reply_to(f.first_request(), "", ""));
  f.until([&] { return warm.done(); });
  for (size_t split = 1; split < node::kHeaderBytes + 4 + 40; ++split) {
    Buffer into = Buffer::allocate(40);
    Outcome out;
    f.start(out, direct ? read_into(into, 13) : request_with("plain"));
    f.turns(1);
    const std::string payload(40, static_cast<char>('a' + split % 26));
    const std::string frame = NodeStub::reply_to(f.stub.receive(), "four", payload);
    f.stub.send(std::string_view(frame).substr(0, split));
    f.turns(2);
    REQUIRE_FALSE(out.done());
    f.stub.send(std::string_view(frame).substr(split));
    f.until([&] { return out.done(); });
    REQUIRE(out.result->has_value());
    REQUIRE(as_string_view((*out.result)->args()) == "four");
    if (direct) {
      REQUIRE((*out.result)->payload().empty());
      REQUIRE(into.text() == payload);
    } else {
      REQUIRE(as_string_view((*out.result)->payload()) == payload);
    }
  }
}

TEST_CASE("replies out of order reach the right callers") {
  Fixture f;
  std::vector<Outcome> outs(3);
  for (size_t i = 0; i < 3; ++i) f.start(outs[i], request_with(std::to_string(i)));
  std::vector<NodeStub::Received> got;
  got.push_back(f.first_request());
  got.push_back(f.stub.receive());
  got.push_back(f.stub.receive());
  f.stub.send(NodeStub::reply_to(got[2], got[2].args, "") +
              NodeStub::reply_to(got[0], got[0].args, ""));
  f.until([&] { return outs[0].done() && outs[2].done(); });
  REQUIRE_FALSE(outs[1].done());
  f.stub.send(NodeStub::reply_to(got[1], got[1].args, ""));
  f.until([&] { return outs[1].done(); });
  for (size_t i = 0; i < 3; ++i) {
    REQUIRE(as_string_view((*outs[i].result)->args()) == std::to_string(i));
  }
}

TEST_CASE("ten thousand requests in flight are all answered") {
  Fixture f;
  constexpr size_t kCount = 10'000;
  std::vector<Outcome> outs(kCount);
  for (size_t i = 0; i < kCount; ++i) f.start(outs[i], request_with(std::to_string(i)));
  f.turns();
  f.stub.accept();
  std::string pending;
  for (size_t i = 0; i < kCount; ++i) {
    if (i % 1000 == 0) f.turns(2);
    const auto got = f.stub.receive();
    pending += NodeStub::reply_to(got, got.args, std::string(i % 100, 'p'));
    if (pending.size() > 30'000) {
      f.stub.send(pending);
      pending.clear();
      f.turns(2);
    }
  }
  f.stub.send(pending);
  f.until([&] { return outs.back().done(); });
  for (size_t i = 0; i < kCount; ++i) {
    REQUIRE(outs[i].result->has_value());
    REQUIRE(as_string_view((*outs[i].result)->args()) == std::to_string(i));
    REQUIRE((*outs[i].result)->payload().size() == i % 100);
  }
}

TEST_CASE("a reply that is kept stays as it is while the channel reads on") {
  Fixture f;
  const bool breaks = GENERATE(false, true);  // the connection, while replies are kept
  // Lengths around what is a slice of the input, and enough to fill several input blocks.
  const std::vector<size_t> lengths = {0, 1, 63, 1000, 4091, 4092, 4093, 9000};
  const auto payload_of = [&](size_t i) {
    return std::string(lengths[i % lengths.size()], static_cast<char>('a' + i % 26));
  };
  std::vector<std::unique_ptr<Outcome>> kept;
  const size_t rounds = 12;
  for (size_t round = 0; round < rounds; ++round) {
    const size_t first = kept.size();
    for (size_t i = 0; i < 16; ++i) {
      kept.push_back(std::make_unique<Outcome>());
      f.start(*kept.back(), request_with("read"));
    }
    std::string replies;
    for (size_t i = first; i < kept.size(); ++i) {
      const auto got = i == 0 || (breaks && i == first && round == rounds / 2)
                           ? f.first_request()
                           : (f.turns(1), f.stub.receive());
      replies += NodeStub::reply_to(got, "four", payload_of(i));
    }
    // In pieces that end anywhere, so that bodies lie across reads.
    const size_t piece = 1 + replies.size() / 3;
    for (size_t at = 0; at < replies.size(); at += piece) {
      f.stub.send(std::string_view(replies).substr(at, piece));
      f.turns(1);
    }
    f.until([&] { return kept.back()->done(); });
    if (round % 3 == 2) {
      for (size_t i = first; i < kept.size(); i += 2) kept[i]->result->value().body = {};
    }
    if (breaks && round + 1 == rounds / 2) {
      f.stub.hang_up();
      f.turns();
    }
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    REQUIRE(kept[i]->result->has_value());
    const NodeReply& reply = **kept[i]->result;
    if (reply.body.empty()) continue;
    REQUIRE(as_string_view(reply.args()) == "four");
    REQUIRE(as_string_view(reply.payload()) == payload_of(i));
  }
}

TEST_CASE("payloads around the size that is copied arrive, and do not outlive their call") {
  Fixture f;
  Outcome warm;
  f.start(warm, request_with("warm"));
  f.stub.send(NodeStub::reply_to(f.first_request(), "", ""));
  f.until([&] { return warm.done(); });
  for (const size_t bytes : std::vector<size_t>{2, 4095, 4096, 4097, 20000}) {
    Outcome out;
    NodeRequestPtr request = request_with("args");
    const std::string expected(bytes, static_cast<char>('a' + bytes % 26));
    const Buffer first = Buffer::copy_of(expected.substr(0, bytes / 2));
    const Buffer second = Buffer::copy_of(expected.substr(bytes / 2));
    request->payload = {first, second};
    request->keep = {first, second};
    f.start(out, std::move(request));
    f.turns(1);
    const auto got = f.stub.receive();
    REQUIRE(got.args == "args");
    REQUIRE(got.payload == expected);
    f.stub.send(NodeStub::reply_to(got, "", ""));
    f.until([&] { return out.done(); });
    REQUIRE(first.is_unique());
    REQUIRE(second.is_unique());
  }
}

TEST_CASE("a large payload between small replies goes straight to its place") {
  Fixture f;
  Buffer large = Buffer::allocate(3'000'000);
  Outcome before, direct, after;
  f.start(before, request_with("b"));
  f.start(direct, read_into(large, 1'000'001));
  f.start(after, request_with("a"));
  const auto one = f.first_request();
  const auto two = f.stub.receive();
  const auto three = f.stub.receive();
  std::string payload(3'000'000, '\0');
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<char>(i * 31 >> 3);
  const std::string all = NodeStub::reply_to(one, "1", "") +
                          NodeStub::reply_to(two, "22", payload) +
                          NodeStub::reply_to(three, "333", "x");
  for (size_t at = 0; at < all.size(); at += 50'000) {
    f.stub.send(std::string_view(all).substr(at, 50'000));
    f.turns(2);
  }
  f.until([&] { return after.done(); });
  REQUIRE(large.text() == payload);
  REQUIRE(as_string_view((*direct.result)->args()) == "22");
  REQUIRE(as_string_view((*after.result)->payload()) == "x");
}

TEST_CASE("a payload of another size than asked for arrives in the body") {
  Fixture f;
  Buffer into = Buffer::copy_of(std::string(10, '-'));
  Outcome out;
  f.start(out, read_into(into, 5));
  f.stub.send(NodeStub::reply_to(f.first_request(), "", "only 7!"));
  f.until([&] { return out.done(); });
  REQUIRE(as_string_view((*out.result)->payload()) == "only 7!");
  REQUIRE(into.text() == "----------");
}

TEST_CASE("the reason of a failed read is never written to the caller's memory") {
  Fixture f;
  Buffer into = Buffer::copy_of(std::string(10, '-'));
  Outcome out;
  f.start(out, read_into(into, 5));
  f.stub.send(NodeStub::reply_to(f.first_request(), "", "ten bytes!", node::Status::kNotHere));
  f.until([&] { return out.done(); });
  REQUIRE((*out.result)->status() == node::Status::kNotHere);
  REQUIRE(as_string_view((*out.result)->payload()) == "ten bytes!");
  REQUIRE(into.text() == "----------");
}

TEST_CASE("a late reply is swallowed and the connection goes on") {
  Fixture f;
  Buffer into = Buffer::copy_of(std::string(10, '-'));
  Outcome late;
  f.start(late, read_into(into, 5), milliseconds(5));
  const auto got = f.first_request();
  f.until([&] { return late.done(); });
  REQUIRE(late.result->error().code == ErrorCode::kTimeout);
  Outcome next;
  f.start(next, request_with("next"));
  f.turns(1);
  const auto second = f.stub.receive();
  f.stub.send(NodeStub::reply_to(got, "args", "too late!!") + NodeStub::reply_to(second, "ok", ""));
  f.until([&] { return next.done(); });
  REQUIRE(as_string_view((*next.result)->args()) == "ok");
  REQUIRE(into.text() == "----------");
}

TEST_CASE("a timeout in the middle of a payload stops the writing and swallows the rest") {
  Fixture f;
  Buffer into = Buffer::copy_of(std::string(1000, '-'));
  Outcome slow;
  f.start(slow, read_into(into, 500), milliseconds(20));
  const auto got = f.first_request();
  const std::string frame = NodeStub::reply_to(got, "", std::string(1000, 'x'));
  f.stub.send(std::string_view(frame).substr(0, node::kHeaderBytes + 300));
  f.until([&] { return slow.done(); });
  REQUIRE(slow.result->error().code == ErrorCode::kTimeout);
  const std::string seen(into.text());
  f.stub.send(std::string_view(frame).substr(node::kHeaderBytes + 300));
  Outcome next;
  f.start(next, request_with("next"));
  f.turns(1);
  f.stub.send(NodeStub::reply_to(f.stub.receive(), "ok", ""));
  f.until([&] { return next.done(); });
  REQUIRE(next.result->has_value());
  REQUIRE(into.text() == seen);
}

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

TEST_CASE("a hang-up in the middle of a payload is a disconnect for all in flight") {
  Fixture f;
  Buffer into = Buffer::allocate(1000);
  Outcome reading, waiting;
  f.start(reading, read_into(into, 500));
  f.start(waiting, request_with("w"));
  const auto got = f.first_request();
  const std::string frame = NodeStub::reply_to(got, "", std::string(1000, 'x'));
  f.stub.send(std::string_view(frame).substr(0, 600));
  f.turns();
  f.stub.hang_up();
  f.until([&] { return reading.done() && waiting.done(); });
  REQUIRE(reading.result->error().code == ErrorCode::kDisconnected);
  REQUIRE(waiting.result->error().code == ErrorCode::kDisconnected);
}

TEST_CASE("nonsense from a node closes the connection") {
  Fixture f;
  Outcome out;
  f.start(out, request_with("x"));
  const auto got = f.first_request();
  SECTION("bytes that are no frame") { f.stub.send(std::string(64, 'z')); }
  SECTION("a reply that nobody asked for") {
    auto other = got;
    other.header.opaque += 1;
    f.stub.send(NodeStub::reply_to(other, "", ""));
  }
  SECTION("a reply to another request than the one asked") {
    auto other = got;
    other.header.opcode = node::Opcode::kShardWrite;
    f.stub.send(NodeStub::reply_to(other, "", ""));
  }
  f.until([&] { return out.done(); });
  REQUIRE(out.result->error().code == ErrorCode::kDisconnected);
}

TEST_CASE("a second reply under the same name closes the connection") {
  Fixture f;
  Outcome out, other;
  f.start(out, request_with("x"));
  f.start(other, request_with("y"));
  const auto got = f.first_request();
  const std::string reply = NodeStub::reply_to(got, "", "");
  f.stub.send(reply + reply);
  f.until([&] { return other.done(); });
  REQUIRE(out.result->has_value());
  REQUIRE(other.result->error().code == ErrorCode::kDisconnected);
}

TEST_CASE("cancelling ends waiting, sent and half-read calls, and later ones at once") {
  Fixture f;
  Buffer into = Buffer::allocate(1000);
  Outcome reading, sent, unsent, later;
  f.start(reading, read_into(into, 500));
  f.start(sent, request_with("s"));
  const auto got = f.first_request();
  f.stub.send(std::string_view(NodeStub::reply_to(got, "", std::string(1000, 'x'))).substr(0, 600));
  f.turns();
  f.start(unsent, request_with("u"));
  f.client.cancel_all();
  f.start(later, request_with("l"));
  for (const Outcome* out : {&reading, &sent, &unsent, &later}) {
    REQUIRE(out->result->error().code == ErrorCode::kCancelled);
  }
}

TEST_CASE("a full queue refuses further calls as never sent") {
  Fixture f(ChannelLimits{.waiting_calls = 2});
  std::vector<Outcome> outs(3);
  for (auto& out : outs) f.start(out, request_with("x"));
  REQUIRE(outs[2].result->error().code == ErrorCode::kBusy);
  REQUIRE(f.registry.value("elastripe_node_errors_total", {{"node", "n1"}, {"code", "busy"}}) == 1);
  REQUIRE_FALSE(outs[0].done());
  f.client.cancel_all();
  REQUIRE(outs[0].done());
}

TEST_CASE(
    "what could not leave before its deadline, or before the connection broke, was never sent") {
  Fixture f;
  const Buffer payload = Buffer::allocate(100 << 10);
  const auto large = [&] {
    NodeRequestPtr request = request_with("x");
    request->payload = {payload};
    request->keep = {payload};
    return request;
  };
  // More than the sockets take of a node that reads nothing.
  std::vector<Outcome> outs(400);
  for (auto& out : outs) f.start(out, large());
  f.turns();
  f.stub.accept();
  f.turns();
  Outcome late;
  f.start(late, large(), milliseconds(1));
  f.until([&] { return late.done(); });
  REQUIRE(late.result->error().code == ErrorCode::kNotSent);
  CHECK_FALSE(may_be_done(late.result->error()));

  f.stub.stop_listening();
  f.stub.hang_up();
  f.until([&] { return std::ranges::all_of(outs, &Outcome::done); });
  const auto code = [](const Outcome& out) { return out.result->error().code; };
  // First what had left or had begun to, then what was in the proxy still, then what connected
  // again.
  const std::vector<ErrorCode> order = {ErrorCode::kDisconnected, ErrorCode::kNotSent,
                                        ErrorCode::kUnavailable};
  const auto rank = [&](const Outcome& out) { return std::ranges::find(order, code(out)); };
  CHECK(std::ranges::is_sorted(outs, {}, rank));
  for (const ErrorCode expected : order) {
    CHECK(std::ranges::count(outs, expected, code) > 0);
  }
}

Task<void> stop_others(Outcome* first, CallStop* stop, NodeClient* client, NodeRequestPtr request,
                       TimePoint deadline) {
  co_await do_call(client, 0, std::move(request), deadline, first);
  stop->stop();
}

TEST_CASE("a call that is stopped ends at once, and its late reply is written nowhere") {
  Fixture f;
  Buffer into = Buffer::copy_of(std::string(1000, '-'));
  CallStop stop;
  Outcome stopped;
  NodeRequestPtr request = read_into(into, 500);
  request->stop = &stop;
  f.start(stopped, std::move(request));
  const auto got = f.first_request();
  const std::string late = NodeStub::reply_to(got, "", std::string(1000, 'x'));
  size_t sent = 0;
  std::string seen(into.text());
  SECTION("before its reply has begun") {
    stop.stop();
    REQUIRE(stopped.done());
  }
  SECTION("in the middle of its reply") {
    sent = node::kHeaderBytes + 300;
    f.stub.send(std::string_view(late).substr(0, sent));
    f.until([&] { return into.text().front() == 'x'; });
    seen = into.text();
    stop.stop();
    REQUIRE(stopped.done());
  }
  SECTION("by a flow that another reply has resumed") {
    Outcome first;
    f.scope.spawn(
        stop_others(&first, &stop, &f.client, request_with("first"), f.clock.now() + seconds(10)));
    f.turns(1);
    f.stub.send(NodeStub::reply_to(f.stub.receive(), "", ""));
    f.until([&] { return first.done(); });
    REQUIRE(stopped.done());
  }
  CHECK(stopped.result->error().code == ErrorCode::kTimeout);
  CHECK(into.is_unique());
  stop.stop();  // again: nothing
  f.stub.send(std::string_view(late).substr(sent));
  Outcome next;
  f.start(next, request_with("next"));
  f.turns(1);
  f.stub.send(NodeStub::reply_to(f.stub.receive(), "ok", ""));
  f.until([&] { return next.done(); });
  REQUIRE(next.result->has_value());
  CHECK(into.text() == seen);
}

TEST_CASE("too many unanswered requests close the connection") {
  Fixture f(ChannelLimits{.tombstones = 2});
  std::vector<Outcome> timed(3);
  Outcome waiting;
  for (auto& out : timed) f.start(out, request_with("x"), milliseconds(10));
  f.start(waiting, request_with("w"));
  f.first_request();
  f.until([&] { return waiting.done(); });
  REQUIRE(waiting.result->error().code == ErrorCode::kDisconnected);
}

TEST_CASE("requests, errors and bytes are counted by node") {
  Fixture f;
  Outcome ok, late;
  f.start(ok, request_with("x"));
  f.stub.send(NodeStub::reply_to(f.first_request(), "1234", ""));
  f.until([&] { return ok.done(); });
  f.start(late, request_with("x"), milliseconds(1));
  f.until([&] { return late.done(); });
  REQUIRE(f.registry.value("elastripe_node_received_bytes_total", {{"node", "n1"}}) == 68);
  REQUIRE(f.registry.value("elastripe_node_errors_total", {{"node", "n1"}, {"code", "timeout"}}) ==
          1);
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
