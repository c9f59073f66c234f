// Order statistics of small samples.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace elastripe::bench {

// The value at `fraction` (0 to 1) of the sorted samples, between two of them by proportion; 0 of
// none.
inline double quantile(std::vector<double> samples, double fraction) {
  if (samples.empty()) return 0;
  std::ranges::sort(samples);
  const double place = fraction * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, samples.size() - 1);
  const double share = place - static_cast<double>(below);
  return samples[below] * (1 - share) + samples[above] * share;
}

inline double median(std::vector<double> samples) { return quantile(std::move(samples), 0.5); }

}  // namespace elastripe::bench
