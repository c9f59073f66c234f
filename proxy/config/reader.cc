#include "proxy/config/reader.h"

#include <charconv>
#include <limits>

#include "proxy/base/bytes.h"

namespace elastripe::config {
namespace {

// Powers of 1024 only: "MB" means two things.
uint64_t factor_of(std::string_view suffix) {
  if (suffix.empty()) return 1;
  if (suffix == "KiB") return uint64_t{1} << 10;
  if (suffix == "MiB") return uint64_t{1} << 20;
  if (suffix == "GiB") return uint64_t{1} << 30;
  return 0;
}

}  // namespace

void Problems::report_text(std::string_view path, const std::string& text) {
  if (error_) return;
  error_ = Error{ErrorCode::kInvalid, fmt::format("{}: {}", places_.describe(path), text)};
}

MapReader::MapReader(Problems& problems, std::string path, const YAML::Node& node)
    : problems_(problems), path_(std::move(path)) {
  if (!path_.empty()) problems_.places().add_line(path_, node);
  if (path_.empty() && node.IsNull()) return;  // an empty file sets nothing
  if (!node.IsMap()) {
    problems_.report(path_, "must be a map of settings");
    return;
  }
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) {
      problems_.report(path_, "has a key that is not a word");
      continue;
    }
    const std::string& key = entry.first.Scalar();
    // The key's own line: that of the value may be a later one.
    problems_.places().add_line(path_of(escape_for_log(key)), entry.first);
    if (!entries_.try_emplace(key, Entry{entry.second}).second) {
      problems_.report(path_of(escape_for_log(key)), "is set again in line {}",
                       entry.first.Mark().line + 1);
    }
  }
}

std::string MapReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const YAML::Node* MapReader::find(std::string_view key) {
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return nullptr;
  entry->second.asked = true;
  return &entry->second.node;
}

std::optional<std::string> MapReader::read_scalar(std::string_view key, std::string_view expected) {
  const YAML::Node* node = find(key);
  if (node == nullptr) return std::nullopt;
  if (!node->IsScalar()) {
    problems_.report(path_of(key), "must be {}", expected);
    return std::nullopt;
  }
  return node->Scalar();
}

void MapReader::text(std::string_view key, std::string& value) {
  if (auto read = read_scalar(key, "a text")) value = std::move(*read);
}

void MapReader::boolean(std::string_view key, bool& value) {
  const auto read = read_scalar(key, "true or false");
  if (!read) return;
  if (*read != "true" && *read != "false") {
    problems_.report(path_of(key), "is '{}', must be true or false", escape_for_log(*read));
    return;
  }
  value = *read == "true";
}

std::optional<uint64_t> MapReader::read_number(std::string_view key, uint64_t low, uint64_t high,
                                               bool size_suffixes) {
  const auto read = read_scalar(key, "a number");
  if (!read) return std::nullopt;
  uint64_t number = 0;
  const char* end = read->data() + read->size();
  const auto [stop, error] = std::from_chars(read->data(), end, number);
  const std::string_view suffix(stop, static_cast<size_t>(end - stop));
  const uint64_t factor = size_suffixes || suffix.empty() ? factor_of(suffix) : 0;
  if (error == std::errc::invalid_argument || factor == 0) {
    problems_.report(path_of(key), "is '{}', must be a whole number{}", escape_for_log(*read),
                     size_suffixes ? " of bytes, or one with KiB, MiB or GiB" : "");
    return std::nullopt;
  }
  const bool overflow = error == std::errc::result_out_of_range ||
                        number > std::numeric_limits<uint64_t>::max() / factor;
  if (overflow || number * factor < low || number * factor > high) {
    problems_.report(path_of(key), "is {}, must be {}..{}", escape_for_log(*read), low, high);
    return std::nullopt;
  }
  return number * factor;
}

void MapReader::map(std::string_view key, const std::function<void(MapReader&)>& read) {
  const YAML::Node* node = find(key);
  if (node == nullptr) return;
  MapReader reader(problems_, path_of(key), *node);
  read(reader);
  reader.finish();
}

void MapReader::list(std::string_view key, const std::function<void(MapReader&)>& read) {
  const YAML::Node* node = find(key);
  if (node == nullptr) return;
  if (!node->IsSequence()) {
    problems_.report(path_of(key), "must be a list");
    return;
  }
  for (size_t i = 0; i < node->size() && !problems_.any(); ++i) {
    MapReader reader(problems_, fmt::format("{}.{}", path_of(key), i), (*node)[i]);
    read(reader);
    reader.finish();
  }
}

void MapReader::finish() {
  for (const auto& [key, entry] : entries_) {
    if (!entry.asked) problems_.report(path_of(escape_for_log(key)), "is no known setting");
  }
}

}  // namespace elastripe::config
