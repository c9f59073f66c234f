#include "tools/bench/transition_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "tools/bench/statistics.h"
#include "tools/bench/transition_published.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

constexpr double kMiB = 1 << 20;

std::string cell(const std::vector<double>& us) {
  return fmt::format("{:.0f} ({:.0f}-{:.0f})", median(us), quantile(us, 0.1), quantile(us, 0.9));
}

std::string optional_text(std::optional<double> value) {
  return value ? fmt::format("{:.2f}", *value) : "";
}

bool same_but_layout(const TransitionCase& a, const TransitionCase& b) {
  return a.parameters == b.parameters && a.execution == b.execution &&
         a.object_bytes == b.object_bytes && a.order_selection == b.order_selection &&
         a.bits_per_second == b.bits_per_second;
}

std::string layout_table(const char* title, const std::vector<TransitionCase>& cases) {
  if (cases.empty()) return {};
  std::string text = fmt::format(
      "\n{}\nMicroseconds from request to commit: median (p10-p90); blocks read + sent; the "
      "paper's "
      "ratios are of its execution, proxy.\n\n"
      "| (k,m,k') | object | network | | execution | srs us | ers-1 us | ers-2 us | blocks srs, "
      "ers-1, ers-2 | ers-1/srs | paper | ers-2/srs | paper |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      title);
  for (const LayoutRow& row : rows_of(cases)) {
    const TransitionCase& c = *row.srs;
    const auto published = [&](const char* layout) {
      if (c.execution != "proxy") return std::string();
      return optional_text(
          published_ratio(c.parameters, c.object_bytes, c.bits_per_second, row.direction, layout));
    };
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {}, {}, {} | {:.2f} | {} | {:.2f} | {} |\n",
        c.parameters.text(), size_text(c.object_bytes), rate_text(c.bits_per_second),
        name_of(row.direction), c.execution, cell(c.of(row.direction).us),
        cell(row.ers1->of(row.direction).us), cell(row.ers2->of(row.direction).us),
        c.of(row.direction).blocks.sum(), row.ers1->of(row.direction).blocks.sum(),
        row.ers2->of(row.direction).blocks.sum(), row.ratio(row.ers1), published("ers-1"),
        row.ratio(row.ers2), published("ers-2"));
  }
  return text;
}

// The counts of the largest objects: what is not blocks weighs least there.
std::string wire_table(const std::vector<TransitionCase>& cases) {
  if (cases.empty()) return {};
  size_t largest = 0;
  for (const TransitionCase& c : cases) largest = std::max(largest, c.object_bytes);
  std::string text = fmt::format(
      "\nBytes on the network, one transition of {}: what its blocks are by the plan and by the "
      "report, and what the proxy's connections and the nodes count beside them (frames, records, "
      "commit, heartbeats).\n\n"
      "| (k,m,k') | layout | | execution | blocks read | sent | MiB | proxy: more | nodes: more |\n"
      "|---|---|---|---|---|---|---|---|---|\n",
      size_text(largest));
  for (const TransitionCase& c : cases) {
    if (c.object_bytes != largest || c.bits_per_second != 0) continue;
    for (const Direction direction : kDirections) {
      const MeasuredTransition& t = c.of(direction);
      const auto bytes = static_cast<double>(t.bytes);
      text += fmt::format("| {} | {} | {} | {} | {} | {} | {:.3f} | {:+.2f}% | {:+.2f}% |\n",
                          c.parameters.text(), c.layout, name_of(direction), c.execution,
                          t.blocks.read, t.blocks.sent, bytes / kMiB,
                          100 * (static_cast<double>(t.wire.proxy) / bytes - 1),
                          100 * (static_cast<double>(t.wire.nodes) / bytes - 1));
    }
  }
  return text;
}

std::string order_table(const std::vector<TransitionCase>& cases) {
  if (cases.empty()) return {};
  std::string text =
      "\nOrder selection (ERS Algorithm 4), backward, ers-2. Without it the stripe that overlaps "
      "least is updated. Microseconds: median (p10-p90).\n\n"
      "| (k,m,k') | object | execution | with us | without us | blocks | without | ratio | paper "
      "|\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  for (const TransitionCase& with : cases) {
    if (!with.order_selection) continue;
    const auto without = std::ranges::find_if(cases, [&](const TransitionCase& c) {
      return !c.order_selection && c.parameters == with.parameters &&
             c.object_bytes == with.object_bytes && c.execution == with.execution;
    });
    if (without == cases.end()) continue;
    const MeasuredTransition& a = with.backward;
    const MeasuredTransition& b = without->backward;
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} | {:.2f} | {} |\n", with.parameters.text(),
                    size_text(with.object_bytes), with.execution, cell(a.us), cell(b.us),
                    a.blocks.sum(), b.blocks.sum(), median(a.us) / median(b.us),
                    with.execution == "proxy"
                        ? optional_text(published_order_ratio(with.parameters, with.object_bytes))
                        : "");
  }
  return text;
}

std::string bulk_table(const std::vector<BulkPass>& passes) {
  if (passes.empty()) return {};
  const BulkPass& first = passes.front();
  std::string text = fmt::format(
      "\nAll objects of a pool: {} of {} for each layout. MiB are of objects; network MiB as the "
      "proxy counts; processors: seconds of processor time a second.\n\n"
      "| layout | execution | | objects/s | MiB/s | network MiB/s | p50 ms | p99 ms | proxy | its "
      "busiest thread | nodes | limited by |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      first.objects, size_text(first.object_bytes / std::max<uint64_t>(first.objects, 1)));
  for (const BulkPass& p : passes) {
    text += fmt::format(
        "| {} | {} | {} | {:.0f} | {:.0f} | {:.0f} | {:.1f} | {:.1f} | {:.2f} | {:.2f} | {:.2f} | "
        "{} |\n",
        p.layout, p.execution, name_of(p.direction), p.objects_per_second(),
        static_cast<double>(p.object_bytes) / kMiB / p.seconds,
        static_cast<double>(p.wire.proxy) / kMiB / p.seconds, p.object_p50 * 1e3,
        p.object_p99 * 1e3, p.proxy_seconds / p.seconds, p.proxy_thread_seconds / p.seconds,
        p.nodes_seconds / p.seconds, p.limit());
  }
  return text;
}

const BesideCase* quiet_of(const std::vector<BesideCase>& cases, const BesideCase& c) {
  const auto found = std::ranges::find_if(cases, [&](const BesideCase& other) {
    return !other.transitions && other.read_bytes == c.read_bytes;
  });
  return found == cases.end() ? nullptr : &*found;
}

std::string beside_table(const std::vector<BesideCase>& cases) {
  if (cases.empty()) return {};
  std::string text =
      "\nOne client, one GET after the other, beside a transition (ers-2, delta) of objects of 1 "
      "MiB.\n\n"
      "| GET of | transition | its objects/s | GETs | p50 us | p99 us | p50 / quiet | p99 / quiet "
      "|\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const BesideCase& c : cases) {
    const BesideCase* quiet = quiet_of(cases, c);
    if (quiet == nullptr) continue;
    text += fmt::format("| {} | {} | {:.0f} | {} | {:.0f} | {:.0f} | {:.2f} | {:.2f} |\n",
                        size_text(c.read_bytes), c.what,
                        static_cast<double>(c.transitioned) / c.seconds, c.us.size(), median(c.us),
                        quantile(c.us, 0.99), median(c.us) / median(quiet->us),
                        quantile(c.us, 0.99) / quantile(quiet->us, 0.99));
  }
  return text;
}

// Of one set of cases at 4 MiB and (12,3,14), for each rate.
void add_ratio_goals(const std::vector<TransitionCase>& cases, std::vector<Goal>& goals) {
  constexpr Parameters kSet{12, 3, 14};
  const auto rows = rows_of(cases);
  for (const LayoutRow& row : rows) {
    const TransitionCase& c = *row.srs;
    if (c.parameters != kSet || c.object_bytes != 4u << 20) continue;
    const std::string where = fmt::format("{} 4 MiB, network {}, {}", c.parameters.text(),
                                          rate_text(c.bits_per_second), name_of(row.direction));
    const double bound = row.direction == Direction::kForward ? 0.34 : 0.39;
    goals.push_back({fmt::format("{}: ers-2 / srs, execution {}", where, c.execution), bound,
                     row.ratio(row.ers2)});
    if (c.execution == "proxy") continue;
    for (const LayoutRow& other : rows) {
      if (other.srs->execution != "proxy" || other.direction != row.direction ||
          other.srs->parameters != kSet || other.srs->object_bytes != c.object_bytes ||
          other.srs->bits_per_second != c.bits_per_second) {
        continue;
      }
      goals.push_back(
          {fmt::format("{}: ers-2 by delta / by proxy", where), 0.6,
           median(row.ers2->of(row.direction).us) / median(other.ers2->of(row.direction).us)});
    }
  }
}

Json summary(const std::vector<double>& us) {
  return {{"median", median(us)},
          {"p10", quantile(us, 0.1)},
          {"p90", quantile(us, 0.9)},
          {"repetitions", us.size()}};
}

Json cases_json(const std::vector<TransitionCase>& cases) {
  Json rows = Json::array();
  for (const TransitionCase& c : cases) {
    Json row = {{"k", c.parameters.k},
                {"m", c.parameters.m},
                {"k_prime", c.parameters.k_prime},
                {"layout", c.layout},
                {"execution", c.execution},
                {"object_bytes", c.object_bytes},
                {"order_selection", c.order_selection},
                {"bits_per_second", c.bits_per_second}};
    for (const Direction direction : kDirections) {
      const MeasuredTransition& t = c.of(direction);
      row[name_of(direction)] = {{"us", summary(t.us)},
                                 {"blocks_read", t.blocks.read},
                                 {"blocks_sent", t.blocks.sent},
                                 {"block_bytes", t.bytes},
                                 {"proxy_wire_bytes", t.wire.proxy},
                                 {"node_wire_bytes", t.wire.nodes}};
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json bulk_json(const std::vector<BulkPass>& passes) {
  Json rows = Json::array();
  for (const BulkPass& p : passes) {
    rows.push_back({{"layout", p.layout},
                    {"execution", p.execution},
                    {"direction", name_of(p.direction)},
                    {"objects", p.objects},
                    {"object_bytes", p.object_bytes},
                    {"seconds", p.seconds},
                    {"object_p50_seconds", p.object_p50},
                    {"object_p99_seconds", p.object_p99},
                    {"block_bytes", p.block_bytes},
                    {"proxy_wire_bytes", p.wire.proxy},
                    {"node_wire_bytes", p.wire.nodes},
                    {"proxy_cpu_seconds", p.proxy_seconds},
                    {"proxy_thread_cpu_seconds", p.proxy_thread_seconds},
                    {"nodes_cpu_seconds", p.nodes_seconds},
                    {"idle_cpu_seconds", p.idle_seconds},
                    {"limited_by", p.limit()}});
  }
  return rows;
}

Json beside_json(const std::vector<BesideCase>& cases) {
  Json rows = Json::array();
  for (const BesideCase& c : cases) {
    rows.push_back({{"read_bytes", c.read_bytes},
                    {"transition", c.what},
                    {"transitioned_per_second", static_cast<double>(c.transitioned) / c.seconds},
                    {"gets", c.us.size()},
                    {"p50_us", median(c.us)},
                    {"p99_us", quantile(c.us, 0.99)}});
  }
  return rows;
}

}  // namespace

std::string rate_text(uint64_t bits_per_second) {
  if (bits_per_second == 0) return "unlimited";
  if (bits_per_second % 1'000'000'000 == 0) {
    return fmt::format("{} Gbit/s", bits_per_second / 1'000'000'000);
  }
  return fmt::format("{} Mbit/s", bits_per_second / 1'000'000);
}

double LayoutRow::ratio(const TransitionCase* c) const {
  return median(c->of(direction).us) / median(srs->of(direction).us);
}

std::vector<LayoutRow> rows_of(const std::vector<TransitionCase>& cases) {
  std::vector<LayoutRow> rows;
  for (const Direction direction : kDirections) {
    for (const TransitionCase& srs : cases) {
      if (srs.layout != "srs") continue;
      LayoutRow row{&srs, nullptr, nullptr, direction};
      for (const TransitionCase& c : cases) {
        if (!same_but_layout(c, srs)) continue;
        if (c.layout == "ers-1") row.ers1 = &c;
        if (c.layout == "ers-2") row.ers2 = &c;
      }
      if (row.ers1 != nullptr && row.ers2 != nullptr) rows.push_back(row);
    }
  }
  return rows;
}

std::vector<Goal> goals_of(const TransitionResults& results) {
  std::vector<Goal> goals;
  add_ratio_goals(results.parameters, goals);
  add_ratio_goals(results.bandwidth, goals);
  for (const BesideCase& c : results.beside) {
    const BesideCase* quiet = quiet_of(results.beside, c);
    if (!c.transitions || quiet == nullptr) continue;
    goals.push_back({fmt::format("p99 of GET {} beside a transition {} / without",
                                 size_text(c.read_bytes), c.what),
                     1.5, quantile(c.us, 0.99) / quantile(quiet->us, 0.99)});
  }
  return goals;
}

std::string tables_of(const TransitionResults& results) {
  std::string text = fmt::format("{}\n", results.network);
  text += layout_table("Object sizes (the paper's Experiment 2)", results.sizes);
  text += layout_table("Parameters (the paper's Experiment 3)", results.parameters);
  text += wire_table(results.parameters.empty() ? results.sizes : results.parameters);
  text += layout_table("Bandwidth (the paper's Experiment 4)", results.bandwidth);
  text += order_table(results.order);
  text += bulk_table(results.bulk);
  text += beside_table(results.beside);
  const auto goals = goals_of(results);
  if (!goals.empty()) text += "\n";
  for (const Goal& goal : goals) {
    text += fmt::format("goal {:<7} {:.2f} <= {:.2f}  {}\n", goal.is_met() ? "met" : "missed",
                        goal.measured, goal.bound, goal.text);
  }
  return text;
}

Json json_of(const TransitionResults& results) {
  Json goals = Json::array();
  for (const Goal& goal : goals_of(results)) {
    goals.push_back({{"goal", goal.text},
                     {"bound", goal.bound},
                     {"measured", goal.measured},
                     {"met", goal.is_met()}});
  }
  return {{"network", results.network},
          {"repetitions", results.repetitions},
          {"sizes", cases_json(results.sizes)},
          {"parameters", cases_json(results.parameters)},
          {"bandwidth", cases_json(results.bandwidth)},
          {"order", cases_json(results.order)},
          {"bulk", bulk_json(results.bulk)},
          {"beside", beside_json(results.beside)},
          {"goals", goals}};
}

}  // namespace elastripe::bench
