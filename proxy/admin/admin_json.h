// The JSON texts of the admin interface (docs/admin-api.md): pure functions of what they show.
#pragma once

#include <string>
#include <string_view>

#include "proxy/ops/decider.h"
#include "proxy/ops/outcome.h"
#include "proxy/ops/scrub.h"

namespace elastripe {

std::string status_json(const ClusterStatus& status, const std::string& version,
                        const std::string& proxy_id);
std::string nodes_json(const ClusterStatus& status);
// `map` names the nodes; null if none is served.
std::string object_json(const std::string& key, const ObjectReport& report, const MapPtr& map);
// The report has a record.
std::string scrub_json(const std::string& key, const ScrubReport& report, const MapPtr& map);
std::string accepted_json(const AcceptedLoss& accepted);
std::string error_json(const Error& error);

// Whether clients can send such a key (docs/client-protocol.md).
bool is_client_key(std::string_view key);

}  // namespace elastripe
