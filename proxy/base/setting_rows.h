// What a setting of the configuration file may be. Each subsystem lists its settings in rows, below
// the struct that has their values and defaults:
//
//   struct SessionSettings { Duration idle_timeout = Duration::zero(); ... };
//
//   void each_setting(SessionSettings& s, auto& row) {
//     row("timing.client_idle_ms", s.idle_timeout, setting::Range{0, setting::kDayMs},
//         "A client that has sent ...");
//   }
//
// row.cluster_wide([&] { ... }) has rows of what all proxies of a cluster have in common.
//
// A row is the path in the file, the value, what it may be, and sentences about it, of which the
// first stands for all in a list. Reading, --set, --help, the example file and `stats settings`
// follow from the rows (proxy/config/setting.h); proxy/main/config.h has the structs.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace elastripe::setting {

inline constexpr uint64_t kKiB = 1 << 10;
inline constexpr uint64_t kMiB = 1 << 20;
inline constexpr uint64_t kGiB = 1 << 30;
inline constexpr uint64_t kDayMs = 24ULL * 60 * 60 * 1000;

// A whole number, bounds included; of a Duration the milliseconds.
struct Range {
  uint64_t low;
  uint64_t high;
};
// Whole bytes, also with KiB, MiB or GiB.
struct Sizes {
  uint64_t low;
  uint64_t high;
};
struct TrueOrFalse {};
struct AnyText {};
// One of a few words; what each means.
template <class Value, size_t N>
using Words = std::array<std::pair<Value, std::string_view>, N>;

}  // namespace elastripe::setting
