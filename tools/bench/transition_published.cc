#include "tools/bench/transition_published.h"

#include <algorithm>

namespace elastripe::bench {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr uint64_t kGbit = 1'000'000'000;

// By how many per cent ERS-1 and ERS-2 take less time than SRS.
struct Reduction {
  double ers1;
  double ers2;
};

// [set][1 MB, 4 MB], Figure 13.
using BySet = std::array<std::array<Reduction, 2>, kPaperSets.size()>;
constexpr BySet kForward{{{{{27.4, 33.2}, {31.3, 38.7}}},
                          {{{27.6, 31.2}, {27.4, 39.4}}},
                          {{{41.7, 49.6}, {51.2, 56.0}}},
                          {{{36.7, 47.3}, {44.3, 61.4}}},
                          {{{48.4, 54.9}, {53.8, 61.2}}},
                          {{{43.8, 51.2}, {55.4, 65.8}}}}};
constexpr BySet kBackward{{{{{13.5, 22.7}, {15.2, 26.5}}},
                           {{{12.4, 23.1}, {14.5, 35.7}}},
                           {{{34.1, 42.1}, {38.8, 50.4}}},
                           {{{30.9, 44.5}, {36.5, 59.4}}},
                           {{{36.4, 52.0}, {41.4, 56.1}}},
                           {{{36.1, 48.9}, {45.0, 60.9}}}}};

// [(4,1,5), (5,1,6)][200 Mbit/s, 500 Mbit/s, 1 Gbit/s] at 1 MB, Figure 14; 10 Gbit/s is the above.
using ByRate = std::array<std::array<Reduction, 3>, 2>;
constexpr std::array<uint64_t, 3> kRates{kGbit / 5, kGbit / 2, kGbit};
constexpr ByRate kForwardByRate{
    {{{{43.0, 47.0}, {38.9, 43.0}, {34.5, 39.6}}}, {{{47.3, 53.4}, {41.1, 48.0}, {36.1, 42.7}}}}};
constexpr ByRate kBackwardByRate{
    {{{{36.5, 44.5}, {29.9, 39.0}, {23.9, 34.0}}}, {{{38.8, 51.0}, {32.1, 44.8}, {26.1, 41.9}}}}};

// [set][1 MB, 4 MB], Figure 15.
constexpr std::array<std::array<double, 2>, kPaperSets.size()> kOrder{
    {{17.3, 21.5}, {13.2, 26.0}, {18.0, 24.9}, {7.4, 16.9}, {20.3, 23.6}, {11.3, 23.7}}};

std::optional<size_t> set_of(const Parameters& parameters) {
  const auto found = std::ranges::find(kPaperSets, parameters);
  if (found == kPaperSets.end()) return std::nullopt;
  return static_cast<size_t>(found - kPaperSets.begin());
}

std::optional<size_t> size_of(size_t object_bytes) {
  if (object_bytes == kMiB) return 0;
  if (object_bytes == 4 * kMiB) return 1;
  return std::nullopt;
}

}  // namespace

std::optional<double> published_ratio(const Parameters& parameters, size_t object_bytes,
                                      uint64_t bits_per_second, Direction direction,
                                      const std::string& layout) {
  const auto set = set_of(parameters);
  const auto size = size_of(object_bytes);
  if (!set || !size || layout == "srs") return std::nullopt;
  const bool forward = direction == Direction::kForward;
  Reduction reduction{};
  if (bits_per_second == 10 * kGbit || bits_per_second == 0) {
    reduction = (forward ? kForward : kBackward)[*set][*size];
  } else {
    const auto rate = std::ranges::find(kRates, bits_per_second);
    if (*set > 1 || *size != 0 || rate == kRates.end()) return std::nullopt;
    reduction = (forward ? kForwardByRate
                         : kBackwardByRate)[*set][static_cast<size_t>(rate - kRates.begin())];
  }
  return 1 - (layout == "ers-1" ? reduction.ers1 : reduction.ers2) / 100;
}

std::optional<double> published_order_ratio(const Parameters& parameters, size_t object_bytes) {
  const auto set = set_of(parameters);
  const auto size = size_of(object_bytes);
  if (!set || !size) return std::nullopt;
  return 1 - kOrder[*set][*size] / 100;
}

}  // namespace elastripe::bench
