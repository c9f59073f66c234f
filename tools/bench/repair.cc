// elastripe bench repair: a node loses what it has, and it is made again: how fast, beside what
// reading, decoding and writing take by themselves; what it costs clients; and how long it takes
// from the crash to the first read around it, and to full redundancy.
#include <chrono>
#include <future>
#include <random>
#include <thread>

#include "coding/coder.h"
#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kScheme = "ers:4,2,5";
constexpr int kConnections = 4;  // as many objects as a repair has at a time
constexpr double kMiB = 1 << 20;
// Each node has room for what the writes leave behind them until no read can need it any more (the
// grace of a testbed's cluster is a second): 2 GiB/s on a fast machine.
constexpr int kReplacedMib = 256;

struct RepairOptions : Options {
  using Options::Options;
  std::string& size = text("--size", "1MiB", "Of the objects, in ers:4,2,5");
  int& nodes = number("--nodes", 9, "Nodes of the cluster", 8, 100);
  int& lost_mib = number("--lost-mib", 1024, "What one node has, about", 1, 1 << 20);
  int& rounds = rounds_of(3);
  int& round_ms = round_ms_of(2000);
  Numbers& rates = number("--rates", Numbers{50, 200},
                          "MiB/s of repairs beside clients; and "
                          "without a limit",
                          1, 1 << 20);
  bool& quick = quick_flag();
};

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

struct RepairBench {
  const RepairOptions& o;
  const Cluster cluster;
  const cli::AdminClient admin;
  const ObjectBytes objects;
  const uint64_t records;

  // The node is back, empty, and all of its records are.
  Result<> lose(const std::string& node) const {
    TRY(cluster.processes->kill({node}));
    TRY(cluster.processes->restart({node}));
    return cluster.wait_for("up", o.nodes, true);
  }
  Result<uint64_t> start_repair(Json body) const {
    const auto started = TRY(admin.post("/v1/repairs", "repair", body.dump()));
    return started.value("id", uint64_t{0});
  }
  Result<Json> ended(uint64_t id) const {
    for (;;) {
      std::this_thread::sleep_for(milliseconds(20));
      TRY(check_interrupt());
      auto report = TRY(admin.get(fmt::format("/v1/repairs/{}", id)));
      const std::string state = report.value("state", "");
      if (state == "running" || state == "cancelling") continue;
      if (state == "failed") {
        return cli::fail("the repair failed: {}", report.value("reason", ""));
      }
      return report;
    }
  }
  // All frames of all nodes, in and out: a node that has died since counts from its start.
  Result<double> wire_bytes() const {
    const auto stats = TRY(cluster.sum_of_stats("elastripe"));
    return static_cast<double>(stats.at("bytes_in") + stats.at("bytes_out"));
  }
  Load load(Operation operation, milliseconds duration, uint64_t seed) const {
    return {{},
            cluster.target,
            {.connections = kConnections, .duration = duration},
            [=, this] { return uniform_requests(operation, records, seed)(); },
            &objects,
            operation};
  }

  // A turn of the repair: all that one node had.
  Result<> note_repair(Notes& notes, size_t number) const {
    TRY(lose(fmt::format("n{}", number % static_cast<size_t>(o.nodes))));
    const Json planned = TRY(ended(TRY(start_repair({{"dry_run", true}})))).at("planned");
    const double wire_before = TRY(wire_bytes());
    const Json report = TRY(ended(TRY(start_repair({{"parallel", kConnections}}))));
    const double wire = TRY(wire_bytes()) - wire_before;
    const Json& counts = report.at("counts");
    const Json& done = report.at("done");
    if (counts.at("failed") != 0 || counts.at("refused") != 0 || done.at("shards") == 0) {
      return cli::fail("not all was repaired: {}", counts.dump());
    }
    const auto rebuilt = done.at("sent_bytes").get<double>();
    const auto plan =
        planned.at("read_bytes").get<double>() + planned.at("sent_bytes").get<double>();
    notes.add("rebuilt_mib_per_second", rebuilt / kMiB / report.at("seconds").get<double>());
    notes.add("rebuilt_mib", rebuilt / kMiB);
    notes.add("rebuilt_per_read", rebuilt / done.at("read_bytes").get<double>());
    notes.add("wire_over_plan", wire / plan);
    notes.add("seconds", report.at("seconds").get<double>());
    return {};
  }

  Result<> note_load(Notes& notes, Operation operation, const char* path, double bytes_each,
                     size_t number) const {
    const auto result = TRY(load(operation, milliseconds(o.round_ms), number).run());
    notes.add(path, result.per_second() * bytes_each / kMiB);
    return {};
  }

  // Clients read one object after the other, while a node's shards are made again at this rate;
  // 0: as fast as it goes; nothing: no repair.
  Result<> note_clients(Notes& notes, std::optional<int> mib_per_second, size_t number) const {
    uint64_t id = 0;
    if (mib_per_second) {
      TRY(lose(fmt::format("n{}", number % static_cast<size_t>(o.nodes))));
      Json body = {{"parallel", kConnections}};
      if (*mib_per_second > 0) body["rate"] = static_cast<uint64_t>(*mib_per_second) << 20;
      id = TRY(start_repair(body));
    }
    const auto result = TRY(load(Operation::kRead, milliseconds(o.round_ms), number).run());
    const Latencies& latencies = result.of(Operation::kRead);
    notes.add("p50_us", quantile_us(latencies, 0.5));
    notes.add("p99_us", quantile_us(latencies, 0.99));
    notes.add("per_second", result.per_second());
    if (!mib_per_second) return {};
    // What is left is made again at once, for the next turn.
    TRY(admin.post(fmt::format("/v1/repairs/{}/cancel", id), "repair"));
    TRY(ended(id));
    TRY(ended(TRY(start_repair({{"parallel", kConnections}}))));
    return {};
  }
};

// What one core decodes of a data shard that is gone: bytes that it makes.
Result<> note_decoding(Notes& notes, size_t object_bytes, milliseconds length) {
  const auto codec = TRY(coding::codec_for(TRY(coding::parse_scheme(kScheme))));
  const auto geometry = TRY(coding::SegmentGeometry::make(*codec, object_bytes));
  coding::ShardSet missing;
  missing.set(0);
  const auto plan = TRY(coding::decode_plan(*codec, coding::State::kNarrow, missing, missing));
  std::string segment = make_object(object_bytes, 1);
  const size_t parity_bytes = geometry.parity_shard_bytes(coding::State::kNarrow);
  const std::string parity = make_object(parity_bytes, 2);
  const std::vector<std::span<const std::byte>> parities(2, std::as_bytes(std::span(parity)));
  const auto from = Clock::now();
  double bytes = 0;
  while (Clock::now() - from < length) {
    auto coder = TRY(coding::Coder::decoder(geometry, plan,
                                            std::as_writable_bytes(std::span(segment)), parities));
    coder.finish();
    bytes += static_cast<double>(geometry.data_shard_bytes());
  }
  notes.add("decoded_mib_per_second", bytes / kMiB / seconds_since(from));
  return {};
}

// From the crash on, of a cluster that repairs by itself: the first read of an object that has a
// shard there, and full redundancy once the node is back.
Result<Json> measure_crash(const RepairOptions& o, Testbed& testbed, size_t bytes) {
  const auto cluster = TRY(testbed.start_cluster(
      "automatic", {.nodes = o.nodes, .scheme = kScheme, .set = {"timing.profile=local"}}));
  const auto admin = TRY(cluster.admin());
  const auto client = TRY(cluster.target.connect());
  const int keys = o.quick ? 10 : 100;
  for (int i = 0; i < keys; ++i) TRY(client->put(fmt::format("k{}", i), turn_value(bytes, 0)));
  const auto shown = TRY(admin.get("/v1/objects/k0"));
  const auto victim = shown.at("segments").at(0).at("shards").at(0).at("node").get<std::string>();
  TRY(cluster.processes->kill({victim}));
  const auto killed = Clock::now();
  std::string value;
  while (!client->get("k0", value)) TRY(check_interrupt());
  const double first_read = seconds_since(killed);
  TRY(cluster.processes->restart({victim}));
  const auto back = Clock::now();
  for (;;) {
    TRY(check_interrupt());
    const auto status = TRY(admin.get("/v1/status"));
    const Json& partitions = status.at("partitions");
    if (status.at("nodes").at("up") == o.nodes &&
        partitions.at("synced") == partitions.at("total") &&
        status.at("epoch").at("number") == status.at("repair").at("settled_epoch")) {
      break;
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  return Json{{"first_read_seconds", first_read},
              {"back_to_full_seconds", seconds_since(back)},
              {"objects", keys}};
}

Result<Rows> measure_speed(const RepairOptions& o, const RepairBench& bench, size_t bytes) {
  const auto read = [&](Notes& notes, size_t number) {
    return bench.note_load(notes, Operation::kRead, "read_mib_per_second",
                           static_cast<double>(bytes), number);
  };
  const auto write = [&](Notes& notes, size_t number) {
    return bench.note_load(notes, Operation::kUpdate, "written_mib_per_second",
                           static_cast<double>(bytes) * 6 / 4, number);
  };
  const auto decode = [&](Notes& notes, size_t) {
    return note_decoding(notes, bytes, milliseconds(o.round_ms / 4));
  };
  const auto repair = [&](Notes& notes, size_t number) { return bench.note_repair(notes, number); };
  const Group cases = {{{{"step", "read"}}, quartiles, read},
                       {{{"step", "write"}}, quartiles, write},
                       {{{"step", "decode"}}, quartiles, decode},
                       {{{"step", "repair"}}, quartiles, repair}};
  return measure({cases}, {.rounds = o.rounds, .shuffled = false});
}

Result<Rows> measure_clients(const RepairOptions& o, const RepairBench& bench) {
  Group cases;
  const auto add = [&](const std::string& label, std::optional<int> rate) {
    cases.push_back({{{"repair", label}}, quartiles, [&bench, rate](Notes& notes, size_t number) {
                       return bench.note_clients(notes, rate, number);
                     }});
  };
  add("none", std::nullopt);
  for (const int rate : o.rates) add(fmt::format("{} MiB/s", rate), rate);
  add("no limit", 0);
  return measure({cases}, {.rounds = o.rounds, .warm_up = false, .shuffled = false});
}

void add_speed(Report& report, const RepairOptions& o, size_t bytes, const Rows& rows) {
  const Json& repair = rows.back();
  const double per_read = number(repair, "rebuilt_per_read");
  // Each step alone, as the bytes that a repair would make with it.
  const double reading = number(rows[0], "read_mib_per_second") * per_read;
  const double writing = number(rows[1], "written_mib_per_second");
  const double decoding = number(rows[2], "decoded_mib_per_second");
  const double slowest = std::min({reading, writing, decoding});
  const double rebuilt = number(repair, "rebuilt_mib_per_second");
  const Json row{{"reading", reading},
                 {"decoding", decoding},
                 {"writing", writing},
                 {"repair", repair.at("rebuilt_mib_per_second")},
                 {"share", rebuilt / slowest},
                 {"wire", repair.at("wire_over_plan")},
                 {"mib", repair.at("rebuilt_mib")},
                 {"seconds", repair.at("seconds")}};
  report.json["speed"] = {{"row", row}, {"cases", rows}};
  report.show(
      fmt::format("One of {} nodes loses what it has of objects of {}, {}; MiB/s that are made "
                  "again, {} objects at a time, beside what\nreading k, decoding on one core, and "
                  "writing would let through by themselves.",
                  o.nodes, size_text(bytes), kScheme, kConnections),
      "MiB lost = mib .0 | s = seconds .1 | reading = reading .0 | decoding = decoding .0 | "
      "writing "
      "= writing .0 | repair = repair .0 | of the slowest = share .2 | wire / plan = wire .3",
      {row});
  report.add_goal("repair of " + size_text(bytes) + " / slowest of reading, decoding, writing",
                  "at_least", 0.5, 0.8, rebuilt / slowest);
}

Result<Report> run(RepairOptions& o) {
  if (o.quick) {
    o.lost_mib = 8;
    o.rounds = 1;
    o.round_ms = 200;
    o.rates = {50};
  }
  const auto bytes = TRY(parse_size(o.size));
  const auto testbed = TRY(Testbed::create(o.port));
  // A node has 1/9 of 1.5 bytes for each that is stored.
  const uint64_t records =
      static_cast<uint64_t>(o.lost_mib * kMiB * o.nodes * 4 / 6 / static_cast<double>(bytes)) + 1;
  auto cluster = TRY(testbed->start_cluster(
      "elastripe", {.nodes = o.nodes,
                    .scheme = kScheme,
                    .memory_mb = 2 * o.lost_mib + kReplacedMib,
                    .set = {"repair.automatic=false", "timing.profile=local"}}));
  auto admin = TRY(cluster.admin());
  const RepairBench bench{o, std::move(cluster), std::move(admin), ObjectBytes(bytes), records};
  TRY(store_records(bench.cluster.target, bench.objects, records, {.connections = 4}));
  Report report;
  add_speed(report, o, bytes, TRY(measure_speed(o, bench, bytes)));
  const Rows clients = TRY(measure_clients(o, bench));
  report.json["clients"] = clients;
  report.show(fmt::format("GETs of {} by {} clients meanwhile, microseconds.", size_text(bytes),
                          kConnections),
              "repair | GETs a second = per_second .0 | p50 = p50_us .0 | p99 = p99_us .0",
              clients);
  const Json crash = TRY(measure_crash(o, *testbed, bytes));
  report.json["crash"] = crash;
  report.show(
      "From SIGKILL to the first read around it; and from the start of the node, empty, to "
      "full redundancy again.",
      "objects | first read, s = first_read_seconds .2 | back to full, s = "
      "back_to_full_seconds .1",
      {crash});
  return report;
}

}  // namespace

void add_repair(Commands& commands) {
  add_experiment(commands, "repair",
                 "Making shards again that a node has lost: speed, traffic, and what clients see",
                 run);
}

}  // namespace elastripe::bench
