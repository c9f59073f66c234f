#include "proxy/cluster/next_settings.h"

#include <algorithm>

namespace elastripe {

// Where the settings are the cluster's, so are the pools, whatever this proxy's file says.
uint8_t wanted_parities(const node::ClusterMap& last, const MembershipSettings& settings,
                        const MapRequest& request) {
  if (request.settings) return request.settings->max_parities;
  return last.settings.version == 0 ? settings.max_parities : last.max_parities;
}

// A node may have a lease of the map before, if that was served. If not, it may have one of any map
// before that.
node::ClusterSettings next_settings(const node::ClusterMap& last,
                                    const MembershipSettings& settings, const MapRequest& request) {
  node::ClusterSettings next = last.settings;
  const bool are_first = next.version == 0 && settings.own.lease_ms > 0;
  if (are_first) next = settings.own;
  if (request.settings) next = request.settings->settings;
  if (are_first || request.settings) next.version = last.settings.version + 1;
  const uint32_t before =
      request.was_served ? last.settings.lease_ms : last.settings.longest_lease_ms;
  next.longest_lease_ms = std::max(next.lease_ms, before);
  return next;
}

}  // namespace elastripe
