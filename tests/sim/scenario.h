// Scenarios: what a random schedule is made of, as data: cluster x workload x faults, and what is
// expected of it. All randomness comes from the schedule's seed.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "server-patches/node/format/mutant.h"
#include "tests/sim/history.h"
#include "tests/sim/network.h"
#include "tests/sim/proxy.h"

namespace elastripe::sim {

// A pool beside the default one.
struct ScenarioPool {
  std::string_view prefix;
  std::string_view scheme;
  uint32_t inline_max_bytes = 24;
  uint32_t segment_bytes = 64;
};

struct ClusterShape {
  int nodes = 6;
  int proxies = 2;
  int domains = 0;  // that the nodes share; 0: each has its own
  std::string_view scheme = "ers:2,2,3";
  uint32_t inline_max_bytes = 24;
  uint32_t segment_bytes = 64;
  bool degraded_writes = false;
  WriteState write_state = WriteState::kNarrow;  // of all pools
  LogCopies log_copies = LogCopies::kAll;        // the same
  LogRounds log_rounds = LogRounds::kOne;        // the same
  std::array<ScenarioPool, 2> pools{};           // the first ones, as many as have a scheme
  uint32_t partitions = 4;
  Duration read_grace = std::chrono::milliseconds(500);
  Duration upload_idle = std::chrono::milliseconds(500);  // reclaim waits kAbandonedAfter of them
  ProxyMemory proxy_memory = {};
  NodeMemory node_memory = {};
  NetworkProfile network = {};
  Duration map_delay_max = std::chrono::milliseconds(200);  // from the decider to the other proxies
  // They learn of maps from the nodes, one that was deposed too; else the simulator tells them.
  bool followers = false;
  // And one of them decides when nobody does: no supervisor starts deciders.
  bool elections = false;
  // Which is whom etcd elects; zero: the nodes tell. For so long it has what was a proxy's.
  Duration etcd_ttl{0};
  // Every proxy repairs, all at once: nodes may come back for so long. Zero: none does.
  Duration repair_after{0};
  // Every proxy folds update logs that are so old. Zero: none does.
  Duration fold_after{0};

  constexpr std::span<const ScenarioPool> more_pools() const {
    size_t count = 0;
    while (count < pools.size() && !pools[count].scheme.empty()) ++count;
    return std::span(pools).first(count);
  }
};

// Clients that send and take values part by part, each part (a segment) in its own time.
struct StreamProfile {
  double share = 0;  // of reads, and of writes of striped values
  Duration pause_max = std::chrono::milliseconds(60);
  double stops = 0.06;  // of parts: the client pauses for up to stop_max
  Duration stop_max = std::chrono::milliseconds(4000);
  double cuts = 0.02;  // of parts: the client goes away
};

struct Workload {
  int clients = 3;
  int keys = 2;         // they go round the pools
  int operations = 12;  // of each client
  Duration think_max = std::chrono::milliseconds(150);
  // How often an operation is which, by Verb: get, set, add, replace, append, prepend, cas, incr,
  // decr, delete, touch, update; and those that are no client's.
  std::array<int, kKeyVerbs> weights{30, 22, 3, 3, 6, 3, 8, 8, 3, 8, 6};
  int transitions = 0;  // with any, all objects are transitioned once more when all has healed
  int flushes = 0;
  int rebalances = 0;
  int jobs = 0;  // orders of the operator: they begin jobs of the cluster, and cancel some
  double late_flushes = 0.2;    // of flushes: after a few seconds
  double expiring = 0.1;        // of sets and touches, in seconds
  double long_expiry = 0;       // of what expires: only after up to clock_step_max
  double large = 0.5;           // of values: striped
  int segments = 3;             // of large values, at most
  bool whole_segments = false;  // large values are so many of them exactly
  double ranges = 0;            // of reads that are streamed: a part of the value
  StreamProfile streams = {};

  constexpr std::array<int, kKeyVerbs + 3> all_weights() const {  // by Verb
    std::array<int, kKeyVerbs + 3> all{};
    std::ranges::copy(weights, all.begin());
    all[static_cast<size_t>(Verb::kTransition)] = transitions;
    all[static_cast<size_t>(Verb::kFlush)] = flushes;
    all[static_cast<size_t>(Verb::kRebalance)] = rebalances;
    return all;
  }
};

// At most so many of each, at random times; and how they go.
struct FaultPlan {
  int node_kills = 0;
  int node_stalls = 0;
  int wrong_words = 0;  // nodes that only stall are declared dead, and wake up for another proxy
  int node_sticks = 0;  // threads that do not come back, while others answer heartbeats
  int bit_flips = 0;    // in stored records: at one home of a key at a time
  int link_cuts = 0;
  int partitions = 0;     // the decider and some nodes lose sight of all others
  int cut_off_nodes = 1;  // so many of them, at most
  int proxy_kills = 0;
  int proxy_pauses = 0;
  double quick_restarts = 0.3;  // before anybody may have noticed
  Duration restart_every{0};    // nodes come back together, at multiples of it
  double restart_cuts = 0;      // just then the decider loses sight of another node for a second
  double silent_kills = 0.3;    // machines that vanish instead of refusing
  int etcd_outages = 0;
  int etcd_cuts = 0;      // a proxy does not reach it
  int etcd_partings = 0;  // a proxy reaches a member of it only that has no leader
  // How many schedules go on without etcd when all else has healed, if there is a decider.
  double etcd_ends = 0;
  // The wall clocks of proxies step, by up to clock_step_max; those of some that make no maps do as
  // they start.
  int clock_steps = 0;
  double wrong_clocks = 0;
  // On so many machines the wall clock is wrong by as much from the start: the proxy there, and
  // each that takes its place, has never seen another time.
  int wrong_machines = 0;
  Duration clock_step_max = std::chrono::hours(3);
  // All proxies are started again, with this scheme for the default pool in place of the other one.
  int restarts = 0;
  std::string_view other_scheme = {};
  // The share of nodes that die for good whose address a process of another cluster takes.
  double strays = 0;
  double domain_kills = 0;  // of kills: the whole failure domain dies
  // Nodes that die one after the other, each when all is synced again, and stay dead; some of them
  // start again, empty, when all heals.
  int burials = 0;
  double returns = 0.3;
  double successions = 0;  // of these deaths: soon after, the decider dies too
  int joiners = 0;         // nodes that deciders which start later find added to the configuration
  int member_changes = 0;  // an operator adds, drains or removes a node, or takes a drain back
  int settings_changes = 0;  // an operator makes leases four times as long, or as long as before
  // The share of these in which the decider, and all who decide after it for some time, lose sight
  // of a node just then, which another proxy still asks; and the decider dies.
  double contested_settings = 0;
  // The share of the others in which it and some nodes, which alone get the map, lose sight of all
  // others just then.
  double parted_settings = 0;
  double growth = 0.3;         // of these: another node is added though there are enough
  double refills = 0.2;        // of those that ask for a node which can not be removed yet
  double changes_of_mind = 0;  // of changes while a node drains: it does so no more
  double forced = 0;           // of deciders that start while nodes are silent: with force_epoch
  int catastrophes = 0;        // more nodes than the scheme survives die together
  // So often all of this, over other nodes, each time when all has healed (and is repaired, if that
  // is expected); those that were dead for good start again, empty, as the next round begins.
  int rounds = 1;
  // Proxies that die while they repair what faults have cost.
  int repairer_kills = 0;
  // All processes begin as those of an older build, and start again as such of the newest one: a
  // node in each round that lasts long enough, the others when all has healed.
  bool upgrades = false;
  // After a commit at a head, before its proxy hears of it: the head dies; the proxy does, a moment
  // later.
  double head_kills = 0;
  double committer_kills = 0;
  // When a tail has numbered an update: it dies a moment later, or the proxy does.
  double appender_kills = 0;
  // When a client has been told that its write is done: a node that has a part of it dies.
  double answer_kills = 0;
  // When a node has acknowledged a staged parity: its proxy stops.
  double stager_pauses = 0;
  Duration until = std::chrono::seconds(4);
  Duration longest = std::chrono::milliseconds(2500);  // stalls, cuts and pauses
  // Faults hit the decider's links and process rather than others', as often.
  double at_decider = 0.5;

  Duration choose_step(SimRandom& random) const {  // of a wall clock
    const Duration step = random.between(clock_step_max / 8, clock_step_max);
    return random.chance(0.5) ? step : -step;
  }
};

// What the promise covers, and what is asked of the cluster when all has healed.
struct Expectations {
  // More memory may be lost than the scheme survives: reads may then fail, but never lie.
  bool beyond_promise = false;
  // No shards: any node may be killed, as often as all is synced again.
  bool records_only = false;
  // The operator accepts the loss when all has healed; from then on all promises count again.
  bool accept_loss = false;
  // Objects are scrubbed whenever everything is read.
  bool scrub = true;
  // When faults have ended, repair comes to an end, and nothing lacks shards.
  bool repaired = false;
  // A schedule without the phase in which reclaim is waited for and leaks are looked for.
  bool check_leaks = true;
  // Clients go on writing for a while when all has healed; shards that were left behind do not
  // outlive that.
  bool write_on = false;
  // Fills the nodes when all has healed: nothing is lost, also if one dies then, and deletes give
  // the memory back.
  bool fill_nodes = false;
  // When all has healed machines vanish until the rest is no majority, the operator declares each
  // dead, and the decider dies: one of those who begin then is told so once more.
  bool declared_dead = false;
  // In some schedules nodes have no room for all homes of a partition.
  bool short_of_room = false;
};

struct Scenario {
  std::string_view name = {};
  std::string_view about;  // one line
  double share = 1;        // of the seeds that tests run
  ClusterShape cluster = {};
  Workload workload = {};
  FaultPlan faults = {};
  Expectations expect = {};
};

// Null if there is no such scenario.
const Scenario* find_scenario(std::string_view name);
std::span<const Scenario> scenarios();  // those that random runs rotate through

// The directed scenario of a rule, and the mutant that breaks it.
struct Rule {
  Mutant mutant;
  std::string_view mutant_name;
  std::string_view sentence;  // "rule 7: deleting orphans without a fence loses data"
  Scenario scenario;
  // What the rule is for. To catch its mutant a client must be lied to, or data be lost, unless its
  // only use is that nothing is left behind, that operations come to an end, or by which map a
  // proxy serves, and who makes it, where nodes refuse what would be wrong.
  enum class Purpose : uint8_t { kTruth, kNoLeaks, kProgress, kMaps } purpose = Purpose::kTruth;
};
std::span<const Rule> rules();
const Rule* find_rule(std::string_view mutant_name);

}  // namespace elastripe::sim
