// Fields of the proxy's answers, read leniently: what a proxy of another version lacks counts as
// nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace elastripe::cli {

inline const nlohmann::ordered_json& part(const nlohmann::ordered_json& json, const char* field) {
  static const nlohmann::ordered_json nothing;
  return json.is_object() && json.contains(field) ? json[field] : nothing;
}

inline double number(const nlohmann::ordered_json& json, const char* field) {
  const auto& value = part(json, field);
  return value.is_number() ? value.get<double>() : 0;
}

inline std::string text(const nlohmann::ordered_json& json, const char* field) {
  const auto& value = part(json, field);
  return value.is_string() ? value.get<std::string>() : std::string();
}

// For people: "-" if it is not there.
inline std::string shown(const nlohmann::ordered_json& json, const char* field) {
  if (!json.is_object() || !json.contains(field)) return "-";
  const auto& value = json[field];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace elastripe::cli
