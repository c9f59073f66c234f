#include "tests/unit/client/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
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
      ::listen(fd, 1) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("no free port");
  }
  port = ntohs(address.sin_port);
  return fd;
}

bool accepts(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  const bool ok = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return ok;
}

}  // namespace

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
  }
  size_t sent = 0;
  while (sent < reply.size()) {
    const ssize_t count = ::send(fd, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) break;
    sent += static_cast<size_t>(count);
  }
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

}  // namespace elastripe::client
