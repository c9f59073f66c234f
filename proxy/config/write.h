// Settings as text: a file, and a list for --help.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/setting.h"

namespace elastripe::config {

// A part of the file with a name: the settings of that section, or a list of `items`, whose
// settings have paths within an item. All items have the same settings.
struct Section {
  std::string_view name;
  std::string_view about;
  std::vector<Settings> items = {};
};

// The file as YAML: the settings without a section, then the sections in their order. Explained,
// each setting stands behind what is said about it; of a list the first item's do.
std::string write_file(const Settings& settings, std::span<const Section> sections,
                       bool is_explained);

// For each setting its path, the first sentence about it, its value and its bounds. Those that can
// be changed while the process runs are marked (SIGHUP), those of the cluster (cluster), here and
// in an explained file.
std::string write_list(const Settings& settings, std::span<const Section> sections);

}  // namespace elastripe::config
