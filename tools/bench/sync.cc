// elastripe bench sync: how long records take to be where they belong again, after a node has died,
// and when one returns that was stopped for 5 s. Two events of one cluster, one after the other, so
// there is nothing to take turns.
#include <csignal>
#include <thread>

#include "tools/bench/experiment.h"
#include "tools/bench/runner.h"
#include "tools/bench/socket.h"
#include "tools/bench/testbed.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using Clock = std::chrono::steady_clock;

constexpr int kConnections = 8;
constexpr int kPipelined = 200;
constexpr std::chrono::seconds kAway{5};
constexpr std::chrono::minutes kSettled{10};

struct SyncOptions : Options {
  using Options::Options;
  int& nodes = number("--nodes", 6, "Nodes of the cluster", 5, 100);
  int& objects = number("--objects", 1'000'000, "Small objects, in rep:3", 1000, 100'000'000);
  int& value_bytes = number("--value-bytes", 100, "Of each object", 1, 4096);
  int& memory_mb = number("--memory-mb", 1024, "Of each node", 64, 1 << 20);
  bool& quick = quick_flag();
};

// What the map says.
struct ClusterState {
  int up = 0;
  bool whole = false;
};

// What the nodes' last heartbeats tell.
struct Traffic {
  uint64_t records = 0;       // that one node holds
  uint64_t bytes_in = 0;      // of all nodes that are up
  uint64_t own_bytes_in = 0;  // of the one node
};

class SyncBench {
 public:
  SyncBench(const SyncOptions& options, Cluster cluster, cli::AdminClient admin)
      : options_(options), cluster_(std::move(cluster)), admin_(std::move(admin)) {}

  Result<Rows> run() {
    auto done = store(0, options_.objects, 'a');
    if (done) done = measure_return();
    if (done) done = measure_death();
    if (!done) return std::unexpected(done.error());
    return std::move(rows_);
  }

 private:
  // Keys first ... end - 1, over some connections at once.
  Result<> store(int first, int end, char fill) const {
    std::vector<Result<>> results(kConnections);
    {
      std::vector<std::jthread> threads;
      for (int64_t c = 0; c < kConnections; ++c) {
        const auto from = [=](int64_t part) {
          return first + static_cast<int>((end - first) * part / kConnections);
        };
        threads.emplace_back([=, this, &result = results[static_cast<size_t>(c)]] {
          result = store_some(from(c), from(c + 1), fill);
        });
      }
    }
    for (Result<>& result : results) {
      if (!result) return result;
    }
    return {};
  }

  Result<> store_some(int first, int end, char fill) const {
    auto socket = TRY(BlockingSocket::connect(cluster_.target.host, cluster_.target.port));
    const std::string value(static_cast<size_t>(options_.value_bytes), fill);
    while (first < end) {
      const int count = std::min(kPipelined, end - first);
      std::string commands;
      for (int i = 0; i < count; ++i) {
        commands += fmt::format("set key:{} 0 0 {}\r\n{}\r\n", first + i, value.size(), value);
      }
      TRY(socket.send({commands}));
      for (int i = 0; i < count; ++i) {
        const auto line = TRY(socket.receive_line());
        if (line != "STORED") return cli::fail("the proxy says {}", line);
      }
      first += count;
    }
    return {};
  }

  Result<> wait_for(const char* what, const std::function<bool(ClusterState)>& condition) const {
    const auto holds = [&] {
      if (was_interrupted()) return true;
      const auto status = admin_.get("/v1/status");
      if (!status) return condition({});
      const Json& partitions = status->at("partitions");
      return condition({.up = status->at("nodes").at("up").get<int>(),
                        .whole = partitions.at("synced") == partitions.at("total")});
    };
    if (cli::wait_until(holds, kSettled)) return check_interrupt();
    return cli::fail("the cluster does not come to be {}", what);
  }

  Result<Traffic> traffic_of(const std::string& name) const {
    const auto nodes = TRY(admin_.get("/v1/nodes"));
    Traffic traffic;
    for (const Json& node : nodes.at("nodes")) {
      const Json& statistics = node.at("statistics");
      const auto bytes = statistics.at("bytes_in").get<uint64_t>();
      if (node.at("state") == "up") traffic.bytes_in += bytes;
      if (node.at("name") != name) continue;
      traffic.records = statistics.at("records").get<uint64_t>();
      traffic.own_bytes_in = bytes;
    }
    return traffic;
  }

  static void let_heartbeats_pass() { std::this_thread::sleep_for(std::chrono::milliseconds(500)); }

  // From the map that has `up` nodes until all is synced. `records` are the copies to be had again.
  Result<> measure_sync(const char* name, int up, uint64_t records, uint64_t bytes_before) {
    auto done = wait_for("of another map", [&](ClusterState c) { return c.up == up; });
    if (!done) return done;
    const auto from = Clock::now();
    done = wait_for("synced", [&](ClusterState c) { return c.up == up && c.whole; });
    if (!done) return done;
    const std::chrono::duration<double> took = Clock::now() - from;
    let_heartbeats_pass();
    const auto after = TRY(traffic_of(""));
    rows_.push_back({{"name", name},
                     {"records", records},
                     {"seconds", took.count()},
                     {"bytes", after.bytes_in - bytes_before}});
    return {};
  }

  Result<> measure_return() {
    const std::string name = "n0";
    let_heartbeats_pass();
    const auto held = TRY(traffic_of(name));
    const cli::ProcessId process = cluster_.processes->status(name).process;
    if (!cli::send_signal(process, SIGSTOP)) return cli::fail("{} does not run", name);
    const auto stopped = Clock::now();
    auto done = wait_for("without it", [&](ClusterState c) { return c.up == options_.nodes - 1; });
    if (done) done = store(0, options_.objects / 100, 'b');
    std::this_thread::sleep_until(stopped + kAway);
    if (done) done = wait_for("synced", [](ClusterState c) { return c.whole; });
    let_heartbeats_pass();
    const auto others = traffic_of(name);
    cli::send_signal(process, SIGCONT);
    if (!done) return done;
    if (!others) return std::unexpected(others.error());
    // What it was sent before it stopped is no part of this, as its last answer told it.
    return measure_sync("a node returns, 1 % missed", options_.nodes, held.records,
                        others->bytes_in + others->own_bytes_in);
  }

  Result<> measure_death() {
    const std::string name = fmt::format("n{}", options_.nodes - 1);
    const auto all = TRY(traffic_of(name));
    TRY(cluster_.processes->kill({name}));
    return measure_sync("a node dies", options_.nodes - 1, all.records,
                        all.bytes_in - all.own_bytes_in);
  }

  const SyncOptions& options_;
  const Cluster cluster_;
  const cli::AdminClient admin_;
  Rows rows_;
};

Result<Report> run(SyncOptions& o) {
  if (o.quick) o.objects = 5000;
  const auto testbed = TRY(Testbed::create(o.port));
  const auto cluster = TRY(testbed->start_cluster(
      "elastripe", {.nodes = o.nodes, .scheme = "rep:3", .memory_mb = o.memory_mb}));
  auto admin = TRY(cluster.admin());
  auto rows = TRY(SyncBench(o, cluster, std::move(admin)).run());

  for (Json& row : rows) {
    row["megabytes"] = number(row, "bytes") / 1e6;
    row["records_per_second"] = number(row, "records") / std::max(number(row, "seconds"), 0.001);
    row["bytes_per_record"] = number(row, "bytes") / std::max(number(row, "records"), 1.0);
  }
  Report report;
  report.json = {{"bench", "sync"},
                 {"nodes", o.nodes},
                 {"objects", o.objects},
                 {"value_bytes", o.value_bytes},
                 {"cases", rows}};
  report.show(
      fmt::format(
          "{} objects of {} bytes, rep:3, on {} nodes. Records are the copies that the node had; "
          "bytes are all\nthat nodes were sent meanwhile, headers and heartbeats included.",
          o.objects, o.value_bytes, o.nodes),
      "= name | records | s = seconds .1 | records/s = records_per_second | MB sent = megabytes .1 "
      "| bytes/record = bytes_per_record",
      rows);
  return report;
}

}  // namespace

void add_sync(Commands& commands) {
  add_experiment(commands, "sync",
                 "Syncing records after a death, and when a node returns that was stopped for 5 s",
                 run);
}

}  // namespace elastripe::bench
