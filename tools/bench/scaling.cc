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
constexpr double kProxyGoal = 1.05;

struct ScalingOptions : Options {
  using Options::Options;
  Numbers& connections =
      number("--connections", Numbers{1, 10, 100, 1000}, "Connections of clients", 1, 4000);
  Numbers& nodes = number("--nodes", Numbers{7, 12, 24},
                          "Nodes of the clusters; connections are varied on the first", 2, 100);
  Numbers& proxies = number("--proxies", Numbers{1, 2, 4},
                            "Proxies of one thread, on as many nodes as the first cluster", 1, 16);
  std::string& scheme = text("--scheme", "ers:4,2,5", "Of the clusters");
  Texts& sizes = texts("--sizes", {"1KiB", "64KiB"}, "Object sizes");
  int& rounds = rounds_of(7);
  int& round_ms = round_ms_of(500);
  bool& quick = quick_flag();
};

// They have one thread each, so that it is proxies that grow in number.
Result<std::vector<Target>> start_proxies(const ScalingOptions& o, Testbed& testbed) {
  std::vector<Target> servers;
  for (const int proxies : o.proxies) {
    const auto cluster =
        TRY(testbed.start_cluster(fmt::format("{} {}", proxies, proxies == 1 ? "proxy" : "proxies"),
                                  {.nodes = o.nodes.front(),
                                   .scheme = o.scheme,
                                   .proxies = proxies,
                                   .memory_mb = kMemoryMb,
                                   .set = {"threads=1"}}));
    servers.push_back(cluster.target);
  }
  return servers;
}

// Memcached, then the clusters.
Result<std::vector<Target>> start_servers(const ScalingOptions& o, Testbed& testbed) {
  std::vector<Target> servers{TRY(testbed.start_memcached(2, kMemoryMb))};
  for (const int nodes : o.nodes) {
    const auto cluster =
        TRY(testbed.start_cluster(fmt::format("{} nodes", nodes),
                                  {.nodes = nodes, .scheme = o.scheme, .memory_mb = kMemoryMb}));
    servers.push_back(cluster.target);
  }
  return servers;
}

void add_pivots(const std::string& what, const std::string& text, const Rows& all, Report& report) {
  const Rows rows = where(all, {{"what", what}});
  report.show(text,
              "request | connections | server | per second = per_second | p50 us = p50_us | p99 us "
              "= p99_us | CPU us = front_cpu_us .1 | nodes' CPU us = back_cpu_us .1",
              rows);
  report.chart("scaling-{what}-{object_bytes bytes}",
               {.title = "Processor time per request, {object_bytes bytes}",
                .x_label = what,
                .y_label = "microseconds, of all servers",
                .lines = true},
               rows, what == "proxies" || what == "fleet" ? "{proxies}" : "{" + what + "}",
               what == "connections" ? "{request} {system}" : "{request}", "cpu_us");
}

Result<Report> run(ScalingOptions& o) {
  if (o.quick) {
    o.connections = {1, 100};
    o.nodes = {7, 8};
    o.proxies = {1, 2};
    o.rounds = 1;
    o.round_ms = 30;
  }
  const auto sizes = TRY(parse_sizes(o.sizes));
  const auto testbed = TRY(Testbed::create(o.port));
  auto servers = TRY(start_servers(o, *testbed));
  auto proxies = TRY(start_proxies(o, *testbed));
  const std::vector<ObjectBytes> objects(sizes.begin(), sizes.end());
  std::vector<Group> groups;
  // `each`: to each proxy of the cluster; else to all together.
  const auto add_group = [&](const char* what, const ObjectBytes& of_size, int connections,
                             Operation operation, std::span<const Target> of, bool each = false) {
    const Json labels{
        {"what", what}, {"object_bytes", of_size.object_bytes()}, {"connections", connections}};
    const LoadSettings settings{.connections = connections,
                                .duration = std::chrono::milliseconds(o.round_ms)};
    auto loads = uniform_loads(labels, operation, of, settings, of_size, kRecords, groups.size());
    for (Load& load : loads) {
      load.labels["nodes"] = load.target.back.size();
      load.labels["proxies"] = load.target.front.size();
      if (each) load.settings.connections *= static_cast<int>(load.target.front.size());
      load.labels["connections"] = load.settings.connections;
    }
    groups.push_back(load_cases(loads));
  };
  for (const ObjectBytes& of_size : objects) {
    for (auto* some : {&servers, &proxies}) {
      for (Target& server : *some) {
        server.key_prefix = fmt::format("{}/", of_size.object_bytes());
        TRY(store_records(server, of_size, kRecords));
      }
    }
    const std::span all(servers);
    for (const Operation operation : {Operation::kRead, Operation::kUpdate}) {
      for (const int connections : o.connections) {
        add_group("connections", of_size, connections, operation, all.first(2));
      }
      add_group("nodes", of_size, kFixedConnections, operation, all.subspan(1));
      add_group("proxies", of_size, kFixedConnections, operation, proxies);
      add_group("fleet", of_size, kFixedConnections, operation, proxies, true);
    }
  }
  auto rows = TRY(measure(std::move(groups), {.rounds = o.rounds}));
  for (Json& row : rows) {
    row["system"] = row.at("nodes") == 0 ? "memcached" : "elastripe";
    row["cpu_us"] = number(row, "front_cpu_us") + number(row, "back_cpu_us");
  }
  Report report;
  report.json = {{"scheme", o.scheme}, {"cases", rows}};
  add_pivots(
      "connections",
      fmt::format("Objects of {{object_bytes bytes}}, {} on {} nodes, beside memcached, over "
                  "more and more connections.",
                  o.scheme, o.nodes.front()),
      rows, report);
  add_pivots("nodes",
             fmt::format("Objects of {{object_bytes bytes}}, {}, {} connections, clusters of more "
                         "and more nodes.",
                         o.scheme, kFixedConnections),
             rows, report);
  add_pivots(
      "proxies",
      fmt::format("Objects of {{object_bytes bytes}}, {} on {} nodes, {} connections, more and "
                  "more proxies of one thread.",
                  o.scheme, o.nodes.front(), kFixedConnections),
      rows, report);
  add_pivots("fleet",
             fmt::format("Objects of {{object_bytes bytes}}, {} on {} nodes, more and more proxies "
                         "of one thread, and {} connections to each.",
                         o.scheme, o.nodes.front(), kFixedConnections),
             rows, report);
  for (const char* what : {"proxies", "fleet"}) {
    for (const Json& row : where(rows, {{"what", what}})) {
      const auto* base = find(rows, labels_of(row, {"what", "request", "object_bytes"},
                                              {{"proxies", o.proxies.front()}}));
      if (base == nullptr || row.at("proxies") == o.proxies.front()) continue;
      report.add_goal(fill("{request} of {object_bytes bytes}: processor time with {server}, "
                           "{connections} connections / with one",
                           row),
                      "at_most", kProxyGoal, {}, ratio(row, *base, "cpu_us"));
    }
  }
  return report;
}

}  // namespace

void add_scaling(Commands& commands) {
  add_experiment(commands, "scaling", "What a request costs as connections and nodes grow", run);
}

}  // namespace elastripe::bench
