#include "tools/bench/large_bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "tools/bench/interrupt.h"
#include "tools/bench/memcached_client.h"
#include "tools/bench/processor_time.h"
#include "tools/bench/redis_client.h"
#include "tools/bench/report.h"
#include "tools/bench/request_calls.h"
#include "tools/bench/statistics.h"
#include "tools/bench/turns.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr size_t kMiB = size_t{1} << 20;

struct Arguments {
  OutputOptions output;
  bool quick = false;
  std::vector<std::string> sizes{"64KiB", "1MiB", "4MiB", "64MiB"};
  std::vector<std::string> schemes{"rep:2", "rep:3", "ers:4,1,5", "ers:4,2,5"};
  int nodes = 9;
  int seconds = 25;
};

// All servers, for one size: enough keys that a server's caches do not see the same bytes all the
// time, few enough that they fit.
size_t keys_of(size_t object_bytes) { return object_bytes > 16 * kMiB ? 2 : 8; }

// What the servers of one run may hold of this size at a time, with what is overwritten but not yet
// gone: about ten copies of every key, and twice that.
double needed_bytes(size_t object_bytes) {
  return 20.0 * static_cast<double>(keys_of(object_bytes) * object_bytes);
}

class LargeBench {
 public:
  LargeBench(const Arguments& arguments, std::vector<size_t> sizes)
      : arguments_(arguments), sizes_(std::move(sizes)) {}

  Result<Report> run() {
    auto testbed = Testbed::create(arguments_.output.port);
    if (!testbed) return std::unexpected(testbed.error());
    testbed_ = std::move(*testbed);
    if (auto done = start(); !done) return std::unexpected(done.error());
    report_.json["bench"] = "large";
    report_.json["nodes"] = arguments_.nodes;
    report_.json["cases"] = Json::array();
    for (const size_t bytes : sizes_) {
      if (needed_bytes(bytes) > available_memory_bytes()) {
        report_.notes.push_back(fmt::format("Without {}: it takes {:.0f} MiB of free memory.",
                                            size_text(bytes), needed_bytes(bytes) / kMiB));
        continue;
      }
      fmt::print(stderr, "{}\n", size_text(bytes));
      if (auto done = measure(bytes); !done) return std::unexpected(done.error());
    }
    add_charts();
    return std::move(report_);
  }

 private:
  struct System {
    std::string name;
    Target target;
    std::string prefix;  // of keys
    ObjectClient* client = nullptr;
  };

  Result<> start() {
    const auto largest = std::ranges::max(sizes_);
    const int memory_mb = std::max(256, static_cast<int>(needed_bytes(largest) / 2 / kMiB));
    const auto memcached = testbed_->start_memcached(2, memory_mb);
    if (!memcached) return std::unexpected(memcached.error());
    if (auto done = add<MemcachedClient>("memcached", *memcached, ""); !done) return done;

    const auto redis = testbed_->start_redis(memory_mb);
    if (!redis) {
      report_.notes.push_back("Without Redis: " + redis.error() + ".");
    } else if (auto done = add<RedisClient>(kRedis, *redis, ""); !done) {
      return done;
    }

    cli::ClusterSettings settings;
    settings.nodes = arguments_.nodes;
    settings.memory_mb = memory_mb;
    settings.scheme = arguments_.schemes.front();
    for (const std::string& scheme : arguments_.schemes) {
      settings.pools.push_back({scheme + "/", scheme, {}});
    }
    const auto cluster = testbed_->start_cluster("elastripe", settings);
    if (!cluster) return std::unexpected(cluster.error());
    for (const std::string& scheme : arguments_.schemes) {
      const auto done = add<MemcachedClient>(scheme, cluster->target, scheme + "/");
      if (!done) return done;
    }
    return {};
  }

  template <class Client>
  Result<> add(const std::string& name, const Target& target, const std::string& prefix) {
    auto client = Client::connect(target.host, target.port);
    if (!client) return std::unexpected(client.error());
    clients_.push_back(std::move(*client));
    systems_.push_back({name, target, prefix, clients_.back().get()});
    return {};
  }

  Result<> measure(size_t bytes) {
    std::vector<TurnCase> cases;
    for (const System& system : systems_) {
      if (system.name == "memcached") {
        const auto stored = system.client->put("probe", turn_value(bytes, 0));
        if (!stored) {
          report_.notes.push_back(fmt::format("Without memcached at {}: it answers {}.",
                                              size_text(bytes), stored.error()));
          continue;
        }
      }
      TurnCase c{
          .name = system.name, .target = &system.target, .client = system.client, .keys = {}};
      for (size_t i = 0; i < keys_of(bytes); ++i) {
        c.keys.push_back(fmt::format("{}large/{}/{}", system.prefix, bytes, i));
      }
      cases.push_back(std::move(c));
    }
    const TurnSettings settings{
        .object_bytes = bytes,
        .budget = std::chrono::milliseconds(arguments_.quick ? 100 : 1000 * arguments_.seconds),
        .least = arguments_.quick ? 2 : 10};
    if (auto done = measure_turns(cases, settings); !done) return done;
    add_table(bytes, cases);
    if (bytes == kMiB) {
      add_goals(cases);
      if (auto done = add_calls(bytes, cases); !done) return done;
    }
    measured_.emplace_back(bytes, std::move(cases));
    return {};
  }

  // What one request makes the servers ask of the kernel.
  Result<> add_calls(size_t bytes, const std::vector<TurnCase>& cases) {
    Table table{
        .text = fmt::format("System calls per request of {}, counted by strace, which slows "
                            "the servers down.",
                            size_text(bytes)),
        .header = {"request", "server"},
        .rows = {}};
    std::ranges::copy(kCallsHeader, std::back_inserter(table.header));
    Json rows = Json::array();
    std::string got;
    for (const bool put : {true, false}) {
      for (const TurnCase& c : cases) {
        if (was_interrupted()) return cli::fail("interrupted");
        const uint64_t requests = arguments_.quick ? 2 : 50;
        auto calls = count_calls(*c.target, [&]() -> Result<uint64_t> {
          for (uint64_t i = 0; i < requests; ++i) {
            const std::string& key = c.keys[i % c.keys.size()];
            auto done = put ? c.client->put(key, turn_value(bytes, i)) : c.client->get(key, got);
            if (!done) return std::unexpected(done.error());
          }
          return requests;
        });
        if (!calls) {
          report_.notes.push_back("Without system calls: " + calls.error() + ".");
          return {};
        }
        std::vector<std::string> cells{put ? "PUT" : "GET", c.name};
        std::ranges::move(call_cells(*calls), std::back_inserter(cells));
        table.rows.push_back(std::move(cells));
        Json json = json_of(*calls);
        json.update(
            {{"object_bytes", bytes}, {"request", put ? "PUT" : "GET"}, {"server", c.name}});
        rows.push_back(std::move(json));
      }
    }
    report_.tables.push_back(std::move(table));
    report_.json["system_calls"] = std::move(rows);
    return {};
  }

  static const TurnCase* find(const std::vector<TurnCase>& cases, const std::string& name) {
    const auto found = std::ranges::find(cases, name, &TurnCase::name);
    return found == cases.end() ? nullptr : &*found;
  }

  void add_table(size_t bytes, const std::vector<TurnCase>& cases) {
    Table table{
        .text = fmt::format("{}, one request at a time, turn by turn, {} of each: microseconds,\n"
                            "median (quartiles). x is the ratio of medians to rep:2. CPU is\n"
                            "processor time per request of the server, and of nodes or replica.",
                            size_text(bytes), cases.front().get.us.size()),
        .header = {"server", "PUT us", "p99", "x", "CPU us", "nodes' CPU us", "GET us", "p99", "x",
                   "CPU us", "nodes' CPU us"},
        .rows = {}};
    const TurnCase* base = find(cases, "rep:2");
    const auto cells = [&](const Turns& turns, const Turns* of_base, bool has_back,
                           std::vector<std::string>& row) {
      row.push_back(cell_of(turns.us));
      row.push_back(fmt::format("{:.0f}", quantile(turns.us, 0.99)));
      row.push_back(of_base == nullptr ? "" : ratio_text(median(turns.us) / median(of_base->us)));
      row.push_back(fmt::format("{:.0f}", turns.front_cpu_us()));
      row.push_back(has_back ? fmt::format("{:.0f}", turns.back_cpu_us()) : "");
    };
    for (const TurnCase& c : cases) {
      std::vector<std::string> row{c.name};
      const bool has_back = !c.target->back.empty();
      cells(c.put, base == nullptr ? nullptr : &base->put, has_back, row);
      cells(c.get, base == nullptr ? nullptr : &base->get, has_back, row);
      table.rows.push_back(std::move(row));
      report_.json["cases"].push_back({{"object_bytes", bytes},
                                       {"server", c.name},
                                       {"put", json_of(c.put)},
                                       {"get", json_of(c.get)}});
    }
    report_.tables.push_back(std::move(table));
  }

  void add_goals(const std::vector<TurnCase>& cases) {
    const auto add = [&](const char* of, const char* over, Turns TurnCase::* kind, double bound,
                         std::optional<double> stretch) {
      const TurnCase* c = find(cases, of);
      const TurnCase* base = find(cases, over);
      if (c == nullptr || base == nullptr) return;
      report_.goals.push_back(
          {.text = fmt::format("1 MiB {}, p50: {} / {}", kind == &TurnCase::put ? "PUT" : "GET", of,
                               over),
           .at_least = false,
           .bound = bound,
           .stretch = stretch,
           .measured = median((c->*kind).us) / median((base->*kind).us)});
    };
    add("ers:4,1,5", "rep:2", &TurnCase::put, 1.0, 0.75);
    add("ers:4,1,5", "rep:2", &TurnCase::get, 1.2, 0.9);
    add("ers:4,1,5", kRedis, &TurnCase::put, 1.0, std::nullopt);
    add("ers:4,2,5", kRedis, &TurnCase::put, 1.0, std::nullopt);
  }

  void add_charts() {
    for (const auto kind : {&TurnCase::put, &TurnCase::get}) {
      const bool put = kind == &TurnCase::put;
      Chart chart{.title = fmt::format("{} of one object", put ? "PUT" : "GET"),
                  .x_label = "object",
                  .y_label = "microseconds, median, quartiles",
                  .categories = {},
                  .series = {},
                  .logarithmic = true};
      for (const System& system : systems_) {
        ChartSeries series{.name = system.name, .values = {}};
        for (const auto& [bytes, cases] : measured_) {
          const TurnCase* c = find(cases, system.name);
          series.values.push_back(c == nullptr ? std::nullopt
                                               : std::optional(chart_value((c->*kind).us)));
        }
        chart.series.push_back(std::move(series));
      }
      for (const auto& [bytes, cases] : measured_) chart.categories.push_back(size_text(bytes));
      report_.charts.emplace_back(put ? "large-put" : "large-get", std::move(chart));
    }
  }

  static constexpr const char* kRedis = "redis, WAIT 1";

  const Arguments& arguments_;
  const std::vector<size_t> sizes_;
  std::unique_ptr<Testbed> testbed_;
  std::vector<System> systems_;
  std::vector<std::unique_ptr<ObjectClient>> clients_;
  std::vector<std::pair<size_t, std::vector<TurnCase>>> measured_;
  Report report_;
};

Result<> run(const Arguments& arguments, bool as_json) {
  std::vector<size_t> sizes;
  for (const std::string& text : arguments.sizes) {
    const auto size = parse_size(text);
    if (!size) return std::unexpected(size.error());
    sizes.push_back(*size);
  }
  watch_interrupts();
  auto report = LargeBench(arguments, sizes).run();
  if (!report) return std::unexpected(report.error());
  return publish(std::move(*report), arguments.output, as_json);
}

}  // namespace

void add_large_bench_command(CLI::App& bench, cli::Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand(
      "large", "One PUT or GET of a large object, coded and copied, beside memcached and Redis");
  command->add_option("--sizes", arguments->sizes, "Object sizes; repeatable")
      ->default_str("64KiB 1MiB 4MiB 64MiB");
  command->add_option("--schemes", arguments->schemes, "Schemes to compare; repeatable")
      ->default_str("rep:2 rep:3 ers:4,1,5 ers:4,2,5");
  command->add_option("--nodes", arguments->nodes, "Nodes of the cluster")
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
  command
      ->add_option("--seconds", arguments->seconds,
                   "No further turn of a size starts after it (at least 10 are made)")
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
