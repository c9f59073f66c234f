#include "tools/bench/units.h"

#include <fmt/core.h>

#include "client-lib/client.h"

namespace elastripe::bench {

cli::Result<size_t> parse_size(const std::string& text) {
  size_t end = 0;
  size_t number = 0;
  try {
    number = std::stoul(text, &end);
  } catch (const std::exception&) {
    return cli::fail("not a size: {}", text);
  }
  const std::string unit = text.substr(end);
  size_t factor = 0;
  if (unit.empty() || unit == "B") factor = 1;
  if (unit == "K" || unit == "KiB") factor = 1 << 10;
  if (unit == "M" || unit == "MiB") factor = 1 << 20;
  if (factor == 0 || number == 0 || number * factor > client::kMaxObjectBytes) {
    return cli::fail("not a size up to 64MiB: {}", text);
  }
  return number * factor;
}

std::string size_text(size_t bytes) {
  if (bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

}  // namespace elastripe::bench
