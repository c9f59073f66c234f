#include "tools/cli/commands.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/cli/admin.h"

namespace elastripe::cli {

Result<nlohmann::ordered_json> fetch(const Globals& globals, const std::string& path) {
  const auto admin = AdminClient::of_server(globals.server, globals.admin);
  if (!admin) return std::unexpected(admin.error());
  return admin->get(path);
}

void print_json(const nlohmann::ordered_json& json) { fmt::print("{}\n", json.dump(2)); }

void report(Globals& globals, const Result<>& result) {
  if (result) return;
  fmt::print(stderr, "elastripe: {}\n", result.error());
  globals.exit_status = 1;
}

}  // namespace elastripe::cli
