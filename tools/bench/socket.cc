#include "tools/bench/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

constexpr timeval kTimeout{.tv_sec = 60, .tv_usec = 0};
constexpr size_t kAheadBytes = 16 << 10;

}  // namespace

cli::Result<int> connect_socket(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) return cli::fail("{}: {}", host, ::gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  int reason = 0;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (fd >= 0 && ::connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0) {
      return fd;
    }
    reason = errno;
    if (fd >= 0) ::close(fd);
  }
  return cli::fail("cannot connect to {}:{}: {}", host, port, std::strerror(reason));
}

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

cli::Result<BlockingSocket> BlockingSocket::connect(const std::string& host, uint16_t port) {
  const auto fd = TRY(connect_socket(host, port));
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof kTimeout);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof kTimeout);
  return BlockingSocket(fd);
}

BlockingSocket::~BlockingSocket() {
  if (fd_ >= 0) ::close(fd_);
}

cli::Result<> BlockingSocket::send(std::initializer_list<std::string_view> parts) {
  std::array<iovec, 4> vectors{};
  size_t count = 0;
  for (const std::string_view part : parts) {
    vectors[count++] = {const_cast<char*>(part.data()), part.size()};
  }
  size_t first = 0;
  while (first < count) {
    msghdr message{};
    message.msg_iov = &vectors[first];
    message.msg_iovlen = count - first;
    ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return cli::fail("sending: {}", std::strerror(errno));
    for (; first < count; ++first) {
      const auto part = std::min(static_cast<size_t>(sent), vectors[first].iov_len);
      vectors[first].iov_base = static_cast<char*>(vectors[first].iov_base) + part;
      vectors[first].iov_len -= part;
      sent -= static_cast<ssize_t>(part);
      if (vectors[first].iov_len > 0) break;
    }
  }
  return {};
}

cli::Result<size_t> BlockingSocket::receive_some(char* to, size_t bytes) {
  while (true) {
    const ssize_t count = ::recv(fd_, to, bytes, 0);
    if (count > 0) return static_cast<size_t>(count);
    if (count == 0) return cli::fail("the server closed the connection");
    if (errno != EINTR) return cli::fail("receiving: {}", std::strerror(errno));
  }
}

cli::Result<std::string> BlockingSocket::receive_line() {
  size_t end = ahead_.find("\r\n");
  while (end == std::string::npos) {
    const size_t had = ahead_.size();
    ahead_.resize(had + kAheadBytes);
    const auto count = receive_some(ahead_.data() + had, kAheadBytes);
    ahead_.resize(had + count.value_or(0));
    if (!count) return std::unexpected(count.error());
    end = ahead_.find("\r\n");
  }
  std::string line = ahead_.substr(0, end);
  ahead_.erase(0, end + 2);
  return line;
}

cli::Result<> BlockingSocket::receive_block(size_t bytes, std::string& block) {
  block.resize(bytes + 2);
  size_t got = std::min(ahead_.size(), block.size());
  std::copy_n(ahead_.begin(), got, block.begin());
  ahead_.erase(0, got);
  while (got < block.size()) {
    const auto count = TRY(receive_some(block.data() + got, block.size() - got));
    got += count;
  }
  if (!block.ends_with("\r\n")) return cli::fail("a value does not end where it should");
  block.resize(bytes);
  return {};
}

}  // namespace elastripe::bench
