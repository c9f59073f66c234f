// elastripe tls: certificates for a cluster, and another CA.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cli/certificates.h"
#include "tools/cli/commands.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string dir;
  CertificateOptions options;
};

// The settings of a proxy that use the files.
Json settings_for(const TlsPaths& paths) {
  return {{"listen.tls", "on"},
          {"tls.certificate", paths.proxy.certificate.string()},
          {"tls.key", paths.proxy.key.string()},
          {"tls.ca", paths.ca.certificate.string()},
          {"tls.nodes", true}};
}

Json node_options_for(const TlsPaths& paths) {
  return {"--tls-certificate", paths.node.certificate.string(),
          "--tls-key",         paths.node.key.string(),
          "--tls-ca",          paths.ca.certificate.string()};
}

Json json_of(const TlsPaths& paths, const CertificateOptions& options) {
  const auto pair = [](const CertificatePaths& of) {
    return Json{{"certificate", of.certificate.string()}, {"key", of.key.string()}};
  };
  return {{"ca", pair(paths.ca)},
          {"new_ca", paths.has_new_ca},
          {"proxy", pair(paths.proxy)},
          {"node", pair(paths.node)},
          {"client", pair(paths.client)},
          {"days", options.days},
          {"settings", settings_for(paths)},
          {"node_options", node_options_for(paths)}};
}

std::string word(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string text_of(const TlsPaths& paths, const CertificateOptions& options) {
  std::string text = fmt::format(
      "{}, {}, has signed proxy.pem, node.pem and client.pem for {} days\n"
      "settings of a proxy, which reads the files again on SIGHUP:\n",
      paths.ca.certificate.string(), paths.has_new_ca ? "a new CA" : "the CA that was there",
      options.days);
  for (const auto& [key, value] : settings_for(paths).items()) {
    text += fmt::format("  {}: {}\n", key, word(value));
  }
  text += "options of a node, likewise:\n  elastripe-node";
  for (const Json& option : node_options_for(paths)) text += " " + word(option);
  text += fmt::format(
      "\nclients believe {}; where listen.tls is mutual, they show {} with its key {}\n"
      "keep {} where no server is: whoever has it can make certificates\n",
      paths.ca.certificate.string(), paths.client.certificate.string(), paths.client.key.string(),
      paths.ca.key.string());
  return text;
}

Result<> init(const Globals& globals, const Arguments& arguments) {
  const auto paths = make_cluster_certificates(arguments.dir, arguments.options);
  if (!paths) return std::unexpected(paths.error());
  if (globals.json) {
    print_json(json_of(*paths, arguments.options));
  } else {
    fmt::print("{}", text_of(*paths, arguments.options));
  }
  return {};
}

// `text` has a place for the CA's path.
void print_ca(const Globals& globals, const CertificatePaths& ca, const char* text) {
  const std::string path = ca.certificate.string();
  if (globals.json) {
    print_json({{"ca", {{"certificate", path}, {"key", ca.key.string()}}}});
  } else {
    fmt::print(fmt::runtime(text), path);
  }
}

Result<> new_ca(const Globals& globals, const std::string& dir) {
  const auto ca = begin_new_ca(dir, std::chrono::system_clock::now());
  if (!ca) return std::unexpected(ca.error());
  print_ca(globals, *ca,
           "{} has a new CA and the one before\n"
           "1. give it to all proxies, nodes and clients, and have them read it (SIGHUP)\n"
           "2. `elastripe tls init` signs by the new one: do the same with those certificates\n"
           "3. `elastripe tls forget-ca` leaves only the new one: and again\n");
  return {};
}

Result<> forget_ca(const Globals& globals, const std::string& dir) {
  const auto ca = forget_old_ca(dir);
  if (!ca) return std::unexpected(ca.error());
  print_ca(globals, *ca,
           "{} has the new CA only: give it to all proxies, nodes and clients, and have them read "
           "it (SIGHUP)\n");
  return {};
}

}  // namespace

void add_tls_command(CLI::App& app, Globals& globals) {
  CLI::App* group = app.add_subcommand("tls", "Makes certificates");
  group->require_subcommand(1);
  group->fallthrough();
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = group->add_subcommand(
      "init",
      "Makes certificates for proxies, nodes and clients, and the CA that signs them; again: new "
      "ones, by the same CA");
  command->add_option("--dir", arguments->dir, "Where the files are")->required();
  command->add_option("--days", arguments->options.days, "How long certificates are valid")
      ->check(CLI::Range(1, kCaDays))
      ->capture_default_str();
  command->add_option("--host", arguments->options.hosts,
                      "DNS name or IP address where a proxy or a node is reached; repeatable");
  command->callback([arguments, &globals] { report(globals, init(globals, *arguments)); });

  const auto add_step = [&](const char* name, const char* text, auto* step) {
    CLI::App* added = group->add_subcommand(name, text);
    added->add_option("--dir", arguments->dir, "Where the files are")->required();
    added->callback(
        [arguments, &globals, step] { report(globals, step(globals, arguments->dir)); });
  };
  add_step(
      "new-ca",
      "Begins to change the CA: ca.pem gets a new one beside the one before, which is believed "
      "as well until forget-ca",
      new_ca);
  add_step("forget-ca", "Ends a change of the CA: ca.pem keeps the new one only", forget_ca);
}

}  // namespace elastripe::cli
