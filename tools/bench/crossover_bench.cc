#include "tools/bench/crossover_bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "coding/scheme.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/load_rounds.h"
#include "tools/bench/report.h"
#include "tools/bench/socket.h"
#include "tools/bench/statistics.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr uint64_t kRecords = 64;  // of each size
constexpr int kInlineMaxBytes = 1 << 20;

struct Arguments {
  OutputOptions output;
  bool quick = false;
  std::vector<std::string> schemes{"ers:4,1,5", "ers:4,2,5"};
  std::vector<std::string> sizes{"1KiB",  "2KiB",  "4KiB",   "8KiB",  "16KiB",
                                 "32KiB", "64KiB", "128KiB", "256KiB"};
  std::vector<int> connections{1, 32};
  int nodes = 9;
  int rounds = 5;
  int round_ms = 300;
};

// Cases of one scheme, size, request and number of connections: inline, then striped.
struct Group {
  std::string scheme;
  size_t object_bytes = 0;
  Operation operation = Operation::kRead;
  int connections = 1;

  const char* verb() const { return operation == Operation::kRead ? "GET" : "SET"; }
};

// The cost of striped over inline, by time: over 1 where inline is faster.
double striped_over_inline(const std::vector<LoadCase>& cases) {
  return paired_ratio(cases[0].per_second, cases[1].per_second);
}

class CrossoverBench {
 public:
  CrossoverBench(const Arguments& arguments, const std::vector<size_t>& sizes)
      : arguments_(arguments) {
    for (const size_t bytes : sizes) objects_.push_back(std::make_unique<ObjectBytes>(bytes));
  }

  Result<Report> run() {
    auto testbed = Testbed::create(arguments_.output.port);
    if (!testbed) return std::unexpected(testbed.error());
    testbed_ = std::move(*testbed);
    for (const std::string& scheme : arguments_.schemes) {
      if (auto done = start(scheme); !done) return std::unexpected(done.error());
    }
    if (auto done = measure_rounds(cases_, arguments_.rounds); !done) {
      return std::unexpected(done.error());
    }
    return report();
  }

 private:
  // A cluster of its own for each scheme, so that records are kept as often as it says.
  Result<> start(const std::string& scheme) {
    cli::ClusterSettings settings;
    settings.nodes = arguments_.nodes;
    settings.scheme = scheme;
    settings.pools = {{"inline/", scheme, kInlineMaxBytes}, {"striped/", scheme, 0}};
    const auto cluster = testbed_->start_cluster(scheme, settings);
    if (!cluster) return std::unexpected(cluster.error());
    for (const auto& objects : objects_) {
      std::vector<const Target*> paths;
      for (const char* path : {"inline", "striped"}) {
        auto target = std::make_unique<Target>(cluster->target);
        target->key_prefix = fmt::format("{}/{}/", path, objects->object_bytes());
        target->name = path;
        const LoadSettings load{
            .port = target->port, .key_prefix = target->key_prefix, .duration = {}};
        const auto stored = store_records(load, *objects, kRecords);
        if (!stored) return cli::fail("{}: {}", scheme, stored.error());
        paths.push_back(target.get());
        targets_.push_back(std::move(target));
      }
      for (const int connections : arguments_.connections) {
        for (const Operation operation : {Operation::kUpdate, Operation::kRead}) {
          add_group({scheme, objects->object_bytes(), operation, connections}, paths, *objects);
        }
      }
    }
    return {};
  }

  void add_group(const Group& group, const std::vector<const Target*>& paths,
                 const ObjectBytes& objects) {
    std::vector<LoadCase> cases;
    cases.reserve(paths.size());
    for (const Target* path : paths) {
      cases.push_back({.target = path,
                       .connections = group.connections,
                       .sources = uniform_requests(group.operation, kRecords, seed_ += 1000),
                       .objects = &objects,
                       .duration = std::chrono::milliseconds(arguments_.round_ms)});
    }
    groups_.push_back(group);
    cases_.push_back(std::move(cases));
  }

  Report report() const {
    Report report;
    report.json = {{"bench", "crossover"}, {"nodes", arguments_.nodes}, {"cases", Json::array()}};
    for (const std::string& scheme : arguments_.schemes) {
      for (const int connections : arguments_.connections) {
        report.tables.push_back(table_of(scheme, connections));
      }
      report.charts.push_back(chart_of(scheme));
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      Json row = {{"scheme", groups_[g].scheme},
                  {"object_bytes", groups_[g].object_bytes},
                  {"request", groups_[g].verb()},
                  {"connections", groups_[g].connections},
                  {"striped_over_inline", striped_over_inline(cases_[g])}};
      for (const LoadCase& c : cases_[g]) {
        row[c.target->name] = {{"per_second", json_of(c.per_second)},
                               {"p50_us", c.sum.of(groups_[g].operation).quantile_us(0.5)},
                               {"cpu_us", c.front_cpu_us() + c.back_cpu_us()}};
      }
      report.json["cases"].push_back(std::move(row));
    }
    report.tables.push_back(crossovers(report.json));
    return report;
  }

  Table table_of(const std::string& scheme, int connections) const {
    const auto parsed = *coding::parse_scheme(scheme);
    Table table{
        .text = fmt::format(
            "{}, {} connection{}: time of a request, median, and processor time of proxy and\n"
            "nodes. x is striped over inline, by requests a second. An inline object takes {}\n"
            "times its bytes, a striped one {:.2f} times.",
            scheme, connections, connections == 1 ? "" : "s", parsed.m + 1,
            static_cast<double>(parsed.k + parsed.m) / parsed.k),
        .header = {"size", "request", "inline us", "striped us", "x", "inline CPU us",
                   "striped CPU us", "x"},
        .rows = {}};
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      if (group.scheme != scheme || group.connections != connections) continue;
      const LoadCase& whole = cases_[g][0];
      const LoadCase& striped = cases_[g][1];
      const auto us = [&](const LoadCase& c) {
        return fmt::format("{:.0f}", c.sum.of(group.operation).quantile_us(0.5));
      };
      const auto cpu = [](const LoadCase& c) { return c.front_cpu_us() + c.back_cpu_us(); };
      table.rows.push_back({size_text(group.object_bytes), group.verb(), us(whole), us(striped),
                            ratio_text(striped_over_inline(cases_[g])),
                            fmt::format("{:.0f}", cpu(whole)), fmt::format("{:.0f}", cpu(striped)),
                            ratio_text(cpu(striped) / cpu(whole))});
    }
    return table;
  }

  std::pair<std::string, Chart> chart_of(const std::string& scheme) const {
    Chart chart{.title = "Striped over inline, " + scheme,
                .x_label = "object",
                .y_label = "time, ratio",
                .categories = {},
                .series = {},
                .lines = true};
    for (const auto& objects : objects_) {
      chart.categories.push_back(size_text(objects->object_bytes()));
    }
    for (const int connections : arguments_.connections) {
      for (const Operation operation : {Operation::kUpdate, Operation::kRead}) {
        ChartSeries series{
            .name = fmt::format("{}, {} conn.", operation == Operation::kRead ? "GET" : "SET",
                                connections),
            .values = {}};
        for (size_t g = 0; g < groups_.size(); ++g) {
          if (groups_[g].scheme != scheme || groups_[g].connections != connections ||
              groups_[g].operation != operation) {
            continue;
          }
          series.values.emplace_back(ChartValue{striped_over_inline(cases_[g])});
        }
        chart.series.push_back(std::move(series));
      }
    }
    std::string file = "crossover-" + scheme;
    std::ranges::replace_if(file, [](char c) { return c == ':' || c == ','; }, '-');
    return {std::move(file), std::move(chart)};
  }

  // The least size from which on striping takes at most `bound` times as long, in all larger ones.
  std::string crossover(const Group& like, double bound) const {
    std::string from = "none";
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      if (group.scheme != like.scheme || group.connections != like.connections ||
          group.operation != like.operation) {
        continue;
      }
      if (striped_over_inline(cases_[g]) > bound) {
        from = "none";
      } else if (from == "none") {
        from = size_text(group.object_bytes);
      }
    }
    return from;
  }

  Table crossovers(Json& json) const {
    Table table{.text =
                    "The least size from which on striping takes at most so many times as long "
                    "as storing whole.",
                .header = {"scheme", "request", "connections", "1.0", "1.25", "1.5", "2.0"},
                .rows = {}};
    json["crossovers"] = Json::array();
    for (const Group& group : groups_) {
      if (group.object_bytes != objects_.front()->object_bytes()) continue;
      std::vector<std::string> row{group.scheme, group.verb(), std::to_string(group.connections)};
      Json found = {
          {"scheme", group.scheme}, {"request", group.verb()}, {"connections", group.connections}};
      for (const double bound : {1.0, 1.25, 1.5, 2.0}) {
        row.push_back(crossover(group, bound));
        found[fmt::format("from_{:.2f}", bound)] = row.back();
      }
      table.rows.push_back(std::move(row));
      json["crossovers"].push_back(std::move(found));
    }
    return table;
  }

  const Arguments& arguments_;
  std::vector<std::unique_ptr<ObjectBytes>> objects_;  // by size
  std::unique_ptr<Testbed> testbed_;
  std::vector<std::unique_ptr<Target>> targets_;
  std::vector<Group> groups_;
  std::vector<std::vector<LoadCase>> cases_;  // by group
  uint64_t seed_ = 0;
};

Result<> run(Arguments arguments, bool as_json) {
  if (arguments.quick) {
    arguments.sizes = {"1KiB", "64KiB"};
    arguments.rounds = 1;
    arguments.round_ms = 30;
  }
  std::vector<size_t> sizes;
  for (const std::string& text : arguments.sizes) {
    const auto size = parse_size(text);
    if (!size) return std::unexpected(size.error());
    if (*size > static_cast<size_t>(kInlineMaxBytes)) {
      return cli::fail("no object above 1 MiB is stored whole: {}", text);
    }
    sizes.push_back(*size);
  }
  for (const std::string& text : arguments.schemes) {
    if (const auto scheme = coding::parse_scheme(text); !scheme) {
      return cli::fail("{}: {}", text, scheme.error());
    }
  }
  watch_interrupts();
  raise_file_limit();
  auto report = CrossoverBench(arguments, sizes).run();
  if (!report) return std::unexpected(report.error());
  return publish(std::move(*report), arguments.output, as_json);
}

}  // namespace

void add_crossover_bench_command(CLI::App& bench, cli::Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand(
      "crossover", "From which size on striping costs no more than storing whole");
  command->add_option("--schemes", arguments->schemes, "Schemes to compare; repeatable")
      ->default_str("ers:4,1,5 ers:4,2,5");
  command->add_option("--sizes", arguments->sizes, "Object sizes, ascending; repeatable")
      ->default_str("1KiB to 256KiB");
  command->add_option("--connections", arguments->connections, "Connections of clients")
      ->delimiter(',')
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  command->add_option("--nodes", arguments->nodes, "Nodes of each cluster")
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
  add_round_options(*command, arguments->rounds, arguments->round_ms);
  command->add_flag("--quick", arguments->quick, "A few seconds: to see that it works");
  add_output_options(*command, arguments->output);
  command->callback([arguments, &bench, &globals] {
    refuse_options_of(bench);
    report(globals, run(*arguments, globals.json));
  });
}

}  // namespace elastripe::bench
