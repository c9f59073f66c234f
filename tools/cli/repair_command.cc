// elastripe repair.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cli/job_watch.h"

namespace elastripe::cli {
namespace {

struct Arguments {
  std::string node;
  bool watches = false;
  JobArguments common;
};

Result<> repair(Globals& globals, const Arguments& arguments) {
  nlohmann::ordered_json body = nlohmann::ordered_json::object();
  if (!arguments.node.empty()) body["node"] = arguments.node;
  return run_job(globals,
                 {.path = "/v1/repairs",
                  .kind = "repair",
                  .common = arguments.common,
                  .watches = arguments.watches},
                 std::move(body));
}

}  // namespace

void add_repair_command(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "repair", "Makes shards again that are gone, now and beside automatic repair");
  command->add_option("--node", arguments->node,
                      "Only what this node lacks, or had when it went; else all that is gone");
  command->add_flag("--watch", arguments->watches, "Show how it goes until it ends");
  add_job_options(*command, arguments->common);
  command->footer(
      "With --watch, Ctrl-C cancels: objects that have begun are finished. The same command again\n"
      "goes on. Exit status: 0 done, or started; 1 no proxy, or it refuses; 2 wrong command line;\n"
      "3 objects were refused or failed, or the repair did; 130 cancelled.");
  command->callback([arguments, &globals] { report(globals, repair(globals, *arguments)); });
}

}  // namespace elastripe::cli
