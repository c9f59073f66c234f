// How the cluster-wide settings of one map follow from those of the map before. Internal to
// proxy/cluster/membership.cc.
#pragma once

#include "proxy/cluster/membership.h"

namespace elastripe {

// M, at least, of the map after `last`.
uint8_t wanted_parities(const node::ClusterMap& last, const MembershipSettings& settings,
                        const MapRequest& request);

// The settings of the map after `last`, whose members all know of such; of the first map, if `last`
// has none.
node::ClusterSettings next_settings(const node::ClusterMap& last,
                                    const MembershipSettings& settings, const MapRequest& request);

}  // namespace elastripe
