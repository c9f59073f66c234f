// elastripe scrub: of keys, which are told one by one, or as a job.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/cli/admin.h"
#include "tools/cli/answer.h"
#include "tools/cli/job_watch.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::vector<std::string> keys;
  std::string prefix;
  bool all = false;
  bool repairs = false;
  JobArguments common;
};

std::string names(const Json& shards) {
  std::string list;
  for (const Json& shard : shards) {
    list += fmt::format(" {} on {}", shown(shard, "role"), shown(shard, "node"));
  }
  return list;
}

void print_scrub(const Json& scrub) {
  const bool clean = part(scrub, "clean") == true;
  fmt::print("{}: {}, {} segments\n", shown(scrub, "key"), clean ? "clean" : "NOT clean",
             part(scrub, "segments").size());
  for (const Json& home : part(scrub, "homes_unlike")) {
    fmt::print("  the copy of the record on {} is another one\n", home.get<std::string>());
  }
  for (const Json& segment : part(scrub, "segments")) {
    const auto show = [&](const char* what, const std::string& list) {
      if (!list.empty()) {
        fmt::print("  segment {}, state {}: {}{}\n", shown(segment, "number"),
                   shown(segment, "state"), what, list);
      }
    };
    show("missing", names(part(segment, "missing")));
    show("bad pages:", names(part(segment, "bad")));
    show("unreachable", names(part(segment, "unreachable")));
    show("not what the others make it:", names(part(segment, "wrong")));
    if (part(segment, "unexplained") == true) {
      show("shards do not fit together, and nothing tells which are wrong", " ");
    }
    if (part(segment, "data_matches") == false) show("data fails its checksum", " ");
  }
}

// Goes on after a key that can not be scrubbed.
Result<> scrub_keys(const Globals& globals, const std::vector<std::string>& keys) {
  const auto admin = AdminClient::of_server(globals.server, globals.admin);
  if (!admin) return std::unexpected(admin.error());
  Json answers = Json::array();
  size_t unclean = 0;
  std::string failures;
  for (const std::string& key : keys) {
    const auto answer = admin->get("/v1/scrub/" + url_escape(key));
    if (!answer) {
      failures += fmt::format("{}{}: {}", failures.empty() ? "" : "; ", key, answer.error());
      continue;
    }
    if (part(*answer, "clean") != true) ++unclean;
    if (globals.json) {
      answers.push_back(*answer);
    } else {
      print_scrub(*answer);
    }
  }
  if (globals.json) fmt::print("{}\n", answers.dump(2));
  if (!failures.empty()) return fail("{}", failures);
  if (unclean > 0) return fail("{} of {} objects are not clean", unclean, keys.size());
  return {};
}

Result<> scrub_as_job(Globals& globals, const Arguments& arguments, Json body) {
  body["repair"] = arguments.repairs;
  return run_job(globals, {.path = "/v1/scrubs", .kind = "scrub", .common = arguments.common},
                 std::move(body));
}

Result<> scrub(Globals& globals, const Arguments& arguments) {
  if (arguments.all) return scrub_as_job(globals, arguments, {{"all", true}});
  if (!arguments.prefix.empty()) {
    return scrub_as_job(globals, arguments, {{"prefix", arguments.prefix}});
  }
  if (!arguments.repairs) return scrub_keys(globals, arguments.keys);
  int worst = 0;
  for (const std::string& key : arguments.keys) {
    const auto done = scrub_as_job(globals, arguments, {{"key", key}});
    if (!done) return done;
    worst = std::max(worst, globals.exit_status);
  }
  globals.exit_status = worst;
  return {};
}

}  // namespace

void add_scrub_command(CLI::App& app, Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "scrub", "Compares the shards of objects: are the parities what the data makes them?");
  auto* which = command->add_option_group("objects")->require_option(1);
  which->add_option("KEY", arguments->keys, "These objects");
  which->add_option("--prefix", arguments->prefix, "Objects whose keys begin so");
  which->add_flag("--all", arguments->all, "All objects");
  command->add_flag("--repair", arguments->repairs,
                    "Make shards again that are missing, bad or wrong");
  add_job_options(*command, arguments->common);
  command->footer(
      "KEYs without --repair are told shard by shard; else it is a job, and Ctrl-C cancels.");
  command->callback([arguments, &globals] { report(globals, scrub(globals, *arguments)); });
}

}  // namespace elastripe::cli
