// The dialects of memcached's protocol, as a load speaks them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/cli/result.h"

namespace elastripe::bench {

enum class Dialect : uint8_t { kText, kMeta, kBinary };
inline constexpr std::array kDialects{Dialect::kText, Dialect::kMeta, Dialect::kBinary};
// "text", "meta", "binary"
const char* name_of(Dialect dialect);

// Requests, behind what is in `out`. The value follows a storage request; then end_value().
void append_get(std::string& out, Dialect dialect, std::string_view key);
void append_set(std::string& out, Dialect dialect, std::string_view key, size_t value_bytes,
                int exptime_s);
void append_delete(std::string& out, Dialect dialect, std::string_view key);
void end_value(std::string& out, Dialect dialect);

enum class Asked : uint8_t { kGet, kSet, kDelete };

struct Answer {
  size_t bytes = 0;  // of the whole answer; 0: it has not come whole yet
  bool is_gone = false;
  std::string_view value = {};  // of a get
};
// What `text` begins with, an answer to such a request for the key. An error is what the server
// says, or that it is none of its dialect.
cli::Result<Answer> take_answer(Dialect dialect, Asked asked, std::string_view key,
                                std::string_view text);

}  // namespace elastripe::bench
