// What processes use of the processors.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace elastripe::bench {

// Seconds of processor time of each thread of a process, by thread; those that ended are not there.
std::map<pid_t, double> thread_seconds(pid_t process);

// The time of processes and all their threads, to the nanosecond, without those that are gone.
double process_seconds(const std::vector<pid_t>& processes);

// Seconds that the machine's processors had nothing to do, all together, since it was started.
double idle_seconds();

// The number behind a word of a file of the kernel's, such as "VmHWM:"; 0 if it is not there.
double kib_of(const std::string& file, const std::string& name);

// Bytes that a new process could have without swapping (MemAvailable).
double available_memory_bytes();

}  // namespace elastripe::bench
