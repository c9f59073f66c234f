// The settings that all proxies of a cluster have in common. They are kept with the map, as YAML,
// and count in place of what the file of a proxy says (docs/operations.md).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/cluster/membership.h"
#include "proxy/main/config.h"

namespace elastripe {

// Those of a configuration, as the map keeps them.
std::string cluster_text(const Config& config);

// What a proxy with that file has to follow; whether it fits the rest of the file is to be checked.
// kInvalid: this build does not know all of it; and where.
Result<Config> with_cluster(const Config& file, std::string_view text);

// What the file says otherwise than the cluster: "timing.lease_ms=5000", "pools".
std::vector<std::string> overruled(const Config& file, const Config& in_force);

// The change that makes these settings, "timing.lease_ms=5000", those of the cluster; of a proxy
// that runs with `running`. `is_recycled`: the operator vouches that no log has an update, so that
// it may change where they are. kUnavailable: the cluster has none yet. kInvalid: where and why.
Result<SettingsChange> change_cluster(const Config& running, const node::ClusterMap& map,
                                      std::span<const std::string> settings, bool is_recycled);

}  // namespace elastripe
