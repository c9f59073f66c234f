#include "tools/cli/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace elastripe::cli {
namespace {

using coding::Codec;
using coding::Direction;
using coding::Layout;
using coding::LayoutKind;

Result<DirectionReport> make_direction(const Codec& codec, Direction direction) {
  auto plan = coding::transition_plan(codec, direction);
  if (!plan) return std::unexpected(plan.error());
  const auto least = coding::transition_plan(codec, direction, {.min_rule = true});
  if (!least) return std::unexpected(least.error());
  const coding::TransitionCost cost = coding::transition_cost(*plan, codec.m());
  return DirectionReport{std::move(*plan), cost,
                         coding::transition_cost(*least, codec.m()).blocks_read()};
}

Result<LayoutReport> make_layout(const char* name, LayoutKind kind, int k, int m, int k_prime) {
  const coding::Scheme scheme{kind, static_cast<uint8_t>(k), static_cast<uint8_t>(m),
                              static_cast<uint8_t>(k_prime)};
  const auto codec = coding::codec_for(scheme);
  if (!codec) return std::unexpected(codec.error());
  auto forward = make_direction(**codec, Direction::kForward);
  if (!forward) return std::unexpected(forward.error());
  auto backward = make_direction(**codec, Direction::kBackward);
  if (!backward) return std::unexpected(backward.error());
  return LayoutReport{name, *codec, std::move(*forward), std::move(*backward)};
}

Json direction_json(const DirectionReport& report) {
  return {{"data_blocks", report.plan.data_blocks},
          {"parity_blocks", report.cost.parity_blocks},
          {"blocks_read", report.cost.blocks_read()},
          {"blocks_read_min", report.blocks_read_min},
          {"network",
           {{"proxy", report.cost.proxy}, {"delta", report.cost.delta}, {"hub", report.cost.hub}}}};
}

// {3, 6, 7, 8} as "3 6-8".
std::string ranges(const std::vector<uint16_t>& blocks) {
  if (blocks.empty()) return "none";
  std::string text;
  for (size_t i = 0; i < blocks.size();) {
    size_t last = i;
    while (last + 1 < blocks.size() && blocks[last + 1] == blocks[last] + 1) ++last;
    text += fmt::format("{}{}", i == 0 ? "" : " ", blocks[i]);
    if (last > i) text += fmt::format("-{}", blocks[last]);
    i = last + 1;
  }
  return text;
}

// "1 row", "4 rows".
std::string counted(int count, const char* word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string summary(const PlanReport& report) {
  const Layout& layout = report.layouts[0].codec->layout();
  const int m = report.m;
  std::string text = fmt::format(
      "ERS({}, {}, {}): a segment is {} on {} nodes, in {} of {} and {} of {}\n\n", report.k, m,
      report.k_prime, counted(layout.blocks(), "data block"), report.k_prime,
      counted(layout.stripes(), "stripe"), report.k, counted(layout.rows(), "row"), report.k_prime);
  const auto add = [&](const char* state, int data, const std::string& codewords) {
    text += fmt::format(
        "{:<7} RS({}, {}): {} for each of {}; stores {:.2f} bytes for a byte; survives the loss of "
        "any {}\n",
        state, data, m, counted(m, "parity block"), codewords, static_cast<double>(data + m) / data,
        counted(m, "node"));
  };
  add("narrow", report.k, counted(layout.stripes(), "stripe"));
  add("wide", report.k_prime, counted(layout.rows(), "row"));
  text += fmt::format("Parity j of every stripe or row is on node {} + j.\n", report.k_prime);
  return text;
}

std::string grid(const LayoutReport& report) {
  const Layout& layout = report.codec->layout();
  const size_t block_width = std::to_string(layout.blocks() - 1).size();
  const size_t stripe_width = std::to_string(layout.stripes() - 1).size();
  const size_t node_width = std::to_string(layout.k_prime() - 1).size();
  const size_t width = std::max(block_width + 2 + stripe_width, 5 + node_width);
  std::string text = fmt::format("{:<8}", report.name);
  for (int node = 0; node < layout.k_prime(); ++node) {
    text += fmt::format("  {:>{}}", fmt::format("node {}", node), width);
  }
  text += "\n";
  for (int row = 0; row < layout.rows(); ++row) {
    text += fmt::format("{:<8}", fmt::format("row {}", row));
    for (const uint16_t b : layout.row_blocks(row)) {
      const std::string cell = fmt::format("{} s{:<{}}", b, layout.stripe_of(b), stripe_width);
      text += fmt::format("  {:>{}}", cell, width);
    }
    text += "\n";
  }
  return text;
}

std::string cost_line(const char* layout, const char* direction, const DirectionReport& report) {
  return fmt::format("{:<8}{:<10}{:>6}{:>10}{:>7}{:>10}{:>11}{:>8}{:>8}\n", layout, direction,
                     report.cost.data_blocks, report.cost.parity_blocks, report.cost.blocks_read(),
                     report.blocks_read_min, report.cost.proxy, report.cost.delta, report.cost.hub);
}

std::string costs(const PlanReport& report) {
  std::string text =
      fmt::format("{:<18}{:>33}{:>27}\n", "", "blocks read", "blocks on the network");
  text += fmt::format("{:<18}{:>6}{:>10}{:>7}{:>10}{:>11}{:>8}{:>8}\n", "", "data", "parities",
                      "both", "min rule", "proxy", "delta", "hub");
  for (const LayoutReport& layout : report.layouts) {
    text += cost_line(layout.name, "forward", layout.forward);
    text += cost_line("", "backward", layout.backward);
  }
  text +=
      "\n"
      "proxy   reads data blocks and old parities, writes new parities\n"
      "delta   reads data blocks, sends combined deltas; old parities stay on their nodes\n"
      "hub     one parity node reads data blocks and sends deltas to the others\n"
      "min rule: leaves out old parities that cost more reads than they save\n";
  return text;
}

}  // namespace

Result<PlanReport> make_plan_report(int k, int m, int k_prime) {
  // Before the numbers are narrowed to a scheme's.
  for (const auto& [name, value, most] : {std::tuple{"k", k, coding::kMaxDataNodes},
                                          {"m", m, coding::kMaxParities},
                                          {"k'", k_prime, coding::kMaxDataNodes}}) {
    if (value < 1 || value > most) return fail("{} is {}, must be 1..{}", name, value, most);
  }
  PlanReport report{k, m, k_prime, {}};
  auto* layout = report.layouts.data();
  for (const auto& [name, kind] : {std::pair{"srs", LayoutKind::kSrs},
                                   {"ers-1", LayoutKind::kErs1},
                                   {"ers-2", LayoutKind::kErs2}}) {
    auto made = make_layout(name, kind, k, m, k_prime);
    if (!made) return std::unexpected(made.error());
    *layout++ = std::move(*made);
  }
  return report;
}

Json plan_json(const PlanReport& report) {
  const Layout& first = report.layouts[0].codec->layout();
  Json layouts = Json::object();
  for (const LayoutReport& layout : report.layouts) {
    Json placement = Json::array();
    const Layout& cells = layout.codec->layout();
    for (int b = 0; b < cells.blocks(); ++b) {
      placement.push_back(Json::array({cells.row_of(b), cells.node_of(b)}));
    }
    layouts[layout.name] = {{"placement", std::move(placement)},
                            {"forward", direction_json(layout.forward)},
                            {"backward", direction_json(layout.backward)}};
  }
  return {{"k", report.k},
          {"m", report.m},
          {"k_prime", report.k_prime},
          {"l", first.blocks()},
          {"stripes", first.stripes()},
          {"rows", first.rows()},
          {"layouts", std::move(layouts)}};
}

std::string plan_text(const PlanReport& report) {
  std::string text = summary(report);
  text += "\nA cell is a data block and its stripe.\n\n";
  for (const LayoutReport& layout : report.layouts) {
    text += grid(layout);
    text +=
        fmt::format("read    forward {}; backward {}\n\n", ranges(layout.forward.plan.data_blocks),
                    ranges(layout.backward.plan.data_blocks));
  }
  return text + costs(report);
}

}  // namespace elastripe::cli
