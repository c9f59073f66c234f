#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tools/bench/chart.h"

namespace elastripe::bench {
namespace {

// What `pattern`'s first group is, everywhere in the text.
std::vector<double> numbers(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::vector<double> found;
  for (std::sregex_iterator i(text.begin(), text.end(), expression), end; i != end; ++i) {
    found.push_back(std::stod((*i)[1].str()));
  }
  return found;
}

Chart chart_of(bool lines) {
  return {.title = "title",
          .x_label = "size < 2 & more",
          .y_label = "us",
          .categories = {"a", "b", "c"},
          .series = {{.name = "one", .values = {ChartValue{10}, ChartValue{20}, ChartValue{40}}},
                     {.name = "two", .values = {ChartValue{40}, std::nullopt, ChartValue{10}}}},
          .lines = lines};
}

constexpr const char* kBarHeight =
    R"~(<rect x="[\d.]+" y="[\d.]+" width="[\d.]+" height="([\d.]+)" fill="#)~";

}  // namespace

TEST_CASE("bars are as high as their values, and missing ones are left out") {
  auto heights = numbers(svg_of(chart_of(false)), kBarHeight);
  std::erase(heights, 12);  // the legend's
  REQUIRE(heights.size() == 5);
  CHECK(heights[1] == Approx(2 * heights[0]).epsilon(0.01));
  CHECK(heights[2] == Approx(4 * heights[0]).epsilon(0.01));
  CHECK(heights[3] == heights[2]);
  CHECK(heights[4] == heights[0]);
}

TEST_CASE("equal factors are equal distances on a logarithmic axis") {
  Chart chart = chart_of(true);
  chart.logarithmic = true;
  const auto y = numbers(svg_of(chart), R"~(<circle cx="[\d.]+" cy="([\d.]+)")~");
  REQUIRE(y.size() == 5);
  CHECK(y[0] > y[1]);  // larger values are higher up
  CHECK(y[0] - y[1] == Approx(y[1] - y[2]).margin(0.2));
  CHECK(y[3] == y[2]);
}

TEST_CASE("a chart names its axes, categories and series, and escapes what they say") {
  const std::string svg = svg_of(chart_of(false));
  for (const char* text : {">title<", ">us<", ">a<", ">b<", ">c<", ">one<", ">two<"}) {
    CAPTURE(text);
    CHECK(svg.find(text) != std::string::npos);
  }
  CHECK(svg.find("size &lt; 2 &amp; more") != std::string::npos);
}

TEST_CASE("a chart of nothing is a chart") {
  const std::string svg = svg_of({});
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("nan") == std::string::npos);
}

}  // namespace elastripe::bench
