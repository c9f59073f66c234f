// What `elastripe bench transition` measured, as tables, as JSON, as charts, and against its goals.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/bench/transition_bulk.h"
#include "tools/bench/transition_cases.h"

namespace elastripe::bench {

struct TransitionResults {
  std::string network;  // how rates were limited, or why not
  int repetitions = 0;
  // By experiment; empty if it was not made.
  std::vector<TransitionCase> sizes;
  std::vector<TransitionCase> parameters;
  std::vector<TransitionCase> bandwidth;
  std::vector<TransitionCase> order;  // ers-2, with and without order selection
  std::vector<BulkPass> bulk;
  std::vector<BesideCase> beside;
};

// A bound of docs/transitioning.md, and how it went.
struct Goal {
  std::string text;
  double bound = 0;
  double measured = 0;

  bool is_met() const { return measured <= bound; }
};
std::vector<Goal> goals_of(const TransitionResults& results);

std::string tables_of(const TransitionResults& results);
Json json_of(const TransitionResults& results);

// One file for each figure, into a directory that is made if it is not there.
cli::Result<> write_charts(const std::filesystem::path& directory,
                           const TransitionResults& results);

// A comparison of layouts: the cases that differ in nothing else, one direction.
struct LayoutRow {
  const TransitionCase* srs = nullptr;
  const TransitionCase* ers1 = nullptr;
  const TransitionCase* ers2 = nullptr;
  Direction direction = Direction::kForward;

  // Medians, over that of srs.
  double ratio(const TransitionCase* c) const;
};
std::vector<LayoutRow> rows_of(const std::vector<TransitionCase>& cases);

std::string rate_text(uint64_t bits_per_second);

}  // namespace elastripe::bench
