// Sessions of clients that speak the binary protocol.
#include <catch2/catch.hpp>

#include "tests/unit/session/binary_requests.h"
#include "tests/unit/session/session_fixture.h"

namespace elastripe {
namespace {

using Opcode = memcache::BinaryOpcode;
using Status = memcache::BinaryStatus;
const std::string kStoreExtras("\0\0\0\x05\0\0\0\0", 8);  // flags, exptime
const std::string kFlags("\0\0\0\x05", 4);

}  // namespace

TEST_CASE("a binary client stores and reads, wherever its requests are cut", "[binary]") {
  const std::string requests =
      binary_request(Opcode::kSet, kStoreExtras, "key", "value") +
      binary_request(Opcode::kSetQ, kStoreExtras, "empty", "") +
      binary_request(Opcode::kGet, "", "key") + binary_request(Opcode::kGetK, "", "empty") +
      binary_request(Opcode::kGetQ, "", "absent") + binary_request(Opcode::kGetK, "", "absent") +
      binary_request(Opcode::kNoop) + binary_request(Opcode::kQuit);
  const std::string answers = binary_response(Opcode::kSet, Status::kOk, 1) +
                              binary_response(Opcode::kGet, Status::kOk, 1, kFlags, "", "value") +
                              binary_response(Opcode::kGetK, Status::kOk, 2, kFlags, "empty") +
                              binary_response(Opcode::kGetK, Status::kNotFound, 0, "", "absent") +
                              binary_response(Opcode::kNoop, Status::kOk) +
                              binary_response(Opcode::kQuit, Status::kOk);
  for (size_t cut = 1; cut < requests.size(); cut += 7) {
    SessionFixture f;
    SessionClient client(f.sessions);
    client.send(requests.substr(0, cut));
    f.turns(2);
    client.send(requests.substr(cut));
    f.expect(client, answers);
    f.until(client, [&] { return client.closed; });
  }
}

TEST_CASE("large values of binary clients come in parts, and end without a line", "[binary]") {
  SessionFixture f;
  SessionClient client(f.sessions);
  const std::string value(300'000, 'v');
  const std::string requests = binary_request(Opcode::kSet, kStoreExtras, "key", value) +
                               binary_request(Opcode::kGet, "", "key");
  for (size_t at = 0; at < requests.size(); at += 50'000) {
    client.send(requests.substr(at, 50'000));
    f.turns(5);
  }
  const std::string answers = binary_response(Opcode::kSet, Status::kOk, 1) +
                              binary_response(Opcode::kGet, Status::kOk, 1, kFlags, "", value);
  f.until(client, [&] { return client.received.size() == answers.size(); });
  CHECK(client.received == answers);
}

TEST_CASE("what a binary client may not do is told it in its protocol", "[binary]") {
  SessionFixture f;
  SessionClient client(f.sessions);
  client.send(binary_request(static_cast<Opcode>(0x55), "abcd", "key", "value") +
              binary_request(Opcode::kDelete, "", "key"));
  f.expect(client, binary_response(static_cast<Opcode>(0x55), Status::kUnknownCommand, 0, "", "",
                                   "Unknown command") +
                       binary_response(Opcode::kDelete, Status::kNotFound, 0, "", "", "Not found"));
  client.received.clear();
  client.send(binary_request(Opcode::kGet, "", ""));
  f.expect(client, binary_response(Opcode::kGet, Status::kInvalid, 0, "", "", "Invalid arguments"));
  f.until(client, [&] { return client.closed; });
}

TEST_CASE("a value that is too large for a binary client is skipped to its last byte", "[binary]") {
  SessionFixture f(SessionSettings{.max_object_bytes = 1000});
  SessionClient client(f.sessions);
  client.send(binary_request(Opcode::kSet, kStoreExtras, "key", std::string(1001, '\x80')) +
              binary_request(Opcode::kNoop));
  f.expect(client, binary_response(Opcode::kSet, Status::kTooLarge, 0, "", "", "Too large.") +
                       binary_response(Opcode::kNoop, Status::kOk));
}

}  // namespace elastripe
