// Sessions: what one client holds keeps no other waiting.
#include "tests/unit/session/session_fixture.h"

namespace elastripe {
namespace {

using Client = SessionClient;
using Fixture = SessionFixture;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kLarge = 3'000'000;

// More than the socket takes at once.
void send_all(Fixture& f, Client& client, std::string_view bytes) {
  f.until(client, [&] {
    const ssize_t part = send(client.here.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (part > 0) bytes.remove_prefix(static_cast<size_t>(part));
    return bytes.empty();
  });
}

// Memory for one large value, and a client that asks for it and does not take it.
struct StalledReader {
  StalledReader(Fixture& f, const std::string& command = "get large\r\nget large large\r\n")
      : client(f.sessions) {
    f.ops.limit_reads(0, kLarge);
    f.ops.entries["large"] = {.value = std::string(kLarge, 'v')};
    client.send(command);
    f.turns(3);
    REQUIRE(f.ops.memory().read.in_turn.waiting() > 0);
  }
  Client client;
};

TEST_CASE("small values leave while a client that does not read holds all memory") {
  Fixture f;
  StalledReader stalled(f);
  const auto size = static_cast<size_t>(GENERATE(1, 50, 1000, 20'000, 65'536));
  const std::string small(size, 's');
  f.ops.entries["small"] = {.value = small};
  Client other(f.sessions);
  for (int i = 0; i < 3; ++i) {
    other.send("get small\r\nmg small v\r\ngat 0 small\r\n");
    f.expect(other, value_reply("small", small) + "END\r\nVA " + std::to_string(size) + "\r\n" +
                        small + "\r\n" + value_reply("small", small) + "END\r\n");
  }
  // Together they are more than a client has for itself, so they leave as it takes them.
  std::string command = "get";
  std::string expected;
  for (int i = 0; i < 30; ++i) {
    command += " small missing";
    expected += value_reply("small", small);
  }
  other.send(command + "\r\n");
  f.expect(other, expected + "END\r\n");
  REQUIRE(f.sessions.size() == 2);
}

TEST_CASE("a client that takes its values is not kept waiting by one that does not") {
  Fixture f(SessionSettings{.yield_timeout = milliseconds(40)});
  StalledReader stalled(f);
  Client other(f.sessions);
  other.send("get large\r\n");
  f.expect(other, value_reply("large", std::string(kLarge, 'v')) + "END\r\n");
  stalled.client.collect();
  REQUIRE(f.sessions.size() == 1);
}

TEST_CASE("a client that does not read is not cut while nobody waits for what it holds") {
  Fixture f(SessionSettings{.yield_timeout = milliseconds(4)});
  f.ops.entries["large"] = {.value = std::string(kLarge, 'v')};
  Client client(f.sessions);
  client.send("get large\r\n");
  f.until(client, [&] { return !client.received.empty(); });
  const TimePoint later = f.clock.now() + milliseconds(100);
  while (f.clock.now() < later) f.turns(1);
  f.until(client, [&] { return client.received.size() >= kLarge; });
}

TEST_CASE("small values are stored while an upload that does not go on holds all memory") {
  Fixture f;
  f.ops.part_bytes = 1 << 20;
  Client stalled(f.sessions);
  Client waiting(f.sessions);
  const auto taken = f.ops.memory().staged.try_acquire(2 << 20);
  for (Client* client : {&stalled, &waiting}) {
    client->send("set large 0 0 3000000\r\n" + std::string(100'000, 'v'));
    f.turns(3);
  }
  REQUIRE(f.ops.memory().staged.free() == 0);
  REQUIRE(f.ops.memory().staged.waiting() == 1);
  Client other(f.sessions);
  for (const size_t size : {101u, 20'000u, 65'536u}) {
    const std::string small(size, 's');
    const std::string command = "set small 0 0 " + std::to_string(size) + "\r\n" + small + "\r\n";
    other.send(command + command);
    f.expect(other, "STORED\r\nSTORED\r\n");
    REQUIRE((f.ops.entries["small"].value == small));
  }
  REQUIRE(f.sessions.size() == 3);
}

TEST_CASE("a large upload is stored when those that do not go on have held it up long enough") {
  Fixture f(SessionSettings{.yield_timeout = milliseconds(40)});
  Client stalled(f.sessions);
  stalled.send("set large 0 0 3000000\r\n" + std::string(100'000, 'v'));
  f.turns(3);
  Client other(f.sessions);
  const std::string value(kLarge, 'v');
  const std::string command = "set other 0 0 3000000\r\n" + value + "\r\n";
  send_all(f, other, command);
  f.expect(other, "STORED\r\n");
  REQUIRE((f.ops.entries["other"].value == value));
  REQUIRE(f.sessions.size() == 1);
}

TEST_CASE("an upload takes no memory before its bytes come") {
  Fixture f;
  f.ops.part_bytes = 1 << 20;
  Client client(f.sessions);
  client.send("set large 0 0 3000000\r\n" + std::string(1000, 'v'));
  f.turns(3);
  const uint64_t all = 3 << 20;
  REQUIRE(f.ops.started == std::vector<std::string>{"store large"});
  REQUIRE(f.ops.memory().staged.free() == all);
  client.send(std::string(64 << 10, 'v'));
  f.turns(3);
  REQUIRE(f.ops.memory().staged.free() == all - (1 << 20));
  send_all(f, client, std::string(3'000'000 - 1000 - (64 << 10), 'v') + "\r\n");
  f.expect(client, "STORED\r\n");
  REQUIRE((f.ops.entries["large"].value == std::string(3'000'000, 'v')));
}

TEST_CASE("a multi-get of small values goes on as its client takes them") {
  Fixture f(SessionSettings{.read_bytes = 400'000});
  const std::string value(1000, 'v');
  f.ops.entries["key"] = {.value = value};
  constexpr size_t kKeys = 10'000;
  std::string line = "get";
  for (size_t i = 0; i < kKeys; ++i) line += " key";
  Client client(f.sessions);
  client.send(line + "\r\n" + line + "\r\n");
  f.turns(50);
  const size_t before = f.ops.started.size();
  // What the socket holds, the memory of the values, and unsent_text.
  REQUIRE(before < kKeys / 5);
  f.turns(50);
  REQUIRE(f.ops.started.size() == before);
  const std::string one = value_reply("key", value);
  f.until(client, [&] { return client.received.size() == 2 * (kKeys * one.size() + 5); });
  REQUIRE(f.ops.started.size() == 2 * kKeys);
}

TEST_CASE("long lines of one client do not take the memory of another's keys") {
  Fixture f(SessionSettings{
      .yield_timeout = milliseconds(40), .line_bytes = 100'000, .own_line_bytes = 10'000});
  std::string line = "get";
  while (line.size() < 100'000) line += " key";
  Client greedy(f.sessions);
  greedy.send(line);
  f.turns(3);
  Client second(f.sessions);
  second.send(line);
  Client other(f.sessions);
  std::string short_line = "get";
  for (int i = 0; i < 100; ++i) short_line += " missing";
  other.send(short_line + "\r\n");
  f.expect(other, "END\r\n");
  // The second's comes to its turn when the first, which does not go on, is cut.
  f.until(greedy, [&] { return greedy.closed; });
  second.send("\r\nversion\r\n");
  f.expect(second, "END\r\nVERSION 1.6.18-elastripe-0.1.0\r\n");
}

TEST_CASE("lines that are long together do not wait for each other half-way") {
  Fixture f(SessionSettings{
      .line_bytes = 250'000, .own_line_bytes = 10'000, .longest_line_bytes = 100'000});
  std::string line = "get";
  while (line.size() < 80'000) line += " missing";
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<Client>(f.sessions));
    clients.back()->send(line.substr(0, 40'000));
    f.turns(2);
  }
  for (auto& client : clients) send_all(f, *client, line.substr(40'000) + "\r\n");
  for (auto& client : clients) f.expect(*client, "END\r\n");
}

TEST_CASE("a multi-get that waits for its client holds nothing that it waits for") {
  Fixture f(SessionSettings{.read_bytes = 4'000'000});
  f.ops.part_bytes = 1'000'000;
  f.ops.slow = {"slow"};
  const std::string small(900, 's');
  const std::string large(6'000'000, 'v');
  f.ops.entries["small"] = {.value = small};
  f.ops.entries["large"] = {.value = large};
  std::string line = "get";
  std::string expected = "STORED\r\n";
  for (int i = 0; i < 300; ++i) {
    line += " small";
    expected += value_reply("small", small);
  }
  expected += value_reply("large", large) + "END\r\n";
  Client client(f.sessions);
  client.send("set slow 0 0 1\r\n1\r\n" + line + " large\r\n");
  f.turns(50);
  f.ops.slow.clear();
  f.ops.turnstile.let_through();
  f.until(client, [&] { return client.received.size() >= expected.size(); });
  REQUIRE((client.received == expected));
}

TEST_CASE("a client that keeps only itself waiting is not cut") {
  Fixture f(SessionSettings{.yield_timeout = milliseconds(4)});
  f.ops.part_bytes = 1'000'000;
  f.ops.limit_reads(0, 2'000'000);
  f.ops.entries["large"] = {.value = std::string(6'000'000, 'v')};
  Client client(f.sessions);
  client.send("get large\r\n");
  f.turns(10);
  REQUIRE(f.ops.memory().read.in_turn.waiting() == 1);
  const TimePoint later = f.clock.now() + milliseconds(100);
  while (f.clock.now() < later) f.turns(1);
  f.until(client, [&] { return client.received.size() >= 6'000'000; });
}

TEST_CASE("an upload that lacks its line end only keeps others waiting no longer than another") {
  Fixture f(SessionSettings{.yield_timeout = milliseconds(40)});
  const auto taken = f.ops.memory().staged.try_acquire(1 << 20);
  const std::string value(2'000'000, 'v');
  Client stalled(f.sessions);
  send_all(f, stalled, "set large 0 0 2000000\r\n" + value);
  f.turns(3);
  Client other(f.sessions);
  send_all(f, other, "set other 0 0 2000000\r\n" + value + "\r\n");
  f.expect(other, "STORED\r\n");
  REQUIRE(f.sessions.size() == 1);
}

TEST_CASE("a connection parses no more keys than it may hold") {
  Fixture f(SessionSettings{.own_line_bytes = 10'000});
  f.ops.slow = {"slow"};
  std::string line = "get slow";
  for (int i = 0; i < 100; ++i) line += " missing";
  std::string lines;
  std::string replies;
  for (int i = 0; i < 50; ++i) {
    lines += line + "\r\n";
    replies += "END\r\n";
  }
  Client client(f.sessions);
  client.send(lines);
  f.turns(5);
  REQUIRE(f.ops.turnstile.waiting() > 0);
  REQUIRE(f.ops.turnstile.waiting() <= 3);
  f.ops.slow.clear();
  f.until(client, [&] {
    if (f.ops.turnstile.waiting() > 0) f.ops.turnstile.let_through();
    return client.received.size() >= replies.size();
  });
  REQUIRE(client.received == replies);
}

TEST_CASE("what a client sent behind a command takes none of the memory that this waits for") {
  Fixture f(
      SessionSettings{.line_bytes = 20'000, .own_line_bytes = 1'000, .longest_line_bytes = 20'000});
  f.ops.slow = {"slow"};
  std::string line = "get slow";
  for (int i = 0; i < 100; ++i) line += " missing";
  Client client(f.sessions);
  client.send("set slow 0 0 1\r\n1\r\n" + line + "\r\n" + line + "\r\n" + line + "\r\n");
  f.turns(5);
  f.ops.slow.clear();
  f.ops.turnstile.let_through();
  const std::string value = value_reply("slow", "1") + "END\r\n";
  f.expect(client, "STORED\r\n" + value + value + value);
}

TEST_CASE("a line gives its memory to the keys that it becomes, at once") {
  Fixture f(SessionSettings{.commands_in_flight = 1,
                            .yield_timeout = std::chrono::hours(1),  // nothing looks by the clock
                            .line_bytes = 20'000,
                            .own_line_bytes = 500,
                            .longest_line_bytes = 20'000});
  f.ops.slow = {"slow"};
  std::string line = "get";
  for (int i = 0; i < 100; ++i) line += " missing";
  Client client(f.sessions);
  client.send("touch slow 0\r\n" + line + "\r\n" + line + "\r\nversion\r\n");
  f.turns(5);
  f.ops.turnstile.let_through();
  f.expect(client, "NOT_FOUND\r\nEND\r\nEND\r\nVERSION 1.6.18-elastripe-0.1.0\r\n");
}

TEST_CASE("small values that are not taken count as memory") {
  Fixture f(SessionSettings{.unsent_text = 100'000, .read_bytes = 400'000});
  f.ops.entries["key"] = {.value = std::string(1000, 'v')};
  f.ops.slow = {"slow"};
  std::string lines = "get slow\r\n";
  std::string line = "get";
  for (int i = 0; i < 500; ++i) line += " key";
  for (int i = 0; i < 20; ++i) lines += line + "\r\n";
  Client client(f.sessions);
  client.send(lines);
  f.turns(50);
  // Everything waits behind the first command: no more is read than there is memory for.
  REQUIRE(f.ops.read.size() < 800);
  f.ops.slow.clear();
  f.ops.turnstile.let_through();
  const std::string one = value_reply("key", std::string(1000, 'v'));
  f.until(client, [&] { return client.received.size() == 5 + 20 * (500 * one.size() + 5); });
}

}  // namespace
}  // namespace elastripe
