// A node's end of the wire, played by the test over a real loopback socket: it reads frames with
// the node's own codec and answers what the test tells it to, byte by byte if it likes.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "proxy/io/socket.h"
#include "server-patches/node/format/messages.h"

namespace elastripe {

class NodeStub {
 public:
  struct Received {
    node::RequestHeader header;
    std::string args;
    std::string payload;
  };

  NodeStub() : listener_(listen().value()) {}

  uint16_t port() const { return port_of(listener_); }
  SocketAddress address() const { return resolve("127.0.0.1", port()).value(); }
  void stop_listening() { listener_.reset(); }
  void listen_again(const SocketAddress& there) { listener_ = listen_on(there, false).value(); }

  // Blocking, with a limit that only a broken test meets.
  void accept() {
    wait_readable(listener_.get());
    peer_ = Fd(::accept(listener_.get(), nullptr, nullptr));
    REQUIRE(peer_.valid());
    set_no_delay(peer_);
  }
  void hang_up() { peer_.reset(); }
  bool connected() const { return peer_.valid(); }
  // Without waiting: whether somebody connects, and whether who is connected has hung up.
  bool has_caller() const { return is_readable(listener_.get(), 0); }
  bool is_hung_up_on() const {
    char byte = 0;
    return is_readable(peer_.get(), 0) && recv(peer_.get(), &byte, 1, MSG_PEEK) <= 0;
  }
  int peer() const { return peer_.get(); }

  Received receive() {
    Received got;
    const std::string raw = read_exactly(node::kHeaderBytes);
    auto header = node::decode_request_header(std::span<const std::byte, node::kHeaderBytes>(
        reinterpret_cast<const std::byte*>(raw.data()), node::kHeaderBytes));
    INFO("refused: " << (header.has_value() ? "" : header.error()));
    INFO("so far " << received_);
    ++received_;
    REQUIRE(header.has_value());
    got.header = *header;
    got.args = read_exactly(header->args_bytes);
    got.payload = read_exactly(header->payload_bytes());
    return got;
  }

  static std::string reply_to(const Received& request, std::string_view args,
                              std::string_view payload, node::Status status = node::Status::kOk) {
    node::ReplyHeader header;
    header.opcode = request.header.opcode;
    header.status = status;
    header.args_bytes = static_cast<uint32_t>(args.size());
    header.body_bytes = static_cast<uint32_t>(args.size() + payload.size());
    header.opaque = request.header.opaque;
    header.incarnation = 7;
    std::array<std::byte, node::kHeaderBytes> raw;
    node::encode(header, raw);
    std::string frame(reinterpret_cast<const char*>(raw.data()), raw.size());
    frame += args;
    frame += payload;
    return frame;
  }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      REQUIRE(sent > 0);
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

 private:
  static Result<Fd> listen() { return listen_on(resolve("127.0.0.1", 0).value(), false); }
  static bool is_readable(int fd, int timeout_ms) {
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&wait, 1, timeout_ms) == 1;
  }
  static void wait_readable(int fd) { REQUIRE(is_readable(fd, 10'000)); }
  std::string read_exactly(size_t bytes) {
    std::string all(bytes, '\0');
    for (size_t have = 0; have < bytes;) {
      wait_readable(peer_.get());
      const ssize_t got = read(peer_.get(), all.data() + have, bytes - have);
      REQUIRE(got > 0);
      have += static_cast<size_t>(got);
    }
    return all;
  }

  Fd listener_;
  Fd peer_;
  size_t received_ = 0;
};

}  // namespace elastripe
