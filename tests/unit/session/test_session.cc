// Sessions: commands, their order, and the ends of connections.
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "proxy/session/keys_in_flight.h"
#include "proxy/session/listener.h"
#include "tests/unit/session/session_fixture.h"

namespace elastripe {
namespace {

using Client = SessionClient;
using Fixture = SessionFixture;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a command that is split at any byte is answered the same") {
  Fixture f;
  Client client(f.sessions);
  const std::string command = "set key 7 0 5\r\nab\r\nc\r\nget key\r\n";
  for (size_t split = 1; split < command.size(); ++split) {
    client.send(std::string_view(command).substr(0, split));
    f.turns(2);
    client.send(std::string_view(command).substr(split));
    f.expect(client, "STORED\r\nVALUE key 7 5\r\nab\r\nc\r\nEND\r\n");
  }
}

TEST_CASE("nothing of a command is left to the next one") {
  Fixture f;
  f.ops.inline_bytes = 10;
  Client client(f.sessions);
  const std::string large(20, 'l');
  const std::vector<std::pair<std::string, std::string>> commands = {
      {"set a 1 0 1 noreply\r\nx\r\n", ""},
      {"set b 0 0 1\r\ny\r\n", "STORED\r\n"},
      {"set c 0 0 20\r\n" + large + "\r\n", "STORED\r\n"},
      {"set c 0 0 20\r\n" + large + "!!", "CLIENT_ERROR bad data chunk\r\n"},
      {"set d 2 0 2\r\nzz\r\n", "STORED\r\n"},
      {"get a b none c d\r\n", "VALUE a 1 1\r\nx\r\nVALUE b 0 1\r\ny\r\nVALUE c 0 20\r\n" + large +
                                   "\r\nVALUE d 2 2\r\nzz\r\nEND\r\n"},
      {"get d\r\n", "VALUE d 2 2\r\nzz\r\nEND\r\n"},
      {"mg c s\r\n", "HD s20\r\n"},
      {"get none\r\n", "END\r\n"},
      {"mg none v q\r\n", ""},
      {"incr d 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
      {"delete d noreply\r\n", ""},
      {"get d\r\n", "END\r\n"},
  };
  for (const auto& [command, reply] : commands) {
    INFO(command);
    client.send(command);
    f.turns(5);
    if (!reply.empty()) f.expect(client, reply);
    client.collect();
    REQUIRE(client.received.empty());
  }
}

TEST_CASE("keys in flight conflict where one of two commands writes a key that both have") {
  KeysInFlight keys;
  const KeyHashes some{1, 2, 2}, others{2, 3}, none{4};
  CHECK_FALSE(keys.conflicts(some, true));
  keys.add(some, false);
  CHECK_FALSE(keys.conflicts(others, false));
  CHECK(keys.conflicts(others, true));
  CHECK_FALSE(keys.conflicts(none, true));
  keys.add(none, true);
  CHECK_FALSE(keys.conflicts(others, false));
  CHECK(keys.conflicts(none, false));
  keys.remove(some, false);
  CHECK_FALSE(keys.conflicts(others, true));
  keys.remove(none, true);
  CHECK_FALSE(keys.conflicts(none, true));
}

TEST_CASE("parts of values that do not overlap do not conflict") {
  KeysInFlight keys;
  const KeyHashes key{1}, other{2};
  using Part = objects::ByteRange;
  keys.add(key, true, Part{10, 5});
  CHECK_FALSE(keys.conflicts(key, true, Part{15, 1}));
  CHECK_FALSE(keys.conflicts(key, true, Part{9, 1}));
  CHECK(keys.conflicts(key, true, Part{14, 10}));
  CHECK(keys.conflicts(key, false, Part{0, 11}));
  CHECK(keys.conflicts(key, false, Part{14, UINT64_MAX}));
  CHECK(keys.conflicts(key, false));
  CHECK(keys.conflicts(key, true));
  CHECK_FALSE(keys.conflicts(other, true, Part{10, 5}));
  keys.add(key, false, Part{15, 5});
  CHECK_FALSE(keys.conflicts(key, false, Part{15, 5}));
  CHECK(keys.conflicts(key, true, Part{19, 1}));
  keys.remove(key, true, Part{10, 5});
  CHECK_FALSE(keys.conflicts(key, false));
  CHECK(keys.conflicts(key, true));
  keys.add(key, false);
  CHECK(keys.conflicts(key, true, Part{0, 1}));
  keys.remove(key, false);
  CHECK_FALSE(keys.conflicts(key, true, Part{0, 1}));
  keys.remove(key, false, Part{15, 5});
  CHECK(keys.size() == 0);
  // What concerns all of the value waits for parts without bytes as well.
  for (const Part part : {Part{0, 0}, Part{5, 0}, Part{UINT64_MAX, 1}}) {
    keys.add(key, false, part);
    CHECK(keys.conflicts(key, true));
    CHECK_FALSE(keys.conflicts(key, false));
    CHECK_FALSE(keys.conflicts(key, true, Part{5, 1}));
    keys.remove(key, false, part);
  }
}

TEST_CASE("flush_all takes effect behind the commands before it and ahead of those behind") {
  Fixture f;
  f.ops.slow = {"before", "flush_all"};
  Client client(f.sessions);
  client.send(
      "set before 0 0 1\r\nx\r\nget other\r\nflush_all\r\nversion\r\nset after 0 0 1\r\ny\r\n"
      "get before after\r\n");
  f.turns(5);
  CHECK(f.ops.started == std::vector<std::string>{"store before", "get other"});
  f.ops.turnstile.let_through();
  f.turns(5);
  CHECK(f.ops.started.size() == 3);
  CHECK(f.ops.started.back() == "flush_all 0");
  f.ops.slow.clear();
  f.ops.turnstile.let_through();
  f.until(client, [&] { return client.received.find("VALUE after") != std::string::npos; });
  CHECK(client.received.starts_with("STORED\r\nEND\r\nOK\r\nVERSION"));
  CHECK(client.received.ends_with("STORED\r\nVALUE after 0 1\r\ny\r\nEND\r\n"));
  CHECK(f.ops.entries.size() == 1);
}

TEST_CASE("a listing has what the commands before it have stored, and nothing of those behind") {
  Fixture f;
  f.ops.slow = {"before", "list"};
  Client client(f.sessions);
  client.send("set before 0 0 1\r\nx\r\nlru_crawler metadump all\r\nset after 0 0 1\r\ny\r\n");
  f.turns(5);
  CHECK(f.ops.started == std::vector<std::string>{"store before"});
  f.ops.turnstile.let_through();
  f.turns(5);
  CHECK(f.ops.started == std::vector<std::string>{"store before", "list"});
  f.ops.slow.clear();
  f.ops.turnstile.let_through();
  f.until(client, [&] { return client.received.ends_with("END\r\nSTORED\r\n"); });
  CHECK(client.received.starts_with("STORED\r\nkey=before "));
  CHECK(client.received.find("key=after") == std::string::npos);
}

TEST_CASE("flushes of one connection follow each other, with or without a reply") {
  Fixture f;
  f.ops.slow = {"flush_all"};
  Client client(f.sessions);
  client.send("flush_all noreply\r\nflush_all 0\r\nversion\r\n");
  f.turns(5);
  CHECK(f.ops.started.size() == 1);
  f.ops.turnstile.let_through();
  f.turns(5);
  CHECK(f.ops.started.size() == 2);
  f.ops.turnstile.let_through();
  f.until(client, [&] { return client.received.find("VERSION") != std::string::npos; });
  CHECK(client.received.starts_with("OK\r\nVERSION"));
}

TEST_CASE("retrievals of one client read so many keys at once, and all of them get on") {
  Fixture f(SessionSettings{.keys_read = 100});
  Client client(f.sessions);
  constexpr size_t kLines = 60, kKeys = 200;
  std::string replies;
  for (size_t line = 0; line < kLines; ++line) {
    std::string text = "get";
    for (size_t i = 0; i < kKeys; ++i) {
      const std::string key = fmt::format("k{}.{}", line, i);
      f.ops.slow.insert(key);
      text += " " + key;
    }
    client.send(text + "\r\n");
    f.turns(2);
    replies += "END\r\n";
  }
  size_t most = 0;
  f.until(client, [&] {
    most = std::max(most, f.ops.turnstile.waiting());
    if (f.ops.turnstile.waiting() > 0) f.ops.turnstile.let_through();
    return client.received.size() >= replies.size();
  });
  REQUIRE(client.received == replies);
  CHECK(most >= 100);
  CHECK(most <= 100 + kKeys);
}

TEST_CASE("multi-gets of one client leave a place for those of others") {
  Fixture f(SessionSettings{.all_keys_read = 100});
  std::string text = "get";
  for (int i = 0; i < 200; ++i) {
    f.ops.slow.insert(fmt::format("slow{}", i));
    text += fmt::format(" slow{}", i);
  }
  Client greedy(f.sessions);
  greedy.send(text + "\r\n");
  f.turns(3);
  REQUIRE(f.ops.turnstile.waiting() == 100);
  Client other(f.sessions);
  other.send("get a b c\r\nget d e f\r\n");
  f.expect(other, "END\r\nEND\r\n");
  REQUIRE(f.ops.turnstile.waiting() == 100);
}

// Each key beside each one of all lines before it would take minutes.
TEST_CASE("lines of very many keys are soon told apart") {
  Fixture f(SessionSettings{.keys_in_flight = SIZE_MAX,
                            .keys_read = SIZE_MAX,
                            .all_keys_read = SIZE_MAX,
                            .own_line_bytes = UINT64_MAX});
  Client client(f.sessions);
  constexpr int kLines = 8;
  constexpr int kKeys = 30'000;
  int key = 0;
  std::string replies;
  for (int line = 0; line < kLines; ++line) {
    std::string text = "gat 0";
    f.ops.slow.insert(fmt::format("k{}", key));  // so that each line has all before it beside it
    for (int i = 0; i < kKeys; ++i) text += fmt::format(" k{}", key++);
    text += "\r\n";
    for (std::string_view left = text; !left.empty();) {
      const ssize_t sent = ::send(client.here.get(), left.data(), left.size(), MSG_NOSIGNAL);
      if (sent > 0) left.remove_prefix(static_cast<size_t>(sent));
      f.turns(1);
    }
    replies += "END\r\n";
  }
  f.until(client, [&] { return f.ops.turnstile.waiting() == kLines; });
  while (f.ops.turnstile.waiting() > 0) f.ops.turnstile.let_through();
  f.expect(client, replies);
}

TEST_CASE("replies leave in the order of the commands, though keys are served at once") {
  Fixture f;
  Client client(f.sessions);
  f.ops.slow = {"a"};
  client.send("set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\nversion\r\n");
  f.turns(3);
  client.collect();
  REQUIRE(f.ops.started == std::vector<std::string>{"store a", "store b"});
  REQUIRE(client.received.empty());
  f.ops.turnstile.let_through();
  f.expect(client, "STORED\r\nSTORED\r\nVERSION 1.6.18-elastripe-0.1.0\r\n");
}

TEST_CASE("updates and reads of parts of a value wait for those alone that overlap") {
  Fixture f;
  Client client(f.sessions);
  f.ops.entries["k"].value = "0123456789";
  f.ops.slow = {"k"};
  client.send(
      "ms k 2 o0\r\nab\r\nms k 2 o4\r\nef\r\nmg k v o6 n2\r\nmg k v o5 n2\r\nmg k v o8 n2\r\n");
  f.turns(3);
  REQUIRE(f.ops.started == std::vector<std::string>{"update k", "update k", "get k"});
  f.ops.slow.clear();
  f.ops.turnstile.let_through(3);
  f.expect(client, "HD\r\nHD\r\nVA 2\r\n67\r\nVA 2\r\nf6\r\nVA 2\r\n89\r\n");
  f.ops.slow = {"k"};
  f.ops.started.clear();
  // The cas is that of the whole.
  client.send("ms k 1 o0\r\nx\r\nmg k v c o5 n1\r\n");
  f.turns(3);
  REQUIRE(f.ops.started == std::vector<std::string>{"update k"});
  f.ops.slow.clear();
  f.ops.turnstile.let_through();
  f.turns(3);
  client.collect();
  REQUIRE(client.received.starts_with("HD\r\nVA 1 c"));
}

TEST_CASE("a read waits for the write of the same key before it, and so does all behind it") {
  Fixture f;
  Client client(f.sessions);
  f.ops.slow = {"a"};
  client.send("set a 0 0 1\r\n1\r\nget b a\r\nset c 0 0 1\r\n3\r\n");
  f.turns(3);
  REQUIRE(f.ops.started == std::vector<std::string>{"store a"});
  f.ops.slow.clear();
  f.ops.turnstile.let_through();
  f.expect(client, "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\nSTORED\r\n");
  REQUIRE(f.ops.started == std::vector<std::string>{"store a", "get b", "get a", "store c"});
}

TEST_CASE("a write waits for the reads of the same key before it") {
  Fixture f;
  Client client(f.sessions);
  f.ops.slow = {"a"};
  client.send("get a\r\nget a\r\nset a 0 0 1\r\n1\r\n");
  f.turns(3);
  REQUIRE(f.ops.started == std::vector<std::string>{"get a", "get a"});
  f.ops.slow.clear();
  f.ops.turnstile.let_through(2);
  f.expect(client, "END\r\nEND\r\nSTORED\r\n");
}

TEST_CASE(
    "where all of a connection is in order, writes wait for all before them, and all for writes") {
  Fixture f({.order = CommandOrder::kConnection});
  Client client(f.sessions);
  f.ops.slow = {"a", "b", "c"};
  client.send(
      "get a\r\nget b\r\nset c 0 0 1\r\n1\r\nversion\r\nget a b\r\nset d 0 0 1 noreply\r\n1\r\nget "
      "d\r\n");
  f.turns(3);
  REQUIRE(f.ops.started == std::vector<std::string>{"get a", "get b"});
  f.ops.turnstile.let_through();
  f.turns(3);
  REQUIRE(f.ops.started.size() == 2);
  f.ops.turnstile.let_through();
  f.turns(3);
  REQUIRE(f.ops.started.size() == 3);
  f.ops.slow = {"a"};
  f.ops.turnstile.let_through();
  f.turns(3);
  REQUIRE(f.ops.started == std::vector<std::string>{"get a", "get b", "store c", "get a", "get b"});
  f.ops.turnstile.let_through();
  f.expect(client,
           "END\r\nEND\r\nSTORED\r\nVERSION 1.6.18-elastripe-0.1.0\r\nEND\r\nVALUE d 0 "
           "1\r\n1\r\nEND\r\n");
  REQUIRE(f.ops.started.size() == 7);
}

TEST_CASE("where all of a connection is in order, so are parts of one value") {
  Fixture f({.order = CommandOrder::kConnection});
  Client client(f.sessions);
  f.ops.entries["k"].value = "0123456789";
  f.ops.slow = {"k"};
  client.send("ms k 2 o0\r\nab\r\nms k 2 o4\r\nef\r\n");
  f.turns(3);
  REQUIRE(f.ops.started == std::vector<std::string>{"update k"});
  f.ops.turnstile.let_through();
  f.turns(3);
  f.ops.turnstile.let_through();
  f.expect(client, "HD\r\nHD\r\n");
}

TEST_CASE("noreply commands take effect and say nothing") {
  Fixture f;
  Client client(f.sessions);
  client.send("set a 0 0 1 noreply\r\n1\r\ndelete b noreply\r\nget a\r\n");
  f.expect(client, "VALUE a 0 1\r\n1\r\nEND\r\n");
}

TEST_CASE("a large value is stored and read back whole") {
  Fixture f;
  Client client(f.sessions);
  std::string value(3'000'000, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>('a' + i * 7 % 26);
  const std::string command = "set big 0 0 3000000\r\n" + value + "\r\nget big\r\n";
  for (size_t at = 0; at < command.size(); at += 40'000) {
    client.send(std::string_view(command).substr(at, 40'000));
    f.turns(2);
  }
  f.expect(client, "STORED\r\nVALUE big 0 3000000\r\n" + value + "\r\nEND\r\n");
}

TEST_CASE("a value above the limit is swallowed, and the connection goes on") {
  Fixture f(SessionSettings{.max_object_bytes = 10});
  Client client(f.sessions);
  client.send("set a 0 0 11\r\nget get get\r\nget a\r\n");
  f.expect(client, "SERVER_ERROR object too large for cache\r\nEND\r\n");
}

TEST_CASE("a value without its line end is refused") {
  Fixture f;
  Client client(f.sessions);
  client.send("set a 0 0 2\r\nabcd");
  f.expect(client, "CLIENT_ERROR bad data chunk\r\n");
  REQUIRE(f.ops.started.empty());
}

TEST_CASE("unknown commands are errors, in order") {
  Fixture f;
  Client client(f.sessions);
  client.send("nonsense\r\nget a\r\n");
  f.expect(client, "ERROR\r\nEND\r\n");
}

TEST_CASE("quit closes after the replies before it") {
  Fixture f;
  Client client(f.sessions);
  f.ops.slow = {"a"};
  client.send("get a\r\nquit\r\nget b\r\n");
  f.turns(3);
  client.collect();
  REQUIRE_FALSE(client.closed);
  f.ops.turnstile.let_through();
  f.until(client, [&] { return client.closed; });
  REQUIRE(client.received == "END\r\n");
  REQUIRE(f.sessions.size() == 0);
}

// A socket that is closed with bytes that nobody has read ends in a reset.
TEST_CASE("the connection ends well whatever comes behind quit") {
  Fixture f;
  Client client(f.sessions);
  client.send("get a\r\nquit\r\n" + std::string(150'000, 'x'));
  f.until(client, [&] { return client.closed; });
  REQUIRE_FALSE(client.was_reset);
  REQUIRE(client.received == "END\r\n");
  f.until(client, [&] { return f.sessions.size() == 0; });
}

TEST_CASE("a client that ends its input gets the replies to what it sent") {
  Fixture f;
  Client client(f.sessions);
  f.ops.slow = {"a"};
  client.send("set a 0 0 1\r\n1\r\nget a\r\nget b");
  client.finish();
  f.turns(3);
  f.ops.slow.clear();
  f.ops.turnstile.let_through();
  f.until(client, [&] { return client.closed; });
  REQUIRE(client.received == "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
}

TEST_CASE("a client that vanishes does not stop its commands") {
  Fixture f;
  f.ops.slow = {"a"};
  {
    Client client(f.sessions);
    client.send("set a 0 0 1\r\n1\r\n");
    f.turns(3);
  }
  f.turns(3);
  f.ops.turnstile.let_through();
  f.turns(3);
  REQUIRE(f.ops.entries["a"].value == "1");
  REQUIRE(f.sessions.size() == 0);
}

TEST_CASE("a pipeline above the limit waits, and all of it is answered") {
  Fixture f(SessionSettings{.commands_in_flight = 4});
  Client client(f.sessions);
  f.ops.slow = {"a"};
  std::string expected;
  client.send("get a\r\n");
  expected += "END\r\n";
  for (int i = 0; i < 100; ++i) {
    client.send("get k" + std::to_string(i) + "\r\n");
    expected += "END\r\n";
  }
  f.turns(3);
  REQUIRE(f.ops.started.size() == 4);
  f.ops.turnstile.let_through();
  f.expect(client, expected);
}

TEST_CASE("a client that does not read its replies is read no further") {
  Fixture f(SessionSettings{.unsent_bytes = 100'000});
  Client client(f.sessions);
  f.ops.entries["big"] = {std::string(300'000, 'v'), 0, 0, 1};
  for (int i = 0; i < 50; ++i) client.send("get big\r\n");
  f.turns(20);
  REQUIRE(f.ops.started.size() < 50);
  f.until(client, [&] { return client.received.size() == 50 * (300'000 + 27); });
  REQUIRE(f.ops.started.size() == 50);
}

TEST_CASE("connections above the limit are told so and closed") {
  Fixture f(SessionSettings{.max_connections = 1});
  Client first(f.sessions);
  Client second(f.sessions);
  second.collect();
  REQUIRE(second.received == "ERROR Too many open connections\r\n");
  REQUIRE(second.closed);
  first.send("get a\r\n");
  f.expect(first, "END\r\n");
}

TEST_CASE("a client that stalls in a value is closed, an idle one is not") {
  Fixture f(SessionSettings{.stall_timeout = milliseconds(20)});
  Client idle(f.sessions);
  Client stalled(f.sessions);
  stalled.send("set a 0 0 10\r\nabc");
  f.until(stalled, [&] { return stalled.closed; });
  idle.send("get a\r\n");
  f.expect(idle, "END\r\n");
}

TEST_CASE("the machine of a silent client is asked whether it is there") {
  Loop loop;
  const auto address = resolve("127.0.0.1", 0);
  REQUIRE(address.has_value());
  auto socket = listen_on(*address, false);
  REQUIRE(socket.has_value());
  const auto here = resolve("127.0.0.1", port_of(*socket));
  Fd accepted;
  Listener listener(loop, std::move(*socket), seconds(60), [&](Fd client) {
    accepted = std::move(client);
    loop.stop();
  });
  const Connecting client = start_connect(*here);
  loop.run();
  const auto option = [&](int level, int name) {
    int value = 0;
    socklen_t length = sizeof value;
    REQUIRE(getsockopt(accepted.get(), level, name, &value, &length) == 0);
    return value;
  };
  CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(option(IPPROTO_TCP, TCP_KEEPIDLE) == 60);
  CHECK(option(IPPROTO_TCP, TCP_KEEPINTVL) == 10);
  CHECK(option(IPPROTO_TCP, TCP_KEEPCNT) == 3);
}

TEST_CASE("a client that stalls in a line is closed, one that ends its lines is not") {
  // Long enough that a busy machine does not hold up the slow client for as long.
  Fixture f(SessionSettings{.stall_timeout = seconds(1)});
  Client stalled(f.sessions), trickling(f.sessions), slow(f.sessions);
  stalled.send("get a\r\nget");
  slow.send("get");
  const TimePoint begun = f.clock.now();
  TimePoint sent = begun;
  while (!stalled.closed || !trickling.closed) {
    f.turns(1);
    for (Client* client : {&stalled, &trickling, &slow}) client->collect();
    REQUIRE(f.clock.now() - begun < seconds(10));
    if (f.clock.now() - sent < milliseconds(5)) continue;
    sent = f.clock.now();
    if (!trickling.closed) (void)::send(trickling.here.get(), "g", 1, MSG_NOSIGNAL);
    slow.send(" a\r\nget");  // half a line is there all the time
  }
  CHECK(stalled.received == "END\r\n");
  CHECK_FALSE(slow.closed);
}

TEST_CASE("half a line that is not read, or that nothing follows, is nobody's fault") {
  Fixture f(SessionSettings{.commands_in_flight = 1, .stall_timeout = milliseconds(20)});
  f.ops.slow = {"a"};
  Client full(f.sessions), ended(f.sessions);
  full.send("get a\r\nget b\r\nge");
  ended.send("get a\r\nge");
  ended.finish();
  f.until(full, [&] { return f.ops.turnstile.waiting() == 2; });
  const TimePoint begun = f.clock.now();
  while (f.clock.now() - begun < milliseconds(100)) f.turns(1);
  for (Client* client : {&full, &ended}) {
    client->collect();
    CHECK_FALSE(client->closed);
  }
  while (f.ops.turnstile.waiting() > 0) f.ops.turnstile.let_through();
  f.until(ended, [&] { return ended.closed; });
  CHECK(ended.received == "END\r\n");
  f.until(full, [&] { return full.received.size() >= 10; });
  CHECK(full.received == "END\r\nEND\r\n");
}

TEST_CASE("a connection whose commands have very many keys begins no more of them") {
  Fixture f(SessionSettings{.keys_in_flight = 3});
  f.ops.slow = {"a", "d"};
  Client client(f.sessions);
  client.send("get a b c\r\nget d\r\n");
  f.turns(3);
  CHECK(f.ops.turnstile.waiting() == 1);
  f.ops.turnstile.let_through();
  f.until(client, [&] { return f.ops.turnstile.waiting() == 1; });
  f.ops.turnstile.let_through();
  f.expect(client, "END\r\nEND\r\n");
}

TEST_CASE("an idle client is closed after the idle time-out") {
  Fixture f(SessionSettings{.idle_timeout = milliseconds(20)});
  Client client(f.sessions);
  client.send("get a\r\n");
  f.expect(client, "END\r\n");
  f.until(client, [&] { return client.closed; });
}

}  // namespace
}  // namespace elastripe
