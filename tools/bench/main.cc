// elastripe-bench: the experiments, which `elastripe bench` becomes: what coded objects cost
// against replicas and against plain memcached, measured on this machine over loopback.
#include <curl/curl.h>
#include <sys/stat.h>

#include <cstdio>

#include "tools/bench/experiment.h"

// CLI11 throws when an option is declared wrong: a bug.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  using namespace elastripe::bench;
  curl_global_init(CURL_GLOBAL_DEFAULT);
  umask(umask(0) | S_IWGRP | S_IWOTH);  // who can write a cluster's files could end our processes
  elastripe::cli::Globals globals;
  CLI::App app{
      "Measures elastripe beside its peers; alone: PUT and GET by size and scheme, and memory.",
      "elastripe bench"};
  app.set_version_flag("--version", "elastripe-bench " ELASTRIPE_VERSION);
  app.fallthrough();  // --json may follow the name of an experiment
  app.add_flag("--json", globals.json, "Print data as JSON");
  Commands commands{app, globals};
  for (const auto add :
       {add_overview, add_small, add_large, add_degraded, add_crossover, add_dialects, add_scaling,
        add_ycsb, add_hostile, add_reclaim, add_repair, add_transition, add_sync, add_update}) {
    add(commands);
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::fflush(stdout);
  return globals.exit_status;
}
