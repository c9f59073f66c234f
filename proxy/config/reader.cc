#include "proxy/config/reader.h"

#include <set>

#include "proxy/base/bytes.h"

namespace elastripe::config {

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

bool MapReader::read(std::string_view key, const Setting& setting) {
  const YAML::Node* node = find(key);
  if (node == nullptr) return false;
  if (!node->IsScalar()) {
    problems_.report(path_of(key), "must be {}", setting.type);
  } else if (const auto read = setting.read(node->Scalar()); !read) {
    problems_.report(path_of(key), "{}", one_line(read.error()));
  }
  return true;
}

std::set<std::string, std::less<>> MapReader::settings(const Settings& settings) {
  std::set<std::string, std::less<>> there;
  std::set<std::string_view> sections;
  for (const Setting& setting : settings) {
    const std::string_view section = setting.section();
    if (section.empty()) {
      if (read(setting.path, setting)) there.emplace(setting.path);
    } else if (sections.insert(section).second) {
      map(section, [&](MapReader& under) {
        for (const Setting& member : settings) {
          if (member.section() != section) continue;
          if (under.read(member.name(), member)) there.emplace(member.path);
        }
      });
    }
  }
  return there;
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
