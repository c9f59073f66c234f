#include "tools/bench/experiment.h"

#include <fmt/ranges.h>

#include <exception>

#include "tools/bench/object_client.h"
#include "tools/bench/runner.h"
#include "tools/bench/testbed.h"

namespace elastripe::bench {
namespace {

// The parser takes options of `elastripe bench` itself before a subcommand, or falls back on them.
void refuse_options_of(const CLI::App& bench) {
  for (const CLI::Option* option : bench.get_options()) {
    if (option->count() > 0 && option->get_name() != "--json") {
      throw CLI::ExtrasError({option->get_name()});
    }
  }
}

}  // namespace

std::string& Options::text(const char* name, std::string initial, const char* what) {
  std::string& value = keep(std::move(initial));
  command_.add_option(name, value, what)->capture_default_str();
  return value;
}

Texts& Options::texts(const char* name, Texts initial, const char* what) {
  Texts& values = keep(std::move(initial));
  command_.add_option(name, values, std::string(what) + "; repeatable")
      ->default_str(fmt::format("{}", fmt::join(values, " ")));
  return values;
}

bool& Options::flag(const char* name, const char* what) {
  bool& value = keep(false);
  command_.add_flag(name, value, what);
  return value;
}

std::string& Options::baseline_directory() {
  std::string& directory = text("--baseline", "",
                                "Directory of another build's elastripe-node and elastripe-proxy, "
                                "to be measured beside ours");
  command_.get_option("--baseline")->check(CLI::ExistingDirectory);
  return directory;
}

void finish_command(CLI::App& command, Commands& commands, std::shared_ptr<Options> options,
                    std::function<cli::Result<Report>()> experiment) {
  command.callback([commands, options, experiment = std::move(experiment), &command] {
    const bool is_bench = &command == &commands.bench;
    if (is_bench && !command.get_subcommands().empty()) return;
    if (!is_bench) refuse_options_of(commands.bench);
    watch_interrupts();
    raise_file_limit();
    // Pivots look into JSON: what is not there must not end the program with its servers running.
    const auto done = [&]() -> cli::Result<> {
      try {
        if (!options->svg.empty()) TRY(needed_program("gnuplot", "gnuplot-nox"));
        Report report = TRY(experiment());
        report.json["bench"] = is_bench ? "overview" : command.get_name();
        return publish(report, options->output, options->svg, commands.globals.json);
      } catch (const std::exception& e) {
        return cli::fail("{}", e.what());
      }
    }();
    cli::report(commands.globals, done);
  });
}

}  // namespace elastripe::bench
