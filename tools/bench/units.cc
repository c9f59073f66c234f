#include "tools/bench/units.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "client-lib/client.h"
#include "tools/bench/try.h"

namespace elastripe::bench {

cli::Result<size_t> parse_size(const std::string& text) {
  std::string bytes = text;
  size_t size = 0;
  try {
    CLI::AsSizeValue(false)(bytes);
    size = std::stoull(bytes);
  } catch (const std::exception&) {
    size = 0;  // not even a number
  }
  if (size > 0 && size <= client::kMaxObjectBytes) return size;
  return cli::fail("not a size up to {}: {}", size_text(client::kMaxObjectBytes), text);
}

cli::Result<std::vector<size_t>> parse_sizes(const std::vector<std::string>& texts) {
  std::vector<size_t> sizes;
  sizes.reserve(texts.size());
  for (const std::string& text : texts) sizes.push_back(TRY(parse_size(text)));
  return sizes;
}

cli::Result<std::vector<coding::Scheme>> parse_schemes(const std::vector<std::string>& texts) {
  std::vector<coding::Scheme> schemes;
  for (const std::string& text : texts) {
    const auto scheme = coding::parse_scheme(text);
    if (!scheme) return cli::fail("{}: {}", text, scheme.error());
    schemes.push_back(*scheme);
  }
  return schemes;
}

std::string size_text(size_t bytes) {
  if (bytes % kMiB == 0) return fmt::format("{} MiB", bytes / kMiB);
  if (bytes % kKiB == 0) return fmt::format("{} KiB", bytes / kKiB);
  return fmt::format("{} B", bytes);
}

std::string rate_text(uint64_t bits_per_second) {
  if (bits_per_second == 0) return "unlimited";
  const uint64_t mbit = bits_per_second / kMbit;
  return mbit % 1000 == 0 ? fmt::format("{} Gbit/s", mbit / 1000) : fmt::format("{} Mbit/s", mbit);
}

}  // namespace elastripe::bench
