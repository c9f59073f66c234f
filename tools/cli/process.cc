#include "tools/cli/process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <sstream>

namespace elastripe::cli {
namespace {

// What /proc says of a process.
struct ProcStat {
  char state = '?';
  int threads = 0;
  uint64_t start_ticks = 0;
  // A zombie may have threads yet, which are on their way out and hold its files: its ports, too.
  bool has_ended() const { return state == 'X' || (state == 'Z' && threads <= 1); }
};
// An error if there is none.
Result<ProcStat> read_stat(pid_t pid) {
  const auto fields = stat_fields("/proc/" + std::to_string(pid) + "/stat");
  if (fields.size() < 20) return fail("no process {}", pid);
  return ProcStat{fields[0].front(), std::stoi(fields[17]), std::stoull(fields[19])};
}

// The child's part of spawn_detached: only async-signal-safe calls; reports errno through `report`.
[[noreturn]] void become(char* const* argv, int log, int report) {
  ::setsid();
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execv(argv[0], argv);
  const int reason = errno;
  [[maybe_unused]] const ssize_t count = ::write(report, &reason, sizeof reason);
  ::_exit(127);
}

Result<sockaddr_in> address_of(const std::string& address, uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &result.sin_addr) != 1) {
    return fail("not an IPv4 address: {}", address);
  }
  return result;
}

}  // namespace

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  std::ranges::transform(words, std::back_inserter(pointers),
                         [](std::string& word) { return word.data(); });
  pointers.push_back(nullptr);
  return pointers;
}

Result<ProcessId> spawn_detached(const std::vector<std::string>& argv,
                                 const std::filesystem::path& log) {
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0) return fail("cannot write {}: {}", log.string(), std::strerror(errno));
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) {
    ::close(out);
    return fail("pipe: {}", std::strerror(errno));
  }
  std::vector<std::string> copy = argv;
  const std::vector<char*> words = pointers_to(copy);

  const pid_t pid = ::fork();
  if (pid == 0) become(words.data(), out, report[1]);
  ::close(report[1]);
  ::close(out);
  int reason = pid < 0 ? errno : 0;
  // closed by a successful exec, so this returns at once
  const ssize_t count = pid < 0 ? 0 : ::read(report[0], &reason, sizeof reason);
  ::close(report[0]);
  if (pid < 0 || count > 0) {
    if (pid > 0) ::waitpid(pid, nullptr, 0);
    return fail("cannot run {}: {}", argv[0], std::strerror(reason));
  }
  const auto stat = read_stat(pid);
  if (!stat) return fail("{} ended at once", argv[0]);
  return ProcessId{pid, stat->start_ticks};
}

FinishedCommand run_to_end(const std::vector<std::string>& argv) {
  std::string line;
  for (const std::string& word : argv) {
    std::string escaped;
    for (char c : word) escaped += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += "'" + escaped + "' ";
  }
  FinishedCommand finished;
  std::FILE* pipe = ::popen((line + "2>&1").c_str(), "r");
  if (pipe == nullptr) return finished;
  std::array<char, 4096> chunk{};
  for (size_t count = 0; (count = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
    finished.output.append(chunk.data(), count);
  }
  finished.ok = ::pclose(pipe) == 0;
  return finished;
}

bool run_beside(const std::vector<std::string>& argv) {
  std::vector<std::string> copy = argv;
  std::vector<char*> words = pointers_to(copy);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = 0;
  int status = -1;
  const int reason = ::posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (reason != 0) {
    fmt::print(stderr, "elastripe: cannot run {}: {}\n", argv[0], std::strerror(reason));
    return false;
  }
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return status == 0;
}

std::vector<std::string> stat_fields(const std::filesystem::path& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // the second field is a name in parentheses that may hold anything, so count from its end
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

bool is_running(const ProcessId& process) {
  ::waitpid(process.pid, nullptr, WNOHANG);  // reaps our own child; no effect on others
  const auto stat = read_stat(process.pid);
  return stat && stat->start_ticks == process.start_ticks && !stat->has_ended();
}

bool send_signal(const ProcessId& process, int signal) {
  return is_running(process) && ::kill(process.pid, signal) == 0;
}

bool wait_until(const std::function<bool()>& done, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  int pause_ms = 2;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    ::poll(nullptr, 0, pause_ms);
    pause_ms = std::min(pause_ms * 2, 100);
  }
  return true;
}

Result<> write_pid_file(const std::filesystem::path& path, const ProcessId& process) {
  std::ofstream file(path);
  file << process.pid << ' ' << process.start_ticks << '\n';
  file.close();
  if (!file) return fail("cannot write {}", path.string());
  return {};
}

Result<ProcessId> read_pid_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  ProcessId process;
  file >> process.pid >> process.start_ticks;
  if (!file || process.pid <= 1) return fail("no process is recorded in {}", path.string());
  return process;
}

Result<std::filesystem::path> own_directory() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail("/proc/self/exe: {}", error.message());
  return path.parent_path();
}

bool port_is_free(const std::string& address, uint16_t port) {
  const auto where = address_of(address, port);
  if (!where) return false;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool free = ::bind(fd, reinterpret_cast<const sockaddr*>(&*where), sizeof *where) == 0 &&
                    ::listen(fd, 1) == 0;
  ::close(fd);
  return free;
}

bool port_accepts(const std::string& address, uint16_t port) {
  const auto where = address_of(address, port);
  if (!where) return false;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool ok = ::connect(fd, reinterpret_cast<const sockaddr*>(&*where), sizeof *where) == 0;
  ::close(fd);
  return ok;
}

std::string tail_of(const std::filesystem::path& path, int lines) {
  std::ifstream file(path);
  std::deque<std::string> last;
  for (std::string line; std::getline(file, line);) {
    last.push_back(line);
    if (last.size() > static_cast<size_t>(lines)) last.pop_front();
  }
  std::string text;
  for (const std::string& line : last) text += "  " + line + "\n";
  return text.empty() ? "  (the log is empty)\n" : text;
}

}  // namespace elastripe::cli
