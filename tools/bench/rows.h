// Rows: what experiments measure, and what tables, charts and goals are made of
// (pivots).
//
// A row is a JSON object. Some of its members say what it is of (labels:
// "server", "object_bytes"); the others are figures. A figure is a number or a
// spread: an object whose first three members are its middle, its low and its
// high end, {"median": 12, "q1": 11, "q3": 13, "rounds": 9}. A path such as
// "put/p50_us" leads to a member of a member.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace elastripe::bench {

using Json = nlohmann::ordered_json;
using Rows = std::vector<Json>;

// The value at `fraction` (0 to 1) of the sorted samples, between two of them by proportion; 0 of
// none.
double quantile(std::vector<double> samples, double fraction);

// {"median", "q1", "q3", "rounds", "samples"}: samples of rows that were measured in the same
// rounds belong together.
Json quartiles(const std::vector<double>& samples);
// {"median", "p10", "p90", "repetitions"}
Json deciles(const std::vector<double>& samples);
// {"p50_us", "p25_us", "p75_us", "p99_us", "requests"}
Json latencies(const std::vector<double>& us);

// What the path leads to; null if that is not there.
const Json& member(const Json& row, const std::string& path);
// The middle, the low and the high end at the path, all the same of a number; NaN if it is not
// there.
std::array<double, 3> spread_of(const Json& row, const std::string& path);
// The number at the path, or the middle of the spread; 0 if that is not there.
double number(const Json& row, const std::string& path);
// How many times as large as in the base: the median of the ratios of samples that belong together,
// or else the ratio of the two numbers.
double ratio(const Json& row, const Json& base, const std::string& path);

// The rows that have all of these labels.
Rows where(const Rows& rows, const Json& labels);
// The first of them; nothing if there is none.
const Json* find(const Rows& rows, const Json& labels);
// Those of `row` that are named, and more, which replace some of them.
Json labels_of(const Json& row, const std::vector<std::string>& names, const Json& more = {});
// The rows of which `pattern` gives the same text (fill), by that text, both as they come.
std::vector<std::pair<std::string, Rows>> split(const Rows& rows, std::string_view pattern);
// Gives each row the ratio of `figure` to the row of the same `names` that has the labels of
// `base`.
void compare(Rows& rows, const std::string& to, const std::string& figure,
             const std::vector<std::string>& names, const Json& base);
// One row for all that have the same `names`: each is a member of it, under what its `over` is.
Rows side_by_side(const Rows& rows, const std::vector<std::string>& names, const std::string& over);

// The pattern with what the row has in place of "{path}" or "{path format}": a string, a number, or
// a spread, "12 (11-13)"; nothing of what is not there. A format is the digits after the point,
// ".2", or "bytes", "64 KiB", or "rate", of bits a second.
std::string fill(std::string_view pattern, const Json& row);

// A table in Markdown, under a text.
// Columns are written, with paths that have no spaces, as "server | per second = per_second | x =
// over_first .2": what stands above it, if that is not the path itself, and what fill makes of
// "{path format}".
std::string table_of(std::string_view text, std::string_view columns, const Rows& rows);

}  // namespace elastripe::bench
