#include "tools/bench/sync_bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>

#include "tools/bench/blocking_socket.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/report.h"
#include "tools/bench/testbed.h"
#include "tools/cli/admin.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using Clock = std::chrono::steady_clock;

constexpr int kConnections = 8;
constexpr int kPipelined = 200;
constexpr std::chrono::seconds kAway{5};
constexpr std::chrono::minutes kSettled{10};

struct Arguments {
  OutputOptions output;
  bool quick = false;
  int nodes = 6;
  int objects = 1'000'000;
  int value_bytes = 100;
  int memory_mb = 1024;
};

struct Cluster {
  int epoch = 0;
  int up = 0;
  bool whole = false;
};

struct Traffic {
  uint64_t records = 0;  // that the node holds
  uint64_t bytes_in = 0;
};

struct Measured {
  std::string name;
  uint64_t records = 0;  // copies to be had again
  double seconds = 0;
  uint64_t bytes = 0;
};

class SyncBench {
 public:
  explicit SyncBench(const Arguments& arguments) : arguments_(arguments) {}

  Result<Report> run() {
    if (auto done = start(); !done) return std::unexpected(done.error());
    if (auto done = store(0, arguments_.objects, 'a'); !done) return std::unexpected(done.error());
    if (auto done = measure_return(); !done) return std::unexpected(done.error());
    if (auto done = measure_death(); !done) return std::unexpected(done.error());
    return report();
  }

 private:
  Result<> start() {
    auto testbed = Testbed::create(arguments_.output.port);
    if (!testbed) return std::unexpected(testbed.error());
    testbed_ = std::move(*testbed);
    cli::ClusterSettings settings;
    settings.nodes = arguments_.nodes;
    settings.scheme = "rep:3";
    settings.memory_mb = arguments_.memory_mb;
    const auto cluster = testbed_->start_cluster("elastripe", settings);
    if (!cluster) return std::unexpected(cluster.error());
    cluster_ = *cluster;
    auto admin = cli::AdminClient::of_server(cluster_.processes->processes().server());
    if (!admin) return std::unexpected(admin.error());
    admin_.emplace(std::move(*admin));
    return {};
  }

  // Keys first ... end - 1, over some connections at once.
  Result<> store(int first, int end, char fill) const {
    std::vector<Result<>> results(kConnections);
    std::vector<std::thread> threads;
    threads.reserve(kConnections);
    for (int c = 0; c < kConnections; ++c) {
      threads.emplace_back([this, first, end, fill, c, &result = results[static_cast<size_t>(c)]] {
        const auto from = [&](int64_t part) {
          return first + static_cast<int>((end - first) * part / kConnections);
        };
        result = store_some(from(c), from(c + 1), fill);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (Result<>& result : results) {
      if (!result) return result;
    }
    return {};
  }

  Result<> store_some(int first, int end, char fill) const {
    auto socket = BlockingSocket::connect(cluster_.target.host, cluster_.target.port);
    if (!socket) return std::unexpected(socket.error());
    const std::string value(static_cast<size_t>(arguments_.value_bytes), fill);
    while (first < end) {
      const int count = std::min(kPipelined, end - first);
      std::string commands;
      for (int i = 0; i < count; ++i) {
        commands += fmt::format("set key:{} 0 0 {}\r\n{}\r\n", first + i, value.size(), value);
      }
      if (auto sent = socket->send({commands}); !sent) return sent;
      for (int i = 0; i < count; ++i) {
        const auto line = socket->receive_line();
        if (!line) return std::unexpected(line.error());
        if (*line != "STORED") return cli::fail("the proxy says {}", *line);
      }
      first += count;
    }
    return {};
  }

  Cluster cluster() const {
    Cluster cluster;
    const auto status = admin_->get("/v1/status");
    if (!status) return cluster;
    cluster.epoch = status->at("epoch").at("number").get<int>();
    cluster.up = status->at("nodes").at("up").get<int>();
    cluster.whole = status->at("partitions").at("synced") == status->at("partitions").at("total");
    return cluster;
  }

  Result<Traffic> traffic_of(const std::string& name) const {
    const auto nodes = admin_->get("/v1/nodes");
    if (!nodes) return std::unexpected(nodes.error());
    Traffic traffic;
    for (const Json& node : nodes->at("nodes")) {
      const Json& statistics = node.at("statistics");
      if (node.at("name") == name) traffic.records = statistics.at("records").get<uint64_t>();
      if (node.at("state") == "up") traffic.bytes_in += statistics.at("bytes_in").get<uint64_t>();
    }
    return traffic;
  }

  Result<> wait_for(const char* what, const std::function<bool(const Cluster&)>& condition) const {
    if (cli::wait_until([&] { return condition(cluster()); }, kSettled)) return {};
    return cli::fail("the cluster does not come to be {}", what);
  }

  // The figures of nodes are those of their last heartbeats.
  static void let_heartbeats_pass() { std::this_thread::sleep_for(std::chrono::milliseconds(500)); }

  // From the map that has `up` nodes until all is synced.
  Result<> measure_sync(std::string name, int up, uint64_t records, uint64_t bytes_before) {
    auto begun = wait_for("of another map", [&](const Cluster& c) { return c.up == up; });
    if (!begun) return begun;
    const auto from = Clock::now();
    auto done = wait_for("synced", [&](const Cluster& c) { return c.up == up && c.whole; });
    if (!done) return done;
    const std::chrono::duration<double> took = Clock::now() - from;
    let_heartbeats_pass();
    const auto after = traffic_of("");
    if (!after) return std::unexpected(after.error());
    measured_.push_back({std::move(name), records, took.count(), after->bytes_in - bytes_before});
    return {};
  }

  Result<> measure_return() {
    const std::string name = "n0";
    let_heartbeats_pass();
    const auto held = traffic_of(name);
    if (!held) return std::unexpected(held.error());
    const cli::ProcessId process = cluster_.processes->processes().status(name).process;
    if (!cli::send_signal(process, SIGSTOP)) return cli::fail("{} does not run", name);
    const auto stopped = Clock::now();
    Result<> done =
        wait_for("without it", [&](const Cluster& c) { return c.up == arguments_.nodes - 1; });
    if (done) done = store(0, arguments_.objects / 100, 'b');
    std::this_thread::sleep_until(stopped + kAway);
    if (done) done = wait_for("synced", [](const Cluster& c) { return c.whole; });
    let_heartbeats_pass();
    const auto others = traffic_of(name);
    cli::send_signal(process, SIGCONT);
    if (!done) return done;
    if (!others) return std::unexpected(others.error());
    // What it was sent before it stopped is no part of this.
    const auto own = own_bytes(name);
    if (!own) return std::unexpected(own.error());
    return measure_sync("a node returns, 1 % missed", arguments_.nodes, held->records,
                        others->bytes_in + *own);
  }

  // Told in its last answer.
  Result<uint64_t> own_bytes(const std::string& name) const {
    const auto nodes = admin_->get("/v1/nodes");
    if (!nodes) return std::unexpected(nodes.error());
    for (const Json& node : nodes->at("nodes")) {
      if (node.at("name") == name) return node.at("statistics").at("bytes_in").get<uint64_t>();
    }
    return cli::fail("there is no node {}", name);
  }

  Result<> measure_death() {
    const std::string name = fmt::format("n{}", arguments_.nodes - 1);
    const auto all = traffic_of(name);
    const auto own = own_bytes(name);
    if (!all) return std::unexpected(all.error());
    if (!own) return std::unexpected(own.error());
    if (auto done = cluster_.processes->kill({name}); !done) return done;
    return measure_sync("a node dies", arguments_.nodes - 1, all->records, all->bytes_in - *own);
  }

  Report report() const {
    Report report;
    report.json = {{"bench", "sync"},
                   {"nodes", arguments_.nodes},
                   {"objects", arguments_.objects},
                   {"value_bytes", arguments_.value_bytes},
                   {"cases", Json::array()}};
    Table table{.text = fmt::format("{} objects of {} bytes, rep:3, on {} nodes. Records are the "
                                    "copies that the node had; bytes are all\nthat nodes were sent "
                                    "meanwhile, headers and heartbeats included.",
                                    arguments_.objects, arguments_.value_bytes, arguments_.nodes),
                .header = {"", "records", "s", "records/s", "MB sent", "bytes/record"},
                .rows = {}};
    for (const Measured& m : measured_) {
      const auto records = static_cast<double>(std::max<uint64_t>(m.records, 1));
      const auto bytes = static_cast<double>(m.bytes);
      const double a_second = records / std::max(m.seconds, 0.001);
      table.rows.push_back({m.name, std::to_string(m.records), fmt::format("{:.1f}", m.seconds),
                            fmt::format("{:.0f}", a_second), fmt::format("{:.1f}", bytes / 1e6),
                            fmt::format("{:.0f}", bytes / records)});
      report.json["cases"].push_back(
          {{"name", m.name}, {"records", m.records}, {"seconds", m.seconds}, {"bytes", m.bytes}});
    }
    report.tables.push_back(std::move(table));
    return report;
  }

  const Arguments& arguments_;
  std::unique_ptr<Testbed> testbed_;
  Testbed::Cluster cluster_;
  std::optional<cli::AdminClient> admin_;
  std::vector<Measured> measured_;
};

Result<> run(Arguments arguments, bool as_json) {
  if (arguments.quick) arguments.objects = 5000;
  watch_interrupts();
  auto report = SyncBench(arguments).run();
  if (!report) return std::unexpected(report.error());
  return publish(std::move(*report), arguments.output, as_json);
}

}  // namespace

void add_sync_bench_command(CLI::App& bench, cli::Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand(
      "sync", "Syncing records after a death, and when a node returns that was stopped for 5 s");
  command->add_option("--nodes", arguments->nodes, "Nodes of the cluster")
      ->check(CLI::Range(5, 100))
      ->capture_default_str();
  command->add_option("--objects", arguments->objects, "Small objects, in rep:3")
      ->check(CLI::Range(1000, 100'000'000))
      ->capture_default_str();
  command->add_option("--value-bytes", arguments->value_bytes, "Of each object")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--memory-mb", arguments->memory_mb, "Of each node")
      ->check(CLI::Range(64, 1 << 20))
      ->capture_default_str();
  command->add_flag("--quick", arguments->quick, "A few objects: to see that it works");
  add_output_options(*command, arguments->output);
  command->callback([arguments, &bench, &globals] {
    refuse_options_of(bench);
    report(globals, run(*arguments, globals.json));
  });
}

}  // namespace elastripe::bench
