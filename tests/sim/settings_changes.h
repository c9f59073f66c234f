// Changes of the cluster's settings that an operator asks proxies for, one after the other, and
// what becomes of them: what was acknowledged is in every map that is served later, and what was
// refused in none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/sim/proxy.h"
#include "tests/sim/run.h"

namespace elastripe::sim {

class SettingsChanges {
 public:
  // `newest_number`: no map that was served has a higher one.
  SettingsChanges(Run& run, std::function<uint32_t()> newest_number)
      : run_(run), newest_number_(std::move(newest_number)) {}

  // Asks this proxy to make leases so long, in place of those of a map that it has told.
  void ask(SimProxy& proxy, const node::ClusterMap& of, uint32_t lease_ms);
  // At a map that somebody serves.
  void look(const node::ClusterMap& served);
  // When all has healed: whoever lives answers.
  void check();

 private:
  enum class State : uint8_t { kOpen, kDone, kRefused, kUnknown };
  struct Change {
    std::string text;  // of these settings, and of no others
    uint32_t version = 0;
    const SimProxy* asked = nullptr;
    State state = State::kOpen;
    uint32_t done_before = 0;  // the map after the one of that number has it
  };

  void hear(size_t index, const decider::DeciderAnswer& answer);
  bool are_answered() const;

  Run& run_;
  const std::function<uint32_t()> newest_number_;
  std::vector<Change> changes_;
};

}  // namespace elastripe::sim
