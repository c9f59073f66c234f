#include "tools/bench/report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "tools/bench/statistics.h"

namespace elastripe::bench {
namespace {

std::string text_of(const Table& table) {
  std::string text = table.text + "\n\n";
  text += fmt::format("| {} |\n|", fmt::join(table.header, " | "));
  for (size_t i = 0; i < table.header.size(); ++i) text += "---|";
  text += '\n';
  for (const auto& row : table.rows) text += fmt::format("| {} |\n", fmt::join(row, " | "));
  return text + "\n";
}

Table goal_table(const std::vector<RatioGoal>& goals) {
  Table table{.text = "Goals.", .header = {"ratio", "goal", "stretch", "measured", ""}, .rows = {}};
  for (const RatioGoal& goal : goals) {
    const char* sign = goal.at_least ? ">=" : "<=";
    const char* verdict = goal.stretch && goal.meets(*goal.stretch) ? "stretch met"
                          : goal.meets(goal.bound)                  ? "met"
                                                                    : "missed";
    table.rows.push_back({goal.text, fmt::format("{} {:.2f}", sign, goal.bound),
                          goal.stretch ? fmt::format("{} {:.2f}", sign, *goal.stretch) : "",
                          ratio_text(goal.measured), verdict});
  }
  return table;
}

Json goal_json(const std::vector<RatioGoal>& goals) {
  Json rows = Json::array();
  for (const RatioGoal& goal : goals) {
    Json row = {{"ratio", goal.text},
                {goal.at_least ? "at_least" : "at_most", goal.bound},
                {"measured", goal.measured},
                {"met", goal.meets(goal.bound)}};
    if (goal.stretch) {
      row["stretch"] = *goal.stretch;
      row["stretch_met"] = goal.meets(*goal.stretch);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

void add_output_options(CLI::App& command, OutputOptions& options) {
  command
      .add_option("--port", options.port, "The first of the ports it takes; taken ones are skipped")
      ->check(CLI::Range(1, 65000))
      ->capture_default_str();
  command.add_option("--output", options.output, "Also writes the JSON to this file");
  command.add_option("--svg", options.svg, "Also writes charts into this directory");
}

void add_round_options(CLI::App& command, int& rounds, int& round_ms) {
  command.add_option("--rounds", rounds, "Rounds, in which all take turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--round-ms", round_ms, "Length of one load")
      ->check(CLI::Range(10, 60'000))
      ->capture_default_str();
}

void refuse_options_of(const CLI::App& bench) {
  for (const CLI::Option* option : bench.get_options()) {
    if (option->count() > 0) throw CLI::ExtrasError({option->get_name()});
  }
}

cli::Result<> publish(Report report, const OutputOptions& options, bool as_json) {
  report.json["notes"] = report.notes;
  report.json["goals"] = goal_json(report.goals);
  if (as_json) {
    fmt::print("{}\n", report.json.dump(2));
  } else {
    for (const std::string& note : report.notes) fmt::print("{}\n\n", note);
    for (const Table& table : report.tables) fmt::print("{}", text_of(table));
    if (!report.goals.empty()) fmt::print("{}", text_of(goal_table(report.goals)));
  }
  if (!options.output.empty()) {
    std::ofstream file(options.output);
    file << report.json.dump(2) << "\n";
    file.close();
    if (!file) return cli::fail("cannot write {}", options.output);
  }
  if (options.svg.empty()) return {};
  std::error_code ignored;
  std::filesystem::create_directories(options.svg, ignored);
  for (const auto& [name, chart] : report.charts) {
    const auto file = std::filesystem::path(options.svg) / (name + ".svg");
    if (auto done = write_chart(file, chart); !done) return done;
  }
  return {};
}

std::string cell_of(const std::vector<double>& samples, int digits) {
  return fmt::format("{:.{}f} ({:.{}f}-{:.{}f})", median(samples), digits, quantile(samples, 0.25),
                     digits, quantile(samples, 0.75), digits);
}

Json json_of(const std::vector<double>& samples) {
  return {{"median", median(samples)},
          {"q1", quantile(samples, 0.25)},
          {"q3", quantile(samples, 0.75)},
          {"rounds", samples.size()}};
}

std::string ratio_text(double ratio) { return fmt::format("{:.2f}", ratio); }

double paired_ratio(const std::vector<double>& samples, const std::vector<double>& bases) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(samples.size(), bases.size()); ++i) {
    ratios.push_back(samples[i] / bases[i]);
  }
  return median(ratios);
}

ChartValue chart_value(const std::vector<double>& samples) {
  return {median(samples), quantile(samples, 0.25), quantile(samples, 0.75)};
}

}  // namespace elastripe::bench
