// Settings as the code that reads and explains them sees them, whatever they are settings of.
#pragma once

#include <chrono>
#include <concepts>
#include <expected>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/check.h"
#include "proxy/base/setting_rows.h"

namespace elastripe::config {

using setting::Range;
using setting::Sizes;
using setting::Words;

// A row whose value is kept elsewhere, and outlives it.
struct Setting {
  std::string_view path;              // "timing.lease_ms"; in a list relative to its items
  std::string_view about;             // sentences; lines of them that end in '\n' stay apart
  std::string bounds = {};            // "1..256", "allow or refuse"; empty: it goes without saying
  std::string_view type = "a text";   // "must be {}"
  std::function<std::string()> text;  // the value, "4194304"
  std::function<std::string()> yaml;  // the same as a file has it, "4MiB"
  // Takes the scalar of a file, or tells what is wrong with it.
  std::function<std::expected<void, std::string>(std::string_view)> read;
  bool reloads = false;          // whether a process that runs takes it at SIGHUP
  bool is_cluster_wide = false;  // whether it is kept with the map, where all proxies find it

  // Before and after the dot: "timing", or "" at the top of the file, and "lease_ms".
  std::string_view section() const;
  std::string_view name() const;
};

using Settings = std::vector<Setting>;

// Makes settings out of rows.
class Rows {
 public:
  Settings take() { return std::move(settings_); }

  template <std::unsigned_integral Number>
  void operator()(std::string_view path, Number& value, Range range, std::string_view about) {
    add_number(path, number_in(value, range.high), range, false, about);
  }
  template <std::unsigned_integral Number>
  void operator()(std::string_view path, Number& value, Sizes sizes, std::string_view about) {
    add_number(path, number_in(value, sizes.high), {sizes.low, sizes.high}, true, about);
  }
  void operator()(std::string_view path, std::chrono::nanoseconds& value, Range range,
                  std::string_view about);
  void operator()(std::string_view path, bool& value, setting::TrueOrFalse, std::string_view about);
  void operator()(std::string_view path, std::string& value, setting::AnyText,
                  std::string_view about);
  template <class Value, size_t N>
  void operator()(std::string_view path, Value& value, const Words<Value, N>& words,
                  std::string_view about) {
    std::vector<std::string_view> names;
    for (const auto& [meaning, word] : words) names.push_back(word);
    add_word(
        path, std::move(names),
        [&value, words] {
          size_t i = 0;
          while (words[i].first != value) ++i;
          return i;
        },
        [&value, words](size_t i) { value = words[i].first; }, about);
  }
  // What `add` adds can be changed while the process runs.
  void reloaded(const std::function<void()>& add) {
    const size_t first = settings_.size();
    add();
    for (size_t i = first; i < settings_.size(); ++i) settings_[i].reloads = true;
  }
  // What `add` adds is the cluster's (docs/operations.md).
  void cluster_wide(const std::function<void()>& add) {
    const size_t first = settings_.size();
    add();
    for (size_t i = first; i < settings_.size(); ++i) settings_[i].is_cluster_wide = true;
  }
  // Calls `effect` whenever the setting before has been read.
  void after_reading(std::function<void()> effect);
  // For what is neither: a text that `read` may refuse.
  void operator()(std::string_view path, std::function<std::string()> text,
                  std::function<std::expected<void, std::string>(std::string_view)> read,
                  std::string_view about);

 private:
  struct NumberRef {
    std::function<uint64_t()> get;
    std::function<void(uint64_t)> set;
  };

  template <class Number>
  static NumberRef number_in(Number& value, uint64_t high) {
    CHECK(high <= std::numeric_limits<Number>::max());
    return {[&value] { return uint64_t{value}; },
            [&value](uint64_t number) { value = static_cast<Number>(number); }};
  }
  void add_number(std::string_view path, NumberRef number, Range range, bool is_size,
                  std::string_view about);
  void add_word(std::string_view path, std::vector<std::string_view> words,
                std::function<size_t()> get, std::function<void(size_t)> set,
                std::string_view about);

  Settings settings_;
};

}  // namespace elastripe::config
