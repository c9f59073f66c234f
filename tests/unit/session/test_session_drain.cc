// How sessions end when the proxy does: what runs is answered, nothing more is taken.
#include "tests/unit/session/session_fixture.h"

namespace elastripe {
namespace {

using Client = SessionClient;
using Fixture = SessionFixture;

TEST_CASE("draining answers what runs, then closes") {
  Fixture f;
  Client client(f.sessions);
  f.ops.slow = {"a"};
  client.send("get a\r\n");
  f.turns(3);
  bool empty = false;
  f.sessions.drain([&] { empty = true; });
  f.turns(3);
  REQUIRE_FALSE(empty);
  f.ops.turnstile.let_through();
  f.until(client, [&] { return client.closed; });
  REQUIRE(client.received == "END\r\n");
  REQUIRE(empty);
}

TEST_CASE("draining closes idle clients at once") {
  Fixture f;
  Client idle(f.sessions);
  Client in_line(f.sessions);
  in_line.send("get a");
  f.turns(3);
  bool empty = false;
  f.sessions.drain([&] { empty = true; });
  f.until(idle, [&] { return idle.closed; });
  f.until(in_line, [&] { return in_line.closed; });
  CHECK(in_line.received.empty());
  CHECK(empty);
}

TEST_CASE("draining waits for a value that is half-way in, and takes no command behind it") {
  Fixture f;
  const size_t size = GENERATE(10u, 300'000u);  // whole before its command begins, or in parts
  const std::string value(size, 'v');
  f.ops.part_bytes = 100'000;
  Client client(f.sessions);
  client.send("set a 0 0 " + std::to_string(size) + "\r\n" + value.substr(0, 5));
  f.turns(3);
  bool empty = false;
  f.sessions.drain([&] { empty = true; });
  f.turns(3);
  REQUIRE_FALSE(empty);
  std::string_view rest = std::string_view(value).substr(5);
  while (rest.size() > 50'000) {
    client.send(rest.substr(0, 50'000));
    rest.remove_prefix(50'000);
    f.turns(3);
  }
  client.send(std::string(rest) + "\r\nset b 0 0 1\r\nb\r\n");
  f.until(client, [&] { return client.closed; });
  CHECK(client.received == "STORED\r\n");
  CHECK((f.ops.entries.at("a").value == value));
  CHECK_FALSE(f.ops.entries.contains("b"));
  CHECK(empty);
}

TEST_CASE("draining waits for the value of a command that waits for another") {
  Fixture f;
  f.ops.slow = {"a"};
  const std::string value(300, 'v');
  Client client(f.sessions);
  client.send("get a\r\nset a 0 0 300\r\n");
  f.turns(3);
  bool empty = false;
  f.sessions.drain([&] { empty = true; });
  f.turns(3);
  f.ops.slow.clear();
  f.ops.turnstile.let_through();
  f.turns(3);
  client.send(value + "\r\n");
  f.until(client, [&] { return client.closed; });
  CHECK(client.received == "END\r\nSTORED\r\n");
  CHECK(empty);
}

TEST_CASE("a drain is over when the rest of a value is not wanted any more") {
  Fixture f;
  f.ops.part_bytes = 100'000;
  f.ops.failures["the rest of a"] = {ErrorCode::kNoSpace, "no room"};
  Client client(f.sessions);
  client.send("set a 0 0 300000\r\n");
  f.turns(3);
  bool empty = false;
  f.sessions.drain([&] { empty = true; });
  f.until(client, [&] { return client.closed; });
  CHECK(client.received.starts_with("SERVER_ERROR"));
  CHECK(empty);
}

}  // namespace
}  // namespace elastripe
