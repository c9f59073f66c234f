// elastripe bench degraded: one GET of a striped object at a time, while two nodes are gone and
// some objects miss data shards.
#include <array>
#include <set>

#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr int kKilled = 2;
// Each with its m.
constexpr std::array kSchemes{std::pair{"ers:4,1,5", 1}, std::pair{"ers:4,2,5", 2}};

struct DegradedOptions : Options {
  using Options::Options;
  std::string& size = text("--size", "1MiB", "Of the objects");
  int& nodes = number("--nodes", 10, "Nodes of the cluster, of which two are killed", 9, 100);
  int& objects = number("--objects", 60, "Objects of each scheme", 10, 10'000);
  int& seconds =
      number("--seconds", 25, "No further turn starts after it (at least 10 are made)", 1, 3600);
  bool& quick = quick_flag();
};

// Where an object's shards are, as the proxy says.
struct Shards {
  std::set<std::string> data_nodes;
  int missing_data = 0;
  int missing = 0;
};

std::string key_of(const std::string& scheme, int number) {
  return fmt::format("{}/degraded/{}", scheme, number);
}

Result<Shards> shards_of(const cli::AdminClient& admin, const std::string& key) {
  const auto json = TRY(admin.get("/v1/objects/" + cli::url_escape(key)));
  Shards shards;
  for (const Json& segment : json.at("segments")) {
    for (const Json& shard : segment.at("shards")) {
      const bool data = shard.at("role").get<std::string>().starts_with('D');
      const bool missing = shard.at("missing").get<bool>();
      if (data) shards.data_nodes.insert(shard.at("node").get<std::string>());
      shards.missing += missing ? 1 : 0;
      shards.missing_data += missing && data ? 1 : 0;
    }
  }
  return shards;
}

// The two nodes that most objects have data shards on together.
Result<std::vector<std::string>> choose_nodes(const cli::AdminClient& admin, int objects) {
  std::map<std::pair<std::string, std::string>, int> pairs;
  for (int i = 0; i < objects; ++i) {
    const auto shards = TRY(shards_of(admin, key_of(kSchemes.back().first, i)));
    for (auto a = shards.data_nodes.begin(); a != shards.data_nodes.end(); ++a) {
      for (auto b = std::next(a); b != shards.data_nodes.end(); ++b) ++pairs[{*a, *b}];
    }
  }
  if (pairs.empty()) return cli::fail("no object is striped");
  const auto most = std::ranges::max_element(pairs, {}, [](const auto& p) { return p.second; });
  return std::vector{most->first.first, most->first.second};
}

// Returns once the cluster has settled: the nodes are lost, all records synced at their homes.
Result<> kill_nodes(const Cluster& cluster, const cli::AdminClient& admin, int objects) {
  TRY(cluster.processes->kill(TRY(choose_nodes(admin, objects))));
  return cluster.wait_for("lost", kKilled, true);
}

using KeysByMissing = std::map<int, std::vector<std::string>>;  // by missing data shards

Result<KeysByMissing> readable_keys(const cli::AdminClient& admin, const char* scheme, int m,
                                    int objects) {
  KeysByMissing keys;
  for (int i = 0; i < objects; ++i) {
    const auto shards = TRY(shards_of(admin, key_of(scheme, i)));
    if (shards.missing <= m) keys[shards.missing_data].push_back(key_of(scheme, i));
  }
  for (int missing = 0; missing <= m; ++missing) {
    if (keys[missing].empty()) {
      return cli::fail("no object of {} misses {} data shards: more --objects", scheme, missing);
    }
  }
  return keys;
}

void add_to(Report& report, const DegradedOptions& o, size_t bytes, Rows rows) {
  compare(rows, "over_normal", "get", {"scheme"}, {{"missing_data_shards", 0}});
  report.json = {
      {"object_bytes", bytes}, {"nodes", o.nodes}, {"killed_nodes", kKilled}, {"cases", rows}};
  report.show(fmt::format("GET of {}, one at a time, turn by turn, {{get/requests}} of each: "
                          "microseconds. Two of {} "
                          "nodes are\nkilled; objects are told apart by how many of their data "
                          "shards were there. x "
                          "is the\nratio of medians to objects of the same scheme that have all.",
                          size_text(bytes), o.nodes),
              "scheme | data shards missing = missing_data_shards | objects | GET us = get | p99 = "
              "get/p99_us | x = over_normal .2 | CPU us = get/front_cpu_us | nodes' CPU us = "
              "get/back_cpu_us",
              rows);
  report.chart("degraded-get",
               {.title = "GET of " + size_text(bytes),
                .x_label = "data shards missing",
                .y_label = "microseconds, median, quartiles",
                .categories = {"0", "1", "2"}},
               rows, "{missing_data_shards}", "{scheme}", "get");
  std::erase_if(rows, [](const Json& row) { return row.at("missing_data_shards") == 0; });
  report.at_most(
      "GET " + size_text(bytes) + ", {scheme}: {missing_data_shards} missing / none, p50", 1.5,
      rows, "over_normal");
}

Result<Report> run(DegradedOptions& o) {
  const auto bytes = TRY(parse_size(o.size));
  const auto testbed = TRY(Testbed::create(o.port));
  cli::ClusterSettings settings{.nodes = o.nodes, .scheme = kSchemes.front().first};
  for (const auto& [scheme, m] : kSchemes)
    settings.pools.push_back({std::string(scheme) + "/", scheme, 0});
  const auto cluster = TRY(testbed->start_cluster("elastripe", settings));
  const auto admin = TRY(cluster.admin());
  const auto client = TRY(cluster.target.connect());
  for (const auto& [scheme, m] : kSchemes) {
    for (int i = 0; i < o.objects; ++i) {
      // one value for all, so that any of them may be the next of a case
      TRY(client->put(key_of(scheme, i), turn_value(bytes, 0)));
    }
  }
  TRY(kill_nodes(cluster, admin, o.objects));
  Group cases;
  std::map<std::string, int> missing_of;  // by key
  for (const auto& [scheme, m] : kSchemes) {
    const auto keys = TRY(readable_keys(admin, scheme, m, o.objects));
    for (int missing = 0; missing <= m; ++missing) {
      const std::vector<std::string>& of_case = keys.at(missing);
      for (const std::string& key : of_case) missing_of[key] = missing;
      const Json labels{
          {"scheme", scheme}, {"missing_data_shards", missing}, {"objects", of_case.size()}};
      cases.push_back(TRY(object_case(labels, {cluster.target, bytes, of_case}, false)));
    }
  }
  auto rows = TRY(
      measure({cases}, {.rounds = o.quick ? 2 : 10,
                        .budget = std::chrono::milliseconds(o.quick ? 100 : 1000 * o.seconds)}));
  // Else what was measured were not degraded reads to the end.
  for (const auto& [key, missing] : missing_of) {
    const auto shards = TRY(shards_of(admin, key));
    if (shards.missing_data != missing) {
      return cli::fail("{} was repaired while it was measured", key);
    }
  }
  Report report;
  add_to(report, o, bytes, std::move(rows));
  return report;
}

}  // namespace

void add_degraded(Commands& commands) {
  add_experiment(commands, "degraded",
                 "One GET of an object with one and with two data shards missing", run);
}

}  // namespace elastripe::bench
