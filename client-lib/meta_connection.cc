#include "client-lib/meta_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include "client-lib/fail.h"

namespace elastripe::client {
namespace {

constexpr size_t kMaxLineBytes = 4096;
constexpr std::string_view kLineEnd = "\r\n";

// Stores that are sent before their answers are read: few enough that answers fit into the buffers
// of both sides.
constexpr size_t kMaxStoresOnTheirWay = 128;
constexpr size_t kMaxBytesOnTheirWay = size_t{1} << 20;

std::unexpected<Error> fail_by_errno() {
  const bool is_late = errno == EAGAIN || errno == EWOULDBLOCK || errno == ETIMEDOUT;
  return fail(is_late ? ErrorKind::kTimeout : ErrorKind::kConnection,
              is_late ? "no answer in time" : std::strerror(errno));
}

timeval time_of(int milliseconds) {
  return {.tv_sec = milliseconds / 1000, .tv_usec = milliseconds % 1000 * 1000L};
}

// Waits until the socket is connected, or else has an error; false, and errno, if it is not.
bool is_connected_in_time(int fd, int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  pollfd waits{.fd = fd, .events = POLLOUT, .revents = 0};
  int ready = 0;
  do {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    ready = ::poll(&waits, 1, static_cast<int>(std::max<int64_t>(left, 0)));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) errno = ETIMEDOUT;
  if (ready <= 0) return false;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  errno = error;
  return error == 0;
}

// A socket that the address has taken the connection of in time; -1, and errno, if there is none.
int connected_socket(const sockaddr* address, socklen_t length, int timeout_ms) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const bool is_connected = ::connect(fd, address, length) == 0 ||
                            (errno == EINPROGRESS && is_connected_in_time(fd, timeout_ms));
  if (is_connected && ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

// The error that the line tells, without the word that says whose it is.
std::optional<Error> refusal_in(std::string_view line) {
  const size_t space = line.find(' ');
  const std::string_view word = line.substr(0, space);
  if (word != "CLIENT_ERROR" && word != "SERVER_ERROR" && word != "ERROR") return std::nullopt;
  return refusal(std::string(space == std::string_view::npos ? line : line.substr(space + 1)));
}

std::optional<uint64_t> number_in(std::string_view text) {
  uint64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
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

std::optional<uint64_t> MetaConnection::Answer::as_number() const { return number_in(line); }

uint64_t MetaConnection::Answer::number(char letter) const {
  return number_in(flag(letter)).value_or(0);
}

Result<MetaConnection::Answer> MetaConnection::ask(std::string_view line,
                                                   const std::string_view* data) {
  if (auto connected = connect(); !connected) return std::unexpected(connected.error());
  auto answer = exchange(line, data);
  // Whatever is still to come belongs to no later request.
  if (!answer) {
    close();
    return answer;
  }
  if (auto refused = refusal_in(answer->line)) {
    // Who does not know the command takes its data for another one, and will answer that, too.
    if (data != nullptr && answer->code() == "ERROR") close();
    return std::unexpected(std::move(*refused));
  }
  return answer;
}

Result<MetaConnection::Answer> MetaConnection::exchange(std::string_view line,
                                                        const std::string_view* data) {
  const auto sent =
      data == nullptr ? send({line, kLineEnd}) : send({line, kLineEnd, *data, kLineEnd});
  if (!sent) return std::unexpected(sent.error());
  auto answer = next_line();
  if (!answer || answer->code() != "VA") return answer;
  std::string_view count = std::string_view(answer->line).substr(2);
  if (!count.empty()) count.remove_prefix(1);
  const auto bytes = number_in(count.substr(0, count.find(' ')));
  if (!bytes || *bytes > kMaxObjectBytes) return not_understood(answer->line);
  auto block = read_bytes(*bytes + kLineEnd.size());
  if (!block) return std::unexpected(block.error());
  if (!block->ends_with(kLineEnd)) return not_understood("a value without an end");
  block->resize(*bytes);
  answer->data = std::move(*block);
  return answer;
}

std::unexpected<Error> MetaConnection::give_up(const Answer& answer) {
  close();
  return not_understood(answer.line);
}

Result<Stats> MetaConnection::stats(std::string_view group) {
  std::string request = "stats";
  if (!group.empty()) request.append(" ").append(group);
  if (auto connected = connect(); !connected) return std::unexpected(connected.error());
  Stats rows;
  auto answer = exchange(request, nullptr);
  for (; answer && answer->code() == "STAT"; answer = next_line()) {
    std::string_view row = std::string_view(answer->line).substr(answer->code().size());
    if (!row.empty()) row.remove_prefix(1);
    const size_t end = std::min(row.find(' '), row.size());
    rows.emplace_back(row.substr(0, end), row.substr(std::min(end + 1, row.size())));
  }
  if (!answer) {
    close();
    return std::unexpected(answer.error());
  }
  if (auto refused = refusal_in(answer->line)) return std::unexpected(std::move(*refused));
  const std::string& last = answer->line;
  if (last != "END" && last != "RESET" && last != "OK") return give_up(*answer);
  return rows;
}

Result<MetaConnection::Answer> MetaConnection::next_line() {
  auto line = read_line();
  if (!line) return std::unexpected(line.error());
  return Answer{.line = std::move(*line), .data = {}};
}

Result<PutErrors> MetaConnection::put_many(std::span<const Object> objects,
                                           const PutOptions& options) {
  PutErrors errors;
  if (objects.empty()) return errors;
  if (auto connected = connect(); !connected) return std::unexpected(connected.error());
  size_t sent = 0;
  std::vector<Result<>> outcomes;
  if (auto done = store_all(objects, options, sent, outcomes); !done) {
    close();
    // What was not answered may be stored; what comes after it was not sent.
    outcomes.resize(sent, std::unexpected(done.error()));
    done.error().is_unsent = true;
    outcomes.resize(objects.size(), std::unexpected(done.error()));
  }
  const auto is_refused_as_a_whole = [](const Result<>& outcome) {
    return !outcome && is_not_serving(outcome.error());
  };
  if (std::ranges::all_of(outcomes, is_refused_as_a_whole)) {
    return std::unexpected(outcomes.front().error());
  }
  for (size_t i = 0; i < objects.size(); ++i) {
    if (!outcomes[i]) errors.insert_or_assign(std::string(objects[i].key), outcomes[i].error());
  }
  return errors;
}

Result<> MetaConnection::store_all(std::span<const Object> objects, const PutOptions& options,
                                   size_t& sent, std::vector<Result<>>& outcomes) {
  const std::string middle =
      " " + std::to_string(options.flags) + " " + std::to_string(options.exptime) + " ";
  while (outcomes.size() < objects.size()) {
    std::string request;
    const size_t first = sent;
    while (sent < objects.size() && request.size() < kMaxBytesOnTheirWay &&
           sent - first < kMaxStoresOnTheirWay) {
      const auto& [key, bytes] = objects[sent++];
      request.append("set ").append(key).append(middle).append(std::to_string(bytes.size()));
      request.append(kLineEnd).append(bytes).append(kLineEnd);
    }
    if (auto done = send({request}); !done) return done;
    while (outcomes.size() < sent) {
      auto line = read_line();
      if (!line) return std::unexpected(line.error());
      auto refused = refusal_in(*line);
      if (!refused && *line != "STORED") return not_understood(*line);
      outcomes.push_back(refused ? Result<>(std::unexpected(std::move(*refused))) : Result<>());
    }
  }
  return {};
}

Result<> MetaConnection::connect() {
  if (fd_ >= 0 && process_ == ::getpid() && is_quiet()) return {};
  close();
  auto made = open();
  if (made && !options_.user.empty()) made = log_in();
  if (made) return {};
  close();
  made.error().is_unsent = true;
  made.error().message = address_of(options_) + ": " + made.error().message;
  return made;
}

Result<> MetaConnection::log_in() {
  const auto asked = exchange("version", nullptr);
  if (!asked) return std::unexpected(asked.error());
  // Whoever asks nobody would store what follows.
  if (!asked->line.starts_with("CLIENT_ERROR ")) return {};
  const std::string said = options_.user + " " + options_.password;
  const std::string_view data = said;
  const auto answer = exchange("set elastripe 0 0 " + std::to_string(said.size()), &data);
  if (!answer) return std::unexpected(answer.error());
  if (answer->line == "STORED") return {};
  if (auto refused = refusal_in(answer->line)) return std::unexpected(std::move(*refused));
  return not_understood(answer->line);
}

bool MetaConnection::is_quiet() const {
  pollfd waits{.fd = fd_, .events = POLLIN, .revents = 0};
  return ::poll(&waits, 1, 0) == 0;
}

Result<> MetaConnection::open() {
  if (is_unix_socket(options_)) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    options_.host.copy(address.sun_path, kMaxPathBytes);
    return take(connected_socket(reinterpret_cast<const sockaddr*>(&address), sizeof address,
                                 options_.connect_timeout_ms));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(options_.port);
  if (const int error = ::getaddrinfo(options_.host.c_str(), port.c_str(), &hints, &found)) {
    return fail(ErrorKind::kConnection, ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  int fd = -1;
  for (const addrinfo* next = found; fd < 0 && next != nullptr; next = next->ai_next) {
    fd = connected_socket(next->ai_addr, next->ai_addrlen, options_.connect_timeout_ms);
  }
  return take(fd);
}

Result<> MetaConnection::take(int fd) {
  if (fd < 0) return fail_by_errno();
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // a Unix socket has no such thing
  const timeval limit = time_of(options_.request_timeout_ms);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  fd_ = fd;
  process_ = ::getpid();
  return {};
}

void MetaConnection::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  received_.clear();
}

// All parts at once, without a copy of them.
Result<> MetaConnection::send(std::initializer_list<std::string_view> parts) {
  std::vector<iovec> left;
  for (const std::string_view part : parts) {
    if (!part.empty()) left.push_back({const_cast<char*>(part.data()), part.size()});
  }
  for (size_t first = 0; first < left.size();) {
    msghdr message{};
    message.msg_iov = &left[first];
    message.msg_iovlen = left.size() - first;
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail_by_errno();
    auto bytes = static_cast<size_t>(sent);
    for (; first < left.size() && bytes >= left[first].iov_len; ++first) {
      bytes -= left[first].iov_len;
    }
    if (first == left.size()) break;
    left[first].iov_base = static_cast<char*>(left[first].iov_base) + bytes;
    left[first].iov_len -= bytes;
  }
  return {};
}

Result<size_t> MetaConnection::receive(std::span<char> room) {
  ssize_t came = 0;
  do {
    came = ::recv(fd_, room.data(), room.size(), 0);
  } while (came < 0 && errno == EINTR);
  if (came < 0) return fail_by_errno();
  if (came == 0) return fail(ErrorKind::kConnection, "the server closed the connection");
  return static_cast<size_t>(came);
}

Result<std::string> MetaConnection::read_line() {
  size_t end = 0;
  while ((end = received_.find(kLineEnd)) == std::string::npos) {
    if (received_.size() > kMaxLineBytes) return not_understood("a line without an end");
    std::array<char, 64 << 10> part;
    const auto came = receive(part);
    if (!came) return std::unexpected(came.error());
    received_.append(part.data(), *came);
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + kLineEnd.size());
  return line;
}

Result<std::string> MetaConnection::read_bytes(size_t count) {
  // What comes is written where it is returned: received_ keeps its room, which stays small.
  std::string bytes = received_.substr(0, count);
  received_.erase(0, count);
  size_t have = bytes.size();
  bytes.resize(count);
  while (have < count) {
    const auto came = receive(std::span(bytes).subspan(have));
    if (!came) return std::unexpected(came.error());
    have += *came;
  }
  return bytes;
}

}  // namespace elastripe::client
