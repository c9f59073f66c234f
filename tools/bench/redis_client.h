// The few requests to Redis that benchmarks need, one at a time, on a connection of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/bench/blocking_socket.h"
#include "tools/bench/object_client.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

class RedisClient : public ObjectClient {
 public:
  static cli::Result<std::unique_ptr<RedisClient>> connect(const std::string& host, uint16_t port);

  // SET and WAIT 1 in one go: returns when primary and replica have the value.
  cli::Result<> put(std::string_view key, std::string_view value) override;
  cli::Result<> get(std::string_view key, std::string& value) override;
  cli::Result<std::string> info(std::string_view section);

 private:
  explicit RedisClient(BlockingSocket socket) : socket_(std::move(socket)) {}
  // A bulk string: $<bytes>\r\n<data>\r\n
  cli::Result<> receive_bulk(std::string& value);

  BlockingSocket socket_;
};

}  // namespace elastripe::bench
