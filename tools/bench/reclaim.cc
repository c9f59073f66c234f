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
class Writes final : public RequestSource {
 public:
  Writes(std::shared_ptr<std::atomic<uint64_t>> next, bool churn)
      : next_(std::move(next)), churn_(churn) {}

  std::optional<Request> next() override {
    if (!churn_ || ++requests_ % 2 == 0) return Request{Operation::kInsert, (*next_)++};
    const uint64_t end = *next_;
    const uint64_t record = end - std::min(end, 1 + random_() % kRecent);
    return Request{requests_ % 4 == 1 ? Operation::kUpdate : Operation::kDelete, record};
  }

 private:
  static constexpr uint64_t kRecent = 10'000;

  std::shared_ptr<std::atomic<uint64_t>> next_;
  const bool churn_;
  std::mt19937_64 random_{std::random_device()()};
  uint64_t requests_ = 0;
};

bool is_striped(size_t object_bytes) { return object_bytes > kInlineMaxBytes; }

// Writes objects of some sizes, all at once, and looks after each slice of time at what nodes hold.
// A turn is a slice; their rows are "slices".
class WriteCase : public Case {
 public:
  WriteCase(Json labels, const ReclaimOptions& options, Cluster cluster,
            const std::vector<size_t>& sizes)
      : Case(std::move(labels)), options_(options), cluster_(std::move(cluster)) {
    for (const size_t bytes : sizes) writers_.push_back({ObjectBytes(bytes)});
  }

  Result<> turn(size_t number) override {
    fmt::print(stderr, "{:.0f} of {} s\n", seconds_, options_.seconds);
    std::vector<std::future<Result<LoadResult>>> loads;
    loads.reserve(writers_.size());
    for (size_t i = 0; i < writers_.size(); ++i) {
      loads.push_back(std::async(std::launch::async, [this, i] { return write(i); }));
    }
    Json slice;
    uint64_t written = 0;
    double longest = 0;
    for (size_t i = 0; i < loads.size(); ++i) {
      const auto result = TRY(loads[i].get());
      const size_t bytes = writers_[i].objects.object_bytes();
      slice["per_second"][size_text(bytes)] = result.per_second();
      slice[fmt::format("rate_of_{}", bytes)] = result.per_second();
      written += result.operations;
      longest = std::max(longest, result.seconds);
    }
    seconds_ += longest;
    written_ += written;
    slice["seconds"] =
        options_.together ? static_cast<double>(number) * options_.slice_s : seconds_;
    auto stored = TRY(cluster_.sum_of_stats("elastripe"));
    for (const char* name : {"shards", "records", "used_bytes"}) slice[name] = (stored)[name];
    slice["used_mib"] = slice["used_bytes"].get<uint64_t>() >> 20;
    if (writers_.size() == 1) add_collected(slice, static_cast<double>(written), longest);
    slices_.push_back(std::move(slice));
    return {};
  }

  void add_figures(Json& row) const override {
    row["written"] = written_;
    row["slices"] = slices_;
  }

 private:
  struct Writer {
    ObjectBytes objects;
    std::shared_ptr<std::atomic<uint64_t>> next = std::make_shared<std::atomic<uint64_t>>(0);
  };

  Result<LoadResult> write(size_t i) const {
    const LoadSettings load{
        .port = cluster_.target.port,
        .key_prefix = options_.together ? fmt::format("{}{}/", kPrefix, i) : kPrefix,
        .connections = options_.connections,
        .exptime_s = options_.ttl_s,
        .duration = std::chrono::seconds(options_.slice_s)};
    return run_load(load, writers_[i].objects,
                    [&] { return std::make_unique<Writes>(writers_[i].next, options_.together); });
  }

  // How many objects have gone: those that were written, and are not there.
  void add_collected(Json& slice, double written, double seconds) {
    const auto scheme = coding::parse_scheme(options_.scheme).value();
    const bool striped = is_striped(writers_.front().objects.object_bytes());
    const double items = number(slice, striped ? "shards" : "records");
    const double grown = (items - items_) / (striped ? scheme.shards() : scheme.m + 1);
    items_ = items;
    slice["items"] = slice[striped ? "shards" : "records"];
    slice["written_per_second"] = written / seconds;
    slice["collected_per_second"] = (written - grown) / seconds;
  }

  const ReclaimOptions& options_;
  const Cluster cluster_;
  std::vector<Writer> writers_;
  double seconds_ = 0;
  double items_ = 0;
  uint64_t written_ = 0;
  Rows slices_;
};

Result<Rows> measure_writes(const ReclaimOptions& o, Testbed& testbed, Json labels,
                            const std::vector<size_t>& sizes) {
  const auto cluster =
      TRY(testbed.start_cluster("elastripe", {.nodes = o.nodes,
                                              .scheme = o.scheme,
                                              .pools = {{kPrefix, o.scheme, kInlineMaxBytes}},
                                              .memory_mb = o.memory_mb}));
  Group group;
  group.push_back(std::make_unique<WriteCase>(std::move(labels), o, cluster, sizes));
  return measure(std::move(group),
                 {.rounds = (o.seconds + o.slice_s - 1) / o.slice_s, .warm_up = false});
}

// New keys for as long as it takes, each with a time to live: one size after the other.
Result<> measure_apart(const ReclaimOptions& o, Testbed& testbed, const std::vector<size_t>& sizes,
                       Report& report) {
  for (const size_t bytes : sizes) {
    const auto rows = TRY(measure_writes(o, testbed, {{"object_bytes", bytes}}, {bytes}));
    report.show(
        fmt::format("{} objects of {}, each new and gone after {} s, {}, {} nodes of {} MiB.",
                    is_striped(bytes) ? "Striped" : "Inline", size_text(bytes), o.ttl_s, o.scheme,
                    o.nodes, o.memory_mb),
        "seconds | written a second = written_per_second | collected a second = "
        "collected_per_second | items | MiB used = used_mib",
        rows.front().at("slices"));
    report.json["cases"].push_back(rows.front());
  }
  return {};
}

// All sizes at once, on one cluster; objects are overwritten and deleted, too.
Result<> measure_together(const ReclaimOptions& o, Testbed& testbed,
                          const std::vector<size_t>& sizes, Report& report) {
  const auto rows = TRY(measure_writes(o, testbed, Json::object(), sizes));
  std::string columns = "seconds";
  for (const size_t bytes : sizes) {
    columns += fmt::format(" | {}: requests a second = rate_of_{}", size_text(bytes), bytes);
  }
  report.show(fmt::format("Objects that are gone after {} s, of which each second request "
                          "overwrites or deletes one, {}, {} nodes of {} MiB.",
                          o.ttl_s, o.scheme, o.nodes, o.memory_mb),
              columns + " | shards | records | MiB used = used_mib", rows.front().at("slices"));
  report.json["together"] = rows.front().at("slices");
  return {};
}

Result<Report> run(ReclaimOptions& o) {
  if (o.quick) {
    o.seconds = 2;
    o.slice_s = 1;
  }
  const auto sizes = TRY(parse_sizes(o.sizes));
  if (const auto scheme = parse_schemes({o.scheme}); !scheme)
    return std::unexpected(scheme.error());
  const auto testbed = TRY(Testbed::create(o.port));
  Report report;
  report.json["bench"] = "reclaim";
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
