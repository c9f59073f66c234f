// The flags of `mg` and `ms`, memcached's meta get and meta set, as far as they are supported: what
// is to be answered, and (ours) which bytes of the value are read or written.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/memcache/refusal.h"

namespace elastripe::memcache {

// In the order in which they were asked for; that is the order of the answer.
struct MetaGet {
  bool value = false;            // v
  std::string answers = {};      // of c f k s and O
  std::string opaque = {};       // O: given back as it is; may be empty
  bool quiet = false;            // q: a miss is not answered
  uint64_t offset = 0;           // o: where the range begins
  uint64_t length = UINT64_MAX;  // n: how many bytes it has
};

// `flags` is what follows the key; what follows the letter of a flag without argument counts for
// nothing.
std::expected<MetaGet, Refusal> parse_meta_get(std::string_view flags);

struct MetaSet {
  std::string answers = {};          // of c k s and O, in their order
  std::string opaque = {};           // O: given back as it is; may be empty
  bool quiet = false;                // q: a success is not answered
  std::optional<uint64_t> cas = {};  // C: only if the value has this one
  uint64_t offset = 0;               // o: where the new bytes begin
};

// `flags` is what follows the number of bytes. Without an offset it is refused: whole values are
// stored by `set` and its like.
std::expected<MetaSet, Refusal> parse_meta_set(std::string_view flags);

}  // namespace elastripe::memcache
