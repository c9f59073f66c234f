#include "server-patches/node/format/fail_point.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdlib>

namespace elastripe {
namespace {

constexpr const char* kVariable = "ELASTRIPE_FAIL_POINT";

std::unexpected<std::string> refuse(const std::string& reason) {
  return std::unexpected(std::string(kVariable) + reason);
}

#ifdef ELASTRIPE_FAIL_POINTS

// Written before there are threads, but for the passes.
struct Armed {
  size_t point = kFailPointNames.size();  // none
  std::string while_exists;
  std::atomic<int> passes_left = 0;
};
Armed armed;

std::string names_of(std::string_view process) {
  std::string names;
  for (const FailPointName& point : kFailPointNames) {
    if (point.process != process) continue;
    names += names.empty() ? "" : " ";
    names += point.name;
  }
  return names;
}

// The log is told without the logger, whose locks the dying thread may hold.
[[noreturn]] void die() {
  const std::string_view name = kFailPointNames[armed.point].name;
  for (const std::string_view part :
       {std::string_view("fail point "), name, std::string_view(": this process kills itself\n")}) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, part.data(), part.size());
  }
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

#endif

}  // namespace

#ifdef ELASTRIPE_FAIL_POINTS

void fail_point(FailPoint passed) {
  if (static_cast<size_t>(passed) != armed.point) return;
  if (!armed.while_exists.empty() && access(armed.while_exists.c_str(), F_OK) != 0) return;
  if (armed.passes_left.fetch_sub(1) == 1) die();
}

std::expected<void, std::string> arm_fail_point(std::string_view process) {
  const char* value = std::getenv(kVariable);
  if (value == nullptr) return {};
  std::string_view rest = value;
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    armed.while_exists = rest.substr(at + 1);
    rest = rest.substr(0, at);
  }
  int passes = 1;
  if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
    const std::string_view number = rest.substr(colon + 1);
    const char* const end = number.data() + number.size();
    const auto read = std::from_chars(number.data(), end, passes);
    if (read.ec != std::errc{} || read.ptr != end || passes < 1) {
      return refuse("=" + std::string(value) + ": after the colon comes a number from 1 on");
    }
    rest = rest.substr(0, colon);
  }
  for (size_t i = 0; i < kFailPointNames.size(); ++i) {
    if (kFailPointNames[i].process != process || kFailPointNames[i].name != rest) continue;
    armed.point = i;
    armed.passes_left = passes;
    return {};
  }
  return refuse("=" + std::string(value) + ": a " + std::string(process) +
                " has only these fail points: " + names_of(process));
}

#else

std::expected<void, std::string> arm_fail_point(std::string_view) {
  if (std::getenv(kVariable) == nullptr) return {};
  return refuse(" is set, but this build has no fail points (ELASTRIPE_FAIL_POINTS)");
}

#endif

}  // namespace elastripe
