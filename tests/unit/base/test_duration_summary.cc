#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "proxy/base/duration_summary.h"

namespace elastripe {
namespace {

using Summary = DurationSummary<16>;
using Duration = Summary::Duration;
using std::chrono::microseconds;
using namespace std::chrono_literals;

TEST_CASE("nothing has no duration") {
  const Summary summary;
  CHECK(summary.count() == 0);
  CHECK(summary.mean() == 0s);
  CHECK(summary.quantile(0.5) == 0s);
  CHECK(summary.most() == 0s);
}

TEST_CASE("what is halved again and again is forgotten") {
  Summary summary;
  for (int i = 0; i < 1000; ++i) summary.add(1s);
  summary.halve();
  CHECK(summary.count() == 500);
  CHECK(summary.mean() == 1s);
  for (int i = 0; i < 500; ++i) summary.add(1ms);
  CHECK(summary.quantile(0.5) < 1100us);
  CHECK(summary.quantile(0.51) == 1s);
  for (int i = 0; i < 9; ++i) summary.halve();
  CHECK(summary.count() == 0);
  CHECK(summary.quantile(0.99) == 0s);
}

TEST_CASE("everything about a single duration is exact") {
  for (const Duration one : {Duration(0), Duration(1), Duration(999), Duration(1us), Duration(17us),
                             Duration(12'345'678), Duration(90s), Duration(30h)}) {
    Summary summary;
    summary.add(one);
    CAPTURE(one.count());
    CHECK(summary.mean() == one);
    CHECK(summary.most() == one);
    for (const double fraction : {0.0, 0.5, 0.99, 1.0}) CHECK(summary.quantile(fraction) == one);
  }
}

TEST_CASE("quantiles are at most a sixteenth above the true ones") {
  constexpr uint64_t kSeed = 7;
  std::mt19937_64 random(kSeed);
  std::lognormal_distribution<double> skewed(6, 3);
  std::vector<Duration> all;
  Summary summary;
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
    CHECK(summary.quantile(fraction) <= exact + exact / 16);
  }
}

TEST_CASE("more buckets to an octave tell more") {
  DurationSummary<256> summary;
  for (int ns = 0; ns <= 200; ++ns) summary.add(Duration(ns));
  CHECK(summary.quantile(0) == Duration(0));
  CHECK(summary.quantile(0.5) == Duration(100));
  CHECK(summary.quantile(1) == Duration(200));
  summary.add(1ms);
  summary.add(2ms);
  CHECK(summary.quantile(202.0 / 203) >= 1ms);
  CHECK(summary.quantile(202.0 / 203) <= 1ms + Duration(1ms) / 256);
}

TEST_CASE("durations below none and above an hour count at the ends") {
  Summary summary;
  summary.add(Duration(-5));
  summary.add(1000h);
  summary.add(2000h);
  CHECK(summary.count() == 3);
  CHECK(summary.quantile(0) <= Duration(0));
  CHECK(summary.quantile(0.5) > 1h);
  CHECK(summary.most() == 2000h);
}

TEST_CASE("summaries add up") {
  Summary fast;
  Summary slow;
  for (int i = 0; i < 99; ++i) fast.add(Duration(100));
  slow.add(1ms);
  fast.add(slow);
  fast.add(Summary());
  CHECK(fast.count() == 100);
  CHECK(fast.quantile(0.99) <= Duration(107));
  CHECK(fast.quantile(1) == 1ms);
  CHECK(fast.mean() == (99 * Duration(100) + 1ms) / 100);
  slow.add(fast);
  CHECK(slow.count() == 101);
  CHECK(slow.quantile(0.5) >= Duration(100));
}

}  // namespace
}  // namespace elastripe
