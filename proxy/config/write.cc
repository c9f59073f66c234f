#include "proxy/config/write.h"

#include <fmt/format.h>

#include <algorithm>

namespace elastripe::config {
namespace {

constexpr size_t kColumns = 100;

// The words of `text` in lines of at most kColumns that begin with `margin`; where `text` has line
// ends these are kept, with the spaces behind them.
std::string wrapped(std::string_view text, const std::string& margin) {
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    size_t column = margin.size();
    out += margin;
    for (size_t at = 0; at < line.size();) {
      const size_t end = std::min(line.find(' ', line.find_first_not_of(' ', at)), line.size());
      std::string_view word = line.substr(at, end - at);
      if (at > 0 && column + word.size() > kColumns) {
        out += "\n" + margin;
        column = margin.size();
        word.remove_prefix(word.find_first_not_of(' '));
      }
      out += word;
      column += word.size();
      at = end;
    }
    out += "\n";
  }
  return out;
}

// " [1..256]"
std::string brackets(const Setting& setting) {
  return setting.bounds.empty() ? "" : fmt::format(" [{}]", setting.bounds);
}

std::string mark(const Setting& setting) {
  if (setting.is_cluster_wide) return " (cluster)";
  return setting.reloads ? " (SIGHUP)" : "";
}

std::string first_sentence(std::string_view about) {
  const size_t end = std::min(about.find(". "), about.find(".\n"));
  return std::string(about.substr(0, end == std::string_view::npos ? end : end + 1));
}

// The line of a setting, below what is said about it. `begin`: what begins an item of a list.
std::string lines_of(const Setting& setting, std::string_view name, const std::string& indent,
                     std::string_view begin, bool is_explained) {
  const std::string about = std::string(setting.about) + brackets(setting) + mark(setting);
  return fmt::format("{}{}{}{}: {}\n", is_explained ? wrapped(about, indent + "# ") : "", indent,
                     begin, name, setting.yaml());
}

std::string flow_of(const Settings& item) {
  std::string out;
  for (const Setting& setting : item) {
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", setting.path, setting.yaml());
  }
  return "{" + out + "}";
}

std::string items_of(const Section& section, bool is_explained) {
  std::string out;
  for (const Settings& item : section.items) {
    if (!is_explained || &item != &section.items.front()) {
      out += fmt::format("  - {}\n", flow_of(item));
      continue;
    }
    for (const Setting& setting : item) {
      const bool is_first = &setting == &item.front();
      out += lines_of(setting, setting.path, is_first ? "  " : "    ", is_first ? "- " : "", true);
    }
  }
  return out;
}

}  // namespace

std::string write_file(const Settings& settings, std::span<const Section> sections,
                       bool is_explained) {
  std::string out;
  for (const Setting& setting : settings) {
    if (!setting.section().empty()) continue;
    if (is_explained) out += "\n";
    out += lines_of(setting, setting.path, "", "", is_explained);
  }
  for (const Section& section : sections) {
    if (is_explained) out += "\n" + wrapped(section.about, "# ");
    std::string under = items_of(section, is_explained);
    for (const Setting& setting : settings) {
      if (setting.section() != section.name) continue;
      under += lines_of(setting, setting.name(), "  ", "", is_explained);
    }
    out += under.empty() ? fmt::format("{}: []\n", section.name)
                         : fmt::format("{}:\n{}", section.name, under);
  }
  return out;
}

std::string write_list(const Settings& settings, std::span<const Section> sections) {
  std::string out;
  const auto add = [&](const std::string& path, const Setting& setting) {
    out += fmt::format("  {}={}{}\n", path, setting.yaml(), brackets(setting));
    out += wrapped(first_sentence(setting.about) + mark(setting), "    ");
  };
  const auto add_section = [&](std::string_view section) {
    for (const Setting& setting : settings) {
      if (setting.section() == section) add(std::string(setting.path), setting);
    }
  };
  add_section("");
  for (const Section& section : sections) {
    add_section(section.name);
    if (section.items.empty()) continue;
    for (const Setting& setting : section.items.front()) {
      add(fmt::format("{}.0.{}", section.name, setting.path), setting);
    }
  }
  return out;
}

}  // namespace elastripe::config
