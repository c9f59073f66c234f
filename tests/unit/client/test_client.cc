#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "client-lib/client.h"
#include "tests/unit/client/server.h"

namespace elastripe::client {
namespace {

Client connected_to(uint16_t port) {
  Options options;
  options.port = port;
  return Client::create(options).value();
}

// Bytes that are not text, with every value at every place of a line.
std::string bytes_of(size_t count) {
  std::string bytes(count, '\0');
  uint32_t state = 12345;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

TEST_CASE("an address may leave out its host or its port") {
  CHECK(parse_address("example:4000")->host == "example");
  CHECK(parse_address("example:4000")->port == 4000);
  CHECK(parse_address("example")->port == 11311);
  CHECK(parse_address(":4000")->host == "127.0.0.1");
  CHECK(parse_address("[::1]:4000")->host == "::1");
  CHECK(parse_address("[::1]:4000")->port == 4000);
}

TEST_CASE("an address that cannot be is refused") {
  for (const char* text : {"a:0", "a:65536", "a:12x", "::1", "[::1", "[::1]4000"}) {
    INFO(text);
    REQUIRE(!parse_address(text));
    CHECK(parse_address(text).error().kind == ErrorKind::kInvalid);
  }
}

TEST_CASE("an address that begins with a slash is the path of a Unix socket") {
  const auto options = parse_address("/run/elastripe/a:b.sock");
  REQUIRE(options);
  CHECK(is_unix_socket(*options));
  CHECK(options->host == "/run/elastripe/a:b.sock");
  CHECK(address_of(*options) == "/run/elastripe/a:b.sock");
  CHECK(!is_unix_socket(*parse_address("run/elastripe")));
}

TEST_CASE("options that cannot be are refused") {
  for (const Options& options : {Options{.host = ""},
                                 {.host = std::string(256, 'h')},
                                 {.host = "/" + std::string(107, 'p')},
                                 {.host = std::string(1, '\0')},
                                 {.connect_timeout_ms = 0},
                                 {.request_timeout_ms = -1}}) {
    INFO(options.host);
    CHECK(Client::create(options).error().kind == ErrorKind::kInvalid);
  }
}

TEST_CASE("keys have memcached's bounds") {
  CHECK(validate_key("a"));
  CHECK(validate_key(std::string(250, 'k')));
  CHECK(validate_key("\xc3\xa9"));
  CHECK(!validate_key(""));
  CHECK(!validate_key(std::string(251, 'k')));
  CHECK(!validate_key("a b"));
  CHECK(!validate_key("a\n"));
  CHECK(!validate_key(std::string_view("a\0b", 3)));
  CHECK(!validate_key("a\x7f"));
}

TEST_CASE("an object reads back as it was put, from no byte to 64 MiB") {
  PlainServer server;
  Client client = connected_to(server.port());
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{1} << 14, (size_t{1} << 20) + 3, size_t{64} << 20}) {
    INFO(size);
    const std::string object = bytes_of(size);
    PutOptions options;
    options.flags = 77;
    REQUIRE(client.put("key", object, options));
    const auto value = client.get("key");
    REQUIRE(value);
    CHECK(value->bytes() == object);
    CHECK(value->flags() == 77);
  }
}

TEST_CASE("an object above 1 GiB is refused and the connection goes on") {
  PlainServer server;
  Client client = connected_to(server.port());
  const auto put = client.put("key", std::string(kMaxObjectBytes + 1, 'x'));
  REQUIRE(!put);
  CHECK(put.error().kind == ErrorKind::kInvalid);
  CHECK(put.error().message == "the object is larger than 1 GiB");
  CHECK(client.get("key").error().kind == ErrorKind::kNotFound);
}

TEST_CASE("a removed object is not found") {
  PlainServer server;
  Client client = connected_to(server.port());
  REQUIRE(client.put("key", "object"));
  REQUIRE(client.remove("key"));
  CHECK(client.get("key").error().kind == ErrorKind::kNotFound);
  CHECK(client.remove("key").error().kind == ErrorKind::kNotFound);
}

TEST_CASE("an object is added once") {
  PlainServer server;
  Client client = connected_to(server.port());
  REQUIRE(client.add("key", "object", {.flags = 77}));
  CHECK(client.add("key", "another").error().kind == ErrorKind::kExists);
  CHECK(client.get("key")->bytes() == "object");
  CHECK(client.get("key")->flags() == 77);
}

TEST_CASE("a number is counted up and down, to 0 at least") {
  PlainServer server;
  Client client = connected_to(server.port());
  CHECK(client.increment("key").error().kind == ErrorKind::kNotFound);
  REQUIRE(client.put("key", "41"));
  CHECK(client.increment("key") == 42);
  CHECK(client.increment("key", uint64_t{1} << 40) == (uint64_t{1} << 40) + 42);
  CHECK(client.decrement("key", uint64_t{1} << 40) == 42);
  CHECK(client.decrement("key", 43) == 0);
  REQUIRE(client.put("key", "no number"));
  CHECK(client.decrement("key").error().message.contains("non-numeric"));
}

TEST_CASE("get_many answers those that exist") {
  PlainServer server;
  Client client = connected_to(server.port());
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) {
    keys.push_back("key" + std::to_string(i));
    if (i % 3 != 0) REQUIRE(client.put(keys.back(), i == 1 ? "" : "object " + std::to_string(i)));
  }
  const auto found = client.get_many(keys);
  REQUIRE(found);
  CHECK(found->size() == 66);
  CHECK(found->find("key0") == found->end());
  CHECK(found->at("key1").bytes().empty());
  CHECK(found->at("key2").bytes() == "object 2");
  CHECK(client.get_many(std::vector<std::string>{"key0"})->empty());
  CHECK(client.get_many({})->empty());
}

TEST_CASE("an expired object is not found") {
  PlainServer server;
  Client client = connected_to(server.port());
  PutOptions expired;
  expired.exptime = -1;
  REQUIRE(client.put("key", "object", expired));
  CHECK(client.get("key").error().kind == ErrorKind::kNotFound);
}

TEST_CASE("stats are answered in the server's order") {
  PlainServer server;
  Client client = connected_to(server.port());
  const auto rows = client.stats();
  REQUIRE(rows);
  REQUIRE(rows->size() > 10);
  CHECK(rows->front().first == "pid");
  const auto settings = client.stats("settings");
  REQUIRE(settings);
  CHECK(settings->front().first == "maxbytes");
}

TEST_CASE("a server that is gone is an error of the connection, and a new one is found") {
  auto server = std::make_unique<PlainServer>();
  const uint16_t port = server->port();
  Client client = connected_to(port);
  REQUIRE(client.put("key", "object"));
  server->kill();
  CHECK(client.get("key").error().kind == ErrorKind::kConnection);
  CHECK(client.put("key", "object").error().kind == ErrorKind::kConnection);
}

}  // namespace
}  // namespace elastripe::client
