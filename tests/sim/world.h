// One schedule: a cluster, its clients and its faults, run from one seed to a verdict. World wires
// the parts and runs the schedule: form a cluster, work under faults, heal, and then ask of it all
// that the scenario promises (phases.h).
#pragma once

#include <string>
#include <vector>

#include "tests/sim/map_judge.h"
#include "tests/sim/operator.h"
#include "tests/sim/phases.h"

namespace elastripe::sim {

struct RunResult {
  Fault fault = Fault::kNone;
  std::string what;
  Totals totals;
  History history;
  std::vector<std::string> trace;
  bool ok() const { return fault == Fault::kNone; }
};

class World {
 public:
  World(const Scenario& scenario, uint64_t seed, bool traced) : parts_(scenario, seed, traced) {}

  RunResult run();  // once

 private:
  void form();
  void watch_network();
  void work();
  void heal();
  void shut_down();

  Parts parts_;
  Operator operator_{parts_.run, parts_.cluster};
  MapJudge judge_{parts_.run, parts_.cluster};
};

}  // namespace elastripe::sim
