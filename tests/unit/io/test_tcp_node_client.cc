// Calls and their answers: what arrives where, and what becomes of it when either side fails.
#include <catch2/catch.hpp>
#include <deque>
#include <functional>

#include "tests/unit/io/node_calls.h"
#include "tests/unit/io/tcp_segments.h"

namespace elastripe {
namespace {

using namespace node_calls;

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

TEST_CASE("what is asked in one turn, as the keys of a multi-get are, leaves in one write") {
  Fixture f;
  Outcome first;
  f.start(first, request_with("first"));
  f.first_request();
  const uint32_t before = data_segments_received(f.stub.peer());
  std::vector<Outcome> outs(100);
  for (Outcome& out : outs) f.start(out, request_with("key"));
  f.turns();
  for (size_t i = 0; i < outs.size(); ++i) f.stub.receive();
  REQUIRE(data_segments_received(f.stub.peer()) - before == 1);
  f.client.cancel_all();
  f.until([&] { return first.done() && outs.back().done(); });
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

}  // namespace
}  // namespace elastripe
