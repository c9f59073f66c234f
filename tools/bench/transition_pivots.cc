#include "tools/bench/transition_pivots.h"

#include <fmt/core.h>

#include <algorithm>

#include "tools/bench/transition_cases.h"
#include "tools/bench/transition_published.h"
#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

const std::vector<std::string> kKind{
    "parameters",      "k",        "m", "k_prime", "execution", "object_bytes", "order_selection",
    "bits_per_second", "direction"};
std::string line_of(const Json& row) {
  const std::string layout = fill("{layout}", row);
  const std::string execution = fill("{execution}", row);
  if (layout == "srs") return execution == "proxy" ? "SRS" : "";
  if (layout == "ers-1" && execution == "delta") return "";
  return (layout == "ers-1" ? "ERS-1, " : "ERS-2, ") + execution;
}

// A row for each direction; "line" is what charts call it, empty where they leave it out.
Rows by_direction(const Rows& rows) {
  Rows directed;
  for (const Direction direction : kDirections) {
    for (const Json& row : rows) {
      Json& one = directed.emplace_back(row);
      one["direction"] = name_of(direction);
      one.update(row.at(name_of(direction)));
      one["line"] = line_of(row);
    }
  }
  return directed;
}

std::optional<double> published(const Json& row, const std::string& layout) {
  if (row.at("execution") != "proxy") return std::nullopt;
  const Parameters set{row.at("k"), row.at("m"), row.at("k_prime")};
  const bool forward = row.at("direction") == name_of(Direction::kForward);
  return published_ratio(set, row.at("object_bytes"), row.at("bits_per_second"),
                         forward ? Direction::kForward : Direction::kBackward, layout);
}

double blocks_of(const Json& row) {
  return number(row, "blocks_read") + number(row, "blocks_sent");
}

// Rows of kinds, with a member for each layout; "ers-1_ratio" and "ers-2_ratio" to srs.
Rows compare_layouts(const Rows& rows) {
  Rows wide = side_by_side(by_direction(rows), kKind, "layout");
  std::erase_if(wide, [](const Json& row) {
    return !std::ranges::all_of(kLayouts, [&](const char* layout) { return row.contains(layout); });
  });
  for (Json& row : wide) {
    row["blocks"] = fmt::format("{}, {}, {}", blocks_of(row["srs"]), blocks_of(row["ers-1"]),
                                blocks_of(row["ers-2"]));
    for (const std::string layout : {"ers-1", "ers-2"}) {
      row[layout + "_ratio"] = ratio(row[layout], row["srs"], "us");
      if (const auto paper = published(row, layout)) row[layout + "_paper"] = *paper;
    }
  }
  return wide;
}

Chart frame_of(std::string title, const char* x_label, const char* y_label) {
  return {.title = std::move(title), .x_label = x_label, .y_label = y_label};
}
constexpr const char* kSpread = "microseconds, median, p10 to p90";

Rows lines_of(const Rows& rows, const Json& labels) {
  Rows lines = where(rows, labels);
  std::erase_if(lines, [](const Json& row) { return row.at("line") == ""; });
  return lines;
}

// The values of a label, in the order of the rows.
Rows values_of(const Rows& rows, const std::string& label) {
  Rows values;
  for (const Json& row : rows) {
    if (std::ranges::find(values, row.at(label)) == values.end()) values.push_back(row.at(label));
  }
  return values;
}

}  // namespace

void show_layouts(Report& report, const std::string& title, const Rows& rows) {
  report.show(title +
                  "\nMicroseconds from request to commit: median (p10-p90); blocks read + sent; "
                  "the paper's ratios are of its execution, proxy.",
              "(k,m,k') = parameters | object = object_bytes bytes | network = bits_per_second "
              "rate | = direction | execution | srs us = srs/us | ers-1 us = ers-1/us | ers-2 us = "
              "ers-2/us | blocks srs, ers-1, ers-2 = blocks | ers-1/srs = ers-1_ratio .2 | paper = "
              "ers-1_paper .2 | ers-2/srs = ers-2_ratio .2 | paper = ers-2_paper .2",
              compare_layouts(rows));
}

void show_wire(Report& report, const Rows& rows) {
  if (rows.empty()) return;
  const size_t largest = std::ranges::max(values_of(rows, "object_bytes"), {},
                                          [](const Json& bytes) { return bytes.get<size_t>(); });
  Rows directed;  // a case's two beside each other
  for (const Json& row : where(rows, {{"object_bytes", largest}, {"bits_per_second", 0}})) {
    std::ranges::move(by_direction({row}), std::back_inserter(directed));
  }
  for (Json& row : directed) {
    const double bytes = number(row, "block_bytes");
    row["mib"] = bytes / kMiB;
    for (const std::string of : {"proxy", "node"}) {
      row[of] = fmt::format("{:+.2f}%", 100 * (number(row, of + "_wire_bytes") / bytes - 1));
    }
  }
  report.show(
      fmt::format("Bytes on the network, one transition of {}: what its blocks are by the plan and "
                  "by the report, and what the proxy's connections and the nodes count beside them "
                  "(frames, records, commit, heartbeats).",
                  size_text(largest)),
      "(k,m,k') = parameters | layout | = direction | execution | blocks read = blocks_read | sent "
      "= blocks_sent | MiB = mib .3 | proxy: more = proxy | nodes: more = node",
      directed);
}

void show_small_objects(Report& report, const Rows& rows) {
  Rows directed;
  for (const Json& row : rows) {
    for (Json& one : by_direction({row})) {
      for (const std::string path : {"alone", "job"}) {
        const double over = number(one, path + "_us") / number(one, "get_us");
        one[path + "_over_get"] = over;
        report.at_most(fill("{object_bytes bytes} striped, {direction}, ", one) +
                           (path == "job" ? "in a job / GET" : "alone / GET"),
                       2.5, {}, over);
      }
      directed.push_back(one);
    }
  }
  report.show(fmt::format("Small striped objects, ers-2, delta. Microseconds: median (p10-p90); x: "
                          "over the median of a GET of the same object. Alone: from its start to "
                          "its commit; in a job of {}: of the whole job, for each object.",
                          kJobObjects),
              "object = object_bytes bytes | GET us = get_us | = direction | alone us = alone_us | "
              "x = alone_over_get .2 | in a job us = job_us | x = job_over_get .2",
              directed);
}

void show_order(Report& report, const Rows& rows) {
  Rows backward = where(by_direction(rows), {{"direction", name_of(Direction::kBackward)}});
  for (Json& row : backward) {
    row["selection"] = row.at("order_selection").get<bool>() ? "with" : "without";
    row["blocks"] = blocks_of(row);
  }
  Rows pairs = side_by_side(
      backward, {"parameters", "k", "m", "k_prime", "object_bytes", "execution"}, "selection");
  for (Json& row : pairs) {
    row["ratio"] = ratio(row["with"], row["without"], "us");
    const auto paper =
        published_order_ratio({row["k"], row["m"], row["k_prime"]}, row["object_bytes"]);
    if (paper && row["execution"] == "proxy") row["paper"] = *paper;
  }
  report.show(
      "Order selection (ERS Algorithm 4), backward, ers-2. Without it the stripe that overlaps "
      "least is updated. Microseconds: median (p10-p90).",
      "(k,m,k') = parameters | object = object_bytes bytes | execution | with us = with/us | "
      "without us = without/us | blocks = with/blocks | without = without/blocks | ratio = ratio "
      ".2 | paper = paper .2",
      pairs);
  for (const Json& bytes : values_of(rows, "object_bytes")) {
    const auto size = bytes.get<size_t>();
    report.charts.emplace_back(
        fmt::format("transition-order-{}mib", size / kMiB),
        chart_of(frame_of("Order selection, ERS-2, proxy, backward, " + size_text(size), "(k,m,k')",
                          kSpread),
                 where(backward, {{"object_bytes", bytes}, {"execution", "proxy"}}), "{parameters}",
                 "{selection}", "us"));
  }
}

void show_bulk(Report& report, const Rows& rows) {
  if (rows.empty()) return;
  Rows rates = rows;
  for (Json& row : rates) {
    for (const char* name : {"objects", "object_bytes", "proxy_wire_bytes", "proxy_cpu_seconds",
                             "proxy_thread_cpu_seconds", "nodes_cpu_seconds"}) {
      row["rate"][name] = number(row, name) / number(row, "seconds");
    }
    row["mib"] = number(row, "rate/object_bytes") / kMiB;
    row["wire_mib"] = number(row, "rate/proxy_wire_bytes") / kMiB;
    row["p50_ms"] = number(row, "object_p50_seconds") * 1e3;
    row["p99_ms"] = number(row, "object_p99_seconds") * 1e3;
  }
  const double objects = number(rows.front(), "objects");
  const auto bytes =
      static_cast<size_t>(number(rows.front(), "object_bytes") / std::max(objects, 1.0));
  const std::string what =
      fmt::format("{} objects of {} for each layout", objects, size_text(bytes));
  report.show("All objects of a pool: " + what +
                  ". MiB are of objects; network MiB as the proxy counts; processors: seconds of "
                  "processor time a second.",
              "layout | execution | = direction | objects/s = rate/objects | MiB/s = mib | network "
              "MiB/s = wire_mib | p50 ms = p50_ms .1 | p99 ms = p99_ms .1 | proxy = "
              "rate/proxy_cpu_seconds .2 | its busiest thread = rate/proxy_thread_cpu_seconds .2 | "
              "nodes = rate/nodes_cpu_seconds .2 | limited by = limited_by",
              rates);
  report.charts.emplace_back(
      "transition-bulk", chart_of(frame_of(what, "execution and direction", "objects a second"),
                                  rates, "{execution}, {direction}", "{layout}", "rate/objects"));
}

void show_beside(Report& report, const Rows& rows) {
  if (rows.empty()) return;
  Rows over = rows;
  for (const std::string figure : {"p50", "p99"}) {
    compare(over, figure + "_over_quiet", figure + "_us", {"read_bytes"},
            {{"transition", "nothing"}});
  }
  report.show(
      "One client, one GET after the other, beside a transition (ers-2, delta) of objects of 1 "
      "MiB.",
      "GET of = read_bytes bytes | transition | its objects/s = transitioned_per_second | GETs = "
      "gets | p50 us = p50_us | p99 us = p99_us | p50 / quiet = p50_over_quiet .2 | p99 / quiet = "
      "p99_over_quiet .2",
      over);
  for (const Json& row : over) {
    if (row.at("transition") == "nothing") continue;
    report.at_most(
        fill("p99 of GET {read_bytes bytes} beside a transition {transition} / without", row), 1.5,
        {}, number(row, "p99_over_quiet"));
  }
  Chart frame = frame_of("GET beside a transition", "transition", "microseconds, p99");
  frame.logarithmic = true;
  report.charts.emplace_back("transition-beside", chart_of(frame, over, "{transition}",
                                                           "GET of {read_bytes bytes}", "p99_us"));
}

void chart_sizes(Report& report, const Rows& rows) {
  if (rows.empty()) return;
  for (const Direction direction : kDirections) {
    const std::string name = name_of(direction);
    Chart frame =
        frame_of(fmt::format("One object, {}, {}", fill("{parameters}", rows.front()), name),
                 "object", kSpread);
    frame.lines = frame.logarithmic = true;
    report.charts.emplace_back("transition-sizes-" + name,
                               chart_of(frame, lines_of(by_direction(rows), {{"direction", name}}),
                                        "{object_bytes bytes}", "{line}", "us"));
  }
}

void chart_parameters(Report& report, const Rows& rows) {
  for (const Direction direction : kDirections) {
    const std::string name = name_of(direction);
    for (const Json& bytes : values_of(rows, "object_bytes")) {
      const auto size = bytes.get<size_t>();
      report.charts.emplace_back(
          fmt::format("transition-parameters-{}-{}mib", name, size / kMiB),
          chart_of(frame_of(fmt::format("One object of {}, {}", size_text(size), name), "(k,m,k')",
                            kSpread),
                   lines_of(by_direction(rows), {{"direction", name}, {"object_bytes", bytes}}),
                   "{parameters}", "{line}", "us"));
    }
  }
}

void chart_bandwidth(Report& report, const Rows& rows) {
  Rows directed = by_direction(rows);
  compare(directed, "over_srs", "us",
          {"parameters", "object_bytes", "bits_per_second", "direction"}, {{"line", "SRS"}});
  for (const Json& set : values_of(rows, "parameters")) {
    for (const Direction direction : kDirections) {
      const std::string name = name_of(direction);
      Rows lines = lines_of(directed, {{"parameters", set}, {"direction", name}});
      const Json first = lines.front();
      for (const Json& row :
           lines_of(directed, {{"parameters", set}, {"direction", name}, {"line", "SRS"}})) {
        const auto paper = published(row, "ers-2");
        Json& dashed = lines.emplace_back(labels_of(row, kKind, {{"line", "ERS-2 in the paper"}}));
        if (paper && row.at("bits_per_second") != 0) dashed["over_srs"] = *paper;
      }
      Chart frame = frame_of(fill("{parameters}, {object_bytes bytes}, {direction}", first),
                             "network", "time over that of SRS");
      frame.lines = true;
      Chart chart = chart_of(frame, lines, "{bits_per_second rate}", "{line}", "over_srs");
      chart.series.back().dashed = true;
      report.charts.emplace_back(fill("transition-bandwidth-{k}-{m}-{k_prime}-{direction}", first),
                                 std::move(chart));
    }
  }
}

void add_layout_goals(Report& report, const Rows& rows) {
  const Rows wide =
      where(compare_layouts(rows), {{"parameters", "(12,3,14)"}, {"object_bytes", 4 * kMiB}});
  for (const Json& row : wide) {
    const std::string at =
        fill("{parameters} 4 MiB, network {bits_per_second rate}, {direction}", row);
    report.at_most(at + fill(": ers-2 / srs, execution {execution}", row),
                   row.at("direction") == "forward" ? 0.34 : 0.39, {}, number(row, "ers-2_ratio"));
    if (row.at("execution") == "proxy") continue;
    const Json* other = find(wide, labels_of(row, kKind, {{"execution", "proxy"}}));
    if (other == nullptr) continue;
    report.at_most(at + ": ers-2 by delta / by proxy", 0.6, {},
                   ratio(row.at("ers-2"), other->at("ers-2"), "us"));
  }
}

}  // namespace elastripe::bench
