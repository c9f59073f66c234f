#include "tools/bench/small_bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "tools/bench/interrupt.h"
#include "tools/bench/load_rounds.h"
#include "tools/bench/report.h"
#include "tools/bench/request_calls.h"
#include "tools/bench/socket.h"
#include "tools/bench/statistics.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr int kMemoryMb = 256;

struct Arguments {
  OutputOptions output;
  bool quick = false;
  int connections = 32;
  std::vector<int> depths{1, 16};
  std::vector<int> threads{1, 2};
  std::vector<int> copies{2, 3};
  std::string size = "1KiB";
  int nodes = 3;  // as many as three copies need
  int records = 10'000;
  int rounds = 9;
  int round_ms = 700;
  bool no_system_calls = false;
  std::string baseline;  // programs of another build
};

// What one group of cases has in common.
struct Group {
  int threads = 1;
  int depth = 1;
  Operation operation = Operation::kRead;

  const char* verb() const { return operation == Operation::kRead ? "GET" : "SET"; }
  std::string text() const {
    return fmt::format("{}, depth {}, {} thread{}", verb(), depth, threads,
                       threads == 1 ? "" : "s");
  }
};

// The calls of one target under one load.
struct CallRow {
  std::string target;
  Group group;
  RequestCalls calls;
};

class SmallBench {
 public:
  SmallBench(const Arguments& arguments, size_t object_bytes)
      : arguments_(arguments), objects_(object_bytes) {}

  Result<Report> run() {
    auto testbed = Testbed::create(arguments_.output.port);
    if (!testbed) return std::unexpected(testbed.error());
    testbed_ = std::move(*testbed);
    if (auto done = start(); !done) return std::unexpected(done.error());
    make_cases();
    if (auto done = measure_rounds(cases_, arguments_.rounds); !done) {
      return std::unexpected(done.error());
    }
    if (!arguments_.no_system_calls) {
      if (auto done = count_system_calls(); !done) return std::unexpected(done.error());
    }
    return report();
  }

 private:
  // The targets of one number of threads.
  struct Bed {
    int threads = 1;
    std::vector<Target> targets;  // memcached first, clusters last
    std::vector<int> copies;      // of each target; 1 of peers
  };

  Result<> start() {
    const auto twemproxy = testbed_->start_twemproxy(arguments_.nodes, kMemoryMb);
    if (!twemproxy) report_.notes.push_back("Without twemproxy: " + twemproxy.error() + ".");
    for (const int threads : arguments_.threads) {
      Bed bed{.threads = threads, .targets = {}, .copies = {}};
      const auto memcached = testbed_->start_memcached(threads, kMemoryMb);
      if (!memcached) return std::unexpected(memcached.error());
      bed.targets.push_back(*memcached);
      if (twemproxy) bed.targets.push_back(*twemproxy);
      bed.copies.resize(bed.targets.size(), 1);
      for (const int copies : arguments_.copies) {
        cli::ClusterSettings settings;
        settings.nodes = arguments_.nodes;
        settings.memory_mb = kMemoryMb;
        settings.scheme = fmt::format("rep:{}", copies);
        settings.set = {fmt::format("threads={}", threads)};
        if (!arguments_.baseline.empty()) {
          settings.programs = arguments_.baseline;
          if (auto done = add_cluster(bed, baseline_name(copies), settings, copies); !done) {
            return done;
          }
          settings.programs.clear();
        }
        const std::string name = fmt::format("elastripe, {} copies", copies);
        if (auto done = add_cluster(bed, name, settings, copies); !done) return done;
      }
      for (const Target& target : bed.targets) {
        const LoadSettings settings{.port = target.port, .key_prefix = {}, .duration = {}};
        const auto stored =
            store_records(settings, objects_, static_cast<uint64_t>(arguments_.records));
        if (!stored) return cli::fail("{}: {}", target.name, stored.error());
      }
      beds_.push_back(std::move(bed));
    }
    return {};
  }

  static std::string baseline_name(int copies) {
    return fmt::format("baseline, {} copies", copies);
  }

  Result<> add_cluster(Bed& bed, std::string name, const cli::ClusterSettings& settings,
                       int copies) {
    auto cluster = testbed_->start_cluster(std::move(name), settings);
    if (!cluster) return std::unexpected(cluster.error());
    bed.targets.push_back(std::move(cluster->target));
    bed.copies.push_back(copies);
    return {};
  }

  void make_cases() {
    uint64_t seed = 1;
    for (const Bed& bed : beds_) {
      for (const int depth : arguments_.depths) {
        for (const Operation operation : {Operation::kRead, Operation::kUpdate}) {
          groups_.push_back({bed.threads, depth, operation});
          std::vector<LoadCase> cases;
          cases.reserve(bed.targets.size());
          for (const Target& target : bed.targets) {
            cases.push_back(
                {.target = &target,
                 .connections = arguments_.connections,
                 .depth = depth,
                 .threads = bed.threads,
                 .sources = uniform_requests(operation, static_cast<uint64_t>(arguments_.records),
                                             seed += 1000),
                 .objects = &objects_,
                 .duration = std::chrono::milliseconds(arguments_.round_ms)});
          }
          cases_.push_back(std::move(cases));
        }
      }
    }
  }

  // Of one thread: more threads make the same calls.
  Result<> count_system_calls() {
    fmt::print(stderr, "system calls\n");
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].threads != groups_.front().threads) continue;
      for (const LoadCase& c : cases_[g]) {
        if (was_interrupted()) return cli::fail("interrupted");
        LoadCase counted = c;
        counted.sum = {};
        auto calls = count_calls(*c.target, [&]() -> Result<uint64_t> {
          if (auto done = measure_round(counted); !done) return std::unexpected(done.error());
          return counted.sum.operations;
        });
        if (!calls) {
          report_.notes.push_back("Without system calls: " + calls.error() + ".");
          return {};
        }
        calls_.push_back({c.target->name, groups_[g], std::move(*calls)});
      }
    }
    return {};
  }

  Report report() {
    report_.json["bench"] = "small";
    report_.json["object_bytes"] = objects_.object_bytes();
    report_.json["connections"] = arguments_.connections;
    report_.json["nodes"] = arguments_.nodes;
    report_rates();
    if (!calls_.empty()) report_calls();
    add_goals();
    return std::move(report_);
  }

  void report_rates() {
    Table table{
        .text = fmt::format(
            "{} objects over {} connections, {} nodes: requests a second, median of {} rounds\n"
            "(quartiles); x is the ratio to memcached in the same round, then the median. CPU is\n"
            "processor time per request of what clients talk to, and of the nodes behind it.",
            size_text(objects_.object_bytes()), arguments_.connections, arguments_.nodes,
            arguments_.rounds),
        .header = {"request", "threads", "depth", "server", "per second", "x", "p50 us", "p99 us",
                   "CPU us", "nodes' CPU us"},
        .rows = {}};
    Json rows = Json::array();
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      for (const LoadCase& c : cases_[g]) {
        const double ratio = paired_ratio(c.per_second, cases_[g].front().per_second);
        const Histogram& latency = c.sum.of(group.operation);
        table.rows.push_back(
            {group.verb(), std::to_string(group.threads), std::to_string(group.depth),
             c.target->name, cell_of(c.per_second), ratio_text(ratio),
             fmt::format("{:.0f}", latency.quantile_us(0.5)),
             fmt::format("{:.0f}", latency.quantile_us(0.99)),
             fmt::format("{:.1f}", c.front_cpu_us()),
             c.target->back.empty() ? "" : fmt::format("{:.1f}", c.back_cpu_us())});
        rows.push_back({{"request", group.verb()},
                        {"threads", group.threads},
                        {"depth", group.depth},
                        {"server", c.target->name},
                        {"per_second", json_of(c.per_second)},
                        {"over_memcached", ratio},
                        {"p50_us", latency.quantile_us(0.5)},
                        {"p99_us", latency.quantile_us(0.99)},
                        {"front_cpu_us", c.front_cpu_us()},
                        {"back_cpu_us", c.back_cpu_us()}});
      }
    }
    report_.tables.push_back(std::move(table));
    report_.json["rates"] = std::move(rows);
    add_charts();
  }

  void add_charts() {
    for (const Operation operation : {Operation::kRead, Operation::kUpdate}) {
      Chart chart{
          .title = fmt::format("{} of {}, {} connections", Group{.operation = operation}.verb(),
                               size_text(objects_.object_bytes()), arguments_.connections),
          .x_label = "depth and threads",
          .y_label = "requests a second, median, quartiles",
          .categories = {},
          .series = {}};
      for (const Target& target : beds_.front().targets) {
        chart.series.push_back({.name = target.name, .values = {}});
      }
      for (size_t g = 0; g < groups_.size(); ++g) {
        if (groups_[g].operation != operation) continue;
        chart.categories.push_back(
            fmt::format("depth {}, {}t", groups_[g].depth, groups_[g].threads));
        for (size_t i = 0; i < cases_[g].size(); ++i) {
          chart.series[i].values.emplace_back(chart_value(cases_[g][i].per_second));
        }
      }
      report_.charts.emplace_back(operation == Operation::kRead ? "small-get" : "small-set",
                                  std::move(chart));
    }
  }

  void report_calls() {
    Table table{
        .text = "System calls per request, counted by strace, which slows the servers down.",
        .header = {"request", "depth", "server"},
        .rows = {}};
    std::ranges::copy(kCallsHeader, std::back_inserter(table.header));
    Json rows = Json::array();
    for (const CallRow& row : calls_) {
      std::vector<std::string> cells{row.group.verb(), std::to_string(row.group.depth), row.target};
      std::ranges::move(call_cells(row.calls), std::back_inserter(cells));
      table.rows.push_back(std::move(cells));
      Json json = json_of(row.calls);
      json.update(
          {{"request", row.group.verb()}, {"depth", row.group.depth}, {"server", row.target}});
      rows.push_back(std::move(json));
    }
    report_.tables.push_back(std::move(table));
    report_.json["system_calls"] = std::move(rows);
  }

  void add_goals() {
    const std::vector<int>& copies = beds_.front().copies;  // the same of all
    const auto twemproxy = std::ranges::find(beds_.front().targets, "twemproxy", &Target::name);
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto& cases = cases_[g];
      for (size_t i = 0; i < cases.size(); ++i) {
        if (copies[i] == 1 || cases[i].target->name == baseline_name(copies[i])) continue;
        const auto add = [&](const LoadCase& base, double bound, std::optional<double> stretch) {
          report_.goals.push_back({.text = fmt::format("{}: {} / {}", groups_[g].text(),
                                                       cases[i].target->name, base.target->name),
                                   .at_least = true,
                                   .bound = bound,
                                   .stretch = stretch,
                                   .measured = paired_ratio(cases[i].per_second, base.per_second)});
        };
        // Each stands just behind its baseline.
        if (!arguments_.baseline.empty()) add(cases[i - 1], 0.95, std::nullopt);
        if (groups_[g].operation == Operation::kUpdate) {
          if (copies[i] == 2) add(cases.front(), 0.35, 0.5);
          if (copies[i] == 3) add(cases.front(), 0.25, std::nullopt);
          continue;
        }
        add(cases.front(), 0.6, 0.8);
        if (twemproxy == beds_.front().targets.end()) continue;
        add(cases[static_cast<size_t>(twemproxy - beds_.front().targets.begin())], 1, std::nullopt);
      }
    }
  }

  const Arguments& arguments_;
  const ObjectBytes objects_;
  std::unique_ptr<Testbed> testbed_;
  std::vector<Bed> beds_;
  std::vector<Group> groups_;
  std::vector<std::vector<LoadCase>> cases_;  // by group
  std::vector<CallRow> calls_;
  Report report_;
};

Result<> run(Arguments arguments, bool as_json) {
  if (arguments.quick) {
    arguments.rounds = 2;
    arguments.round_ms = 50;
    arguments.records = 200;
  }
  const auto bytes = parse_size(arguments.size);
  if (!bytes) return std::unexpected(bytes.error());
  watch_interrupts();
  raise_file_limit();
  auto report = SmallBench(arguments, *bytes).run();
  if (!report) return std::unexpected(report.error());
  return publish(std::move(*report), arguments.output, as_json);
}

}  // namespace

void add_small_bench_command(CLI::App& bench, cli::Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand(
      "small", "Small GETs and SETs over many connections, beside memcached and twemproxy");
  command->add_option("--connections", arguments->connections, "Connections of clients")
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  command->add_option("--depth", arguments->depths, "Requests in flight on each connection")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--threads", arguments->threads,
                   "Threads of the proxy, of memcached, and of the load")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--copies", arguments->copies, "Copies that the cluster keeps")
      ->delimiter(',')
      ->check(CLI::Range(2, 5))
      ->capture_default_str();
  command->add_option("--size", arguments->size, "Of the objects")->capture_default_str();
  command->add_option("--nodes", arguments->nodes, "Nodes of each cluster, and behind twemproxy")
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
  command->add_option("--records", arguments->records, "Objects, all equally likely")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  add_round_options(*command, arguments->rounds, arguments->round_ms);
  command->add_flag("--no-system-calls", arguments->no_system_calls, "Without strace");
  command
      ->add_option(
          "--baseline", arguments->baseline,
          "Directory of another build's elastripe-node and elastripe-proxy, to be measured "
          "beside ours")
      ->check(CLI::ExistingDirectory);
  command->add_flag("--quick", arguments->quick, "A few seconds: to see that it works");
  add_output_options(*command, arguments->output);
  command->callback([arguments, &bench, &globals] {
    refuse_options_of(bench);
    report(globals, run(*arguments, globals.json));
  });
}

}  // namespace elastripe::bench
