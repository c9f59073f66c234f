#include "tests/sim/history_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

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

namespace {

// The one of the first `count` that has the name.
template <class Named>
Named named(const std::string& text, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (text == name(static_cast<Named>(i))) return static_cast<Named>(i);
  }
  throw std::invalid_argument("unknown: " + text);
}

// Throws where it is no operation.
Operation read_operation(const std::string& line) {
  const auto json = nlohmann::json::parse(line);
  Operation op;
  op.client = json.at("client");
  op.key = json.at("key");
  op.verb = named<Verb>(json.at("verb"), kVerbs);
  op.value = json.value("value", op.value);
  op.flags = json.value("flags", op.flags);
  op.exptime = json.value("exptime", op.exptime);
  op.delta = json.value("delta", op.delta);
  op.expected = json.value("expected", op.expected);
  op.cas = op.verb == Verb::kUpdate && json.contains("expected") ? 1 : 0;
  op.offset = json.value("offset", op.offset);
  op.length = json.value("length", op.length);
  op.answer = named<Answer>(json.at("answer"), kAnswers);
  op.read_value = json.value("read_value", op.read_value);
  op.read_flags = json.value("read_flags", op.read_flags);
  op.read_size = json.value("read_size", uint64_t{op.read_value.size()});
  op.number = json.value("number", op.number);
  op.error = json.value("error", op.error);
  op.invoked = json.at("call");
  op.invoked_ms = json.at("call_ms");
  op.returned = json.value("return", op.returned);
  op.returned_ms = json.value("return_ms", op.returned_ms);
  const bool is_answered = op.answer != Answer::kUnknown && op.answer != Answer::kNone;
  if (is_answered && op.returned == UINT64_MAX) throw std::invalid_argument("it never returned");
  return op;
}

}  // namespace

Result<History> read_history(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::kNotFound, "cannot read {}", path.string());
  History history;
  std::string line;
  while (std::getline(file, line)) {
    try {
      history.push_back(read_operation(line));
    } catch (const std::exception& error) {
      return fail(ErrorCode::kInvalid, "{}:{}: {}", path.string(), history.size() + 1,
                  error.what());
    }
  }
  return history;
}

}  // namespace elastripe::sim
