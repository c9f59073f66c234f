// Charts of rows, drawn by gnuplot: bars beside each other or lines over categories, with axes, a
// legend and marks for the spread of each value.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/bench/rows.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

struct Chart {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  std::vector<std::string> categories = {};  // that come first, if there are rows of them or not
  bool lines = false;                        // else bars
  bool logarithmic = false;                  // the vertical axis; from 0 if not
  std::string dashed = {};                   // the line that was not measured
};

// What gnuplot is told: a category and a series for each that a row is of, both patterns, as they
// come, and the figure at the path as the value.
std::string script_of(const Chart& chart, const Rows& rows, std::string_view category,
                      std::string_view series, const std::string& path);

// Draws it as SVG by gnuplot, which has to be installed.
cli::Result<> draw(const std::filesystem::path& file, const std::string& script);

}  // namespace elastripe::bench
