// What a command came to that is no retrieval, or was refused: its meaning, which a responder
// tells.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proxy/memcache/refusal.h"
#include "proxy/ops/objects/outcome.h"

namespace elastripe {

// Stores and counters have outcomes of their own (proxy/ops/objects/outcome.h).
struct TouchOutcome {
  bool found;
};
struct VersionOutcome {
  std::string_view version;
};
struct SaslMechanisms {
  std::string_view names;  // separated by spaces
};
struct LoggedIn {};
// The answer to `stats`, whole: names and values in their order.
using StatPairs = std::vector<std::pair<std::string, std::string>>;
struct StatsReset {};
struct Noop {};      // mn
struct Accepted {};  // it is done, or there is nothing to do for it here

using CommandOutcome =
    std::variant<objects::StoreOutcome, objects::UpdateOutcome, objects::CounterOutcome,
                 objects::RemoveStatus, TouchOutcome, VersionOutcome, SaslMechanisms, LoggedIn,
                 StatPairs, StatsReset, Noop, Accepted, memcache::Refusal>;

}  // namespace elastripe
