// The readable account of one schedule; costs nothing unless it is on.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/virtual_clock.h"

namespace elastripe::sim {

class Trace {
 public:
  Trace(const EventQueue& events, bool on) : events_(events), on_(on) {}

  bool on() const { return on_; }
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (!on_) return;
    const double ms = static_cast<double>(events_.now().time_since_epoch().count()) / 1e6;
    lines_.push_back(fmt::format("{:11.3f}  ", ms) +
                     fmt::format(format, std::forward<Args>(args)...));
  }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  const EventQueue& events_;
  const bool on_;
  std::vector<std::string> lines_;
};

}  // namespace elastripe::sim
