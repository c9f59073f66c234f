#include "tools/bench/processor_time.h"

#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tools/cli/process.h"

namespace elastripe::bench {
namespace {

// Fields 14 and 15 of a stat file: ticks in user and in kernel mode.
double seconds_of(const std::filesystem::path& stat) {
  const auto fields = cli::stat_fields(stat);
  if (fields.size() < 13) return 0;
  return (std::stod(fields[11]) + std::stod(fields[12])) /
         static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

std::map<pid_t, double> thread_seconds(pid_t process) {
  std::map<pid_t, double> threads;
  std::error_code error;
  const std::filesystem::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(tasks, error)) {
    threads[std::atoi(entry.path().filename().c_str())] = seconds_of(entry.path() / "stat");
  }
  return threads;
}

double process_seconds(const std::vector<pid_t>& processes) {
  double sum = 0;
  for (const pid_t process : processes) {
    clockid_t clock{};
    timespec time{};
    if (::clock_getcpuclockid(process, &clock) != 0 || ::clock_gettime(clock, &time) != 0) continue;
    sum += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
  return sum;
}

double idle_seconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  std::array<double, 5> ticks{};  // user, nice, kernel, idle, waiting for a disk
  file >> name;
  for (double& of : ticks) file >> of;
  return (ticks[3] + ticks[4]) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double kib_of(const std::string& file, const std::string& name) {
  std::ifstream text(file);
  for (std::string word; text >> word;) {
    double kib = 0;
    if (word == name && text >> kib) return kib;
  }
  return 0;
}

double available_memory_bytes() { return kib_of("/proc/meminfo", "MemAvailable:") * 1024; }

}  // namespace elastripe::bench
