#include "tools/bench/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/cli/process.h"

namespace elastripe::bench {
namespace {

// Distinct in colour and in lightness.
constexpr std::array kColors{"#9e9e9e", "#4c8bbf", "#d1662b", "#2e7d4f", "#7b4fa3", "#222222"};

std::string quoted(std::string text) {
  std::ranges::replace(text, '"', '\'');
  return '"' + text + '"';
}

// What gnuplot is told: a line of values for each category, and of them a plot for each series.
std::string script_of(const Chart& chart) {
  std::string script = fmt::format(
      "set terminal svg size 760,380 font 'sans-serif,12' noenhanced background 'white'\n"
      "set title {}\nset xlabel {}\nset ylabel {}\nset xrange [-0.5:{}.5]\n{}\n"
      "set key outside right top\nset grid ytics\nset format y '%.10g'\n"
      "set style fill solid\nset style histogram errorbars gap 1\n$values << END\n",
      quoted(chart.title), quoted(chart.x_label), quoted(chart.y_label),
      std::max<size_t>(chart.categories.size(), 1) - 1,
      chart.logarithmic ? "set logscale y" : "set yrange [0:*]");
  for (size_t c = 0; c < chart.categories.size(); ++c) {
    script += quoted(chart.categories[c]);
    for (const ChartSeries& series : chart.series) {
      const ChartValue value = series.values[c].value_or(ChartValue{std::nan("")});
      script += fmt::format(" {} {} {}", value.value, value.low.value_or(value.value),
                            value.high.value_or(value.value));
    }
    script += "\n";
  }
  script += "END\nplot ";
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const char* style = !chart.lines             ? "histograms"
                        : chart.series[s].dashed ? "yerrorlines dt 2 pt 6"
                                                 : "yerrorlines pt 7";
    script += fmt::format("$values using {}{}:{}:{}:xtic(1) title {} with {} lc rgb '{}', ",
                          chart.lines ? "0:" : "", 3 * s + 2, 3 * s + 3, 3 * s + 4,
                          quoted(chart.series[s].name), style, kColors[s % kColors.size()]);
  }
  return script + "0 notitle lc rgb '#444444'\n";  // the axis, and a plot of nothing, too
}

}  // namespace

cli::Result<> write_chart(const std::filesystem::path& file, const Chart& chart) {
  const auto done =
      cli::run_to_end({"sh", "-c", "printf %s \"$0\" | gnuplot",
                       fmt::format("set output {}\n{}", quoted(file.string()), script_of(chart))});
  if (!done.ok) return cli::fail("cannot draw {}: {}", file.string(), done.output);
  return {};
}

}  // namespace elastripe::bench
