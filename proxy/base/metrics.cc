#include "proxy/base/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "proxy/base/check.h"

namespace elastripe {
namespace {

template <class Cell>
using Cells = std::vector<std::unique_ptr<Cell>>;

double sum_of(const Cells<Counter>& cells) {
  double sum = 0;
  for (const auto& cell : cells) sum += static_cast<double>(cell->value());
  return sum;
}

double sum_of(const Cells<Gauge>& cells) {
  double sum = 0;
  for (const auto& cell : cells) {
    if (!cell->is_hidden()) sum += static_cast<double>(cell->value());
  }
  return sum;
}

bool are_hidden(const Cells<Gauge>& cells) {
  return !cells.empty() && std::ranges::all_of(cells, [](const auto& c) { return c->is_hidden(); });
}

// All cells of one name + labels; only the vector of the family's kind is used.
struct Metric {
  Cells<Counter> counters;
  Cells<Gauge> gauges;
  Cells<Histogram> histograms;
};

struct Family {
  std::string help;
  prometheus::MetricType type;
  std::vector<double> bounds;
  std::map<MetricLabels, Metric> metrics;
};

}  // namespace

struct MetricRegistry::Impl {
  mutable std::mutex mutex;
  std::map<std::string, Family, std::less<>> families;  // ordered, so that reports are stable
  std::vector<std::function<void()>> collectors;

  template <class Cell>
  Metric& metric(const MetricRow<Cell>& row, prometheus::MetricType type,
                 std::span<const double> bounds, std::initializer_list<std::string_view> values) {
    auto [it, inserted] = families.try_emplace(std::string(row.name));
    Family& family = it->second;
    if (inserted) {
      family = {std::string(row.help), type, {bounds.begin(), bounds.end()}, {}};
    }
    CHECK(
        family.type == type && family.help == row.help && std::ranges::equal(family.bounds, bounds),
        "metric {} is registered in two ways", row.name);
    const auto* const label_end = std::ranges::find(row.labels, "");
    CHECK(values.size() == static_cast<size_t>(label_end - row.labels.begin()),
          "metric {} has another number of labels", row.name);
    MetricLabels labels;
    for (const std::string_view value : values) {
      labels.emplace_back(row.labels[labels.size()], value);
    }
    return family.metrics[labels];
  }

  prometheus::ClientMetric collect(const Family& family, const MetricLabels& labels,
                                   const Metric& metric) const;
};

void Histogram::observe(double value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  const auto bucket = static_cast<size_t>(bound - bounds_.begin());
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t count = 0;
  for (const auto& bucket : counts_) count += bucket.load(std::memory_order_relaxed);
  return count;
}

MetricRegistry::MetricRegistry() : impl_(std::make_unique<Impl>()) {}
MetricRegistry::~MetricRegistry() = default;

Counter& MetricRegistry::cell(const CounterRow& row,
                              std::initializer_list<std::string_view> values) {
  const std::scoped_lock lock(impl_->mutex);
  Metric& metric = impl_->metric(row, prometheus::MetricType::Counter, {}, values);
  return *metric.counters.emplace_back(std::make_unique<Counter>());
}

Gauge& MetricRegistry::cell(const GaugeRow& row, std::initializer_list<std::string_view> values) {
  const std::scoped_lock lock(impl_->mutex);
  Metric& metric = impl_->metric(row, prometheus::MetricType::Gauge, {}, values);
  return *metric.gauges.emplace_back(std::make_unique<Gauge>());
}

Histogram& MetricRegistry::cell(const HistogramRow& row,
                                std::initializer_list<std::string_view> values) {
  CHECK(row.bounds.size() <= Histogram::kMaxBounds && std::ranges::is_sorted(row.bounds));
  const std::scoped_lock lock(impl_->mutex);
  Metric& metric = impl_->metric(row, prometheus::MetricType::Histogram, row.bounds, values);
  return *metric.histograms.emplace_back(std::unique_ptr<Histogram>(new Histogram(row.bounds)));
}

void MetricRegistry::add_collector(std::function<void()> refresh) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->collectors.push_back(std::move(refresh));
}

std::optional<double> MetricRegistry::value(std::string_view name,
                                            const MetricLabels& labels) const {
  const std::scoped_lock lock(impl_->mutex);
  const auto family = impl_->families.find(name);
  if (family == impl_->families.end()) return std::nullopt;
  const auto metric = family->second.metrics.find(labels);
  if (metric == family->second.metrics.end()) return std::nullopt;
  if (are_hidden(metric->second.gauges)) return std::nullopt;
  return sum_of(metric->second.counters) + sum_of(metric->second.gauges);
}

prometheus::ClientMetric MetricRegistry::Impl::collect(const Family& family,
                                                       const MetricLabels& labels,
                                                       const Metric& metric) const {
  prometheus::ClientMetric out;
  for (const auto& [key, value] : labels) out.label.push_back({key, value});
  out.counter.value = sum_of(metric.counters);
  out.gauge.value = sum_of(metric.gauges);
  if (family.type != prometheus::MetricType::Histogram) return out;
  uint64_t below = 0;
  for (size_t bucket = 0; bucket < family.bounds.size(); ++bucket) {
    for (const auto& cell : metric.histograms) {
      below += cell->counts_[bucket].load(std::memory_order_relaxed);
    }
    out.histogram.bucket.push_back({below, family.bounds[bucket]});
  }
  for (const auto& cell : metric.histograms) {
    below += cell->counts_[family.bounds.size()].load(std::memory_order_relaxed);
    out.histogram.sample_sum += cell->sum_.load(std::memory_order_relaxed);
  }
  // Taken from the same loads, so that a report never shows a bucket above the total.
  out.histogram.sample_count = below;
  return out;
}

std::string MetricRegistry::text() const {
  const std::scoped_lock lock(impl_->mutex);
  for (const auto& refresh : impl_->collectors) refresh();
  std::vector<prometheus::MetricFamily> report;
  for (const auto& [name, family] : impl_->families) {
    auto& out = report.emplace_back();
    out.name = name;
    out.help = family.help;
    out.type = family.type;
    for (const auto& [labels, metric] : family.metrics) {
      if (!are_hidden(metric.gauges)) out.metric.push_back(impl_->collect(family, labels, metric));
    }
  }
  return prometheus::TextSerializer().Serialize(report);
}

}  // namespace elastripe
