// elastripe bench large: one PUT or GET of a large object at a time, coded and copied, beside plain
// memcached and Redis with a replica.
#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/processor_time.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr const char* kRedis = "redis, WAIT 1";
constexpr const char* kBaseline = "baseline, ";
constexpr double kBaselineGoal = 1.05;

struct LargeOptions : Options {
  using Options::Options;
  Texts& sizes = texts("--sizes", {"64KiB", "1MiB", "4MiB", "64MiB"}, "Object sizes");
  Texts& schemes =
      texts("--schemes", {"rep:2", "rep:3", "ers:4,1,5", "ers:4,2,5"}, "Schemes to compare");
  int& nodes = number("--nodes", 9, "Nodes of the cluster", 2, 100);
  int& seconds = number(
      "--seconds", 25, "No further turn of a size starts after it (at least 10 are made)", 1, 3600);
  std::string& baseline = baseline_directory();
  bool& quick = quick_flag();
};

// Enough keys that a server's caches do not see the same bytes all the time, few enough that they
// fit.
size_t keys_of(size_t object_bytes) { return object_bytes > 16 * kMiB ? 2 : 8; }

// What the servers of one run may hold of this size at a time, with what is overwritten but not yet
// gone: about ten copies of every key, and twice that; a baseline as much again.
double needed_bytes(size_t object_bytes, bool baseline) {
  return (baseline ? 40.0 : 20.0) * static_cast<double>(keys_of(object_bytes) * object_bytes);
}

// Their names are what tables say.
Result<std::vector<Target>> start_servers(const LargeOptions& o, size_t largest, Testbed& testbed,
                                          Report& report) {
  const int memory_mb = std::max(256, static_cast<int>(needed_bytes(largest, false) / 2 / kMiB));
  std::vector<Target> servers{TRY(testbed.start_memcached(2, memory_mb))};
  report.add_if_there("Redis", testbed.start_redis(memory_mb), servers);
  cli::ClusterSettings settings{
      .nodes = o.nodes, .scheme = o.schemes.front(), .memory_mb = memory_mb};
  for (const std::string& scheme : o.schemes) settings.pools.push_back({scheme + "/", scheme, {}});
  const auto clusters = TRY(testbed.start_clusters("", settings, o.baseline));
  for (const std::string& scheme : o.schemes) {
    for (const Cluster& cluster : clusters) {
      Target& pool = servers.emplace_back(cluster.target);
      pool.key_prefix = scheme + "/";
      pool.name = (pool.name == "baseline" ? kBaseline : "") + scheme;
    }
  }
  return servers;
}

// Those of each server that can have them.
Result<std::vector<Objects>> objects_of(const std::vector<Target>& servers, size_t bytes,
                                        Report& report) {
  std::vector<Objects> objects;
  for (const Target& server : servers) {
    if (server.name == "memcached") {
      const auto stored = TRY(server.connect())->put("probe", turn_value(bytes, 0));
      if (!stored) {
        report.notes.push_back(fmt::format("Without memcached at {}: it answers {}.",
                                           size_text(bytes), stored.error()));
        continue;
      }
    }
    objects.push_back(Objects::numbered(
        server, bytes, fmt::format("{}large/{}/", server.key_prefix, bytes), keys_of(bytes)));
  }
  return objects;
}

void add_table(const Rows& rows, Report& report) {
  report.show(
      "{object_bytes bytes}, one request at a time, turn by turn, {put/requests} of each:\n"
      "microseconds, median (quartiles). x is the ratio of medians to rep:2. CPU is\n"
      "processor time per request of the server, and of nodes or replica.",
      "server | PUT us = put | p99 = put/p99_us | x = put/over_rep_2 .2 | CPU us = "
      "put/front_cpu_us | nodes' CPU us = put/back_cpu_us | GET us = get | p99 = get/p99_us | x = "
      "get/over_rep_2 .2 | CPU us = get/front_cpu_us | nodes' CPU us = get/back_cpu_us",
      rows);
}

void add_goals(const LargeOptions& o, const Rows& rows, Report& report) {
  const auto add = [&](const std::string& of, const std::string& over, const std::string& kind,
                       double bound, std::optional<double> stretch) {
    const Json* row = find(rows, {{"server", of}});
    const Json* base = find(rows, {{"server", over}});
    if (row == nullptr || base == nullptr) return;
    report.add_goal(fmt::format("1 MiB {}, p50: {} / {}", kind == "put" ? "PUT" : "GET", of, over),
                    "at_most", bound, stretch, ratio(*row, *base, kind));
  };
  add("ers:4,1,5", "rep:2", "put", 1.0, 0.75);
  add("ers:4,1,5", "rep:2", "get", 1.2, 0.9);
  add("ers:4,1,5", kRedis, "put", 1.0, {});
  add("ers:4,2,5", kRedis, "put", 1.0, {});
  for (const std::string& scheme : o.schemes) {
    for (const char* kind : {"put", "get"})
      add(scheme, kBaseline + scheme, kind, kBaselineGoal, {});
  }
}

Result<> add_calls(const LargeOptions& o, const std::vector<Objects>& objects, Report& report) {
  std::vector<TracedCase> traced;
  for (const bool puts : {true, false}) {
    for (const Objects& of : objects) {
      const Json labels{{"object_bytes", of.bytes},
                        {"server", of.target.name},
                        {"request", puts ? "PUT" : "GET"}};
      traced.push_back(TRY(traced_case(labels, of, puts, o.quick ? 2 : 50)));
    }
  }
  return add_system_calls(report, "System calls per request of 1 MiB", "request | server", traced);
}

Result<Report> run(LargeOptions& o) {
  const auto sizes = TRY(parse_sizes(o.sizes));
  const auto testbed = TRY(Testbed::create(o.port));
  Report report;
  const auto servers = TRY(start_servers(o, std::ranges::max(sizes), *testbed, report));
  Rows all;
  for (const size_t bytes : sizes) {
    if (needed_bytes(bytes, !o.baseline.empty()) > available_memory_bytes()) {
      report.notes.push_back(fmt::format("Without {}: it takes {:.0f} MiB of free memory.",
                                         size_text(bytes),
                                         needed_bytes(bytes, !o.baseline.empty()) / kMiB));
      continue;
    }
    fmt::print(stderr, "{}\n", size_text(bytes));
    const auto objects = TRY(objects_of(servers, bytes, report));
    Group cases;
    for (const Objects& of : objects) {
      cases.push_back(TRY(object_case({{"object_bytes", bytes}, {"server", of.target.name}}, of)));
    }
    auto rows = TRY(
        measure({cases}, {.rounds = o.quick ? 2 : 10,
                          .budget = std::chrono::milliseconds(o.quick ? 100 : 1000 * o.seconds)}));
    for (const std::string kind : {"put", "get"}) {
      compare(rows, kind + "/over_rep_2", kind, {}, {{"server", "rep:2"}});
    }
    add_table(rows, report);
    if (bytes == kMiB) {
      add_goals(o, rows, report);
      TRY(add_calls(o, objects, report));
    }
    std::ranges::move(rows, std::back_inserter(all));
  }
  chart_objects(report, "large-", {.title = " of one object"}, all, "{server}");
  report.json.update({{"nodes", o.nodes}, {"cases", all}});
  return report;
}

}  // namespace

void add_large(Commands& commands) {
  add_experiment(commands, "large",
                 "One PUT or GET of a large object, coded and copied, beside memcached and Redis",
                 run);
}

}  // namespace elastripe::bench
