// An experiment as a command: its options, its run, and what is made of its report.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "tools/bench/report.h"
#include "tools/bench/try.h"
#include "tools/cli/commands.h"

namespace elastripe::bench {

using Numbers = std::vector<int>;
using Texts = std::vector<std::string>;

// Options are declared as members, each with what it is if nobody says:
//
//   struct ScalingOptions : Options {
//     using Options::Options;
//     int& nodes = number("--nodes", 9, "Nodes of each cluster", 2, 100);
//   };
class Options {
 public:
  explicit Options(CLI::App& command) : command_(command) {}
  virtual ~Options() = default;
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  // One number, or several with commas between them.
  template <class T>
  T& number(const char* name, T initial, const char* what, int least, int most) {
    T& value = keep(std::move(initial));
    auto* option = command_.add_option(name, value, what)->check(CLI::Range(least, most));
    option->capture_default_str();
    if constexpr (!std::is_arithmetic_v<T>) option->delimiter(',');
    return value;
  }
  std::string& text(const char* name, std::string initial, const char* what);
  Texts& texts(const char* name, Texts initial, const char* what);  // repeatable
  bool& flag(const char* name, const char* what);
  bool& quick_flag() { return flag("--quick", "A few seconds: to see that it works"); }
  int& rounds_of(int rounds) {
    return number("--rounds", rounds, "Rounds, in which all take turns", 1, 1000);
  }
  int& round_ms_of(int ms) { return number("--round-ms", ms, "Length of one load", 10, 60'000); }
  // The directory of another build's programs, which is measured beside ours.
  std::string& baseline_directory();

 protected:
  CLI::App& command() { return command_; }

 private:
  template <class T>
  T& keep(T value) {
    auto kept = std::make_shared<T>(std::move(value));
    kept_.push_back(kept);
    return *kept;
  }

  CLI::App& command_;
  std::vector<std::shared_ptr<void>> kept_;  // the values

 public:
  int& port =
      number("--port", 15311, "The first of the ports it takes; taken ones are skipped", 1, 65000);
  std::string& output = text("--output", "", "Also writes the JSON to this file");
  std::string& svg = text("--svg", "", "Also writes charts into this directory");
};

// `elastripe bench`, and where the exit status goes.
struct Commands {
  CLI::App& bench;
  cli::Globals& globals;
};

// Lets the command run the experiment and publish what it reports.
void finish_command(CLI::App& command, Commands& commands, std::shared_ptr<Options> options,
                    std::function<cli::Result<Report>()> experiment);

// A subcommand, or `elastripe bench` itself without a name.
template <class O>
void add_experiment(Commands& commands, const char* name, const char* what,
                    cli::Result<Report> (*run)(O& options)) {
  CLI::App& command = name == nullptr ? commands.bench : *commands.bench.add_subcommand(name, what);
  auto options = std::make_shared<O>(command);
  finish_command(command, commands, options, [options, run] { return run(*options); });
}

void add_crossover(Commands& commands);
void add_degraded(Commands& commands);
void add_dialects(Commands& commands);
void add_hostile(Commands& commands);
void add_large(Commands& commands);
void add_overview(Commands& commands);  // `elastripe bench` alone
void add_reclaim(Commands& commands);
void add_repair(Commands& commands);
void add_scaling(Commands& commands);
void add_small(Commands& commands);
void add_sync(Commands& commands);
void add_transition(Commands& commands);
void add_update(Commands& commands);
void add_ycsb(Commands& commands);

}  // namespace elastripe::bench
