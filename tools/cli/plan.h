// What `elastripe plan` shows: where the blocks of a scheme are, what its transitions read and
// send, and Table 1 of the ERS paper. Computed from the plans that transitions execute; pure.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "coding/transition_plan.h"
#include "tools/cli/result.h"

namespace elastripe::cli {

using Json = nlohmann::ordered_json;

struct DirectionReport {
  coding::TransitionPlan plan;  // as in the paper: without the min rule
  coding::TransitionCost cost;  // of plan
  int blocks_read_min = 0;      // with the min rule
};

struct LayoutReport {
  const char* name;
  const coding::Codec* codec;
  DirectionReport forward;
  DirectionReport backward;
};

struct PlanReport {
  int k;
  int m;
  int k_prime;
  std::array<LayoutReport, 3> layouts;  // srs, ers-1, ers-2
};

// Fails, with one line for the user, if there is no such scheme.
Result<PlanReport> make_plan_report(int k, int m, int k_prime);

// {"k","m","k_prime","l","stripes","rows","layouts":{"srs"|"ers-1"|"ers-2":{
//   "placement":[[row, node] of each block],
//   "forward"|"backward":{"data_blocks":[numbers of those read],"parity_blocks":old ones read,
//     "blocks_read":both,"blocks_read_min":both with the min rule,
//     "network":{"proxy","delta","hub":blocks that cross the network, reads and writes}}}}}
// All but blocks_read_min is without the min rule.
Json plan_json(const PlanReport& report);
std::string plan_text(const PlanReport& report);

// One line of Table 1: how far one layout reads less than another.
struct Table1Row {
  struct Figures {
    int improved = 0;                      // sets in which fewer blocks are read
    double average = 0;                    // saving, 0..1, over those sets
    double best = 0;                       // the largest
    std::array<int, 3> best_parameters{};  // k, m, k' of it
  };

  coding::Direction direction;
  const char* layout;
  const char* over;
  Figures ours;
  Figures published;
};

inline constexpr int kTable1Sets = 244;

// The paper's 244 sets. SRS is counted in both directions as the published figures need it: only
// old parities if k divides k' and m <= 2, else all data blocks.
std::vector<Table1Row> make_table1();

// {"sets":244,"rows":[{"direction","layout","over","ours":{"improved","average","best",
//   "best_parameters"},"published":{same}}]}
Json table1_json(const std::vector<Table1Row>& rows);
std::string table1_text(const std::vector<Table1Row>& rows);

}  // namespace elastripe::cli
