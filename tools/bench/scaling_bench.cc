#include "tools/bench/scaling_bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "tools/bench/interrupt.h"
#include "tools/bench/load_rounds.h"
#include "tools/bench/report.h"
#include "tools/bench/socket.h"
#include "tools/bench/statistics.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr uint64_t kRecords = 500;  // of each size
constexpr int kMemoryMb = 256;

struct Arguments {
  OutputOptions output;
  bool quick = false;
  std::vector<int> connections{1, 10, 100, 1000};
  std::vector<int> nodes{7, 12, 24};
  std::string scheme = "ers:4,2,5";
  std::vector<std::string> sizes{"1KiB", "64KiB"};
  int fixed_connections = 32;
  int rounds = 7;
  int round_ms = 500;
};

// Cases of one number of connections, size and request: of all servers that it is measured of.
struct Group {
  const char* what = "";  // that grows: connections or nodes
  int connections = 0;
  size_t object_bytes = 0;
  Operation operation = Operation::kRead;

  const char* verb() const { return operation == Operation::kRead ? "GET" : "SET"; }
};

class ScalingBench {
 public:
  ScalingBench(const Arguments& arguments, const std::vector<size_t>& sizes)
      : arguments_(arguments) {
    for (const size_t bytes : sizes) objects_.push_back(std::make_unique<ObjectBytes>(bytes));
  }

  Result<Report> run() {
    auto testbed = Testbed::create(arguments_.output.port);
    if (!testbed) return std::unexpected(testbed.error());
    testbed_ = std::move(*testbed);
    if (auto done = start(); !done) return std::unexpected(done.error());
    make_cases();
    if (auto done = measure_rounds(cases_, arguments_.rounds); !done) {
      return std::unexpected(done.error());
    }
    return report();
  }

 private:
  Result<> start() {
    auto memcached = testbed_->start_memcached(2, kMemoryMb);
    if (!memcached) return std::unexpected(memcached.error());
    memcached_ = std::move(*memcached);
    if (auto done = store(memcached_); !done) return done;
    for (const int nodes : arguments_.nodes) {
      cli::ClusterSettings settings;
      settings.nodes = nodes;
      settings.scheme = arguments_.scheme;
      settings.memory_mb = kMemoryMb;
      const auto cluster = testbed_->start_cluster(fmt::format("{} nodes", nodes), settings);
      if (!cluster) return std::unexpected(cluster.error());
      clusters_.push_back(cluster->target);
      if (auto done = store(clusters_.back()); !done) return done;
    }
    return {};
  }

  // Targets of one size: keys differ by size.
  static Target of_size(Target target, size_t bytes) {
    target.key_prefix = fmt::format("{}/", bytes);
    return target;
  }

  Result<> store(const Target& target) const {
    for (const auto& objects : objects_) {
      const LoadSettings settings{.port = target.port,
                                  .key_prefix = of_size(target, objects->object_bytes()).key_prefix,
                                  .duration = {}};
      const auto stored = store_records(settings, *objects, kRecords);
      if (!stored) return cli::fail("{}: {}", target.name, stored.error());
    }
    return {};
  }

  void make_cases() {
    for (const auto& objects : objects_) {
      for (const Operation operation : {Operation::kRead, Operation::kUpdate}) {
        for (const int connections : arguments_.connections) {
          add_group({"connections", connections, objects->object_bytes(), operation},
                    {memcached_, clusters_.front()}, *objects);
        }
        add_group({"nodes", arguments_.fixed_connections, objects->object_bytes(), operation},
                  clusters_, *objects);
      }
    }
  }

  void add_group(const Group& group, const std::vector<Target>& targets,
                 const ObjectBytes& objects) {
    std::vector<LoadCase> cases;
    for (const Target& target : targets) {
      targets_.push_back(std::make_unique<Target>(of_size(target, group.object_bytes)));
      cases.push_back({.target = targets_.back().get(),
                       .connections = group.connections,
                       .sources = uniform_requests(group.operation, kRecords, seed_ += 10'000),
                       .objects = &objects,
                       .duration = std::chrono::milliseconds(arguments_.round_ms)});
    }
    groups_.push_back(group);
    cases_.push_back(std::move(cases));
  }

  Report report() const {
    Report report;
    report.json = {{"bench", "scaling"}, {"scheme", arguments_.scheme}, {"cases", Json::array()}};
    for (const auto& objects : objects_) {
      for (const char* what : {"connections", "nodes"}) {
        report.tables.push_back(table_of(what, objects->object_bytes()));
        report.charts.push_back(chart_of(what, objects->object_bytes()));
      }
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      for (const LoadCase& c : cases_[g]) {
        const Histogram& latency = c.sum.of(group.operation);
        report.json["cases"].push_back({{"what", group.what},
                                        {"object_bytes", group.object_bytes},
                                        {"request", group.verb()},
                                        {"connections", group.connections},
                                        {"server", c.target->name},
                                        {"nodes", c.target->back.size()},
                                        {"per_second", json_of(c.per_second)},
                                        {"p50_us", latency.quantile_us(0.5)},
                                        {"p99_us", latency.quantile_us(0.99)},
                                        {"front_cpu_us", c.front_cpu_us()},
                                        {"back_cpu_us", c.back_cpu_us()}});
      }
    }
    return report;
  }

  Table table_of(const std::string& what, size_t bytes) const {
    const bool of_nodes = what == "nodes";
    Table table{
        .text = of_nodes
                    ? fmt::format("Objects of {}, {}, {} connections, clusters of more and more "
                                  "nodes.",
                                  size_text(bytes), arguments_.scheme, arguments_.fixed_connections)
                    : fmt::format("Objects of {}, {} on {}, beside memcached, over more and more "
                                  "connections.",
                                  size_text(bytes), arguments_.scheme, clusters_.front().name),
        .header = {"request", "connections", "server", "per second", "p50 us", "p99 us", "CPU us",
                   "nodes' CPU us"},
        .rows = {}};
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      if (what != group.what || group.object_bytes != bytes) continue;
      for (const LoadCase& c : cases_[g]) {
        const Histogram& latency = c.sum.of(group.operation);
        table.rows.push_back(
            {group.verb(), std::to_string(group.connections), c.target->name, cell_of(c.per_second),
             fmt::format("{:.0f}", latency.quantile_us(0.5)),
             fmt::format("{:.0f}", latency.quantile_us(0.99)),
             fmt::format("{:.1f}", c.front_cpu_us()),
             c.target->back.empty() ? "" : fmt::format("{:.1f}", c.back_cpu_us())});
      }
    }
    return table;
  }

  // Processor time of all servers together.
  std::pair<std::string, Chart> chart_of(const std::string& what, size_t bytes) const {
    const bool of_nodes = what == "nodes";
    Chart chart{.title = fmt::format("Processor time per request, {}", size_text(bytes)),
                .x_label = what,
                .y_label = "microseconds, of all servers",
                .categories = {},
                .series = {},
                .lines = true};
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      if (what != group.what || group.object_bytes != bytes) continue;
      for (const LoadCase& c : cases_[g]) {
        const auto category =
            std::to_string(of_nodes ? static_cast<int>(c.target->back.size()) : group.connections);
        if (std::ranges::find(chart.categories, category) == chart.categories.end()) {
          chart.categories.push_back(category);
        }
        const auto name = of_nodes
                              ? std::string(group.verb())
                              : fmt::format("{} {}", group.verb(),
                                            c.target->back.empty() ? "memcached" : "elastripe");
        auto series = std::ranges::find(chart.series, name, &ChartSeries::name);
        if (series == chart.series.end()) {
          chart.series.push_back({.name = name, .values = {}});
          series = chart.series.end() - 1;
        }
        series->values.emplace_back(ChartValue{c.front_cpu_us() + c.back_cpu_us()});
      }
    }
    return {fmt::format("scaling-{}-{}kib", what, bytes >> 10), std::move(chart)};
  }

  const Arguments& arguments_;
  std::vector<std::unique_ptr<ObjectBytes>> objects_;  // by size
  std::unique_ptr<Testbed> testbed_;
  Target memcached_;
  std::vector<Target> clusters_;
  std::vector<std::unique_ptr<Target>> targets_;  // of the cases
  std::vector<Group> groups_;
  std::vector<std::vector<LoadCase>> cases_;  // by group
  uint64_t seed_ = 0;
};

Result<> run(Arguments arguments, bool as_json) {
  if (arguments.quick) {
    arguments.connections = {1, 100};
    arguments.nodes = {7, 8};
    arguments.rounds = 1;
    arguments.round_ms = 30;
  }
  std::vector<size_t> sizes;
  for (const std::string& text : arguments.sizes) {
    const auto size = parse_size(text);
    if (!size) return std::unexpected(size.error());
    sizes.push_back(*size);
  }
  watch_interrupts();
  raise_file_limit();
  auto report = ScalingBench(arguments, sizes).run();
  if (!report) return std::unexpected(report.error());
  return publish(std::move(*report), arguments.output, as_json);
}

}  // namespace

void add_scaling_bench_command(CLI::App& bench, cli::Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      bench.add_subcommand("scaling", "What a request costs as connections and nodes grow");
  command->add_option("--connections", arguments->connections, "Connections of clients")
      ->delimiter(',')
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  command
      ->add_option("--nodes", arguments->nodes,
                   "Nodes of the clusters; connections are varied on the first")
      ->delimiter(',')
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
  command->add_option("--scheme", arguments->scheme, "Of the clusters")->capture_default_str();
  command->add_option("--sizes", arguments->sizes, "Object sizes; repeatable")
      ->default_str("1KiB 64KiB");
  add_round_options(*command, arguments->rounds, arguments->round_ms);
  command->add_flag("--quick", arguments->quick, "A few seconds: to see that it works");
  add_output_options(*command, arguments->output);
  command->callback([arguments, &bench, &globals] {
    refuse_options_of(bench);
    report(globals, run(*arguments, globals.json));
  });
}

}  // namespace elastripe::bench
