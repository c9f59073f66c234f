// Processes that outlive the command that starts them, known by pid and start time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tools/cli/result.h"

namespace elastripe::cli {

// A pid is used again after its process is gone; with the start time it is not.
struct ProcessId {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // since boot: field 22 of /proc/PID/stat
};

// What exec takes: a pointer to each word, and a null. They live as long as the words do.
std::vector<char*> pointers_to(std::vector<std::string>& words);

// Starts argv[0] in a session of its own, its input empty, its output appended to `log`. An error
// if it cannot be executed.
Result<ProcessId> spawn_detached(const std::vector<std::string>& argv,
                                 const std::filesystem::path& log);

// Runs a command to its end; a shell finds it, but reads nothing in its words.
struct FinishedCommand {
  bool ok = false;     // it exited with 0
  std::string output;  // of both kinds
};
FinishedCommand run_to_end(const std::vector<std::string>& argv);

// Runs a command to its end, both its outputs going to our error output; true if it exited with 0.
bool run_beside(const std::vector<std::string>& argv);

// What a stat file of /proc says behind the name, from its third field on; nothing if it is not
// there.
std::vector<std::string> stat_fields(const std::filesystem::path& file);

// True while that very process runs, with any of its threads: what is left to reap does not.
bool is_running(const ProcessId& process);

// Sends a signal to that very process; false if it is gone.
bool send_signal(const ProcessId& process, int signal);

// Asks `done` again and again, a little later each time, until it says true or the time is over.
bool wait_until(const std::function<bool()>& done, std::chrono::milliseconds timeout);

// Pid files: "PID START_TICKS".
Result<> write_pid_file(const std::filesystem::path& path, const ProcessId& process);
Result<ProcessId> read_pid_file(const std::filesystem::path& path);

// The directory of the running executable: its siblings are the servers.
Result<std::filesystem::path> own_directory();

// True if something on this machine can bind the TCP port of that address.
bool port_is_free(const std::string& address, uint16_t port);
// True if something accepts connections there.
bool port_accepts(const std::string& address, uint16_t port);

// The last lines of a text file, each indented; for messages about a process that did not start.
std::string tail_of(const std::filesystem::path& path, int lines);

}  // namespace elastripe::cli
