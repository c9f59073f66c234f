#include "tools/bench/reclaim_bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <memory>

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

// Of all nodes together.
struct Stored {
  uint64_t used_bytes = 0;
  uint64_t items = 0;  // shards of striped objects, records of inline ones
};

bool is_striped(size_t object_bytes) { return object_bytes > kInlineMaxBytes; }

Result<Stored> stored_on(uint16_t port, size_t object_bytes) {
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
    stored.items += value_of(is_striped(object_bytes) ? "shards" : "records");
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
    for (const size_t bytes : sizes) {
      if (auto done = measure(bytes); !done) return std::unexpected(done.error());
    }
    return std::move(report_);
  }

 private:
  Result<Stored> stored(const TemporaryCluster& cluster, size_t object_bytes) const {
    Stored sum;
    for (int node = 0; node < arguments_.nodes; ++node) {
      const auto here = stored_on(cluster.node_port(node), object_bytes);
      if (!here) return std::unexpected(here.error());
      sum.used_bytes += here->used_bytes;
      sum.items += here->items;
    }
    return sum;
  }

  // New keys for as long as it takes, each with a time to live.
  Result<> measure(size_t object_bytes) {
    cli::ClusterSettings settings;
    settings.nodes = arguments_.nodes;
    settings.memory_mb = arguments_.memory_mb;
    settings.scheme = arguments_.scheme;
    settings.pools = {{kPrefix, arguments_.scheme, kInlineMaxBytes}};
    const auto cluster = testbed_->start_cluster(size_text(object_bytes), settings);
    if (!cluster) return std::unexpected(cluster.error());
    const ObjectBytes objects(object_bytes);
    const auto next = std::make_shared<std::atomic<uint64_t>>(0);
    LoadSettings load{.port = cluster->target.port, .key_prefix = kPrefix, .duration = {}};
    load.connections = arguments_.connections;
    load.exptime_s = arguments_.ttl_s;
    load.duration = std::chrono::seconds(arguments_.slice_s);

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
      const auto now = stored(*cluster->processes, object_bytes);
      if (!now) return std::unexpected(now.error());
      seconds += result->seconds;
      written += result->operations;
      const double grown =
          (static_cast<double>(now->items) - static_cast<double>(items_before)) / items_per_object;
      const double collected = (static_cast<double>(result->operations) - grown) / result->seconds;
      items_before = now->items;
      table.rows.push_back({fmt::format("{:.0f}", seconds),
                            fmt::format("{:.0f}", result->per_second()),
                            fmt::format("{:.0f}", std::max(collected, 0.0)),
                            std::to_string(now->items), fmt::format("{}", now->used_bytes >> 20)});
      rows.push_back({{"seconds", seconds},
                      {"written_per_second", result->per_second()},
                      {"collected_per_second", collected},
                      {"items", now->items},
                      {"used_bytes", now->used_bytes}});
    }
    report_.tables.push_back(std::move(table));
    report_.json["cases"].push_back(
        {{"object_bytes", object_bytes}, {"written", written}, {"slices", std::move(rows)}});
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
