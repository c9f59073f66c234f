#include "tools/bench/system_calls.h"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tools/bench/testbed.h"

namespace elastripe::bench {
namespace {

constexpr std::chrono::seconds kAttach{10};
constexpr std::chrono::seconds kDetach{10};

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every thread of the process has a tracer.
bool is_traced(pid_t process) {
  std::error_code error;
  const auto tasks = std::filesystem::path("/proc") / std::to_string(process) / "task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    const std::string status = contents(task.path() / "status");
    if (status.find("TracerPid:\t0\n") != std::string::npos) return false;
  }
  return !error;
}

}  // namespace

cli::Result<SystemCallCount> SystemCallCount::start(const std::vector<pid_t>& processes) {
  const auto program = find_program("strace");
  if (program.empty()) {
    return cli::fail(
        "strace is not installed: Debian's package strace, or "
        "scripts/install-packages --bench");
  }
  std::string pattern =
      (std::filesystem::temp_directory_path() / "elastripe-strace-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return cli::fail("cannot make {}", pattern);
  SystemCallCount count;
  count.dir_ = pattern;
  std::vector<std::string> argv{
      program, "-f", "-qq", "-c", "--summary-columns=calls,name", "-o", count.dir_ / "summary"};
  for (const pid_t process : processes) {
    argv.emplace_back("-p");
    argv.push_back(std::to_string(process));
  }
  const auto log = count.dir_ / "log";
  const auto strace = cli::spawn_detached(argv, log);
  if (!strace) return std::unexpected(strace.error());
  count.strace_ = *strace;
  const auto attached = [&] {
    return !cli::is_running(*strace) || std::ranges::all_of(processes, is_traced);
  };
  if (!cli::wait_until(attached, kAttach) || !cli::is_running(*strace)) {
    return cli::fail("strace cannot attach: {}", cli::tail_of(log, 1));
  }
  return count;
}

SystemCallCount::SystemCallCount(SystemCallCount&& other) noexcept
    : dir_(std::exchange(other.dir_, {})), strace_(std::exchange(other.strace_, {})) {}

SystemCallCount::~SystemCallCount() {
  if (dir_.empty()) return;
  [[maybe_unused]] const auto ended = stop();
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

cli::Result<std::map<std::string, uint64_t>> SystemCallCount::stop() {
  if (strace_.pid == 0) return {};
  const cli::ProcessId strace = std::exchange(strace_, {});
  cli::send_signal(strace, SIGINT);
  if (!cli::wait_until([&] { return !cli::is_running(strace); }, kDetach)) {
    cli::send_signal(strace, SIGKILL);
    return cli::fail("strace does not end");
  }
  return parse_summary(contents(dir_ / "summary"));
}

std::map<std::string, uint64_t> parse_summary(const std::string& text) {
  std::map<std::string, uint64_t> calls;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    uint64_t number = 0;
    std::string name;
    if (words >> number >> name && name != "total") calls[name] += number;
  }
  return calls;
}

}  // namespace elastripe::bench
