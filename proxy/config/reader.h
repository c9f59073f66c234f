// Reads settings out of a YAML map, and tells where one is unknown, repeated or wrong.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/base/error.h"
#include "proxy/config/setting.h"
#include "proxy/config/tree.h"

namespace elastripe::config {

// The first error sticks; reading goes on without effect.
class Problems {
 public:
  explicit Problems(Places& places) : places_(places) {}

  Places& places() { return places_; }
  bool any() const { return error_.has_value(); }
  const Error& first() const { return *error_; }

  template <class... Args>
  void report(std::string_view path, fmt::format_string<Args...> format, Args&&... args) {
    report_text(path, fmt::vformat(format, fmt::make_format_args(args...)));
  }

 private:
  void report_text(std::string_view path, const std::string& text);

  Places& places_;
  std::optional<Error> error_;
};

// A map of settings at `path`. Ask for every setting that may be there, then call finish(): what
// was not asked for is unknown. Settings that are not there leave their variable as it is.
class MapReader {
 public:
  MapReader(Problems& problems, std::string path, const YAML::Node& node);

  bool has(std::string_view key) const { return entries_.contains(key); }
  std::string path_of(std::string_view key) const;

  // Reads the settings that are there, those with a section below it; others stay as they are.
  // Returns the paths of those that were there.
  std::set<std::string, std::less<>> settings(const Settings& settings);

  // Calls `read` for a map under `key`, and finishes it.
  void map(std::string_view key, const std::function<void(MapReader&)>& read);
  // Calls `read` for each map of the list under `key`, and finishes it.
  void list(std::string_view key, const std::function<void(MapReader&)>& read);

  void finish();

 private:
  struct Entry {
    YAML::Node node;
    bool asked = false;
  };

  const YAML::Node* find(std::string_view key);
  // True if it is there.
  bool read(std::string_view key, const Setting& setting);

  Problems& problems_;
  std::string path_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace elastripe::config
