#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "proxy/ops/jobs/duration_summary.h"

using namespace elastripe::jobs;

namespace elastripe {
namespace {

using std::chrono::microseconds;
using namespace std::chrono_literals;

TEST_CASE("nothing has no duration") {
  const DurationSummary summary;
  CHECK(summary.count() == 0);
  CHECK(summary.mean() == 0s);
  CHECK(summary.quantile(0.5) == 0s);
  CHECK(summary.most() == 0s);
}

TEST_CASE("everything about a single duration is exact") {
  for (const Duration one : {Duration(0), Duration(1), Duration(999), Duration(1us), Duration(17us),
                             Duration(12'345'678), Duration(90s), Duration(30h)}) {
    DurationSummary summary;
    summary.add(one);
    CAPTURE(one.count());
    CHECK(summary.mean() == one);
    CHECK(summary.most() == one);
    for (const double fraction : {0.0, 0.5, 0.99, 1.0}) CHECK(summary.quantile(fraction) == one);
  }
}

TEST_CASE("quantiles are at most a sixteenth, or a microsecond, above the true ones") {
  constexpr uint64_t kSeed = 7;
  std::mt19937_64 random(kSeed);
  std::lognormal_distribution<double> skewed(6, 3);
  std::vector<Duration> all;
  DurationSummary summary;
  Duration total{};
  for (int i = 0; i < 10'000; ++i) {
    const Duration one = microseconds(static_cast<int64_t>(std::min(skewed(random), 3e9)));
    all.push_back(one);
    total += one;
    summary.add(one);
  }
  std::ranges::sort(all);
  CHECK(summary.count() == all.size());
  CHECK(summary.mean() == total / 10'000);
  CHECK(summary.most() == all.back());
  for (const double fraction : {0.001, 0.1, 0.5, 0.9, 0.99, 0.9999, 1.0}) {
    const Duration exact = all[static_cast<size_t>(std::ceil(fraction * 10'000)) - 1];
    CAPTURE(fraction, exact.count());
    CHECK(summary.quantile(fraction) >= exact);
    CHECK(summary.quantile(fraction) <= exact + std::max<Duration>(exact / 16, 1us));
  }
}

}  // namespace
}  // namespace elastripe
