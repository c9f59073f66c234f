#include "tools/bench/chart.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tools/cli/process.h"

namespace elastripe::bench {
namespace {

// Distinct in colour and in lightness.
constexpr std::array kColors{"#9e9e9e", "#4c8bbf", "#d1662b", "#2e7d4f", "#7b4fa3", "#222222"};

std::string quoted(std::string text) {
  std::ranges::replace(text, '"', '\'');
  return '"' + text + '"';
}

}  // namespace

std::string script_of(const Chart& chart, const Rows& rows, std::string_view category,
                      std::string_view series, const std::string& path) {
  std::vector<std::string> categories = chart.categories;
  for (const auto& [name, _] : split(rows, category)) {
    if (std::ranges::find(categories, name) == categories.end()) categories.push_back(name);
  }
  std::string script = fmt::format(
      "set terminal svg size 760,380 font 'sans-serif,12' noenhanced background 'white'\n"
      "set title {}\nset xlabel {}\nset ylabel {}\nset xrange [-0.5:{}.5]\n{}\n"
      "set offsets 0,0,graph 0.05,0\nset key outside right top\nset grid ytics\n"
      "set format y '%.10g'\nset style fill solid\nset style histogram errorbars gap 1\n"
      "$values << END\n",
      quoted(chart.title), quoted(chart.x_label), quoted(chart.y_label),
      std::max<size_t>(categories.size(), 1) - 1,
      chart.logarithmic ? "set logscale y" : "set yrange [0:*]");
  const auto parts = split(rows, series);
  for (const std::string& name : categories) {  // a line of them
    script += quoted(name);
    for (const auto& [_, of] : parts) {
      const auto row =
          std::ranges::find(of, name, [&](const Json& one) { return fill(category, one); });
      script +=
          fmt::format(" {}", fmt::join(spread_of(row == of.end() ? Json() : *row, path), " "));
    }
    script += "\n";
  }
  script += "END\nplot ";
  for (size_t s = 0; s < parts.size(); ++s) {
    const std::string& name = parts[s].first;
    const char* style = !chart.lines           ? "histograms"
                        : name == chart.dashed ? "yerrorlines dt 2 pt 6"
                                               : "yerrorlines pt 7";
    script += fmt::format("$values using {}{}:{}:{}:xtic(1) title {} with {} lc rgb '{}', ",
                          chart.lines ? "0:" : "", 3 * s + 2, 3 * s + 3, 3 * s + 4, quoted(name),
                          style, kColors[s % kColors.size()]);
  }
  return script + "0 notitle lc rgb '#444444'\n";  // the axis, and a plot of nothing, too
}

cli::Result<> draw(const std::filesystem::path& file, const std::string& script) {
  const auto done = cli::run_to_end({"sh", "-c", "printf %s \"$0\" | gnuplot",
                                     "set output " + quoted(file.string()) + "\n" + script});
  if (!done.ok) return cli::fail("cannot draw {}: {}", file.string(), done.output);
  return {};
}

}  // namespace elastripe::bench
