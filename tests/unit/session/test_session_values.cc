// Sessions: values that come and leave in parts, and the memory that they take.
#include "tests/unit/session/session_fixture.h"

namespace elastripe {
namespace {

using Client = SessionClient;
using Fixture = SessionFixture;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("reads hold no more memory than their budget, and all are answered") {
  Fixture f;
  f.ops.limit_reads(1 << 20, 300'000);
  const std::string value(300'000, 'v');
  const std::string small(20'000, 's');
  f.ops.entries["big"] = {value, 0, 0, 1};
  f.ops.entries["small"] = {small, 0, 0, 2};
  Client pipeline(f.sessions);
  Client line(f.sessions);
  std::string expected_pipeline;
  std::string command = "get";
  std::string expected_line;
  for (int i = 0; i < 30; ++i) {
    pipeline.send(i % 3 == 0 ? "get small\r\n" : "get big\r\n");
    expected_pipeline += i % 3 == 0 ? value_reply("small", small) : value_reply("big", value);
    expected_pipeline += "END\r\n";
    command += " big small missing";
    expected_line += value_reply("big", value) + value_reply("small", small);
  }
  line.send(command + "\r\n");
  expected_line += "END\r\n";
  f.until(pipeline, [&] {
    line.collect();
    return pipeline.received.size() >= expected_pipeline.size() &&
           line.received.size() >= expected_line.size();
  });
  REQUIRE((pipeline.received == expected_pipeline));
  REQUIRE((line.received == expected_line));
  REQUIRE(f.ops.most_live_bytes > 600'000);
  REQUIRE(f.ops.most_live_bytes <= 1 << 20);
  f.turns(2);
  REQUIRE(f.ops.live_bytes == 0);
}

TEST_CASE("a read takes no memory from one before it that still looks for its record") {
  Fixture f;
  const std::string value(300'000, 'v');
  f.ops.limit_reads(0, value.size());
  f.ops.entries["big"] = {value, 0, 0, 1};
  f.ops.entries["late"] = {value, 0, 0, 2};
  f.ops.slow = {"late"};
  Client client(f.sessions);
  Client other(f.sessions);
  client.send("get late\r\nget big\r\n");
  f.turns(3);
  REQUIRE(f.ops.started == std::vector<std::string>{"get late", "get big"});
  REQUIRE(f.ops.read.empty());
  other.send("get big\r\n");
  f.expect(other, value_reply("big", value) + "END\r\n");
  f.ops.turnstile.let_through();
  f.expect(client, value_reply("late", value) + "END\r\n" + value_reply("big", value) + "END\r\n");
}

TEST_CASE("a client that does not take its values is closed, and others get their memory") {
  Fixture f(SessionSettings{.stall_timeout = milliseconds(50), .progress_bytes = 1});
  const std::string value(3'000'000, 'v');
  f.ops.limit_reads(0, value.size());
  f.ops.entries["big"] = {value, 0, 0, 1};
  Client stalled(f.sessions);
  stalled.send("get big\r\nget big big big\r\n");
  f.turns(3);
  REQUIRE(f.ops.read.size() == 1);
  Client other(f.sessions);
  other.send("get big\r\n");
  f.expect(other, value_reply("big", value) + "END\r\n");
  REQUIRE(f.sessions.size() == 1);
  f.turns(2);
  REQUIRE(f.ops.live_bytes == 0);
  // What the closed client had asked for beside was not read.
  REQUIRE(f.ops.read.size() == 2);
}

TEST_CASE("a reply that ends half-way ends the connection, behind all that was answered") {
  Fixture f;
  Client client(f.sessions);
  const std::string value(400'000, 'v');  // more than the socket takes at once
  f.ops.limit_reads(0, 2 * value.size() - 1);
  f.ops.entries["a"] = f.ops.entries["b"] = f.ops.entries["c"] = {.value = value};
  f.ops.failures["the rest of c"] = {ErrorCode::kLost, "more failures than the scheme survives"};
  f.ops.part_bytes = 200'000;
  client.send("set x 0 0 1\r\n1\r\nget a b\r\nget c\r\nversion\r\n");
  f.until(client, [&] { return client.closed; });
  const auto found = [&](const std::string& key) {
    return "VALUE " + key + " 0 400000\r\n" + value + "\r\n";
  };
  const std::string before = "STORED\r\n" + found("a") + found("b") + "END\r\n";
  REQUIRE(client.received.starts_with(before));
  REQUIRE((before + found("c")).starts_with(client.received));
}

TEST_CASE("a connection that ends while its reads wait for memory gives it back") {
  Fixture f;
  const std::string value(3'000'000, 'v');
  f.ops.limit_reads(0, value.size());
  f.ops.entries["big"] = {value, 0, 0, 1};
  f.ops.entries["late"] = {value, 0, 0, 2};
  {
    Client client(f.sessions);
    client.send("get big\r\nget big\r\nget big big\r\n");
    f.turns(3);
  }
  Client other(f.sessions);
  other.send("get late\r\n");
  f.expect(other, value_reply("late", value) + "END\r\n");
  f.until(other, [&] { return f.sessions.size() == 1; });
  REQUIRE(f.ops.live_bytes == 0);
}

TEST_CASE("a value that comes in parts is read as it is asked for, however it is split") {
  Fixture f;
  f.ops.part_bytes = 100;
  std::string value(350, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>('a' + i * 7 % 26);
  const std::string command = "set key 7 0 350\r\n" + value + "\r\nget key\r\n";
  const std::string reply = "STORED\r\nVALUE key 7 350\r\n" + value + "\r\nEND\r\n";
  Client client(f.sessions);
  for (size_t split = 1; split < command.size(); ++split) {
    client.send(std::string_view(command).substr(0, split));
    f.turns(2);
    client.send(std::string_view(command).substr(split));
    f.expect(client, reply);
  }
}

TEST_CASE("what is sent behind a value waits until its parts are asked for") {
  Fixture f;
  f.ops.part_bytes = 100;
  f.ops.slow = {"the parts of key"};
  Client client(f.sessions);
  client.send("set key 0 0 300\r\n" + std::string(300, 'v') + "\r\nget other\r\nget key\r\n");
  for (int part = 0; part < 3; ++part) {
    f.turns(5);
    client.collect();
    REQUIRE(client.received.empty());
    REQUIRE(f.ops.started == std::vector<std::string>{"store key"});
    if (part == 2) f.ops.slow.clear();
    f.ops.turnstile.let_through();
  }
  f.expect(client, "STORED\r\nEND\r\nVALUE key 0 300\r\n" + std::string(300, 'v') + "\r\nEND\r\n");
}

TEST_CASE("values in parts that are not committed yet count as received") {
  Fixture f(SessionSettings{.bytes_in_flight = 500});
  f.ops.slow = {"the commit of a", "the commit of b"};
  Client client(f.sessions);
  for (const char* key : {"a", "b", "c"}) {
    client.send("set " + std::string(key) + " 0 0 300\r\n" + std::string(300, 'v') + "\r\n");
  }
  f.turns(5);
  REQUIRE(f.ops.started == std::vector<std::string>{"store a", "store b"});
  f.ops.turnstile.let_through();
  f.turns(5);
  REQUIRE(f.ops.started.size() == 3);
  f.ops.turnstile.let_through();
  f.expect(client, "STORED\r\nSTORED\r\nSTORED\r\n");
}

TEST_CASE("a value that comes in parts waits for the command on its key before it") {
  Fixture f;
  f.ops.slow = {"key"};
  f.ops.part_bytes = 100;
  Client client(f.sessions);
  client.send("get key\r\nset key 0 0 300\r\n" + std::string(300, 'v') + "\r\n");
  f.turns(3);
  REQUIRE(f.ops.started == std::vector<std::string>{"get key"});
  f.ops.slow.clear();
  f.ops.turnstile.let_through();
  f.expect(client, "END\r\nSTORED\r\n");
}

TEST_CASE("a store that fails is answered at once, and the rest of its value is skipped") {
  Fixture f;
  f.ops.part_bytes = 100;
  f.ops.failures["the rest of key"] = {ErrorCode::kNoSpace, "full"};
  f.ops.failures["bad"] = {ErrorCode::kUnavailable, "nobody there"};
  Client client(f.sessions);
  for (const std::string key : {"key", "bad"}) {
    const std::string error = key == "bad" ? "CLIENT_ERROR unavailable: nobody there\r\n"
                                           : "SERVER_ERROR out of memory storing object\r\n";
    const std::string command = "set " + key + " 0 0 300\r\nget get get\r\nget";
    client.send(command);
    f.expect(client, error);
    client.send(std::string(300 + command.find('\n') + 1 - command.size(), 'v'));
    f.turns(3);
    client.send("\r\nget other\r\n");
    f.expect(client, "END\r\n");
  }
  REQUIRE(f.ops.entries.empty());
}

TEST_CASE("a value in parts without its line end is refused, and nothing is stored") {
  Fixture f;
  Client client(f.sessions);
  client.send("set key 0 0 300\r\n" + std::string(302, 'v') + "get key\r\n");
  f.expect(client, "CLIENT_ERROR bad data chunk\r\nEND\r\n");
  REQUIRE(f.ops.broken == std::vector<std::string>{"key"});
}

TEST_CASE("a client that vanishes, ends or stalls in a value in parts breaks its store off") {
  Fixture f(SessionSettings{.stall_timeout = milliseconds(20)});
  f.ops.part_bytes = 100;
  for (const std::string how : {"vanishes", "ends", "stalls"}) {
    Client client(f.sessions);
    client.send("set key 0 0 300\r\n" + std::string(250, 'v'));
    f.turns(3);
    if (how == "vanishes") client.here.reset();
    if (how == "ends") client.finish();
    const size_t before = f.ops.broken.size();
    const TimePoint limit = f.clock.now() + seconds(10);
    while (f.sessions.size() > 0 && f.clock.now() < limit) f.turns(1);
    REQUIRE(f.ops.broken.size() == std::max<size_t>(before, 1));
    f.ops.broken.clear();
  }
  REQUIRE(f.ops.entries.empty());
}

TEST_CASE("a value of several parts leaves part by part, and is cut if a later one fails") {
  Fixture f;
  f.ops.part_bytes = 100'000;
  const std::string value(350'000, 'v');
  f.ops.entries["a"] = f.ops.entries["b"] = {.value = value};
  Client client(f.sessions);
  client.send("get a b\r\n");
  f.expect(client, value_reply("a", value) + value_reply("b", value) + "END\r\n");
  f.ops.failures["the rest of b"] = {ErrorCode::kConflict, "overwritten"};
  client.send("get b a\r\n");
  f.until(client, [&] { return client.closed; });
  REQUIRE(client.received.size() > 100'000);
  REQUIRE(value_reply("b", value).starts_with(client.received));
}

TEST_CASE(
    "a key that fails in mid-value ends the reply there, one that fails before keeps none back") {
  for (const bool has_sent : {false, true}) {
    Fixture f;
    f.ops.part_bytes = 100'000;
    const std::string value(350'000, 'v');
    f.ops.entries["a"] = {.value = std::string(350'000, 'a')};
    f.ops.entries["b"] = {.value = value};
    f.ops.failures[has_sent ? "the rest of a" : "a"] = {ErrorCode::kConflict, "overwritten"};
    f.ops.slow = {"b", "the parts of b"};
    Client client(f.sessions);
    client.send("get a b\r\nversion\r\n");
    f.turns(3);
    while (f.ops.turnstile.waiting() > 0) {
      f.ops.turnstile.let_through();
      f.turns(2);
    }
    if (has_sent) {
      f.until(client, [&] { return client.closed; });
      REQUIRE(value_reply("a", std::string(350'000, 'a')).starts_with(client.received));
    } else {
      f.expect(client, value_reply("b", value) +
                           "CLIENT_ERROR conflict: overwritten (1 of 2 keys)\r\n"
                           "VERSION 1.6.18-elastripe-0.1.0\r\n");
    }
    REQUIRE(f.ops.live_bytes == 0);
  }
}

TEST_CASE("a read goes on for no client that is gone") {
  Fixture f;
  f.ops.part_bytes = 100'000;
  f.ops.slow = {"the parts of large"};
  f.ops.entries["large"] = {.value = std::string(1'000'000, 'v')};
  {
    Client client(f.sessions);
    client.send("get large\r\n");
    f.turns(3);
    f.ops.turnstile.let_through();
    f.turns(3);
  }
  f.turns(3);
  f.ops.turnstile.let_through();
  f.turns(3);
  REQUIRE(f.ops.turnstile.waiting() == 0);
  REQUIRE(f.sessions.size() == 0);
}

TEST_CASE("a connection holds no more of its reads than its own budget") {
  Fixture f(SessionSettings{.read_bytes = 400'000});
  f.ops.part_bytes = 100'000;
  f.ops.entries["large"] = {.value = std::string(3'000'000, 'v')};
  Client client(f.sessions);
  client.send("get large large\r\nget large\r\n");
  f.turns(10);
  REQUIRE(f.ops.most_live_bytes <= 400'000);
  const std::string one = value_reply("large", std::string(3'000'000, 'v'));
  f.until(client, [&] { return client.received.size() == 3 * one.size() + 2 * 5; });
  REQUIRE((client.received == one + one + "END\r\n" + one + "END\r\n"));
  REQUIRE(f.ops.most_live_bytes <= 400'000);
}

TEST_CASE("a client that takes its replies in drops is cut") {
  Fixture f(SessionSettings{.stall_timeout = milliseconds(50)});
  f.ops.entries["large"] = {.value = std::string(3'000'000, 'v')};
  Client client(f.sessions);
  client.send("get large\r\n");
  f.until(client, [&] { return !client.received.empty(); });
  client.received.clear();
  const TimePoint limit = f.clock.now() + seconds(10);
  TimePoint taken = f.clock.now();
  while (f.sessions.size() > 0 && f.clock.now() < limit) {
    f.turns(1);
    if (f.clock.now() - taken < milliseconds(1)) continue;
    taken = f.clock.now();
    char drop[100];
    REQUIRE(read(client.here.get(), drop, sizeof drop) != 0);
  }
  REQUIRE(f.sessions.size() == 0);
}

TEST_CASE("a meta get answers what it was asked for, and ranges") {
  Fixture f;
  f.ops.entries["key"] = {.value = "0123456789", .flags = 7, .cas = 42};
  Client client(f.sessions);
  client.send("mg key\r\nmg key s c f k Oxy\r\nmg key v s\r\nmg other v\r\nmg other q v\r\nmn\r\n");
  f.expect(client, "HD\r\nHD s10 c42 f7 kkey Oxy\r\nVA 10 s10\r\n0123456789\r\nEN\r\nMN\r\n");
  client.send("mg key v o3 n4\r\nmg key v o8 n9\r\nmg key v o10\r\nmg key v n0\r\nmg key v z\r\n");
  f.expect(client,
           "VA 4\r\n3456\r\nVA 2\r\n89\r\nVA 0\r\n\r\nVA 0\r\n\r\n"
           "CLIENT_ERROR invalid flag\r\n");
  f.ops.failures["key"] = {ErrorCode::kUnavailable, "nobody there"};
  client.send("mg key v\r\n");
  f.expect(client, "CLIENT_ERROR unavailable: nobody there\r\n");
}

}  // namespace
}  // namespace elastripe
