// Servers for the client's tests: a real memcached in a child process, and one that plays a script.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

namespace elastripe::client {

// `elastripe-node --plain` on a free loopback port until the end of scope.
class PlainServer {
 public:
  PlainServer();
  ~PlainServer();
  PlainServer(const PlainServer&) = delete;
  PlainServer& operator=(const PlainServer&) = delete;

  uint16_t port() const { return port_; }
  void kill();

 private:
  pid_t pid_ = -1;
  uint16_t port_ = 0;
};

// Accepts one connection, waits for a request that ends in `until`, sends `reply`, and closes.
class ScriptedServer {
 public:
  ScriptedServer(std::string until, std::string reply);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  uint16_t port() const { return port_; }

 private:
  void serve(const std::string& until, const std::string& reply) const;

  uint16_t port_ = 0;  // set while listener_ is made
  int listener_ = -1;
  std::thread thread_;
};

}  // namespace elastripe::client
