// elastripe transition.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cli/job_watch.h"

namespace elastripe::cli {
namespace {

struct Arguments {
  std::string key;
  std::string prefix;
  bool all = false;
  int to = 0;
  std::string execution = "delta";
  JobArguments common;
};

Result<> transition(Globals& globals, const Arguments& arguments) {
  nlohmann::ordered_json body = {{"to", arguments.to}, {"execution", arguments.execution}};
  if (arguments.all) body["all"] = true;
  if (!arguments.key.empty()) body["key"] = arguments.key;
  if (!arguments.prefix.empty()) body["prefix"] = arguments.prefix;
  return run_job(globals,
                 {.path = "/v1/transitions", .kind = "transition", .common = arguments.common},
                 std::move(body));
}

}  // namespace

void add_transition_command(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "transition", "Takes stored objects to another k, while clients read and write");
  CLI::Option_group* which = command->add_option_group("objects", "Which objects");
  which->require_option(1);
  which->add_option("--key", arguments->key, "One object");
  which->add_option("--prefix", arguments->prefix, "All whose keys begin so");
  which->add_flag("--all", arguments->all, "All objects");
  command->add_option("--to", arguments->to, "The k to have: the k or k' of the objects' scheme")
      ->required()
      ->check(CLI::Range(1, 255));
  add_job_options(*command, arguments->common);
  command
      ->add_option("--execution", arguments->execution,
                   "delta: parity nodes build on their old parities; proxy: the proxy reads and "
                   "writes whole parities")
      ->check(CLI::IsMember({"delta", "proxy"}))
      ->capture_default_str();
  command->footer(
      "Ctrl-C cancels: objects that have begun are finished. The same command again goes on.\n"
      "Exit status: 0 done; 1 no proxy, or it refuses; 2 wrong command line; 3 objects were\n"
      "refused or failed, or the transition did; 130 cancelled.");
  command->callback([arguments, &globals] { report(globals, transition(globals, *arguments)); });
}

}  // namespace elastripe::cli
