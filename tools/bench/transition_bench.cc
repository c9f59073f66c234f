// elastripe bench transition: the experiments of the ERS paper on this machine.
#include "tools/bench/transition_bench.h"

#include <fmt/core.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>

#include "tools/bench/transition_published.h"
#include "tools/bench/transition_report.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;
constexpr uint64_t kMbit = 1'000'000;
constexpr int kMostBulkObjects = 10'000;

const std::vector<std::string> kExperiments{"sizes", "parameters", "bandwidth",
                                            "order", "bulk",       "beside"};

struct Arguments {
  std::vector<std::string> only;
  bool quick = false;
  int repetitions = 25;
  int objects = 0;
  int port = 15311;
  std::string output;
  std::string svg;
};

std::atomic<bool> interrupted{false};
void on_interrupt(int) { interrupted = true; }

// What is measured under one set of parameters, on one cluster.
struct Group {
  Parameters parameters;
  std::vector<size_t> sizes;
};

class TransitionBench {
 public:
  explicit TransitionBench(const Arguments& arguments)
      : arguments_(arguments),
        repetitions_(arguments.quick ? 2 : arguments.repetitions),
        network_(OwnNetwork::enter()) {
    results_.repetitions = repetitions_;
  }

  Result<TransitionResults> run() {
    results_.network =
        network_ ? "Everything runs in a network of its own, on its loopback; a rate is a limit of "
                   "that loopback (tc tbf), shared by all that goes in both directions."
                 : fmt::format("No rates of the network: {}.", network_.error());
    for (const std::string& experiment : kExperiments) {
      if (!arguments_.only.empty() &&
          std::ranges::find(arguments_.only, experiment) == arguments_.only.end()) {
        continue;
      }
      fmt::print(stderr, "{}\n", experiment);
      if (auto done = run_experiment(experiment); !done) {
        return cli::fail("{}: {}", experiment, done.error());
      }
    }
    return std::move(results_);
  }

 private:
  Result<> run_experiment(const std::string& experiment) {
    if (experiment == "sizes") {
      std::vector<size_t> sizes;
      for (size_t bytes = kKiB; bytes <= 4 * kMiB; bytes *= arguments_.quick ? 64 : 4) {
        sizes.push_back(bytes);
      }
      return measure(results_.sizes, {{kPaperSets[0], sizes}});
    }
    if (experiment == "parameters") return measure(results_.parameters, paper_groups());
    if (experiment == "bandwidth") return bandwidth();
    if (experiment == "order") return order();
    if (experiment == "bulk") return bulk();
    return beside();
  }

  // All sets of the paper, at both of its sizes.
  std::vector<Group> paper_groups() const {
    if (arguments_.quick) return {{kPaperSets[0], {kMiB}}};
    std::vector<Group> groups;
    groups.reserve(kPaperSets.size());
    for (const Parameters& set : kPaperSets) groups.push_back({set, {kMiB, 4 * kMiB}});
    return groups;
  }

  // Cases of all layouts and executions, or those that are given.
  Result<> measure(std::vector<TransitionCase>& results, const std::vector<Group>& groups,
                   const std::vector<uint64_t>& rates = {0}) {
    for (const Group& group : groups) {
      const auto done = measure_on_cluster(results, cases_of(group.parameters, group.sizes, rates));
      if (!done) return done;
    }
    return {};
  }

  Result<> measure_on_cluster(std::vector<TransitionCase>& results,
                              std::vector<TransitionCase> cases) {
    const Parameters& parameters = cases.front().parameters;
    fmt::print(stderr, "  {}\n", parameters.text());
    const auto cluster = TransitionCluster::start(
        {.parameters = parameters, .port = arguments_.port, .memory_mb = 256, .more = {}});
    if (!cluster) return std::unexpected(cluster.error());
    const auto done =
        measure_cases(**cluster, cases, repetitions_, network_ ? &*network_ : nullptr, interrupted);
    if (!done) return done;
    std::ranges::move(cases, std::back_inserter(results));
    return {};
  }

  // The paper's two sets at 1 MiB, and the largest set.
  Result<> bandwidth() {
    if (!network_) return {};
    std::vector<uint64_t> rates{
        200 * kMbit, 500 * kMbit, 1000 * kMbit, 2000 * kMbit, 5000 * kMbit, 10'000 * kMbit, 0};
    std::vector<Group> groups{
        {kPaperSets[0], {kMiB}}, {kPaperSets[1], {kMiB}}, {kPaperSets.back(), {4 * kMiB}}};
    if (arguments_.quick) {
      rates = {1000 * kMbit, 0};
      groups.resize(1);
    }
    return measure(results_.bandwidth, groups, rates);
  }

  // Backward and ers-2, where the selection changes how many blocks travel.
  Result<> order() {
    for (const Group& group : paper_groups()) {
      std::vector<TransitionCase> cases;
      for (TransitionCase& c : cases_of(group.parameters, group.sizes)) {
        if (c.layout != "ers-2") continue;
        const auto with =
            planned_blocks(c.parameters, c.layout, Direction::kBackward, c.execution, true);
        const auto without =
            planned_blocks(c.parameters, c.layout, Direction::kBackward, c.execution, false);
        if (!with || !without) return cli::fail("no plan of {}", c.parameters.text());
        if (*with == *without) continue;
        cases.push_back(c);
        c.order_selection = false;
        cases.push_back(std::move(c));
      }
      if (cases.empty()) continue;
      if (auto done = measure_on_cluster(results_.order, std::move(cases)); !done) return done;
    }
    return {};
  }

  Result<> bulk() {
    BulkSettings settings;
    settings.port = arguments_.port;
    settings.object_bytes = arguments_.quick ? 64 * kKiB : kMiB;
    settings.objects = arguments_.objects > 0 ? arguments_.objects
                       : arguments_.quick     ? 60
                                              : objects_that_fit(settings, kMostBulkObjects);
    fmt::print(stderr, "  {} objects\n", settings.objects);
    auto passes = measure_bulk(settings, interrupted);
    if (!passes) return std::unexpected(passes.error());
    results_.bulk = std::move(*passes);
    return {};
  }

  Result<> beside() {
    BesideSettings settings;
    settings.port = arguments_.port;
    if (arguments_.quick) {
      settings.objects = 20;
      settings.rounds = 1;
    }
    auto cases = measure_beside(settings, interrupted);
    if (!cases) return std::unexpected(cases.error());
    results_.beside = std::move(*cases);
    return {};
  }

  const Arguments arguments_;
  const int repetitions_;
  Result<OwnNetwork> network_;
  TransitionResults results_;
};

Result<> run(const Arguments& arguments, bool as_json) {
  ::signal(SIGINT, on_interrupt);
  ::signal(SIGTERM, on_interrupt);
  const auto results = TransitionBench(arguments).run();
  if (!results) return std::unexpected(results.error());
  const Json json = json_of(*results);
  if (as_json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}", tables_of(*results));
  }
  if (!arguments.output.empty()) {
    std::ofstream file(arguments.output);
    file << json.dump(2) << "\n";
    file.close();
    if (!file) return cli::fail("cannot write {}", arguments.output);
  }
  if (arguments.svg.empty()) return {};
  return write_charts(arguments.svg, *results);
}

}  // namespace

void add_transition_bench_command(CLI::App& bench, cli::Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = bench.add_subcommand(
      "transition", "Measures transitions of srs, ers-1 and ers-2, as the ERS paper does");
  command->add_option("--only", arguments->only, "Experiments to make; repeatable or with commas")
      ->delimiter(',')
      ->check(CLI::IsMember(kExperiments));
  command->add_flag("--quick", arguments->quick, "A few seconds: to see that it works");
  command->add_option("--repetitions", arguments->repetitions, "Of each single transition")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command
      ->add_option("--objects", arguments->objects,
                   "Objects of the bulk experiment, of all layouts together; 0: up to 10000, as "
                   "free memory allows")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  command->add_option("--port", arguments->port, "The first of the ports it takes")
      ->check(CLI::Range(1, 65000))
      ->capture_default_str();
  command->add_option("--output", arguments->output, "Also writes the JSON to this file");
  command->add_option("--svg", arguments->svg, "Also writes charts into this directory");
  command->callback([arguments, &bench, &globals] {
    for (const CLI::Option* option : bench.get_options()) {  // the parser takes them for ours
      if (option->count() > 0) throw CLI::ExtrasError({option->get_name()});
    }
    report(globals, run(*arguments, globals.json));
  });
}

}  // namespace elastripe::bench
