#include "tools/bench/object_client.h"

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
#include <charconv>
#include <cstring>

#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr timeval kTimeout{.tv_sec = 60, .tv_usec = 0};
constexpr size_t kAheadBytes = 16 << 10;

// The number that a line ends with, or `none`.
int64_t last_number(std::string_view line, int64_t none) {
  const char* end = line.data() + line.size();
  int64_t number = none;
  const auto parsed = std::from_chars(line.data() + line.find_last_of(" $") + 1, end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? number : none;
}

}  // namespace

Result<int> connect_socket(const std::string& host, uint16_t port) {
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

Result<std::unique_ptr<ObjectClient>> ObjectClient::connect(const std::string& host, uint16_t port,
                                                            bool redis) {
  const auto fd = TRY(connect_socket(host, port));
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof kTimeout);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof kTimeout);
  return std::unique_ptr<ObjectClient>(new ObjectClient(fd, redis));
}

ObjectClient::~ObjectClient() { ::close(fd_); }

Result<> ObjectClient::put(std::string_view key, std::string_view value) {
  if (redis_) {
    TRY(send({fmt::format("*3\r\n$3\r\nSET\r\n${}\r\n{}\r\n${}\r\n", key.size(), key, value.size()),
              value, "\r\n*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$5\r\n30000\r\n"}));
    TRY(expect_line("+OK", "Redis"));
    return expect_line(":1", "Redis: the replica did not acknowledge");
  }
  TRY(send({fmt::format("set {} 0 0 {}\r\n", key, value.size()), value, "\r\n"}));
  return expect_line("STORED", fmt::format("set {}", key));
}

Result<> ObjectClient::get(std::string_view key, std::string& value) {
  TRY(send({redis_ ? fmt::format("*2\r\n$3\r\nGET\r\n${}\r\n{}\r\n", key.size(), key)
                   : fmt::format("get {}\r\n", key)}));
  const auto line = TRY(receive_line());  // "$<bytes>" or "VALUE <key> <flags> <bytes>"
  if (line == "END") return cli::fail("get {}: no such object", key);
  const int64_t bytes = line.starts_with(redis_ ? "$" : "VALUE ") ? last_number(line, -1) : -1;
  if (bytes < 0) return cli::fail("get {}: {}", key, line);
  TRY(receive_block(static_cast<size_t>(bytes), value));
  return redis_ ? Result<>() : expect_line("END", fmt::format("get {}, after the value", key));
}

Result<std::map<std::string, uint64_t>> ObjectClient::stats(std::string_view what) {
  TRY(send({fmt::format("stats {}\r\n", what)}));
  std::map<std::string, uint64_t> numbers;
  while (true) {
    const auto line = TRY(receive_line());
    if (line == "END") return numbers;
    if (!line.starts_with("STAT ")) return cli::fail("stats {}: {}", what, line);
    const std::string name = line.substr(5, line.rfind(' ') - 5);
    numbers[name] = static_cast<uint64_t>(last_number(line, 0));
  }
}

Result<> ObjectClient::send(std::initializer_list<std::string_view> parts) const {
  std::array<iovec, 4> vectors{};
  msghdr message{};
  message.msg_iov = vectors.data();
  size_t bytes = 0;
  for (const std::string_view part : parts) {
    vectors[message.msg_iovlen++] = {const_cast<char*>(part.data()), part.size()};
    bytes += part.size();
  }
  const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
  if (sent < 0) return cli::fail("sending: {}", std::strerror(errno));
  // It waits until all is sent, but for a timeout or an interrupt, which end the run.
  if (static_cast<size_t>(sent) < bytes) return cli::fail("sending was cut short");
  return {};
}

Result<size_t> ObjectClient::receive_some(char* to, size_t bytes) const {
  const ssize_t count = ::recv(fd_, to, bytes, 0);
  if (count == 0) return cli::fail("the server closed the connection");
  if (count < 0) return cli::fail("receiving: {}", std::strerror(errno));
  return static_cast<size_t>(count);
}

Result<std::string> ObjectClient::receive_line() {
  size_t end = ahead_.find("\r\n");
  while (end == std::string::npos) {
    const size_t had = ahead_.size();
    ahead_.resize(had + kAheadBytes);
    ahead_.resize(had + TRY(receive_some(ahead_.data() + had, kAheadBytes)));
    end = ahead_.find("\r\n");
  }
  std::string line = ahead_.substr(0, end);
  ahead_.erase(0, end + 2);
  return line;
}

Result<> ObjectClient::expect_line(std::string_view expected, std::string_view what) {
  const auto line = TRY(receive_line());
  if (line != expected) return cli::fail("{}: {}", what, line);
  return {};
}

Result<> ObjectClient::receive_block(size_t bytes, std::string& block) {
  block.resize(bytes + 2);
  size_t got = std::min(ahead_.size(), block.size());
  std::copy_n(ahead_.begin(), got, block.begin());
  ahead_.erase(0, got);
  while (got < block.size()) got += TRY(receive_some(block.data() + got, block.size() - got));
  if (!block.ends_with("\r\n")) return cli::fail("a value does not end where it should");
  block.resize(bytes);
  return {};
}

}  // namespace elastripe::bench
