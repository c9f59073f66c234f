#include "tools/bench/bench.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "tools/bench/crossover_bench.h"
#include "tools/bench/degraded_bench.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/large_bench.h"
#include "tools/bench/overview.h"
#include "tools/bench/reclaim_bench.h"
#include "tools/bench/scaling_bench.h"
#include "tools/bench/small_bench.h"
#include "tools/bench/sync_bench.h"
#include "tools/bench/transition_bench.h"
#include "tools/bench/ycsb_bench.h"

namespace elastripe::bench {
namespace {

cli::Result<> run(const OverviewSettings& settings, const OutputOptions& output, bool as_json) {
  watch_interrupts();
  auto report = measure_overview(settings);
  if (!report) return std::unexpected(report.error());
  return publish(std::move(*report), output, as_json);
}

}  // namespace

void add_bench_command(CLI::App& app, cli::Globals& globals) {
  auto settings = std::make_shared<OverviewSettings>();
  auto output = std::make_shared<OutputOptions>();
  CLI::App* command = app.add_subcommand(
      "bench",
      "Measures elastripe beside its peers; alone: PUT and GET by size and scheme, and memory");
  command->add_option("--schemes", settings->schemes, "Schemes to compare; repeatable")
      ->default_str("rep:2 rs:4,1 ers:4,1,5 ers:4,2,5");
  command->add_option("--sizes", settings->sizes, "Object sizes; repeatable")
      ->default_str("1KiB 4KiB 16KiB 64KiB 1MiB 4MiB");
  command
      ->add_option("--seconds", settings->seconds,
                   "All sizes together; no turn starts after it (at least 5 of each are made)")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_option("--nodes", settings->nodes, "Nodes of the cluster")
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
  add_output_options(*command, *output);
  add_small_bench_command(*command, globals);
  add_large_bench_command(*command, globals);
  add_degraded_bench_command(*command, globals);
  add_crossover_bench_command(*command, globals);
  add_scaling_bench_command(*command, globals);
  add_ycsb_bench_command(*command, globals);
  add_reclaim_bench_command(*command, globals);
  add_transition_bench_command(*command, globals);
  add_sync_bench_command(*command, globals);
  command->callback([settings, output, command, &globals] {
    if (!command->get_subcommands().empty()) return;
    settings->port = output->port;
    report(globals, run(*settings, *output, globals.json));
  });
}

}  // namespace elastripe::bench
