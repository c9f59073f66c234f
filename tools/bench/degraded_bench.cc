#include "tools/bench/degraded_bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>

#include "tools/bench/interrupt.h"
#include "tools/bench/memcached_client.h"
#include "tools/bench/report.h"
#include "tools/bench/statistics.h"
#include "tools/bench/turns.h"
#include "tools/bench/units.h"
#include "tools/cli/admin.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr std::chrono::seconds kSettled{60};
constexpr int kKilled = 2;
constexpr std::array kSchemes{"ers:4,1,5", "ers:4,2,5"};

struct Arguments {
  OutputOptions output;
  bool quick = false;
  std::string size = "1MiB";
  int nodes = 10;
  int objects = 60;
  int seconds = 25;
};

// Where an object's shards are, as the proxy says.
struct Shards {
  std::set<std::string> data_nodes;
  int missing_data = 0;
  int missing = 0;
};

class DegradedBench {
 public:
  DegradedBench(const Arguments& arguments, size_t bytes) : arguments_(arguments), bytes_(bytes) {}

  Result<Report> run() {
    if (auto done = start(); !done) return std::unexpected(done.error());
    if (auto done = store(); !done) return std::unexpected(done.error());
    if (auto done = kill(); !done) return std::unexpected(done.error());
    if (auto done = find_cases(); !done) return std::unexpected(done.error());
    const TurnSettings settings{
        .object_bytes = bytes_,
        .puts = false,
        .budget = std::chrono::milliseconds(arguments_.quick ? 100 : 1000 * arguments_.seconds),
        .least = arguments_.quick ? 2 : 10};
    if (auto done = measure_turns(cases_, settings); !done) return std::unexpected(done.error());
    if (auto done = check_still_missing(); !done) return std::unexpected(done.error());
    return report();
  }

 private:
  Result<> start() {
    auto testbed = Testbed::create(arguments_.output.port);
    if (!testbed) return std::unexpected(testbed.error());
    testbed_ = std::move(*testbed);
    cli::ClusterSettings settings;
    settings.nodes = arguments_.nodes;
    settings.scheme = kSchemes.front();
    for (const char* scheme : kSchemes) {
      settings.pools.push_back({std::string(scheme) + "/", scheme, 0});
    }
    const auto cluster = testbed_->start_cluster("elastripe", settings);
    if (!cluster) return std::unexpected(cluster.error());
    cluster_ = *cluster;
    auto admin = cli::AdminClient::of_server(cluster_.processes->processes().server());
    if (!admin) return std::unexpected(admin.error());
    admin_.emplace(std::move(*admin));
    auto client = MemcachedClient::connect(cluster_.target.host, cluster_.target.port);
    if (!client) return std::unexpected(client.error());
    client_ = std::move(*client);
    return {};
  }

  std::string key_of(const std::string& scheme, int number) const {
    return fmt::format("{}/degraded/{}", scheme, number);
  }

  Result<> store() {
    for (const char* scheme : kSchemes) {
      for (int i = 0; i < arguments_.objects; ++i) {
        // one value for all, so that any of them may be the next of a case
        const auto done = client_->put(key_of(scheme, i), turn_value(bytes_, 0));
        if (!done) return done;
      }
    }
    return {};
  }

  Result<Shards> shards_of(const std::string& key) const {
    const auto json = admin_->get("/v1/objects/" + cli::url_escape(key));
    if (!json) return std::unexpected(json.error());
    Shards shards;
    for (const Json& segment : json->at("segments")) {
      for (const Json& shard : segment.at("shards")) {
        const bool data = shard.at("role").get<std::string>().starts_with('D');
        const bool missing = shard.at("missing").get<bool>();
        if (data) shards.data_nodes.insert(shard.at("node").get<std::string>());
        shards.missing += missing ? 1 : 0;
        shards.missing_data += missing && data ? 1 : 0;
      }
    }
    return shards;
  }

  // The two nodes that most objects have data shards on together.
  Result<std::vector<std::string>> choose_nodes() const {
    std::map<std::pair<std::string, std::string>, int> pairs;
    for (int i = 0; i < arguments_.objects; ++i) {
      const auto shards = shards_of(key_of(kSchemes.back(), i));
      if (!shards) return std::unexpected(shards.error());
      for (auto a = shards->data_nodes.begin(); a != shards->data_nodes.end(); ++a) {
        for (auto b = std::next(a); b != shards->data_nodes.end(); ++b) ++pairs[{*a, *b}];
      }
    }
    if (pairs.empty()) return cli::fail("no object is striped");
    const auto most = std::ranges::max_element(pairs, {}, [](const auto& p) { return p.second; });
    return std::vector{most->first.first, most->first.second};
  }

  // Returns once the cluster has settled: the nodes are lost, all records synced at their homes.
  Result<> kill() {
    const auto names = choose_nodes();
    if (!names) return std::unexpected(names.error());
    if (auto done = cluster_.processes->kill(*names); !done) return done;
    const auto settled = [&] {
      const auto status = admin_->get("/v1/status");
      return status && status->at("nodes").at("lost") == kKilled &&
             status->at("partitions").at("synced") == status->at("partitions").at("total");
    };
    if (!cli::wait_until(settled, kSettled)) return cli::fail("the cluster does not settle");
    return {};
  }

  Result<> find_cases() {
    for (const char* scheme : kSchemes) {
      const int m = coding_m(scheme);
      std::map<int, std::vector<std::string>> by_missing;
      for (int i = 0; i < arguments_.objects; ++i) {
        const std::string key = key_of(scheme, i);
        const auto shards = shards_of(key);
        if (!shards) return std::unexpected(shards.error());
        if (shards->missing <= m) by_missing[shards->missing_data].push_back(key);
      }
      for (int missing = 0; missing <= m; ++missing) {
        if (by_missing[missing].empty()) {
          return cli::fail("no object of {} misses {} data shards: more --objects", scheme,
                           missing);
        }
        cases_.push_back({.name = fmt::format("{}, {} missing", scheme, missing),
                          .target = &cluster_.target,
                          .client = client_.get(),
                          .keys = by_missing[missing]});
        kinds_.push_back({scheme, missing});
      }
    }
    return {};
  }

  static int coding_m(const std::string& scheme) { return scheme == kSchemes.front() ? 1 : 2; }

  // Else what was measured were not degraded reads to the end.
  Result<> check_still_missing() const {
    for (size_t i = 0; i < cases_.size(); ++i) {
      for (const std::string& key : cases_[i].keys) {
        const auto shards = shards_of(key);
        if (!shards) return std::unexpected(shards.error());
        if (shards->missing_data != kinds_[i].missing) {
          return cli::fail("{} was repaired while it was measured", key);
        }
      }
    }
    return {};
  }

  Report report() const {
    Report report;
    report.json = {{"bench", "degraded"},
                   {"object_bytes", bytes_},
                   {"nodes", arguments_.nodes},
                   {"killed_nodes", kKilled},
                   {"cases", Json::array()}};
    Table table{
        .text = fmt::format(
            "GET of {}, one at a time, turn by turn, {} of each: microseconds. Two of {} nodes "
            "are\n"
            "killed; objects are told apart by how many of their data shards were there. x is the\n"
            "ratio of medians to objects of the same scheme that have all.",
            size_text(bytes_), cases_.front().get.us.size(), arguments_.nodes),
        .header = {"scheme", "data shards missing", "objects", "GET us", "p99", "x", "CPU us",
                   "nodes' CPU us"},
        .rows = {}};
    Chart chart{.title = "GET of " + size_text(bytes_),
                .x_label = "data shards missing",
                .y_label = "microseconds, median, quartiles",
                .categories = {"0", "1", "2"},
                .series = {}};
    const TurnCase* normal = nullptr;
    for (size_t i = 0; i < cases_.size(); ++i) {
      const TurnCase& c = cases_[i];
      const Kind& kind = kinds_[i];
      if (kind.missing == 0) {
        normal = &c;
        chart.series.push_back({.name = kind.scheme, .values = {}});
        chart.series.back().values.resize(chart.categories.size());
      }
      chart.series.back().values[static_cast<size_t>(kind.missing)] = chart_value(c.get.us);
      const double ratio = median(c.get.us) / median(normal->get.us);
      table.rows.push_back({kind.scheme, std::to_string(kind.missing),
                            std::to_string(c.keys.size()), cell_of(c.get.us),
                            fmt::format("{:.0f}", quantile(c.get.us, 0.99)), ratio_text(ratio),
                            fmt::format("{:.0f}", c.get.front_cpu_us()),
                            fmt::format("{:.0f}", c.get.back_cpu_us())});
      report.json["cases"].push_back({{"scheme", kind.scheme},
                                      {"missing_data_shards", kind.missing},
                                      {"objects", c.keys.size()},
                                      {"get", json_of(c.get)},
                                      {"over_normal", ratio}});
      if (kind.missing == 0) continue;
      report.goals.push_back({.text = fmt::format("GET {}, {}: {} missing / none, p50",
                                                  size_text(bytes_), kind.scheme, kind.missing),
                              .at_least = false,
                              .bound = 1.5,
                              .stretch = std::nullopt,
                              .measured = ratio});
    }
    report.tables.push_back(std::move(table));
    report.charts.emplace_back("degraded-get", std::move(chart));
    return report;
  }

  struct Kind {
    std::string scheme;
    int missing = 0;
  };

  const Arguments& arguments_;
  const size_t bytes_;
  std::unique_ptr<Testbed> testbed_;
  Testbed::Cluster cluster_;
  std::optional<cli::AdminClient> admin_;
  std::unique_ptr<MemcachedClient> client_;
  std::vector<TurnCase> cases_;
  std::vector<Kind> kinds_;  // of the cases
};

Result<> run(Arguments arguments, bool as_json) {
  const auto bytes = parse_size(arguments.size);
  if (!bytes) return std::unexpected(bytes.error());
  watch_interrupts();
  auto report = DegradedBench(arguments, *bytes).run();
  if (!report) return std::unexpected(report.error());
  return publish(std::move(*report), arguments.output, as_json);
}

}  // namespace

void add_degraded_bench_command(CLI::App& bench, cli::Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand(
      "degraded", "One GET of an object with one and with two data shards missing");
  command->add_option("--size", arguments->size, "Of the objects")->capture_default_str();
  command->add_option("--nodes", arguments->nodes, "Nodes of the cluster, of which two are killed")
      ->check(CLI::Range(9, 100))
      ->capture_default_str();
  command->add_option("--objects", arguments->objects, "Objects of each scheme")
      ->check(CLI::Range(10, 10'000))
      ->capture_default_str();
  command
      ->add_option("--seconds", arguments->seconds,
                   "No further turn starts after it (at least 10 are made)")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_flag("--quick", arguments->quick, "A few seconds: to see that it works");
  add_output_options(*command, arguments->output);
  command->callback([arguments, &bench, &globals] {
    refuse_options_of(bench);
    report(globals, run(*arguments, globals.json));
  });
}

}  // namespace elastripe::bench
