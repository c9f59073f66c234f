// The rules, each with the scenario that shows what goes wrong without it.
#include <algorithm>

#include "tests/sim/flush_scenarios.h"
#include "tests/sim/scenario.h"
#include "tests/sim/takeover_scenarios.h"

namespace elastripe::sim {

using namespace std::chrono_literals;

namespace {

// clang-format off
constexpr Scenario kContestedMaps{
  .about = "many stalls, cuts and changes of the decider, maps that come late",
  .cluster = {.proxies = 3, .map_delay_max = 2s},
  .workload = {.keys = 1},
  .faults = {.node_kills = 2, .node_stalls = 4, .link_cuts = 6, .proxy_kills = 2, .proxy_pauses = 4,
             .at_decider = 0.7}};

constexpr Scenario kShorterLeases{
  .about = "leases that get shorter as the decider dies, and proxies that hear late of new maps",
  .cluster = {.proxies = 3, .map_delay_max = 5s},
  .workload = {.clients = 6, .keys = 4, .operations = 100, .think_max = 200ms},
  .faults = {.settings_changes = 12, .contested_settings = 1, .until = 8s}};

constexpr Scenario kQuickRestarts{
  .about = "nodes come back at once, as another process, while copies of old maps are on their way",
  .cluster = {.nodes = 5, .scheme = "rep:3", .inline_max_bytes = 1024,
              .network = {.late_max = 3s, .install_echoes = 30}},
  .workload = {.clients = 4, .keys = 1, .operations = 60, .think_max = 60ms,
               .weights = {60, 30, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
  .faults = {.node_kills = 4, .quick_restarts = 1, .silent_kills = 0},
  .expect = {.records_only = true}};

// Sync asks every live home of the map before, so it keeps all unsynced homes silent until that
// node has the new map, too. What needs no sync are blind SETs to a LOST partition: its homes are
// replaced by nodes that return, and while its old tail still answers, the new ones take a SET.
constexpr Scenario kLateMaps{
  .about = "a node without the newest map serves the one before, in which it is a home",
  .cluster = {.nodes = 4, .proxies = 3, .scheme = "rep:2", .inline_max_bytes = 1024,
              .map_delay_max = 2s},
  .workload = {.clients = 16, .keys = 4, .operations = 80, .think_max = 250ms,
               .weights = {80, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0}, .expiring = 0},
  .faults = {.quick_restarts = 0, .restart_every = 2s, .restart_cuts = 0.5, .silent_kills = 0.1,
             .catastrophes = 10, .until = 10s, .longest = 1ms},
  .expect = {.beyond_promise = true, .check_leaks = false}};

constexpr Scenario kUsual{
  .about = "a bit of everything",
  .faults = {.node_kills = 2, .node_stalls = 1, .link_cuts = 2, .proxy_kills = 1,
             .proxy_pauses = 1}};

constexpr Scenario kTooManyDeaths{
  .about = "more memory is lost than the scheme survives",
  .cluster = {.nodes = 4, .scheme = "rep:2", .inline_max_bytes = 1024},
  .faults = {.node_kills = 6, .node_stalls = 1, .link_cuts = 2, .proxy_kills = 1, .proxy_pauses = 1,
             .silent_kills = 0.1},
  .expect = {.beyond_promise = true, .check_leaks = false}};

// With rarer reclaim clients meet more of what is LOST; who asks at once is told of the loss before
// the silence counts as a failure, too.
constexpr Scenario kSilences{
  .about = "machines fall silent, more than a map may exclude, and come back with all they had",
  .cluster = {.nodes = 4, .scheme = "rs:2,1", .upload_idle = 1500ms},
  .workload = {.clients = 5, .keys = 1, .operations = 60, .think_max = 40ms},
  .faults = {.node_kills = 2, .node_stalls = 8, .link_cuts = 4, .quick_restarts = 0,
             .silent_kills = 0, .until = 6s, .longest = 4s}};

constexpr Scenario kSlowSweeps{
  .about = "two nodes come back together and a third dies before the slow sweep has finished",
  .cluster = {.scheme = "rep:3", .inline_max_bytes = 1024, .network = {.scan_delay_max = 290ms}},
  .workload = {.clients = 4, .keys = 1, .operations = 60, .think_max = 80ms,
               .weights = {40, 40, 2, 2, 6, 2, 2, 2, 2, 2, 2}},
  .faults = {.node_kills = 12, .restart_every = 1s, .silent_kills = 0, .until = 6s},
  .expect = {.records_only = true}};

constexpr Scenario kOldCopies{
  .about = "nodes are away for a while, and come back with records that were overwritten meanwhile",
  .cluster = {.nodes = 5, .scheme = "rep:3", .inline_max_bytes = 1024},
  .workload = {.clients = 4, .keys = 1, .operations = 60, .think_max = 100ms,
               .weights = {40, 40, 2, 4, 4, 2, 2, 2, 2, 2, 2}, .expiring = 0},
  .faults = {.node_kills = 2, .node_stalls = 8, .until = 6s, .longest = 4s},
  .expect = {.records_only = true}};

constexpr Scenario kFullHomes{
  .about = "nodes die while all are full of records",
  .share = 0.5,
  .cluster = {.nodes = 4, .scheme = "rep:2", .inline_max_bytes = 1024, .segment_bytes = 300,
              .partitions = 16, .node_memory = {.limit_bytes = 16 << 10, .reserve_bytes = 8 << 10}},
  .workload = {.keys = 24, .operations = 8, .think_max = 60ms,
               .weights = {20, 50, 5, 2, 5, 2, 2, 1, 1, 5, 2}, .large = 0.7},
  .expect = {.fill_nodes = true}};

// What a fence that does nothing leaves behind is a leak at best: here, only lost data counts.
constexpr Scenario kIdleFences{
  .about = "commits come late, beside fences",
  .cluster = {.proxies = 3, .network = {.late = 0.03, .late_max = 10s}},
  .workload = {.keys = 1, .operations = 16, .think_max = 1s,
               .weights = {20, 50, 2, 2, 2, 2, 2, 0, 0, 2, 2}, .expiring = 0, .large = 1},
  .faults = {.until = 16s, .at_decider = 0.2},
  .expect = {.check_leaks = false}};

constexpr Scenario kBadNetwork{
  .about = "no crash; the network delays, drops and duplicates",
  .cluster = {.network = {.drop = 0.02, .drop_reply = 0.02, .duplicate = 0.05, .slow = 0.2,
                          .late = 0.02}},
  .workload = {.keys = 1, .think_max = 40ms}};

// Answers of the head come slowly, so that epochs change in mid-commit.
constexpr Scenario kDeathsOfHeads{
  .about = "heads die right after they have decided, before the other homes have it",
  .cluster = {.nodes = 5, .scheme = "rep:3", .inline_max_bytes = 1024,
              .network = {.slow = 0.4, .slow_max = 280ms}, .map_delay_max = 20ms},
  .workload = {.keys = 1, .operations = 10, .think_max = 50ms,
               .weights = {10, 10, 2, 2, 4, 20, 2, 40, 2, 2, 2}},
  .faults = {.node_kills = 6, .link_cuts = 2, .proxy_kills = 1, .proxy_pauses = 1,
             .silent_kills = 0, .head_kills = 0.15},
  .expect = {.records_only = true}};

constexpr Scenario kLateReturns{
  .about = "nodes come back late, so that maps change while all heals and clients go on",
  .workload = {.clients = 6, .operations = 60, .think_max = 200ms},
  .faults = {.node_kills = 8, .node_stalls = 2, .proxy_kills = 1, .quick_restarts = 0}};

constexpr Scenario kSlowUploads{
  .about = "uploads take long, while nodes lose their memory",
  .cluster = {.proxies = 3, .network = {.slow = 0.4, .late = 0.02, .slow_max = 280ms}},
  .workload = {.keys = 3, .operations = 8, .think_max = 400ms,
               .weights = {10, 60, 2, 2, 2, 2, 2, 0, 0, 2, 2}, .large = 1},
  .faults = {.node_kills = 6, .link_cuts = 2, .proxy_kills = 3, .proxy_pauses = 3,
             .quick_restarts = 0.8, .silent_kills = 0, .until = 3s, .at_decider = 0.2}};

constexpr Scenario kDamage{
  .about = "the memory of one node fails every now and then",
  .cluster = {.nodes = 5, .scheme = "rep:3", .inline_max_bytes = 200},
  .workload = {.clients = 4, .keys = 6, .operations = 40},
  .faults = {.bit_flips = 12}};

constexpr Scenario kCutUploads{
  .about = "large values, proxies that die or stop in mid-upload, and reclaim",
  .cluster = {.proxies = 3, .network = {.late = 0.02}},
  .workload = {.keys = 1, .operations = 16, .think_max = 400ms, .large = 1},
  .faults = {.node_kills = 1, .node_stalls = 1, .link_cuts = 2, .proxy_kills = 3, .proxy_pauses = 3,
             .until = 6s, .at_decider = 0.2}};

constexpr Scenario kBusyKeys{
  .about = "shards that uploads leave behind, of keys that are written all the time",
  .cluster = {.proxies = 3, .network = {.drop_reply = 0.02}},
  .workload = {.operations = 10, .think_max = 500ms, .weights = {10, 60, 4, 2, 2, 2, 2, 1, 1, 6, 2},
               .large = 0.9},
  .faults = {.node_kills = 2, .node_stalls = 1, .link_cuts = 2, .proxy_kills = 4, .proxy_pauses = 1,
             .at_decider = 0.4},
  .expect = {.write_on = true}};

constexpr Scenario kDeathsInCommits{
  .about = "large values, one after the other, whose proxies die when the head has decided",
  .cluster = {.proxies = 3, .network = {.slow = 0.3, .late = 0.02}},
  .workload = {.keys = 1, .operations = 16, .think_max = 400ms,
               .weights = {20, 60, 2, 2, 2, 2, 2, 0, 0, 2, 2}, .large = 1},
  .faults = {.node_kills = 1, .node_stalls = 1, .link_cuts = 2, .proxy_kills = 3, .proxy_pauses = 3,
             .committer_kills = 0.1, .until = 6s, .at_decider = 0.2}};

constexpr Scenario kPausedReaders{
  .about = "readers stop, between the record and its shards, for longer than those are kept",
  .cluster = {.proxies = 3, .network = {.late = 0.02}},
  .workload = {.clients = 6, .keys = 1, .operations = 60, .think_max = 60ms,
               .weights = {50, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0}, .expiring = 0, .large = 1},
  .faults = {.proxy_pauses = 30, .until = 6s, .longest = 1500ms, .at_decider = 0}};

constexpr Scenario kSlowReaders{
  .about = "slow readers of values that are always of one size and overwritten soon",
  .cluster = {.nodes = 7, .proxies = 3, .write_state = WriteState::kWide, .read_grace = 100ms,
              .upload_idle = 340ms, .proxy_memory = {.staged_bytes = 1200}},
  .workload = {.clients = 5, .keys = 1, .weights = {60, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0},
               .expiring = 0, .large = 0.9, .whole_segments = true,
               .streams = {.share = 0.7, .stops = 0.2, .stop_max = 1s, .cuts = 0}},
  .faults = {.quick_restarts = 0.6, .until = 8s, .at_decider = 0.3}};

// Their keys are hardly written otherwise: their shards are fenced, and die.
constexpr Scenario kIdleUploads{
  .about = "values come part by part, and stop coming for longer than reclaim waits",
  .cluster = {.nodes = 7, .proxies = 3, .write_state = WriteState::kWide, .read_grace = 250ms,
              .upload_idle = 140ms, .proxy_memory = {.staged_bytes = 1200}},
  .workload = {.clients = 5, .weights = {20, 40, 0, 0, 0, 0, 0, 0, 0, 6, 0}, .large = 0.9,
               .whole_segments = true, .streams = {.share = 0.8, .stops = 0.4, .cuts = 0}},
  .faults = {.quick_restarts = 0.6, .until = 8s, .at_decider = 0.3}};

constexpr Scenario kInterruptedUploads{
  .about = "values come part by part while nodes lose their memory",
  .cluster = {.nodes = 7, .proxies = 3, .write_state = WriteState::kWide, .read_grace = 250ms,
              .upload_idle = 340ms, .proxy_memory = {.staged_bytes = 1200},
              .network = {.slow = 0.3, .slow_max = 200ms}},
  .workload = {.clients = 5, .keys = 10, .operations = 6,
               .weights = {10, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0}, .large = 0.9, .segments = 7,
               .whole_segments = true, .ranges = 0.2,
               .streams = {.share = 1, .stops = 0, .cuts = 0}},
  .faults = {.node_kills = 6, .quick_restarts = 0.8, .silent_kills = 0, .until = 3s,
             .at_decider = 0.3}};

constexpr Scenario kLostAnswers{
  .about = "commits whose answers are lost",
  .cluster = {.nodes = 7, .proxies = 3, .write_state = WriteState::kWide, .read_grace = 250ms,
              .upload_idle = 340ms, .proxy_memory = {.staged_bytes = 1200},
              .network = {.drop_reply = 0.03, .slow = 0.3, .late = 0.03, .slow_max = 280ms}},
  .workload = {.clients = 5, .keys = 6, .operations = 8,
               .weights = {20, 50, 2, 2, 2, 2, 2, 0, 0, 4, 2}, .large = 0.9, .segments = 7,
               .whole_segments = true, .ranges = 0.2, .streams = {.share = 0.8}},
  .faults = {.node_kills = 6, .node_stalls = 1, .link_cuts = 2, .proxy_kills = 2, .proxy_pauses = 2,
             .quick_restarts = 0.6, .until = 8s, .at_decider = 0.3}};

constexpr Scenario kLateCommits{
  .about = "commits come very late, within their epoch: after reclaim has dealt with their shards",
  .cluster = {.proxies = 3, .network = {.late = 0.08, .late_max = 10s}},
  .workload = {.keys = 1, .operations = 16, .think_max = 1s,
               .weights = {20, 50, 2, 2, 2, 2, 2, 0, 0, 30, 2}, .expiring = 0, .large = 1},
  .faults = {.until = 16s, .at_decider = 0.2}};

// A home was replaced meanwhile: while the homes' floors differ, a fence that names one of them is
// refused. Nothing worse can come of it: a map's version_floor is above every version of earlier
// epochs, and shards are confirmed in the epoch of their commit, so neither goes back with a floor
// that was forgotten.
constexpr Scenario kOrphansOfMissing{
  .about = "uploads fail and leave shards behind, after the tombstone of their key was dropped",
  .cluster = {.proxies = 3, .network = {.drop = 0.02, .late = 0.02}},
  .workload = {.clients = 2, .keys = 1, .operations = 14, .think_max = 2s,
               .weights = {4, 5, 0, 60, 0, 0, 0, 0, 0, 10, 0}, .expiring = 0, .large = 1},
  .faults = {.node_kills = 12, .until = 14s, .at_decider = 0.2}};

// No scrub: a wrong parity is to be found by who needs it.
constexpr Scenario kTransitionsOnly{
  .about = "little else than transitions and reads of one object, by several proxies",
  .cluster = {.nodes = 7, .proxies = 3, .write_state = WriteState::kAsBefore,
              .network = {.late = 0.01}},
  .workload = {.clients = 4, .keys = 1, .operations = 14,
               .weights = {30, 14, 0, 0, 0, 0, 0, 0, 0, 0, 4}, .transitions = 52, .expiring = 0,
               .large = 1, .segments = 9},
  .faults = {.node_kills = 2, .node_stalls = 1, .link_cuts = 2, .proxy_kills = 2, .proxy_pauses = 3,
             .committer_kills = 0.02, .at_decider = 0.3},
  .expect = {.scrub = false}};

constexpr Scenario kRepairs{
  .about = "all proxies repair one object at once, and some stop or die over it",
  .cluster = {.nodes = 7, .proxies = 4, .network = {.late = 0.02}, .repair_after = 200ms},
  .workload = {.clients = 3, .keys = 1, .operations = 14,
               .weights = {40, 8, 0, 0, 0, 0, 0, 0, 0, 0, 4}, .transitions = 4, .expiring = 0,
               .large = 1, .segments = 9},
  .faults = {.node_kills = 2, .node_stalls = 1, .link_cuts = 2, .proxy_kills = 2, .proxy_pauses = 3,
             .quick_restarts = 0.6, .committer_kills = 0.02, .at_decider = 0.3},
  .expect = {.repaired = true}};

constexpr Scenario kComings{
  .about = "nodes are added, drained and removed, and hardly anything else happens",
  .cluster = {.nodes = 6, .proxies = 2, .repair_after = 300ms},
  .workload = {.keys = 6, .operations = 40,
               .weights = {40, 30, 2, 2, 4, 2, 4, 3, 1, 4, 4}, .expiring = 0, .large = 0.5},
  .faults = {.member_changes = 60, .until = 8s},
  .expect = {.repaired = true}};

// Where records come slowly, members change and nodes die before they have come.
constexpr Scenario kSlowMoves{
  .about = "partitions move, and move on, while nodes die and records are brought slowly",
  .cluster = {.nodes = 4, .scheme = "rep:2", .inline_max_bytes = 1024, .partitions = 16,
              .network = {.scan_delay_max = 290ms}},
  .workload = {.clients = 4, .keys = 8, .operations = 40, .think_max = 200ms, .expiring = 0},
  .faults = {.node_kills = 6, .quick_restarts = 0, .silent_kills = 0, .member_changes = 80,
             .until = 8s},
  .expect = {.records_only = true}};

constexpr Scenario kUpdatesOnly{
  .about = "parts of values of several segments are written, again and again",
  .cluster = {.proxies = 2},
  .workload = {.keys = 2, .operations = 30,
               .weights = {40, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40}, .expiring = 0, .large = 1,
               .segments = 4, .whole_segments = true},
  .faults = {.node_kills = 1, .proxy_kills = 1, .until = 6s}};

constexpr Scenario kUpdatedValues{
  .about = "values of one key are replaced, by what they are and not, among their updates",
  .cluster = {.proxies = 3, .network = {.slow = 0.2, .late = 0.02}},
  .workload = {.clients = 5, .keys = 1, .operations = 30, .think_max = 30ms,
               .weights = {24, 16, 0, 2, 4, 2, 16, 0, 0, 2, 0, 40}, .expiring = 0, .large = 1,
               .segments = 2},
  .faults = {.node_kills = 1, .proxy_kills = 1, .proxy_pauses = 1}};

constexpr Scenario kRepeatedUpdates{
  .about = "updates whose answers are lost, or come late",
  .cluster = {.proxies = 3, .network = {.drop_reply = 0.05, .duplicate = 0.1, .late = 0.05}},
  .workload = {.clients = 5, .keys = 1, .operations = 30, .think_max = 30ms,
               .weights = {30, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60}, .expiring = 0, .large = 1,
               .segments = 1},
  .faults = {.node_kills = 1, .link_cuts = 2}};

constexpr Scenario kFoldedUpdates{
  .about = "updates whose answers are lost, and that are folded before they are sent again",
  .cluster = {.proxies = 3, .network = {.drop_reply = 0.08, .late = 0.02}, .fold_after = 30ms},
  .workload = {.clients = 5, .keys = 1, .operations = 30, .think_max = 60ms,
               .weights = {30, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60}, .expiring = 0, .large = 1,
               .segments = 1}};

constexpr Scenario kTorn{
  .about = "updates that overlap, whose tails and proxies die before all copies have them",
  .cluster = {.nodes = 7, .proxies = 3, .network = {.slow = 0.3, .late = 0.02}},
  .workload = {.clients = 6, .keys = 1, .operations = 24, .think_max = 20ms,
               .weights = {44, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 54}, .expiring = 0, .large = 1,
               .segments = 1},
  .faults = {.node_stalls = 2, .quick_restarts = 0.2, .appender_kills = 0.05}};

constexpr Scenario kTornFolds{
  .about = "updates that tails refuse, or that come late, are folded, and whose tails die",
  .cluster = {.nodes = 7, .proxies = 3,
              .network = {.drop_reply = 0.01, .duplicate = 0.1, .slow = 0.2, .late = 0.05},
              .fold_after = 30ms},
  .workload = {.clients = 6, .keys = 1, .operations = 40, .think_max = 30ms,
               .weights = {40, 1, 0, 0, 0, 0, 0, 0, 0, 0, 4, 55}, .expiring = 0, .large = 1,
               .segments = 1},
  .faults = {.node_kills = 2, .node_stalls = 2, .quick_restarts = 0.2, .appender_kills = 0.03}};

constexpr Scenario kMovingLogs{
  .about = "updates while the homes of their records change all the time",
  .cluster = {.nodes = 7, .proxies = 3, .network = {.drop_reply = 0.01, .late = 0.02}},
  .workload = {.clients = 4, .keys = 2, .operations = 40,
               .weights = {34, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 60}, .expiring = 0, .large = 1,
               .segments = 2},
  .faults = {.node_kills = 3, .node_stalls = 4, .link_cuts = 2, .quick_restarts = 0.3,
             .member_changes = 30, .appender_kills = 0.01, .until = 7s}};

// A middle is no copy, and has what the last sync has brought.
constexpr Scenario kMovingLogsOfTwo{
  .about = "updates with two copies of a log while homes change all the time",
  .cluster = {.nodes = 7, .proxies = 3, .log_copies = LogCopies::kTwo,
              .network = {.drop_reply = 0.01, .late = 0.02}},
  .workload = {.clients = 4, .keys = 2, .operations = 40,
               .weights = {34, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 60}, .expiring = 0, .large = 1,
               .segments = 2},
  .faults = {.node_kills = 1, .quick_restarts = 0.3, .member_changes = 30, .until = 7s}};

constexpr Scenario kMovingFolds{
  .about = "updates that are folded while the homes of their records change all the time",
  .cluster = {.nodes = 7, .proxies = 3, .network = {.drop_reply = 0.02, .late = 0.02},
              .fold_after = 60ms},
  .workload = {.clients = 4, .keys = 2, .operations = 40,
               .weights = {34, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 60}, .expiring = 0, .large = 1,
               .segments = 2},
  .faults = {.node_kills = 3, .node_stalls = 4, .link_cuts = 2, .proxy_kills = 2,
             .quick_restarts = 0.3, .member_changes = 30, .appender_kills = 0.01, .until = 7s}};

constexpr Scenario kPausedTransitions{
  .about = "transitions stop between their prepare and their commit",
  .cluster = {.nodes = 5, .proxies = 4, .scheme = "ers:2,1,3", .write_state = WriteState::kAsBefore,
              .network = {.late = 0.01}},
  .workload = {.clients = 4, .keys = 3, .operations = 14, .think_max = 1500ms,
               .weights = {5, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0}, .transitions = 70, .expiring = 0,
               .large = 1, .segments = 1},
  .faults = {.stager_pauses = 0.3, .until = 12s, .longest = 3s, .at_decider = 0.3},
  .expect = {.scrub = false}};

// Reclaim collects what nothing refers to only after that. Leaks are not looked for: shards that no
// transition has staged are not collected.
constexpr Scenario kShortPauses{
  .about = "transitions stop for less time than reclaim waits",
  .cluster = {.nodes = 5, .proxies = 4, .scheme = "ers:2,1,3", .write_state = WriteState::kAsBefore,
              .network = {.late = 0.01}},
  .workload = {.clients = 4, .keys = 3, .operations = 14, .think_max = 1500ms,
               .weights = {5, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0}, .transitions = 70, .expiring = 0,
               .large = 1, .segments = 1},
  .faults = {.stager_pauses = 0.3, .until = 12s, .longest = 700ms, .at_decider = 0.3},
  .expect = {.scrub = false, .check_leaks = false}};

// clang-format on

// A rule's scenario has a name of its own.
constexpr Rule rule(Mutant mutant, std::string_view mutant_name, std::string_view sentence,
                    std::string_view scenario_name, Scenario scenario,
                    Rule::Purpose purpose = Rule::Purpose::kTruth) {
  scenario.name = scenario_name;
  return {mutant, mutant_name, sentence, scenario, purpose};
}

#define RULE(mutant, ...) rule(Mutant::mutant, #mutant, __VA_ARGS__)
constexpr Rule kRules[] = {
    RULE(kIgnoreEpoch, "rule 1: a node that serves any epoch serves deposed proxies", "epoch",
         kContestedMaps),
    RULE(kIgnoreIncarnation, "rule 1: an empty node must not answer for its predecessor",
         "incarnation", kQuickRestarts),
    RULE(kChangesOfAnyBase,
         "rule 1: a map comes of its changes only where they are of the map before", "map-changes",
         kFollowed, Rule::Purpose::kMaps),
    RULE(kServeBeforeInstalled, "rule 2: a map is served only once every survivor has it",
         "install", kLateMaps),
    RULE(kAnswerUnsynced, "rule 3: an unsynced partition has no misses", "unsynced", kUsual),
    RULE(kLostIsMiss, "rule 3: a LOST partition has no misses", "lost-miss", kTooManyDeaths),
    RULE(kIgnoreLease, "rule 4: a node past its lease serves nothing", "lease", kContestedMaps),
    RULE(kSkipLeaseWait, "rule 4: the lease of an excluded node is waited out", "lease-wait",
         kContestedMaps),
    RULE(kForgetLeases, "rule 4: a takeover waits out the longest lease that there may be",
         "shorter-leases", kShorterLeases),
    RULE(kBeginUnelected, "elections: of those who wait, the one begins that etcd has elected",
         "elected", kEtcdElections, Rule::Purpose::kProgress),
    RULE(kNeverGiveWay, "takeover: who waits in vain gives way to who serves", "declared-dead",
         kDeclaredDead, Rule::Purpose::kProgress),
    // Who follows (docs/decider.md). That a follower takes no map of another cluster has no mutant:
    // strays have no decider, so none of them has a lease, by which it would be followed. What a
    // follower that is behind asks for is refused by rule 1.
    RULE(kFollowUnleased, "following: a map is served when its members have it", "unleased",
         kFollowed, Rule::Purpose::kMaps),
    RULE(kFollowBack, "following: it never goes back to an older map", "back", kLateAnswers,
         Rule::Purpose::kMaps),
    RULE(kFollowForever, "following: it serves nothing once no node has a lease for long",
         "without-leases", kUndecided, Rule::Purpose::kMaps),
    RULE(kBeginImpatiently, "following: nobody begins of whom nodes hear that there is a decider",
         "impatient", kFollowed, Rule::Purpose::kMaps),
    RULE(kServeUnfollowed, "settings: a map is served by the settings that it has", "unfollowed",
         kPassedOver, Rule::Purpose::kMaps),
    RULE(kSuspectIsSource, "rule 4: a returned suspect's records are old", "suspect",
         kContestedMaps),
    RULE(kTrustOldReports, "rule 3: a loss is declared by what nodes tell under the map before it",
         "old-reports", kRollingUpgrade),
    RULE(kServeBeyond, "upgrades: a proxy serves no map that uses more than it can", "serve-beyond",
         kMixedProxies, Rule::Purpose::kProgress),
    RULE(kTrustWords, "rule 4: a word about a node does not count for the majority that acts on it",
         "wrong-words", kWrongWords),
    RULE(kCountLeftForDead,
         "rule 4: who was taken for dead does not tell that there is no later map", "left-for-dead",
         kWrongWords),
    RULE(kTimeoutIsLoss, "rule 4: a timeout makes nothing LOST", "last-copy", kSilences),
    RULE(kSyncOneSource, "rule 3: sync takes the maximum of all sources", "sync-source",
         kSlowSweeps),
    RULE(kMarkBeforeStored, "rule 3: synced means that every home has stored", "mark", kUsual),
    RULE(kConfirmAny, "rule 3: what a node had counts again only if it is the newest", "confirm",
         kOldCopies),
    RULE(kFullIsStored, "rule 3: a home that has no room has not stored", "full-home", kFullHomes),
    RULE(kBlindHead, "rule 5: the head compares the expected version", "blind-head", kUsual),
    RULE(kStoreAnyVersion, "rule 5: a store never lowers a version", "store", kUsual),
    RULE(kAckBeforeTail, "rule 5: a write is acknowledged after the tail has it", "ack", kUsual),
    RULE(kReadHead, "rule 5: reads are decided at the tail", "read-head", kUsual),
    RULE(kMismatchIsFailure, "rule 6: a mismatch may hide one's own commit", "mismatch", kUsual),
    RULE(kAttemptIsTxid, "rule 6: an attempt's id is not its data_txid", "attempt-id", kIdleFences),
    RULE(kResendAlways, "rule 6: an unconditional commit is never sent twice", "resend",
         kBadNetwork),
    RULE(kTimeoutIsNotDone, "rule 6: an unknown outcome is told as unknown", "not-done",
         kDeathsOfHeads),
    RULE(kRestampEpoch, "rule 6a: an operation in flight keeps its epoch", "restamp",
         kDeathsOfHeads),
    RULE(kRetryOldMap, "rule 6a: a try that failed is made again under the newest map", "retry",
         kLateReturns, Rule::Purpose::kProgress),
    RULE(kNoReprepare, "rule 6a: shards are confirmed in the epoch of their commit", "reprepare",
         kSlowUploads),
    RULE(kTrustBytes, "a damaged copy is no copy", "damage", kDamage),
    RULE(kIgnoreFence, "rule 7: a fenced transaction does not commit", "fence", kCutUploads),
    RULE(kReclaimWithoutFence, "rule 7: deleting orphans without a fence loses data",
         "reclaim-fence", kCutUploads),
    RULE(kReclaimByTimer, "rule 7: a timer alone never drops anything", "reclaim-timer",
         kCutUploads),
    RULE(kReclaimQuietKeys, "rule 7: what is left behind goes, however busy its key is",
         "quiet-keys", kBusyKeys, Rule::Purpose::kNoLeaks),
    RULE(kDeleteBeforeTail, "rule 8: superseded shards stay until the tail has the commit",
         "superseded", kDeathsInCommits),
    RULE(kNoReread, "rule 8: a reader that misses shards reads the record again", "reread",
         kPausedReaders),
    RULE(kMixVersions, "rule 8: in mid-stream a reader goes on with the same value only",
         "mixed-versions", kSlowReaders),
    RULE(kKeepFencedShards, "rule 7: a fenced upload starts again under another data_txid",
         "fenced-shards", kIdleUploads),
    RULE(kLateBase, "rule 7: the base is known before the first shard is written", "late-base",
         kIdleUploads),
    RULE(kNoRebuild, "rule 6a: shards that nodes do not confirm are written again", "rebuild",
         kInterruptedUploads),
    RULE(kRelabelAcks, "rule 6a: acknowledgements keep the epoch they were given in", "relabel",
         kInterruptedUploads),
    RULE(kAbandonUnknown, "rule 6: the shards of an unknown outcome are kept", "abandon",
         kLostAnswers),
    RULE(kDeleteForgets, "rule 9: a DELETE leaves a tombstone", "delete", kUsual),
    RULE(kTrustOwnClock, "expiry: what is collected has expired by the clock in the middle",
         "own-clock", kWrongClocks),
    RULE(kDropWithoutFloor, "rule 9: tombstones go only after the floor was raised", "floor",
         kLateCommits),
    RULE(kSyncForgetsFloor, "rule 9: sync transfers the floor", "sync-floor", kOrphansOfMissing,
         Rule::Purpose::kNoLeaks),
    RULE(kCommitBeforeStaged, "rule 26: a transition commits when all its parities are staged",
         "staged", kTransitionsOnly),
    RULE(kOverwriteParities, "rule 26: new parities do not replace the old ones in place",
         "in-place", kTransitionsOnly),
    RULE(kReuseParityTxid, "rule 26: every transition has a parity_txid of its own", "parity-txid",
         kTransitionsOnly),
    RULE(kReshapeIsTxid, "rule 6: a transition's attempt_id is not its data_txid", "reshape-id",
         kTransitionsOnly),
    RULE(kReshapeIgnoresFence, "rule 7: a fenced transition does not commit", "transition-fence",
         kPausedTransitions),
    RULE(kDropStaged, "rule 7: a timer alone never drops staged parities", "staged-timer",
         kShortPauses),
    RULE(kIgnoreGeneration, "rule 26: a reader uses the generation that the record names",
         "generation", kTransitionsOnly),
    RULE(kReuseShardNames, "rule 28: what a repair writes has a name of its own", "shard-names",
         kRepairs),
    RULE(kLogSurvivesSet, "rule 11: a log is of one value", "logs-of-values", kUpdatedValues),
    RULE(kAnyValue, "rule 11: an update is made of the value that it is for", "stale-updates",
         kUpdatedValues),
    RULE(kCopyTakesAll, "rule 13: the head takes no update of a value that it has replaced",
         "overtaken-updates", kUpdatedValues),
    RULE(kCasIgnoresLog, "rule 13: a change that is made of a value is made of its updates",
         "cas-of-updates", kUpdatedValues),
    RULE(kAppendTwice, "rule 12: an update that was taken is not taken again", "twice",
         kRepeatedUpdates),
    RULE(kIgnoreReach, "rule 12: what may have been taken and forgotten is not taken",
         "forgotten-updates", kFoldedUpdates),
    RULE(kForgetAsked, "rule 12: what the tail may have taken is not taken for never taken",
         "asked-updates", kFoldedUpdates),
    RULE(kResendAsNewOp, "rule 12: an update keeps its name until it is known not to be made",
         "renamed-updates", kRepeatedUpdates),
    RULE(kReadUnsettled, "rule 10: a read returns what all copies have", "unsettled-reads", kTorn),
    RULE(kSettleOwnOnly, "rule 10: an update is settled with all before it", "gaps", kTorn),
    RULE(kSyncForgetsLog, "rule 14: logs move with their records", "left-logs", kMovingLogs),
    RULE(kSyncLowestLog, "rule 14: of two images of a log the newer counts", "old-logs",
         kMovingLogsOfTwo),
    RULE(kRefuseUncancelled, "rule 16: what the tail refuses is forgotten by the copies",
         "uncancelled", kTornFolds),
    RULE(kSyncForgetsUnnumbered, "rule 14: what has no number yet moves with its log", "unnumbered",
         kTorn),
    RULE(kSyncIgnoresEpochs, "rule 14: logs of homes that have missed a sync do not count",
         "missed-syncs", kMovingFolds),
    RULE(kCasIgnoresUnnumbered, "rule 13: what has no number yet is an update of the value",
         "cas-without-numbers", kUpdatedValues),
    RULE(kUnnumberedIgnoresReach, "rule 16: a copy takes nothing that it may have forgotten",
         "late-copies", kTornFolds),
    RULE(kFoldUnsettled, "rule 15: only what is settled is folded", "unsettled-folds", kTornFolds),
    RULE(kFoldDropsLog, "rule 15: what a fold has not taken stays in the log", "dropped-logs",
         kFoldedUpdates),
    RULE(kUpdateDropsAll,
         "rule 31: an update deletes the shards that it has replaced, and no others",
         "update-drops", kUpdatesOnly),
    RULE(kRemoveUndrained, "rule 29: a node is removed when it has nothing", "comings", kComings),
    RULE(kMoveFromHalfSynced, "rule 30: only homes that have all of a partition hand it on",
         "slow-moves", kSlowMoves),
    RULE(kReadFlushed, "rule 27: reads do not see what was flushed", "read-flushed",
         kFlushedValues),
    RULE(kChangeFlushed, "rule 27: what was flushed is absent for every change", "change-flushed",
         kFlushedValues),
    RULE(kExtendFlushed, "rule 27: nothing is made of a value that was flushed meanwhile",
         "extend-flushed", kFlushedValues),
    RULE(kTouchRevives, "rule 27: a flush asks for the version of the value, not of the record",
         "touch-revives", kFlushedValues),
    RULE(kForgetFlush, "rule 27: who takes over keeps the flush floor", "forget-flush",
         kFlushTakeover),
    RULE(kFlushUnserved, "rule 27: a flush is acknowledged when its map is served",
         "flush-unserved", kFlushedValues),
    RULE(kRepeatFlush, "rule 27: a flush that may have been done is not asked for again",
         "repeat-flush", kFlushContested),
    RULE(kRepeatTask, "rule 27: a flush that another proxy asks for is done once", "repeat-task",
         kFlushFollowed),
    RULE(kChangeUnserved, "settings: a change is acknowledged when its map is served",
         "unserved-change", kPassedOver),
    RULE(kLeaveJobs, "jobs: who decides next goes on with the job that is left", "left-jobs", kJobs,
         Rule::Purpose::kProgress),
    RULE(kBeginTwice, "jobs: what is asked for again by its token is begun once", "begun-twice",
         kJobs),
    RULE(kUncancel, "jobs: what was cancelled is not begun again", "cancelled-jobs", kJobs),
    RULE(kAnswerUntold, "jobs: what is answered can be learnt by others", "untold-jobs", kJobs),
    RULE(kRefuseMaybeDone, "jobs: what may have been begun is not told as refused", "refused-jobs",
         kJobs),
};
#undef RULE

}  // namespace

std::span<const Rule> rules() { return kRules; }

const Rule* find_rule(std::string_view mutant_name) {
  const auto it = std::ranges::find(rules(), mutant_name, &Rule::mutant_name);
  return it == rules().end() ? nullptr : &*it;
}

}  // namespace elastripe::sim
