#include "proxy/main/options.h"

#include <CLI/CLI.hpp>

#include "proxy/main/config.h"

namespace elastripe {
namespace {
constexpr int kUsageError = 2;
}

std::optional<Options> parse_options(int argc, char** argv, int& exit_code) {
  Options options;
  CLI::App app("elastripe-proxy: memcached clients in front of erasure-coded nodes");
  app.set_version_flag("--version", "elastripe-proxy " ELASTRIPE_VERSION);
  app.add_option("-c,--config", options.config_file, "the YAML configuration")->required();
  app.add_flag("--check-config", options.check_config, "check the configuration and end");
  app.add_flag_callback(
      "--example-config",
      [] {
        std::string text = example_config();
        text.pop_back();  // the line end that CLI11 adds
        throw CLI::CallForVersion(text, 0);
      },
      "print a configuration with every setting explained, and end");
  app.add_option("--set", options.overrides,
                 "override one setting: timing.lease_ms=5000 (may be repeated)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--force-epoch", options.force_epoch,
               "start without a majority of the nodes: you vouch that the others are gone");
  app.add_option("--port-file", options.port_file,
                 "write the client and admin ports to this file once they listen");
  app.footer([] {
    return "Settings and their defaults (--config, --set). Those with (SIGHUP) can be changed "
           "while it "
           "runs.\n" +
           list_settings();
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : kUsageError;
    return std::nullopt;
  }
  return options;
}

}  // namespace elastripe
