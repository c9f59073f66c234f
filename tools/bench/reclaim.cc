// elastripe bench reclaim: writes new objects that expire at full speed, to see whether memory is
// given back as fast.
#include <atomic>
#include <future>
#include <random>

#include "tools/bench/cases.h"
#include "tools/bench/experiment.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr int kInlineMaxBytes = 4096;
constexpr const char* kPrefix = "o/";

struct ReclaimOptions : Options {
  using Options::Options;
  Texts& sizes = texts("--sizes", {"1KiB", "64KiB"}, "Of the objects, one after the other");
  bool& together =
      flag("--together", "All sizes at once, on one cluster, overwritten and deleted, too");
  std::string& scheme = text("--scheme", "rs:2,1", "Of the cluster");
  int& nodes = number("--nodes", 4, "Of the cluster", 2, 100);
  int& memory_mb = number("--memory-mb", 512, "Of each node", 64, 1 << 20);
  int& connections = number("--connections", 16, "Connections of clients", 1, 4000);
  int& ttl_s = number("--ttl", 5, "Seconds that an object lives", 1, 3600);
  int& seconds = number("--seconds", 180, "Of each size", 1, 24 * 3600);
  bool& quick = quick_flag();
  int slice_s = 15;
};

// Keys that nobody has written yet, for all connections. With churn each second request overwrites
// or deletes one of the last ones.
RequestSource writes(const std::shared_ptr<std::atomic<uint64_t>>& next, bool churn) {
  constexpr uint64_t kRecent = 10'000;
  return {[=, random = std::mt19937_64(std::random_device()()), requests = 0]() mutable {
    if (!churn || ++requests % 2 == 0) return Request{Operation::kInsert, (*next)++};
    const uint64_t end = *next;
    const uint64_t record = end - std::min(end, 1 + random() % kRecent);
    return Request{requests % 4 == 1 ? Operation::kUpdate : Operation::kDelete, record};
  }};
}

bool is_striped(size_t object_bytes) { return object_bytes > kInlineMaxBytes; }

// How many objects have gone: those that were written, and are not there. Nodes may hold more than
// that for a while, of what is being overwritten.
void add_collected(const ReclaimOptions& o, size_t object_bytes, double written, double seconds,
                   double& items, Json& slice) {
  const auto scheme = coding::parse_scheme(o.scheme).value();
  const bool striped = is_striped(object_bytes);
  slice["items"] = slice[striped ? "shards" : "records"];
  const double grown = number(slice, "items") - std::exchange(items, number(slice, "items"));
  const double gone = written - grown / (striped ? scheme.shards() : scheme.m + 1);
  slice["written_per_second"] = written / seconds;
  slice["collected_per_second"] = std::max(gone, 0.0) / seconds;
}

// Writes objects of some sizes to a new cluster, all at once, and looks after each slice of time at
// what nodes hold: a row with these "slices".
Result<Json> measure_writes(const ReclaimOptions& o, Testbed& testbed, const Json& labels,
                            const std::vector<size_t>& sizes) {
  const auto cluster =
      TRY(testbed.start_cluster("elastripe", {.nodes = o.nodes,
                                              .scheme = o.scheme,
                                              .pools = {{kPrefix, o.scheme, kInlineMaxBytes}},
                                              .memory_mb = o.memory_mb}));
  const std::vector<ObjectBytes> objects(sizes.begin(), sizes.end());
  const LoadSettings settings{.connections = o.connections,
                              .exptime_s = o.ttl_s,
                              .duration = std::chrono::seconds(o.slice_s)};
  std::vector<Load> loads;
  for (const ObjectBytes& of_size : objects) {
    const auto sources = [&o, next = std::make_shared<std::atomic<uint64_t>>(0)] {
      return writes(next, o.together);
    };
    Target target = cluster.target;
    target.key_prefix = o.together ? fmt::format("{}{}/", kPrefix, loads.size()) : kPrefix;
    loads.push_back({labels, target, settings, sources, &of_size, Operation::kInsert});
  }
  double seconds = 0;
  double items = 0;
  const auto turn = [&](Notes& notes, size_t number) -> Result<> {
    fmt::print(stderr, "{:.0f} of {} s\n", seconds, o.seconds);
    std::vector<std::future<Result<LoadResult>>> running;
    running.reserve(loads.size());
    for (const Load& load : loads) {
      running.push_back(std::async(std::launch::async, [&load] { return load.run(); }));
    }
    Json slice;
    LoadResult all;
    double longest = 0;
    for (size_t i = 0; i < loads.size(); ++i) {
      const auto result = TRY(running[i].get());
      slice["per_second"][size_text(sizes[i])] = result.per_second();
      slice[fmt::format("rate_of_{}", sizes[i])] = result.per_second();
      all.add(result);
      longest = std::max(longest, result.seconds);
    }
    seconds += longest;
    slice["seconds"] = o.together ? static_cast<double>(number) * o.slice_s : seconds;
    auto stored = TRY(cluster.sum_of_stats("elastripe"));
    for (const char* name : {"shards", "records", "used_bytes"}) slice[name] = stored[name];
    slice["used_mib"] = stored["used_bytes"] >> 20;
    const auto written = static_cast<double>(all.operations);
    if (sizes.size() == 1) add_collected(o, sizes[0], written, longest, items, slice);
    notes.figures["written"] = notes.figures.value("written", uint64_t{0}) + all.operations;
    notes.figures["slices"].push_back(std::move(slice));
    return {};
  };
  return TRY(measure({{{labels, quartiles, turn}}},
                     {.rounds = (o.seconds + o.slice_s - 1) / o.slice_s, .warm_up = false}))
      .front();
}

// New keys for as long as it takes, each with a time to live: one size after the other.
Result<> measure_apart(const ReclaimOptions& o, Testbed& testbed, const std::vector<size_t>& sizes,
                       Report& report) {
  for (const size_t bytes : sizes) {
    const Json row = TRY(measure_writes(o, testbed, {{"object_bytes", bytes}}, {bytes}));
    report.show(
        fmt::format("{} objects of {}, each new and gone after {} s, {}, {} nodes of {} MiB.",
                    is_striped(bytes) ? "Striped" : "Inline", size_text(bytes), o.ttl_s, o.scheme,
                    o.nodes, o.memory_mb),
        "seconds | written a second = written_per_second | collected a second = "
        "collected_per_second | items | MiB used = used_mib",
        row.at("slices"));
    report.json["cases"].push_back(row);
  }
  return {};
}

// All sizes at once, on one cluster; objects are overwritten and deleted, too.
Result<> measure_together(const ReclaimOptions& o, Testbed& testbed,
                          const std::vector<size_t>& sizes, Report& report) {
  const Json row = TRY(measure_writes(o, testbed, Json::object(), sizes));
  std::string columns = "seconds";
  for (const size_t bytes : sizes) {
    columns += fmt::format(" | {}: requests a second = rate_of_{}", size_text(bytes), bytes);
  }
  report.show(fmt::format("Objects that are gone after {} s, of which each second request "
                          "overwrites or deletes one, {}, {} nodes of {} MiB.",
                          o.ttl_s, o.scheme, o.nodes, o.memory_mb),
              columns + " | shards | records | MiB used = used_mib", row.at("slices"));
  report.json["together"] = row.at("slices");
  return {};
}

Result<Report> run(ReclaimOptions& o) {
  if (o.quick) {
    o.seconds = 2;
    o.slice_s = 1;
  }
  const auto sizes = TRY(parse_sizes(o.sizes));
  TRY(parse_schemes({o.scheme}));
  const auto testbed = TRY(Testbed::create(o.port));
  Report report;
  const auto measure = o.together ? measure_together : measure_apart;
  TRY(measure(o, *testbed, sizes, report));
  return report;
}

}  // namespace

void add_reclaim(Commands& commands) {
  add_experiment(commands, "reclaim",
                 "Writes new objects that expire at full speed: is memory given back as fast?",
                 run);
}

}  // namespace elastripe::bench
