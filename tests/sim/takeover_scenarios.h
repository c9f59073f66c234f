// Scenarios of deciders that die, wait, are cut off or take over, for the rules about them; some
// are among the random ones, too.
#pragma once

#include "tests/sim/scenario.h"

namespace elastripe::sim {

using namespace std::chrono_literals;

// clang-format off

inline constexpr Scenario kEtcdElections{
  .about = "deciders that die, and etcd, which is away now and then, elects others",
  .cluster = {.proxies = 3, .followers = true, .elections = true, .etcd_ttl = 2s},
  .faults = {.link_cuts = 2, .proxy_kills = 3, .proxy_pauses = 2, .etcd_outages = 2,
             .etcd_cuts = 2, .etcd_partings = 2, .until = 6s, .at_decider = 1}};

inline constexpr Scenario kFollowed{
  .about = "maps that change often, as nodes and deciders die, stall, or are cut off from each other",
  .cluster = {.proxies = 4, .followers = true, .elections = true},
  .faults = {.node_kills = 2, .node_stalls = 4, .link_cuts = 8, .proxy_kills = 2,
             .proxy_pauses = 3, .until = 6s, .at_decider = 0.7}};

// What a node told of its lease comes when another map is served already.
inline constexpr Scenario kLateAnswers{
  .about = "nodes are excluded by those who do not reach them, and answers to others come late",
  .cluster = {.proxies = 4, .network = {.slow = 0.3, .slow_max = 300ms}, .followers = true,
              .elections = true},
  .faults = {.node_stalls = 2, .link_cuts = 12, .until = 8s, .at_decider = 1}};

// Nobody may take the place of a decider while etcd is away.
inline constexpr Scenario kUndecided{
  .about = "deciders die while etcd is away, for longer than nodes have leases",
  .cluster = {.proxies = 3, .followers = true, .elections = true, .etcd_ttl = 2s},
  .workload = {.think_max = 600ms},
  .faults = {.proxy_kills = 3, .etcd_outages = 3, .until = 10s, .longest = 5s, .at_decider = 1}};

inline constexpr Scenario kWrongWords{
  .about = "nodes that only stall are declared dead, and wake up beside another proxy",
  .cluster = {.nodes = 5, .proxies = 3, .scheme = "rep:3", .inline_max_bytes = 1024,
              .followers = true, .elections = true},
  .workload = {.clients = 4, .keys = 3, .operations = 40, .think_max = 400ms},
  .faults = {.wrong_words = 1, .until = 12s},
  .expect = {.records_only = true}};

inline constexpr Scenario kDeclaredDead{
  .about = "most machines vanish and are declared dead, and the decider that was told so dies",
  .cluster = {.nodes = 5, .proxies = 4, .scheme = "rep:2", .inline_max_bytes = 1024,
              .followers = true, .elections = true},
  .workload = {.keys = 3},
  .faults = {.link_cuts = 2, .proxy_kills = 1, .proxy_pauses = 2, .at_decider = 0.7},
  .expect = {.records_only = true, .declared_dead = true}};

inline constexpr Scenario kJobs{
  .about = "jobs, and deciders that die, stop, or are cut off with one node",
  .cluster = {.proxies = 4, .followers = true, .elections = true},
  .workload = {.clients = 1, .keys = 1, .operations = 16, .think_max = 600ms, .jobs = 14},
  .faults = {.link_cuts = 2, .partitions = 4, .proxy_kills = 3, .proxy_pauses = 4, .until = 8s,
             .at_decider = 0.8}};

inline constexpr Scenario kPassedOver{
  .about = "changes of the settings, as their decider is cut off with one node",
  .cluster = {.proxies = 3, .followers = true, .elections = true},
  .workload = {.clients = 1, .keys = 1, .operations = 16, .think_max = 600ms},
  .faults = {.settings_changes = 10, .parted_settings = 0.7, .until = 8s}};

// The clocks of two proxies are right, and so is the one in the middle. What expires is collected
// only once others have had time to tell what theirs show.
inline constexpr Scenario kWrongClocks{.name = "wrong-clocks",
   .about = "proxies of which one has a wall clock that is wrong by hours from the start",
   .cluster = {.proxies = 3, .followers = true, .elections = true},
   .workload = {.clients = 4, .keys = 4, .operations = 32, .think_max = 1s, .expiring = 0.5,
                .long_expiry = 0.7},
   .faults = {.node_kills = 1, .node_stalls = 1, .link_cuts = 3, .proxy_kills = 3,
              .proxy_pauses = 4, .wrong_machines = 1, .until = 20s, .at_decider = 0.6}};

inline constexpr Scenario kRollingUpgrade{.name = "rolling-upgrade",
   .about = "nodes and proxies of an older build start again as new ones, one after the other",
   .share = 0.5,
   .cluster = {.nodes = 6, .proxies = 3,
               .pools = {{{.prefix = "copies-", .scheme = "rep:3", .inline_max_bytes = 8}}},
               .network = {.late = 0.01}, .repair_after = 300ms},
   .workload = {.keys = 4, .operations = 6, .weights = {30, 16, 2, 2, 4, 2, 4, 3, 1, 4, 4},
                .transitions = 4, .expiring = 0.03, .large = 0.9, .segments = 6},
   .faults = {.node_kills = 1, .node_stalls = 1, .link_cuts = 1, .proxy_kills = 2,
              .proxy_pauses = 1, .quick_restarts = 0.4, .member_changes = 6, .rounds = 6,
              .upgrades = true, .until = 2s, .at_decider = 0.4},
   .expect = {.repaired = true}};

// clang-format on

inline constexpr Scenario kMixedProxies = [] {
  Scenario mixed = kRollingUpgrade;
  mixed.name = "mixed-proxies";
  mixed.about = "the same, where older proxies follow and decide beside newer ones";
  mixed.cluster.followers = mixed.cluster.elections = true;
  mixed.faults.member_changes = 10;
  return mixed;
}();

}  // namespace elastripe::sim
