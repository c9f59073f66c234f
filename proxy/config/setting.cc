#include "proxy/config/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "proxy/base/bytes.h"

namespace elastripe::config {
namespace {

struct Unit {
  std::string_view suffix;
  uint64_t bytes;
};
// Powers of 1024 only: "MB" means two things.
constexpr std::array kUnits{Unit{"GiB", setting::kGiB}, Unit{"MiB", setting::kMiB},
                            Unit{"KiB", setting::kKiB}, Unit{"", 1}};

// "4MiB": with the largest unit of which it is a whole number.
std::string size_text(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes >= unit.bytes && bytes % unit.bytes == 0) {
      return fmt::format("{}{}", bytes / unit.bytes, unit.suffix);
    }
  }
  return "0";
}

std::expected<uint64_t, std::string> parse_number(std::string_view text, Range range,
                                                  bool is_size) {
  uint64_t number = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  const std::string_view suffix(stop, static_cast<size_t>(end - stop));
  const auto* const unit = std::ranges::find(kUnits, suffix, &Unit::suffix);
  if (error == std::errc::invalid_argument || unit == kUnits.end() ||
      (!is_size && !suffix.empty())) {
    return std::unexpected(fmt::format("is '{}', must be a whole number{}", escape_for_log(text),
                                       is_size ? " of bytes, or one with KiB, MiB or GiB" : ""));
  }
  const bool overflow = error == std::errc::result_out_of_range ||
                        number > std::numeric_limits<uint64_t>::max() / unit->bytes;
  if (overflow || number * unit->bytes < range.low || number * unit->bytes > range.high) {
    return std::unexpected(
        fmt::format("is {}, must be {}..{}", escape_for_log(text), range.low, range.high));
  }
  return number * unit->bytes;
}

// Double-quoted YAML; settings hold printable ASCII only.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// "a, b or c"
std::string list_of(const std::vector<std::string_view>& words) {
  std::string out(words.front());
  for (size_t i = 1; i < words.size(); ++i) {
    out += fmt::format("{}{}", i + 1 == words.size() ? " or " : ", ", words[i]);
  }
  return out;
}

}  // namespace

std::string_view Setting::section() const {
  const size_t dot = path.find('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

std::string_view Setting::name() const { return path.substr(path.find('.') + 1); }

void Rows::operator()(std::string_view path, std::chrono::nanoseconds& value, Range range,
                      std::string_view about) {
  using std::chrono::milliseconds;
  add_number(
      path,
      {[&value] {
         return static_cast<uint64_t>(std::chrono::duration_cast<milliseconds>(value).count());
       },
       [&value](uint64_t ms) { value = milliseconds(ms); }},
      range, false, about);
}

void Rows::operator()(std::string_view path, bool& value, setting::TrueOrFalse,
                      std::string_view about) {
  constexpr Words<bool, 2> kWords{{{true, "true"}, {false, "false"}}};
  (*this)(path, value, kWords, about);
  settings_.back().type = "true or false";
  settings_.back().bounds.clear();
}

void Rows::operator()(std::string_view path, std::string& value, setting::AnyText,
                      std::string_view about) {
  (*this)(
      path, [&value] { return value; },
      [&value](std::string_view text) {
        value = text;
        return std::expected<void, std::string>();
      },
      about);
}

void Rows::operator()(std::string_view path, std::function<std::string()> text,
                      std::function<std::expected<void, std::string>(std::string_view)> read,
                      std::string_view about) {
  settings_.push_back({.path = path,
                       .about = about,
                       .text = text,
                       .yaml = [text] { return quoted(text()); },
                       .read = std::move(read)});
}

void Rows::after_reading(std::function<void()> effect) {
  auto& read = settings_.back().read;
  read = [read = std::move(read), effect = std::move(effect)](std::string_view text) {
    auto done = read(text);
    if (done) effect();
    return done;
  };
}

void Rows::add_number(std::string_view path, NumberRef number, Range range, bool is_size,
                      std::string_view about) {
  const auto show = is_size ? size_text : [](uint64_t n) { return std::to_string(n); };
  settings_.push_back({.path = path,
                       .about = about,
                       .bounds = fmt::format("{}..{}", show(range.low), show(range.high)),
                       .type = "a number",
                       .text = [get = number.get] { return std::to_string(get()); },
                       .yaml = [get = number.get, show] { return show(get()); },
                       .read = [set = std::move(number.set), range, is_size](
                                   std::string_view text) -> std::expected<void, std::string> {
                         const auto read = parse_number(text, range, is_size);
                         if (!read) return std::unexpected(read.error());
                         set(*read);
                         return {};
                       }});
}

void Rows::add_word(std::string_view path, std::vector<std::string_view> words,
                    std::function<size_t()> get, std::function<void(size_t)> set,
                    std::string_view about) {
  const auto text = [words, get = std::move(get)] { return std::string(words[get()]); };
  settings_.push_back({.path = path,
                       .about = about,
                       .bounds = list_of(words),
                       .text = text,
                       .yaml = text,
                       .read = [words, set = std::move(set)](
                                   std::string_view read) -> std::expected<void, std::string> {
                         const auto word = std::ranges::find(words, read);
                         if (word == words.end()) {
                           return std::unexpected(fmt::format(
                               "is '{}', must be {}", escape_for_log(read), list_of(words)));
                         }
                         set(static_cast<size_t>(word - words.begin()));
                         return {};
                       }});
}

}  // namespace elastripe::config
