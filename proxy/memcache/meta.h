// The flags of memcached's meta commands: how a command is done, and what is to be answered. All
// commands take all of them; what one has no use for counts for nothing.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/memcache/refusal.h"
#include "proxy/memcache/request.h"

namespace elastripe::memcache {

struct MetaFlags {
  // In the order in which they were asked for, which is that of the answer: c f h k l s t and O.
  std::string answers = {};
  std::string opaque = {};               // O: given back as it is; may be empty
  bool value = false;                    // v: is answered
  bool quiet = false;                    // q: what is usual is not answered
  bool is_base64 = false;                // b: the key is
  std::optional<uint64_t> cas = {};      // C: only if the value has this one, or (mg) another
  std::optional<int64_t> exptime = {};   // T: a new one
  std::optional<int64_t> creates = {};   // N: what is not there is made, with this exptime
  std::optional<int64_t> recache = {};   // R: the client may win what expires before that
  std::optional<uint64_t> new_cas = {};  // E: what is written gets this one
  bool invalidates = false;              // I: makes stale
  bool empties = false;                  // x: the value is taken away, not the key
  bool is_no_use = false;                // u: does not count as a use
  uint32_t client_flags = 0;             // F
  char mode = '\0';                      // M
  uint64_t delta = 1;                    // D
  uint64_t initial = 0;                  // J: with N
  std::optional<uint64_t> offset = {};   // o: where the range begins
  std::optional<uint64_t> length = {};   // n: how many bytes it has

  bool tells_use() const { return answers.find_first_of("hl") != std::string::npos; }
};

// `flags` is what follows the key, or the number of bytes; what follows the letter of a flag
// without argument counts for nothing.
std::expected<MetaFlags, Refusal> parse_meta_flags(Command command, std::string_view flags);

// The key as it is stored, of one that was sent in base64.
std::expected<std::string, Refusal> decode_key(Command command, std::string_view sent);

}  // namespace elastripe::memcache
