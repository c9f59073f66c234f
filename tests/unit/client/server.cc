#include "tests/unit/client/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace elastripe::client {
namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// A listening socket on a free port; the port is written to `port`.
int listen_on_free_port(uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(fd, 64) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("no free port");
  }
  port = ntohs(address.sin_port);
  return fd;
}

int listen_on_path(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ::unlink(path.c_str());
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd, 64) != 0) {
    throw std::runtime_error("no socket at " + path);
  }
  return fd;
}

bool accepts(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  const bool ok = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return ok;
}

constexpr std::string_view kVersion = "version\r\n";
constexpr std::string_view kWhoIsThat = "CLIENT_ERROR unauthenticated\r\n";
constexpr std::string_view kVersionReply = "VERSION 1.6.18\r\n";

void say(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

// How many bytes of data follow the line of a store; nothing if it is no store.
std::optional<size_t> data_behind(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.size() > 2 && words[0] == "ms") return std::stoul(words[2]);
  const bool is_store =
      !words.empty() && (words[0] == "set" || words[0] == "add" || words[0] == "cas" ||
                         words[0] == "append" || words[0] == "prepend");
  if (is_store && words.size() > 4) return std::stoul(words[4]);
  return std::nullopt;
}

// Takes headers and body of a request of HTTP from `received`; false if the client has gone.
bool read_http(std::string& request, std::string& received,
               const std::function<bool(size_t)>& read_to) {
  constexpr std::string_view kLength = "Content-Length: ";
  size_t end = 0;
  while ((end = received.find("\r\n\r\n")) == std::string::npos) {
    if (!read_to(received.size() + 1)) return false;
  }
  end += 4;
  const size_t at = received.find(kLength);
  const size_t bytes = at < end ? std::stoul(received.substr(at + kLength.size())) : 0;
  if (!read_to(end + bytes)) return false;
  request.resize(request.size() - std::string_view(" HTTP/1.1").size());
  if (bytes > 0) request += "|" + received.substr(end, bytes);
  received.erase(0, end + bytes);
  return true;
}

}  // namespace

Reply http(int status, const std::string& body) {
  return {"HTTP/1.1 " + std::to_string(status) +
              " Word\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body,
          Reply::Then::kClose};
}

PlainServer::PlainServer() {
  const char* binary = std::getenv("ELASTRIPE_NODE");
  if (binary == nullptr) throw std::runtime_error("ELASTRIPE_NODE names no server binary");
  ::close(listen_on_free_port(port_));
  const std::string port = std::to_string(port_);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::execl(binary, binary, "--plain", "-p", port.c_str(), "-U", "0", "-l", "127.0.0.1", "-m",
            "256", "-I", "128m", "-u", "root", nullptr);
    ::_exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!accepts(port_)) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_ || std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(std::string(binary) + " did not start");
    }
    ::poll(nullptr, 0, 10);
  }
}

void PlainServer::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

PlainServer::~PlainServer() { kill(); }

ScriptedServer::ScriptedServer(std::string until, std::string reply)
    : listener_(listen_on_free_port(port_)),
      thread_([this, until = std::move(until), reply = std::move(reply)] { serve(until, reply); }) {
}

void ScriptedServer::serve(const std::string& until, const std::string& reply) const {
  const int fd = ::accept(listener_, nullptr, nullptr);
  if (fd < 0) return;
  std::string request;
  char chunk[4096];
  while (!request.ends_with(until)) {
    const ssize_t count = ::read(fd, chunk, sizeof chunk);
    if (count <= 0) break;
    request.append(chunk, static_cast<size_t>(count));
    if (request == kVersion) {
      say(fd, kVersionReply);
      request.clear();
    }
  }
  say(fd, reply);
  ::shutdown(fd, SHUT_WR);
  while (::read(fd, chunk, sizeof chunk) > 0) {
  }
  ::close(fd);
}

ScriptedServer::~ScriptedServer() {
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

FakeProxy::FakeProxy(std::vector<Reply> replies, std::string path)
    : path_(std::move(path)),
      listener_(path_.empty() ? listen_on_free_port(port_) : listen_on_path(path_)),
      replies_(std::move(replies)),
      acceptor_([this] { accept_all(); }) {}

FakeProxy::~FakeProxy() {
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  ::close(listener_);
  if (!path_.empty()) ::unlink(path_.c_str());
}

void FakeProxy::accept_all() {
  for (int fd = 0; (fd = ::accept(listener_, nullptr, nullptr)) >= 0;) {
    const std::lock_guard lock(mutex_);
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void FakeProxy::serve(int fd) {
  std::string received;
  char chunk[4096];
  // Up to the end of what begins at `from`; nothing when the client has gone.
  const auto read_to = [&](size_t end) {
    while (received.size() < end) {
      const ssize_t count = ::read(fd, chunk, sizeof chunk);
      if (count <= 0) return false;
      received.append(chunk, static_cast<size_t>(count));
    }
    return true;
  };
  for (bool goes_on = true; goes_on;) {
    size_t end = 0;
    while ((end = received.find("\r\n")) == std::string::npos) {
      if (!read_to(received.size() + 1)) break;
    }
    if (end == std::string::npos) break;
    std::string request = received.substr(0, end);
    received.erase(0, end + 2);
    if (request.ends_with(" HTTP/1.1")) {
      if (!read_http(request, received, read_to)) break;
    } else if (const auto bytes = data_behind(request)) {
      if (!read_to(*bytes + 2)) break;
      request += "|" + received.substr(0, *bytes);
      received.erase(0, *bytes + 2);
    }
    goes_on = answer(fd, request);
  }
  const std::lock_guard lock(mutex_);
  ::close(fd);
  std::erase(open_, fd);
  ++closed_;
  has_changed_.notify_all();
}

bool FakeProxy::answer(int fd, const std::string& request) {
  if (request == "quit") return false;
  if (request == "version") {
    say(fd, asks_for_login_ ? kWhoIsThat : kVersionReply);
    return true;
  }
  Reply reply = kClose;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    if (used_ < replies_.size()) reply = replies_[used_++];
  }
  say(fd, reply.text);
  char byte = 0;
  if (reply.then == Reply::Then::kBeSilent) {
    while (::read(fd, &byte, 1) > 0) {
    }
  }
  return reply.then == Reply::Then::kGoOn;
}

void FakeProxy::will_reply(std::vector<Reply> replies) {
  const std::lock_guard lock(mutex_);
  replies_ = std::move(replies);
  used_ = 0;
}

std::vector<std::string> FakeProxy::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

int FakeProxy::connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(threads_.size());
}

bool FakeProxy::has_closed(int connections) {
  std::unique_lock lock(mutex_);
  return has_changed_.wait_for(lock, std::chrono::seconds(10),
                               [&] { return closed_ >= connections; });
}

}  // namespace elastripe::client
