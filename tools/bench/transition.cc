// elastripe bench transition: the experiments of the ERS paper, on a cluster of real processes on
// this machine: how long one object's transition takes by size, parameters, bandwidth and order
// selection; how fast many go; and what clients feel meanwhile.
#include <algorithm>

#include "tools/bench/experiment.h"
#include "tools/bench/transition_cases.h"
#include "tools/bench/transition_pivots.h"
#include "tools/bench/transition_published.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr uint64_t kMbit = 1'000'000;
constexpr Parameters kDefault = kPaperSets[0];

struct TransitionOptions : Options {
  using Options::Options;
  Texts& only = texts("--only", {}, "Experiments to make, with commas");
  int& repetitions = number("--repetitions", 25, "Of each single transition", 1, 10'000);
  int& objects = number("--objects", 0,
                        "Objects of the bulk experiment, of all layouts together; 0: up to 10000, "
                        "as free memory allows",
                        0, 10'000'000);
  bool& quick = quick_flag();
};

class TransitionBench {
 public:
  explicit TransitionBench(const TransitionOptions& options)
      : options_(options),
        repetitions_(options.quick ? 2 : options.repetitions),
        network_(OwnNetwork::enter()) {}

  // By the names of --only, in the order in which they are made.
  using Part = Result<Rows> (TransitionBench::*)();
  static constexpr std::array<std::pair<const char*, Part>, 7> parts() {
    return {{{"sizes", &TransitionBench::sizes},
             {"small", &TransitionBench::small},
             {"parameters", &TransitionBench::parameters},
             {"bandwidth", &TransitionBench::bandwidth},
             {"order", &TransitionBench::order},
             {"bulk", &TransitionBench::bulk},
             {"beside", &TransitionBench::beside}}};
  }

  Result<Report> run() {
    Report report;
    report.notes.push_back(
        network_ ? "Everything runs in a network of its own, on its loopback; a rate is a limit of "
                   "that loopback (tc tbf), shared by all that goes in both directions."
                 : fmt::format("No rates of the network: {}.", network_.error()));
    report.json = {{"network", report.notes.back()}, {"repetitions", repetitions_}};
    std::map<std::string, Rows> rows;
    for (const auto& [name, part] : parts()) {
      const auto& only = options_.only;
      if (only.empty() || std::ranges::find(only, name) != only.end()) {
        fmt::print(stderr, "{}\n", name);
        auto measured = (this->*part)();
        if (!measured) return cli::fail("{}: {}", name, measured.error());
        rows[name] = std::move(*measured);
      }
      report.json[name] = rows[name];
    }
    pivot(rows, report);
    return report;
  }

 private:
  static void pivot(std::map<std::string, Rows>& rows, Report& report) {
    show_layouts(report, "Object sizes (the paper's Experiment 2)", rows["sizes"]);
    show_small_objects(report, rows["small"]);
    show_layouts(report, "Parameters (the paper's Experiment 3)", rows["parameters"]);
    show_wire(report, rows[rows["parameters"].empty() ? "sizes" : "parameters"]);
    show_layouts(report, "Bandwidth (the paper's Experiment 4)", rows["bandwidth"]);
    add_layout_goals(report, rows["parameters"]);
    add_layout_goals(report, rows["bandwidth"]);
    show_order(report, rows["order"]);
    show_bulk(report, rows["bulk"]);
    show_beside(report, rows["beside"]);
    chart_sizes(report, rows["sizes"]);
    chart_parameters(report, rows["parameters"]);
    chart_bandwidth(report, rows["bandwidth"]);
  }

  Result<Rows> sizes() {
    std::vector<size_t> sizes;
    for (size_t bytes = kKiB; bytes <= 4 * kMiB; bytes *= options_.quick ? 64 : 4) {
      sizes.push_back(bytes);
    }
    return measure_sets({kDefault}, sizes);
  }

  Result<Rows> small() { return measure_small_objects(kDefault, repetitions_, options_.port); }

  // All sets of the paper, at both of its sizes.
  Result<Rows> parameters() { return measure_sets(paper_sets(), paper_sizes()); }

  // The paper's two sets at 1 MiB, and the largest set.
  Result<Rows> bandwidth() {
    if (!network_) return Rows{};
    if (options_.quick) return measure_sets({kDefault}, {kMiB}, {1000 * kMbit, 0});
    const std::vector<uint64_t> rates{
        200 * kMbit, 500 * kMbit, 1000 * kMbit, 2000 * kMbit, 5000 * kMbit, 10'000 * kMbit, 0};
    auto rows = TRY(measure_sets({kDefault, kPaperSets[1]}, {kMiB}, rates));
    const auto more = TRY(measure_sets({kPaperSets.back()}, {4 * kMiB}, rates));
    rows.insert(rows.end(), more.begin(), more.end());
    return rows;
  }

  // Backward and ers-2, where the selection changes how many blocks travel.
  Result<Rows> order() {
    Rows rows;
    for (const Parameters& set : paper_sets()) {
      std::vector<TransitionKind> kinds;
      for (TransitionKind& kind : kinds_of(set, paper_sizes())) {
        if (kind.layout != "ers-2") continue;
        const auto blocks = [&](bool selection) {
          return planned_blocks(set, kind.layout, Direction::kBackward, kind.execution, selection);
        };
        const auto with = blocks(true);
        const auto without = blocks(false);
        if (!with || !without) return cli::fail("no plan of {}", set.text());
        if (*with == *without) continue;
        kinds.push_back(kind);
        kind.order_selection = false;
        kinds.push_back(kind);
      }
      TRY(add(rows, kinds));
    }
    return rows;
  }

  Result<Rows> bulk() {
    const int objects = options_.objects == 0 && options_.quick ? 60 : options_.objects;
    return measure_bulk(kDefault, options_.quick ? 64 * kKiB : kMiB, objects, options_.port);
  }

  Result<Rows> beside() {
    return measure_beside(kDefault, options_.quick ? 20 : 300, options_.quick ? 1 : 5,
                          options_.port);
  }

  std::vector<Parameters> paper_sets() const {
    if (options_.quick) return {kDefault};
    return {kPaperSets.begin(), kPaperSets.end()};
  }
  std::vector<size_t> paper_sizes() const {
    return options_.quick ? std::vector{kMiB} : std::vector{kMiB, 4 * kMiB};
  }

  Result<Rows> measure_sets(const std::vector<Parameters>& sets, const std::vector<size_t>& sizes,
                            const std::vector<uint64_t>& rates = {0}) {
    Rows rows;
    for (const Parameters& set : sets) {
      TRY(add(rows, kinds_of(set, sizes, rates)));
    }
    return rows;
  }

  // Those of one set, on a cluster of their own.
  Result<> add(Rows& rows, const std::vector<TransitionKind>& kinds) {
    if (kinds.empty()) return {};
    auto measured = TRY(
        measure_transitions(kinds, repetitions_, options_.port, network_ ? &*network_ : nullptr));
    std::ranges::move(measured, std::back_inserter(rows));
    return {};
  }

  const TransitionOptions& options_;
  const int repetitions_;
  Result<OwnNetwork> network_;
};

struct CheckedOptions : TransitionOptions {
  explicit CheckedOptions(CLI::App& app) : TransitionOptions(app) {
    Texts names;
    for (const auto& [name, part] : TransitionBench::parts()) names.emplace_back(name);
    app.get_option("--only")->delimiter(',')->check(CLI::IsMember(names));
  }
};

Result<Report> run(CheckedOptions& o) { return TransitionBench(o).run(); }

}  // namespace

void add_transition(Commands& commands) {
  add_experiment(commands, "transition",
                 "Measures transitions of srs, ers-1 and ers-2, as the ERS paper does", run);
}

}  // namespace elastripe::bench
