// What a benchmark has measured, as it is shown: tables in Markdown, JSON, charts, and goals.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/chart.h"
#include "tools/cli/commands.h"

namespace elastripe::bench {

using Json = nlohmann::ordered_json;

struct Table {
  std::string text;  // above it
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

// A ratio that is to be reached.
struct RatioGoal {
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
  std::vector<RatioGoal> goals;
  std::vector<std::pair<std::string, Chart>> charts;  // by the name of their file
  Json json = Json::object();                         // goals and notes are added
};

struct OutputOptions {
  int port = 15311;
  std::string output;  // a file for the JSON
  std::string svg;     // a directory for the charts
};

// --port, --output and --svg.
void add_output_options(CLI::App& command, OutputOptions& options);
// --rounds and --round-ms.
void add_round_options(CLI::App& command, int& rounds, int& round_ms);

cli::Result<> publish(Report report, const OutputOptions& options, bool as_json);

// Of options of `bench` itself, which the parser would take before a subcommand: an error.
void refuse_options_of(const CLI::App& bench);

// Median and quartiles: "12 (11-13)", with so many digits after the point.
std::string cell_of(const std::vector<double>& samples, int digits = 0);
Json json_of(const std::vector<double>& samples);
// A ratio as tables show it; "-" of nothing.
std::string ratio_text(double ratio);
// The median of the ratios of samples that belong together.
double paired_ratio(const std::vector<double>& samples, const std::vector<double>& bases);
ChartValue chart_value(const std::vector<double>& samples);

}  // namespace elastripe::bench
