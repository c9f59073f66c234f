// Non-blocking sockets, of TCP and Unix: what libevent leaves to its user.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proxy/base/error.h"

namespace elastripe {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset();
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

// All addresses of a host, in the order in which to try them; one if it is an address itself.
// Blocks on the lookup of a name. kInvalid with the resolver's reason.
Result<std::vector<SocketAddress>> resolve_all(const std::string& host, uint16_t port);
// The first of them.
Result<SocketAddress> resolve(const std::string& host, uint16_t port);
// True for an address in numbers: it has nothing to be looked up.
bool is_numeric(const std::string& host);

// Clients that the kernel accepts before the listener does.
inline constexpr int kListenBacklog = 1024;

// Bound and listening, non-blocking. `shared`: several sockets may listen on the address
// (SO_REUSEPORT), each with its own queue. An address of IPv6 takes IPv6 only, as memcached's does:
// `::` beside `0.0.0.0` is both. kUnavailable if the address is taken.
Result<Fd> listen_on(const SocketAddress& address, bool shared);
// The same on a path: a Unix socket of that mode. One that nobody listens on any more gives way.
Result<Fd> listen_on_path(const std::string& path, uint32_t mode);
// 0 of a Unix socket.
uint16_t port_of(const Fd& socket);
// Who is at the other end, for logs: "10.0.0.1:4711", "[::1]:4711", "a Unix socket".
std::string peer_of(const Fd& socket);

// Started, non-blocking, TCP_NODELAY. The error, if any, is that of connect(2) at once.
struct Connecting {
  Fd socket;
  int error = 0;  // 0: connected; EINPROGRESS: wait until writable
};
Connecting start_connect(const SocketAddress& address);
// What a connect came to, once the socket is writable: 0 or its errno.
int connect_result(const Fd& socket);

void set_no_delay(const Fd& socket);
// Whether the other machine is there is asked after so much silence; it has half as long to answer.
// Zero: never.
void set_keepalive(const Fd& socket, std::chrono::seconds silence);

}  // namespace elastripe
