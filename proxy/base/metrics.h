// Metrics: counters, gauges and histograms in a registry that prints Prometheus' text format.
//
// A metric is name + labels; asking for one makes a CELL, and what is reported is the sum of its
// cells. Ask once, at the start, in every thread that counts: then counting is one relaxed atomic
// add on a cache line that no other thread writes. Cells live as long as the registry. No label
// ever holds a key. Names are in metric_names.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
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
  void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
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

struct MetricName {
  std::string_view name;  // snake case, base units: _total, _seconds, _bytes
  std::string_view help;
};

// Thread-safe. One name is one kind with one help text and one set of bounds: else CHECK.
class MetricRegistry {
 public:
  MetricRegistry();
  ~MetricRegistry();
  MetricRegistry(const MetricRegistry&) = delete;
  MetricRegistry& operator=(const MetricRegistry&) = delete;

  Counter& counter(const MetricName& name, const MetricLabels& labels = {});
  Gauge& gauge(const MetricName& name, const MetricLabels& labels = {});
  // `bounds`: upper ends of the buckets, ascending, at most Histogram::kMaxBounds.
  Histogram& histogram(const MetricName& name, std::span<const double> bounds,
                       const MetricLabels& labels = {});

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
