// elastripe plan: what a scheme's transitions cost, before any data is stored.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "tools/cli/commands.h"
#include "tools/cli/plan.h"

namespace elastripe::cli {
namespace {

struct PlanOptions {
  int k = 0;
  int m = 0;
  int k_prime = 0;
  bool table1 = false;
};

Result<> plan(const Globals& globals, const PlanOptions& options) {
  if (options.table1) {
    const std::vector<Table1Row> rows = make_table1();
    fmt::print("{}", globals.json ? table1_json(rows).dump() + "\n" : table1_text(rows));
    return {};
  }
  const auto report = make_plan_report(options.k, options.m, options.k_prime);
  if (!report) return std::unexpected(report.error());
  fmt::print("{}", globals.json ? plan_json(*report).dump() + "\n" : plan_text(*report));
  return {};
}

}  // namespace

void add_plan_command(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand(
      "plan", "Shows where a scheme puts blocks and what its transitions read and send");
  CLI::Option* k = command->add_option("--k", options->k, "Data blocks of a stripe (narrow)");
  CLI::Option* m = command->add_option("--m", options->m, "Parities of a stripe or row");
  CLI::Option* k_prime =
      command->add_option("--k-prime", options->k_prime, "Data blocks of a row (wide); above k");
  command
      ->add_flag("--table1", options->table1,
                 "Table 1 of the ERS paper instead: ours beside the published figures")
      ->excludes(k, m, k_prime);
  command->callback([&globals, options, k, m, k_prime] {
    for (const CLI::Option* option : {k, m, k_prime}) {
      if (!options->table1 && option->count() == 0) throw CLI::RequiredError(option->get_name());
    }
    report(globals, plan(globals, *options));
  });
}

}  // namespace elastripe::cli
