// Metrics: counters, gauges and histograms in a registry that prints Prometheus' text format.
//
// A metric is a row beside the code that counts it:
//
//   constexpr GaugeRow kNodeUp{"elastripe_node_up", "1 if the node is up in the map.", {"node"}};
//   Gauge& up = registry.cell(kNodeUp, {"n1"});
//
// Asking for one makes a CELL for these values of its labels; what is reported is the sum of the
// cells with the same values. Ask once, at the start, in every thread that counts: then counting is
// one relaxed atomic add on a cache line that no other thread writes. Cells live as long as the
// registry. No label ever holds a key. Names are a contract with dashboards: docs/admin-api.md
// lists them, and tests/e2e/test_names.py compares.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace elastripe {

class alignas(64) Counter {
 public:
  void add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

class alignas(64) Gauge {
 public:
  // It stands for something that is no more: it is not reported until it is set again.
  void hide() { set(kHidden); }
  bool is_hidden() const { return value() == kHidden; }
  void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  static constexpr int64_t kHidden = INT64_MIN;

  std::atomic<int64_t> value_ = 0;
};

class alignas(64) Histogram {
 public:
  static constexpr size_t kMaxBounds = 31;

  void observe(double value);
  uint64_t count() const;

 private:
  friend class MetricRegistry;
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds.begin(), bounds.end()) {}

  std::vector<double> bounds_;                                  // ascending, inclusive
  std::array<std::atomic<uint64_t>, kMaxBounds + 1> counts_{};  // [bounds_.size()] is above all
  std::atomic<double> sum_ = 0;
};

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

template <class Cell>
struct MetricRow {
  std::string_view name;                        // snake case, base units: _total, _seconds, _bytes
  std::string_view help;                        // one sentence
  std::array<std::string_view, 2> labels = {};  // what its cells differ in, "" behind the last
};
using CounterRow = MetricRow<Counter>;
using GaugeRow = MetricRow<Gauge>;

// From 50 microseconds to 10 seconds: an inline get and the deadline of a request.
inline constexpr std::array kDurationBounds{0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                            0.005,   0.01,   0.025,   0.05,   0.1,   0.25,
                                            0.5,     1.0,    2.5,     5.0,    10.0};

struct HistogramRow : MetricRow<Histogram> {
  // Upper ends of the buckets, ascending, at most Histogram::kMaxBounds.
  std::span<const double> bounds = kDurationBounds;
};

// Thread-safe. One name is one kind with one help text and one set of bounds: else CHECK.
class MetricRegistry {
 public:
  MetricRegistry();
  ~MetricRegistry();
  MetricRegistry(const MetricRegistry&) = delete;
  MetricRegistry& operator=(const MetricRegistry&) = delete;

  // `values`: one for each label of the row.
  Counter& cell(const CounterRow& row, std::initializer_list<std::string_view> values = {});
  Gauge& cell(const GaugeRow& row, std::initializer_list<std::string_view> values = {});
  Histogram& cell(const HistogramRow& row, std::initializer_list<std::string_view> values = {});

  // Runs before each report, in its thread, to refresh gauges that are cheaper to compute than to
  // keep. Must not call the registry.
  void add_collector(std::function<void()> refresh);

  // The sum of a counter's or gauge's cells; nothing if there is none.
  std::optional<double> value(std::string_view name, const MetricLabels& labels = {}) const;

  // Prometheus' text exposition format 0.0.4.
  std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace elastripe
