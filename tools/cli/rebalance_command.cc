// elastripe rebalance.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cli/job_watch.h"

namespace elastripe::cli {
namespace {

struct Arguments {
  bool watches = false;
  JobArguments common;
};

Result<> rebalance(Globals& globals, const Arguments& arguments) {
  return run_job(globals,
                 {.path = "/v1/rebalances",
                  .kind = "rebalance",
                  .common = arguments.common,
                  .watches = arguments.watches},
                 nlohmann::ordered_json::object());
}

}  // namespace

void add_rebalance_command(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "rebalance", "Moves shards from full nodes to empty ones until they are equally full");
  command->add_flag("--watch", arguments->watches, "Show how it goes until it ends");
  add_job_options(*command, arguments->common);
  command->footer(
      "Without --rate, 50 MiB a second. With --watch, Ctrl-C cancels: objects that have begun are\n"
      "finished. The same command again goes on. Exit status: 0 done, or started; 1 no proxy, or "
      "it\n"
      "refuses; 2 wrong command line; 3 objects were refused or failed, or the job did; 130\n"
      "cancelled.");
  command->callback([arguments, &globals] { report(globals, rebalance(globals, *arguments)); });
}

}  // namespace elastripe::cli
