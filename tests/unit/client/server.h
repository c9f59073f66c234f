// Servers for the client's tests: a real memcached in a child process, and two that play a script.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

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

// Accepts one connection, waits for a request that ends in `until`, sends `reply`, and closes. It
// answers `version`, with which the client begins, by itself.
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

// What a fake proxy does when it is asked: it says something, and then goes on, closes the
// connection, or says no more until the client has gone.
struct Reply {
  enum class Then : uint8_t { kGoOn, kClose, kBeSilent };

  // NOLINTNEXTLINE(google-explicit-constructor): tests write texts
  Reply(const char* said, Then next = Then::kGoOn) : text(said), then(next) {}
  Reply(std::string said, Then next = Then::kGoOn) : text(std::move(said)), then(next) {}

  std::string text;
  Then then;
};
inline const Reply kClose{"", Reply::Then::kClose};
// An answer of HTTP.
Reply http(int status, const std::string& body);
inline const Reply kSilence{"", Reply::Then::kBeSilent};

// Gives one reply after the other, whatever connection it is asked on, and remembers what it was
// asked, but for `version`, which it answers by itself. Afterwards it closes what asks. It reads
// HTTP, too, so that it may be its own admin interface.
class FakeProxy {
 public:
  // Listens at a free port, or at the path of a Unix socket if one is given.
  explicit FakeProxy(std::vector<Reply> replies, std::string path = {});
  ~FakeProxy();
  FakeProxy(const FakeProxy&) = delete;
  FakeProxy& operator=(const FakeProxy&) = delete;

  uint16_t port() const { return port_; }
  std::string address() const {
    return path_.empty() ? "127.0.0.1:" + std::to_string(port_) : path_;
  }
  void will_reply(std::vector<Reply> replies);
  // Wants to know who asks: `version` is refused.
  void ask_for_login() { asks_for_login_ = true; }
  // Lines without their ends; data follows its line behind a '|'. Headers of HTTP are left out.
  std::vector<std::string> requests() const;
  int connections() const;
  // Waits until so many connections have ended; false if that takes ten seconds.
  bool has_closed(int connections);

 private:
  void accept_all();
  void serve(int fd);
  // What comes next; false if the connection ends.
  bool answer(int fd, const std::string& request);

  const std::string path_;
  uint16_t port_ = 0;  // set while listener_ is made
  int listener_ = -1;
  std::atomic<bool> asks_for_login_ = false;
  mutable std::mutex mutex_;
  std::condition_variable has_changed_;
  std::vector<Reply> replies_;
  size_t used_ = 0;
  std::vector<std::string> requests_;
  std::vector<int> open_;
  int closed_ = 0;
  std::vector<std::thread> threads_;  // one for each connection
  std::thread acceptor_;
};

}  // namespace elastripe::client
