#include "tools/bench/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

namespace elastripe::bench {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 380;
constexpr double kLeft = 70;
constexpr double kRight = 170;  // the legend
constexpr double kTop = 40;
constexpr double kBottom = 60;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;

// Distinct in colour and in lightness.
constexpr std::array kColors{"#9e9e9e", "#4c8bbf", "#d1662b", "#2e7d4f", "#7b4fa3", "#222222"};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, escaped(text));
}

std::string line_between(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

std::string number_text(double value) {
  if (value >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:g}", value);
}

// The vertical axis: where values are, and which are named.
class Axis {
 public:
  explicit Axis(const Chart& chart) : logarithmic_(chart.logarithmic) {
    double least = 0;
    double most = 0;
    for (const ChartSeries& series : chart.series) {
      for (const auto& value : series.values) {
        if (!value) continue;
        most = std::max({most, value->value, value->high.value_or(0)});
        const double low = value->low.value_or(value->value);
        if (low > 0) least = least == 0 ? low : std::min(least, low);
      }
    }
    if (most <= 0) most = 1;
    if (logarithmic_) {
      bottom_ = std::pow(10, std::floor(std::log10(std::max(least, 1e-9))));
      top_ = std::pow(10, std::ceil(std::log10(most)));
      if (top_ <= bottom_) top_ = bottom_ * 10;
      for (double tick = bottom_; tick <= top_ * 1.001; tick *= 10) ticks_.push_back(tick);
    } else {
      const double unit = std::pow(10, std::floor(std::log10(most / 4)));
      double step = unit;
      for (const double factor : {2.0, 5.0, 10.0}) {
        if (most / step > 6) step = unit * factor;
      }
      top_ = std::ceil(most / step) * step;
      for (double tick = 0; tick <= top_ * 1.001; tick += step) ticks_.push_back(tick);
    }
  }

  double y_of(double value) const {
    const double share =
        logarithmic_ ? std::log(std::max(value, bottom_) / bottom_) / std::log(top_ / bottom_)
                     : value / top_;
    return kTop + kPlotHeight * (1 - share);
  }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  bool logarithmic_;
  double bottom_ = 0;
  double top_ = 1;
  std::vector<double> ticks_;
};

std::string spread(double x, const Axis& axis, const ChartValue& value) {
  if (!value.low || !value.high) return {};
  const double low = axis.y_of(*value.low);
  const double high = axis.y_of(*value.high);
  constexpr const char* kStyle = "stroke=\"#444\" stroke-width=\"1\"";
  return line_between(x, low, x, high, kStyle) + line_between(x - 2, low, x + 2, low, kStyle) +
         line_between(x - 2, high, x + 2, high, kStyle);
}

std::string bars(const Chart& chart, const Axis& axis, size_t s, double slot) {
  std::string svg;
  const double width = slot * 0.8 / static_cast<double>(chart.series.size());
  for (size_t c = 0; c < chart.categories.size(); ++c) {
    const auto& value = chart.series[s].values[c];
    if (!value) continue;
    const double x = kLeft + slot * (static_cast<double>(c) + 0.1) + width * static_cast<double>(s);
    const double y = axis.y_of(value->value);
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
        width * 0.92, kTop + kPlotHeight - y, kColors[s % kColors.size()]);
    svg += spread(x + width * 0.46, axis, *value);
  }
  return svg;
}

std::string line(const Chart& chart, const Axis& axis, size_t s, double slot) {
  std::string points;
  std::string marks;
  const char* color = kColors[s % kColors.size()];
  for (size_t c = 0; c < chart.categories.size(); ++c) {
    const auto& value = chart.series[s].values[c];
    if (!value) continue;
    const double x = kLeft + slot * (static_cast<double>(c) + 0.5);
    const double y = axis.y_of(value->value);
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    marks += spread(x, axis, *value);
    marks +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" stroke=\"{}\"/>\n", x,
                    y, chart.series[s].dashed ? "white" : color, color);
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n",
                     points, color, chart.series[s].dashed ? " stroke-dasharray=\"5 4\"" : "") +
         marks;
}

std::string frame(const Chart& chart, const Axis& axis, double slot) {
  std::string svg;
  for (const double tick : axis.ticks()) {
    const double y = axis.y_of(tick);
    svg += line_between(kLeft, y, kLeft + kPlotWidth, y, "stroke=\"#ddd\"");
    svg += text_at(kLeft - 6, y + 4, "end", number_text(tick));
  }
  for (size_t c = 0; c < chart.categories.size(); ++c) {
    svg += text_at(kLeft + slot * (static_cast<double>(c) + 0.5), kTop + kPlotHeight + 18, "middle",
                   chart.categories[c]);
  }
  svg += text_at(kLeft + kPlotWidth / 2, kHeight - 14, "middle", chart.x_label);
  const double middle = kTop + kPlotHeight / 2;
  svg += text_at(18, middle, "middle", chart.y_label,
                 fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle).c_str());
  svg += text_at(kLeft + kPlotWidth / 2, 22, "middle", chart.title, " font-weight=\"bold\"");
  return svg;
}

std::string legend(const Chart& chart) {
  std::string svg;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const double y = kTop + 6 + 20 * static_cast<double>(s);
    const double x = kLeft + kPlotWidth + 14;
    if (chart.series[s].dashed) {
      svg += line_between(x, y, x + 12, y,
                          fmt::format("stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"4 3\"",
                                      kColors[s % kColors.size()])
                              .c_str());
    } else {
      svg +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n",
                      x, y - 6, kColors[s % kColors.size()]);
    }
    svg += text_at(x + 18, y + 5, "start", chart.series[s].name);
  }
  return svg;
}

}  // namespace

std::string svg_of(const Chart& chart) {
  const Axis axis(chart);
  const double slot =
      kPlotWidth / static_cast<double>(std::max<size_t>(chart.categories.size(), 1));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, kHeight);
  svg += frame(chart, axis, slot);
  for (size_t s = 0; s < chart.series.size(); ++s) {
    svg += chart.lines ? line(chart, axis, s, slot) : bars(chart, axis, s, slot);
  }
  svg += line_between(kLeft, kTop + kPlotHeight, kLeft + kPlotWidth, kTop + kPlotHeight,
                      "stroke=\"#444\"");
  return svg + legend(chart) + "</svg>\n";
}

cli::Result<> write_chart(const std::filesystem::path& file, const Chart& chart) {
  std::ofstream out(file);
  out << svg_of(chart);
  out.close();
  if (!out) return cli::fail("cannot write {}", file.string());
  return {};
}

}  // namespace elastripe::bench
