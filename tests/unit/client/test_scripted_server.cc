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

}  // namespace
}  // namespace elastripe::client
