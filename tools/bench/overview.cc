#include "tools/bench/overview.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>

#include "coding/scheme.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/memcached_client.h"
#include "tools/bench/statistics.h"
#include "tools/bench/turns.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr int kMemoryMb = 1024;
constexpr size_t kKeys = 8;  // of one case; overwritten again and again
// Objects up to this are also measured inline, whatever the scheme.
constexpr int kInlineMaxBytes = 64 << 10;

uint64_t number_of(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Memory in use on all nodes: chunks that hold an item times their size, as `stats slabs` says.
Result<uint64_t> used_bytes(const TemporaryCluster& cluster) {
  uint64_t total = 0;
  for (int i = 0; i < cluster.settings().nodes; ++i) {
    auto client = connect_to(cluster.node_port(i));
    if (!client) return std::unexpected(client.error());
    const auto rows = client->stats("slabs");
    if (!rows) return cli::fail("stats slabs of n{}: {}", i, rows.error().message);
    std::map<std::string, uint64_t> chunk_bytes;
    for (const auto& [name, value] : *rows) {  // CLASS:chunk_size comes before CLASS:used_chunks
      const size_t colon = name.find(':');
      if (colon == std::string::npos) continue;
      const std::string slab_class = name.substr(0, colon);
      if (name.substr(colon) == ":chunk_size") chunk_bytes[slab_class] = number_of(value);
      if (name.substr(colon) == ":used_chunks") total += chunk_bytes[slab_class] * number_of(value);
    }
  }
  return total;
}

class Overview {
 public:
  Overview(const OverviewSettings& settings, const std::vector<size_t>& sizes)
      : settings_(settings), sizes_(sizes) {}

  Result<Report> run() {
    if (auto done = start(); !done) return std::unexpected(done.error());
    report_.json = {{"bench", "overview"},
                    {"nodes", settings_.nodes},
                    {"latency", Json::array()},
                    {"memory", Json::array()}};
    if (auto done = measure_memory(); !done) return std::unexpected(done.error());
    if (auto done = measure_latency(); !done) return std::unexpected(done.error());
    return std::move(report_);
  }

 private:
  Result<> start() {
    auto testbed = Testbed::create(settings_.port);
    if (!testbed) return std::unexpected(testbed.error());
    testbed_ = std::move(*testbed);
    auto memcached = testbed_->start_memcached(2, kMemoryMb);
    if (!memcached) return std::unexpected(memcached.error());
    memcached_ = std::move(*memcached);

    cli::ClusterSettings settings;
    settings.nodes = settings_.nodes;
    settings.memory_mb = kMemoryMb;
    settings.scheme = settings_.schemes.front();
    for (const std::string& scheme : settings_.schemes) {
      settings.pools.push_back({prefix_of(scheme, "inline"), scheme, kInlineMaxBytes});
      settings.pools.push_back({prefix_of(scheme, "striped"), scheme, 0});
    }
    auto cluster = testbed_->start_cluster("elastripe", settings);
    if (!cluster) return std::unexpected(cluster.error());
    cluster_ = std::move(*cluster);

    for (const auto& [target, client] :
         {std::pair{&memcached_, &plain_client_}, std::pair{&cluster_.target, &proxy_client_}}) {
      auto connected = MemcachedClient::connect(target->host, target->port);
      if (!connected) return std::unexpected(connected.error());
      *client = std::move(*connected);
    }
    return {};
  }

  // Of the keys of a pool.
  static std::string prefix_of(const std::string& scheme, const std::string& path) {
    return fmt::format("{}/{}/", scheme, path);
  }

  // Stores new objects in one pool after the other and sees how much more memory the nodes use.
  Result<> measure_memory() {
    Table table{.text =
                    "Memory used on the nodes for each byte stored; the ideal has no header and "
                    "no rounding.",
                .header = {"scheme", "path", "objects", "bytes per byte", "ideal"},
                .rows = {}};
    for (const std::string& text : settings_.schemes) {
      const coding::Scheme scheme = *coding::parse_scheme(text);
      const double narrow = static_cast<double>(scheme.k + scheme.m) / scheme.k;
      for (const bool striped : {true, false}) {
        const std::string path = striped ? "striped" : "inline";
        const size_t bytes = striped ? size_t{1} << 20 : size_t{4} << 10;
        const int objects = striped ? 32 : 1000;
        const double ideal = striped ? narrow : scheme.m + 1.0;
        const auto ratio = memory_of(prefix_of(text, path), bytes, objects);
        if (!ratio) return std::unexpected(ratio.error());
        table.rows.push_back({text, path, fmt::format("{} of {}", objects, size_text(bytes)),
                              fmt::format("{:.3f}", *ratio), fmt::format("{:.3f}", ideal)});
        report_.json["memory"].push_back({{"scheme", text},
                                          {"path", path},
                                          {"object_bytes", bytes},
                                          {"objects", objects},
                                          {"bytes_per_byte", *ratio},
                                          {"ideal", ideal}});
        if (!striped) continue;
        report_.goals.push_back(
            {.text = fmt::format("memory of striped {} objects, {}: measured / ideal",
                                 size_text(bytes), text),
             .at_least = false,
             .bound = 1.1,
             .stretch = std::nullopt,
             .measured = *ratio / ideal});
      }
    }
    report_.tables.push_back(std::move(table));
    return {};
  }

  Result<double> memory_of(const std::string& prefix, size_t bytes, int objects) {
    const auto before = used_bytes(*cluster_.processes);
    if (!before) return std::unexpected(before.error());
    for (int i = 0; i < objects; ++i) {
      const auto key = fmt::format("{}memory/{}", prefix, i);
      if (auto done = proxy_client_->put(key, turn_value(bytes, 0)); !done) {
        return std::unexpected(done.error());
      }
    }
    const auto after = used_bytes(*cluster_.processes);
    if (!after) return std::unexpected(after.error());
    const double stored = static_cast<double>(bytes) * objects;
    return (static_cast<double>(*after) - static_cast<double>(*before)) / stored;
  }

  struct Path {
    std::string scheme;
    std::string path;
  };

  Result<> measure_latency() {
    Table table{.text =
                    "One request at a time, turn by turn, microseconds: median (quartiles).\n"
                    "x is the ratio of medians to memcached direct at the same size.",
                .header = {"size", "scheme", "path", "PUT us", "x", "GET us", "x"},
                .rows = {}};
    for (const size_t bytes : sizes_) {
      fmt::print(stderr, "{}\n", size_text(bytes));
      std::vector<Path> paths;
      std::vector<TurnCase> cases = cases_of(bytes, paths);
      const TurnSettings settings{.object_bytes = bytes,
                                  .budget = std::chrono::milliseconds(
                                      1000 * settings_.seconds / static_cast<int>(sizes_.size()))};
      if (auto done = measure_turns(cases, settings); !done) return done;
      for (size_t i = 0; i < cases.size(); ++i) {
        const auto over_direct = [&](Turns TurnCase::* kind) {
          return ratio_text(median((cases[i].*kind).us) / median((cases.front().*kind).us));
        };
        table.rows.push_back({size_text(bytes), paths[i].scheme, paths[i].path,
                              cell_of(cases[i].put.us), over_direct(&TurnCase::put),
                              cell_of(cases[i].get.us), over_direct(&TurnCase::get)});
        report_.json["latency"].push_back({{"scheme", paths[i].scheme},
                                           {"path", paths[i].path},
                                           {"object_bytes", bytes},
                                           {"put", json_of(cases[i].put)},
                                           {"get", json_of(cases[i].get)}});
        if (paths[i].path != "inline") add_to_charts(paths[i].scheme, cases[i]);
      }
      for (Chart* chart : {&puts_, &gets_}) chart->categories.push_back(size_text(bytes));
    }
    report_.tables.push_back(std::move(table));
    report_.charts = {{"overview-put", std::move(puts_)}, {"overview-get", std::move(gets_)}};
    return {};
  }

  void add_to_charts(const std::string& scheme, const TurnCase& c) {
    for (Chart* chart : {&puts_, &gets_}) {
      auto series = std::ranges::find(chart->series, scheme, &ChartSeries::name);
      if (series == chart->series.end()) {
        chart->series.push_back({.name = scheme, .values = {}});
        series = chart->series.end() - 1;
      }
      series->values.emplace_back(chart_value(chart == &puts_ ? c.put.us : c.get.us));
    }
  }

  static Chart chart_of(const char* request) {
    return {.title = fmt::format("{} of one object, striped", request),
            .x_label = "object",
            .y_label = "microseconds, median, quartiles",
            .categories = {},
            .series = {},
            .lines = true,
            .logarithmic = true};
  }

  // Memcached first. `paths` gets what each case is of.
  std::vector<TurnCase> cases_of(size_t bytes, std::vector<Path>& paths) const {
    std::vector<TurnCase> cases;
    const auto add = [&](const Path& path, const Target& target, ObjectClient& client,
                         const std::string& prefix) {
      paths.push_back(path);
      cases.push_back({.name = path.scheme + " " + path.path,
                       .target = &target,
                       .client = &client,
                       .keys = {}});
      for (size_t i = 0; i < kKeys; ++i) {
        cases.back().keys.push_back(fmt::format("{}{}/{}", prefix, bytes, i));
      }
    };
    add({"memcached", "direct"}, memcached_, *plain_client_, "");
    for (const std::string& scheme : settings_.schemes) {
      for (const char* path : {"inline", "striped"}) {
        if (path == std::string_view("inline") && bytes > size_t{kInlineMaxBytes}) continue;
        add({scheme, path}, cluster_.target, *proxy_client_, prefix_of(scheme, path));
      }
    }
    return cases;
  }

  const OverviewSettings& settings_;
  const std::vector<size_t>& sizes_;
  std::unique_ptr<Testbed> testbed_;
  Target memcached_;
  Testbed::Cluster cluster_;
  std::unique_ptr<MemcachedClient> plain_client_;
  std::unique_ptr<MemcachedClient> proxy_client_;
  Report report_;
  Chart puts_ = chart_of("PUT");
  Chart gets_ = chart_of("GET");
};

}  // namespace

Result<Report> measure_overview(const OverviewSettings& settings) {
  for (const std::string& text : settings.schemes) {
    if (const auto scheme = coding::parse_scheme(text); !scheme) {
      return cli::fail("{}: {}", text, scheme.error());
    }
  }
  std::vector<size_t> sizes;
  for (const std::string& text : settings.sizes) {
    const auto size = parse_size(text);
    if (!size) return std::unexpected(size.error());
    sizes.push_back(*size);
  }
  return Overview(settings, sizes).run();
}

}  // namespace elastripe::bench
