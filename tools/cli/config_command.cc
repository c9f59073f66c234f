// elastripe config: shows and changes the settings that all proxies have in common
// (docs/operations.md).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tools/cli/admin.h"
#include "tools/cli/answer.h"
#include "tools/cli/commands.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(100);

struct SetArguments {
  std::vector<std::string> settings;
  std::optional<uint32_t> of_version;
  bool is_recycled = false;
  int timeout_s = 60;
};

Result<> show(const Globals& globals) {
  const auto answer = fetch(globals, "/v1/settings");
  if (!answer) return std::unexpected(answer.error());
  if (globals.json) {
    print_json(*answer);
  } else if (number(*answer, "version") == 0) {
    fmt::print("# The cluster has no settings of its own: some node is of a build without them.\n");
  } else {
    fmt::print("# version {}\n{}", shown(*answer, "version"), text(*answer, "settings"));
  }
  return {};
}

// A proxy that is asked while the cluster changes, or behind another change, says so: it is asked
// again. So it is where the deciding one does not answer, as it may have gone.
Result<double> change(const Globals& globals, const SetArguments& arguments,
                      SteadyClock::time_point end) {
  Json body = {{"set", arguments.settings}, {"is_recycled", arguments.is_recycled}};
  if (arguments.of_version) body["of_version"] = *arguments.of_version;
  for (;; std::this_thread::sleep_for(kPause)) {
    const auto admin = AdminClient::of_server(globals.server, globals.admin);
    if (!admin) return std::unexpected(admin.error());
    const auto answer = admin->post("/v1/settings", "settings", body.dump());
    if (answer) return number(*answer, "version");
    const auto says = [&](const char* words) {
      return answer.error().find(words) != std::string::npos;
    };
    // What is set once more is as it was set, unless that was for one version only.
    const bool may_be_done =
        (says("has not answered") || says("is not served yet")) && !arguments.of_version;
    if ((!says("try again") && !may_be_done) || SteadyClock::now() >= end)
      return std::unexpected(answer.error());
  }
}

// Done when the map that says so is served: then no proxy goes by what was before.
Result<> set(const Globals& globals, const SetArguments& arguments) {
  const auto end = SteadyClock::now() + std::chrono::seconds(arguments.timeout_s);
  const auto version = change(globals, arguments, end);
  if (!version) return std::unexpected(version.error());
  for (;; std::this_thread::sleep_for(kPause)) {
    const auto answer = fetch(globals, "/v1/settings");
    if (answer && number(*answer, "version") >= *version) {
      if (globals.json) {
        print_json(*answer);
      } else {
        fmt::print("the cluster has settings of version {}\n", *version);
      }
      return {};
    }
    if (SteadyClock::now() >= end) {
      return answer ? fail("version {} is not served yet", *version)
                    : std::unexpected(answer.error());
    }
  }
}

}  // namespace

void add_config_command(CLI::App& app, Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "config", "Shows and changes the settings that all proxies of the cluster have in common");
  command->require_subcommand(1);
  command->add_subcommand("show", "Prints them as YAML, with their version")->callback([&globals] {
    report(globals, show(globals));
  });
  CLI::App* change = command->add_subcommand("set", "Changes some, for all proxies at once");
  auto arguments = std::make_shared<SetArguments>();
  change->add_option("PATH=VALUE", arguments->settings, "As in --set of elastripe-proxy")
      ->required();
  change->add_option("--of-version", arguments->of_version,
                     "Only if they are of this version yet, as `show` has told it");
  change->add_flag("--recycled", arguments->is_recycled,
                   "Vouch that `elastripe recycle` has ended, and nobody has updated anything "
                   "since: then log_copies, and methods of updates, may change, too");
  change->add_option("--timeout", arguments->timeout_s, "Seconds")
      ->check(CLI::Range(0, 86'400))
      ->capture_default_str();
  change->callback([&globals, arguments] { report(globals, set(globals, *arguments)); });
}

}  // namespace elastripe::cli
