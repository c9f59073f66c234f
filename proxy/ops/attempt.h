// Attempts: every try of a flow is pinned to one map (rule 6a). When the map turns out to be over,
// or a node of it is gone, the flow waits for a newer one and tries again, until its deadline.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "proxy/ops/context.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

// The map to try under. kUnavailable if this proxy is not serving, with the reason.
Result<MapPtr> current_map(const OpsContext& ops);

// After a try under `tried` failed with `error`: whether trying again can help. True for errors
// that say that the map is over or that a node did not answer.
bool is_worth_retrying(const Error& error);

// Waits until there is a newer map than `tried`, or a moment has passed (a
// lease may be granted, a node may answer again). `error`, what the try failed with, is what it
// returns once the deadline has come, and at once if trying again can not help.
Task<Result<void>> before_retry(OpsContext& ops, MapPtr tried, Error error, TimePoint deadline);

// An attempt's value: what it returns, a Task<Result<...>>, has it; as an optional, if nothing
// means that what it began with has changed meanwhile.
template <class Returned>
struct AttemptValue;
template <class T>
struct AttemptValue<Task<Result<T>>> {
  using type = T;
  static constexpr bool kMayBeNone = false;
};
template <class T>
struct AttemptValue<Task<Result<std::optional<T>>>> {
  using type = T;
  static constexpr bool kMayBeNone = true;
};
template <class Attempt>
using ValueOf = AttemptValue<std::invoke_result_t<Attempt&, const MapPtr&, TimePoint&>>;

// How flows try again. `attempt(map, deadline)` is made under the newest map until it
// succeeds, fails for good, or the deadline has come, which it may move; at once, if it returns
// nothing. The map lives as long as the attempt.
//
// A caller that returns this flow without awaiting it must not capture its own parameters by
// reference: they are gone when the attempt is made.
template <class Attempt>
Task<Result<typename ValueOf<Attempt>::type>> under_newest_map(OpsContext& ops, TimePoint deadline,
                                                               Attempt attempt) {
  auto map = current_map(ops);
  for (;; map = mutant(Mutant::kRetryOldMap) ? map : current_map(ops)) {
    if (!map) co_return fail(map.error());
    auto tried = co_await attempt(*map, deadline);
    if constexpr (ValueOf<Attempt>::kMayBeNone) {
      if (tried && tried->has_value()) co_return std::move(**tried);
      if (tried && ops.clock.now() >= deadline) {
        co_return fail(ErrorCode::kTimeout, "what it began with changed until the deadline");
      }
      if (tried) continue;
    } else if (tried) {
      co_return tried;
    }
    auto again = co_await before_retry(ops, *map, tried.error(), deadline);
    if (!again) co_return fail(again.error());
  }
}

// How an operation ends that may or may not have taken effect, or may yet; counted.
std::unexpected<Error> unknown_outcome(OpsContext& ops, std::string why);

// The deadline of what is asked now.
TimePoint fresh_deadline(const OpsContext& ops);

// The deadline of one call: the node's share of what is left.
TimePoint call_deadline(const OpsContext& ops, TimePoint deadline);

// Neither a tombstone, nor expired, nor flushed: `map` is the one that the record was read under.
bool is_live_now(const OpsContext& ops, const node::ClusterMap& map, const node::Record& record);

}  // namespace elastripe
