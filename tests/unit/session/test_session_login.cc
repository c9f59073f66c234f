// Sessions of clients that have to log in.
#include <catch2/catch.hpp>

#include "tests/unit/session/binary_requests.h"
#include "tests/unit/session/session_fixture.h"

namespace elastripe {
namespace {

using Opcode = memcache::BinaryOpcode;
using Status = memcache::BinaryStatus;

struct LoginFixture : SessionFixture {
  explicit LoginFixture(SessionSettings settings = {}) : SessionFixture(settings) {
    let_in("alice:secret");
  }
  void let_in(std::string_view text) {
    users.store(std::make_shared<const Users>(Users::parse(text).value()));
  }
  uint64_t count(Stat stat) { return server.worker(0).value(stat); }

  Published<Users> users;
  const ClientAccess access{.users = &users};
};

std::string plain(const std::string& name, const std::string& password,
                  const std::string& acts_as = "") {
  return binary_request(Opcode::kSaslAuth, "", "PLAIN", acts_as + '\0' + name + '\0' + password);
}

const std::string kTextLogin = "set any 0 0 12\r\nalice secret\r\n";
const std::string kLoggedIn =
    binary_response(Opcode::kSaslAuth, Status::kOk, 0, "", "", "Authenticated");
std::string refused(Opcode opcode) {
  return binary_response(opcode, Status::kUnauthenticated, 0, "", "", "Auth failure.");
}

}  // namespace

TEST_CASE("a text client logs in with its first set, wherever that is cut", "[login]") {
  const std::string requests = kTextLogin + "set key 0 0 1\r\nx\r\nget key\r\n";
  for (size_t cut = 1; cut < requests.size(); ++cut) {
    LoginFixture f;
    SessionClient client(f.sessions, f.access);
    client.send(requests.substr(0, cut));
    f.turns(2);
    client.send(requests.substr(cut));
    f.expect(client, "STORED\r\nSTORED\r\n" + value_reply("key", "x") + "END\r\n");
    CHECK_FALSE(f.ops.entries.contains("any"));
    CHECK(f.count(Stat::kAuthCmds) == 1);
    CHECK(f.count(Stat::kAuthErrors) == 0);
  }
}

TEST_CASE("nothing is done for a text client that has not logged in", "[login]") {
  const std::string refusal = "CLIENT_ERROR unauthenticated\r\n";
  for (const std::string request : {"get key\r\n", "add key 0 0 1\r\nx\r\n", "ms key 1\r\nx\r\n",
                                    "delete key\r\n", "flush_all\r\n", "stats\r\n", "version\r\n",
                                    "mn\r\n", "nonsense\r\n", "set key 0 0 nonsense\r\n"}) {
    CAPTURE(request);
    LoginFixture f;
    SessionClient client(f.sessions, f.access);
    client.send(request + kTextLogin + "get key\r\n");
    f.expect(client, refusal + "STORED\r\nEND\r\n");
    CHECK(f.ops.entries.empty());
  }
}

TEST_CASE("a wrong login is told so, and another one may follow", "[login]") {
  LoginFixture f;
  SessionClient client(f.sessions, f.access);
  const auto try_login = [&](const std::string& value) {
    client.send("set k 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n");
  };
  try_login("alice wrong");
  f.expect(client, "CLIENT_ERROR authentication failure\r\n");
  try_login("alice");
  f.expect(client, "CLIENT_ERROR bad authentication token format\r\n");
  client.send("set k 0 0 12\r\nalice secretXX");
  f.expect(client, "CLIENT_ERROR bad data chunk\r\n");
  try_login(std::string(2049, 'x'));
  f.expect(client, "CLIENT_ERROR unauthenticated\r\n");
  CHECK(f.count(Stat::kAuthErrors) == 2);
  try_login("alice secret");
  f.expect(client, "STORED\r\n");
  CHECK(f.count(Stat::kAuthCmds) == 3);
}

TEST_CASE("who guesses is closed after the third time, answered or not", "[login]") {
  for (const bool noreply : {false, true}) {
    LoginFixture f;
    SessionClient client(f.sessions, f.access);
    const std::string guess =
        std::string("set k 0 0 11") + (noreply ? " noreply" : "") + "\r\nalice wrong\r\n";
    std::string guesses;
    for (int i = 0; i < 100; ++i) guesses += guess;
    client.send(guesses + kTextLogin + "get key\r\n");
    std::string refusals;
    for (int i = 0; i < 3 && !noreply; ++i) refusals += "CLIENT_ERROR authentication failure\r\n";
    f.expect(client, refusals);
    f.until(client, [&] { return client.closed; });
    CHECK(f.count(Stat::kAuthErrors) == 3);
  }
  // Once it is in, what failed before is forgotten.
  LoginFixture f;
  SessionClient client(f.sessions, f.access);
  for (int i = 0; i < 5; ++i) {
    client.send(plain("alice", "wrong") + plain("alice", "secret"));
    f.expect(client, refused(Opcode::kSaslAuth) + kLoggedIn);
  }
}

TEST_CASE("a binary client logs in by SASL PLAIN", "[login]") {
  LoginFixture f;
  SessionClient client(f.sessions, f.access);
  client.send(binary_request(Opcode::kSaslMechanisms));
  f.expect(client, binary_response(Opcode::kSaslMechanisms, Status::kOk, 0, "", "", "PLAIN"));
  for (const std::string& wrong :
       {plain("alice", "wrong"), plain("bob", "secret"), plain("alice", "secret", "bob"),
        binary_request(Opcode::kSaslAuth, "", "PLAIN", "alice"),
        binary_request(Opcode::kSaslAuth, "", "PLAIN"),
        binary_request(Opcode::kSaslAuth, "", "CRAM-MD5", std::string("\0alice\0secret", 13))}) {
    SessionClient guesser(f.sessions, f.access);
    guesser.send(wrong);
    f.expect(guesser, refused(Opcode::kSaslAuth));
  }
  client.send(binary_request(Opcode::kSaslStep, "", "PLAIN", std::string("\0alice\0secret", 13)));
  f.expect(client, refused(Opcode::kSaslStep));
  client.send(plain("alice", "secret", "alice") + binary_request(Opcode::kNoop));
  f.expect(client, kLoggedIn + binary_response(Opcode::kNoop, Status::kOk));
  // Who logs in again and fails is nobody any more.
  client.send(plain("alice", "wrong") + binary_request(Opcode::kNoop));
  f.expect(client, refused(Opcode::kSaslAuth) + refused(Opcode::kNoop));
}

TEST_CASE("nothing but the version is told to a binary client that has not logged in", "[login]") {
  LoginFixture f;
  SessionClient client(f.sessions, f.access);
  client.send(binary_request(Opcode::kVersion));
  f.until(client, [&] { return client.received.ends_with(f.server.version); });
  client.received.clear();
  const std::string extras("\0\0\0\0\0\0\0\0", 8);
  client.send(binary_request(Opcode::kSet, extras, "key", "value") +
              binary_request(Opcode::kGet, "", "key"));
  f.expect(client, refused(Opcode::kSet) + refused(Opcode::kGet));
  CHECK(f.ops.entries.empty());
}

TEST_CASE("where nobody has to log in there is no SASL, and set is a set", "[login]") {
  LoginFixture f;
  SessionClient client(f.sessions);
  const auto unknown = [](Opcode opcode) {
    return binary_response(opcode, Status::kUnknownCommand, 0, "", "", "Unknown command");
  };
  client.send(binary_request(Opcode::kSaslMechanisms) + plain("alice", "secret") +
              binary_request(Opcode::kNoop));
  f.expect(client, unknown(Opcode::kSaslMechanisms) + unknown(Opcode::kSaslAuth) +
                       binary_response(Opcode::kNoop, Status::kOk));
  client.send(kTextLogin);
  f.expect(client, "STORED\r\n");
  CHECK(f.ops.entries.contains("any"));
}

TEST_CASE("users that change count for the next login", "[login]") {
  LoginFixture f;
  SessionClient before(f.sessions, f.access);
  before.send(kTextLogin);
  f.expect(before, "STORED\r\n");
  f.let_in("bob:other");
  before.send("mn\r\n");
  f.expect(before, "MN\r\n");
  SessionClient after(f.sessions, f.access);
  after.send(kTextLogin + "set k 0 0 9\r\nbob other\r\n");
  f.expect(after, "CLIENT_ERROR authentication failure\r\nSTORED\r\n");
}

TEST_CASE("a client that does not log in is closed after a while", "[login]") {
  SessionSettings settings;
  settings.stall_timeout = std::chrono::milliseconds(50);
  LoginFixture f(settings);
  SessionClient silent(f.sessions, f.access);
  SessionClient user(f.sessions, f.access);
  user.send(kTextLogin);
  f.expect(user, "STORED\r\n");
  f.until(silent, [&] { return silent.closed; });
  user.send("mn\r\n");
  f.expect(user, "MN\r\n");
}

TEST_CASE("a client that does not log in keeps nobody out", "[login]") {
  LoginFixture f(SessionSettings{.max_connections = 2});
  SessionClient user(f.sessions, f.access);
  user.send(kTextLogin);
  f.expect(user, "STORED\r\n");
  SessionClient silent(f.sessions, f.access);
  SessionClient another(f.sessions, f.access);  // in place of the silent one
  f.until(silent, [&] { return silent.closed; });
  CHECK(silent.received.empty());
  another.send(kTextLogin);
  f.expect(another, "STORED\r\n");
  SessionClient third(f.sessions, f.access);  // both have come in: there is no place
  f.until(third, [&] { return third.closed; });
  CHECK(third.received == "ERROR Too many open connections\r\n");
  CHECK(f.count(Stat::kRejectedConnections) == 2);
  shutdown(another.here.get(), SHUT_RDWR);
  f.until(another, [&] { return f.sessions.size() == 1; });
  SessionClient fourth(f.sessions, f.access);
  fourth.send(kTextLogin);
  f.expect(fourth, "STORED\r\n");
  user.send("mn\r\n");
  f.expect(user, "MN\r\n");
}

TEST_CASE("attempts to log in that failed are counted", "[login]") {
  LoginFixture f;
  SessionClient client(f.sessions, f.access);
  for (int attempt = 0; attempt < 3; ++attempt) client.send("set k 0 0 9\r\nbob other\r\n");
  f.until(client, [&] { return client.closed; });
  CHECK(f.count(Stat::kAuthErrors) == 3);
  CHECK(f.registry.value("elastripe_client_auth_failures_total") == 3);
}

TEST_CASE("a client that has not logged in has lines as short as of any command", "[login]") {
  LoginFixture f;
  SessionClient client(f.sessions, f.access);
  client.send("get " + std::string(3000, 'k'));
  f.expect(client, "CLIENT_ERROR unauthenticated\r\n");
  f.until(client, [&] { return client.closed; });
}

}  // namespace elastripe
