// A scheme names how the segments of an object are coded: ERS(k, m, k') with a layout.
//
// An object is stored as RS(k, m) and, where k' > k, may transition to RS(k', m) and back without
// moving a data byte. `rep(n)` is rs(1, n-1): the Vandermonde parities of one block are copies, so
// replication is not a second path.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace elastripe::coding {

// Bounds of a scheme. GF(2^8) allows k' + m <= 256; these keep l, tables and records small.
inline constexpr int kMaxDataNodes = 64;  // k'
inline constexpr int kMaxParities = 8;    // m
inline constexpr int kMaxBlocks = 1024;   // l = lcm(k, k')

// Values are stored in records: never renumber.
enum class LayoutKind : uint8_t {
  kRs = 0,    // one stripe of k blocks, k' = k
  kSrs = 1,   // stretched RS: column-major
  kErs1 = 2,  // ERS, row-major placement
  kErs2 = 3,  // ERS, ERS-aware placement (ERS Algorithm 3)
};

// Which of its two codes an object, or a segment of it, is in. Stored in records: never renumber.
enum class State : uint8_t {
  kNarrow = 0,  // RS(k, m): parities per stripe
  kWide = 1,    // RS(k', m): parities per row
};

struct Scheme {
  LayoutKind layout = LayoutKind::kRs;
  uint8_t k = 1;
  uint8_t m = 1;
  uint8_t k_prime = 1;  // = k for kRs

  friend bool operator==(const Scheme&, const Scheme&) = default;

  // Shards of one segment: k' data shards and m parity shards, each on a node of its own.
  int shards() const { return k_prime + m; }
};

// Parses `rep:N`, `rs:K,M`, `srs:K,M,KP`, `ers-1:K,M,KP`, `ers-2:K,M,KP`, and `ers:` as a short
// form of `ers-2:`. Checks the bounds, m >= 1, and k < k' for srs and ers. The error is one line
// that says what is wrong.
std::expected<Scheme, std::string> parse_scheme(std::string_view text);

// Checks what parse_scheme checks; for schemes that were decoded from bytes.
std::expected<void, std::string> validate(const Scheme& scheme);

// The form that parse_scheme reads back; rs(1, m) prints as rep:(m+1), kErs2 as `ers-2:`.
std::string to_string(const Scheme& scheme);

}  // namespace elastripe::coding
