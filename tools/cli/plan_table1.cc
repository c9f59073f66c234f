// Table 1 of the ERS paper: the blocks that transitions read, over 244 sets of parameters.
#include <fmt/core.h>

#include "coding/require.h"
#include "tools/cli/plan.h"

namespace elastripe::cli {
namespace {

using coding::Direction;
using Set = std::array<int, 3>;  // k, m, k'

std::vector<Set> all_sets() {
  std::vector<Set> sets;
  for (int k_prime = 3; k_prime <= 14; ++k_prime) {
    for (int k = 2; k < k_prime; ++k) {
      for (int m = 1; m <= 4 && m < k; ++m) sets.push_back({k, m, k_prime});
    }
  }
  return sets;
}

int blocks_read(const LayoutReport& layout, Direction direction) {
  // The published figures count SRS the same in both directions.
  const bool srs = layout.codec->scheme().layout == coding::LayoutKind::kSrs;
  const bool forward = srs || direction == Direction::kForward;
  return (forward ? layout.forward : layout.backward).cost.blocks_read();
}

// Layouts by their index in PlanReport.
Table1Row::Figures compare(const std::vector<PlanReport>& reports, Direction direction,
                           size_t layout, size_t over) {
  Table1Row::Figures figures;
  double sum = 0;
  for (const PlanReport& report : reports) {
    const int reads = blocks_read(report.layouts[layout], direction);
    const int others = blocks_read(report.layouts[over], direction);
    if (reads >= others) continue;
    const double saving = 1 - static_cast<double>(reads) / others;
    ++figures.improved;
    sum += saving;
    if (saving <= figures.best) continue;
    figures.best = saving;
    figures.best_parameters = {report.k, report.m, report.k_prime};
  }
  figures.average = sum / figures.improved;
  return figures;
}

Json figures_json(const Table1Row::Figures& figures) {
  return {{"improved", figures.improved},
          {"average", figures.average},
          {"best", figures.best},
          {"best_parameters", figures.best_parameters}};
}

const char* name_of(Direction direction) {
  return direction == Direction::kForward ? "forward" : "backward";
}

std::string percent(double ratio) { return fmt::format("{:.1f}%", 100 * ratio); }

std::string text_of(const Set& set) { return fmt::format("({}, {}, {})", set[0], set[1], set[2]); }

}  // namespace

std::vector<Table1Row> make_table1() {
  std::vector<PlanReport> reports;
  for (const auto& [k, m, k_prime] : all_sets()) {
    auto report = make_plan_report(k, m, k_prime);
    coding::require(report.has_value());  // all are within the limits of a scheme
    reports.push_back(std::move(*report));
  }
  coding::require(reports.size() == kTable1Sets);
  constexpr size_t kSrs = 0;
  constexpr size_t kErs1 = 1;
  constexpr size_t kErs2 = 2;
  const auto row = [&](Direction direction, size_t layout, size_t over,
                       const Table1Row::Figures& published) {
    return Table1Row{direction, reports[0].layouts[layout].name, reports[0].layouts[over].name,
                     compare(reports, direction, layout, over), published};
  };
  return {row(Direction::kForward, kErs1, kSrs, {221, 0.462, 0.738, {6, 1, 14}}),
          row(Direction::kForward, kErs2, kErs1, {123, 0.148, 0.536, {13, 1, 14}}),
          row(Direction::kBackward, kErs1, kSrs, {222, 0.362, 0.659, {13, 1, 14}}),
          row(Direction::kBackward, kErs2, kErs1, {121, 0.202, 0.581, {13, 1, 14}})};
}

Json table1_json(const std::vector<Table1Row>& rows) {
  Json list = Json::array();
  for (const Table1Row& row : rows) {
    list.push_back({{"direction", name_of(row.direction)},
                    {"layout", row.layout},
                    {"over", row.over},
                    {"ours", figures_json(row.ours)},
                    {"published", figures_json(row.published)}});
  }
  return {{"sets", kTable1Sets}, {"rows", std::move(list)}};
}

std::string table1_text(const std::vector<Table1Row>& rows) {
  std::string text = fmt::format(
      "Blocks read by transitions, {} sets: 3 <= k' <= 14, 2 <= k < k', 1 <= m <= 4, m < k\n\n",
      kTable1Sets);
  constexpr auto kLine = "{:<10}{:<18}{:<11}{:>9}{:>10}{:>8}   {}\n";
  text += fmt::format(kLine, "", "", "", "improved", "average", "best", "best (k, m, k')");
  for (const Table1Row& row : rows) {
    const auto add = [&](std::string_view direction, std::string_view pair, std::string_view source,
                         const Table1Row::Figures& figures) {
      text +=
          fmt::format(kLine, direction, pair, source, figures.improved, percent(figures.average),
                      percent(figures.best), text_of(figures.best_parameters));
    };
    add(name_of(row.direction), fmt::format("{} over {}", row.layout, row.over), "ours", row.ours);
    add("", "", "published", row.published);
  }
  text +=
      "\n"
      "Averages and best are savings over the improved sets. srs counts as in the paper, in both\n"
      "directions: only old parities if k divides k' and m <= 2, else all data blocks.\n";
  return text;
}

}  // namespace elastripe::cli
