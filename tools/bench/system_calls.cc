#include "tools/bench/system_calls.h"

#include <fmt/core.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <ranges>

#include "tools/bench/runner.h"
#include "tools/bench/try.h"
#include "tools/cli/process.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using CallsByName = std::map<std::string, uint64_t>;

constexpr std::chrono::seconds kAttach{10};
constexpr std::chrono::seconds kDetach{10};

// A running strace.
class Trace {
 public:
  // Attaches to the processes and all their threads; an error says why that cannot be.
  static Result<std::unique_ptr<Trace>> start(const std::vector<pid_t>& processes) {
    const auto program = TRY(needed_program("strace", "strace"));
    const auto dir = TRY(make_temporary_directory());
    std::unique_ptr<Trace> trace(new Trace(dir));
    if (processes.empty()) return trace;  // of nothing
    std::vector<std::string> argv{program, "-f",           "-c", "--summary-columns=calls,name",
                                  "-o",    dir / "summary"};
    for (const pid_t process : processes) argv.insert(argv.end(), {"-p", std::to_string(process)});
    const auto strace = TRY(cli::spawn_detached(argv, dir / "log"));
    trace->strace_ = strace;
    const auto attached = [&] {  // it says so of each process, with all its threads
      std::ifstream log(dir / "log");
      const std::istream_iterator<std::string> words(log);
      return !cli::is_running(strace) ||
             std::count(words, {}, "attached") >= static_cast<std::ptrdiff_t>(processes.size());
    };
    if (!cli::wait_until(attached, kAttach) || !cli::is_running(strace)) {
      return cli::fail("strace cannot attach: {}", cli::tail_of(dir / "log", 1));
    }
    return trace;
  }

  ~Trace() {
    [[maybe_unused]] const auto ended = stop();
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Detaches.
  Result<CallsByName> stop() {
    if (strace_.pid == 0) return {};
    const cli::ProcessId strace = std::exchange(strace_, {});
    cli::send_signal(strace, SIGINT);
    if (!cli::wait_until([&] { return !cli::is_running(strace); }, kDetach)) {
      cli::send_signal(strace, SIGKILL);
      return cli::fail("strace does not end");
    }
    CallsByName calls;
    std::ifstream summary(dir_ / "summary");
    for (std::string line; std::getline(summary, line);) {  // a heading, dashes, pairs, the total
      std::istringstream words(line);
      uint64_t count = 0;
      std::string name;
      if (words >> count >> name && name != "total") calls[name] += count;
    }
    return calls;
  }

 private:
  explicit Trace(std::filesystem::path dir) : dir_(std::move(dir)) {}

  const std::filesystem::path dir_;
  cli::ProcessId strace_;
};

// "front_calls" and so on; "front_frequent" are the most frequent ones: "sendmsg 0.51, recvfrom
// 0.50".
void add_calls(Json& row, const std::string& side, const CallsByName& calls) {
  const double requests = std::max(number(row, "operations"), 1.0);
  double sum = 0;
  std::vector<std::pair<double, std::string>> shares;
  for (const auto& [name, count] : calls) {
    shares.emplace_back(static_cast<double>(count) / requests, name);
    sum += shares.back().first;
  }
  std::ranges::sort(shares, std::greater<>());
  std::string frequent;
  for (const auto& [share, name] : shares | std::views::take(4)) {
    if (share >= 0.01)
      frequent += fmt::format("{}{} {:.2f}", frequent.empty() ? "" : ", ", name, share);
  }
  row[side + "_calls"] = calls;
  row[side + "_calls_per_operation"] = sum;
  row[side + "_frequent"] = frequent;
}

Result<Json> trace_case(const TracedCase& c) {
  const auto front = TRY(Trace::start(c.target.front));
  const auto back = TRY(Trace::start(c.target.back));
  Json row = c.labels;
  row["operations"] = TRY(c.make_requests());
  add_calls(row, "front", TRY(front->stop()));
  add_calls(row, "back", TRY(back->stop()));
  return row;
}

}  // namespace

Result<> add_system_calls(Report& report, const std::string& what, std::string columns,
                          const std::vector<TracedCase>& cases) {
  fmt::print(stderr, "system calls\n");
  Rows rows;
  for (const TracedCase& c : cases) {
    TRY(check_interrupt());
    auto row = trace_case(c);
    if (!row) {
      report.notes.push_back("Without system calls: " + row.error() + ".");
      return {};
    }
    rows.push_back(std::move(*row));
  }
  columns +=
      " | calls = front_calls_per_operation .2 | = front_frequent | nodes' calls = "
      "back_calls_per_operation .2 | = back_frequent";
  report.show(what + ", counted by strace, which slows the servers down.", columns, rows);
  report.json["system_calls"] = std::move(rows);
  return {};
}

}  // namespace elastripe::bench
