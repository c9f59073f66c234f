#include "tools/bench/load_connection.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "tools/bench/socket.h"

namespace elastripe::bench {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr std::string_view kStored = "STORED\r\n";
constexpr std::string_view kDeleted = "DELETED\r\n";
constexpr std::string_view kNotFound = "NOT_FOUND\r\n";
constexpr std::string_view kEnd = "END\r\n";

}  // namespace

LoadConnection::LoadConnection(const LoadSettings& settings, const ObjectBytes& objects,
                               std::unique_ptr<RequestSource> source, LoadResult& result)
    : settings_(settings),
      objects_(objects),
      source_(std::move(source)),
      result_(result),
      in_(std::max(kReadBytes, 2 * objects.object_bytes() + 1024), '\0') {}

LoadConnection::~LoadConnection() {
  if (fd_ >= 0) ::close(fd_);
}

cli::Result<> LoadConnection::connect() {
  const auto fd = connect_socket(settings_.host, settings_.port);
  if (!fd) return std::unexpected(fd.error());
  fd_ = *fd;
  return {};
}

cli::Result<> LoadConnection::ask(TimePoint now) {
  while (!ended_ && in_flight_.size() < static_cast<size_t>(settings_.depth)) {
    const auto request = source_->next();
    if (!request) {
      ended_ = true;
      break;
    }
    const bool reads =
        request->operation == Operation::kRead || request->operation == Operation::kReadModifyWrite;
    in_flight_.push_back({*request, reads, now, now});
    compose(in_flight_.back());
  }
  return flush();
}

void LoadConnection::compose(const InFlight& asked) {
  const std::string key = key_of(settings_.key_prefix, asked.request.record);
  if (asked.reads) {
    out_ += "get ";
    out_ += key;
    out_ += "\r\n";
    return;
  }
  if (asked.request.operation == Operation::kDelete) {
    out_ += fmt::format("delete {}\r\n", key);
    return;
  }
  out_ += fmt::format("set {} 0 {} {}\r\n", key, settings_.exptime_s, objects_.object_bytes());
  objects_.append(out_, asked.request.record, ++revision_);
  out_ += "\r\n";
}

cli::Result<> LoadConnection::flush() {
  while (sent_ < out_.size()) {
    const ssize_t count =
        ::send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (count < 0) return cli::fail("sending: {}", std::strerror(errno));
    sent_ += static_cast<size_t>(count);
  }
  out_.clear();
  sent_ = 0;
  return {};
}

bool LoadConnection::wants_change_of_interest() {
  const bool changed = watched_for_room_ != waits_for_room();
  watched_for_room_ = waits_for_room();
  return changed;
}

cli::Result<> LoadConnection::receive(TimePoint now) {
  const ssize_t count = ::recv(fd_, in_.data() + received_, in_.size() - received_, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
  if (count < 0) return cli::fail("receiving: {}", std::strerror(errno));
  if (count == 0) return cli::fail("the server closed a connection");
  received_ += static_cast<size_t>(count);

  const std::string_view all(in_.data(), received_);
  size_t taken = 0;
  while (!in_flight_.empty()) {
    const auto bytes = take_reply(all.substr(taken), now);
    if (!bytes) return std::unexpected(bytes.error());
    if (*bytes == 0) break;
    taken += *bytes;
  }
  if (in_flight_.empty() && taken < received_) return cli::fail("a reply that nobody asked for");
  std::memmove(in_.data(), in_.data() + taken, received_ - taken);
  received_ -= taken;
  return {};
}

cli::Result<size_t> LoadConnection::take_reply(std::string_view text, TimePoint now) {
  const InFlight answered = in_flight_.front();
  size_t bytes = 0;
  if (answered.reads && text.starts_with("VALUE ")) {
    const auto whole = take_value(text, answered.request);
    if (!whole || *whole == 0) return whole;
    bytes = *whole;
  } else {
    const size_t end = text.find("\r\n");
    if (end == std::string_view::npos) return 0;
    bytes = end + 2;
    const std::string_view line = text.substr(0, bytes);
    if (answered.reads && line == kEnd) {
      return cli::fail("{} is gone: has the server enough memory?",
                       key_of(settings_.key_prefix, answered.request.record));
    }
    const bool deletes = answered.request.operation == Operation::kDelete;
    const bool succeeds = deletes ? line == kDeleted || line == kNotFound : line == kStored;
    if (answered.reads || !succeeds) return cli::fail("{}", text.substr(0, end));
  }
  in_flight_.pop_front();
  complete(answered, now);
  return bytes;
}

// "VALUE <key> <flags> <bytes>\r\n<data>\r\nEND\r\n"
cli::Result<size_t> LoadConnection::take_value(std::string_view text,
                                               const Request& request) const {
  const size_t line_end = text.find("\r\n");
  if (line_end == std::string_view::npos) return 0;
  const std::string_view line = text.substr(0, line_end);
  const size_t number_at = line.rfind(' ') + 1;
  size_t value_bytes = 0;
  std::from_chars(line.data() + number_at, line.data() + line.size(), value_bytes);
  if (value_bytes != objects_.object_bytes()) return cli::fail("wrong size: {}", line);
  const size_t whole = line_end + 2 + value_bytes + 2 + kEnd.size();
  if (text.size() < whole) return 0;
  const std::string key = key_of(settings_.key_prefix, request.record);
  const bool right = line.substr(6).starts_with(key) && line[6 + key.size()] == ' ' &&
                     objects_.matches(text.substr(line_end + 2, value_bytes), request.record) &&
                     text.substr(whole - kEnd.size(), kEnd.size()) == kEnd;
  if (!right) return cli::fail("wrong bytes of {}", key);
  return whole;
}

void LoadConnection::count(Operation operation, TimePoint since, TimePoint now) {
  result_.latencies[static_cast<size_t>(operation)].record(now - since);
}

void LoadConnection::complete(const InFlight& answered, TimePoint now) {
  const Operation operation = answered.request.operation;
  if (operation == Operation::kReadModifyWrite) {
    if (answered.reads) {  // its update is the connection's next request
      count(Operation::kRead, answered.sent, now);
      in_flight_.push_back({answered.request, false, now, answered.started});
      compose(in_flight_.back());
      return;
    }
    count(Operation::kUpdate, answered.sent, now);
    count(operation, answered.started, now);
  } else {
    count(operation, answered.sent, now);
  }
  ++result_.operations;
  source_->acknowledged(answered.request);
}

}  // namespace elastripe::bench
