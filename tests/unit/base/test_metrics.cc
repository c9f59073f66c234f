#include <array>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "proxy/base/metric_names.h"
#include "proxy/base/metrics.h"

using namespace elastripe;

namespace {
constexpr MetricName kCommands = metric_names::kCommands;
constexpr MetricName kLatency{"latency_seconds", "Time."};
constexpr std::array kBounds{0.1, 1.0};

bool contains(const std::string& text, const std::string& line) {
  return text.find(line + "\n") != std::string::npos;
}
}  // namespace

TEST_CASE("cells of one metric are summed, cells of other labels are not", "[metrics]") {
  MetricRegistry registry;
  const MetricLabels get = {{"command", "get"}, {"status", "hit"}};
  const MetricLabels set = {{"command", "set"}, {"status", "stored"}};
  registry.counter(kCommands, get).add(2);
  registry.counter(kCommands, get).add();
  registry.counter(kCommands, set).add(7);
  CHECK(registry.value(kCommands.name, get) == 3.0);
  CHECK(registry.value(kCommands.name, set) == 7.0);
  CHECK_FALSE(registry.value(kCommands.name).has_value());
  CHECK_FALSE(registry.value("nothing").has_value());
  const std::string text = registry.text();
  CHECK(contains(text, "# TYPE elastripe_commands_total counter"));
  CHECK(contains(text, "# HELP elastripe_commands_total Client commands answered."));
  CHECK(contains(text, R"(elastripe_commands_total{command="get",status="hit"} 3)"));
  CHECK(contains(text, R"(elastripe_commands_total{command="set",status="stored"} 7)"));
}

TEST_CASE("a histogram reports cumulative buckets, sum and count over its cells", "[metrics]") {
  MetricRegistry registry;
  Histogram& first = registry.histogram(kLatency, kBounds);
  Histogram& second = registry.histogram(kLatency, kBounds);
  first.observe(0.1);  // a bound belongs to its bucket
  first.observe(0.5);
  second.observe(0.5);
  second.observe(30);
  CHECK(second.count() == 2);
  const std::string text = registry.text();
  CHECK(contains(text, R"(latency_seconds_bucket{le="0.1"} 1)"));
  CHECK(contains(text, R"(latency_seconds_bucket{le="1"} 3)"));
  CHECK(contains(text, R"(latency_seconds_bucket{le="+Inf"} 4)"));
  CHECK(contains(text, "latency_seconds_count 4"));
  CHECK(contains(text, "latency_seconds_sum 31.1"));
}

TEST_CASE("collectors refresh gauges before each report", "[metrics]") {
  MetricRegistry registry;
  Gauge& up = registry.gauge(metric_names::kNodeUp, {{"node", "n1"}});
  int64_t state = 1;
  registry.add_collector([&] { up.set(state); });
  CHECK(contains(registry.text(), R"(elastripe_node_up{node="n1"} 1)"));
  state = 0;
  CHECK(contains(registry.text(), R"(elastripe_node_up{node="n1"} 0)"));
}

TEST_CASE("counts of many threads are all there", "[metrics]") {
  MetricRegistry registry;
  Counter& shared = registry.counter(kCommands);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      Counter& own = registry.counter(kCommands);
      Histogram& histogram = registry.histogram(kLatency, kBounds);
      for (int i = 0; i < 1000; ++i) {
        own.add();
        shared.add();
        histogram.observe(0.5);
      }
      (void)registry.text();
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(registry.value(kCommands.name) == 8000.0);
  CHECK(contains(registry.text(), "latency_seconds_count 4000"));
}
