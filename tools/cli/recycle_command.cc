// elastripe recycle.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cli/job_watch.h"

namespace elastripe::cli {
namespace {

struct Arguments {
  std::string key;
  std::string prefix;
  JobArguments common;
};

Result<> recycle(Globals& globals, const Arguments& arguments) {
  nlohmann::ordered_json body = nlohmann::ordered_json::object();
  if (!arguments.key.empty()) {
    body["key"] = arguments.key;
  } else if (!arguments.prefix.empty()) {
    body["prefix"] = arguments.prefix;
  } else {
    body["all"] = true;
  }
  return run_job(globals, {.path = "/v1/recycles", .kind = "recycle", .common = arguments.common},
                 std::move(body));
}

}  // namespace

void add_recycle_command(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "recycle", "Puts what lies in update logs into the shards now, and waits until that is done");
  auto* which = command->add_option_group("objects")->require_option(0, 1);
  which->add_option("--key", arguments->key, "Of this object; else of all");
  which->add_option("--prefix", arguments->prefix, "Of objects whose keys begin so");
  add_job_options(*command, arguments->common);
  command->footer(
      "What was updated before it began is in shards when it ends. Ctrl-C cancels: objects that\n"
      "have begun are finished. Exit status: 0 done; 1 no proxy, or it refuses; 2 wrong command\n"
      "line; 3 objects failed, or the job did; 130 cancelled.");
  command->callback([arguments, &globals] { report(globals, recycle(globals, *arguments)); });
}

}  // namespace elastripe::cli
