// elastripe bench alone: every size and scheme, inline and striped, one request at a time, beside
// plain memcached; and the memory that objects take.
#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr int kMemoryMb = 1024;
constexpr size_t kKeys = 8;  // of one case; overwritten again and again
// Objects up to this are also measured inline, whatever the scheme.
constexpr int kInlineMaxBytes = 64 << 10;

struct OverviewOptions : Options {
  using Options::Options;
  Texts& schemes =
      texts("--schemes", {"rep:2", "rs:4,1", "ers:4,1,5", "ers:4,2,5"}, "Schemes to compare");
  Texts& sizes =
      texts("--sizes", {"1KiB", "4KiB", "16KiB", "64KiB", "1MiB", "4MiB"}, "Object sizes");
  int& seconds =
      number("--seconds", 60,
             "All sizes together; no turn starts after it (at least 5 of each are made)", 1, 3600);
  int& nodes = number("--nodes", 9, "Nodes of the cluster", 2, 100);
};

// What the keys of a pool begin with.
std::string prefix_of(const std::string& scheme, const std::string& path) {
  return fmt::format("{}/{}/", scheme, path);
}

Result<Cluster> start_cluster(const OverviewOptions& o, Testbed& testbed) {
  cli::ClusterSettings settings{
      .nodes = o.nodes, .scheme = o.schemes.front(), .memory_mb = kMemoryMb};
  for (const std::string& scheme : o.schemes) {
    settings.pools.push_back({prefix_of(scheme, "inline"), scheme, kInlineMaxBytes});
    settings.pools.push_back({prefix_of(scheme, "striped"), scheme, 0});
  }
  return testbed.start_cluster("elastripe", settings);
}

// Memory in use on all nodes: chunks that hold an item times their size.
Result<double> used_bytes(const Cluster& cluster) {
  uint64_t total = 0;
  for (const auto& numbers : TRY(cluster.node_stats("slabs"))) {
    for (const auto& [name, count] : numbers) {
      const size_t colon = name.find(':');
      if (colon == std::string::npos || name.substr(colon) != ":used_chunks") continue;
      total += count * numbers.at(name.substr(0, colon) + ":chunk_size");
    }
  }
  return static_cast<double>(total);
}

// How much more memory nodes use for each byte of new objects.
Result<double> memory_of(const Cluster& cluster, const std::string& prefix, size_t bytes,
                         int objects) {
  const auto before = TRY(used_bytes(cluster));
  const auto client = TRY(cluster.target.connect());
  for (int i = 0; i < objects; ++i) {
    TRY(client->put(fmt::format("{}memory/{}", prefix, i), turn_value(bytes, 0)));
  }
  const auto after = TRY(used_bytes(cluster));
  return (after - before) / (static_cast<double>(bytes) * objects);
}

Result<> measure_memory(const std::vector<coding::Scheme>& schemes, const OverviewOptions& o,
                        const Cluster& cluster, Report& report) {
  Rows rows;
  for (size_t s = 0; s < schemes.size(); ++s) {
    const auto [k, m] = std::pair{schemes[s].k, schemes[s].m};
    for (const bool striped : {true, false}) {
      const std::string path = striped ? "striped" : "inline";
      const size_t bytes = striped ? kMiB : 4 * kKiB;
      const int objects = striped ? 32 : 1000;
      const double ideal = striped ? static_cast<double>(k + m) / k : m + 1.0;
      const auto measured = TRY(memory_of(cluster, prefix_of(o.schemes[s], path), bytes, objects));
      rows.push_back({{"scheme", o.schemes[s]},
                      {"path", path},
                      {"object_bytes", bytes},
                      {"objects", objects},
                      {"bytes_per_byte", measured},
                      {"ideal", ideal}});
      if (!striped) continue;
      report.add_goal(fmt::format("memory of striped {} objects, {}: measured / ideal",
                                  size_text(bytes), o.schemes[s]),
                      "at_most", 1.1, {}, measured / ideal);
    }
  }
  report.show(
      "Memory used on the nodes for each byte stored; the ideal has no header and no rounding.",
      "scheme | path | objects = {objects} of {object_bytes bytes} | bytes per byte = "
      "bytes_per_byte .3 | ideal = ideal .3",
      rows);
  report.json["memory"] = std::move(rows);
  return {};
}

// Memcached first.
Result<Group> cases_of(const OverviewOptions& o, const Target& memcached, const Cluster& cluster,
                       size_t bytes) {
  Group cases;
  const auto add = [&](const std::string& scheme, const std::string& path, const Target& target,
                       const std::string& prefix) -> Result<> {
    cases.push_back(TRY(
        object_case({{"scheme", scheme}, {"path", path}, {"object_bytes", bytes}},
                    Objects::numbered(target, bytes, fmt::format("{}{}/", prefix, bytes), kKeys))));
    return {};
  };
  TRY(add("memcached", "direct", memcached, ""));
  for (const std::string& scheme : o.schemes) {
    for (const std::string path : {"inline", "striped"}) {
      if (path == "inline" && bytes > size_t{kInlineMaxBytes}) continue;
      TRY(add(scheme, path, cluster.target, prefix_of(scheme, path)));
    }
  }
  return cases;
}

Result<Report> run(OverviewOptions& o) {
  const auto schemes = TRY(parse_schemes(o.schemes));
  const auto sizes = TRY(parse_sizes(o.sizes));
  const auto testbed = TRY(Testbed::create(o.port));
  const auto memcached = TRY(testbed->start_memcached(2, kMemoryMb));
  const auto cluster = TRY(start_cluster(o, *testbed));
  Report report;
  report.json = {{"nodes", o.nodes}, {"latency", Json::array()}};
  TRY(measure_memory(schemes, o, cluster, report));
  Rows all;
  for (const size_t bytes : sizes) {
    fmt::print(stderr, "{}\n", size_text(bytes));
    auto rows = TRY(measure(
        {TRY(cases_of(o, memcached, cluster, bytes))},
        {.rounds = 5,
         .budget = std::chrono::milliseconds(1000 * o.seconds / static_cast<int>(sizes.size()))}));
    for (const std::string kind : {"put", "get"}) {
      compare(rows, kind + "/over_memcached", kind, {}, {{"scheme", "memcached"}});
    }
    std::ranges::move(rows, std::back_inserter(all));
  }
  report.show(
      "One request at a time, turn by turn, microseconds: median (quartiles).\n"
      "x is the ratio of medians to memcached direct at the same size.",
      "size = object_bytes bytes | scheme | path | PUT us = put | x = put/over_memcached .2 | GET "
      "us = get | x = get/over_memcached .2",
      all);
  Rows striped;
  std::ranges::copy_if(all, std::back_inserter(striped),
                       [](const Json& row) { return row.at("path") != "inline"; });
  chart_objects(report, "overview-", {.title = " of one object, striped", .lines = true}, striped,
                "{scheme}");
  report.json["latency"] = std::move(all);
  return report;
}

}  // namespace

void add_overview(Commands& commands) { add_experiment(commands, nullptr, "", run); }

}  // namespace elastripe::bench
