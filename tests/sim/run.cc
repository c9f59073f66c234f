#include "tests/sim/run.h"

namespace elastripe::sim {

const char* name(Fault fault) {
  static constexpr const char* kNames[] = {"none", "stale", "lost", "torn", "parity",  "versions",
                                           "leak", "stuck", "maps", "jobs", "refused", "undecided"};
  return kNames[static_cast<size_t>(fault)];
}

void Run::violation(Fault broken, std::string how) {
  if (!is_ok()) return;
  trace.add("VIOLATION {}: {}", name(broken), how);
  fault = broken;
  what = std::move(how);
}

}  // namespace elastripe::sim
