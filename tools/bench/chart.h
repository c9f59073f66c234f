// Plain charts as SVG: bars beside each other or lines over categories, with axes, a legend and
// marks for the spread of each value.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/result.h"

namespace elastripe::bench {

struct ChartValue {
  double value = 0;
  std::optional<double> low = {};  // of the spread
  std::optional<double> high = {};
};

struct ChartSeries {
  std::string name;
  std::vector<std::optional<ChartValue>> values = {};  // by category
  bool dashed = false;                                 // of lines: not measured
};

struct Chart {
  std::string title;
  std::string x_label = {};
  std::string y_label = {};
  std::vector<std::string> categories = {};
  std::vector<ChartSeries> series = {};
  bool lines = false;        // else bars
  bool logarithmic = false;  // the vertical axis; from 0 if not
};

// By gnuplot, which has to be installed.
cli::Result<> write_chart(const std::filesystem::path& file, const Chart& chart);

}  // namespace elastripe::bench
