// Composes the replies of memcached's classic text protocol into an Output. The session does not
// call it for commands with noreply.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/base/buffer.h"
#include "proxy/memcache/output.h"

namespace elastripe::memcache {

// A line of replies.h with its line end.
void compose_line(Output& output, std::string_view line);

// The new value of incr and decr.
void compose_number(Output& output, uint64_t number);

// "VALUE key flags bytes [cas]", the value, and its line end.
void compose_value(Output& output, std::string_view key, uint32_t flags, Buffer value,
                   std::optional<uint64_t> cas_unique);

// For values that arrive in parts: the header, then output.append() of parts that make up
// `value_bytes` together, then the trailer.
void compose_value_header(Output& output, std::string_view key, uint32_t flags,
                          uint64_t value_bytes, std::optional<uint64_t> cas_unique);
void compose_value_trailer(Output& output);

// "CLIENT_ERROR reason" and "SERVER_ERROR reason". Control bytes in the reason become spaces and it
// is cut at 200 bytes: whatever it quotes, it stays one line.
void compose_client_error(Output& output, std::string_view reason);
void compose_server_error(Output& output, std::string_view reason);

// "STAT name value"; `value` is made one line too. After the last one: compose_line(replies::kEnd).
void compose_stat(Output& output, std::string_view name, std::string_view value);

// What a hit of `mg` answers before its value, if it has one: "VA bytes flags" or "HD flags";
// `flags` are what was asked for, each with a space before it. The value and a line end follow.
void compose_meta_hit(Output& output, std::optional<uint64_t> value_bytes, std::string_view flags);
// "EN flags".
void compose_meta_miss(Output& output, std::string_view flags);

// An object's line in the answer to `lru_crawler metadump`, and to `stats cachedump`. The first has
// the key as in a URI. Nobody knows when it was read last: "la=0 fetch=no".
void compose_metadump(Output& output, std::string_view key, uint32_t exptime, uint64_t cas,
                      uint64_t size);
void compose_cachedump(Output& output, std::string_view key, uint32_t exptime, uint64_t size);

// "VERSION text".
void compose_version(Output& output, std::string_view version);

}  // namespace elastripe::memcache
