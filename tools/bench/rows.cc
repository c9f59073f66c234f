#include "tools/bench/rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <stdexcept>

#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

bool is_spread(const Json& value) { return value.is_object() && value.size() >= 3; }

std::string text_of(const Json& value, const std::string& format) {
  const bool is_known =
      format.empty() || format == "bytes" || format == "rate" || format.starts_with('.');
  if (!is_known) throw std::invalid_argument("no format of a column: " + format);
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  if (format == "bytes") return size_text(value.get<size_t>());
  if (format == "rate") return rate_text(value.get<uint64_t>());
  const int digits = format.starts_with('.') ? std::stoi(format.substr(1)) : 0;
  if (value.is_number_float()) return fmt::format("{:.{}f}", value.get<double>(), digits);
  if (!is_spread(value)) return value.dump();
  const auto [middle, low, high] = spread_of(value, "");
  return fmt::format("{:.{}f} ({:.{}f}-{:.{}f})", middle, digits, low, digits, high, digits);
}

std::string trimmed(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(' '), text.size());
  return std::string(text.substr(first, text.find_last_not_of(' ') + 1 - first));
}

bool has(const Json& row, const Json& labels) {
  return std::ranges::all_of(
      labels.items(), [&](const auto& label) { return member(row, label.key()) == label.value(); });
}

}  // namespace

double quantile(std::vector<double> samples, double fraction) {
  if (samples.empty()) return 0;
  std::ranges::sort(samples);
  const double place = fraction * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<size_t>(place);
  return std::lerp(samples[below], samples[std::min(below + 1, samples.size() - 1)],
                   place - static_cast<double>(below));
}

Json quartiles(const std::vector<double>& samples) {
  return {{"median", quantile(samples, 0.5)},
          {"q1", quantile(samples, 0.25)},
          {"q3", quantile(samples, 0.75)},
          {"rounds", samples.size()},
          {"samples", samples}};
}

Json deciles(const std::vector<double>& samples) {
  return {{"median", quantile(samples, 0.5)},
          {"p10", quantile(samples, 0.1)},
          {"p90", quantile(samples, 0.9)},
          {"repetitions", samples.size()}};
}

Json latencies(const std::vector<double>& us) {
  return {{"p50_us", quantile(us, 0.5)},
          {"p25_us", quantile(us, 0.25)},
          {"p75_us", quantile(us, 0.75)},
          {"p99_us", quantile(us, 0.99)},
          {"requests", us.size()}};
}

const Json& member(const Json& row, const std::string& path) {
  static const Json nothing;
  const Json::json_pointer pointer(path.empty() ? "" : "/" + path);
  return row.contains(pointer) ? row.at(pointer) : nothing;
}

std::array<double, 3> spread_of(const Json& row, const std::string& path) {
  const Json& value = member(row, path);
  const double one = value.is_number() ? value.get<double>() : std::nan("");
  if (!is_spread(value)) return {one, one, one};
  auto part = value.begin();
  return {*part++, *part++, *part};
}

double number(const Json& row, const std::string& path) {
  const double middle = spread_of(row, path)[0];
  return std::isnan(middle) ? 0 : middle;
}

double ratio(const Json& row, const Json& base, const std::string& path) {
  const Json& samples = member(row, path + "/samples");
  const Json& bases = member(base, path + "/samples");
  if (samples.is_null() || bases.is_null()) return number(row, path) / number(base, path);
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(samples.size(), bases.size()); ++i) {
    ratios.push_back(samples[i].get<double>() / bases[i].get<double>());
  }
  return quantile(ratios, 0.5);
}

Rows where(const Rows& rows, const Json& labels) {
  Rows found;
  std::ranges::copy_if(rows, std::back_inserter(found),
                       [&](const Json& row) { return has(row, labels); });
  return found;
}

const Json* find(const Rows& rows, const Json& labels) {
  const auto found = std::ranges::find_if(rows, [&](const Json& row) { return has(row, labels); });
  return found == rows.end() ? nullptr : &*found;
}

Json labels_of(const Json& row, const std::vector<std::string>& names, const Json& more) {
  Json labels = Json::object();
  for (const std::string& name : names) labels[name] = member(row, name);
  labels.update(more.is_null() ? Json::object() : more);
  return labels;
}

void compare(Rows& rows, const std::string& to, const std::string& figure,
             const std::vector<std::string>& names, const Json& base) {
  for (Json& row : rows) {
    const Json* of = find(rows, labels_of(row, names, base));
    if (of != nullptr) row[Json::json_pointer("/" + to)] = ratio(row, *of, figure);
  }
}

Rows side_by_side(const Rows& rows, const std::vector<std::string>& names,
                  const std::string& over) {
  Rows wide;
  for (const Json& row : rows) {
    Json labels = labels_of(row, names);
    auto place = std::ranges::find_if(wide, [&](const Json& other) { return has(other, labels); });
    if (place == wide.end()) place = wide.insert(wide.end(), std::move(labels));
    (*place)[row.at(over).get<std::string>()] = row;
  }
  return wide;
}

std::string fill(std::string_view pattern, const Json& row) {
  std::string text;
  while (true) {
    const size_t open = pattern.find('{');
    text += pattern.substr(0, open);
    if (open == std::string_view::npos) return text;
    const size_t close = pattern.find('}', open);
    const std::string name(pattern.substr(open + 1, close - open - 1));
    const size_t space = std::min(name.find(' '), name.size());
    text += text_of(member(row, name.substr(0, space)), trimmed(name.substr(space)));
    pattern.remove_prefix(close + 1);
  }
}

std::vector<std::pair<std::string, Rows>> split(const Rows& rows, std::string_view pattern) {
  std::vector<std::pair<std::string, Rows>> parts;
  for (const Json& row : rows) {
    const std::string text = fill(pattern, row);
    auto part = std::ranges::find(parts, text, &std::pair<std::string, Rows>::first);
    if (part == parts.end()) part = parts.insert(part, {text, {}});
    part->second.push_back(row);
  }
  return parts;
}

std::string table_of(std::string_view text, std::string_view columns, const Rows& rows) {
  std::string header = "|";
  std::string rule = "|";
  std::string pattern = "|";
  for (const auto part : std::views::split(columns, '|')) {
    const std::string column = trimmed(std::string_view(part));
    const size_t equals = column.find('=');
    const std::string path =
        equals == std::string::npos ? column : trimmed(column.substr(equals + 1));
    header += fmt::format(" {} |", trimmed(column.substr(0, equals)));
    rule += "---|";
    pattern += " " + (path.contains('{') ? path : "{" + path + "}") + " |";
  }
  std::string table = fmt::format("{}\n\n{}\n{}\n", text, header, rule);
  for (const Json& row : rows) table += fill(pattern, row) + "\n";
  return table + "\n";
}

}  // namespace elastripe::bench
