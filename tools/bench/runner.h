// The runner: all cases that are compared take turns in one run, so that noise
// of the machine falls on all alike, and each becomes a row.
//
//   std::vector<Group> groups(1);
//   groups[0].push_back(std::make_unique<LoadCase>(...));   // one for each
//   contestant const auto rows = measure(groups, {.rounds = 9});
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/rows.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

// One thing that is measured in turns with others.
class Case {
 public:
  explicit Case(Json labels) : labels_(std::move(labels)) {}
  virtual ~Case() = default;
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  // Makes one turn and keeps what it measured. Turn 0 warms up: its figures are not kept.
  virtual cli::Result<> turn(size_t number) = 0;
  // All turns together.
  virtual void add_figures(Json& row) const = 0;

  const Json& labels() const { return labels_; }

 private:
  const Json labels_;
};

// A case whose turns are a function that notes what they measured.
struct Notes {
  std::map<std::string, std::vector<double>>
      samples;                    // by path; become spreads, but turn 0's are dropped
  Json figures = Json::object();  // kept as they are

  void add(const std::string& path, double sample) { samples[path].push_back(sample); }
};
class NotedCase : public Case {
 public:
  using Turn = std::function<cli::Result<>(Notes& notes, size_t number)>;
  using Spread = Json (*)(const std::vector<double>& samples);
  NotedCase(Json labels, Spread spread, Turn turn)
      : Case(std::move(labels)), spread_(spread), turn_(std::move(turn)) {}

  cli::Result<> turn(size_t number) override;
  void add_figures(Json& row) const override;

 private:
  const Spread spread_;
  const Turn turn_;
  Notes notes_;
};

// What is compared most closely: the cases of a group are made one straight after the other.
using Group = std::vector<std::unique_ptr<Case>>;

struct Pace {
  int rounds = 1;                       // at least, after the one that warms up
  std::chrono::milliseconds budget{0};  // further rounds start until it is used up
  bool warm_up = true;                  // else no case has a turn 0
  bool shuffled = true;                 // cases of a group come in another order each round
};

// A round makes one turn of every case, one group after the other; progress goes to stderr. The
// rows are the labels and figures of the cases, in the order of groups and cases. An error of a
// turn, or an interrupt, ends it.
cli::Result<Rows> measure(const std::vector<Group>& groups, const Pace& pace);
cli::Result<Rows> measure(Group group, const Pace& pace);

// From now on SIGINT and SIGTERM are noted, and end the run at the next turn in good order, its
// servers with it.
void watch_interrupts();
bool was_interrupted();
// An error if there was an interrupt.
cli::Result<> check_interrupt();

}  // namespace elastripe::bench
