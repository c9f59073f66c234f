#include "tools/bench/load.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <future>
#include <random>
#include <string_view>
#include <vector>

#include "tools/bench/object_client.h"
#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;
using TimePoint = SteadyClock::time_point;

constexpr int kWaitMs = 30'000;
constexpr size_t kReadBytes = 64 << 10;
constexpr std::string_view kEnd = "END\r\n";
constexpr std::string_view kNone = "NF\r\n";

// One connection of a load: composes requests, checks replies, records latencies. Used by one
// thread; never waits.
class Connection {
 public:
  // Counts into `result`.
  Connection(const LoadSettings& settings, const ObjectBytes& objects, RequestSource source,
             LoadResult& result)
      : settings_(settings),
        objects_(objects),
        source_(std::move(source)),
        result_(result),
        in_(std::max(kReadBytes, 2 * objects.object_bytes() + 1024), '\0') {}
  ~Connection() {
    if (fd_ >= 0) ::close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  cli::Result<> connect() {
    fd_ = TRY(connect_socket(settings_.host, settings_.port));
    return {};
  }
  int fd() const { return fd_; }

  // Sends what waits, and new requests until as many as the depth are in flight.
  cli::Result<> ask(TimePoint now) {
    while (!ended_ && in_flight_.size() < static_cast<size_t>(settings_.depth)) {
      const auto request = source_.next();
      if (!request) {
        ended_ = true;
        break;
      }
      const bool reads = request->operation == Operation::kRead ||
                         request->operation == Operation::kReadModifyWrite;
      send({*request, reads, now, now});
    }
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

  // Takes all replies that have come.
  cli::Result<> receive(TimePoint now) {
    for (bool is_full = true; is_full;) {
      const auto count = ::recv(fd_, in_.data() + received_, in_.size() - received_, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
      if (count < 0) return cli::fail("receiving: {}", std::strerror(errno));
      if (count == 0) return cli::fail("the server closed a connection");
      received_ += static_cast<size_t>(count);
      is_full = received_ == in_.size();
      const std::string_view all(in_.data(), received_);
      size_t taken = 0;
      while (!in_flight_.empty()) {
        const size_t bytes = TRY(take_reply(all.substr(taken), now));
        if (bytes == 0) break;
        taken += bytes;
      }
      if (in_flight_.empty() && taken < received_) return cli::fail("a reply nobody asked for");
      std::memmove(in_.data(), in_.data() + taken, received_ - taken);
      received_ -= taken;
    }
    return {};
  }

  // No new requests.
  void end() { ended_ = true; }
  // Nothing in flight, and nothing more to ask.
  bool idle() const { return ended_ && in_flight_.empty(); }

 private:
  struct InFlight {
    Request request;
    bool reads = false;  // a GET; else a SET
    TimePoint sent;
    TimePoint started;  // of a read-modify-write: its read
  };

  void send(const InFlight& asked) {
    const std::string key = key_of(settings_.key_prefix, asked.request.record);
    if (asked.reads) {
      out_ += fmt::format("get {}\r\n", key);
    } else if (asked.request.operation == Operation::kDelete) {
      out_ += fmt::format("delete {}\r\n", key);
    } else if (const auto field = asked.request.field) {
      out_ += fmt::format("ms {} {} o{}\r\n", key, objects_.field_bytes(),
                          *field * objects_.field_bytes());
      objects_.append_field(out_, asked.request.record, *field, ++revision_);
      out_ += "\r\n";
    } else {
      out_ += fmt::format("set {} 0 {} {}\r\n", key, settings_.exptime_s, objects_.object_bytes());
      objects_.append(out_, asked.request.record, ++revision_);
      out_ += "\r\n";
    }
    in_flight_.push_back(asked);
  }

  // Takes one whole reply from the front of `text`; 0 if it is not whole yet.
  cli::Result<size_t> take_reply(std::string_view text, TimePoint now) {
    const InFlight answered = in_flight_.front();
    size_t bytes = 0;
    if (answered.reads && text.starts_with("VALUE ")) {
      bytes = TRY(take_value(text, answered.request));
      if (bytes == 0) return 0;
    } else {
      const size_t end = text.find("\r\n");
      if (end == std::string_view::npos) return 0;
      bytes = end + 2;
      const std::string_view line = text.substr(0, bytes);
      const bool is_gone = answered.reads ? line == kEnd : answered.request.field && line == kNone;
      if (is_gone) {
        return cli::fail("{} is gone: has the server enough memory?",
                         key_of(settings_.key_prefix, answered.request.record));
      }
      if (answered.reads || !succeeds(answered.request, line))
        return cli::fail("{}", text.substr(0, end));
    }
    in_flight_.pop_front();
    complete(answered, now);
    return bytes;
  }

  // The request changes something.
  static bool succeeds(const Request& request, std::string_view line) {
    if (request.operation == Operation::kDelete) {
      return line == "DELETED\r\n" || line == "NOT_FOUND\r\n";
    }
    return line == (request.field ? "HD\r\n" : "STORED\r\n");
  }

  // "VALUE <key> <flags> <bytes>\r\n<data>\r\nEND\r\n"
  cli::Result<size_t> take_value(std::string_view text, const Request& request) const {
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

  void count(Operation operation, TimePoint since, TimePoint now) {
    result_.latencies[static_cast<size_t>(operation)].add(now - since);
  }

  void complete(const InFlight& answered, TimePoint now) {
    const Operation operation = answered.request.operation;
    const bool both = operation == Operation::kReadModifyWrite;
    if (both && answered.reads) {  // its update is the connection's next request
      count(Operation::kRead, answered.sent, now);
      send({answered.request, false, now, answered.started});
      return;
    }
    if (both) count(Operation::kUpdate, answered.sent, now);
    count(operation, answered.started, now);
    ++result_.operations;
    source_.acknowledged(answered.request);
  }

  const LoadSettings& settings_;
  const ObjectBytes& objects_;
  const RequestSource source_;
  LoadResult& result_;

  int fd_ = -1;
  bool ended_ = false;
  std::deque<InFlight> in_flight_;
  std::string out_;
  size_t sent_ = 0;  // of out_
  std::string in_;   // its first `received_` bytes are replies not yet taken
  size_t received_ = 0;
  uint64_t revision_ = 0;
};

class Driver {
 public:
  Driver(const LoadSettings& settings, const ObjectBytes& objects)
      : settings_(settings), objects_(objects), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}
  ~Driver() { ::close(epoll_); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  cli::Result<> connect(RequestSource source) {
    auto connection = std::make_unique<Connection>(settings_, objects_, std::move(source), result_);
    TRY(connection->connect());
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.ptr = connection.get()}};
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection->fd(), &event) != 0) {
      return cli::fail("epoll_ctl failed");
    }
    connections_.push_back(std::move(connection));
    return {};
  }

  // Until all is done, or another driver of the load has failed.
  cli::Result<LoadResult> run(TimePoint start, std::atomic<bool>& failed) {
    const auto done = drive(start, failed);
    if (!done) failed = true;
    TRY(done);
    result_.seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
    return result_;
  }

 private:
  cli::Result<> drive(TimePoint start, const std::atomic<bool>& stop) {
    const auto end = settings_.duration ? start + *settings_.duration : TimePoint::max();
    size_t busy = connections_.size();
    for (const auto& connection : connections_) {
      TRY(connection->ask(SteadyClock::now()));
      if (connection->idle()) --busy;
    }
    std::array<epoll_event, 64> events{};
    while (busy > 0 && !stop) {
      const int count = ::epoll_wait(epoll_, events.data(), events.size(), kWaitMs);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return cli::fail("no answer for {} s", kWaitMs / 1000);
      for (int i = 0; i < count; ++i) {
        auto& connection = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
        const bool was_idle = connection.idle();
        const auto now = SteadyClock::now();
        TRY(connection.receive(now));
        if (now >= end) connection.end();
        TRY(connection.ask(now));
        if (connection.idle() && !was_idle) --busy;
      }
    }
    return {};
  }

  const LoadSettings& settings_;
  const ObjectBytes& objects_;
  const int epoll_;
  LoadResult result_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace

const char* name_of(Operation operation) {
  constexpr std::array kNames{"read", "update", "insert", "read-modify-write", "delete"};
  static_assert(kNames.size() == kOperations.size());
  return kNames[static_cast<size_t>(operation)];
}

std::string key_of(const std::string& prefix, uint64_t record) {
  return fmt::format("{}user{}", prefix, fnv_hash(record));
}

void LoadResult::add(const LoadResult& other) {
  operations += other.operations;
  seconds += other.seconds;
  for (size_t i = 0; i < latencies.size(); ++i) latencies[i].add(other.latencies[i]);
}

cli::Result<LoadResult> run_load(const LoadSettings& settings, const ObjectBytes& objects,
                                 const SourceFactory& sources) {
  std::vector<std::unique_ptr<Driver>> drivers;
  const int threads = std::min(settings.threads, settings.connections);
  drivers.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    drivers.push_back(std::make_unique<Driver>(settings, objects));
  }
  for (int i = 0; i < settings.connections; ++i) {
    auto& driver = *drivers[static_cast<size_t>(i % threads)];
    TRY(driver.connect(sources()));
  }
  std::atomic<bool> failed{false};
  std::vector<std::future<cli::Result<LoadResult>>> running;
  running.reserve(drivers.size());
  for (const auto start = SteadyClock::now(); const auto& driver : drivers) {
    running.push_back(
        std::async(std::launch::async, &Driver::run, &*driver, start, std::ref(failed)));
  }
  LoadResult all;
  double longest = 0;
  std::string error;
  for (auto& driver : running) {
    const auto result = driver.get();
    if (!result) error = result.error();
    if (!result) continue;
    all.add(*result);
    longest = std::max(longest, result->seconds);
  }
  if (failed) return cli::fail("{}:{}: {}", settings.host, settings.port, error);
  all.seconds = longest;
  return all;
}

SourceFactory new_records(uint64_t records) {
  return [=, stored = std::make_shared<std::atomic<uint64_t>>(0)] {
    return RequestSource{[=]() -> std::optional<Request> {
      const uint64_t record = stored->fetch_add(1);
      if (record >= records) return std::nullopt;
      return Request{Operation::kInsert, record};
    }};
  };
}

SourceFactory uniform_requests(Operation operation, uint64_t records, uint64_t seed) {
  return [=, next_seed = std::make_shared<uint64_t>(seed)] {
    std::mt19937_64 random((*next_seed)++);
    std::uniform_int_distribution<uint64_t> any(0, records - 1);
    return RequestSource{[=]() mutable { return Request{operation, any(random)}; }};
  };
}

}  // namespace elastripe::bench
