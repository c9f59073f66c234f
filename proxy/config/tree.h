// The YAML tree of a configuration before it is read: overrides, and where every value came from.
// This and reader.h are the only headers that show yaml-cpp.
#pragma once

#include <yaml-cpp/yaml.h>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/error.h"

namespace elastripe::config {

// Names the place of a setting, by its dotted path, in error messages.
class Places {
 public:
  explicit Places(std::string_view file_name) : file_name_(file_name) {}

  void add_line(const std::string& path, const YAML::Node& node);
  void add_override(std::string path, std::string flag);

  // "FILE:12: path" or "--set path=value: path"; for a setting that was left out, the place of the
  // nearest one around it.
  std::string describe(std::string_view path) const;

 private:
  struct Override {
    std::string path;
    std::string flag;
  };

  std::string file_name_;
  std::map<std::string, int, std::less<>> lines_;
  std::vector<Override> overrides_;
};

// Parses the text and applies the overrides, telling `places` about them. An empty text is an empty
// map. Throws nothing.
Result<YAML::Node> build_tree(std::string_view yaml, std::string_view file_name,
                              std::span<const std::string> overrides, Places& places);

}  // namespace elastripe::config
