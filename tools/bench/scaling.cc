// elastripe bench scaling: what a request costs as connections and nodes grow.
#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr uint64_t kRecords = 500;  // of each size
constexpr int kMemoryMb = 256;
constexpr int kFixedConnections = 32;

struct ScalingOptions : Options {
  using Options::Options;
  Numbers& connections =
      number("--connections", Numbers{1, 10, 100, 1000}, "Connections of clients", 1, 4000);
  Numbers& nodes = number("--nodes", Numbers{7, 12, 24},
                          "Nodes of the clusters; connections are varied on the first", 2, 100);
  std::string& scheme = text("--scheme", "ers:4,2,5", "Of the clusters");
  Texts& sizes = texts("--sizes", {"1KiB", "64KiB"}, "Object sizes");
  int& rounds = rounds_of(7);
  int& round_ms = round_ms_of(500);
  bool& quick = quick_flag();
};

// Memcached, then the clusters.
Result<std::vector<Target>> start_servers(const ScalingOptions& o, Testbed& testbed) {
  const auto memcached = TRY(testbed.start_memcached(2, kMemoryMb));
  std::vector<Target> servers{memcached};
  for (const int nodes : o.nodes) {
    const auto cluster =
        TRY(testbed.start_cluster(fmt::format("{} nodes", nodes),
                                  {.nodes = nodes, .scheme = o.scheme, .memory_mb = kMemoryMb}));
    servers.push_back(cluster.target);
  }
  return servers;
}

void add_pivots(const ScalingOptions& o, size_t bytes, const std::string& what, const Rows& rows,
                Report& report) {
  const bool of_nodes = what == "nodes";
  const std::string size = size_text(bytes);
  report.show(
      of_nodes
          ? fmt::format("Objects of {}, {}, {} connections, clusters of more and more nodes.", size,
                        o.scheme, kFixedConnections)
          : fmt::format(
                "Objects of {}, {} on {} nodes, beside memcached, over more and more connections.",
                size, o.scheme, o.nodes.front()),
      "request | connections | server | per second = per_second | p50 us = p50_us | p99 us = "
      "p99_us | CPU us = front_cpu_us .1 | nodes' CPU us = back_cpu_us .1",
      rows);
  const Chart frame{.title = "Processor time per request, " + size,
                    .x_label = what,
                    .y_label = "microseconds, of all servers",
                    .lines = true};
  report.charts.emplace_back(fmt::format("scaling-{}-{}kib", what, bytes / kKiB),
                             chart_of(frame, rows, "{" + what + "}",
                                      of_nodes ? "{request}" : "{request} {system}", "cpu_us"));
}

Result<Report> run(ScalingOptions& o) {
  if (o.quick) {
    o.connections = {1, 100};
    o.nodes = {7, 8};
    o.rounds = 1;
    o.round_ms = 30;
  }
  const auto sizes = TRY(parse_sizes(o.sizes));
  const auto testbed = TRY(Testbed::create(o.port));
  auto servers = TRY(start_servers(o, *testbed));
  std::vector<std::unique_ptr<ObjectBytes>> objects;
  std::vector<Group> groups;
  const auto add_group = [&](const char* what, int connections, Operation operation,
                             std::span<const Target> of) {
    Group& group = groups.emplace_back();
    for (const Target& server : of) {
      group.push_back(std::make_unique<LoadCase>(
          Json{{"what", what},
               {"object_bytes", objects.back()->object_bytes()},
               {"request", verb_of(operation)},
               {"connections", connections},
               {"server", server.name},
               {"nodes", server.back.size()}},
          server,
          LoadSettings{.connections = connections,
                       .duration = std::chrono::milliseconds(o.round_ms)},
          uniform_requests(operation, kRecords, 100'000 * groups.size() + 10'000 * group.size()),
          *objects.back(), operation));
    }
  };
  for (const size_t bytes : sizes) {
    objects.push_back(std::make_unique<ObjectBytes>(bytes));
    for (Target& server : servers) {
      server.key_prefix = fmt::format("{}/", bytes);
      TRY(store_records(server, *objects.back(), kRecords));
    }
    const std::span all(servers);
    for (const Operation operation : {Operation::kRead, Operation::kUpdate}) {
      for (const int connections : o.connections) {
        add_group("connections", connections, operation, all.first(2));
      }
      add_group("nodes", kFixedConnections, operation, all.subspan(1));
    }
  }
  auto rows = TRY(measure(groups, {.rounds = o.rounds}));
  for (Json& row : rows) {
    row["system"] = row.at("nodes") == 0 ? "memcached" : "elastripe";
    row["cpu_us"] = number(row, "front_cpu_us") + number(row, "back_cpu_us");
  }
  Report report;
  report.json = {{"bench", "scaling"}, {"scheme", o.scheme}, {"cases", rows}};
  for (const size_t bytes : sizes) {
    for (const char* what : {"connections", "nodes"}) {
      add_pivots(o, bytes, what, where(rows, {{"object_bytes", bytes}, {"what", what}}), report);
    }
  }
  return report;
}

}  // namespace

void add_scaling(Commands& commands) {
  add_experiment(commands, "scaling", "What a request costs as connections and nodes grow", run);
}

}  // namespace elastripe::bench
