#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <thread>

#include "tools/cli/process.h"

namespace elastripe::cli {
namespace {

// Fields 3 and on of /proc/PID/stat.
std::vector<std::string> stat_fields(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

// Its first thread ends at once, another when `gate` is closed.
pid_t fork_with_two_threads(const std::array<int, 2>& gate) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::close(gate[1]);
  std::thread([&] {
    char byte = 0;
    [[maybe_unused]] const ssize_t got = ::read(gate[0], &byte, 1);
    ::_exit(0);
  }).detach();
  ::syscall(SYS_exit, 0);
  std::abort();
}

TEST_CASE("a process runs until the last of its threads is gone") {
  std::array<int, 2> gate{};
  REQUIRE(::pipe(gate.data()) == 0);
  const pid_t child = fork_with_two_threads(gate);
  REQUIRE(child > 0);
  REQUIRE(wait_until([&] { return stat_fields(child).front() == "Z"; }, std::chrono::minutes(1)));
  const ProcessId process{child, std::stoull(stat_fields(child).at(22 - 3))};
  CHECK(is_running(process));
  ::close(gate[1]);
  // Nobody has waited for it when it is a zombie as a whole.
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(is_running(process));
  CHECK_FALSE(is_running(process));
  ::close(gate[0]);
}

}  // namespace
}  // namespace elastripe::cli
