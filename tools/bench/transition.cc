// elastripe bench transition: the experiments of the ERS paper, on a cluster of real processes on
// this machine: how long one object's transition takes by size, parameters, bandwidth and order
// selection; how fast many go; and what clients feel meanwhile.
#include <algorithm>

#include "tools/bench/experiment.h"
#include "tools/bench/own_network.h"
#include "tools/bench/transition_cases.h"
#include "tools/bench/transition_pivots.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr Parameters kDefault = kPaperSets[0];

struct TransitionOptions : Options {
  explicit TransitionOptions(CLI::App& app);
  Texts& only = texts("--only", {}, "Experiments to make, with commas");
  int& repetitions = number("--repetitions", 25, "Of each single transition", 1, 10'000);
  int& objects = number("--objects", 0,
                        "Objects of the bulk experiment, of all layouts together; 0: up to 10000, "
                        "as free memory allows",
                        0, 10'000'000);
  bool& quick = quick_flag();
  Result<> network = cli::fail("not asked for");
};

// Those of one set, on a cluster of their own.
Result<Rows> measure_kinds(TransitionOptions& o, const std::vector<TransitionKind>& kinds) {
  if (kinds.empty()) return Rows();
  return measure_transitions(kinds, o.repetitions, o.port, o.network.has_value());
}

Result<Rows> measure_sets(TransitionOptions& o, const std::vector<Parameters>& sets,
                          const std::vector<size_t>& sizes,
                          const std::vector<uint64_t>& rates = {0}) {
  Rows rows;
  for (const Parameters& set : sets) {
    std::ranges::move(TRY(measure_kinds(o, kinds_of(set, sizes, rates))), std::back_inserter(rows));
  }
  return rows;
}

std::vector<Parameters> paper_sets(const TransitionOptions& o) {
  return {kPaperSets.begin(), o.quick ? kPaperSets.begin() + 1 : kPaperSets.end()};
}
std::vector<size_t> paper_sizes(const TransitionOptions& o) {
  return o.quick ? std::vector{kMiB} : std::vector{kMiB, 4 * kMiB};
}

// The paper's two sets at 1 MiB, and the largest set.
Result<Rows> measure_bandwidth(TransitionOptions& o) {
  if (!o.network) return Rows{};
  if (o.quick) return measure_sets(o, {kDefault}, {kMiB}, {1000 * kMbit, 0});
  const std::vector<uint64_t> rates{
      200 * kMbit, 500 * kMbit, 1000 * kMbit, 2000 * kMbit, 5000 * kMbit, 10'000 * kMbit, 0};
  auto rows = TRY(measure_sets(o, {kDefault, kPaperSets[1]}, {kMiB}, rates));
  std::ranges::move(TRY(measure_sets(o, {kPaperSets.back()}, {4 * kMiB}, rates)),
                    std::back_inserter(rows));
  return rows;
}

// Backward and ers-2, where the selection changes how many blocks travel.
Result<Rows> measure_order(TransitionOptions& o) {
  Rows rows;
  for (const Parameters& set : paper_sets(o)) {
    std::vector<TransitionKind> kinds;
    for (TransitionKind& kind : kinds_of(set, paper_sizes(o))) {
      if (kind.layout != "ers-2") continue;
      TransitionCall call{.direction = Direction::kBackward, .execution = kind.execution};
      const auto with = TRY(planned_blocks(set, kind.layout, call));
      call.order_selection = false;
      if (with == TRY(planned_blocks(set, kind.layout, call))) continue;
      kinds.push_back(kind);
      kind.order_selection = false;
      kinds.push_back(kind);
    }
    std::ranges::move(TRY(measure_kinds(o, kinds)), std::back_inserter(rows));
  }
  return rows;
}

// By the names of --only, in the order in which they are made.
struct Part {
  const char* name;
  Result<Rows> (*measure)(TransitionOptions& o);
};
constexpr std::array kParts{
    Part{"sizes",
         [](TransitionOptions& o) {
           std::vector<size_t> sizes;
           for (size_t bytes = kKiB; bytes <= 4 * kMiB; bytes *= o.quick ? 64 : 4) {
             sizes.push_back(bytes);
           }
           return measure_sets(o, {kDefault}, sizes);
         }},
    Part{"small",
         [](TransitionOptions& o) {
           return measure_small_objects(kDefault, o.repetitions, o.port);
         }},
    Part{"parameters",  // all sets of the paper, at both of its sizes
         [](TransitionOptions& o) { return measure_sets(o, paper_sets(o), paper_sizes(o)); }},
    Part{"bandwidth", measure_bandwidth},
    Part{"order", measure_order},
    Part{"bulk",
         [](TransitionOptions& o) {
           return measure_bulk(kDefault, o.quick ? 64 * kKiB : kMiB,
                               o.objects == 0 && o.quick ? 60 : o.objects, o.port);
         }},
    Part{"beside",
         [](TransitionOptions& o) {
           return measure_beside(kDefault, o.quick ? 20 : 300, o.quick ? 1 : 5, o.port);
         }},
};

TransitionOptions::TransitionOptions(CLI::App& app) : Options(app) {
  Texts names;
  for (const Part& part : kParts) names.emplace_back(part.name);
  app.get_option("--only")->delimiter(',')->check(CLI::IsMember(names));
}

Result<Report> run(TransitionOptions& o) {
  if (o.quick) o.repetitions = 2;
  o.network = enter_own_network();
  Report report;
  report.notes.push_back(
      o.network ? "Everything runs in a network of its own, on its loopback; a rate is a limit of "
                  "that loopback (tc tbf), shared by all that goes in both directions."
                : fmt::format("No rates of the network: {}.", o.network.error()));
  report.json = {{"network", report.notes.back()}, {"repetitions", o.repetitions}};
  std::map<std::string, Rows> rows;
  for (const Part& part : kParts) {
    if (o.only.empty() || std::ranges::find(o.only, part.name) != o.only.end()) {
      fmt::print(stderr, "{}\n", part.name);
      auto measured = part.measure(o);
      if (!measured) return cli::fail("{}: {}", part.name, measured.error());
      rows[part.name] = std::move(*measured);
    }
    report.json[part.name] = rows[part.name];
  }
  show_transitions(report, rows);
  return report;
}

}  // namespace

void add_transition(Commands& commands) {
  add_experiment(commands, "transition",
                 "Measures transitions of srs, ers-1 and ers-2, as the ERS paper does", run);
}

}  // namespace elastripe::bench
