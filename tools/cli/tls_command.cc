// elastripe tls init: certificates for a cluster.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cli/certificates.h"
#include "tools/cli/commands.h"

namespace elastripe::cli {
namespace {

struct Arguments {
  std::string directory;
  CertificateOptions options;
};

Result<> init(const Arguments& arguments, bool json) {
  const std::filesystem::path directory = std::filesystem::absolute(arguments.directory);
  if (auto made = make_certificates(directory, arguments.options); !made) return made;
  const auto file = [&](const char* name) { return (directory / name).string(); };
  if (json) {
    print_json({{"ca", file("ca.pem")},
                {"proxy", {{"certificate", file("proxy.pem")}, {"key", file("proxy.key")}}},
                {"node", {{"certificate", file("node.pem")}, {"key", file("node.key")}}},
                {"client", {{"certificate", file("client.pem")}, {"key", file("client.key")}}}});
    return {};
  }
  fmt::print(
      "For the configuration of proxies:\n\n"
      "  tls: {{certificate: {}, key: {}, ca: {}, nodes: true}}\n"
      "  listen: {{tls: on}}\n\n"
      "For nodes:\n\n"
      "  elastripe-node --tls-certificate {} --tls-key {} --tls-ca {}\n\n"
      "Clients believe {}. Keep {} where no server is.\n",
      file("proxy.pem"), file("proxy.key"), file("ca.pem"), file("node.pem"), file("node.key"),
      file("ca.pem"), file("ca.pem"), file("ca.key"));
  return {};
}

}  // namespace

void add_tls_command(CLI::App& app, Globals& globals) {
  constexpr int kMostDays = 36500;
  CLI::App* command = app.add_subcommand("tls", "Makes certificates");
  command->require_subcommand(1);
  auto arguments = std::make_shared<Arguments>();
  CLI::App* made = command->add_subcommand(
      "init",
      "Makes a CA, unless there is one, and certificates by it for proxies, nodes and clients; "
      "once more, it renews these");
  made->add_option("--dir", arguments->directory, "Where the PEM files are")->required();
  made->add_option("--host", arguments->options.hosts,
                   "Name or address where a proxy or a node is reached; repeatable");
  made->add_option("--days", arguments->options.days, "For which certificates are valid")
      ->check(CLI::Range(1, kMostDays))
      ->capture_default_str();
  made->callback([arguments, &globals] { report(globals, init(*arguments, globals.json)); });
}

}  // namespace elastripe::cli
