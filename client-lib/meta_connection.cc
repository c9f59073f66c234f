#include "client-lib/meta_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace elastripe::client {
namespace {

constexpr size_t kMaxLineBytes = 4096;
constexpr std::string_view kLineEnd = "\r\n";

std::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return std::unexpected(Error{kind, std::move(message)});
}

std::unexpected<Error> fail_by_errno(const char* what) {
  const bool is_late = errno == EAGAIN || errno == EWOULDBLOCK || errno == ETIMEDOUT;
  return fail(is_late ? ErrorKind::kTimeout : ErrorKind::kConnection,
              std::string(what) + ": " + (is_late ? "no answer in time" : std::strerror(errno)));
}

timeval time_of(int milliseconds) {
  const int at_least = std::max(milliseconds, 1);
  return {.tv_sec = at_least / 1000, .tv_usec = at_least % 1000 * 1000L};
}

// Whether the address takes the connection in time.
bool connect_in_time(int fd, const addrinfo& address, int timeout_ms) {
  const int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  if (::connect(fd, address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return false;
    pollfd waits{.fd = fd, .events = POLLOUT, .revents = 0};
    if (::poll(&waits, 1, std::max(timeout_ms, 1)) != 1) {
      errno = ETIMEDOUT;
      return false;
    }
    socklen_t length = sizeof errno;
    int error = 0;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    errno = error;
    if (error != 0) return false;
  }
  ::fcntl(fd, F_SETFL, flags);
  return true;
}

bool is_refusal(std::string_view line) {
  return line.starts_with("CLIENT_ERROR") || line.starts_with("SERVER_ERROR") ||
         line.starts_with("ERROR");
}

// Without the word that says whose error it is.
std::unexpected<Error> refusal(std::string_view line) {
  const size_t space = line.find(' ');
  std::string reason(space == std::string_view::npos ? line : line.substr(space + 1));
  const bool is_unknown = reason.find("outcome unknown") != std::string::npos;
  return fail(is_unknown ? ErrorKind::kUnknownOutcome : ErrorKind::kServer, std::move(reason));
}

}  // namespace

std::string_view MetaConnection::Answer::flag(char letter) const {
  std::string_view rest = line;
  for (size_t at = rest.find(' '); at != std::string_view::npos; at = rest.find(' ')) {
    rest.remove_prefix(at + 1);
    if (rest.starts_with(letter)) return rest.substr(1, rest.find(' ') - 1);
  }
  return {};
}

Result<MetaConnection::Answer> MetaConnection::ask(std::string_view line,
                                                   const std::string_view* data) {
  std::string request(line);
  request += kLineEnd;
  if (data != nullptr) request.append(*data).append(kLineEnd);
  const auto exchange = [&]() -> Result<Answer> {
    if (auto connected = connect(); !connected) return std::unexpected(connected.error());
    if (auto sent = send(request); !sent) return std::unexpected(sent.error());
    auto first = read_line();
    if (!first) return std::unexpected(first.error());
    Answer answer{.line = std::move(*first), .data = {}};
    if (answer.code() != "VA") return answer;
    size_t bytes = 0;
    const std::string_view count = std::string_view(answer.line).substr(3);
    std::from_chars(count.data(), count.data() + count.size(), bytes);
    auto block = read_bytes(bytes + kLineEnd.size());
    if (!block) return std::unexpected(block.error());
    block->resize(bytes);
    answer.data = std::move(*block);
    return answer;
  };
  auto answer = exchange();
  // Whatever is still to come belongs to no later request.
  if (!answer) close();
  if (answer && is_refusal(answer->line)) return refusal(answer->line);
  return answer;
}

Result<> MetaConnection::connect() {
  if (fd_ >= 0) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(options_.port);
  if (const int error = ::getaddrinfo(options_.host.c_str(), port.c_str(), &hints, &found)) {
    return fail(ErrorKind::kConnection, options_.host + ": " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const int fd = ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    if (!connect_in_time(fd, *address, options_.connect_timeout_ms)) {
      const int error = errno;
      ::close(fd);
      errno = error;
      continue;
    }
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const timeval limit = time_of(options_.request_timeout_ms);
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    fd_ = fd;
    return {};
  }
  return fail_by_errno("connect");
}

void MetaConnection::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  received_.clear();
}

Result<> MetaConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail_by_errno("send");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

Result<> MetaConnection::receive() {
  std::array<char, 64 << 10> part;
  ssize_t came = 0;
  do {
    came = ::recv(fd_, part.data(), part.size(), 0);
  } while (came < 0 && errno == EINTR);
  if (came < 0) return fail_by_errno("receive");
  if (came == 0) return fail(ErrorKind::kConnection, "the server closed the connection");
  received_.append(part.data(), static_cast<size_t>(came));
  return {};
}

Result<std::string> MetaConnection::read_line() {
  size_t end = 0;
  while ((end = received_.find(kLineEnd)) == std::string::npos) {
    if (received_.size() > kMaxLineBytes) return fail(ErrorKind::kServer, "no line came");
    if (auto more = receive(); !more) return std::unexpected(more.error());
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + kLineEnd.size());
  return line;
}

Result<std::string> MetaConnection::read_bytes(size_t count) {
  while (received_.size() < count) {
    if (auto more = receive(); !more) return std::unexpected(more.error());
  }
  std::string bytes = received_.substr(0, count);
  received_.erase(0, count);
  return bytes;
}

}  // namespace elastripe::client
