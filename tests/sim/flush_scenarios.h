// Scenarios of flushes, for the rules about them.
#pragma once

#include "tests/sim/scenario.h"

namespace elastripe::sim {

using namespace std::chrono_literals;

// clang-format off

inline constexpr Scenario kFlushedValues{
  .about = "values are changed by what they are, again and again, while all are flushed",
  .cluster = {.map_delay_max = 20ms},
  .workload = {.clients = 4, .operations = 30, .think_max = 60ms,
               .weights = {24, 14, 6, 6, 14, 6, 6, 10, 2, 4, 8}, .flushes = 10, .late_flushes = 0,
               .expiring = 0}};

inline constexpr Scenario kFlushTakeover{
  .about = "flushes, and deciders that take over from each other",
  .cluster = {.nodes = 4, .scheme = "rep:2", .inline_max_bytes = 1024},
  .workload = {.clients = 4, .keys = 3, .operations = 20, .flushes = 8},
  .faults = {.node_kills = 1, .link_cuts = 4, .proxy_kills = 4, .proxy_pauses = 2,
             .silent_kills = 0, .burials = 1, .successions = 0.6, .until = 6s, .at_decider = 0.8},
  .expect = {.records_only = true}};

inline constexpr Scenario kFlushFollowed{
  .about = "flushes through proxies that follow",
  .cluster = {.nodes = 4, .proxies = 4, .scheme = "rep:2", .inline_max_bytes = 1024,
              .followers = true, .elections = true},
  .workload = {.clients = 4, .keys = 3, .operations = 20, .flushes = 8},
  .faults = {.proxy_kills = 1, .until = 6s, .at_decider = 0.5},
  .expect = {.records_only = true}};

inline constexpr Scenario kFlushContested{
  .about = "flushes, and deciders that pause, wake up and meet others, while nodes die",
  .cluster = {.nodes = 5, .scheme = "rep:3", .inline_max_bytes = 1024},
  .workload = {.keys = 3, .operations = 20, .flushes = 8},
  .faults = {.proxy_kills = 4, .proxy_pauses = 10, .silent_kills = 0.8, .burials = 4,
             .successions = 0.6, .until = 6s, .at_decider = 1},
  .expect = {.records_only = true}};

// clang-format on

}  // namespace elastripe::sim
