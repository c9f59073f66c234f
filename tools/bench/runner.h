// The runner: all cases that are compared take turns in one run, so that noise of the machine falls
// on all alike, and each becomes a row.
//
//   std::vector<Group> groups(1);
//   groups[0].push_back(load_case(...));  // one for each contestant
//   const auto rows = measure(groups, {.rounds = 9});
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/bench/rows.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

// What the turns of a case have measured.
struct Notes {
  std::map<std::string, std::vector<double>> samples;  // by path; become spreads
  Json figures = Json::object();                       // kept as they are

  void add(const std::string& path, double sample) { samples[path].push_back(sample); }
};

// One thing that is measured in turns with others.
struct Case {
  Json labels;
  Json (*spread)(const std::vector<double>& samples);
  // Makes one turn and notes what it measured. Turn 0 warms up: its samples are not kept.
  std::function<cli::Result<>(Notes& notes, size_t number)> turn;
  Notes notes = {};
};

// What is compared most closely: the cases of a group are made one straight after the other.
using Group = std::vector<Case>;

struct Pace {
  int rounds = 1;                       // at least, after the one that warms up
  std::chrono::milliseconds budget{0};  // further rounds start until it is used up
  bool warm_up = true;                  // else no case has a turn 0
  bool shuffled = true;                 // cases of a group come in another order each round
};

// A round makes one turn of every case, one group after the other; progress goes to stderr. The
// rows are the labels, spreads and figures of the cases, in the order of groups and cases. An error
// of a turn, or an interrupt, ends it.
cli::Result<Rows> measure(std::vector<Group> groups, const Pace& pace);

// From now on SIGINT and SIGTERM are noted, and end the run at the next turn in good order, its
// servers with it.
void watch_interrupts();
bool was_interrupted();
// An error if there was an interrupt.
cli::Result<> check_interrupt();

}  // namespace elastripe::bench
