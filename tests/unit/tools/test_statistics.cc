#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "tools/bench/statistics.h"

namespace elastripe::bench {

using std::chrono::nanoseconds;

TEST_CASE("quantiles are those of the samples, off by less than 0.4%") {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(0, 10);
  Histogram histogram;
  std::vector<double> samples;
  for (int i = 0; i < 100'000; ++i) {
    const auto ns = static_cast<int64_t>(std::pow(10, exponent(random)));
    samples.push_back(static_cast<double>(ns));
    histogram.record(nanoseconds(ns));
  }
  CHECK(histogram.count() == samples.size());
  for (const double fraction : {0.01, 0.25, 0.5, 0.9, 0.99, 0.999}) {
    CAPTURE(fraction);
    CHECK(static_cast<double>(histogram.quantile(fraction).count()) ==
          Approx(quantile(samples, fraction)).epsilon(0.005));
  }
}

TEST_CASE("small values are exact, and none is lost at the ends") {
  Histogram histogram;
  CHECK(histogram.quantile(0.5) == nanoseconds(0));
  for (int ns = 0; ns <= 200; ++ns) histogram.record(nanoseconds(ns));
  CHECK(histogram.quantile(0) == nanoseconds(0));
  CHECK(histogram.quantile(0.5) == nanoseconds(100));
  CHECK(histogram.quantile(1) == nanoseconds(200));
  histogram.record(nanoseconds(-5));
  histogram.record(std::chrono::hours(1000));
  CHECK(histogram.count() == 203);
  CHECK(histogram.quantile(1) > std::chrono::hours(1));
}

TEST_CASE("histograms add up") {
  Histogram fast;
  Histogram slow;
  for (int i = 0; i < 99; ++i) fast.record(nanoseconds(100));
  slow.record(std::chrono::milliseconds(1));
  fast.add(slow);
  CHECK(fast.count() == 100);
  CHECK(fast.quantile(0.99) == nanoseconds(100));
  CHECK(fast.quantile_us(1) == Approx(1000).epsilon(0.004));
}

}  // namespace elastripe::bench
