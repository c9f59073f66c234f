#include "tools/bench/ycsb_bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "client-lib/client.h"
#include "coding/scheme.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/load_rounds.h"
#include "tools/bench/report.h"
#include "tools/bench/socket.h"
#include "tools/bench/statistics.h"
#include "tools/bench/ycsb_workload.h"

namespace elastripe::bench {
namespace {

using cli::Result;

struct Arguments {
  OutputOptions output;
  std::vector<std::string> workloads{"A", "B", "C", "D", "F"};
  std::vector<std::string> servers;
  std::vector<std::string> schemes{"ers:4,1,5", "ers:4,2,5"};
  std::string key_prefix;
  uint64_t records = 100'000;
  uint64_t operations = 100'000;
  uint64_t field_count = 10;
  uint64_t field_bytes = 100;
  int connections = 32;
  int depth = 1;
  int threads = 1;
  int nodes = 9;
  int rounds = 5;
  uint64_t seed = 1;
};

class YcsbBench {
 public:
  YcsbBench(const Arguments& arguments, std::vector<YcsbWorkload> workloads)
      : arguments_(arguments),
        workloads_(std::move(workloads)),
        objects_(arguments.field_count * arguments.field_bytes) {}

  Result<Report> run() {
    const auto started = arguments_.servers.empty() ? start_servers() : name_servers();
    if (!started) return std::unexpected(started.error());
    for (const Target& target : targets_) {
      if (was_interrupted()) return cli::fail("interrupted");
      fmt::print(stderr, "storing {} records at {}\n", arguments_.records, target.name);
      const LoadSettings settings{.host = target.host,
                                  .port = target.port,
                                  .key_prefix = target.key_prefix,
                                  .connections = arguments_.connections,
                                  .depth = arguments_.depth,
                                  .threads = arguments_.threads,
                                  .duration = {}};
      const auto stored = store_records(settings, objects_, arguments_.records);
      if (!stored) return cli::fail("{}: {}", target.name, stored.error());
      records_.push_back(std::make_unique<YcsbRecords>(arguments_.records));
    }
    make_cases();
    if (auto done = measure_rounds(cases_, arguments_.rounds); !done) {
      return std::unexpected(done.error());
    }
    return report();
  }

 private:
  Result<> name_servers() {
    for (const std::string& text : arguments_.servers) {
      const auto address = client::parse_address(text);
      if (!address) return cli::fail("{}: {}", text, address.error().message);
      targets_.push_back({.name = text,
                          .host = address->host,
                          .port = address->port,
                          .key_prefix = arguments_.key_prefix,
                          .front = {},
                          .back = {}});
    }
    return {};
  }

  // All records and what inserts add, the warm-up's too, with headers and room to spare.
  int memory_mb() const {
    const uint64_t records = arguments_.records + 2 * arguments_.operations;
    return static_cast<int>(64 + (records * (objects_.object_bytes() + 200) * 3 / 2 >> 20));
  }

  Result<> start_servers() {
    auto testbed = Testbed::create(arguments_.output.port);
    if (!testbed) return std::unexpected(testbed.error());
    testbed_ = std::move(*testbed);
    auto memcached = testbed_->start_memcached(2, memory_mb());
    if (!memcached) return std::unexpected(memcached.error());
    targets_.push_back(std::move(*memcached));
    auto twemproxy = testbed_->start_twemproxy(arguments_.nodes, memory_mb());
    if (twemproxy) {
      targets_.push_back(std::move(*twemproxy));
    } else {
      report_.notes.push_back("Without twemproxy: " + twemproxy.error() + ".");
    }
    for (const std::string& scheme : arguments_.schemes) {
      cli::ClusterSettings settings;
      settings.nodes = arguments_.nodes;
      settings.scheme = scheme;
      settings.memory_mb = memory_mb();
      auto cluster = testbed_->start_cluster("elastripe, " + scheme, settings);
      if (!cluster) return std::unexpected(cluster.error());
      targets_.push_back(std::move(cluster->target));
    }
    for (Target& target : targets_) target.key_prefix = arguments_.key_prefix;
    return {};
  }

  void make_cases() {
    const auto sources =
        static_cast<uint64_t>(arguments_.rounds) * static_cast<uint64_t>(arguments_.connections);
    const uint64_t each = std::max<uint64_t>(1, arguments_.operations / sources);
    uint64_t seed = arguments_.seed;
    for (const YcsbWorkload& workload : workloads_) {
      std::vector<LoadCase> cases;
      cases.reserve(targets_.size());
      for (size_t i = 0; i < targets_.size(); ++i) {
        cases.push_back({.target = &targets_[i],
                         .connections = arguments_.connections,
                         .depth = arguments_.depth,
                         .threads = arguments_.threads,
                         .sources = ycsb_sources(workload, *records_[i], each, seed),
                         .objects = &objects_,
                         .duration = {}});
      }
      seed += 1'000'000;  // the same requests for every server, others for every workload
      cases_.push_back(std::move(cases));
    }
  }

  Report report() {
    report_.json["bench"] = "ycsb";
    report_.json["records"] = arguments_.records;
    report_.json["record_bytes"] = objects_.object_bytes();
    report_.json["connections"] = arguments_.connections;
    report_.json["depth"] = arguments_.depth;
    report_.json["seed"] = arguments_.seed;
    report_.json["cases"] = Json::array();
    Table rates{
        .text = fmt::format("{} records of {} bytes, {} connections, depth {}: operations a\n"
                            "second, median of {} rounds (quartiles); x is the ratio to the first\n"
                            "server in the same round, then the median.",
                            arguments_.records, objects_.object_bytes(), arguments_.connections,
                            arguments_.depth, arguments_.rounds),
        .header = {"workload", "server", "per second", "x", "CPU us", "nodes' CPU us"},
        .rows = {}};
    Table latencies{
        .text =
            "Latencies in microseconds, by operation. A read-modify-write is also "
            "counted as its read and its update.",
        .header = {"workload", "operation", "server", "operations", "p50", "p95", "p99", "p99.9"},
        .rows = {}};
    Chart chart{.title = "YCSB",
                .x_label = "workload",
                .y_label = "operations a second, median, quartiles",
                .categories = {},
                .series = {}};
    for (const Target& target : targets_)
      chart.series.push_back({.name = target.name, .values = {}});
    for (size_t w = 0; w < workloads_.size(); ++w) {
      const std::string workload(1, workloads_[w].name);
      chart.categories.push_back(workload);
      for (size_t i = 0; i < cases_[w].size(); ++i) {
        chart.series[i].values.emplace_back(chart_value(cases_[w][i].per_second));
        add_rate(workload, w, i, rates);
      }
      for (const Operation operation : kOperations) {
        for (const LoadCase& c : cases_[w]) add_latency(workload, operation, c, latencies);
      }
    }
    report_.tables = {std::move(rates), std::move(latencies)};
    report_.charts.emplace_back("ycsb", std::move(chart));
    return std::move(report_);
  }

  void add_rate(const std::string& workload, size_t w, size_t i, Table& rates) {
    const LoadCase& c = cases_[w][i];
    const double ratio = paired_ratio(c.per_second, cases_[w].front().per_second);
    const auto cpu = [](const std::vector<pid_t>& processes, double us) {
      return processes.empty() ? std::string() : fmt::format("{:.1f}", us);
    };
    rates.rows.push_back({workload, c.target->name, cell_of(c.per_second), ratio_text(ratio),
                          cpu(c.target->front, c.front_cpu_us()),
                          cpu(c.target->back, c.back_cpu_us())});
    Json row = {{"workload", workload},
                {"server", c.target->name},
                {"operations", c.sum.operations},
                {"per_second", json_of(c.per_second)},
                {"over_first", ratio},
                {"latencies", Json::object()}};
    if (!c.target->front.empty()) {
      row["front_cpu_us"] = c.front_cpu_us();
      row["back_cpu_us"] = c.back_cpu_us();
    }
    for (const Operation operation : kOperations) {
      const Histogram& latency = c.sum.of(operation);
      if (latency.count() == 0) continue;
      row["latencies"][name_of(operation)] = {{"operations", latency.count()},
                                              {"p50_us", latency.quantile_us(0.5)},
                                              {"p95_us", latency.quantile_us(0.95)},
                                              {"p99_us", latency.quantile_us(0.99)},
                                              {"p99_9_us", latency.quantile_us(0.999)}};
    }
    report_.json["cases"].push_back(std::move(row));
  }

  static void add_latency(const std::string& workload, Operation operation, const LoadCase& c,
                          Table& latencies) {
    const Histogram& latency = c.sum.of(operation);
    if (latency.count() == 0) return;
    std::vector<std::string> row{workload, name_of(operation), c.target->name,
                                 std::to_string(latency.count())};
    for (const double fraction : {0.5, 0.95, 0.99, 0.999}) {
      row.push_back(fmt::format("{:.0f}", latency.quantile_us(fraction)));
    }
    latencies.rows.push_back(std::move(row));
  }

  const Arguments& arguments_;
  const std::vector<YcsbWorkload> workloads_;
  const ObjectBytes objects_;
  std::unique_ptr<Testbed> testbed_;  // nothing: the servers are others'
  std::vector<Target> targets_;
  std::vector<std::unique_ptr<YcsbRecords>> records_;  // by target
  std::vector<std::vector<LoadCase>> cases_;           // by workload
  Report report_;
};

Result<> run(const Arguments& arguments, bool as_json) {
  std::vector<YcsbWorkload> workloads;
  for (const std::string& name : arguments.workloads) {
    const auto workload = ycsb_workload(name);
    if (!workload) return std::unexpected(workload.error());
    workloads.push_back(*workload);
  }
  for (const std::string& text : arguments.schemes) {
    if (const auto scheme = coding::parse_scheme(text); !scheme) {
      return cli::fail("{}: {}", text, scheme.error());
    }
  }
  if (arguments.field_count * arguments.field_bytes < ObjectBytes::kLeastBytes) {
    return cli::fail("records have at least {} bytes", ObjectBytes::kLeastBytes);
  }
  watch_interrupts();
  raise_file_limit();
  auto report = YcsbBench(arguments, workloads).run();
  if (!report) return std::unexpected(report.error());
  return publish(std::move(*report), arguments.output, as_json);
}

}  // namespace

void add_ycsb_bench_command(CLI::App& bench, cli::Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand(
      "ycsb", "YCSB's core workloads, on servers of its own or on any memcached servers");
  command->add_option("--workload", arguments->workloads, "A, B, C, D or F; repeatable")
      ->delimiter(',')
      ->default_str("A B C D F");
  command->add_option("--server", arguments->servers,
                      "HOST:PORT of a memcached server; repeatable, the first is what others are "
                      "compared with. Stores records there, which stay. None: starts its own");
  command->add_option("--schemes", arguments->schemes, "Of clusters of its own; repeatable")
      ->default_str("ers:4,1,5 ers:4,2,5");
  command->add_option("--key-prefix", arguments->key_prefix, "Before every key");
  command->add_option("--records", arguments->records, "Stored before")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  command
      ->add_option("--operations", arguments->operations,
                   "Of each workload at each server, in all rounds together")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  command->add_option("--field-count", arguments->field_count, "Fields of a record: one value")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command->add_option("--field-bytes", arguments->field_bytes, "Bytes of a field")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--connections", arguments->connections, "Connections of clients")
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  command->add_option("--depth", arguments->depth, "Requests in flight on each connection")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--threads", arguments->threads, "Threads of the load")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--nodes", arguments->nodes, "Nodes of each cluster, and behind twemproxy")
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
  command->add_option("--rounds", arguments->rounds, "Rounds, in which all take turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "Of the choice of operations and records")
      ->capture_default_str();
  add_output_options(*command, arguments->output);
  command->callback([arguments, &bench, &globals] {
    refuse_options_of(bench);
    report(globals, run(*arguments, globals.json));
  });
}

}  // namespace elastripe::bench
