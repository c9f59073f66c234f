// elastripe bench small: throughput, latency, processor time and system calls of small objects over
// many connections, beside plain memcached and twemproxy.
#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr int kMemoryMb = 256;
constexpr double kBaselineGoal = 0.95;

struct SmallOptions : Options {
  using Options::Options;
  int& connections = number("--connections", 32, "Connections of clients", 1, 4000);
  Numbers& depths =
      number("--depth", Numbers{1, 16}, "Requests in flight on each connection", 1, 1000);
  Numbers& threads = number("--threads", Numbers{1, 2},
                            "Threads of the proxy, of memcached, and of the load", 1, 64);
  Numbers& copies = number("--copies", Numbers{2, 3}, "Copies that the cluster keeps", 2, 5);
  std::string& size = text("--size", "1KiB", "Of the objects");
  int& nodes =  // as many as three copies need
      number("--nodes", 3, "Nodes of each cluster, and behind twemproxy", 2, 100);
  int& records = number("--records", 10'000, "Objects, all equally likely", 1, 10'000'000);
  bool& no_system_calls = flag("--no-system-calls", "Without strace");
  std::string& baseline = baseline_directory();
  int& rounds = rounds_of(9);
  int& round_ms = round_ms_of(700);
  bool& quick = quick_flag();
};

std::string name_of(const char* build, int copies) {
  return fmt::format("{}, {} copies", build, copies);
}

// Memcached first, clusters last.
Result<std::vector<Target>> start_servers(const SmallOptions& o, Testbed& testbed, int threads,
                                          const std::vector<Target>& twemproxy) {
  std::vector<Target> servers{TRY(testbed.start_memcached(threads, kMemoryMb))};
  servers.insert(servers.end(), twemproxy.begin(), twemproxy.end());
  for (const int copies : o.copies) {
    const cli::ClusterSettings settings{.nodes = o.nodes,
                                        .scheme = fmt::format("rep:{}", copies),
                                        .memory_mb = kMemoryMb,
                                        .set = {fmt::format("threads={}", threads)}};
    for (const Cluster& cluster :
         TRY(testbed.start_clusters(fmt::format(", {} copies", copies), settings, o.baseline))) {
      servers.push_back(cluster.target);
    }
  }
  return servers;
}

void add_goals(const SmallOptions& o, const Rows& rows, Report& report) {
  struct Bound {
    std::string request;
    int copies;
    std::string server;
    double bound;
    std::optional<double> stretch = {};
  };
  std::vector<Bound> bounds;
  for (const int copies : o.copies) {
    for (const char* request : {"GET", "SET"}) {
      bounds.push_back({request, copies, name_of("baseline", copies), kBaselineGoal});
    }
    bounds.push_back({"GET", copies, "memcached", 0.6, 0.8});
    bounds.push_back({"GET", copies, "twemproxy", 1});
  }
  bounds.push_back({"SET", 2, "memcached", 0.35, 0.5});
  bounds.push_back({"SET", 3, "memcached", 0.25});
  for (const Json& row : rows) {
    for (const Bound& b : bounds) {
      if (row.at("server") != name_of("elastripe", b.copies) || row.at("request") != b.request) {
        continue;
      }
      const auto* base =
          find(rows, labels_of(row, {"request", "threads", "depth"}, {{"server", b.server}}));
      if (base == nullptr) continue;
      report.add_goal(fill("{request}, depth {depth}, {threads} thread", row) +
                          (row.at("threads") == 1 ? "" : "s") + fill(": {server} / ", row) +
                          b.server,
                      "at_least", b.bound, b.stretch, ratio(row, *base, "per_second"));
    }
  }
}

Result<Report> run(SmallOptions& o) {
  if (o.quick) {
    o.rounds = 2;
    o.round_ms = 50;
    o.records = 200;
  }
  const auto bytes = TRY(parse_size(o.size));
  const ObjectBytes objects(bytes);
  const auto testbed = TRY(Testbed::create(o.port));
  Report report;
  std::vector<Target> twemproxy;
  report.add_if_there("twemproxy", testbed->start_twemproxy(o.nodes, kMemoryMb), twemproxy);
  std::vector<Group> groups;
  std::vector<TracedCase> traced;
  for (const int threads : o.threads) {
    const auto servers = TRY(start_servers(o, *testbed, threads, twemproxy));
    const auto records = static_cast<uint64_t>(o.records);
    for (const Target& server : servers) {
      TRY(store_records(server, objects, records));
    }
    for (const int depth : o.depths) {
      const LoadSettings settings{.connections = o.connections,
                                  .depth = depth,
                                  .threads = threads,
                                  .duration = std::chrono::milliseconds(o.round_ms)};
      for (const Operation operation : {Operation::kRead, Operation::kUpdate}) {
        const auto loads = uniform_loads({{"threads", threads}, {"depth", depth}}, operation,
                                         servers, settings, objects, records, groups.size());
        groups.push_back(load_cases(loads));
        // Servers with more threads make the same calls.
        if (threads != o.threads.front()) continue;
        for (const Load& load : loads) traced.push_back(traced_case(load));
      }
    }
  }
  auto rows = TRY(measure(std::move(groups), {.rounds = o.rounds}));
  compare(rows, "over_memcached", "per_second", {"request", "threads", "depth"},
          {{"server", "memcached"}});

  report.json = {{"object_bytes", objects.object_bytes()},
                 {"connections", o.connections},
                 {"nodes", o.nodes},
                 {"rates", rows}};
  report.show(
      fmt::format(
          "{} objects over {} connections, {} nodes: requests a second, median of {} rounds\n"
          "(quartiles); x is the ratio to memcached in the same round, then the median. CPU is\n"
          "processor time per request of what clients talk to, and of the nodes behind it.",
          size_text(objects.object_bytes()), o.connections, o.nodes, o.rounds),
      "request | threads | depth | server | per second = per_second | x = over_memcached .2 | p50 "
      "us = p50_us | p99 us = p99_us | CPU us = front_cpu_us .1 | nodes' CPU us = back_cpu_us .1",
      rows);
  report.chart("small-{request}",
               {.title = fmt::format("{{request}} of {}, {} connections",
                                     size_text(objects.object_bytes()), o.connections),
                .x_label = "depth and threads",
                .y_label = "requests a second, median, quartiles"},
               rows, "depth {depth}, {threads}t", "{server}", "per_second");
  add_goals(o, rows, report);
  if (o.no_system_calls) return report;
  TRY(add_system_calls(report, "System calls per request", "request | depth | server", traced));
  return report;
}

}  // namespace

void add_small(Commands& commands) {
  add_experiment(commands, "small",
                 "Small GETs and SETs over many connections, beside memcached and twemproxy", run);
}

}  // namespace elastripe::bench
