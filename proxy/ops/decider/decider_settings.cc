// The cluster-wide settings, of which the decider makes maps.
#include <optional>
#include <utility>

#include "coding/scheme.h"
#include "proxy/base/log.h"
#include "proxy/ops/decider/decider_impl.h"

namespace elastripe::decider {

// Nothing: they are as they shall be.
Result<std::optional<node::ClusterMap>> Decider::Impl::map_with(const SettingsChange& change) {
  if (auto may = may_change(); !may) return fail(may.error());
  if (!map_->capabilities.has(node::Capability::kSettings)) {
    return fail(ErrorCode::kUnavailable,
                "some nodes are of a build that knows no settings of the cluster; upgrade them");
  }
  if (change.settings.version == 0) return fail(ErrorCode::kInvalid, "these are no settings");
  if (change.max_parities < 1 || change.max_parities > coding::kMaxParities) {
    return fail(ErrorCode::kInvalid, "no pool can have an m of {}", change.max_parities);
  }
  if (map_->settings.version != change.of_version) {
    return fail(ErrorCode::kConflict, "the settings are of version {} by now, not of {}; try again",
                map_->settings.version, change.of_version);
  }
  node::ClusterSettings wanted = change.settings;
  wanted.version = map_->settings.version;
  wanted.longest_lease_ms = map_->settings.longest_lease_ms;
  if (wanted == map_->settings) return std::nullopt;
  MapRequest known = request();
  known.settings = change;
  auto next = next_map(*map_, membership_, ring(), known);
  if (next && is_false_loss(*next)) {
    sync_stop_ = true;
    return fail(ErrorCode::kUnavailable, "nodes have just died; try again");
  }
  if (!next) return fail(next.error());
  return std::optional(std::move(*next));
}

Task<Result<void>> Decider::Impl::change_settings(SettingsChange change, TimePoint deadline) {
  auto next = map_with(change);
  if (!next) co_return fail(next.error());
  if (*next) {
    log_membership(LogLevel::kInfo, LogFields()
                                        .add("event", "settings")
                                        .add("version", (*next)->settings.version)
                                        .add("epoch", (*next)->epoch.number));
  }
  co_return co_await have_served(std::move(*next), deadline);
}

}  // namespace elastripe::decider
