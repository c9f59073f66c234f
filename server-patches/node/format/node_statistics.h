// What nodes tell about themselves: for operators now, for placement later.
#pragma once

#include <array>
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
};

// In the order of a HELLO reply; by the names of `stats elastripe` and of the admin interface.
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
};
static_assert(sizeof(NodeStatistics) == kNodeStatistics.size() * sizeof(uint64_t));

}  // namespace elastripe::node
