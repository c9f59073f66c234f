// What `elastripe status` shows, from the answers of the admin interface (docs/admin-api.md): pure
// functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace elastripe::cli {

std::string mebibytes(double bytes);

// Lines; `jobs` is GET /v1/jobs, of which those that run are shown.
std::string status_text(const nlohmann::ordered_json& status, const nlohmann::ordered_json& jobs);

}  // namespace elastripe::cli
