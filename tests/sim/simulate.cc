// elastripe-simulate: runs schedules of the simulator and reports. See scripts/simulate.
#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/log.h"
#include "tests/sim/history_file.h"
#include "tests/sim/linearizability.h"
#include "tests/sim/runner.h"
#include "tests/sim/scale.h"

namespace elastripe::sim {
namespace {

constexpr const char* kUsage =
    "usage: elastripe-simulate [--seeds N] [--first SEED] [--seed SEED] [--scenario NAME]\n"
    "                          [--mutant NAME] [--trace SEED] [--keep-going] [--list]\n"
    "                          [--histories DIR]\n"
    "       elastripe-simulate --scale PROXIES,NODES[,PARTITIONS]\n"
    "       elastripe-simulate --judge FILE\n"
    "Without --scenario every random scenario runs, N seeds each. --histories writes what the\n"
    "clients of each schedule saw to DIR/SCENARIO-SEED.jsonl, one operation a line.\n"
    "--scale tells what heartbeats, maps and sync of a large cluster cost.\n"
    "--judge tells whether such a file is linearizable, also one of real processes\n"
    "(scripts/soak --history). It ends with 1 if it is not, and with 3 if that was not found "
    "out.\n";

struct Options {
  uint64_t seeds = 200;
  uint64_t first = 1;
  std::string scenario;
  std::string mutant;
  std::optional<uint64_t> trace;
  bool keep_going = false;
  std::string histories;  // a directory; empty: none is written
  std::optional<ScaleOptions> scale;
  std::string judge;  // a file; empty: none is judged
};

[[noreturn]] void usage(const std::string& why) {
  fmt::print(stderr, "{}\n{}", why, kUsage);
  std::exit(2);
}

uint64_t number(std::string_view flag, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    usage(fmt::format("{}: not a number: {}", flag, text));
  }
  return value;
}

ScaleOptions scale(std::string_view text) {
  std::vector<int> numbers;
  for (const auto part : std::views::split(text, ',')) {
    numbers.push_back(static_cast<int>(number("--scale", std::string_view(part))));
  }
  const bool is_good = (numbers.size() == 2 || numbers.size() == 3) && numbers[0] > 0 &&
                       numbers[0] <= 1000 && numbers[1] >= 10 && numbers[1] <= 5000;
  if (!is_good) usage("--scale: expected PROXIES,NODES or PROXIES,NODES,PARTITIONS");
  ScaleOptions options{.proxies = numbers[0], .nodes = numbers[1]};
  if (numbers.size() == 3) options.partitions = static_cast<unsigned>(numbers[2]);
  return options;
}

void list() {
  for (const Scenario& scenario : scenarios()) {
    fmt::print("{:16} {}\n", scenario.name, scenario.about);
  }
  fmt::print("\nscenario         mutant                 rule\n");
  for (const Rule& rule : rules()) {
    fmt::print("{:16} {:22} {}\n", rule.scenario.name, rule.mutant_name, rule.sentence);
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      fmt::print("{}", kUsage);
      std::exit(0);
    }
    if (flag == "--list") {
      list();
      std::exit(0);
    }
    if (flag == "--keep-going") {
      options.keep_going = true;
      continue;
    }
    if (i + 1 == argc) usage(fmt::format("{} needs a value, or is unknown", flag));
    const std::string_view value = argv[++i];
    if (flag == "--seeds") {
      options.seeds = number(flag, value);
    } else if (flag == "--seed") {
      options.first = number(flag, value);
      options.seeds = 1;
    } else if (flag == "--first") {
      options.first = number(flag, value);
    } else if (flag == "--trace") {
      options.trace = number(flag, value);
    } else if (flag == "--scenario") {
      options.scenario = value;
    } else if (flag == "--scale") {
      options.scale = scale(value);
    } else if (flag == "--judge") {
      options.judge = value;
    } else if (flag == "--histories") {
      options.histories = value;
    } else if (flag == "--mutant") {
      options.mutant = value;
    } else {
      usage(fmt::format("unknown flag {}", flag));
    }
  }
  return options;
}

std::vector<Scenario> chosen(const Options& options) {
  if (!options.scenario.empty()) {
    const Scenario* scenario = find_scenario(options.scenario);
    if (scenario == nullptr) usage("no such scenario (--list): " + options.scenario);
    return {*scenario};
  }
  if (!options.mutant.empty()) return {find_rule(options.mutant)->scenario};
  return {scenarios().begin(), scenarios().end()};
}

void choose_mutant(const Options& options) {
  if (options.mutant.empty()) return;
  const Rule* rule = find_rule(options.mutant);
  if (rule == nullptr) usage("no such mutant (--list): " + options.mutant);
#ifdef ELASTRIPE_MUTANTS
  active_mutant = rule->mutant;
#else
  usage("this build has no mutants: use the preset mutants");
#endif
}

int trace(const Scenario& scenario, uint64_t seed) {
  const RunResult result = World(scenario, seed, true).run();
  for (const std::string& line : result.trace) fmt::print("{}\n", line);
  fmt::print("scenario {} seed {}: {} {}\n", scenario.name, seed, name(result.fault), result.what);
  return result.ok() ? 0 : 1;
}

int judge_file(const std::string& path) {
  const auto history = read_history(path);
  if (!history) usage("--judge: " + history.error().message);
  const Judgement judgement = judge(*history);
  for (const std::string& operation : judgement.refused) {
    fmt::print("REFUSED {}\n", operation);
  }
  for (const std::string& key : judgement.undecided) fmt::print("UNDECIDED key {}\n", key);
  fmt::print("operations {}  keys {}  refused {}  undecided {}\n", history->size(), judgement.keys,
             judgement.refused.size(), judgement.undecided.size());
  if (!judgement.refused.empty()) return 1;
  return judgement.undecided.empty() ? 0 : 3;
}

int run(const Options& options) {
  if (!options.judge.empty()) return judge_file(options.judge);
  if (options.scale) return simulate_scale(*options.scale);
  choose_mutant(options);
  const std::vector<Scenario> all = chosen(options);
  if (!options.histories.empty()) {
    std::error_code problem;
    std::filesystem::create_directories(options.histories, problem);
    if (problem) usage(fmt::format("--histories: {}", problem.message()));
  }
  if (options.trace) {
    if (all.size() != 1) usage("--trace needs --scenario or --mutant");
    return trace(all.front(), *options.trace);
  }
  bool failed = false;
  for (const Scenario& scenario : all) {
    const auto start = std::chrono::steady_clock::now();
    const auto write = [&](uint64_t seed, const History& history) {
      if (options.histories.empty()) return;
      const auto path = std::filesystem::path(options.histories) /
                        fmt::format("{}-{}.jsonl", scenario.name, seed);
      if (!write_history(history, path)) usage("cannot write " + path.string());
    };
    const Campaign campaign = run_seeds(scenario, options.first, options.seeds,
                                        options.keep_going ? SIZE_MAX : 1, {}, write);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fmt::print("== {}: seeds {} to {}, {:.1f} s\n{}", scenario.name, options.first,
               options.first + campaign.totals.schedules - 1, took.count(), report(campaign));
    size_t shown = 0;
    for (const Failure& failure : campaign.failures) {
      failed = true;
      if (++shown > 20) break;
      fmt::print("FAILED seed {}: {}: {}\n", failure.seed, name(failure.fault), failure.what);
      if (shown == 1) {
        const std::string mutant = options.mutant.empty() ? "" : " --mutant " + options.mutant;
        fmt::print(
            "  again: scripts/simulate --scenario {0}{1} --seed {2}\n"
            "  event by event: scripts/simulate --scenario {0}{1} --trace {2}\n",
            scenario.name, mutant, failure.seed);
      }
    }
    for (const Failure& end : campaign.given_up | std::views::take(20)) {
      fmt::print("given up: seed {}: {}\n", end.seed, end.what);
    }
    std::fflush(stdout);
  }
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace elastripe::sim

int main(int argc, char** argv) {
  elastripe::set_log_level(elastripe::LogLevel::kOff);
  return elastripe::sim::run(elastripe::sim::parse(argc, argv));
}
