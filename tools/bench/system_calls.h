// System calls of processes, as strace counts them. Tracing slows the processes down, so that they
// find more requests waiting at a time: a lower bound for what they do at full speed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tools/cli/process.h"

namespace elastripe::bench {

class SystemCallCount {
 public:
  // Attaches to the processes and all their threads; an error says why that cannot be.
  static cli::Result<SystemCallCount> start(const std::vector<pid_t>& processes);
  ~SystemCallCount();
  SystemCallCount(SystemCallCount&& other) noexcept;
  SystemCallCount& operator=(SystemCallCount&&) = delete;

  // Detaches. Calls by name.
  cli::Result<std::map<std::string, uint64_t>> stop();

 private:
  SystemCallCount() = default;

  std::filesystem::path dir_;
  cli::ProcessId strace_;
};

// The lines of `strace --summary-columns=calls,name`.
std::map<std::string, uint64_t> parse_summary(const std::string& text);

}  // namespace elastripe::bench
