// What nodes tell about themselves: for operators now, for placement later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace elastripe::node {

struct NodeStatistics {
  uint64_t used_bytes = 0;   // memory taken for items, slab waste included
  uint64_t limit_bytes = 0;  // -m
  uint64_t records = 0;
  uint64_t shards = 0;
  uint64_t record_bytes = 0;
  uint64_t shard_bytes = 0;
  uint64_t frames = 0;  // served since the start
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t cpu_us = 0;  // of the process
  // Update logs, those of which the node has a copy. 0 of nodes that do not tell.
  uint64_t logs = 0;              // with bytes that are not folded
  uint64_t log_bytes = 0;         // these bytes
  uint64_t log_used_bytes = 0;    // memory taken for them, in units
  uint64_t log_limit_bytes = 0;   // within which that takes new updates
  uint64_t log_age_ms = 0;        // of the oldest that is not folded
  uint64_t log_merged_bytes = 0;  // since the start; newer ones took their place before a fold
  uint64_t log_refusals = 0;      // likewise; updates for which there was no room
};

// In the order of a HELLO reply, where those behind the first kFirstNodeStatistics come last: nodes
// of older builds do not tell them. By the names of `stats elastripe` and of the admin interface.
using NodeStatistic = std::pair<std::string_view, uint64_t NodeStatistics::*>;
inline constexpr std::array kNodeStatistics{
    NodeStatistic{"used_bytes", &NodeStatistics::used_bytes},
    NodeStatistic{"limit_bytes", &NodeStatistics::limit_bytes},
    NodeStatistic{"records", &NodeStatistics::records},
    NodeStatistic{"shards", &NodeStatistics::shards},
    NodeStatistic{"record_bytes", &NodeStatistics::record_bytes},
    NodeStatistic{"shard_bytes", &NodeStatistics::shard_bytes},
    NodeStatistic{"frames", &NodeStatistics::frames},
    NodeStatistic{"bytes_in", &NodeStatistics::bytes_in},
    NodeStatistic{"bytes_out", &NodeStatistics::bytes_out},
    NodeStatistic{"cpu_us", &NodeStatistics::cpu_us},
    NodeStatistic{"logs", &NodeStatistics::logs},
    NodeStatistic{"log_bytes", &NodeStatistics::log_bytes},
    NodeStatistic{"log_used_bytes", &NodeStatistics::log_used_bytes},
    NodeStatistic{"log_limit_bytes", &NodeStatistics::log_limit_bytes},
    NodeStatistic{"log_age_ms", &NodeStatistics::log_age_ms},
    NodeStatistic{"log_merged_bytes", &NodeStatistics::log_merged_bytes},
    NodeStatistic{"log_refusals", &NodeStatistics::log_refusals},
};
inline constexpr size_t kFirstNodeStatistics = 10;
static_assert(sizeof(NodeStatistics) == kNodeStatistics.size() * sizeof(uint64_t));

}  // namespace elastripe::node
