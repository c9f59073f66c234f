// The limits of client sessions, and which of them the configuration sets.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "proxy/async/clock.h"
#include "proxy/base/setting_rows.h"

namespace elastripe {

// Which commands of one connection wait for those before them.
enum class CommandOrder : uint8_t {
  kKey,         // those on a key that one of both writes
  kConnection,  // all, if one of both writes anything
};

struct SessionSettings {
  uint64_t max_object_bytes = uint64_t{1} << 30;
  // Each connection:
  size_t commands_in_flight = 64;
  uint64_t bytes_in_flight = 8u << 20;  // values received and not yet answered
  uint64_t unsent_bytes = 8u << 20;     // replies; above, nothing more is read
  uint64_t unsent_text = 256u << 10;    // of these, all but large values
  uint64_t read_bytes = 16u << 20;      // of large values on their way to it
  // Different keys of all its commands that run; no further command begins above.
  size_t keys_in_flight = 65536;
  // Keys that are read at once or wait for those before them; the first of its retrievals may read
  // 256, so that it is not held up by those behind it.
  size_t keys_read = 256;
  Duration idle_timeout = Duration::zero();  // without any command; zero: never
  // A client in a line, in a value or with unsent replies is cut if it moves nothing for so long,
  // or, unless it comes to the end of them, less than `progress_bytes`.
  Duration stall_timeout = std::chrono::seconds(30);
  uint64_t progress_bytes = 1u << 20;
  // While other clients wait for memory that it holds, it is cut if it moves less than
  // `yield_bytes` in so long.
  Duration yield_timeout = std::chrono::seconds(1);
  uint64_t yield_bytes = 64u << 10;
  // All connections of one worker:
  size_t all_keys_read = 512;  // keys of multi-gets; each connection may read one more
  // Long lines that are being received, and the keys of commands that run. Each connection may
  // have `own_line_bytes` of lines and as much of keys beside that; a longer line takes as much as
  // the longest, so that no two wait for each other half-way.
  uint64_t line_bytes = 64u << 20;
  uint64_t own_line_bytes = 128u << 10;
  uint64_t longest_line_bytes = 1u << 20;
  // The whole proxy:
  uint32_t max_connections = 4096;
  bool allows_flush = true;
  bool allows_dump = true;
  CommandOrder order = CommandOrder::kKey;

  friend bool operator==(const SessionSettings&, const SessionSettings&) = default;
};

// max_object_bytes and stall_timeout are those of the flows (proxy/main/config.cc).
void each_setting(SessionSettings& s, auto& row) {
  using namespace setting;
  row("flush_all", s.allows_flush, Words<bool, 2>{{{true, "allow"}, {false, "refuse"}}},
      "Whether clients may flush: refused, their flush_all is answered with CLIENT_ERROR flush_all "
      "not allowed. One client's flush makes the values of all clients misses.");
  row("dump", s.allows_dump, Words<bool, 2>{{{true, "allow"}, {false, "refuse"}}},
      "Whether clients may list all keys (lru_crawler metadump, stats cachedump).");
  row("order", s.order,
      Words<CommandOrder, 2>{
          {{CommandOrder::kKey, "key"}, {CommandOrder::kConnection, "connection"}}},
      "What a client sees in order that sends commands without waiting for replies. key: those on "
      "one key. connection: all that it sends by one connection, so each write waits for the "
      "replies before it, and what comes behind a write waits for that.");
  row("limits.connections", s.max_connections, Range{1, 1'000'000},
      "Client connections; more are told so and closed at once.");
  row("timing.client_idle_ms", s.idle_timeout, Range{0, kDayMs},
      "A client that has sent no command for so long is closed; 0: it may be idle for ever.");
  row("timing.client_yield_ms", s.yield_timeout, Range{100, kDayMs},
      "A client that holds memory that others wait for (limits) and moves less than 64 KiB in so "
      "long is closed.");
}

}  // namespace elastripe
