#include "tools/bench/transition_bulk.h"

#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "tools/bench/object_bytes.h"
#include "tools/bench/processor_time.h"

namespace elastripe::bench {
namespace {

using cli::Result;

// Of the memory that is free: the rest is for the proxy, for this process and for others.
constexpr double kShareOfMemory = 0.7;
// Parities of the old generation until the read grace is over, records, headers, rounding of sizes.
constexpr double kOverhead = 1.3;
constexpr int kNodeMb = 128;  // of each node, beside what objects take

double node_bytes_of(const BulkSettings& settings) {
  const Parameters& p = settings.parameters;
  return static_cast<double>(settings.object_bytes) * (p.k + p.m) / p.k * kOverhead;
}

// Objects of `layout` under names of their own; the same bytes, since nobody looks at them here.
Result<> put_objects(const TransitionCluster& cluster, const std::string& layout, int count,
                     size_t bytes, const std::atomic<bool>& interrupted) {
  auto client = connect_to(cluster.processes().proxy_port());
  if (!client) return std::unexpected(client.error());
  const std::string object = make_object(bytes, 1);
  for (int i = 0; i < count; ++i) {
    if (interrupted) return cli::fail("interrupted");
    const auto key = fmt::format("{}{}", TransitionCluster::prefix_of(layout), i);
    if (const auto done = client->put(key, object); !done) {
      return cli::fail("PUT {}: {}", key, done.error().message);
    }
  }
  return {};
}

// Processor time that the cluster has used up to now.
struct Used {
  std::map<pid_t, double> proxy_threads;
  double proxy = 0;
  double nodes = 0;
  double idle = 0;
};
Used used_by(const TransitionCluster& cluster) {
  Used used;
  used.idle = idle_seconds();
  const cli::LocalCluster& processes = cluster.processes().processes();
  for (const std::string& name : processes.names()) {
    const pid_t pid = processes.status(name).process.pid;
    if (name == cli::kProxyName) {
      used.proxy_threads = thread_seconds(pid);
      used.proxy = process_seconds(pid);
    } else {
      used.nodes += process_seconds(pid);
    }
  }
  return used;
}

Result<BulkPass> run_pass(const TransitionCluster& cluster, const BulkSettings& settings,
                          const std::string& layout, const std::string& execution,
                          Direction direction, int objects) {
  BulkPass pass;
  pass.layout = layout;
  pass.execution = execution;
  pass.direction = direction;
  const auto wire = cluster.wire_bytes();
  if (!wire) return std::unexpected(wire.error());
  const Used before = used_by(cluster);
  const auto report = cluster.transition({.key = {},
                                          .prefix = TransitionCluster::prefix_of(layout),
                                          .direction = direction,
                                          .execution = execution,
                                          .parallel = settings.parallel});
  if (!report) return std::unexpected(report.error());
  const Used after = used_by(cluster);
  const auto wire_after = cluster.wire_bytes();
  if (!wire_after) return std::unexpected(wire_after.error());
  pass.wire = *wire_after - *wire;

  const Json& done = report->at("done");
  pass.objects = done.value("objects", uint64_t{0});
  pass.object_bytes = done.value("object_bytes", uint64_t{0});
  pass.block_bytes = done.value("read_bytes", uint64_t{0}) + done.value("sent_bytes", uint64_t{0});
  if (pass.objects != static_cast<uint64_t>(objects) || done != report->at("planned")) {
    return cli::fail("{} {} {}: done {}, but planned {}", layout, execution, name_of(direction),
                     done.dump(), report->at("planned").dump());
  }
  pass.seconds = report->value("seconds", 0.0);
  pass.object_p50 = report->at("object_seconds").value("p50", 0.0);
  pass.object_p99 = report->at("object_seconds").value("p99", 0.0);
  pass.proxy_seconds = after.proxy - before.proxy;
  pass.nodes_seconds = after.nodes - before.nodes;
  pass.idle_seconds = after.idle - before.idle;
  for (const auto& [thread, seconds] : after.proxy_threads) {
    const auto found = before.proxy_threads.find(thread);
    const double start = found == before.proxy_threads.end() ? 0 : found->second;
    pass.proxy_thread_seconds = std::max(pass.proxy_thread_seconds, seconds - start);
  }
  return pass;
}

// GETs one after the other until it is told to stop.
class Reader {
 public:
  Reader(uint16_t port, std::vector<std::string> keys, const std::string& object)
      : keys_(std::move(keys)), object_(object), thread_([this, port] { run(port); }) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { end(); }

  // What every GET took, in microseconds; an error if one failed or brought other bytes.
  Result<std::vector<double>> stop() {
    end();
    if (!error_.empty()) return std::unexpected(error_);
    return std::move(us_);
  }

 private:
  void end() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }

  void run(uint16_t port) {
    using SteadyClock = std::chrono::steady_clock;
    auto client = connect_to(port);
    if (!client) {
      error_ = client.error();
      return;
    }
    for (size_t i = 0; !stopping_ && error_.empty(); ++i) {
      const std::string& key = keys_[i % keys_.size()];
      const auto start = SteadyClock::now();
      const auto value = client->get(key);
      us_.push_back(std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count());
      if (!value) error_ = fmt::format("GET {}: {}", key, value.error().message);
      if (value && value->bytes() != object_) error_ = fmt::format("GET {}: wrong bytes", key);
    }
  }

  const std::vector<std::string> keys_;
  const std::string& object_;
  std::atomic<bool> stopping_ = false;
  std::vector<double> us_;
  std::string error_;
  std::thread thread_;  // last: it uses the others
};

constexpr const char* kReadPrefix = "read/";
constexpr size_t kReadKeys = 16;
constexpr std::chrono::milliseconds kQuietWindow{1000};

std::vector<BesideCase> beside_cases() {
  std::vector<BesideCase> cases;
  for (const size_t bytes : {size_t{1} << 10, size_t{1} << 20}) {
    cases.push_back({bytes, "nothing", false, 0, 0, {}, 0, 0});
    cases.push_back({bytes, "--rate 25M", true, 4, 25u << 20, {}, 0, 0});
    cases.push_back({bytes, "--parallel 1", true, 1, 0, {}, 0, 0});
    cases.push_back({bytes, "--parallel 4", true, 4, 0, {}, 0, 0});
  }
  return cases;
}

std::string read_key(size_t bytes, size_t i) {
  return fmt::format("{}{}/{}", kReadPrefix, bytes, i);
}

// One turn of one case; a transition goes in the direction that the one before did not.
Result<> run_beside(const TransitionCluster& cluster, BesideCase& c, const std::string& object,
                    Direction direction) {
  std::vector<std::string> keys;
  keys.reserve(kReadKeys);
  for (size_t i = 0; i < kReadKeys; ++i) keys.push_back(read_key(c.read_bytes, i));
  const auto start = std::chrono::steady_clock::now();
  Reader reader(cluster.processes().proxy_port(), keys, object);
  if (c.transitions) {
    const auto report = cluster.transition({.key = {},
                                            .prefix = TransitionCluster::prefix_of("ers-2"),
                                            .direction = direction,
                                            .parallel = c.parallel,
                                            .rate = c.rate});
    if (!report) return std::unexpected(report.error());
    c.transitioned += report->at("done").value("objects", uint64_t{0});
  } else {
    std::this_thread::sleep_for(kQuietWindow);
  }
  c.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto us = reader.stop();
  if (!us) return std::unexpected(us.error());
  c.us.insert(c.us.end(), us->begin(), us->end());
  return {};
}

}  // namespace

int objects_that_fit(const BulkSettings& settings, int most) {
  const double fit = available_memory_bytes() * kShareOfMemory / node_bytes_of(settings);
  return std::max(std::min(most, static_cast<int>(fit)), static_cast<int>(kLayouts.size()));
}

std::string BulkPass::limit() const {
  const double processors = std::thread::hardware_concurrency();
  const double cluster = (proxy_seconds + nodes_seconds) / seconds;
  const double busy = processors - idle_seconds / seconds;
  if (proxy_thread_seconds / seconds > 0.9) return "the thread of the proxy that transitions";
  if (busy > 0.9 * processors) {
    return fmt::format("all {:.0f} processors, {:.2f} of them by the cluster", processors, cluster);
  }
  return fmt::format("waiting: {:.2f} of {:.0f} processors busy", busy, processors);
}

Result<std::vector<BulkPass>> measure_bulk(const BulkSettings& settings,
                                           const std::atomic<bool>& interrupted) {
  const int of_layout = settings.objects / static_cast<int>(kLayouts.size());
  const double bytes = node_bytes_of(settings) * settings.objects / settings.parameters.nodes();
  const auto cluster =
      TransitionCluster::start({.parameters = settings.parameters,
                                .port = settings.port,
                                .memory_mb = kNodeMb + static_cast<int>(bytes / (1 << 20)),
                                .more = {}});
  if (!cluster) return std::unexpected(cluster.error());
  for (const char* layout : kLayouts) {
    const auto done = put_objects(**cluster, layout, of_layout, settings.object_bytes, interrupted);
    if (!done) return std::unexpected(done.error());
  }
  std::vector<BulkPass> passes;
  for (const char* execution : kExecutions) {
    for (const Direction direction : kDirections) {
      for (const char* layout : kLayouts) {
        if (interrupted) return cli::fail("interrupted");
        auto pass = run_pass(**cluster, settings, layout, execution, direction, of_layout);
        if (!pass) return std::unexpected(pass.error());
        passes.push_back(std::move(*pass));
      }
    }
  }
  return passes;
}

Result<std::vector<BesideCase>> measure_beside(const BesideSettings& settings,
                                               const std::atomic<bool>& interrupted) {
  const Parameters& p = settings.parameters;
  const auto cluster = TransitionCluster::start(
      {.parameters = p,
       .port = settings.port,
       .memory_mb = 1024,
       .more = {{kReadPrefix, fmt::format("ers-2:{},{},{}", p.k, p.m, p.k_prime), {}}}});
  if (!cluster) return std::unexpected(cluster.error());
  if (auto done = put_objects(**cluster, "ers-2", settings.objects, 1 << 20, interrupted); !done) {
    return std::unexpected(done.error());
  }
  auto client = connect_to((*cluster)->processes().proxy_port());
  if (!client) return std::unexpected(client.error());
  std::vector<BesideCase> cases = beside_cases();
  for (const BesideCase& c : cases) {
    for (size_t i = 0; i < kReadKeys; ++i) {
      const auto done = client->put(read_key(c.read_bytes, i), make_object(c.read_bytes, 1));
      if (!done) return cli::fail("PUT: {}", done.error().message);
    }
  }
  size_t transitions = 0;
  for (int round = 0; round < settings.rounds; ++round) {
    for (BesideCase& c : cases) {
      if (interrupted) return cli::fail("interrupted");
      const Direction direction = kDirections[transitions % kDirections.size()];
      transitions += c.transitions ? 1 : 0;
      const std::string object = make_object(c.read_bytes, 1);
      if (auto done = run_beside(**cluster, c, object, direction); !done) {
        return std::unexpected(done.error());
      }
    }
  }
  return cases;
}

}  // namespace elastripe::bench
