// elastripe bench dialects: small GETs and SETs in each of memcached's dialects, in clear and over
// TLS, beside plain memcached and twemproxy; what a connection takes; how many are accepted.

#include <chrono>

#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/processor_time.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using Clock = std::chrono::steady_clock;

constexpr int kMemoryMb = 256;
constexpr const char* kManyConnections = "limits.connections=200000";

struct DialectsOptions : Options {
  using Options::Options;
  int& connections = number("--connections", 32, "Connections of clients", 1, 4000);
  Numbers& depths =
      number("--depth", Numbers{1, 16}, "Requests in flight on each connection", 1, 1000);
  std::string& size = text("--size", "1KiB", "Of the objects");
  int& nodes = number("--nodes", 3, "Nodes of the cluster, and behind twemproxy", 2, 100);
  int& records = number("--records", 10'000, "Objects, all equally likely", 1, 10'000'000);
  int& idle = number("--idle", 10'000, "Connections that are held open at once", 1, 100'000);
  int& rounds = rounds_of(9);
  int& round_ms = round_ms_of(700);
  bool& quick = quick_flag();
};

// The same servers in clear and over TLS.
struct Servers {
  std::vector<Target> clear, tls;
  std::vector<Target> twemproxy;  // knows the text protocol only
};

Result<Servers> start_servers(const DialectsOptions& o, Testbed& testbed, Report& report) {
  Servers servers;
  servers.clear.push_back(TRY(testbed.start_memcached(1, kMemoryMb)));
  servers.tls.push_back(TRY(testbed.start_memcached(1, kMemoryMb, /*tls=*/true)));
  report.add_if_there("twemproxy", testbed.start_twemproxy(o.nodes, kMemoryMb), servers.twemproxy);
  const int port = TRY(testbed.take_ports(1));
  const auto files = TRY(testbed.certificates());
  const auto cluster = TRY(testbed.start_cluster(
      "elastripe", {.nodes = o.nodes,
                    .scheme = "rep:2",
                    .memory_mb = kMemoryMb,
                    .set = {"threads=1", kManyConnections,
                            fmt::format("tls.certificate={}", (files / "proxy.pem").string()),
                            fmt::format("tls.key={}", (files / "proxy.key").string()),
                            fmt::format("listeners=[{{port: {}, tls: on}}]", port)}}));
  servers.clear.push_back(cluster.target);
  const auto ordered = TRY(testbed.start_cluster(
      "elastripe, in order", {.nodes = o.nodes,
                              .scheme = "rep:2",
                              .memory_mb = kMemoryMb,
                              .set = {"threads=1", "order=connection", kManyConnections}}));
  servers.clear.push_back(ordered.target);
  Target tls = cluster.target;
  tls.port = static_cast<uint16_t>(port);
  tls.tls = TRY(testbed.tls());
  servers.tls.push_back(tls);
  // The proxy speaks TLS with its nodes, too.
  const auto all =
      TRY(testbed.start_cluster("elastripe, TLS to nodes", {.nodes = o.nodes,
                                                            .scheme = "rep:2",
                                                            .memory_mb = kMemoryMb,
                                                            .set = {"threads=1", kManyConnections},
                                                            .tls = true}));
  Target within = all.target;
  within.tls = TRY(testbed.tls_of(all));
  servers.tls.push_back(within);
  return servers;
}

void add_goals(const Rows& rows, Report& report) {
  for (const Json& row : rows) {
    const bool is_ours = row.at("server") == "elastripe";
    if (!is_ours) continue;
    if (row.at("tls") == "on" && row.at("depth") == 1) {
      const auto* clear =
          find(rows, labels_of(row, {"request", "dialect", "depth", "server"}, {{"tls", "off"}}));
      if (clear == nullptr) continue;
      report.add_goal(fill("{request}, {dialect}, depth {depth}: over TLS / in clear", row),
                      "at_least", 0.75, {}, ratio(row, *clear, "per_second"));
    }
    const bool is_meta_get = row.at("request") == "GET" && row.at("dialect") == "meta" &&
                             row.at("tls") == "off" && row.at("depth") == 16;
    const auto* direct = find(
        rows, labels_of(row, {"request", "dialect", "depth", "tls"}, {{"server", "memcached"}}));
    if (is_meta_get && direct != nullptr) {
      report.add_goal("meta GET, depth 16: elastripe / memcached", "at_least", 1, {},
                      ratio(row, *direct, "per_second"));
    }
  }
}

Result<Rows> measure_requests(const DialectsOptions& o, const Servers& servers,
                              const ObjectBytes& objects) {
  const auto records = static_cast<uint64_t>(o.records);
  for (const auto* targets : {&servers.clear, &servers.tls, &servers.twemproxy}) {
    for (const Target& target : *targets) TRY(store_records(target, objects, records));
  }
  std::vector<Group> groups;
  for (const int depth : o.depths) {
    for (const Operation operation : {Operation::kRead, Operation::kUpdate}) {
      for (const Dialect dialect : kDialects) {
        const LoadSettings settings{.connections = o.connections,
                                    .depth = depth,
                                    .dialect = dialect,
                                    .duration = std::chrono::milliseconds(o.round_ms)};
        std::vector<Load> loads;
        const auto add = [&](const char* tls, const std::vector<Target>& targets) {
          const auto more = uniform_loads(
              {{"dialect", name_of(dialect)}, {"tls", tls}, {"depth", depth}}, operation, targets,
              settings, objects, records, 2 * groups.size() + (targets.front().tls ? 1 : 0));
          loads.insert(loads.end(), more.begin(), more.end());
        };
        add("off", servers.clear);
        if (dialect == Dialect::kText && !servers.twemproxy.empty()) add("off", servers.twemproxy);
        add("on", servers.tls);
        groups.push_back(load_cases(loads));
      }
    }
  }
  return measure(std::move(groups), {.rounds = o.rounds});
}

// What so many connections that have asked for one thing and are idle take of the server's memory,
// each, and how many were made a second.
Result<Json> measure_connections(const Target& target, const char* tls, int count) {
  const auto resident_kib = [&] {
    double sum = 0;
    for (const pid_t pid : target.front)
      sum += kib_of(fmt::format("/proc/{}/status", pid), "VmRSS:");
    return sum;
  };
  const double before = resident_kib();
  const auto from = Clock::now();
  const auto connections =
      TRY(open_connections({.host = target.host, .port = target.port, .tls = target.tls}, count));
  const double seconds = std::chrono::duration<double>(Clock::now() - from).count();
  const double taken = resident_kib() - before;
  return Json{{"server", target.name},
              {"tls", tls},
              {"connections", count},
              {"kib_each", taken / count},
              {"per_second", count / seconds}};
}

Result<Report> run(DialectsOptions& o) {
  if (o.quick) {
    o.rounds = 2;
    o.round_ms = 50;
    o.records = 200;
    o.idle = 100;
  }
  const auto bytes = TRY(parse_size(o.size));
  const ObjectBytes objects(bytes);
  const auto testbed = TRY(Testbed::create(o.port));
  Report report;
  const Servers servers = TRY(start_servers(o, *testbed, report));
  auto rows = TRY(measure_requests(o, servers, objects));
  compare(rows, "over_memcached", "per_second", {"request", "dialect", "tls", "depth"},
          {{"server", "memcached"}});
  Rows connections;
  for (const auto& [tls, targets] :
       {std::pair("off", &servers.clear), std::pair("on", &servers.tls)}) {
    for (const Target& target : *targets) {
      connections.push_back(TRY(measure_connections(target, tls, o.idle)));
    }
  }
  report.json = {{"object_bytes", objects.object_bytes()},
                 {"connections", o.connections},
                 {"rates", rows},
                 {"idle", connections}};
  report.show(
      fmt::format("{} objects over {} connections, one thread of memcached and of the proxy, 2 "
                  "copies on {} nodes: requests a\nsecond, median of {} rounds (quartiles); x is "
                  "the ratio to memcached in the same dialect and round, then the median.\nCPU is "
                  "processor time per request of what clients talk to.",
                  size_text(objects.object_bytes()), o.connections, o.nodes, o.rounds),
      "request | dialect | TLS = tls | depth | server | per second = per_second | x = "
      "over_memcached .2 | p50 us = p50_us | p99 us = p99_us | CPU us = front_cpu_us .1",
      rows);
  report.show(
      "Connections that were made one after the other, each with one request, and then are idle: "
      "what the server takes for each.",
      "server | TLS = tls | connections | KiB each = kib_each .1 | made a second = per_second .0",
      connections);
  add_goals(rows, report);
  for (const Json& row : connections) {
    if (row.at("server") != "elastripe" || row.at("tls") != "off") continue;
    report.add_goal("KiB of an idle connection in clear", "at_most", 8, {}, row.at("kib_each"));
  }
  return report;
}

}  // namespace

void add_dialects(Commands& commands) {
  add_experiment(commands, "dialects",
                 "Small GETs and SETs in text, meta and binary, in clear and over TLS", run);
}

}  // namespace elastripe::bench
