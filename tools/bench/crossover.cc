// elastripe bench crossover: small and middle objects stored whole and striped, to see from which
// size on striping costs no more.
#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr uint64_t kRecords = 64;  // of each size
constexpr int kInlineMaxBytes = 1 << 20;
const std::vector<std::string> kLabels{"scheme", "object_bytes", "request", "connections"};

struct CrossoverOptions : Options {
  using Options::Options;
  Texts& schemes = texts("--schemes", {"ers:4,1,5", "ers:4,2,5"}, "Schemes to compare");
  Texts& sizes = texts(
      "--sizes", {"1KiB", "2KiB", "4KiB", "8KiB", "16KiB", "32KiB", "64KiB", "128KiB", "256KiB"},
      "Object sizes, ascending");
  Numbers& connections = number("--connections", Numbers{1, 32}, "Connections of clients", 1, 4000);
  int& nodes = number("--nodes", 9, "Nodes of each cluster", 2, 100);
  int& rounds = rounds_of(5);
  int& round_ms = round_ms_of(300);
  bool& quick = quick_flag();
};

// Groups of one scheme. It has a cluster of its own, so that records are kept as often as it says.
Result<> add_groups(const CrossoverOptions& o, const std::string& scheme, Testbed& testbed,
                    const std::vector<std::unique_ptr<ObjectBytes>>& objects,
                    std::vector<Group>& groups) {
  const cli::ClusterSettings settings{
      .nodes = o.nodes,
      .scheme = scheme,
      .pools = {{"inline/", scheme, kInlineMaxBytes}, {"striped/", scheme, 0}}};
  const auto cluster = TRY(testbed.start_cluster(scheme, settings));
  for (const auto& of_size : objects) {
    std::vector<Target> paths;
    for (const char* path : {"inline", "striped"}) {
      Target& target = paths.emplace_back(cluster.target);
      target.key_prefix = fmt::format("{}/{}/", path, of_size->object_bytes());
      target.name = path;
      TRY(store_records(target, *of_size, kRecords));
    }
    for (const int connections : o.connections) {
      for (const Operation operation : {Operation::kUpdate, Operation::kRead}) {
        Group& group = groups.emplace_back();
        for (const Target& path : paths) {
          group.push_back(std::make_unique<LoadCase>(
              Json{{"scheme", scheme},
                   {"object_bytes", of_size->object_bytes()},
                   {"request", verb_of(operation)},
                   {"connections", connections},
                   {"path", path.name}},
              path,
              LoadSettings{.connections = connections,
                           .duration = std::chrono::milliseconds(o.round_ms)},
              uniform_requests(operation, kRecords, 1000 * groups.size() + 500 * group.size()),
              *of_size, operation));
        }
      }
    }
  }
  return {};
}

Table table_of_scheme(const coding::Scheme& scheme, const std::string& name, int connections,
                      const Rows& rows) {
  return table_of(
      fmt::format(
          "{}, {} connection{}: time of a request, median, and processor time of proxy and\n"
          "nodes. x is striped over inline, by requests a second. An inline object takes {}\n"
          "times its bytes, a striped one {:.2f} times.",
          name, connections, connections == 1 ? "" : "s", scheme.m + 1,
          static_cast<double>(scheme.k + scheme.m) / scheme.k),
      "size = object_bytes bytes | request | inline us = inline/p50_us | striped us = "
      "striped/p50_us | x = striped_over_inline .2 | inline CPU us = inline/cpu_us | striped CPU "
      "us = striped/cpu_us | x = cpu_striped_over_inline .2",
      where(rows, {{"scheme", name}, {"connections", connections}}));
}

// The least size from which on striping takes at most `bound` times as long, in all larger ones.
std::string crossover(const Rows& ascending, double bound) {
  std::string from = "none";
  for (const Json& row : ascending) {
    if (number(row, "striped_over_inline") > bound) {
      from = "none";
    } else if (from == "none") {
      from = size_text(row.at("object_bytes"));
    }
  }
  return from;
}

Rows crossovers_of(const Rows& rows) {
  Rows found;
  for (const Json& row : rows) {
    Json labels = labels_of(row, {"scheme", "request", "connections"});
    if (find(found, labels) != nullptr) continue;
    const Rows ascending = where(rows, labels);
    for (const double bound : {1.0, 1.25, 1.5, 2.0}) {
      labels[fmt::format("from_{:.2f}", bound)] = crossover(ascending, bound);
    }
    found.push_back(std::move(labels));
  }
  return found;
}

// Inline and striped, side by side.
Rows pivot(const Rows& measured) {
  Rows rows = side_by_side(measured, kLabels, "path");
  for (Json& row : rows) {
    for (const char* path : {"inline", "striped"}) {
      Json& of_path = row[path];
      of_path["cpu_us"] = number(of_path, "front_cpu_us") + number(of_path, "back_cpu_us");
    }
    // By time: over 1 where inline is faster.
    row["striped_over_inline"] = ratio(row["inline"], row["striped"], "per_second");
    row["cpu_striped_over_inline"] = ratio(row["striped"], row["inline"], "cpu_us");
  }
  return rows;
}

Result<Report> run(CrossoverOptions& o) {
  if (o.quick) {
    o.sizes = {"1KiB", "64KiB"};
    o.rounds = 1;
    o.round_ms = 30;
  }
  const auto sizes = TRY(parse_sizes(o.sizes));
  if (std::ranges::max(sizes) > size_t{kInlineMaxBytes}) {
    return cli::fail("no object above 1 MiB is stored whole: {}",
                     size_text(std::ranges::max(sizes)));
  }
  const auto schemes = TRY(parse_schemes(o.schemes));
  const auto testbed = TRY(Testbed::create(o.port));
  std::vector<std::unique_ptr<ObjectBytes>> objects;
  objects.reserve(sizes.size());
  for (const size_t bytes : sizes) objects.push_back(std::make_unique<ObjectBytes>(bytes));
  std::vector<Group> groups;
  for (const std::string& scheme : o.schemes) {
    TRY(add_groups(o, scheme, *testbed, objects, groups));
  }
  const auto measured = TRY(measure(groups, {.rounds = o.rounds}));
  const Rows rows = pivot(measured);
  const Rows crossovers = crossovers_of(rows);

  Report report;
  report.json = {
      {"bench", "crossover"}, {"nodes", o.nodes}, {"cases", rows}, {"crossovers", crossovers}};
  for (size_t s = 0; s < schemes.size(); ++s) {
    const std::string& name = o.schemes[s];
    for (const int connections : o.connections) {
      report.tables.push_back(table_of_scheme(schemes[s], name, connections, rows));
    }
    const Chart frame{.title = "Striped over inline, " + name,
                      .x_label = "object",
                      .y_label = "time, ratio",
                      .lines = true};
    std::string file = "crossover-" + name;
    std::ranges::replace_if(file, [](char c) { return c == ':' || c == ','; }, '-');
    report.charts.emplace_back(
        std::move(file), chart_of(frame, where(rows, {{"scheme", name}}), "{object_bytes bytes}",
                                  "{request}, {connections} conn.", "striped_over_inline"));
  }
  report.show(
      "The least size from which on striping takes at most so many times as long as storing whole.",
      "scheme | request | connections | 1.0 = from_1.00 | 1.25 = from_1.25 | 1.5 = from_1.50 | 2.0 "
      "= from_2.00",
      crossovers);
  return report;
}

}  // namespace

void add_crossover(Commands& commands) {
  add_experiment(commands, "crossover",
                 "From which size on striping costs no more than storing whole", run);
}

}  // namespace elastripe::bench
