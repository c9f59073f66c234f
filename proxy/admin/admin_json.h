// The JSON texts of the admin interface (docs/admin-api.md): pure functions of what they show.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proxy/ops/decider/decider.h"
#include "proxy/ops/jobs/repairer.h"
#include "proxy/ops/jobs/scrub.h"
#include "proxy/ops/jobs/scrubber.h"
#include "proxy/ops/objects/outcome.h"

namespace elastripe {

// How far repair and scrubs are, as part of a card (DeciderFindings).
std::string maintenance_json(const jobs::RepairStatus& repair, const jobs::ScrubStatus& scrub);
// `repair` and `scrub` are of this proxy, and shown unless `status` has those of the one that
// decides.
std::string status_json(const decider::ClusterStatus& status, const jobs::RepairStatus& repair,
                        const jobs::ScrubStatus& scrub, const std::string& version,
                        const std::string& proxy_id);
std::string nodes_json(const decider::ClusterStatus& status);
// `map` names the nodes; null if none is served.
std::string object_json(const std::string& key, const objects::ObjectReport& report,
                        const MapPtr& map);
// The report has a record.
std::string scrub_json(const std::string& key, const jobs::ScrubReport& report, const MapPtr& map);
std::string accepted_json(const decider::AcceptedLoss& accepted);
// The cluster-wide settings.
std::string settings_json(const node::ClusterMap& map);
std::string error_json(const Error& error);

}  // namespace elastripe
