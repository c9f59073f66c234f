// Connections to servers, and clients that put and get whole objects of any size, one at a time,
// with as few copies and system calls as a client can: the same for every server.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "tools/cli/result.h"

namespace elastripe::bench {

// A connected TCP socket without Nagle's delay, by name or address; the caller closes it.
cli::Result<int> connect_socket(const std::string& host, uint16_t port);

// As many open files as this process may have.
void raise_file_limit();

// By memcached's text protocol or by that of Redis.
class ObjectClient {
 public:
  // Requests fail after 60 s without progress.
  static cli::Result<std::unique_ptr<ObjectClient>> connect(const std::string& host, uint16_t port,
                                                            bool redis = false);
  ~ObjectClient();
  ObjectClient(const ObjectClient&) = delete;
  ObjectClient& operator=(const ObjectClient&) = delete;

  // At Redis SET and WAIT 1 in one go: returns when primary and replica have the value.
  cli::Result<> put(std::string_view key, std::string_view value);
  // Into `value`, whose room is used again. An object that is not there is an error.
  cli::Result<> get(std::string_view key, std::string& value);
  // The numbers of memcached's `stats <what>`, by name.
  cli::Result<std::map<std::string, uint64_t>> stats(std::string_view what);

 private:
  ObjectClient(int fd, bool redis) : fd_(fd), redis_(redis) {}

  // At most four parts, in one system call.
  cli::Result<> send(std::initializer_list<std::string_view> parts) const;
  cli::Result<size_t> receive_some(char* to, size_t bytes) const;
  // Up to "\r\n", which is not part of it.
  cli::Result<std::string> receive_line();
  cli::Result<> expect_line(std::string_view expected, std::string_view what);
  // `bytes` bytes, straight into their place, and the "\r\n" after them.
  cli::Result<> receive_block(size_t bytes, std::string& block);

  const int fd_;
  const bool redis_;
  std::string ahead_;  // received, and not yet taken
};

}  // namespace elastripe::bench
