// Clients that put and get whole objects of any size, one at a time, with as few copies and system
// calls as a client can: the same for every server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "tools/bench/socket.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

class ObjectClient {
 public:
  virtual ~ObjectClient() = default;
  ObjectClient(const ObjectClient&) = delete;
  ObjectClient& operator=(const ObjectClient&) = delete;

  virtual cli::Result<> put(std::string_view key, std::string_view value) = 0;
  // Into `value`, whose room is used again. An object that is not there is an error.
  virtual cli::Result<> get(std::string_view key, std::string& value) = 0;

 protected:
  explicit ObjectClient(BlockingSocket socket) : socket_(std::move(socket)) {}
  BlockingSocket& socket() { return socket_; }

 private:
  BlockingSocket socket_;
};

// By memcached's text protocol.
class MemcachedClient : public ObjectClient {
 public:
  static cli::Result<std::unique_ptr<MemcachedClient>> connect(const std::string& host,
                                                               uint16_t port);

  cli::Result<> put(std::string_view key, std::string_view value) override;
  cli::Result<> get(std::string_view key, std::string& value) override;
  // The numbers of `stats <what>`, by name.
  cli::Result<std::map<std::string, uint64_t>> stats(std::string_view what);

 private:
  using ObjectClient::ObjectClient;
};

class RedisClient : public ObjectClient {
 public:
  static cli::Result<std::unique_ptr<RedisClient>> connect(const std::string& host, uint16_t port);

  // SET and WAIT 1 in one go: returns when primary and replica have the value.
  cli::Result<> put(std::string_view key, std::string_view value) override;
  cli::Result<> get(std::string_view key, std::string& value) override;

 private:
  using ObjectClient::ObjectClient;
};

}  // namespace elastripe::bench
