#include "tools/bench/report.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>

#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

std::string goal_table(Rows goals) {
  for (Json& goal : goals) {
    goal["sign"] = goal.contains("at_least") ? ">=" : "<=";
    if (goal.contains("stretch")) goal["stretch"] = fill("{sign} {stretch .2}", goal);
    goal["verdict"] = goal.value("stretch_met", false) ? "stretch met"
                      : goal["met"]                    ? "met"
                                                       : "missed";
  }
  return table_of("Goals.",
                  "ratio | goal = {sign} {at_least .2}{at_most .2} | stretch | measured = measured "
                  ".2 | = verdict",
                  goals);
}

}  // namespace

void Report::show(std::string_view text, std::string_view columns, const Rows& rows) {
  for (const auto& [above, part] : split(rows, text)) {
    tables.push_back(table_of(above, columns, part));
  }
}

void Report::chart(std::string_view file, Chart chart, const Rows& rows, std::string_view category,
                   std::string_view series, const std::string& path) {
  const std::string title = chart.title;
  for (auto [name, part] : split(rows, file)) {
    std::erase(name, ' ');
    for (char& c : name) c = std::isalnum(c) ? static_cast<char>(std::tolower(c)) : '-';
    chart.title = fill(title, part.front());
    charts[name] = script_of(chart, part, category, series, path);
  }
}

void Report::at_most(std::string_view text, double bound, const Rows& rows,
                     const std::string& path) {
  for (const Json& row : rows) {
    if (!member(row, path).is_null())
      add_goal(fill(text, row), "at_most", bound, {}, number(row, path));
  }
}

void Report::add_goal(std::string text, const std::string& sense, double bound,
                      std::optional<double> stretch, double measured) {
  const auto meets = [&](double limit) {
    return sense == "at_least" ? measured >= limit : measured <= limit;
  };
  Json& goal = goals.emplace_back(Json{
      {"ratio", std::move(text)}, {sense, bound}, {"measured", measured}, {"met", meets(bound)}});
  if (stretch) goal.update({{"stretch", *stretch}, {"stretch_met", meets(*stretch)}});
}

cli::Result<> publish(const Report& report, const std::string& output, const std::string& svg,
                      bool as_json) {
  Json json = report.json;
  json["notes"] = report.notes;
  json["goals"] = report.goals;
  if (as_json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    for (const std::string& note : report.notes) fmt::print("{}\n\n", note);
    for (const std::string& table : report.tables) fmt::print("{}", table);
    if (!report.goals.empty()) fmt::print("{}", goal_table(report.goals));
  }
  if (!output.empty()) {
    std::ofstream file(output);
    file << json.dump(2) << "\n";
    file.close();
    if (!file) return cli::fail("cannot write {}", output);
  }
  if (svg.empty()) return {};
  std::error_code ignored;
  std::filesystem::create_directories(svg, ignored);
  for (const auto& [name, script] : report.charts) {
    TRY(draw(std::filesystem::path(svg) / (name + ".svg"), script));
  }
  return {};
}

}  // namespace elastripe::bench
