// Connections to servers, by name or address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "tools/cli/result.h"

namespace elastripe::bench {

// A connected TCP socket without Nagle's delay; the caller closes it.
cli::Result<int> connect_socket(const std::string& host, uint16_t port);

// As many open files as this process may have.
void raise_file_limit();

// A connection of which one thread waits for one reply at a time. Large blocks are received
// straight into their place.
class BlockingSocket {
 public:
  // Sending and receiving fail after 60 s without progress.
  static cli::Result<BlockingSocket> connect(const std::string& host, uint16_t port);
  ~BlockingSocket();
  BlockingSocket(BlockingSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), ahead_(std::move(other.ahead_)) {}
  BlockingSocket& operator=(BlockingSocket&&) = delete;

  // At most four parts, in one system call if the socket has room.
  cli::Result<> send(std::initializer_list<std::string_view> parts);
  // Up to "\r\n", which is not part of it.
  cli::Result<std::string> receive_line();
  // `bytes` bytes, and the "\r\n" after them.
  cli::Result<> receive_block(size_t bytes, std::string& block);

 private:
  explicit BlockingSocket(int fd) : fd_(fd) {}
  cli::Result<size_t> receive_some(char* to, size_t bytes);

  int fd_ = -1;
  std::string ahead_;  // received, and not yet taken
};

}  // namespace elastripe::bench
