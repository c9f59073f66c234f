#include "proxy/io/socket.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace elastripe {
namespace {

// A peer that vanished without a word: unacknowledged bytes break the connection after this.
constexpr unsigned kUserTimeout_ms = 10'000;

template <class T>
bool set_option(const Fd& socket, int level, int name, T value) {
  return setsockopt(socket.get(), level, name, &value, sizeof value) == 0;
}

Fd open_socket(const SocketAddress& address) {
  return Fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

const sockaddr* raw(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<std::vector<SocketAddress>> resolve_all(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  // Without addresses that this machine has no way to: they would never refuse a connection, and so
  // never prove that nobody is there.
  hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
  const std::string service = std::to_string(port);
  addrinfo* found = nullptr;
  int status = getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  if (status != 0) {  // a machine that has loopback only
    hints.ai_flags = AI_NUMERICSERV;
    status = getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  }
  if (status != 0) {
    return fail(ErrorCode::kInvalid, "{}:{}: {}", host, port, gai_strerror(status));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* next = found; next != nullptr; next = next->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, next->ai_addr, next->ai_addrlen);
    address.length = next->ai_addrlen;
  }
  freeaddrinfo(found);
  return addresses;
}

Result<SocketAddress> resolve(const std::string& host, uint16_t port) {
  auto addresses = resolve_all(host, port);
  if (!addresses) return fail(addresses.error());
  return addresses->front();
}

bool is_numeric(const std::string& host) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

Result<Fd> listen_on(const SocketAddress& address, bool shared) {
  Fd socket = open_socket(address);
  if (!socket.valid()) return fail(ErrorCode::kUnavailable, "socket: {}", std::strerror(errno));
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.storage.ss_family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (shared && !set_option(socket, SOL_SOCKET, SO_REUSEPORT, 1)) {
    return fail(ErrorCode::kUnavailable, "SO_REUSEPORT: {}", std::strerror(errno));
  }
  if (bind(socket.get(), raw(address), address.length) != 0 ||
      listen(socket.get(), kListenBacklog) != 0) {
    return fail(ErrorCode::kUnavailable, "{}", std::strerror(errno));
  }
  return socket;
}

namespace {

Result<SocketAddress> path_address(const std::string& path) {
  SocketAddress address;
  sockaddr_un unix_address{};
  if (path.size() >= sizeof unix_address.sun_path) {
    return fail(ErrorCode::kInvalid, "the path is too long");
  }
  unix_address.sun_family = AF_UNIX;
  path.copy(unix_address.sun_path, path.size());
  std::memcpy(&address.storage, &unix_address, sizeof unix_address);
  address.length = sizeof unix_address;
  return address;
}

}  // namespace

Result<Fd> listen_on_path(const std::string& path, uint32_t mode) {
  const auto address = path_address(path);
  if (!address) return fail(address.error());
  struct stat status{};
  if (lstat(path.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) return fail(ErrorCode::kUnavailable, "there is a file");
    const Fd other = open_socket(*address);
    if (connect(other.get(), raw(*address), address->length) == 0 || errno != ECONNREFUSED) {
      return fail(ErrorCode::kUnavailable, "somebody listens there");
    }
    unlink(path.c_str());
  }
  Fd socket = open_socket(*address);
  // Nobody can connect before listen(), so that the mode holds from the first connection on.
  if (!socket.valid() || bind(socket.get(), raw(*address), address->length) != 0 ||
      chmod(path.c_str(), mode) != 0 || listen(socket.get(), kListenBacklog) != 0) {
    return fail(ErrorCode::kUnavailable, "{}", std::strerror(errno));
  }
  return socket;
}

uint16_t port_of(const Fd& socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) !=
      0) {
    return 0;
  }
  if (address.storage.ss_family == AF_UNIX) return 0;
  return ntohs(address.storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

std::string peer_of(const Fd& socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) !=
      0) {
    return "somebody who is gone";
  }
  if (address.storage.ss_family == AF_UNIX) return "a Unix socket";
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(raw(address), address.length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  const bool is_v6 = address.storage.ss_family == AF_INET6;
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Connecting start_connect(const SocketAddress& address) {
  Connecting result;
  result.socket = open_socket(address);
  if (!result.socket.valid()) {
    result.error = errno;
    return result;
  }
  set_no_delay(result.socket);
  set_option(result.socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeout_ms);
  if (connect(result.socket.get(), raw(address), address.length) != 0) result.error = errno;
  return result;
}

int connect_result(const Fd& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

void set_no_delay(const Fd& socket) { set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1); }

void set_keepalive(const Fd& socket, std::chrono::seconds silence) {
  if (silence == std::chrono::seconds::zero()) return;
  constexpr int kQuestions = 3;
  const auto seconds = static_cast<int>(silence.count());
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / (2 * kQuestions)));
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, kQuestions);
}

}  // namespace elastripe
