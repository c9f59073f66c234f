// elastripe: the command-line tool.
#include <curl/curl.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/cli/commands.h"

// NOLINTNEXTLINE(bugprone-exception-escape): CLI11 throws when an option is declared wrong: a bug
int main(int argc, char** argv) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  umask(umask(0) | S_IWGRP | S_IWOTH);  // who can write a cluster's files could end our processes
  elastripe::cli::Globals globals;
  CLI::App app{"elastripe stores large objects as coded shards on memcached nodes.", "elastripe"};
  app.set_version_flag("--version", "elastripe " ELASTRIPE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();  // --server and --json may follow the command
  app.add_option("--server", globals.server, "HOST:PORT of a proxy, or the path of its Unix socket")
      ->capture_default_str();
  app.add_option("--admin", globals.admin,
                 "HOST:PORT of its admin interface, if that is not where the proxy says");
  app.add_flag("--json", globals.json, "Print data as JSON");

  elastripe::cli::add_cluster_commands(app, globals);
  elastripe::cli::add_status_commands(app, globals);
  elastripe::cli::add_config_command(app, globals);
  elastripe::cli::add_node_command(app, globals);
  elastripe::cli::add_object_commands(app, globals);
  elastripe::cli::add_plan_command(app, globals);
  elastripe::cli::add_transition_command(app, globals);
  elastripe::cli::add_repair_command(app, globals);
  elastripe::cli::add_rebalance_command(app, globals);
  elastripe::cli::add_recycle_command(app, globals);
  elastripe::cli::add_job_command(app, globals);
  elastripe::cli::add_scrub_command(app, globals);
  elastripe::cli::add_tls_command(app, globals);
  elastripe::cli::add_bench_command(app, globals);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::fflush(stdout);
  return globals.exit_status;
}
