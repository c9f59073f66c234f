// What an experiment has measured, as it is shown: tables in Markdown, JSON, charts, and goals.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/chart.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

struct Report {
  std::vector<std::string> notes;  // what was left out, and why
  std::vector<std::string> tables;
  Rows goals;  // ratios that are to be reached, and what was measured
  std::map<std::string, std::string> charts;  // scripts of them by the name of their file
  Json json = Json::object();                 // goals and notes are added

  // A table for each text above it that the pattern gives of the rows (fill).
  void show(std::string_view text, std::string_view columns, const Rows& rows);
  // A chart for each name of a file that the pattern gives, in small letters and dashes; the title
  // of the chart is a pattern, too. For the others see script_of.
  void chart(std::string_view file, Chart chart, const Rows& rows, std::string_view category,
             std::string_view series, const std::string& path);
  // A server that this machine does not have is left out, and noted.
  template <class T>
  void add_if_there(const char* name, const cli::Result<T>& server, std::vector<T>& servers) {
    if (server) {
      servers.push_back(*server);
    } else {
      notes.push_back(fmt::format("Without {}: {}.", name, server.error()));
    }
  }
  // A ratio that is to be "at_least" or "at_most" the bound, better yet the stretch.
  void add_goal(std::string text, const std::string& sense, double bound,
                std::optional<double> stretch, double measured);
  // One of at most the bound for each row that has a number at the path.
  void at_most(std::string_view text, double bound, const Rows& rows, const std::string& path);
};

// Prints the report, as tables or as JSON, and writes the JSON to the file `output` and the charts
// into the directory `svg`, where they are named.
cli::Result<> publish(const Report& report, const std::string& output, const std::string& svg,
                      bool as_json);

}  // namespace elastripe::bench
