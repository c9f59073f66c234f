#include "tools/bench/load.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tools/bench/load_connection.h"

namespace elastripe::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kWaitMs = 30'000;

// What the threads of one load share.
struct Shared {
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string error;  // the first one
  LoadResult result;

  void fail(const std::string& reason) {
    const std::lock_guard lock(mutex);
    if (!failed.exchange(true)) error = reason;
  }
};

class Driver {
 public:
  Driver(const LoadSettings& settings, const ObjectBytes& objects)
      : settings_(settings), objects_(objects), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}
  ~Driver() { ::close(epoll_); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  cli::Result<> connect(std::unique_ptr<RequestSource> source) {
    auto connection =
        std::make_unique<LoadConnection>(settings_, objects_, std::move(source), result_);
    if (auto done = connection->connect(); !done) return done;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = connection.get();
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection->fd(), &event) != 0) {
      return cli::fail("epoll_ctl failed");
    }
    connections_.push_back(std::move(connection));
    return {};
  }

  void run(SteadyClock::time_point start, Shared& shared) {
    if (auto done = drive(start, shared.failed); !done) shared.fail(done.error());
    result_.seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
    const std::lock_guard lock(shared.mutex);
    const double longest = std::max(shared.result.seconds, result_.seconds);
    shared.result.add(result_);
    shared.result.seconds = longest;
  }

 private:
  cli::Result<> drive(SteadyClock::time_point start, const std::atomic<bool>& stop) {
    const auto end =
        settings_.duration ? start + *settings_.duration : SteadyClock::time_point::max();
    size_t busy = connections_.size();
    for (const auto& connection : connections_) {
      if (auto done = connection->ask(SteadyClock::now()); !done) return done;
      if (auto done = watch(*connection); !done) return done;
      if (connection->idle()) --busy;
    }
    std::array<epoll_event, 64> events{};
    while (busy > 0 && !stop) {
      const int count = ::epoll_wait(epoll_, events.data(), events.size(), kWaitMs);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return cli::fail("no answer for {} s", kWaitMs / 1000);
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<size_t>(i)];
        auto& connection = *static_cast<LoadConnection*>(event.data.ptr);
        if (connection.idle()) return cli::fail("the server closed a connection");
        if (auto done = serve(connection, event.events, end); !done) return done;
        if (connection.idle()) --busy;
      }
    }
    return {};
  }

  cli::Result<> serve(LoadConnection& connection, uint32_t events, SteadyClock::time_point end) {
    const auto now = SteadyClock::now();
    if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) {
      if (auto done = connection.receive(now); !done) return done;
    }
    if (now >= end) connection.end();
    if (auto done = connection.ask(now); !done) return done;
    return watch(connection);
  }

  // Asks for room only while something waits for it.
  cli::Result<> watch(LoadConnection& connection) const {
    if (!connection.wants_change_of_interest()) return {};
    epoll_event event{};
    event.events = connection.waits_for_room() ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.ptr = &connection;
    if (::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd(), &event) != 0) {
      return cli::fail("epoll_ctl failed");
    }
    return {};
  }

  const LoadSettings& settings_;
  const ObjectBytes& objects_;
  const int epoll_;
  LoadResult result_;
  std::vector<std::unique_ptr<LoadConnection>> connections_;
};

class UniformSource : public RequestSource {
 public:
  UniformSource(Operation operation, uint64_t records, uint64_t seed)
      : operation_(operation), random_(seed), records_(0, records - 1) {}
  std::optional<Request> next() override { return Request{operation_, records_(random_)}; }

 private:
  Operation operation_;
  std::mt19937_64 random_;
  std::uniform_int_distribution<uint64_t> records_;
};

// All connections together store each record once.
class StoringSource : public RequestSource {
 public:
  StoringSource(std::shared_ptr<std::atomic<uint64_t>> stored, uint64_t records)
      : stored_(std::move(stored)), records_(records) {}
  std::optional<Request> next() override {
    const uint64_t record = stored_->fetch_add(1);
    if (record >= records_) return std::nullopt;
    return Request{Operation::kInsert, record};
  }

 private:
  std::shared_ptr<std::atomic<uint64_t>> stored_;
  uint64_t records_;
};

}  // namespace

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::kRead:
      return "read";
    case Operation::kUpdate:
      return "update";
    case Operation::kInsert:
      return "insert";
    case Operation::kReadModifyWrite:
      return "read-modify-write";
    case Operation::kDelete:
      return "delete";
  }
  return "";
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
    if (auto done = driver.connect(sources()); !done) return std::unexpected(done.error());
  }
  Shared shared;
  {
    const auto start = SteadyClock::now();
    std::vector<std::jthread> running;
    for (size_t i = 1; i < drivers.size(); ++i) {
      running.emplace_back([&, i] { drivers[i]->run(start, shared); });
    }
    drivers[0]->run(start, shared);
  }
  if (shared.failed) return cli::fail("{}:{}: {}", settings.host, settings.port, shared.error);
  return std::move(shared.result);
}

cli::Result<LoadResult> store_records(const LoadSettings& settings, const ObjectBytes& objects,
                                      uint64_t records) {
  LoadSettings whole = settings;
  whole.duration.reset();
  const auto stored = std::make_shared<std::atomic<uint64_t>>(0);
  return run_load(whole, objects, [&] { return std::make_unique<StoringSource>(stored, records); });
}

SourceFactory uniform_requests(Operation operation, uint64_t records, uint64_t seed) {
  const auto next_seed = std::make_shared<uint64_t>(seed);
  return [=] { return std::make_unique<UniformSource>(operation, records, (*next_seed)++); };
}

}  // namespace elastripe::bench
