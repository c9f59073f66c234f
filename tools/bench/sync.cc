// elastripe bench sync: how long records take to be where they belong again, after a node has died,
// and when one returns that was stopped for 5 s. Two events of one cluster, one after the other, so
// there is nothing to take turns.
#include <csignal>
#include <thread>

#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAway{5};

struct SyncOptions : Options {
  using Options::Options;
  int& nodes = number("--nodes", 6, "Nodes of the cluster", 5, 100);
  uint64_t& objects =
      number("--objects", uint64_t{1'000'000}, "Small objects, in rep:3", 1000, 100'000'000);
  int& value_bytes =
      number("--value-bytes", 100, "Of each object", int{ObjectBytes::kLeastBytes}, 4096);
  int& memory_mb = number("--memory-mb", 1024, "Of each node", 64, 1 << 20);
  bool& quick = quick_flag();
};

// What the nodes' last heartbeats tell.
struct Traffic {
  uint64_t records = 0;       // that one node holds
  uint64_t bytes_in = 0;      // of all nodes that are up
  uint64_t own_bytes_in = 0;  // of the one node
};

struct SyncBench {
  const SyncOptions& o;
  const Cluster cluster;
  const cli::AdminClient admin;
  const ObjectBytes objects;

  Result<> store(uint64_t records) const {
    return store_records(cluster.target, objects, records, {.connections = 8, .depth = 200});
  }

  // Once heartbeats have passed.
  Result<Traffic> traffic_of(const std::string& name) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const auto nodes = TRY(admin.get("/v1/nodes"));
    Traffic traffic;
    for (const Json& node : nodes.at("nodes")) {
      const Json& statistics = node.at("statistics");
      const auto bytes = statistics.at("bytes_in").get<uint64_t>();
      if (node.at("state") == "up") traffic.bytes_in += bytes;
      if (node.at("name") != name) continue;
      traffic.records = statistics.at("records").get<uint64_t>();
      traffic.own_bytes_in = bytes;
    }
    return traffic;
  }

  // From the map that has `up` nodes until all is synced. `records` are the copies to be had again.
  Result<> note_sync(Notes& notes, int up, uint64_t records, uint64_t bytes_before) const {
    TRY(cluster.wait_for("up", up, false));
    const auto from = Clock::now();
    TRY(cluster.wait_for("up", up, true));
    const std::chrono::duration<double> took = Clock::now() - from;
    const double bytes = static_cast<double>(TRY(traffic_of("")).bytes_in - bytes_before);
    const double seconds = std::max(took.count(), 0.001);
    notes.figures = {{"records", records},
                     {"seconds", took.count()},
                     {"bytes", bytes},
                     {"megabytes", bytes / 1e6},
                     {"records_per_second", static_cast<double>(records) / seconds},
                     {"bytes_per_record", bytes / std::max(static_cast<double>(records), 1.0)}};
    return {};
  }

  Result<> note_return(Notes& notes) const {
    const std::string name = "n0";
    const auto held = TRY(traffic_of(name));
    const cli::ProcessId process = cluster.processes->status(name).process;
    if (!cli::send_signal(process, SIGSTOP)) return cli::fail("{} does not run", name);
    const auto stopped = Clock::now();
    const auto others = [&]() -> Result<Traffic> {
      TRY(cluster.wait_for("up", o.nodes - 1, false));
      TRY(store(o.objects / 100));
      std::this_thread::sleep_until(stopped + kAway);
      TRY(cluster.wait_for("up", o.nodes - 1, true));
      return traffic_of(name);
    }();
    cli::send_signal(process, SIGCONT);
    // What it was sent before it stopped is no part of this, as its last answer told it.
    const Traffic before = TRY(others);
    return note_sync(notes, o.nodes, held.records, before.bytes_in + before.own_bytes_in);
  }

  Result<> note_death(Notes& notes) const {
    const std::string name = fmt::format("n{}", o.nodes - 1);
    const auto all = TRY(traffic_of(name));
    TRY(cluster.processes->kill({name}));
    return note_sync(notes, o.nodes - 1, all.records, all.bytes_in - all.own_bytes_in);
  }
};

Result<Report> run(SyncOptions& o) {
  if (o.quick) o.objects = 5000;
  const auto testbed = TRY(Testbed::create(o.port));
  auto cluster = TRY(testbed->start_cluster(
      "elastripe", {.nodes = o.nodes, .scheme = "rep:3", .memory_mb = o.memory_mb}));
  auto admin = TRY(cluster.admin());
  const SyncBench bench{o, std::move(cluster), std::move(admin),
                        ObjectBytes(static_cast<size_t>(o.value_bytes))};
  TRY(bench.store(o.objects));
  const Group cases{{{{"name", "a node returns, 1 % missed"}},
                     quartiles,
                     [&](Notes& notes, size_t) { return bench.note_return(notes); }},
                    {{{"name", "a node dies"}}, quartiles, [&](Notes& notes, size_t) {
                       return bench.note_death(notes);
                     }}};
  const auto rows = TRY(measure({cases}, {.warm_up = false, .shuffled = false}));
  Report report;
  report.json = {
      {"nodes", o.nodes}, {"objects", o.objects}, {"value_bytes", o.value_bytes}, {"cases", rows}};
  report.show(
      fmt::format(
          "{} objects of {} bytes, rep:3, on {} nodes. Records are the copies that the node had; "
          "bytes are all\nthat nodes were sent meanwhile, headers and heartbeats included.",
          o.objects, o.value_bytes, o.nodes),
      "= name | records | s = seconds .1 | records/s = records_per_second | MB sent = megabytes .1 "
      "| bytes/record = bytes_per_record",
      rows);
  return report;
}

}  // namespace

void add_sync(Commands& commands) {
  add_experiment(commands, "sync",
                 "Syncing records after a death, and when a node returns that was stopped for 5 s",
                 run);
}

}  // namespace elastripe::bench
