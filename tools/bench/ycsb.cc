// elastripe bench ycsb: YCSB's core workloads on servers of its own, or on any memcached servers.
#include "client-lib/client.h"
#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/units.h"
#include "tools/bench/ycsb_workload.h"

namespace elastripe::bench {
namespace {

using cli::Result;

struct YcsbOptions : Options {
  explicit YcsbOptions(CLI::App& app) : Options(app) {
    app.get_option("--workload")->delimiter(',');
  }
  Texts& workloads = texts("--workload", {"A", "B", "C", "D", "F"}, "A, B, C, D or F");
  Texts& servers = texts("--server", {},
                         "HOST:PORT of a memcached server, the first is what others are compared "
                         "with. Stores records there, which stay. None: starts its own");
  Texts& schemes = texts("--schemes", {"ers:4,1,5", "ers:4,2,5"}, "Of clusters of its own");
  std::string& key_prefix = text("--key-prefix", "", "Before every key");
  uint64_t& records = number("--records", uint64_t{100'000}, "Stored before", 1, 100'000'000);
  uint64_t& operations =
      number("--operations", uint64_t{100'000},
             "Of each workload at each server, in all rounds together", 1, 1'000'000'000);
  uint64_t& field_count =
      number("--field-count", uint64_t{10}, "Fields of a record: one value", 1, 10'000);
  uint64_t& field_bytes = number("--field-bytes", uint64_t{100}, "Bytes of a field", 1, 1 << 20);
  bool& field_updates = flag("--field-updates",
                             "Updates change one field of a record in place (ms KEY BYTES "
                             "o(offset)), of elastripe's servers and those of --server; memcached "
                             "can not, and has whole records updated");
  int& connections = number("--connections", 32, "Connections of clients", 1, 4000);
  int& depth = number("--depth", 1, "Requests in flight on each connection", 1, 1000);
  int& threads = number("--threads", 1, "Threads of the load", 1, 64);
  int& nodes = number("--nodes", 9, "Nodes of each cluster, and behind twemproxy", 2, 100);
  int& rounds = rounds_of(5);
  int& seed = number("--seed", 1, "Of the choice of operations and records", 0, 1'000'000'000);
};

void add_latencies(const LoadResult& sum, Json& figures) {
  Json& by_name = figures["latencies"] = Json::object();
  for (const Operation operation : kOperations) {
    const Latencies& latency = sum.of(operation);
    if (latency.count() == 0) continue;
    by_name[name_of(operation)] = {{"operations", latency.count()},
                                   {"p50_us", quantile_us(latency, 0.5)},
                                   {"p95_us", quantile_us(latency, 0.95)},
                                   {"p99_us", quantile_us(latency, 0.99)},
                                   {"p99_9_us", quantile_us(latency, 0.999)}};
  }
}

struct Server {
  Target target;
  bool updates_fields = false;
};

Result<std::vector<Server>> named_servers(const YcsbOptions& o) {
  std::vector<Server> servers;
  for (const std::string& text : o.servers) {
    const auto address = client::parse_address(text);
    if (!address) return cli::fail("{}: {}", text, address.error().message);
    servers.push_back(
        {{.name = text, .host = address->host, .port = address->port, .key_prefix = o.key_prefix},
         o.field_updates});
  }
  return servers;
}

Result<std::vector<Server>> own_servers(const YcsbOptions& o, Testbed& testbed, Report& report) {
  // All records and what inserts add, the warm-up's too, with headers and room to spare.
  const uint64_t records = o.records + 2 * o.operations;
  const int memory_mb =
      static_cast<int>(64 + (records * (o.field_count * o.field_bytes + 200) * 3 / 2 >> 20));
  std::vector<Target> others{TRY(testbed.start_memcached(2, memory_mb))};
  report.add_if_there("twemproxy", testbed.start_twemproxy(o.nodes, memory_mb), others);
  std::vector<Server> servers;
  servers.reserve(others.size() + o.schemes.size());
  for (const Target& other : others) servers.push_back({other});
  for (const std::string& scheme : o.schemes) {
    const auto cluster = TRY(testbed.start_cluster(
        "elastripe, " + scheme, {.nodes = o.nodes, .scheme = scheme, .memory_mb = memory_mb}));
    servers.push_back({cluster.target, o.field_updates});
  }
  for (Server& server : servers) server.target.key_prefix = o.key_prefix;
  return servers;
}

void add_pivots(const YcsbOptions& o, const Rows& rows, Report& report) {
  report.show(
      fmt::format("{} records of {} bytes, {} connections, depth {}: operations a\n"
                  "second, median of {} rounds (quartiles); x is the ratio to the first\n"
                  "server in the same round, then the median.",
                  o.records, o.field_count * o.field_bytes, o.connections, o.depth, o.rounds) +
          (o.field_updates ? fmt::format("\nUpdates are of one field of {} bytes, or of a record.",
                                         o.field_bytes)
                           : ""),
      "workload | server | updates | per second = per_second | x = over_first .2 | CPU us = "
      "front_cpu_us .1 "
      "| nodes' CPU us = back_cpu_us .1",
      rows);
  Rows by_operation;
  for (const std::string& workload : o.workloads) {
    for (const Operation operation : kOperations) {
      for (const Json& row : where(rows, {{"workload", workload}})) {
        const Json& latency = member(row, std::string("latencies/") + name_of(operation));
        if (latency.is_null()) continue;
        by_operation.push_back(labels_of(row, {"workload", "server"}, latency));
        by_operation.back()["operation"] = name_of(operation);
      }
    }
  }
  report.show(
      "Latencies in microseconds, by operation. A read-modify-write is also counted as its read "
      "and its update.",
      "workload | operation | server | operations | p50 = p50_us | p95 = p95_us | p99 = p99_us | "
      "p99.9 = p99_9_us",
      by_operation);
  report.chart(
      "ycsb",
      {.title = "YCSB", .x_label = "workload", .y_label = "operations a second, median, quartiles"},
      rows, "{workload}", "{server}", "per_second");
}

Result<Report> run(YcsbOptions& o) {
  std::vector<YcsbWorkload> workloads;
  for (std::string& name : o.workloads) {
    const auto workload = TRY(ycsb_workload(name));
    workloads.push_back(workload);
    name = workload.name;
  }
  TRY(parse_schemes(o.schemes));
  const ObjectBytes objects = o.field_updates ? ObjectBytes(o.field_bytes, o.field_count)
                                              : ObjectBytes(o.field_count * o.field_bytes);
  if (objects.object_bytes() != o.field_count * o.field_bytes) {
    return cli::fail("{} have at least {} bytes", o.field_updates ? "fields" : "records",
                     ObjectBytes::kLeastBytes);
  }
  Report report;
  const auto testbed = TRY(Testbed::create(o.port));
  const auto servers = TRY(o.servers.empty() ? own_servers(o, *testbed, report) : named_servers(o));
  const LoadSettings load{
      .connections = o.connections, .depth = o.depth, .threads = o.threads, .duration = {}};
  std::vector<std::unique_ptr<YcsbRecords>> records;  // by server
  for (const auto& [server, _] : servers) {
    fmt::print(stderr, "storing {} records at {}\n", o.records, server.name);
    TRY(store_records(server, objects, o.records, load));
    records.push_back(std::make_unique<YcsbRecords>(o.records));
  }

  const auto sources = static_cast<uint64_t>(o.rounds) * static_cast<uint64_t>(o.connections);
  const uint64_t each = std::max<uint64_t>(1, o.operations / sources);
  std::vector<Group> groups;
  auto seed = static_cast<uint64_t>(o.seed);
  for (const YcsbWorkload& workload : workloads) {
    Group& group = groups.emplace_back();
    for (size_t i = 0; i < servers.size(); ++i) {
      const auto& [server, updates_fields] = servers[i];
      group.push_back(load_case(
          {{{"workload", std::string(1, workload.name)},
            {"server", server.name},
            {"updates", updates_fields ? "field" : "record"}},
           server,
           load,
           ycsb_sources(workload, *records[i], each, seed, updates_fields ? objects.fields() : 0),
           &objects,
           Operation::kRead},
          add_latencies));
    }
    seed += 1'000'000;  // the same requests for every server, others for every workload
  }
  auto rows = TRY(measure(std::move(groups), {.rounds = o.rounds}));
  compare(rows, "over_first", "per_second", {"workload"},
          {{"server", servers.front().target.name}});
  report.json = {{"records", o.records},
                 {"record_bytes", objects.object_bytes()},
                 {"field_bytes", o.field_bytes},
                 {"updates", o.field_updates ? "field" : "record"},
                 {"connections", o.connections},
                 {"depth", o.depth},
                 {"seed", o.seed},
                 {"cases", rows}};
  add_pivots(o, rows, report);
  return report;
}

}  // namespace

void add_ycsb(Commands& commands) {
  add_experiment(commands, "ycsb",
                 "YCSB's core workloads, on servers of its own or on any memcached servers", run);
}

}  // namespace elastripe::bench
