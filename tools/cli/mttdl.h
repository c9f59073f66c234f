// The mean time to data loss (MTTDL) of a scheme, for `elastripe plan`: a birth-death Markov chain
// whose state is how many nodes are gone with what they had, 0..m. The failure of one more, m + 1
// in all, loses data. Shards are declustered: those of a segment are on k' + m random nodes of the
// cluster. Pure. data_loss_text() lists what else is assumed. Times are in seconds.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "tools/cli/result.h"

namespace elastripe::cli {

using Json = nlohmann::ordered_json;

inline constexpr int kMaxPlannedNodes = 65535;

// What is known of a cluster and of its failures.
struct FailureModel {
  int nodes = 0;
  double node_bytes = 0;   // shards on a node
  double node_mtbf = 0;    // mean time between failures of a node
  double repair_rate = 0;  // bytes a second, read and written, of the whole cluster
  double repair_wait = 0;  // from a failure until repair begins
};

// Segments with `shards` shards, each on a node of its own. A codeword has blocks on `width` of
// these nodes, and is read back from `data` of its blocks.
struct Coding {
  int data = 0;
  int width = 0;
  int shards = 0;
};

// How many of the segments have lost `lost` shards when `gone` nodes of `nodes` are, 0..1.
double share_with_lost(int nodes, const Coding& coding, int gone, int lost);

// How many of a segment's codewords have lost a block when `lost` of its shards are, 0..1.
double share_touched(const Coding& coding, int lost);

// What repair reads and writes to make the lost shards again of all segments that have lost
// `lost_at_least` when `gone` nodes are.
double repair_bytes(const FailureModel& model, const Coding& coding, int gone, int lost_at_least);

// The mean time until one more node is gone than there are repair_times, from when none is.
// repair_times[i - 1] is the mean time in which repair leads from i gone nodes to i - 1; infinity:
// never.
double mean_time_to_loss(int nodes, double node_mtbf, std::span<const double> repair_times);

struct DataLoss {
  const char* state = "";
  double node_repair = 0;     // until the shards of one node are made again, with the wait
  double any_object = 0;      // until an object is lost
  double chance_in_year = 0;  // 0..1, of that
  double lost_share = 0;      // 0..1, of the objects of one segment, then; narrow: at most
  double one_object = 0;      // until a given object of one segment is lost; narrow: at least
  double any_order = 0;       // any_object, if those that lost most do not go first
};

struct DataLossReport {
  FailureModel model;
  int m = 0;
  int shards = 0;
  double unrepaired = 0;             // until an object is lost, if nothing is made again
  std::array<DataLoss, 2> states{};  // narrow, wide
};

// k, m and k' are a scheme's. Fails, with one line for the user, if the model makes no sense.
Result<DataLossReport> make_data_loss_report(int k, int m, int k_prime, const FailureModel& model);

// The "data_loss" of a plan:
// {"nodes","node_bytes","node_mtbf_seconds","repair_rate","repair_wait_seconds",
//   "unrepaired_seconds","narrow"|"wide":{"node_repair_seconds","any_object_seconds",
//     "chance_in_year","lost_share","one_object_seconds","any_order_seconds"}}
Json data_loss_json(const DataLossReport& report);
// A table, and what is assumed.
std::string data_loss_text(const DataLossReport& report);

// "1000h", "60s", "2.5d", "250ms": a number and its unit, ms, s, min, h, d or y; up to 30000y.
Result<double> parse_duration(const std::string& text);

}  // namespace elastripe::cli
