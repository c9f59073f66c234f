// What the tests of transition plans and coders share.
#pragma once

#include <string>

#include "coding/transition_plan.h"
#include "tests/unit/coding/support.h"

namespace elastripe::coding {

inline constexpr Direction kDirections[] = {Direction::kForward, Direction::kBackward};

inline const Codec& codec_of(const char* layout, int k, int m, int k_prime) {
  return codec_of(std::string(layout) + ":" + std::to_string(k) + "," + std::to_string(m) + "," +
                  std::to_string(k_prime));
}

inline TransitionPlan plan_of(const Codec& codec, Direction direction,
                              const TransitionOptions& options = {}) {
  const auto plan = transition_plan(codec, direction, options);
  INFO((plan ? std::string() : plan.error()));
  REQUIRE(plan);
  return *plan;
}

// Every combination of options.
inline constexpr TransitionOptions kAllOptions[] = {
    {false, true}, {false, false}, {true, true}, {true, false}};

}  // namespace elastripe::coding
