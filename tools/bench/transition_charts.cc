#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "tools/bench/chart.h"
#include "tools/bench/statistics.h"
#include "tools/bench/transition_published.h"
#include "tools/bench/transition_report.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using Cases = std::vector<TransitionCase>;

ChartValue value_of(const std::vector<double>& us) {
  return {median(us), quantile(us, 0.1), quantile(us, 0.9)};
}

// What charts of layouts compare.
struct Line {
  const char* name;
  const char* layout;
  const char* execution;
};
constexpr std::array kLines{Line{"SRS", "srs", "proxy"}, Line{"ERS-1, proxy", "ers-1", "proxy"},
                            Line{"ERS-2, proxy", "ers-2", "proxy"},
                            Line{"ERS-2, delta", "ers-2", "delta"}};

// The different values of something, in the order of the cases.
template <class T>
std::vector<T> distinct(const Cases& cases, const std::function<T(const TransitionCase&)>& of) {
  std::vector<T> values;
  for (const TransitionCase& c : cases) {
    if (std::ranges::find(values, of(c)) == values.end()) values.push_back(of(c));
  }
  return values;
}

std::vector<size_t> sizes_of(const Cases& cases) {
  return distinct<size_t>(cases, [](const auto& c) { return c.object_bytes; });
}
std::vector<Parameters> sets_of(const Cases& cases) {
  return distinct<Parameters>(cases, [](const auto& c) { return c.parameters; });
}

const TransitionCase* find(const Cases& cases, const Parameters& parameters, size_t bytes,
                           uint64_t rate, const char* layout, const char* execution,
                           bool order_selection = true) {
  const auto found = std::ranges::find_if(cases, [&](const TransitionCase& c) {
    return c.parameters == parameters && c.object_bytes == bytes && c.bits_per_second == rate &&
           c.layout == layout && c.execution == execution && c.order_selection == order_selection;
  });
  return found == cases.end() ? nullptr : &*found;
}

using Write = std::function<cli::Result<>(const std::string& name, const Chart& chart)>;

cli::Result<> size_charts(const Cases& cases, const Write& write) {
  for (const Direction direction : kDirections) {
    Chart chart{.title = fmt::format("One object, {}, {}", cases.front().parameters.text(),
                                     name_of(direction)),
                .x_label = "object",
                .y_label = "microseconds, median, p10 to p90",
                .categories = {},
                .series = {},
                .lines = true,
                .logarithmic = true};
    for (const size_t bytes : sizes_of(cases)) chart.categories.push_back(size_text(bytes));
    for (const Line& line : kLines) {
      ChartSeries series{.name = line.name, .values = {}};
      for (const size_t bytes : sizes_of(cases)) {
        const auto* c =
            find(cases, cases.front().parameters, bytes, 0, line.layout, line.execution);
        series.values.push_back(value_of(c->of(direction).us));
      }
      chart.series.push_back(std::move(series));
    }
    const auto done = write(fmt::format("sizes-{}", name_of(direction)), chart);
    if (!done) return done;
  }
  return {};
}

cli::Result<> parameter_charts(const Cases& cases, const Write& write) {
  for (const Direction direction : kDirections) {
    for (const size_t bytes : sizes_of(cases)) {
      Chart chart{
          .title = fmt::format("One object of {}, {}", size_text(bytes), name_of(direction)),
          .x_label = "(k,m,k')",
          .y_label = "microseconds, median, p10 to p90",
          .categories = {},
          .series = {}};
      for (const Parameters& set : sets_of(cases)) chart.categories.push_back(set.text());
      for (const Line& line : kLines) {
        ChartSeries series{.name = line.name, .values = {}};
        for (const Parameters& set : sets_of(cases)) {
          const auto* c = find(cases, set, bytes, 0, line.layout, line.execution);
          series.values.push_back(value_of(c->of(direction).us));
        }
        chart.series.push_back(std::move(series));
      }
      const auto done =
          write(fmt::format("parameters-{}-{}mib", name_of(direction), bytes >> 20), chart);
      if (!done) return done;
    }
  }
  return {};
}

// Time over that of SRS, by rate, beside the ratio of blocks and what the paper reports.
cli::Result<> bandwidth_chart(const Cases& cases, const Parameters& set, Direction direction,
                              const Write& write) {
  const Cases of_set = [&] {
    Cases chosen;
    std::ranges::copy_if(cases, std::back_inserter(chosen),
                         [&](const auto& c) { return c.parameters == set; });
    return chosen;
  }();
  const size_t bytes = of_set.front().object_bytes;
  Chart chart{.title = fmt::format("{}, {}, {}", set.text(), size_text(bytes), name_of(direction)),
              .x_label = "network",
              .y_label = "time over that of SRS",
              .categories = {},
              .series = {},
              .lines = true};
  const auto rates = distinct<uint64_t>(of_set, [](const auto& c) { return c.bits_per_second; });
  for (const uint64_t rate : rates) chart.categories.push_back(rate_text(rate));
  for (const Line& line : kLines) {
    ChartSeries series{.name = line.name, .values = {}};
    for (const uint64_t rate : rates) {
      const auto* srs = find(of_set, set, bytes, rate, "srs", "proxy");
      const auto* c = find(of_set, set, bytes, rate, line.layout, line.execution);
      series.values.push_back(
          ChartValue{median(c->of(direction).us) / median(srs->of(direction).us)});
    }
    chart.series.push_back(std::move(series));
  }
  ChartSeries paper{.name = "ERS-2 in the paper", .values = {}, .dashed = true};
  for (const uint64_t rate : rates) {
    const auto ratio =
        rate == 0 ? std::nullopt : published_ratio(set, bytes, rate, direction, "ers-2");
    paper.values.push_back(ratio ? std::optional(ChartValue{*ratio}) : std::nullopt);
  }
  chart.series.push_back(std::move(paper));
  return write(fmt::format("bandwidth-{}-{}-{}-{}", set.k, set.m, set.k_prime, name_of(direction)),
               chart);
}

cli::Result<> order_charts(const Cases& cases, const Write& write) {
  for (const size_t bytes : sizes_of(cases)) {
    Chart chart{
        .title = fmt::format("Order selection, ERS-2, proxy, backward, {}", size_text(bytes)),
        .x_label = "(k,m,k')",
        .y_label = "microseconds, median, p10 to p90",
        .categories = {},
        .series = {}};
    for (const Parameters& set : sets_of(cases)) chart.categories.push_back(set.text());
    for (const bool selection : {false, true}) {
      ChartSeries series{.name = selection ? "with" : "without", .values = {}};
      for (const Parameters& set : sets_of(cases)) {
        const auto* c = find(cases, set, bytes, 0, "ers-2", "proxy", selection);
        series.values.push_back(c == nullptr ? std::nullopt
                                             : std::optional(value_of(c->backward.us)));
      }
      chart.series.push_back(std::move(series));
    }
    if (auto done = write(fmt::format("order-{}mib", bytes >> 20), chart); !done) return done;
  }
  return {};
}

Chart bulk_chart(const std::vector<BulkPass>& passes) {
  Chart chart{.title = fmt::format("{} objects of {} for each layout", passes.front().objects,
                                   size_text(passes.front().object_bytes /
                                             std::max<uint64_t>(passes.front().objects, 1))),
              .x_label = "execution and direction",
              .y_label = "objects a second",
              .categories = {},
              .series = {}};
  for (const char* layout : kLayouts) chart.series.push_back({.name = layout, .values = {}});
  for (const BulkPass& pass : passes) {
    const auto category = fmt::format("{}, {}", pass.execution, name_of(pass.direction));
    if (std::ranges::find(chart.categories, category) == chart.categories.end()) {
      chart.categories.push_back(category);
    }
    const auto series = std::ranges::find(chart.series, pass.layout, &ChartSeries::name);
    series->values.push_back(ChartValue{pass.objects_per_second()});
  }
  return chart;
}

Chart beside_chart(const std::vector<BesideCase>& cases) {
  Chart chart{.title = "GET beside a transition",
              .x_label = "transition",
              .y_label = "microseconds, p99",
              .categories = {},
              .series = {},
              .logarithmic = true};
  for (const BesideCase& c : cases) {
    if (std::ranges::find(chart.categories, c.what) == chart.categories.end()) {
      chart.categories.push_back(c.what);
    }
    const auto name = "GET of " + size_text(c.read_bytes);
    auto series = std::ranges::find(chart.series, name, &ChartSeries::name);
    if (series == chart.series.end()) {
      chart.series.push_back({.name = name, .values = {}});
      series = chart.series.end() - 1;
    }
    series->values.push_back(ChartValue{quantile(c.us, 0.99)});
  }
  return chart;
}

}  // namespace

cli::Result<> write_charts(const std::filesystem::path& directory,
                           const TransitionResults& results) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const Write write = [&](const std::string& name, const Chart& chart) {
    return write_chart(directory / fmt::format("transition-{}.svg", name), chart);
  };
  cli::Result<> done;
  if (!results.sizes.empty()) done = size_charts(results.sizes, write);
  if (done && !results.parameters.empty()) done = parameter_charts(results.parameters, write);
  for (const Parameters& set : sets_of(results.bandwidth)) {
    for (const Direction direction : kDirections) {
      if (done) done = bandwidth_chart(results.bandwidth, set, direction, write);
    }
  }
  if (done && !results.order.empty()) done = order_charts(results.order, write);
  if (done && !results.bulk.empty()) done = write("bulk", bulk_chart(results.bulk));
  if (done && !results.beside.empty()) done = write("beside", beside_chart(results.beside));
  return done;
}

}  // namespace elastripe::bench
