// What the ERS paper reports for the same experiments (section 6.2, its local cluster of 18
// machines with 10 Gbit/s each), as time over the time of SRS; for order selection, over the time
// without.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/bench/transition_cluster.h"

namespace elastripe::bench {

// The paper's sets, the first one its default.
inline constexpr std::array<Parameters, 6> kPaperSets{
    {{4, 1, 5}, {5, 1, 6}, {8, 2, 10}, {9, 2, 10}, {10, 3, 12}, {12, 3, 14}}};

// Experiments 3 and 4: `layout` is ers-1 or ers-2. Nothing where the paper tells none.
std::optional<double> published_ratio(const Parameters& parameters, size_t object_bytes,
                                      uint64_t bits_per_second, Direction direction,
                                      const std::string& layout);

// Experiment 5: backward, ers-2, with order selection over without.
std::optional<double> published_order_ratio(const Parameters& parameters, size_t object_bytes);

}  // namespace elastripe::bench
