// Bytes that arrive in pieces, as TCP may cut them, and the other end of a connection.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <string_view>

#include "proxy/io/loop.h"
#include "proxy/io/socket.h"

namespace elastripe::fuzz {

// A stream in one piece if `cuts` is 0, else in pieces whose lengths follow from it.
class Pieces {
 public:
  Pieces(std::string_view stream, unsigned char cuts)
      : left_(stream), cuts_(cuts), random_(cuts + 1u) {}

  // Empty at the end.
  std::string_view next() {
    constexpr std::array<size_t, 4> kLongest = {1, 4, 60, 1000};
    const size_t longest = kLongest[random_() % kLongest.size()];
    const size_t bytes = cuts_ == 0 ? left_.size() : 1 + random_() % longest;
    const std::string_view piece = left_.substr(0, bytes);
    left_.remove_prefix(piece.size());
    return piece;
  }

 private:
  std::string_view left_;
  const unsigned char cuts_;
  std::minstd_rand random_;
};

// The fuzzer's end of a connection.
class Remote {
 public:
  Remote() = default;
  explicit Remote(Fd socket) : socket_(std::move(socket)) {}

  // Whoever does not want to hear it has closed.
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void finish() { shutdown(socket_.get(), SHUT_WR); }
  // What has come.
  void collect() {
    std::array<char, 65536> part;
    ssize_t got;
    while ((got = recv(socket_.get(), part.data(), part.size(), MSG_DONTWAIT)) > 0) {
      received_.append(part.data(), static_cast<size_t>(got));
    }
    closed_ |= got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }
  // At once, so that no port is kept for a late packet: there are not enough for every run.
  void hang_up() {
    constexpr linger kAtOnce = {.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &kAtOnce, sizeof kAtOnce);
    socket_.reset();
  }
  const std::string& received() const { return received_; }
  bool closed() const { return closed_; }

 private:
  Fd socket_;
  std::string received_;
  bool closed_ = false;
};

// What is ready is served.
inline void turn(Loop& loop) {
  loop.post([&loop] { loop.stop(); });
  loop.run();
}

}  // namespace elastripe::fuzz
