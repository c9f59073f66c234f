// What the client makes of replies that a healthy server does not send.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "client-lib/client.h"
#include "tests/unit/client/server.h"

namespace elastripe::client {
namespace {

Client connected_to(const ScriptedServer& server) {
  Options options;
  options.port = server.port();
  return Client::create(options).value();
}

TEST_CASE("an error on a get is never a miss, and keeps its reason") {
  for (const std::string kind : {"SERVER_ERROR", "CLIENT_ERROR"}) {
    ScriptedServer server("\r\n", kind + " object lost: 3 of 7 shards missing\r\n");
    const auto value = connected_to(server).get("key");
    REQUIRE(!value);
    CHECK(value.error().kind == ErrorKind::kServer);
    CHECK(value.error().message.find("object lost: 3 of 7 shards missing") != std::string::npos);
  }
}

TEST_CASE("a put whose outcome is unknown is told apart from one that was refused") {
  for (const std::string kind : {"SERVER_ERROR", "CLIENT_ERROR"}) {
    ScriptedServer server("object\r\n", kind + " proxy lost the head, outcome unknown\r\n");
    const auto put = connected_to(server).put("key", "object");
    REQUIRE(!put);
    CHECK(put.error().kind == ErrorKind::kUnknownOutcome);
  }
  ScriptedServer server("object\r\n", "SERVER_ERROR out of memory storing object\r\n");
  const auto put = connected_to(server).put("key", "object");
  REQUIRE(!put);
  CHECK(put.error().kind == ErrorKind::kServer);
}

TEST_CASE("a put that the server has no room for says so") {
  for (const std::string reason : {"out of memory storing object", "object too large for cache"}) {
    ScriptedServer server("object\r\n", "SERVER_ERROR " + reason + "\r\n");
    const auto put = connected_to(server).put("key", "object");
    REQUIRE(!put);
    CHECK(put.error().kind == ErrorKind::kServer);
    CHECK(put.error().message == reason);
  }
}

TEST_CASE("a reply that breaks off in the middle of an object is an error") {
  ScriptedServer server("\r\n", "VALUE key 0 10\r\nobj");
  const auto value = connected_to(server).get("key");
  REQUIRE(!value);
  CHECK(value.error().kind == ErrorKind::kConnection);
}

TEST_CASE("get_many that ends in an error hides what came before") {
  for (const std::string kind : {"SERVER_ERROR", "CLIENT_ERROR"}) {
    ScriptedServer server("\r\n", "VALUE a 0 1\r\nx\r\n" + kind + " not enough nodes\r\n");
    const auto found = connected_to(server).get_many(std::vector<std::string>{"a", "b"});
    REQUIRE(!found);
    CHECK(found.error().kind == ErrorKind::kServer);
  }
}

TEST_CASE("a range is its bytes, with the cas and the size of the whole object") {
  ScriptedServer server("mg key v c s o5 n3\r\n", "VA 3 c77 s1000\r\na\r\n\r\n");
  const auto range = connected_to(server).get_range("key", 5, 3);
  REQUIRE(range.has_value());
  CHECK(range->bytes == "a\r\n");
  CHECK(range->cas == 77);
  CHECK(range->object_bytes == 1000);
}

TEST_CASE("a range of nothing is not found, and an error keeps its reason") {
  struct Case {
    std::string reply;
    ErrorKind kind;
    std::string part;
  };
  for (const auto& [reply, kind, part] :
       {Case{"EN\r\n", ErrorKind::kNotFound, "no such object"},
        Case{"CLIENT_ERROR lost: 3 shards\r\n", ErrorKind::kServer, "lost: 3 shards"},
        Case{"ERROR\r\n", ErrorKind::kServer, "ERROR"},
        Case{"VA 10 c1 s10\r\nabc", ErrorKind::kConnection, "closed"},
        Case{"VA", ErrorKind::kConnection, "closed"}}) {
    ScriptedServer server("\r\n", reply);
    const auto range = connected_to(server).get_range("key", 0, 10);
    REQUIRE_FALSE(range.has_value());
    CHECK(range.error().kind == kind);
    CHECK(range.error().message.find(part) != std::string::npos);
  }
}

TEST_CASE("an update tells the new cas, or why it was not done") {
  {
    ScriptedServer server("ms key 2 c s o7 C5\r\nxy\r\n", "HD c6 s10\r\n");
    const auto cas = connected_to(server).update("key", 7, "xy", {.cas = 5});
    REQUIRE(cas.has_value());
    CHECK(*cas == 6);
  }
  struct Case {
    std::string reply;
    ErrorKind kind;
  };
  for (const auto& [reply, kind] :
       {Case{"NF\r\n", ErrorKind::kNotFound}, Case{"EX c6 s10\r\n", ErrorKind::kExists},
        Case{"NS c6 s8\r\n", ErrorKind::kOutOfRange},
        Case{"CLIENT_ERROR outcome unknown: n1\r\n", ErrorKind::kUnknownOutcome},
        Case{"SERVER_ERROR object too large for cache\r\n", ErrorKind::kServer},
        Case{"", ErrorKind::kConnection}}) {
    ScriptedServer server("xy\r\n", reply);
    const auto cas = connected_to(server).update("key", 7, "xy");
    REQUIRE_FALSE(cas.has_value());
    CHECK(cas.error().kind == kind);
  }
}

}  // namespace
}  // namespace elastripe::client
