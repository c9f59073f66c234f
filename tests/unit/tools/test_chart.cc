#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tools/bench/chart.h"

namespace elastripe::bench {
namespace {

const Rows kRows{{{"at", "a"}, {"of", "one"}, {"us", 10}},
                 {{"at", "a"}, {"of", "two"}, {"us", 40}},
                 {{"at", "b"}, {"of", "one"}, {"us", 20}},
                 {{"at", "c"}, {"of", "one"}, {"us", deciles({40})}},
                 {{"at", "c"}, {"of", "two"}, {"us", 10.0}}};
const Chart kBars{.title = "title", .x_label = "size < 2 & more", .y_label = "us"};

// What gnuplot draws of them.
std::string svg_of(const Chart& chart, const Rows& rows = kRows) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("elastripe-test-chart-" + std::to_string(::getpid()) + ".svg");
  const auto drawn = draw(path, script_of(chart, rows, "{at}", "{of}", "us"));
  CAPTURE(drawn ? "" : drawn.error());
  REQUIRE(drawn);
  std::ifstream file(path);
  std::string svg{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  return svg;
}

// What `pattern`'s groups are, the first without the second if it has two, everywhere in the text.
std::vector<double> numbers(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::vector<double> found;
  for (std::sregex_iterator i(text.begin(), text.end(), expression), end; i != end; ++i) {
    found.push_back(std::stod((*i)[1].str()) - (i->size() > 2 ? std::stod((*i)[2].str()) : 0));
  }
  return found;
}

// From its foot to its top.
constexpr const char* kBar =
    R"~(<polygon fill = '[^']+' points = '[\d.]+,([\d.]+) \S+ [\d.]+,([\d.]+) )~";

}  // namespace

TEST_CASE("bars are as high as their values, and missing ones are left out") {
  auto heights = numbers(svg_of(kBars), kBar);
  std::erase_if(heights, [](double height) { return height < 10; });  // the legend's
  REQUIRE(heights.size() == 5);
  CHECK(heights[1] == Approx(2 * heights[0]).epsilon(0.01));
  CHECK(heights[2] == Approx(4 * heights[0]).epsilon(0.01));
  CHECK(heights[3] == heights[2]);
  CHECK(heights[4] == heights[0]);
}

TEST_CASE("equal factors are equal distances on a logarithmic axis") {
  Chart chart = kBars;
  chart.lines = chart.logarithmic = true;
  auto y =
      numbers(svg_of(chart), R"~(xlink:href='#gpPt6' transform='translate\([\d.]+,([\d.]+)\))~");
  REQUIRE(y.size() == 7);  // the legend's are the last of each series
  y.erase(y.begin() + 3);
  CHECK(y[0] > y[1]);  // larger values are higher up
  CHECK(y[0] - y[1] == Approx(y[1] - y[2]).margin(0.2));
  CHECK(y[3] == y[2]);
}

TEST_CASE("a chart names its axes, categories and series, and escapes what they say") {
  const std::string svg = svg_of(kBars);
  for (const char* text : {">title<", ">us<", ">a<", ">b<", ">c<", ">one<", ">two<"}) {
    CAPTURE(text);
    CHECK(svg.find(text) != std::string::npos);
  }
  CHECK(svg.find("size &lt; 2 &amp; more") != std::string::npos);
}

TEST_CASE("a line of values has the spread of each series, and gaps where a row is missing") {
  const Rows rows{{{"at", "b"}, {"of", "one"}, {"us", deciles({1, 2, 3})}},
                  {{"at", "c"}, {"of", "two"}, {"us", 4}}};
  const std::string script = script_of({.categories = {"a", "b"}}, rows, "{at}", "{of}", "us");
  CHECK(
      script.contains("\"a\" nan nan nan nan nan nan\n\"b\" 2 1.2 2.8 nan nan nan\n"
                      "\"c\" nan nan nan 4 4 4\nEND\n"));
}

TEST_CASE("a chart of nothing is a chart") {
  const std::string svg = svg_of({}, {});
  CHECK(svg.contains("<svg "));
  CHECK(svg.contains("</svg>"));
  CHECK(svg.find("nan") == std::string::npos);
}

}  // namespace elastripe::bench
