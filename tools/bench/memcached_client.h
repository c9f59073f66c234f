// GET and SET of objects of any size, one at a time, with as few copies and system calls as a
// client can: the same for every server that speaks memcached's text protocol.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/bench/blocking_socket.h"
#include "tools/bench/object_client.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

class MemcachedClient : public ObjectClient {
 public:
  static cli::Result<std::unique_ptr<MemcachedClient>> connect(const std::string& host,
                                                               uint16_t port);

  cli::Result<> put(std::string_view key, std::string_view value) override;
  cli::Result<> get(std::string_view key, std::string& value) override;

 private:
  explicit MemcachedClient(BlockingSocket socket) : socket_(std::move(socket)) {}

  BlockingSocket socket_;
};

}  // namespace elastripe::bench
