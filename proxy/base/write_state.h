// WriteState: the state that a pool's new values are written in, where its scheme has two.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace elastripe {

enum class WriteState : uint8_t {
  kNarrow,    // RS(k, m)
  kWide,      // RS(k', m)
  kAsBefore,  // that of the object which is replaced, as far as the proxy knows it; else narrow
};

// As the configuration names them.
inline constexpr std::array<std::pair<WriteState, std::string_view>, 3> kWriteStates{{
    {WriteState::kNarrow, "narrow"},
    {WriteState::kWide, "wide"},
    {WriteState::kAsBefore, "as_before"},
}};

constexpr std::string_view name_of(WriteState state) {
  return kWriteStates[static_cast<size_t>(state)].second;
}

}  // namespace elastripe
