#include <array>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "proxy/base/metrics.h"

using namespace elastripe;

namespace {
constexpr CounterRow kCommands{
    "elastripe_commands_total", "Client commands answered.", {"command", "status"}};
constexpr CounterRow kStarts{"starts_total", "Starts."};
constexpr GaugeRow kNodeUp{"elastripe_node_up", "1 if the node is up in the map.", {"node"}};
constexpr std::array kBounds{0.1, 1.0};
constexpr HistogramRow kLatency{{"latency_seconds", "Time."}, kBounds};

bool contains(const std::string& text, const std::string& line) {
  return text.find(line + "\n") != std::string::npos;
}
}  // namespace

TEST_CASE("cells of one metric are summed, cells of other labels are not", "[metrics]") {
  MetricRegistry registry;
  const MetricLabels get = {{"command", "get"}, {"status", "hit"}};
  const MetricLabels set = {{"command", "set"}, {"status", "stored"}};
  registry.cell(kCommands, {"get", "hit"}).add(2);
  registry.cell(kCommands, {"get", "hit"}).add();
  registry.cell(kCommands, {"set", "stored"}).add(7);
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
  Histogram& first = registry.cell(kLatency);
  Histogram& second = registry.cell(kLatency);
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
  Gauge& up = registry.cell(kNodeUp, {"n1"});
  int64_t state = 1;
  registry.add_collector([&] { up.set(state); });
  CHECK(contains(registry.text(), R"(elastripe_node_up{node="n1"} 1)"));
  state = 0;
  CHECK(contains(registry.text(), R"(elastripe_node_up{node="n1"} 0)"));
}

TEST_CASE("counts of many threads are all there", "[metrics]") {
  MetricRegistry registry;
  Counter& shared = registry.cell(kStarts);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      Counter& own = registry.cell(kStarts);
      Histogram& histogram = registry.cell(kLatency);
      for (int i = 0; i < 1000; ++i) {
        own.add();
        shared.add();
        histogram.observe(0.5);
      }
      (void)registry.text();
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(registry.value(kStarts.name) == 8000.0);
  CHECK(contains(registry.text(), "latency_seconds_count 4000"));
}
