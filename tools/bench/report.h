// What an experiment has measured, as it is shown: tables in Markdown, JSON, charts, and goals.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/rows.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

// A ratio that is to be reached.
struct Goal {
  std::string text;
  bool at_least = false;  // else at most
  double bound = 0;
  std::optional<double> stretch;
  double measured = 0;

  bool meets(double limit) const { return at_least ? measured >= limit : measured <= limit; }
};

struct Report {
  std::vector<std::string> notes;  // what was left out, and why
  std::vector<Table> tables;
  std::vector<Goal> goals;
  std::vector<std::pair<std::string, Chart>> charts;  // by the name of their file
  Json json = Json::object();                         // goals and notes are added

  // Shows the rows as a table, but leaves out one without rows.
  void show(std::string text, std::string_view columns, const Rows& rows);
  void at_least(std::string text, double bound, std::optional<double> stretch, double measured);
  void at_most(std::string text, double bound, std::optional<double> stretch, double measured);
};

// Prints the report, as tables or as JSON, and writes the JSON to the file `output` and the charts
// into the directory `svg`, where they are named.
cli::Result<> publish(const Report& report, const std::string& output, const std::string& svg,
                      bool as_json);

}  // namespace elastripe::bench
