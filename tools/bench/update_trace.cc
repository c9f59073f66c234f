#include "tools/bench/update_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <unordered_set>

#include "tools/bench/try.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

using cli::Result;

constexpr size_t kSectorBytes = 512;
constexpr size_t kKeyBlockBytes = 4 * kKiB;
constexpr size_t kKeyBytes = 4;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of one write: more is no trace of blocks
constexpr std::string_view kColumns[] = {"op", "size", "lbn"};
constexpr uint64_t kSeed = 1;  // the same requests are writes for whoever is compared

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

// Takes it off the text; a carriage return before its end is no part of it.
std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<bool> is_write(std::string_view op) {
  if (op == "2a" || op == "8a") return true;
  if (op == "28" || op == "88") return false;
  return std::nullopt;
}

bool is_whole(const UpdateTrace& trace, const TraceLimits& limits) {
  return limits.writes > 0 && trace.writes.size() == limits.writes;
}

}  // namespace

uint64_t UpdateTrace::written_bytes() const {
  uint64_t blocks = 0;
  for (const BlockRun& run : writes) blocks += run.blocks;
  return blocks * block_bytes;
}

uint64_t UpdateTrace::touched_bytes() const {
  std::unordered_set<uint64_t> blocks;
  for (const BlockRun& run : writes) {
    for (uint64_t i = 0; i < run.blocks; ++i) blocks.insert(run.first + i);
  }
  return blocks.size() * block_bytes;
}

std::string UpdateTrace::label() const {
  if (!synthetic_writes) return name;
  return fmt::format("{}, synthetic: {}% writes", name, *synthetic_writes);
}

Result<UpdateTrace> parse_block_trace(std::string_view text, const TraceLimits& limits) {
  const auto names = fields_of(take_line(text));
  std::array<size_t, std::size(kColumns)> places{};
  for (size_t i = 0; i < places.size(); ++i) {
    const auto found = std::ranges::find(names, kColumns[i]);
    if (found == names.end()) return cli::fail("line 1 names no column {}", kColumns[i]);
    places[i] = static_cast<size_t>(found - names.begin());
  }
  UpdateTrace trace{.block_bytes = kSectorBytes};
  for (size_t number = 2; !text.empty() && !is_whole(trace, limits); ++number) {
    const std::string_view line = take_line(text);
    const auto fields = fields_of(line);
    if (fields.size() != names.size()) {
      return cli::fail("line {} has {} columns, and not {}: {}", number, fields.size(),
                       names.size(), line);
    }
    const auto writes = is_write(fields[places[0]]);
    const auto bytes = number_of(fields[places[1]]);
    const auto sector = number_of(fields[places[2]]);
    if (!writes)
      return cli::fail("line {} has an op that is none of 28, 2a, 88, 8a: {}", number, line);
    if (!bytes || *bytes == 0 || *bytes > kMostBytes) {
      return cli::fail("line {} has no size from 1 to {}: {}", number, kMostBytes, line);
    }
    if (!sector || *sector > INT64_MAX / kSectorBytes) {
      return cli::fail("line {} has no lbn: {}", number, line);
    }
    if (*writes) {
      trace.writes.push_back({*sector, (*bytes + kSectorBytes - 1) / kSectorBytes});
    } else {
      ++trace.left_out;
    }
  }
  return trace;
}

Result<UpdateTrace> parse_key_trace(std::string_view bytes, const TraceLimits& limits) {
  if (bytes.size() % kKeyBytes != 0) {
    return cli::fail("it ends within request {}, of 4 bytes each", bytes.size() / kKeyBytes + 1);
  }
  UpdateTrace trace{.block_bytes = kKeyBlockBytes, .synthetic_writes = limits.synthetic_writes};
  std::mt19937_64 random(kSeed);
  std::uniform_int_distribution<int> percent(0, 99);
  for (size_t at = 0; at < bytes.size() && !is_whole(trace, limits); at += kKeyBytes) {
    uint32_t key = 0;
    for (size_t i = 0; i < kKeyBytes; ++i) {
      key = key << 8 | static_cast<unsigned char>(bytes[at + i]);
    }
    if (percent(random) < limits.synthetic_writes) {
      trace.writes.push_back({key});
    } else {
      ++trace.left_out;
    }
  }
  return trace;
}

Result<UpdateTrace> read_trace(const std::string& file, const TraceLimits& limits) {
  const std::filesystem::path path(file);
  const bool has_keys = path.extension() == ".trace";
  if (!has_keys && path.extension() != ".csv") {
    return cli::fail("{}: its name ends neither in .csv nor in .trace", file);
  }
  std::ifstream in(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  if (!in) return cli::fail("{}: cannot be read", file);
  auto trace = has_keys ? parse_key_trace(bytes, limits) : parse_block_trace(bytes, limits);
  if (!trace) return cli::fail("{}: {}", file, trace.error());
  if (trace->writes.empty()) return cli::fail("{}: it has no writes", file);
  trace->name = path.stem();
  return trace;
}

BlockRun run_in_objects(const BlockRun& run, uint64_t objects, uint64_t blocks,
                        uint64_t most_blocks) {
  const uint64_t first = run.first % (objects * blocks);
  return {first, std::min({run.blocks, blocks - first % blocks, most_blocks})};
}

}  // namespace elastripe::bench
