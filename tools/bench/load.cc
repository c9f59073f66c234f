#include "tools/bench/load.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <future>
#include <random>
#include <span>
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

// Bytes to and from a server that does not block: -1 and EAGAIN where there are none to be had.
class Wire {
 public:
  Wire() = default;
  ~Wire() {
    tls_.reset();
    if (fd_ >= 0) ::close(fd_);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // Over TLS only once hands are shaken.
  cli::Result<> connect(const LoadSettings& settings, uint16_t port) {
    fd_ = TRY(connect_socket(settings.host, port));
    if (settings.tls == nullptr) return {};
    tls_ = settings.tls->connection(fd_, settings.host);
    if (tls_ == nullptr || SSL_do_handshake(tls_.get()) != 1) {
      return cli::fail("TLS: {}", tls_ == nullptr ? "no memory" : take_tls_error(*tls_));
    }
    return {};
  }
  int fd() const { return fd_; }
  // A read gives a record at most: less than was asked for may not be all that has come.
  bool reads_records() const { return tls_ != nullptr; }

  ssize_t send(const char* bytes, size_t count) {
    if (tls_ == nullptr) return ::send(fd_, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    size_t sent = 0;
    ERR_clear_error();
    return result(SSL_write_ex(tls_.get(), bytes, count, &sent), sent);
  }
  ssize_t receive(char* to, size_t count) {
    if (tls_ == nullptr) return ::recv(fd_, to, count, MSG_DONTWAIT);
    size_t got = 0;
    ERR_clear_error();
    return result(SSL_read_ex(tls_.get(), to, count, &got), got);
  }
  // Waits for as many bytes as are expected.
  cli::Result<> exchange(std::string_view asked, std::span<char> answer) {
    if (send(asked.data(), asked.size()) != static_cast<ssize_t>(asked.size())) {
      return cli::fail("sending: {}", std::strerror(errno));
    }
    size_t got = 0;
    while (got < answer.size()) {
      pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
      const bool waits = tls_ == nullptr;  // a socket over TLS blocks here
      if (waits && ::poll(&ready, 1, kWaitMs) != 1) return cli::fail("no answer");
      const ssize_t count = receive(answer.data() + got, answer.size() - got);
      if (count <= 0) return cli::fail("receiving: {}", std::strerror(errno));
      got += static_cast<size_t>(count);
    }
    return {};
  }
  // The socket was connected, and hands shaken, by waiting.
  cli::Result<> stop_blocking() const {
    const int flags = ::fcntl(fd_, F_GETFL);
    if (flags < 0 || ::fcntl(fd_, F_SETFL, flags | O_NONBLOCK) != 0) {
      return cli::fail("fcntl: {}", std::strerror(errno));
    }
    return {};
  }

 private:
  ssize_t result(int outcome, size_t moved) {
    if (outcome == 1) return static_cast<ssize_t>(moved);
    const int reason = SSL_get_error(tls_.get(), outcome);
    if (reason == SSL_ERROR_ZERO_RETURN) return 0;
    const bool waits = reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE;
    if (waits) errno = EAGAIN;
    if (!waits && reason != SSL_ERROR_SYSCALL) errno = EPROTO;
    return -1;
  }

  int fd_ = -1;
  TlsPtr tls_;
};

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
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  cli::Result<> connect(uint16_t port) {
    TRY(wire_.connect(settings_, port));
    return wire_.stop_blocking();
  }
  int fd() const { return wire_.fd(); }

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
      const ssize_t count = wire_.send(out_.data() + sent_, out_.size() - sent_);
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
      const ssize_t count = wire_.receive(in_.data() + received_, in_.size() - received_);
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
      if (count < 0) return cli::fail("receiving: {}", std::strerror(errno));
      if (count == 0) return cli::fail("the server closed a connection");
      received_ += static_cast<size_t>(count);
      is_full = received_ == in_.size() || wire_.reads_records();
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
    const Dialect dialect = settings_.dialect;
    const std::string key = key_of(settings_.key_prefix, asked.request.record);
    if (asked.reads) {
      append_get(out_, dialect, key);
    } else if (asked.request.operation == Operation::kDelete) {
      append_delete(out_, dialect, key);
    } else if (const auto field = asked.request.field) {
      out_ += fmt::format("ms {} {} o{}\r\n", key, objects_.field_bytes(),
                          *field * objects_.field_bytes());
      objects_.append_field(out_, asked.request.record, *field, ++revision_);
      out_ += "\r\n";
    } else {
      append_set(out_, dialect, key, objects_.object_bytes(), settings_.exptime_s);
      objects_.append(out_, asked.request.record, ++revision_);
      end_value(out_, dialect);
    }
    in_flight_.push_back(asked);
  }

  static Asked asked_by(const InFlight& asked) {
    if (asked.reads) return Asked::kGet;
    return asked.request.operation == Operation::kDelete ? Asked::kDelete : Asked::kSet;
  }

  // Takes one whole reply from the front of `text`; 0 if it is not whole yet.
  cli::Result<size_t> take_reply(std::string_view text, TimePoint now) {
    const InFlight answered = in_flight_.front();
    const std::string key = key_of(settings_.key_prefix, answered.request.record);
    const Dialect dialect = answered.request.field ? Dialect::kMeta : settings_.dialect;
    const Answer answer = TRY(take_answer(dialect, asked_by(answered), key, text));
    if (answer.bytes == 0) return 0;
    if (answer.is_gone && answered.request.operation != Operation::kDelete) {
      return cli::fail("{} is gone: has the server enough memory?", key);
    }
    if (answered.reads && !objects_.matches(answer.value, answered.request.record)) {
      return cli::fail("wrong bytes of {}", key);
    }
    in_flight_.pop_front();
    complete(answered, now);
    return answer.bytes;
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

  Wire wire_;
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

  cli::Result<> connect(RequestSource source, uint16_t port) {
    auto connection = std::make_unique<Connection>(settings_, objects_, std::move(source), result_);
    TRY(connection->connect(port));
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
  std::vector<uint16_t> ports{settings.port};
  std::ranges::copy(settings.more_ports, std::back_inserter(ports));
  for (int i = 0; i < settings.connections; ++i) {
    auto& driver = *drivers[static_cast<size_t>(i % threads)];
    TRY(driver.connect(sources(), ports[static_cast<size_t>(i) % ports.size()]));
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

class Connections {
 public:
  explicit Connections(size_t count) { wires_.reserve(count); }
  cli::Result<> add(const LoadSettings& settings) {
    auto wire = std::make_unique<Wire>();
    TRY(wire->connect(settings, settings.port));
    constexpr std::string_view kAsked = "mn\r\n";
    std::array<char, 4> answer{};
    TRY(wire->exchange(kAsked, answer));
    if (std::string_view(answer.data(), answer.size()) != "MN\r\n") {
      return cli::fail("no MN was answered to mn");
    }
    wires_.push_back(std::move(wire));
    return {};
  }

 private:
  std::vector<std::unique_ptr<Wire>> wires_;
};

void CloseConnections::operator()(Connections* connections) const { delete connections; }

cli::Result<ConnectionsPtr> open_connections(const LoadSettings& settings, int count) {
  ConnectionsPtr made(new Connections(static_cast<size_t>(count)));
  for (int i = 0; i < count; ++i) TRY(made->add(settings));
  return made;
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
