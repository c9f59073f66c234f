// elastripe bench small: throughput, latency, processor time and system calls of small objects over
// many connections, beside plain memcached and twemproxy.
#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/system_calls.h"
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
                                          const std::optional<Target>& twemproxy) {
  const auto memcached = TRY(testbed.start_memcached(threads, kMemoryMb));
  std::vector<Target> servers{memcached};
  if (twemproxy) servers.push_back(*twemproxy);
  for (const int copies : o.copies) {
    const cli::ClusterSettings settings{.nodes = o.nodes,
                                        .scheme = fmt::format("rep:{}", copies),
                                        .memory_mb = kMemoryMb,
                                        .set = {fmt::format("threads={}", threads)}};
    const auto clusters =
        TRY(testbed.start_clusters(fmt::format(", {} copies", copies), settings, o.baseline));
    for (const Cluster& cluster : clusters) servers.push_back(cluster.target);
  }
  return servers;
}

void add_goals(const SmallOptions& o, const Rows& rows, Report& report) {
  for (const Json& row : rows) {
    for (const int copies : o.copies) {
      if (row.at("server") != name_of("elastripe", copies)) continue;
      const auto add = [&](const std::string& server, double bound, std::optional<double> stretch) {
        const auto* base =
            find(rows, labels_of(row, {"request", "threads", "depth"}, {{"server", server}}));
        if (base == nullptr) return;
        const int threads = row.at("threads");
        report.at_least(
            fmt::format("{}, depth {}, {} thread{}: {} / {}", row.at("request").get<std::string>(),
                        row.at("depth").dump(), threads, threads == 1 ? "" : "s",
                        name_of("elastripe", copies), server),
            bound, stretch, ratio(row, *base, "per_second"));
      };
      add(name_of("baseline", copies), kBaselineGoal, {});
      if (row.at("request") == "GET") {
        add("memcached", 0.6, 0.8);
        add("twemproxy", 1, {});
      } else if (copies == 2) {
        add("memcached", 0.35, 0.5);
      } else if (copies == 3) {
        add("memcached", 0.25, {});
      }
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
  std::optional<Target> twemproxy;
  if (auto started = testbed->start_twemproxy(o.nodes, kMemoryMb)) {
    twemproxy = *started;
  } else {
    report.notes.push_back("Without twemproxy: " + started.error() + ".");
  }

  std::vector<Group> groups;
  std::vector<TracedCase> traced;
  uint64_t seed = 1;
  for (const int threads : o.threads) {
    const auto servers = TRY(start_servers(o, *testbed, threads, twemproxy));
    const auto records = static_cast<uint64_t>(o.records);
    for (const Target& server : servers) {
      TRY(store_records(server, objects, records));
    }
    for (const int depth : o.depths) {
      for (const Operation operation : {Operation::kRead, Operation::kUpdate}) {
        Group& group = groups.emplace_back();
        for (const Target& server : servers) {
          const Json labels{{"request", verb_of(operation)},
                            {"threads", threads},
                            {"depth", depth},
                            {"server", server.name}};
          auto c = std::make_unique<LoadCase>(
              labels, server,
              LoadSettings{.connections = o.connections,
                           .depth = depth,
                           .threads = threads,
                           .duration = std::chrono::milliseconds(o.round_ms)},
              uniform_requests(operation, records, seed += 1000), objects, operation);
          // Servers with more threads make the same calls.
          if (threads == o.threads.front()) {
            traced.push_back({labels, server, [&c = *c] { return c.rehearse(); }});
          }
          group.push_back(std::move(c));
        }
      }
    }
  }
  auto rows = TRY(measure(groups, {.rounds = o.rounds}));
  compare(rows, "over_memcached", "per_second", {"request", "threads", "depth"},
          {{"server", "memcached"}});

  report.json = {{"bench", "small"},
                 {"object_bytes", objects.object_bytes()},
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
  for (const auto& [request, file] : {std::pair{"GET", "small-get"}, {"SET", "small-set"}}) {
    const Chart frame{.title = fmt::format("{} of {}, {} connections", request,
                                           size_text(objects.object_bytes()), o.connections),
                      .x_label = "depth and threads",
                      .y_label = "requests a second, median, quartiles"};
    report.charts.emplace_back(
        file, chart_of(frame, where(rows, {{"request", request}}), "depth {depth}, {threads}t",
                       "{server}", "per_second"));
  }
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
