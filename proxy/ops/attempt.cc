#include "proxy/ops/attempt.h"

#include <algorithm>

#include "server-patches/node/format/mutant.h"

namespace elastripe {

namespace {
constexpr Duration kPollInterval = std::chrono::milliseconds(5);
constexpr Duration kRetryPause = std::chrono::milliseconds(50);
constexpr Duration kBusyPause = std::chrono::milliseconds(200);  // and up to twice as long
}  // namespace

Result<MapPtr> current_map(const OpsContext& ops) {
  MapPtr map = ops.map.current();
  if (map == nullptr) return fail(ErrorCode::kUnavailable, "not serving: {}", ops.map.reason());
  return map;
}

bool is_worth_retrying(const Error& error) {
  switch (error.code) {
    case ErrorCode::kStaleEpoch:
    case ErrorCode::kUnavailable:
    case ErrorCode::kNotSent:
    case ErrorCode::kBusy:
    case ErrorCode::kTimeout:
    case ErrorCode::kDisconnected:
      return true;
    default:
      return false;
  }
}

Task<Result<void>> before_retry(OpsContext& ops, MapPtr tried, Error error, TimePoint deadline) {
  if (!is_worth_retrying(error)) co_return fail(std::move(error));
  if (error.code == ErrorCode::kBusy) {
    const auto more = Duration(ops.random.next() % static_cast<uint64_t>(kBusyPause.count()));
    const TimePoint later = ops.clock.now() + kBusyPause + more;
    if (later >= deadline) co_return fail(std::move(error));
    if (co_await ops.clock.sleep_until(later)) co_return Result<void>{};
    co_return fail(ErrorCode::kCancelled, "shutting down");
  }
  const TimePoint until = ops.clock.now() + kRetryPause;
  for (;;) {
    const TimePoint now = ops.clock.now();
    if (now >= deadline) {
      // What is left to say is that nobody could answer; the last try says why.
      co_return fail(std::move(error));
    }
    const MapPtr map = ops.map.current();
    if (map == nullptr) {
      co_return fail(ErrorCode::kUnavailable, "not serving: {}", ops.map.reason());
    }
    if (map->epoch.number > tried->epoch.number || now >= until) co_return Result<void>{};
    if (!co_await ops.clock.sleep_until(std::min(now + kPollInterval, deadline))) {
      co_return fail(ErrorCode::kCancelled, "shutting down");
    }
  }
}

std::unexpected<Error> unknown_outcome(OpsContext& ops, std::string why) {
  ++ops.counters.unknown_outcomes;
  return fail(Error{ErrorCode::kUnknownOutcome, std::move(why)});
}

TimePoint fresh_deadline(const OpsContext& ops) {
  return ops.clock.now() + ops.settings.request_timeout;
}

TimePoint call_deadline(const OpsContext& ops, TimePoint deadline) {
  return std::min(deadline, ops.clock.turn_time() + ops.settings.node_timeout);
}

bool is_live_now(const OpsContext& ops, const node::ClusterMap& map, const node::Record& record) {
  // Most records never expire: no clock is looked at for them.
  const uint64_t now_ms = record.content.exptime == 0 ? 0 : ops.clock.unix_ms();
  return record.is_live(now_ms, mutant(Mutant::kReadFlushed) ? 0 : map.flush_floor);
}

}  // namespace elastripe
