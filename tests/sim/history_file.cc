#include "tests/sim/history_file.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace elastripe::sim {

std::string to_json(const Operation& op) {
  using Json = nlohmann::ordered_json;
  Json json = {{"client", op.client}, {"key", op.key}, {"verb", name(op.verb)}};
  if (!op.value.empty()) json["value"] = op.value;
  if (op.flags != 0) json["flags"] = op.flags;
  if (op.exptime != 0) json["exptime"] = op.exptime;
  if (op.delta != 0) json["delta"] = op.delta;
  if (is_conditional(op)) json["expected"] = op.expected;
  if (op.offset != 0) json["offset"] = op.offset;
  if (op.length != UINT64_MAX) json["length"] = op.length;
  json["answer"] = name(op.answer);
  if (op.answer == Answer::kHit || op.answer == Answer::kCutOff) {
    json["read_value"] = op.read_value;
    json["read_flags"] = op.read_flags;
    if (!is_whole_hit(op)) json["read_size"] = op.read_size;
  }
  if (op.answer == Answer::kDone && op.delta != 0) json["number"] = op.number;
  if (!op.error.empty()) json["error"] = op.error;
  json["call"] = op.invoked;
  json["call_ms"] = op.invoked_ms;
  if (op.returned != UINT64_MAX) {
    json["return"] = op.returned;
    json["return_ms"] = op.returned_ms;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool write_history(const History& history, const std::filesystem::path& path) {
  std::ofstream file(path);
  for (const Operation& op : history) file << to_json(op) << '\n';
  return static_cast<bool>(file.flush());
}

}  // namespace elastripe::sim
