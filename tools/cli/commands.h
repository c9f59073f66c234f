// The commands of `elastripe`, each group registered by its own file. A callback does the work,
// prints, and leaves the exit status in Globals.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/cli/result.h"

namespace CLI {
class App;
}

namespace elastripe::cli {

struct Globals {
  std::string server = "127.0.0.1:11311";
  std::string admin;  // its admin interface; empty: where the proxy says
  bool json = false;
  int exit_status = 0;
};

// What the admin interface says at `path`.
Result<nlohmann::ordered_json> fetch(const Globals& globals, const std::string& path);

void print_json(const nlohmann::ordered_json& json);

// Prints the failure of a command and sets the exit status.
void report(Globals& globals, const Result<>& result);

void add_cluster_commands(CLI::App& app, Globals& globals);
void add_status_commands(CLI::App& app, Globals& globals);  // status, watch, object, accept-loss
void add_config_command(CLI::App& app, Globals& globals);
void add_node_command(CLI::App& app, Globals& globals);
void add_object_commands(CLI::App& app, Globals& globals);  // put, get, remove
void add_plan_command(CLI::App& app, Globals& globals);
void add_transition_command(CLI::App& app, Globals& globals);
void add_job_command(CLI::App& app, Globals& globals);
void add_rebalance_command(CLI::App& app, Globals& globals);
void add_recycle_command(CLI::App& app, Globals& globals);
void add_repair_command(CLI::App& app, Globals& globals);
void add_scrub_command(CLI::App& app, Globals& globals);
void add_tls_command(CLI::App& app, Globals& globals);
void add_bench_command(CLI::App& app, Globals& globals);  // becomes elastripe-bench

}  // namespace elastripe::cli
