// elastripe bench update: updates of parts of large objects, by each method that a pool can have,
// beside Redis.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>

#include "tools/bench/drain.h"
#include "tools/bench/experiment.h"
#include "tools/bench/node_work.h"
#include "tools/bench/part_updates.h"
#include "tools/bench/runner.h"
#include "tools/bench/units.h"
#include "tools/bench/update_trace.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr const char* kRedis = "redis";
constexpr const char* kRedisWait = "redis-wait";
constexpr std::chrono::milliseconds kWarmUp{200};
constexpr std::chrono::hours kLongestReplay{24};
constexpr size_t kLargestUpdate = kMiB;     // limits.update_max_bytes, as it is if nobody says
constexpr size_t kSegmentBytes = 4 * kMiB;  // of pools, likewise
// The threads of a proxy tell once a second what they have folded.
constexpr std::chrono::milliseconds kFoldsTold{1200};

struct UpdateOptions : Options {
  explicit UpdateOptions(CLI::App& app) : Options(app) {
    for (const char* name : {"--methods", "--sizes", "--pattern", "--trace", "--retained-bytes"}) {
      app.get_option(name)->delimiter(',');
    }
  }
  Texts& methods =
      texts("--methods", {"home", "home:two", "off", kRedis, kRedisWait},
            "What a pool's `updates` is, with \":two\" for log_copies: two, \":once\" for "
            "log_rounds: one, else two; redis: SETRANGE; redis-wait: and WAIT 1");
  std::string& base = text("--base", "", "The method that others are compared with; the first");
  Texts& schemes = texts("--schemes", {"rs:6,2", "rs:6,3", "rs:6,4"}, "Of the objects");
  Texts& sizes = texts("--sizes", {"512", "4096", "16384", "65536"}, "Of the updates");
  Texts& patterns = texts("--pattern", {"uniform"}, "Which parts: uniform, zipf or hot");
  Texts& traces =
      texts("--trace", {},
            "Replays the writes of the file, in place of --sizes and --pattern: a block trace "
            "(.csv: op, size, lbn) or keys of 4 KiB (.trace: numbers of 32 bits, big-endian)");
  int& trace_writes =
      number("--trace-writes", 10'000, "Of a trace in each turn, from its start", 1, 1'000'000'000);
  int& synthetic_writes =
      number("--synthetic-writes", 50,
             "How many percent of a key trace's requests are taken as writes", 1, 100);
  Numbers& depths =
      number("--depth", Numbers{1, 16}, "Requests in flight on each connection", 1, 1000);
  Numbers& connections = number("--connections", Numbers{8}, "Connections of clients", 1, 1000);
  Numbers& update_percents =
      number("--update-percent", Numbers{100},
             "How many percent of the operations are updates; the others read parts", 1, 100);
  int& seconds = number("--seconds", 2, "Length of one load", 1, 3600);
  std::string& object_bytes = text("--object-bytes", "4MiB", "Of each object");
  int& objects = number("--objects", 4, "Of each method, for each size of updates", 1, 100'000);
  int& nodes = number("--nodes", 10, "Of each cluster", 2, 100);
  int& memory_mb = number("--memory-mb", 512, "Of each node", 64, 1 << 20);
  Numbers& fold_after_ms =
      number("--fold-after-ms", Numbers{1000},
             "timing.fold_after_ms: a cluster for each of several", 10, 60'000);
  Texts& retained_bytes =
      texts("--retained-bytes", {"0"},
            "limits.retained_log_bytes, as 4MiB, or 0.5%: of a method's objects, over all nodes; a "
            "cluster for each");
  Numbers& log_units =
      number("--log-units", Numbers{0},
             "--log-units of the nodes; 0: their default; a cluster for each", 0, 1'000'000);
  int& rounds = rounds_of(3);
  bool& quick = quick_flag();
};

bool is_redis(const std::string& method) { return method == kRedis || method == kRedisWait; }

bool has_word(const std::string& method, std::string_view word) {
  return method.ends_with(word) || method.contains(fmt::format("{}:", word));
}

// "home", "home:two", "home:once" or "home:two:once".
std::string pool_of(const std::string& method, const std::string& scheme) {
  return fmt::format(
      R"({{prefix: "{}/", scheme: "{}", updates: {}, log_copies: {}, log_rounds: {}}})", method,
      scheme, method.substr(0, method.find(':')), has_word(method, ":two") ? "two" : "all",
      has_word(method, ":once") ? "one" : "two");
}

// What clusters of the same scheme differ in.
struct Variant {
  std::string name;  // in tables, as "4 units"; empty if there is only one
  int fold_after_ms = 0;
  std::string retained_bytes;
  int log_units = 0;
};

// What is measured: servers of a scheme, or Redis.
struct Contestant {
  std::string method;
  std::string variant;  // its name
  Target target;
  const Cluster* cluster = nullptr;  // null: Redis
  int log_copies = 0;                // 0: it has no log at the homes
};

struct Setup {
  std::unique_ptr<Testbed> testbed;
  std::vector<std::unique_ptr<Cluster>> clusters;
  std::vector<Target> redis;
};

// What a node retains: "0.5%" is so much of the bytes, as all nodes together have them in logs.
Result<std::string> retained_by_node(const UpdateOptions& o, const std::string& text,
                                     uint64_t bytes) {
  if (!text.ends_with('%')) return text;
  double percent = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto read = std::from_chars(text.data(), end, percent);
  if (read.ec != std::errc() || read.ptr != end || percent < 0 || percent > 100) {
    return cli::fail("--retained-bytes: {} is no percentage", text);
  }
  const double each = static_cast<double>(bytes) * percent / 100 / o.nodes;
  return std::to_string(static_cast<uint64_t>(each));
}

// All combinations. `bytes`: of the objects of a method.
Result<std::vector<Variant>> variants_of(const UpdateOptions& o, uint64_t bytes) {
  std::vector<Variant> variants;
  for (const int fold_after_ms : o.fold_after_ms) {
    for (const std::string& retained : o.retained_bytes) {
      for (const int units : o.log_units) {
        Texts names;
        if (o.fold_after_ms.size() > 1) names.push_back(fmt::format("{} ms", fold_after_ms));
        if (o.retained_bytes.size() > 1) names.push_back(fmt::format("{} retained", retained));
        if (o.log_units.size() > 1) {
          names.push_back(units == 0 ? "default units" : fmt::format("{} units", units));
        }
        variants.push_back({fmt::format("{}", fmt::join(names, ", ")), fold_after_ms,
                            TRY(retained_by_node(o, retained, bytes)), units});
      }
    }
  }
  return variants;
}

// One cluster with a pool for each method.
Result<const Cluster*> start_cluster(const UpdateOptions& o, Setup& setup,
                                     const std::string& scheme, const Variant& variant) {
  cli::ClusterSettings settings{
      .nodes = o.nodes, .scheme = scheme, .memory_mb = o.memory_mb, .log_units = variant.log_units};
  size_t pools = 0;
  for (const std::string& method : o.methods) {
    if (is_redis(method)) continue;
    settings.set.push_back(fmt::format("pools.{}={}", ++pools, pool_of(method, scheme)));
  }
  settings.set.push_back("experimental=true");  // for the baselines
  settings.set.push_back(fmt::format("timing.fold_after_ms={}", variant.fold_after_ms));
  settings.set.push_back(fmt::format("limits.retained_log_bytes={}", variant.retained_bytes));
  auto cluster = TRY(setup.testbed->start_cluster("elastripe, " + scheme, std::move(settings)));
  setup.clusters.push_back(std::make_unique<Cluster>(std::move(cluster)));
  return setup.clusters.back().get();
}

Result<NodeWork> work_so_far(const Cluster& cluster, const cli::AdminClient& admin) {
  NodeWork work = node_work_of(TRY(admin.text("/metrics")));
  take_statistics(work, TRY(cluster.sum_of_stats("elastripe")));
  return work;
}

// What was done since `before`, right after it is.
Result<NodeWork> work_since(const NodeWork& before, const Cluster& cluster,
                            const cli::AdminClient& admin, bool may_fold) {
  NodeWork now = TRY(work_so_far(cluster, admin));
  if (may_fold) {
    const auto end = std::chrono::steady_clock::now() + kFoldsTold;
    const auto is_over = [end] {
      return std::chrono::steady_clock::now() >= end || was_interrupted();
    };
    cli::wait_until(is_over, 2 * kFoldsTold);
    TRY(check_interrupt());
    take_folds(now, node_work_of(TRY(admin.text("/metrics"))));
  }
  return now - before;
}

// For one load, whose connections share it.
using ChoiceMaker = std::function<BlockChoice()>;

ChoiceMaker replay_of(std::vector<BlockRun> writes) {
  auto shared = std::make_shared<const std::vector<BlockRun>>(std::move(writes));
  return [shared] {
    auto next = std::make_shared<std::atomic<size_t>>(0);
    return [shared, next](Random&) -> std::optional<BlockRun> {
      const size_t place = (*next)++;
      if (place >= shared->size()) return std::nullopt;
      return (*shared)[place];
    };
  };
}

// What is written, of objects of its own.
struct Workload {
  std::string name;  // in keys
  std::string pattern;
  size_t block_bytes = 0;
  uint64_t update_bytes = 0;  // on average
  ChoiceMaker choices;
  bool is_replay = false;  // which ends by itself
};

// A turn is one load, and the folds of what it left. Figures: "per_second" of both together,
// "loading_per_second", "drain_s", "p50_us" and "p99_us", with reads "read_p50_us" and
// "read_p99_us"; of a cluster those of figures_of().
Case update_case(Json labels, const BlockObjects& objects, ChoiceMaker choices, PartLoad load,
                 const Cluster* cluster, int log_copies) {
  const auto turn = [=, sum = Latencies(), reads = Latencies(), written = WrittenParts(),
                     work = NodeWork()](Notes& notes, size_t number) mutable -> Result<> {
    PartLoad now = load;
    now.seed += number * 1'000'000;
    if (number == 0) now.duration = std::min(now.duration, kWarmUp);
    std::optional<cli::AdminClient> admin;
    NodeWork before;
    if (cluster != nullptr) {
      admin = TRY(cluster->admin());
      before = TRY(work_so_far(*cluster, *admin));
    }
    const auto done = TRY(run_updates(objects, choices(), now));
    const double drain_s = admin ? TRY(drain(*cluster, *admin, objects.prefix)) : 0;
    NodeWork done_by_nodes;
    if (admin) done_by_nodes = TRY(work_since(before, *cluster, *admin, log_copies > 0));
    if (number == 0) return {};
    sum.add(done.latencies);
    written.updates += done.updates;
    written.bytes += done.bytes;
    written.reads += done.reads;
    reads.add(done.read_latencies);
    const auto count = static_cast<double>(done.updates + done.reads);
    notes.add("per_second", count / (done.seconds + drain_s));
    notes.add("loading_per_second", count / done.seconds);
    notes.add("drain_s", drain_s);
    notes.figures = {{"updates", written.updates},
                     {"p50_us", quantile_us(sum, 0.5)},
                     {"p99_us", quantile_us(sum, 0.99)}};
    if (written.reads > 0) {
      notes.figures.update(Json{{"reads", written.reads},
                                {"read_p50_us", quantile_us(reads, 0.5)},
                                {"read_p99_us", quantile_us(reads, 0.99)}});
    }
    if (admin) {
      work += done_by_nodes;
      notes.figures.update(figures_of(work, written, log_copies));
    }
    return {};
  };
  return {std::move(labels), quartiles, turn};
}

// How many nodes have what an update wrote, of those that log it at the homes.
int log_copies_of(const std::string& method, const coding::Scheme& scheme) {
  if (has_word(method, ":two")) return 2;
  return method.starts_with("home") ? scheme.m + 1 : 0;
}

Result<std::vector<Contestant>> contestants_of(const UpdateOptions& o, Setup& setup,
                                               const std::string& scheme,
                                               const std::vector<Variant>& variants) {
  const auto parsed = TRY(parse_schemes({scheme})).front();
  std::vector<Contestant> contestants;
  const bool needs_cluster = !std::ranges::all_of(o.methods, is_redis);
  for (const Variant& variant : variants) {
    const Cluster* cluster =
        needs_cluster ? TRY(start_cluster(o, setup, scheme, variant)) : nullptr;
    for (const std::string& method : o.methods) {
      if (!is_redis(method)) {
        contestants.push_back(
            {method, variant.name, cluster->target, cluster, log_copies_of(method, parsed)});
      } else if (!setup.redis.empty()) {
        contestants.push_back({method, variant.name, setup.redis.front()});
      }
    }
  }
  return contestants;
}

// The columns that say what a row is of: those of which there is more than one value, and some that
// are always there.
std::string label_columns(const UpdateOptions& o, const std::vector<Variant>& variants) {
  std::string columns = "scheme | bytes = update_bytes | pattern | depth | ";
  if (o.connections.size() > 1) columns += "connections | ";
  if (o.update_percents != Numbers{100}) columns += "updates % = update_percent | ";
  columns += "method";
  if (variants.size() > 1) columns += " | logs";
  return columns;
}

void show(const UpdateOptions& o, const std::vector<Variant>& variants, const std::string& base,
          const Rows& rows, Report& report) {
  const std::string labels = label_columns(o, variants);
  const bool reads = o.update_percents != Numbers{100};
  const bool varies = variants.size() > 1;
  report.show(
      fmt::format(
          "Updates of parts of objects of {}, {} objects, {} connections, {} nodes: {}\n"
          "a second, median of {} rounds (quartiles), the time until all is folded included, "
          "which\n"
          "is shown beside; x is the ratio to {} in the same round, then the median{}.",
          o.object_bytes, o.objects, fmt::join(o.connections, ", "), o.nodes,
          reads ? "updates and reads" : "updates", o.rounds, base,
          varies ? fmt::format("; of {}: to the same method there", variants.front().name) : ""),
      labels + " | per second = per_second | x = over_base .2" +
          (varies ? fmt::format(" | of {} = over_first .2", variants.front().name) : "") +
          " | before folds = loading_per_second | folds s = drain_s .2 | p50 us = p50_us | p99 us "
          "= p99_us" +
          (reads ? " | read p50 us = read_p50_us | read p99 us = read_p99_us" : ""),
      rows);
  Rows of_clusters;
  std::ranges::copy_if(rows, std::back_inserter(of_clusters),
                       [](const Json& row) { return row.contains("frames"); });
  if (!of_clusters.empty()) {
    report.show(
        fmt::format(
            "What {} cost the nodes, of all rounds, the folds included: frames to nodes,\n"
            "KiB to them and from them; how often bytes of shards were changed, and KiB of\n"
            "that; updates for each log that was folded, and which share of their bytes\n"
            "was overwritten in the log before.",
            reads ? "an update or a read" : "an update"),
        labels +
            " | frames = frames .2 | sent KiB = sent_kib .1 | received KiB = received_kib .1 | "
            "changes of shards = shard_changes .2 | changed KiB = shard_changed_kib .1 | updates a "
            "fold = updates_per_fold | merged = merged_share .2",
        of_clusters);
  }
  Rows of_logs;
  std::ranges::copy_if(rows, std::back_inserter(of_logs),
                       [](const Json& row) { return row.contains("merged_share"); });
  if (!of_logs.empty()) {
    report.show(
        "Times of logs, the mean of all rounds: from an update sent to the tail, and to a copy,\n"
        "until the reply (of as many updates as it has); how old a log was when it was folded, "
        "and\n"
        "how long that took. Waits: how often updates found a log full.",
        labels +
            " | append us = us_by_request/LOG_APPEND .0 | copy us = us_by_request/LOG_STORE .0 | "
            "in the log ms = log_age_ms .1 | fold ms = fold_ms .2 | folds | waits",
        of_logs);
  }
  report.chart("update-{scheme}-{pattern}",
               {.title = "Updates of parts, {scheme}, {pattern}",
                .x_label = "bytes and depth",
                .y_label = "updates a second, folds included, median, quartiles"},
               rows,
               "{update_bytes}, depth {depth}" +
                   std::string(o.connections.size() > 1 ? ", {connections} connections" : "") +
                   (reads ? ", {update_percent}%" : ""),
               varies ? "{method}, {logs}" : "{method}", "per_second");
}

// What is measured, and what is checked afterwards.
struct Plan {
  std::vector<Group> groups;
  std::vector<BlockObjects> objects;
};

struct LoadShape {
  int depth = 1;
  int connections = 1;
  int update_percent = 100;
};

std::vector<LoadShape> shapes_of(const UpdateOptions& o) {
  std::vector<LoadShape> shapes;
  for (const int depth : o.depths) {
    for (const int connections : o.connections) {
      for (const int percent : o.update_percents) shapes.push_back({depth, connections, percent});
    }
  }
  return shapes;
}

// Where an object goes from one shard to another, at most. Baselines promise nothing of bytes on
// both sides of it (docs/updates.md, "Baselines").
Result<uint64_t> edges_of(const std::string& text, size_t object_bytes) {
  const coding::Scheme scheme = TRY(parse_schemes({text})).front();
  const uint64_t segments = (object_bytes + kSegmentBytes - 1) / kSegmentBytes;
  return segments * scheme.k * scheme.k_prime;
}

// Objects of blocks of one size at each server, and the cases of all workloads on them.
Result<> add_cases(const UpdateOptions& o, const std::string& scheme,
                   const std::vector<Contestant>& contestants, size_t object_bytes,
                   const std::vector<Workload>& workloads, Plan& plan) {
  const size_t block_bytes = workloads.front().block_bytes;
  std::vector<BlockObjects> objects;
  objects.reserve(contestants.size());
  const uint64_t edges = static_cast<uint64_t>(o.objects) * TRY(edges_of(scheme, object_bytes));
  for (const Contestant& contestant : contestants) {
    const bool may_tear =
        contestant.cluster != nullptr && contestant.log_copies == 0 && contestant.method != "off";
    objects.push_back({.target = contestant.target,
                       .prefix = fmt::format("{}/{}-{}-{}-", contestant.method, scheme,
                                             workloads.front().name, objects.size()),
                       .objects = static_cast<uint64_t>(o.objects),
                       .blocks = object_bytes / block_bytes,
                       .block_bytes = block_bytes,
                       .waits = contestant.method == kRedisWait,
                       .torn_blocks = may_tear ? edges : 0});
    TRY(store_objects(objects.back()));
    TRY(check_interrupt());
  }
  for (const Workload& workload : workloads) {
    for (const LoadShape& shape : shapes_of(o)) {
      Group& group = plan.groups.emplace_back();
      const PartLoad load{
          .connections = shape.connections,
          .depth = shape.depth,
          .duration = workload.is_replay ? kLongestReplay : std::chrono::seconds(o.seconds),
          .seed = 1000 * plan.groups.size(),
          .update_percent = shape.update_percent};
      for (size_t i = 0; i < contestants.size(); ++i) {
        group.push_back(update_case({{"scheme", scheme},
                                     {"update_bytes", workload.update_bytes},
                                     {"pattern", workload.pattern},
                                     {"depth", shape.depth},
                                     {"connections", shape.connections},
                                     {"update_percent", shape.update_percent},
                                     {"method", contestants[i].method},
                                     {"logs", contestants[i].variant}},
                                    objects[i], workload.choices, load, contestants[i].cluster,
                                    contestants[i].log_copies));
      }
    }
  }
  plan.objects.insert(plan.objects.end(), objects.begin(), objects.end());
  return {};
}

// Those that share their objects together: the patterns of each size.
Result<std::vector<std::vector<Workload>>> workloads_of(const UpdateOptions& o, size_t object_bytes,
                                                        const std::vector<size_t>& sizes) {
  std::vector<std::vector<Workload>> all;
  all.reserve(sizes.size());
  for (const size_t size : sizes) {
    std::vector<Workload>& of_size = all.emplace_back();
    const uint64_t blocks = static_cast<uint64_t>(o.objects) * (object_bytes / size);
    for (const std::string& pattern : o.patterns) {
      of_size.push_back(
          {.name = std::to_string(size),
           .pattern = pattern,
           .block_bytes = size,
           .update_bytes = size,
           .choices = [choice = TRY(block_choice(pattern, blocks))] { return choice; }});
    }
  }
  return all;
}

// The writes where they lie in the objects; the report tells what was made of the trace.
Result<Workload> replay_trace(const UpdateOptions& o, const std::string& file, size_t object_bytes,
                              Report& report) {
  const auto trace = TRY(read_trace(file, {.writes = static_cast<uint64_t>(o.trace_writes),
                                           .synthetic_writes = o.synthetic_writes}));
  const uint64_t blocks = object_bytes / trace.block_bytes;
  if (blocks == 0) {
    return cli::fail("--object-bytes: {} has blocks of {}", file, size_text(trace.block_bytes));
  }
  UpdateTrace placed = trace;
  uint64_t cut = 0;
  for (BlockRun& run : placed.writes) {
    const uint64_t had = run.blocks;
    run = run_in_objects(run, static_cast<uint64_t>(o.objects), blocks,
                         kLargestUpdate / trace.block_bytes);
    cut += run.blocks < had ? 1 : 0;
  }
  const size_t writes = trace.writes.size();
  const double mib = kMiB;
  report.notes.push_back(fmt::format(
      "{}: {} writes in each turn; {} requests between them are left out. They write to {:.1f} "
      "MiB, "
      "which are {:.1f} MiB of the objects (modulo their size); {} are cut where an object or the "
      "largest update ends.",
      trace.label(), writes, trace.left_out, static_cast<double>(trace.touched_bytes()) / mib,
      static_cast<double>(placed.touched_bytes()) / mib, cut));
  Json told{{"file", file},
            {"pattern", trace.label()},
            {"writes", writes},
            {"left_out", trace.left_out},
            {"written_bytes", trace.written_bytes()},
            {"touched_bytes", trace.touched_bytes()},
            {"replayed_bytes", placed.written_bytes()},
            {"replayed_touched_bytes", placed.touched_bytes()},
            {"cut", cut}};
  if (trace.synthetic_writes) told["synthetic_write_percent"] = *trace.synthetic_writes;
  report.json["traces"].push_back(std::move(told));
  return Workload{.name = fmt::format("trace{}", report.json["traces"].size()),
                  .pattern = trace.label(),
                  .block_bytes = trace.block_bytes,
                  .update_bytes = placed.written_bytes() / writes,
                  .choices = replay_of(std::move(placed.writes)),
                  .is_replay = true};
}

Result<> check_sizes(const std::vector<size_t>& sizes, size_t object_bytes) {
  for (const size_t size : sizes) {
    if (size >= ObjectBytes::kLeastBytes && size <= object_bytes) continue;
    return cli::fail("--sizes: {} is not between {} and the object's {}", size,
                     ObjectBytes::kLeastBytes, object_bytes);
  }
  return {};
}

Result<Report> run(UpdateOptions& o) {
  if (o.quick) {
    o.rounds = 1;
    o.seconds = 1;
    o.objects = 1;
    o.object_bytes = "256KiB";
    o.trace_writes = std::min(o.trace_writes, 500);
  }
  if (!o.traces.empty() && o.update_percents != Numbers{100}) {
    return cli::fail("--update-percent: what a trace reads is left out");
  }
  const size_t object_bytes = TRY(parse_size(o.object_bytes));
  const auto sizes = TRY(parse_sizes(o.sizes));
  const auto schemes = TRY(parse_schemes(o.schemes));
  TRY(check_sizes(sizes, object_bytes));
  Report report;
  std::vector<std::vector<Workload>> workloads;
  workloads.reserve(o.traces.size());
  for (const std::string& file : o.traces) {
    workloads.push_back({TRY(replay_trace(o, file, object_bytes, report))});
  }
  if (workloads.empty()) workloads = TRY(workloads_of(o, object_bytes, sizes));
  const std::string base = o.base.empty() ? o.methods.front() : o.base;
  if (std::ranges::find(o.methods, base) == o.methods.end()) {
    return cli::fail("--base: {} is none of the methods", base);
  }
  const auto variants =
      TRY(variants_of(o, workloads.size() * static_cast<uint64_t>(o.objects) * object_bytes));
  Setup setup;
  setup.testbed = TRY(Testbed::create(o.port));
  if (std::ranges::any_of(o.methods, is_redis)) {
    report.add_if_there("Redis", setup.testbed->start_redis(o.memory_mb), setup.redis);
  }
  Plan plan;
  for (size_t i = 0; i < schemes.size(); ++i) {
    const std::string& scheme = o.schemes[i];
    if (schemes[i].shards() > o.nodes) {
      report.notes.push_back(
          fmt::format("Without {}: it needs {} nodes.", scheme, schemes[i].shards()));
      continue;
    }
    const auto contestants = TRY(contestants_of(o, setup, scheme, variants));
    if (contestants.empty()) continue;
    for (const auto& on_same_objects : workloads) {
      TRY(add_cases(o, scheme, contestants, object_bytes, on_same_objects, plan));
    }
  }
  auto rows = TRY(measure(std::move(plan.groups), {.rounds = o.rounds}));
  for (const BlockObjects& objects : plan.objects) {
    const uint64_t torn = TRY(check_objects(objects));
    if (torn == 0) continue;
    report.notes.push_back(fmt::format("{}: {} blocks that lie in two shards are of two updates.",
                                       objects.prefix, torn));
  }
  Texts same{"scheme", "update_bytes", "pattern", "depth", "connections", "update_percent", "logs"};
  compare(rows, "over_base", "per_second", same, {{"method", base}});
  same.back() = "method";
  compare(rows, "over_first", "per_second", same, {{"logs", variants.front().name}});
  report.json.update(Json{{"object_bytes", object_bytes},
                          {"objects", o.objects},
                          {"nodes", o.nodes},
                          {"connections", o.connections},
                          {"fold_after_ms", o.fold_after_ms},
                          {"retained_log_bytes", o.retained_bytes},
                          {"log_units", o.log_units},
                          {"base", base},
                          {"cases", rows}});
  show(o, variants, base, rows, report);
  return report;
}

}  // namespace

void add_update(Commands& commands) {
  add_experiment(commands, "update",
                 "Updates of parts of large objects, by each method, beside Redis", run);
}

}  // namespace elastripe::bench
