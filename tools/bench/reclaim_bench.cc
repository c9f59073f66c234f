#include "tools/bench/reclaim_bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <random>

#include "coding/scheme.h"
#include "tools/bench/blocking_socket.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/load.h"
#include "tools/bench/report.h"
#include "tools/bench/testbed.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr int kInlineMaxBytes = 4096;
constexpr const char* kPrefix = "o/";

struct Arguments {
  OutputOptions output;
  bool quick = false;
  bool together = false;
  std::vector<std::string> sizes{"1KiB", "64KiB"};
  std::string scheme = "rs:2,1";
  int nodes = 4;
  int memory_mb = 512;
  int connections = 16;
  int ttl_s = 5;
  int seconds = 180;
  int slice_s = 15;
};

// Keys that nobody has written yet, for all connections.
class NewRecords final : public RequestSource {
 public:
  explicit NewRecords(std::shared_ptr<std::atomic<uint64_t>> next) : next_(std::move(next)) {}
  std::optional<Request> next() override { return Request{Operation::kInsert, (*next_)++}; }

 private:
  std::shared_ptr<std::atomic<uint64_t>> next_;
};

// New keys as well, but each second request overwrites or deletes one of the last ones.
class Churn final : public RequestSource {
 public:
  explicit Churn(std::shared_ptr<std::atomic<uint64_t>> next) : next_(std::move(next)) {}
  std::optional<Request> next() override {
    if (++requests_ % 2 == 0) return Request{Operation::kInsert, (*next_)++};
    const uint64_t end = *next_;
    const uint64_t record = end - std::min(end, 1 + random_() % kRecent);
    return Request{requests_ % 4 == 1 ? Operation::kUpdate : Operation::kDelete, record};
  }

 private:
  static constexpr uint64_t kRecent = 10'000;

  std::shared_ptr<std::atomic<uint64_t>> next_;
  std::mt19937_64 random_{std::random_device()()};
  uint64_t requests_ = 0;
};

// Of all nodes together.
struct Stored {
  uint64_t used_bytes = 0;
  uint64_t shards = 0;
  uint64_t records = 0;
};

// Objects of one size.
struct Writer {
  size_t object_bytes;
  ObjectBytes objects;
  std::shared_ptr<std::atomic<uint64_t>> next = std::make_shared<std::atomic<uint64_t>>(0);
};

bool is_striped(size_t object_bytes) { return object_bytes > kInlineMaxBytes; }

Result<Stored> stored_on(uint16_t port) {
  auto socket = BlockingSocket::connect("127.0.0.1", port);
  if (!socket) return std::unexpected(socket.error());
  if (auto sent = socket->send({"stats elastripe\r\n"}); !sent) {
    return std::unexpected(sent.error());
  }
  Stored stored;
  for (;;) {
    const auto line = socket->receive_line();
    if (!line) return std::unexpected(line.error());
    if (*line == "END") return stored;
    const auto value_of = [&](std::string_view name) -> uint64_t {
      const std::string start = fmt::format("STAT {} ", name);
      return line->starts_with(start) ? std::stoull(line->substr(start.size())) : 0;
    };
    stored.used_bytes += value_of("used_bytes");
    stored.shards += value_of("shards");
    stored.records += value_of("records");
  }
}

class ReclaimBench {
 public:
  explicit ReclaimBench(const Arguments& arguments) : arguments_(arguments) {}

  Result<Report> run(const std::vector<size_t>& sizes) {
    auto testbed = Testbed::create(arguments_.output.port);
    if (!testbed) return std::unexpected(testbed.error());
    testbed_ = std::move(*testbed);
    report_.json["bench"] = "reclaim";
    if (arguments_.together) {
      if (auto done = measure_together(sizes); !done) return std::unexpected(done.error());
      return std::move(report_);
    }
    for (const size_t bytes : sizes) {
      if (auto done = measure(bytes); !done) return std::unexpected(done.error());
    }
    return std::move(report_);
  }

 private:
  Result<Stored> stored(const TemporaryCluster& cluster) const {
    Stored sum;
    for (int node = 0; node < arguments_.nodes; ++node) {
      const auto here = stored_on(cluster.node_port(node));
      if (!here) return std::unexpected(here.error());
      sum.used_bytes += here->used_bytes;
      sum.shards += here->shards;
      sum.records += here->records;
    }
    return sum;
  }

  Result<Testbed::Cluster> start_cluster(std::string name) {
    cli::ClusterSettings settings;
    settings.nodes = arguments_.nodes;
    settings.memory_mb = arguments_.memory_mb;
    settings.scheme = arguments_.scheme;
    settings.pools = {{kPrefix, arguments_.scheme, kInlineMaxBytes}};
    return testbed_->start_cluster(std::move(name), settings);
  }

  LoadSettings load_of(const Testbed::Cluster& cluster) const {
    LoadSettings load{.port = cluster.target.port, .key_prefix = kPrefix, .duration = {}};
    load.connections = arguments_.connections;
    load.exptime_s = arguments_.ttl_s;
    load.duration = std::chrono::seconds(arguments_.slice_s);
    return load;
  }

  // New keys for as long as it takes, each with a time to live.
  Result<> measure(size_t object_bytes) {
    const auto cluster = start_cluster(size_text(object_bytes));
    if (!cluster) return std::unexpected(cluster.error());
    const ObjectBytes objects(object_bytes);
    const auto next = std::make_shared<std::atomic<uint64_t>>(0);
    const LoadSettings load = load_of(*cluster);

    Table table{
        .text = fmt::format("{} objects of {}, each new and gone after {} s, {}, {} nodes of "
                            "{} MiB.",
                            is_striped(object_bytes) ? "Striped" : "Inline",
                            size_text(object_bytes), arguments_.ttl_s, arguments_.scheme,
                            arguments_.nodes, arguments_.memory_mb),
        .header = {"seconds", "written a second", "collected a second", "items", "MiB used"},
        .rows = {}};
    Json rows = Json::array();
    double seconds = 0;
    uint64_t items_before = 0;
    uint64_t written = 0;
    const double items_per_object = items_of_one(object_bytes);
    while (seconds < arguments_.seconds) {
      if (was_interrupted()) return cli::fail("interrupted");
      fmt::print(stderr, "{}: {:.0f} of {} s\n", size_text(object_bytes), seconds,
                 arguments_.seconds);
      const auto result =
          run_load(load, objects, [&] { return std::make_unique<NewRecords>(next); });
      if (!result) return std::unexpected(result.error());
      const auto now = stored(*cluster->processes);
      if (!now) return std::unexpected(now.error());
      const uint64_t items = is_striped(object_bytes) ? now->shards : now->records;
      seconds += result->seconds;
      written += result->operations;
      const double grown =
          (static_cast<double>(items) - static_cast<double>(items_before)) / items_per_object;
      const double collected = (static_cast<double>(result->operations) - grown) / result->seconds;
      items_before = items;
      table.rows.push_back({fmt::format("{:.0f}", seconds),
                            fmt::format("{:.0f}", result->per_second()),
                            fmt::format("{:.0f}", std::max(collected, 0.0)), std::to_string(items),
                            fmt::format("{}", now->used_bytes >> 20)});
      rows.push_back({{"seconds", seconds},
                      {"written_per_second", result->per_second()},
                      {"collected_per_second", collected},
                      {"items", items},
                      {"used_bytes", now->used_bytes}});
    }
    report_.tables.push_back(std::move(table));
    report_.json["cases"].push_back(
        {{"object_bytes", object_bytes}, {"written", written}, {"slices", std::move(rows)}});
    return {};
  }

  // All sizes at once, on one cluster; objects are overwritten and deleted, too.
  Result<> measure_together(const std::vector<size_t>& sizes) {
    const auto cluster = start_cluster("together");
    if (!cluster) return std::unexpected(cluster.error());
    std::vector<Writer> writers;
    Table table{.text = fmt::format(
                    "Objects that are gone after {} s, of which each second request "
                    "overwrites or deletes one, {}, {} nodes of {} MiB.",
                    arguments_.ttl_s, arguments_.scheme, arguments_.nodes, arguments_.memory_mb),
                .header = {"seconds"},
                .rows = {}};
    for (const size_t bytes : sizes) {
      writers.push_back({.object_bytes = bytes, .objects = ObjectBytes(bytes)});
      table.header.push_back(size_text(bytes) + ": requests a second");
    }
    for (const char* name : {"shards", "records", "MiB used"}) table.header.emplace_back(name);
    Json rows = Json::array();
    for (double seconds = 0; seconds < arguments_.seconds; seconds += arguments_.slice_s) {
      if (was_interrupted()) return cli::fail("interrupted");
      fmt::print(stderr, "{:.0f} of {} s\n", seconds, arguments_.seconds);
      std::vector<std::future<Result<LoadResult>>> loads;
      for (size_t i = 0; i < writers.size(); ++i) {
        LoadSettings load = load_of(*cluster);
        load.key_prefix += std::to_string(i) + "/";
        loads.push_back(std::async(std::launch::async, [load, &writer = writers[i]] {
          return run_load(load, writer.objects,
                          [&] { return std::make_unique<Churn>(writer.next); });
        }));
      }
      std::vector<std::string> row{fmt::format("{:.0f}", seconds + arguments_.slice_s)};
      Json json{{"seconds", seconds + arguments_.slice_s}};
      for (size_t i = 0; i < loads.size(); ++i) {
        const auto result = loads[i].get();
        if (!result) return std::unexpected(result.error());
        row.push_back(fmt::format("{:.0f}", result->per_second()));
        json["per_second"][size_text(writers[i].object_bytes)] = result->per_second();
      }
      const auto now = stored(*cluster->processes);
      if (!now) return std::unexpected(now.error());
      for (const uint64_t number : {now->shards, now->records, now->used_bytes >> 20}) {
        row.push_back(std::to_string(number));
      }
      table.rows.push_back(std::move(row));
      json.update(
          {{"shards", now->shards}, {"records", now->records}, {"used_bytes", now->used_bytes}});
      rows.push_back(std::move(json));
    }
    report_.tables.push_back(std::move(table));
    report_.json["together"] = std::move(rows);
    return {};
  }

  // On all nodes.
  double items_of_one(size_t object_bytes) const {
    const auto scheme = coding::parse_scheme(arguments_.scheme).value();
    return is_striped(object_bytes) ? scheme.shards() : scheme.m + 1;
  }

  const Arguments& arguments_;
  std::unique_ptr<Testbed> testbed_;
  Report report_;
};

Result<> run(Arguments arguments, bool as_json) {
  if (arguments.quick) {
    arguments.seconds = 2;
    arguments.slice_s = 1;
  }
  std::vector<size_t> sizes;
  for (const std::string& text : arguments.sizes) {
    const auto bytes = parse_size(text);
    if (!bytes) return std::unexpected(bytes.error());
    sizes.push_back(*bytes);
  }
  if (const auto scheme = coding::parse_scheme(arguments.scheme); !scheme) {
    return cli::fail("{}", scheme.error());
  }
  watch_interrupts();
  auto report = ReclaimBench(arguments).run(sizes);
  if (!report) return std::unexpected(report.error());
  return publish(std::move(*report), arguments.output, as_json);
}

}  // namespace

void add_reclaim_bench_command(CLI::App& bench, cli::Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand(
      "reclaim", "Writes new objects that expire at full speed: is memory given back as fast?");
  command
      ->add_option("--sizes", arguments->sizes, "Of the objects, one after the other; repeatable")
      ->default_str("1KiB 64KiB");
  command->add_flag("--together", arguments->together,
                    "All sizes at once, on one cluster, overwritten and deleted, too");
  command->add_option("--scheme", arguments->scheme, "Of the cluster")->capture_default_str();
  command->add_option("--nodes", arguments->nodes, "Of the cluster")
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
  command->add_option("--memory-mb", arguments->memory_mb, "Of each node")
      ->check(CLI::Range(64, 1 << 20))
      ->capture_default_str();
  command->add_option("--connections", arguments->connections, "Connections of clients")
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  command->add_option("--ttl", arguments->ttl_s, "Seconds that an object lives")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_option("--seconds", arguments->seconds, "Of each size")
      ->check(CLI::Range(1, 24 * 3600))
      ->capture_default_str();
  command->add_flag("--quick", arguments->quick, "A few seconds: to see that it works");
  add_output_options(*command, arguments->output);
  command->callback([arguments, &bench, &globals] {
    refuse_options_of(bench);
    report(globals, run(*arguments, globals.json));
  });
}

}  // namespace elastripe::bench
