// elastripe plan: what a scheme's transitions cost, and when it loses data, before any is stored.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "tools/cli/commands.h"
#include "tools/cli/mttdl.h"
#include "tools/cli/plan.h"

namespace elastripe::cli {
namespace {

struct PlanOptions {
  int k = 0;
  int m = 0;
  int k_prime = 0;
  bool table1 = false;
  bool asks_for_data_loss = false;  // the rest is for this
  int nodes = 0;
  uint64_t node_bytes = 0;
  std::string node_mtbf;
  uint64_t repair_rate = 0;
  std::string repair_wait = "60s";
};

Result<DataLossReport> data_loss(const PlanOptions& options) {
  const auto node_mtbf = parse_duration(options.node_mtbf);
  if (!node_mtbf) return std::unexpected(node_mtbf.error());
  const auto repair_wait = parse_duration(options.repair_wait);
  if (!repair_wait) return std::unexpected(repair_wait.error());
  return make_data_loss_report(options.k, options.m, options.k_prime,
                               {.nodes = options.nodes,
                                .node_bytes = static_cast<double>(options.node_bytes),
                                .node_mtbf = *node_mtbf,
                                .repair_rate = static_cast<double>(options.repair_rate),
                                .repair_wait = *repair_wait});
}

Result<> plan(const Globals& globals, const PlanOptions& options) {
  if (options.table1) {
    const std::vector<Table1Row> rows = make_table1();
    fmt::print("{}", globals.json ? table1_json(rows).dump() + "\n" : table1_text(rows));
    return {};
  }
  const auto report = make_plan_report(options.k, options.m, options.k_prime);
  if (!report) return std::unexpected(report.error());
  std::optional<DataLossReport> loss;
  if (options.asks_for_data_loss) {
    auto made = data_loss(options);
    if (!made) return std::unexpected(made.error());
    loss = *made;
  }
  if (!globals.json) {
    fmt::print("{}", plan_text(*report));
    if (loss) fmt::print("\n{}", data_loss_text(*loss));
    return {};
  }
  Json json = plan_json(*report);
  if (loss) json["data_loss"] = data_loss_json(*loss);
  fmt::print("{}\n", json.dump());
  return {};
}

std::string check_duration(const std::string& text) {
  const auto duration = parse_duration(text);
  return duration ? std::string() : duration.error();
}

// The options that say how nodes fail and are repaired: all but the wait are needed for any.
std::vector<CLI::Option*> add_data_loss_options(CLI::App& command, PlanOptions& options) {
  CLI::Option* nodes = command.add_option(
      "--nodes", options.nodes,
      "Tells when data is lost, too, with so many nodes and the options that follow");
  CLI::Option* node_bytes =
      command
          .add_option("--node-bytes", options.node_bytes,
                      "Bytes of shards on a node, as 64G (K, M, G, T are powers of 1024)")
          ->transform(CLI::AsSizeValue(false));
  CLI::Option* node_mtbf =
      command
          .add_option("--node-mtbf", options.node_mtbf,
                      "Mean time between failures of a node, as 1000h (ms, s, min, h, d, y)")
          ->check(CLI::Validator(check_duration, "", ""));
  CLI::Option* repair_rate =
      command
          .add_option("--repair-rate", options.repair_rate,
                      "Bytes a second that repair reads and writes, as 200M, in the whole cluster")
          ->transform(CLI::AsSizeValue(false));
  CLI::Option* repair_wait =
      command
          .add_option("--repair-wait", options.repair_wait,
                      "From a failure until repair: repair.after_ms, or what a restart takes")
          ->check(CLI::Validator(check_duration, "", ""))
          ->capture_default_str();
  const std::vector<CLI::Option*> needed = {nodes, node_bytes, node_mtbf, repair_rate};
  for (CLI::Option* option : {nodes, node_bytes, node_mtbf, repair_rate, repair_wait}) {
    for (CLI::Option* other : needed) {
      if (option != other) option->needs(other);
    }
  }
  return needed;
}

}  // namespace

void add_plan_command(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan",
                                         "Shows where a scheme puts blocks, what its transitions "
                                         "read and send, and when it loses data");
  CLI::Option* k = command->add_option("--k", options->k, "Data blocks of a stripe (narrow)");
  CLI::Option* m = command->add_option("--m", options->m, "Parities of a stripe or row");
  CLI::Option* k_prime =
      command->add_option("--k-prime", options->k_prime, "Data blocks of a row (wide); above k");
  CLI::Option* table1 =
      command
          ->add_flag("--table1", options->table1,
                     "Table 1 of the ERS paper instead: ours beside the published figures")
          ->excludes(k, m, k_prime);
  const std::vector<CLI::Option*> needed = add_data_loss_options(*command, *options);
  for (CLI::Option* option : needed) table1->excludes(option);
  command->callback([&globals, options, k, m, k_prime, nodes = needed.front()] {
    options->asks_for_data_loss = nodes->count() > 0;
    for (const CLI::Option* option : {k, m, k_prime}) {
      if (!options->table1 && option->count() == 0) throw CLI::RequiredError(option->get_name());
    }
    report(globals, plan(globals, *options));
  });
}

}  // namespace elastripe::cli
