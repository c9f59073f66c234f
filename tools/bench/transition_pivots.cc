#include "tools/bench/transition_pivots.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "tools/bench/transition_cases.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

constexpr const char* kSpread = "microseconds, median, p10 to p90";
constexpr const char* kPaperLine = "ERS-2 in the paper";
const std::vector<std::string> kKind{
    "parameters",      "k",        "m", "k_prime", "execution", "object_bytes", "order_selection",
    "bits_per_second", "direction"};

// What the ERS paper reports for the same experiments (section 6.2, its local cluster of 18
// machines with 10 Gbit/s each, Figures 13 to 15): by how many per cent ERS-1 and ERS-2 take less
// time than SRS, and how many ERS-2 backward takes less with order selection than without.
struct Published {
  Parameters set;
  size_t mib;
  uint64_t mbit;  // a second
  std::array<double, 2> forward;
  std::array<double, 2> backward;
  std::optional<double> order = {};
};
constexpr std::array kPublished{
    Published{{4, 1, 5}, 1, 10'000, {27.4, 33.2}, {13.5, 22.7}, 17.3},
    Published{{4, 1, 5}, 4, 10'000, {31.3, 38.7}, {15.2, 26.5}, 21.5},
    Published{{5, 1, 6}, 1, 10'000, {27.6, 31.2}, {12.4, 23.1}, 13.2},
    Published{{5, 1, 6}, 4, 10'000, {27.4, 39.4}, {14.5, 35.7}, 26.0},
    Published{{8, 2, 10}, 1, 10'000, {41.7, 49.6}, {34.1, 42.1}, 18.0},
    Published{{8, 2, 10}, 4, 10'000, {51.2, 56.0}, {38.8, 50.4}, 24.9},
    Published{{9, 2, 10}, 1, 10'000, {36.7, 47.3}, {30.9, 44.5}, 7.4},
    Published{{9, 2, 10}, 4, 10'000, {44.3, 61.4}, {36.5, 59.4}, 16.9},
    Published{{10, 3, 12}, 1, 10'000, {48.4, 54.9}, {36.4, 52.0}, 20.3},
    Published{{10, 3, 12}, 4, 10'000, {53.8, 61.2}, {41.4, 56.1}, 23.6},
    Published{{12, 3, 14}, 1, 10'000, {43.8, 51.2}, {36.1, 48.9}, 11.3},
    Published{{12, 3, 14}, 4, 10'000, {55.4, 65.8}, {45.0, 60.9}, 23.7},
    Published{{4, 1, 5}, 1, 200, {43.0, 47.0}, {36.5, 44.5}},
    Published{{4, 1, 5}, 1, 500, {38.9, 43.0}, {29.9, 39.0}},
    Published{{4, 1, 5}, 1, 1000, {34.5, 39.6}, {23.9, 34.0}},
    Published{{5, 1, 6}, 1, 200, {47.3, 53.4}, {38.8, 51.0}},
    Published{{5, 1, 6}, 1, 500, {41.1, 48.0}, {32.1, 44.8}},
    Published{{5, 1, 6}, 1, 1000, {36.1, 42.7}, {26.1, 41.9}},
};

// Its execution is by the proxy.
const Published* published(const Json& row) {
  const auto rate = row.at("bits_per_second").get<uint64_t>();
  const auto found = std::ranges::find_if(kPublished, [&](const Published& p) {
    return row.at("execution") == "proxy" && row.at("parameters") == p.set.text() &&
           row.at("object_bytes") == p.mib * kMiB && (rate == 0 ? 10'000 : rate / kMbit) == p.mbit;
  });
  return found == kPublished.end() ? nullptr : &*found;
}

// Time over that of SRS.
double published_ratio(const Published& of, const Json& row, size_t ers) {
  return 1 - (row.at("direction") == "forward" ? of.forward : of.backward)[ers - 1] / 100;
}

// What charts call it; nothing: they leave it out.
std::string line_of(const Json& row) {
  const std::string layout = fill("{layout}", row);
  const std::string execution = fill("{execution}", row);
  if (layout == "srs") return execution == "proxy" ? "SRS" : "";
  if (layout == "ers-1" && execution == "delta") return "";
  return (layout == "ers-1" ? "ERS-1, " : "ERS-2, ") + execution;
}

// A row for each direction, with its "line" and all its "blocks".
Rows by_direction(const Rows& rows) {
  Rows directed;
  for (const Direction direction : kDirections) {
    for (const Json& row : rows) {
      Json& one = directed.emplace_back(row);
      one.update(row.at(name_of(direction)));
      one.update({{"direction", name_of(direction)}, {"line", line_of(row)}});
      one["blocks"] = number(one, "blocks_read") + number(one, "blocks_sent");
    }
  }
  return directed;
}

// The same, a case's two beside each other.
Rows in_pairs(const Rows& rows) {
  Rows pairs;
  for (const Json& row : rows) std::ranges::move(by_direction({row}), std::back_inserter(pairs));
  return pairs;
}

Rows lines_of(const Rows& rows) {
  Rows lines = by_direction(rows);
  std::erase_if(lines, [](const Json& row) { return row.at("line") == ""; });
  return lines;
}

// Rows of kinds, with a member for each layout; "ers-1_ratio" and "ers-2_ratio" to srs.
Rows compare_layouts(const Rows& rows) {
  Rows wide = side_by_side(by_direction(rows), kKind, "layout");
  std::erase_if(wide, [](const Json& row) {
    return !std::ranges::all_of(kLayouts, [&](const char* layout) { return row.contains(layout); });
  });
  for (Json& row : wide) {
    const Published* paper = published(row);
    for (size_t ers = 1; ers <= 2; ++ers) {
      const std::string layout = kLayouts[ers];
      row[layout + "_ratio"] = ratio(row[layout], row["srs"], "us");
      if (paper != nullptr) row[layout + "_paper"] = published_ratio(*paper, row, ers);
    }
  }
  return wide;
}

// Layouts side by side, beside what the paper reports.
void show_layouts(Report& report, const std::string& title, const Rows& rows) {
  report.show(title +
                  "\nMicroseconds from request to commit: median (p10-p90); blocks read + sent; "
                  "the paper's ratios are of its execution, proxy.",
              "(k,m,k') = parameters | object = object_bytes bytes | network = bits_per_second "
              "rate | = direction | execution | srs us = srs/us | ers-1 us = ers-1/us | ers-2 us = "
              "ers-2/us | blocks srs, ers-1, ers-2 = {srs/blocks}, {ers-1/blocks}, {ers-2/blocks} "
              "| ers-1/srs = ers-1_ratio .2 | paper = ers-1_paper .2 | ers-2/srs = ers-2_ratio .2 "
              "| paper = ers-2_paper .2",
              compare_layouts(rows));
}

// The counts of the largest objects: what is not blocks weighs least there.
void show_wire(Report& report, const Rows& rows) {
  size_t largest = 0;
  for (const Json& row : rows) largest = std::max<size_t>(largest, row.at("object_bytes"));
  Rows directed = in_pairs(where(rows, {{"object_bytes", largest}, {"bits_per_second", 0}}));
  for (Json& row : directed) {
    const double bytes = number(row, "block_bytes");
    row["mib"] = bytes / kMiB;
    for (const std::string of : {"proxy", "node"}) {
      row[of] = fmt::format("{:+.2f}%", 100 * (number(row, of + "_wire_bytes") / bytes - 1));
    }
  }
  report.show(
      "Bytes on the network, one transition of {object_bytes bytes}: what its blocks are by the "
      "plan and by the report, and what the proxy's connections and the nodes count beside them "
      "(frames, records, commit, heartbeats).",
      "(k,m,k') = parameters | layout | = direction | execution | blocks read = blocks_read | sent "
      "= blocks_sent | MiB = mib .3 | proxy: more = proxy | nodes: more = node",
      directed);
}

void show_small_objects(Report& report, const Rows& rows) {
  Rows directed = in_pairs(rows);
  for (Json& row : directed) {
    for (const std::string path : {"alone", "job"}) {
      row[path + "_over_get"] = number(row, path + "_us") / number(row, "get_us");
    }
  }
  report.at_most("{object_bytes bytes} striped, {direction}, alone / GET", 2.5, directed,
                 "alone_over_get");
  report.at_most("{object_bytes bytes} striped, {direction}, in a job / GET", 2.5, directed,
                 "job_over_get");
  report.show(fmt::format("Small striped objects, ers-2, delta. Microseconds: median (p10-p90); x: "
                          "over the median of a GET of the same object. Alone: from its start to "
                          "its commit; in a job of {}: of the whole job, for each object.",
                          kJobObjects),
              "object = object_bytes bytes | GET us = get_us | = direction | alone us = alone_us | "
              "x = alone_over_get .2 | in a job us = job_us | x = job_over_get .2",
              directed);
}

void show_order(Report& report, const Rows& rows) {
  Rows backward = where(by_direction(rows), {{"direction", "backward"}});
  for (Json& row : backward) {
    row["selection"] = row.at("order_selection").get<bool>() ? "with" : "without";
  }
  Rows pairs = side_by_side(
      backward, {"parameters", "object_bytes", "execution", "bits_per_second"}, "selection");
  for (Json& row : pairs) {
    row["ratio"] = ratio(row["with"], row["without"], "us");
    const Published* paper = published(row);
    if (paper != nullptr && paper->order) row["paper"] = 1 - *paper->order / 100;
  }
  report.show(
      "Order selection (ERS Algorithm 4), backward, ers-2. Without it the stripe that overlaps "
      "least is updated. Microseconds: median (p10-p90).",
      "(k,m,k') = parameters | object = object_bytes bytes | execution | with us = with/us | "
      "without us = without/us | blocks = with/blocks | without = without/blocks | ratio = ratio "
      ".2 | paper = paper .2",
      pairs);
  report.chart("transition-order-{object_bytes bytes}",
               {.title = "Order selection, ERS-2, proxy, backward, {object_bytes bytes}",
                .x_label = "(k,m,k')",
                .y_label = kSpread},
               where(backward, {{"execution", "proxy"}}), "{parameters}", "{selection}", "us");
}

void show_bulk(Report& report, Rows rows) {
  for (Json& row : rows) {
    for (const char* name : {"objects", "object_bytes", "proxy_wire_bytes", "proxy_cpu_seconds",
                             "proxy_thread_cpu_seconds", "nodes_cpu_seconds"}) {
      row["rate"][name] = number(row, name) / number(row, "seconds");
    }
    row["each_bytes"] = row.at("object_bytes").get<size_t>() / row.at("objects").get<size_t>();
    row["mib"] = number(row, "rate/object_bytes") / kMiB;
    row["wire_mib"] = number(row, "rate/proxy_wire_bytes") / kMiB;
    row["p50_ms"] = number(row, "object_p50_seconds") * 1e3;
    row["p99_ms"] = number(row, "object_p99_seconds") * 1e3;
  }
  const std::string what = "{objects} objects of {each_bytes bytes} for each layout";
  report.show("All objects of a pool: " + what +
                  ". MiB are of objects; network MiB as the proxy counts; processors: seconds of "
                  "processor time a second.",
              "layout | execution | = direction | objects/s = rate/objects | MiB/s = mib | network "
              "MiB/s = wire_mib | p50 ms = p50_ms .1 | p99 ms = p99_ms .1 | proxy = "
              "rate/proxy_cpu_seconds .2 | its busiest thread = rate/proxy_thread_cpu_seconds .2 | "
              "nodes = rate/nodes_cpu_seconds .2 | limited by = limited_by",
              rows);
  report.chart("transition-bulk",
               {.title = what, .x_label = "execution and direction", .y_label = "objects a second"},
               rows, "{execution}, {direction}", "{layout}", "rate/objects");
}

void show_beside(Report& report, Rows rows) {
  for (const std::string figure : {"p50", "p99"}) {
    compare(rows, figure + "_over_quiet", figure + "_us", {"read_bytes"},
            {{"transition", "nothing"}});
  }
  report.show(
      "One client, one GET after the other, beside a transition (ers-2, delta) of objects of 1 "
      "MiB.",
      "GET of = read_bytes bytes | transition | its objects/s = transitioned_per_second | GETs = "
      "gets | p50 us = p50_us | p99 us = p99_us | p50 / quiet = p50_over_quiet .2 | p99 / quiet = "
      "p99_over_quiet .2",
      rows);
  report.chart("transition-beside",
               {.title = "GET beside a transition",
                .x_label = "transition",
                .y_label = "microseconds, p99",
                .logarithmic = true},
               rows, "{transition}", "GET of {read_bytes bytes}", "p99_us");
  std::erase_if(rows, [](const Json& row) { return row.at("transition") == "nothing"; });
  report.at_most("p99 of GET {read_bytes bytes} beside a transition {transition} / without", 1.5,
                 rows, "p99_over_quiet");
}

void chart_bandwidth(Report& report, const Rows& rows) {
  Rows lines = lines_of(rows);
  compare(lines, "over_srs", "us", {"parameters", "object_bytes", "bits_per_second", "direction"},
          {{"line", "SRS"}});
  for (const Json& row : where(lines, {{"line", "SRS"}})) {
    Json& dashed = lines.emplace_back(labels_of(row, kKind, {{"line", kPaperLine}}));
    const Published* paper = row.at("bits_per_second") == 0 ? nullptr : published(row);
    if (paper != nullptr) dashed["over_srs"] = published_ratio(*paper, row, 2);
  }
  report.chart("transition-bandwidth-{k}-{m}-{k_prime}-{direction}",
               {.title = "{parameters}, {object_bytes bytes}, {direction}",
                .x_label = "network",
                .y_label = "time over that of SRS",
                .lines = true,
                .dashed = kPaperLine},
               lines, "{bits_per_second rate}", "{line}", "over_srs");
}

// The bounds of docs/transitioning.md for (12,3,14) at 4 MiB.
void add_layout_goals(Report& report, const Rows& rows) {
  const Rows wide =
      where(compare_layouts(rows), {{"parameters", "(12,3,14)"}, {"object_bytes", 4 * kMiB}});
  for (const Json& row : wide) {
    const std::string at =
        fill("{parameters} 4 MiB, network {bits_per_second rate}, {direction}: ers-2 ", row);
    report.add_goal(at + fill("/ srs, execution {execution}", row), "at_most",
                    row.at("direction") == "forward" ? 0.34 : 0.39, {}, number(row, "ers-2_ratio"));
    if (row.at("execution") == "proxy") continue;
    const Json* other = find(wide, labels_of(row, kKind, {{"execution", "proxy"}}));
    if (other == nullptr) continue;
    report.add_goal(at + "by delta / by proxy", "at_most", 0.6, {},
                    ratio(row.at("ers-2"), other->at("ers-2"), "us"));
  }
}

}  // namespace

void show_transitions(Report& report, std::map<std::string, Rows>& rows) {
  show_layouts(report, "Object sizes (the paper's Experiment 2)", rows["sizes"]);
  show_small_objects(report, rows["small"]);
  show_layouts(report, "Parameters (the paper's Experiment 3)", rows["parameters"]);
  show_wire(report, rows[rows["parameters"].empty() ? "sizes" : "parameters"]);
  show_layouts(report, "Bandwidth (the paper's Experiment 4)", rows["bandwidth"]);
  add_layout_goals(report, rows["parameters"]);
  add_layout_goals(report, rows["bandwidth"]);
  show_order(report, rows["order"]);
  show_bulk(report, rows["bulk"]);
  show_beside(report, rows["beside"]);
  report.chart("transition-sizes-{direction}",
               {.title = "One object, {parameters}, {direction}",
                .x_label = "object",
                .y_label = kSpread,
                .lines = true,
                .logarithmic = true},
               lines_of(rows["sizes"]), "{object_bytes bytes}", "{line}", "us");
  report.chart("transition-parameters-{direction}-{object_bytes bytes}",
               {.title = "One object of {object_bytes bytes}, {direction}",
                .x_label = "(k,m,k')",
                .y_label = kSpread},
               lines_of(rows["parameters"]), "{parameters}", "{line}", "us");
  chart_bandwidth(report, rows["bandwidth"]);
}

}  // namespace elastripe::bench
