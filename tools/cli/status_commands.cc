// elastripe status, node, object, accept-loss: what the admin interface tells.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cli/admin.h"
#include "tools/cli/commands.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::json;

Result<Json> fetch(const Globals& globals, const std::string& path) {
  const auto admin = AdminClient::of_server(globals.server);
  if (!admin) return std::unexpected(admin.error());
  return admin->get(path);
}

Result<> show(const Globals& globals, const std::string& path) {
  const auto json = fetch(globals, path);
  if (!json) return std::unexpected(json.error());
  fmt::print("{}\n", json->dump(2));
  return {};
}

}  // namespace

void add_status_commands(CLI::App& app, Globals& globals) {
  CLI::App* status = app.add_subcommand("status", "Shows the cluster: epoch, nodes, partitions");
  status->callback([&globals] { report(globals, show(globals, "/v1/status")); });
  auto key = std::make_shared<std::string>();
  CLI::App* object = app.add_subcommand("object", "Shows where and how an object is stored");
  object->add_option("KEY", *key)->required();
  object->callback(
      [&globals, key] { report(globals, show(globals, "/v1/objects/" + url_escape(*key))); });
}

}  // namespace elastripe::cli
