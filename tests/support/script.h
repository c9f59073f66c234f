// Tests as scripts with traces. A script is a text file of steps: lines of commands, "----", and
// what these print, up to an empty line. A comment before a step says what it shows.
//
//     # A node that does not answer is left out.
//     silence 2
//     map
//     ----
//     epoch 2: up 0 1 3, suspect 2
//
// ELASTRIPE_REWRITE_SCRIPTS=1 in the environment writes what is printed into the files, for the
// author to read the difference.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace elastripe {

struct ScriptCommand {
  std::string name;
  std::vector<std::string> words;                            // after the name; without options
  std::vector<std::pair<std::string, std::string>> options;  // name=value

  explicit ScriptCommand(const std::string& line) {
    std::istringstream in(line);
    in >> name;
    for (std::string word; in >> word;) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) {
        words.push_back(word);
      } else {
        options.emplace_back(word.substr(0, equals), word.substr(equals + 1));
      }
    }
  }
  const std::string& word(size_t i) const {
    INFO(name << " lacks word " << i);
    REQUIRE(i < words.size());
    return words[i];
  }
  size_t number(size_t i) const { return std::stoul(word(i)); }
  std::string option(std::string_view which, std::string otherwise) const {
    for (const auto& [key, value] : options) {
      if (key == which) return value;
    }
    return otherwise;
  }
  size_t number(std::string_view which, size_t otherwise) const {
    return std::stoul(option(which, std::to_string(otherwise)));
  }
};

// Runs each command of the script in turn; `handle` returns what it prints, a line each.
inline void run_script(const std::string& path,
                       const std::function<std::string(const ScriptCommand&)>& handle) {
  std::ifstream file(path);
  INFO(path);
  REQUIRE(file.good());
  std::string seen, step, printed, line;
  const auto finish_step = [&] {
    std::string expected;
    while (std::getline(file, line) && !line.empty()) expected += line + "\n";
    INFO(step);
    CHECK(printed == expected);
    seen += "----\n" + printed + "\n";
    step.clear();
    printed.clear();
  };
  while (std::getline(file, line)) {
    if (line == "----") {
      finish_step();
      continue;
    }
    seen += line + "\n";
    if (line.empty() || line.starts_with("#")) continue;
    step += line + "\n";
    printed += handle(ScriptCommand(line));
  }
  INFO("a step without ----: " << step);
  CHECK(step.empty());
  while (seen.ends_with("\n\n")) seen.pop_back();
  if (std::getenv("ELASTRIPE_REWRITE_SCRIPTS") != nullptr) std::ofstream(path) << seen;
}

}  // namespace elastripe
