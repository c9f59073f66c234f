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
                    const std::vector<ObjectBytes>& objects, std::vector<Group>& groups) {
  const auto cluster = TRY(testbed.start_cluster(
      scheme, {.nodes = o.nodes,
               .scheme = scheme,
               .pools = {{"inline/", scheme, kInlineMaxBytes}, {"striped/", scheme, 0}}}));
  for (const ObjectBytes& of_size : objects) {
    std::vector<Target> paths;
    for (const char* path : {"inline", "striped"}) {
      Target& target = paths.emplace_back(cluster.target);
      target.key_prefix = fmt::format("{}/{}/", path, of_size.object_bytes());
      target.name = path;
      TRY(store_records(target, of_size, kRecords));
    }
    for (const int connections : o.connections) {
      const LoadSettings settings{.connections = connections,
                                  .duration = std::chrono::milliseconds(o.round_ms)};
      const Json labels{{"scheme", scheme},
                        {"object_bytes", of_size.object_bytes()},
                        {"connections", connections}};
      for (const Operation operation : {Operation::kUpdate, Operation::kRead}) {
        groups.push_back(load_cases(
            uniform_loads(labels, operation, paths, settings, of_size, kRecords, groups.size())));
      }
    }
  }
  return {};
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
  for (const auto& [_, ascending] : split(rows, "{scheme}, {request}, {connections}")) {
    Json& row =
        found.emplace_back(labels_of(ascending.front(), {"scheme", "request", "connections"}));
    for (const double bound : {1.0, 1.25, 1.5, 2.0}) {
      row[fmt::format("from_{:.2f}", bound)] = crossover(ascending, bound);
    }
  }
  return found;
}

// Inline and striped, side by side.
Rows pivot(const Rows& measured) {
  Rows rows = side_by_side(measured, kLabels, "server");
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
  TRY(parse_schemes(o.schemes));
  const auto testbed = TRY(Testbed::create(o.port));
  const std::vector<ObjectBytes> objects(sizes.begin(), sizes.end());
  std::vector<Group> groups;
  for (const std::string& scheme : o.schemes) {
    TRY(add_groups(o, scheme, *testbed, objects, groups));
  }
  const auto measured = TRY(measure(std::move(groups), {.rounds = o.rounds}));
  Rows rows = pivot(measured);
  const Rows crossovers = crossovers_of(rows);

  Report report;
  report.json = {{"nodes", o.nodes}, {"cases", rows}, {"crossovers", crossovers}};
  for (Json& row : rows) {
    const auto scheme = TRY(coding::parse_scheme(row["scheme"].get<std::string>()));
    row["inline_bytes"] = scheme.m + 1;
    row["striped_bytes"] = static_cast<double>(scheme.k + scheme.m) / scheme.k;
  }
  report.show(
      "{scheme}, connections: {connections}. Time of a request, median, and processor time of "
      "proxy\n"
      "and nodes. x is striped over inline, by requests a second. An inline object takes\n"
      "{inline_bytes} times its bytes, a striped one {striped_bytes .2} times.",
      "size = object_bytes bytes | request | inline us = inline/p50_us | striped us = "
      "striped/p50_us | x = striped_over_inline .2 | inline CPU us = inline/cpu_us | striped CPU "
      "us = striped/cpu_us | x = cpu_striped_over_inline .2",
      rows);
  report.chart("crossover-{scheme}",
               {.title = "Striped over inline, {scheme}",
                .x_label = "object",
                .y_label = "time, ratio",
                .lines = true},
               rows, "{object_bytes bytes}", "{request}, {connections} conn.",
               "striped_over_inline");
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
