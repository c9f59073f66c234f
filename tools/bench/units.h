// Sizes as they are written on a command line and in tables.
#pragma once

#include <cstddef>
#include <string>

#include "tools/cli/result.h"

namespace elastripe::bench {

// "4MiB", "4M", "64KiB", "64K", "100", "100B": up to the largest object.
cli::Result<size_t> parse_size(const std::string& text);

// The form with the largest unit that divides it: "4 MiB", "64 KiB", "100 B".
std::string size_text(size_t bytes);

}  // namespace elastripe::bench
