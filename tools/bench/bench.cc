#include "tools/bench/bench.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "coding/scheme.h"
#include "tools/bench/crossover_bench.h"
#include "tools/bench/degraded_bench.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/large_bench.h"
#include "tools/bench/latency.h"
#include "tools/bench/object_bytes.h"
#include "tools/bench/report.h"
#include "tools/bench/scaling_bench.h"
#include "tools/bench/servers.h"
#include "tools/bench/small_bench.h"
#include "tools/bench/statistics.h"
#include "tools/bench/transition_bench.h"
#include "tools/bench/units.h"
#include "tools/bench/ycsb_bench.h"

namespace elastripe::bench {
namespace {

using cli::Result;

struct Arguments {
  std::vector<std::string> schemes{"rep:2", "rs:4,1", "ers:4,1,5", "ers:4,2,5"};
  std::vector<std::string> sizes{"1KiB", "4KiB", "16KiB", "64KiB", "1MiB", "4MiB"};
  int seconds = 60;
  int port = 15311;
  int nodes = 9;
  std::string output;
};

struct MemoryCase {
  std::string scheme;
  std::string path;
  size_t object_bytes = 0;
  int objects = 0;
  double ratio = 0;  // bytes used on the nodes / bytes stored
  double ideal = 0;  // (k + m) / k, of shards; m + 1 inline
};

// Stores new objects in one pool and sees how much more memory the nodes use.
Result<MemoryCase> measure_memory(const Servers& servers, MemoryCase c, const std::string& prefix) {
  auto client = connect_to(servers.proxy_port());
  if (!client) return std::unexpected(client.error());
  const auto before = servers.used_bytes();
  if (!before) return std::unexpected(before.error());
  for (int i = 0; i < c.objects; ++i) {
    const std::string key = fmt::format("{}memory/{}/{}", prefix, c.object_bytes, i);
    const auto done = client->put(key, make_object(c.object_bytes, static_cast<uint64_t>(i)));
    if (!done) return cli::fail("PUT {}: {}", key, done.error().message);
  }
  const auto after = servers.used_bytes();
  if (!after) return std::unexpected(after.error());
  const double stored = static_cast<double>(c.object_bytes) * c.objects;
  c.ratio = (static_cast<double>(*after) - static_cast<double>(*before)) / stored;
  return c;
}

Result<std::vector<MemoryCase>> measure_memories(const Servers& servers, const Arguments& args) {
  std::vector<MemoryCase> cases;
  for (size_t i = 0; i < args.schemes.size(); ++i) {
    const coding::Scheme scheme = *coding::parse_scheme(args.schemes[i]);
    const double narrow = static_cast<double>(scheme.k + scheme.m) / scheme.k;
    const auto striped = measure_memory(
        servers, {args.schemes[i], "striped", 1 << 20, 32, 0, narrow}, striped_prefix(i));
    if (!striped) return std::unexpected(striped.error());
    const auto in_record = measure_memory(
        servers, {args.schemes[i], "inline", 4 << 10, 1000, 0, scheme.m + 1.0}, inline_prefix(i));
    if (!in_record) return std::unexpected(in_record.error());
    cases.push_back(*striped);
    cases.push_back(*in_record);
  }
  return cases;
}

Json latency_json(const std::vector<LatencyCase>& cases) {
  Json rows = Json::array();
  for (const LatencyCase& c : cases) {
    rows.push_back({{"scheme", c.scheme},
                    {"path", c.path},
                    {"object_bytes", c.object_bytes},
                    {"put_us", json_of(c.put_us)},
                    {"get_us", json_of(c.get_us)}});
  }
  return rows;
}

void print_latency(const std::vector<LatencyCase>& cases) {
  fmt::print(
      "One request at a time, microseconds: median of the rounds' medians (quartiles).\n"
      "x is the ratio to memcached direct at the same size.\n\n");
  fmt::print("| size | scheme | path | PUT us | x | GET us | x |\n|---|---|---|---|---|---|---|\n");
  double put = 1;
  double get = 1;
  for (const LatencyCase& c : cases) {
    if (c.path == "direct") {
      put = median(c.put_us);
      get = median(c.get_us);
    }
    fmt::print("| {} | {} | {} | {} | {:.2f} | {} | {:.2f} |\n", size_text(c.object_bytes),
               c.scheme, c.path, cell_of(c.put_us), median(c.put_us) / put, cell_of(c.get_us),
               median(c.get_us) / get);
  }
}

void print_memory(const std::vector<MemoryCase>& cases) {
  fmt::print(
      "\nMemory used on the nodes for each byte stored; the ideal has no header and no "
      "rounding.\n\n| scheme | path | objects | bytes per byte | ideal |\n"
      "|---|---|---|---|---|\n");
  for (const MemoryCase& c : cases) {
    fmt::print("| {} | {} | {} of {} | {:.3f} | {:.3f} |\n", c.scheme, c.path, c.objects,
               size_text(c.object_bytes), c.ratio, c.ideal);
  }
}

Json memory_json(const std::vector<MemoryCase>& cases) {
  Json rows = Json::array();
  for (const MemoryCase& c : cases) {
    rows.push_back({{"scheme", c.scheme},
                    {"path", c.path},
                    {"object_bytes", c.object_bytes},
                    {"objects", c.objects},
                    {"bytes_per_byte", c.ratio},
                    {"ideal", c.ideal}});
  }
  return rows;
}

Result<LatencySettings> latency_settings(const Arguments& args) {
  LatencySettings settings;
  settings.schemes = args.schemes;
  settings.budget = std::chrono::seconds(args.seconds);
  for (const std::string& text : args.sizes) {
    const auto size = parse_size(text);
    if (!size) return std::unexpected(size.error());
    settings.sizes.push_back(*size);
  }
  return settings;
}

Result<> run(const Arguments& args, bool as_json) {
  for (const std::string& text : args.schemes) {
    if (const auto scheme = coding::parse_scheme(text); !scheme) {
      return cli::fail("{}: {}", text, scheme.error());
    }
  }
  const auto settings = latency_settings(args);
  if (!settings) return std::unexpected(settings.error());
  watch_interrupts();

  ServerSettings server_settings;
  server_settings.schemes = args.schemes;
  server_settings.nodes = args.nodes;
  server_settings.port = args.port;
  const auto servers = Servers::start(server_settings);
  if (!servers) return std::unexpected(servers.error());
  const auto memory = measure_memories(**servers, args);
  if (!memory) return std::unexpected(memory.error());
  const auto latency = measure_latency(**servers, *settings);
  if (!latency) return std::unexpected(latency.error());

  const Json json = {{"cpus", std::thread::hardware_concurrency()},
                     {"nodes", args.nodes},
                     {"latency", latency_json(*latency)},
                     {"memory", memory_json(*memory)}};
  if (!args.output.empty()) {
    std::ofstream file(args.output);
    file << json.dump(2) << '\n';
    if (!file) return cli::fail("cannot write {}", args.output);
  }
  if (as_json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    print_latency(*latency);
    print_memory(*memory);
  }
  return {};
}

}  // namespace

void add_bench_command(CLI::App& app, cli::Globals& globals) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measures PUT and GET by size and scheme, and memory, on a cluster of its own");
  command->add_option("--schemes", arguments->schemes, "Schemes to compare; repeatable")
      ->default_str("rep:2 rs:4,1 ers:4,1,5 ers:4,2,5");
  command->add_option("--sizes", arguments->sizes, "Object sizes; repeatable")
      ->default_str("1KiB 4KiB 16KiB 64KiB 1MiB 4MiB");
  command
      ->add_option("--seconds", arguments->seconds,
                   "No further round of latencies starts after it (at least 3 are made)")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_option("--nodes", arguments->nodes, "Nodes of the cluster")
      ->check(CLI::Range(2, 100))
      ->capture_default_str();
  command->add_option("--port", arguments->port, "The first of the ports it takes")
      ->check(CLI::Range(1, 65000))
      ->capture_default_str();
  command->add_option("--output", arguments->output, "Also writes the JSON to this file");
  add_small_bench_command(*command, globals);
  add_large_bench_command(*command, globals);
  add_degraded_bench_command(*command, globals);
  add_crossover_bench_command(*command, globals);
  add_scaling_bench_command(*command, globals);
  add_ycsb_bench_command(*command, globals);
  add_transition_bench_command(*command, globals);
  command->callback([arguments, command, &globals] {
    if (!command->get_subcommands().empty()) return;
    report(globals, run(*arguments, globals.json));
  });
}

}  // namespace elastripe::bench
