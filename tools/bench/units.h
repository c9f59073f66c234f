// Sizes, rates and schemes as they are written on a command line and in tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coding/scheme.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

inline constexpr size_t kKiB = size_t{1} << 10;
inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr uint64_t kMbit = 1'000'000;

// "4MiB", "4M", "64KiB", "64K", "100", "100B": up to the largest object.
cli::Result<size_t> parse_size(const std::string& text);
cli::Result<std::vector<size_t>> parse_sizes(const std::vector<std::string>& texts);

// The error names the text.
cli::Result<std::vector<coding::Scheme>> parse_schemes(const std::vector<std::string>& texts);

// The form with the largest unit that divides it: "4 MiB", "64 KiB", "100 B".
std::string size_text(size_t bytes);
// "200 Mbit/s", "10 Gbit/s", "unlimited" of 0.
std::string rate_text(uint64_t bits_per_second);

}  // namespace elastripe::bench
