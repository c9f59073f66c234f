// Listening sockets and who is at their other end.
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "proxy/io/socket.h"

namespace elastripe {
namespace {

Fd listener(const char* host, uint16_t port) {
  const auto address = resolve(host, port);
  REQUIRE(address);
  auto socket = listen_on(*address, false);
  INFO((socket ? "" : socket.error().message));
  REQUIRE(socket);
  return std::move(*socket);
}

// As the listener's side sees it.
std::string peer_at(const char* host, const Fd& listening) {
  const auto address = resolve(host, port_of(listening));
  REQUIRE(address);
  const Connecting client = start_connect(*address);
  REQUIRE((client.error == 0 || client.error == EINPROGRESS));
  Fd accepted;
  while (!accepted.valid()) accepted = Fd(accept(listening.get(), nullptr, nullptr));
  return peer_of(accepted);
}

}  // namespace

TEST_CASE("all addresses of IPv6 are those of IPv6 only") {
  if (!std::ifstream("/proc/net/if_inet6").good()) {
    WARN("this machine has no IPv6");
    return;
  }
  const Fd six = listener("::", 0);
  const Fd four = listener("0.0.0.0", port_of(six));
  CHECK(peer_at("127.0.0.1", four).starts_with("127.0.0.1:"));
  CHECK(peer_at("::1", six).starts_with("[::1]:"));
}

TEST_CASE("a peer without an address is told as such") {
  int fds[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  const Fd one(fds[0]);
  const Fd other(fds[1]);
  CHECK(peer_of(one) == "a Unix socket");
  CHECK(peer_of(Fd()) == "somebody who is gone");
}

}  // namespace elastripe
