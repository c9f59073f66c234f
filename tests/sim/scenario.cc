#include "tests/sim/scenario.h"

#include <algorithm>

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

Scenario mixed() {
  Scenario s;
  s.name = "mixed";
  s.about = "everything at once, at ERS(2,2,3)";
  s.weights[static_cast<size_t>(Verb::kTransition)] = 4;
  s.streams.share = 0.1;
  s.ranges = 0.2;
  return s;
}

Scenario inline_records() {
  Scenario s;
  s.name = "inline";
  s.about = "small values only: records, three times, and no shards";
  s.scheme = "rep:3";
  s.inline_max_bytes = 1024;
  s.nodes = 5;
  s.keys = 1;
  s.clients = 4;
  return s;
}

Scenario single_parity() {
  Scenario s;
  s.name = "m1";
  s.about = "RS(2,1): two homes, one loss";
  s.scheme = "rs:2,1";
  s.nodes = 4;
  s.keys = 1;
  return s;
}

Scenario membership() {
  Scenario s;
  s.name = "membership";
  s.about = "many stalls, cuts and changes of the decider, maps that come late";
  s.node_stalls = 4;
  s.link_cuts = 6;
  s.proxy_kills = 2;
  s.proxy_pauses = 4;
  s.proxies = 3;
  s.at_decider = 0.7;
  s.map_delay_max = seconds(2);
  s.keys = 1;
  return s;
}

Scenario calm() {
  Scenario s;
  s.name = "calm";
  s.about = "no crash; the network delays, drops and duplicates";
  s.node_kills = s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.network.drop = s.network.drop_reply = 0.02;
  s.network.duplicate = 0.05;
  s.network.late = 0.02;
  s.network.slow = 0.2;
  s.keys = 1;
  s.think_max = milliseconds(40);
  return s;
}

Scenario uploads() {
  Scenario s;
  s.name = "uploads";
  s.about = "large values, proxies that die or stop in mid-upload, and reclaim";
  s.large = 1;
  s.proxy_kills = 3;
  s.proxy_pauses = 3;
  s.node_kills = 1;
  s.proxies = 3;
  s.keys = 1;
  s.at_decider = 0.2;
  s.network.late = 0.02;
  s.faults_until = seconds(6);
  s.operations = 16;
  s.think_max = milliseconds(400);
  return s;
}

Scenario lost() {
  Scenario s;
  s.name = "lost";
  s.about = "more memory is lost than the scheme survives: errors, but no lies";
  s.scheme = "rep:2";
  s.inline_max_bytes = 1024;
  s.nodes = 4;
  s.node_kills = 6;
  s.silent_kills = 0.1;
  s.beyond_promise = true;
  s.check_leaks = false;
  return s;
}

// Keys of three pools; as many nodes lose their memory as one of them survives.
Scenario pools() {
  Scenario s;
  s.name = "pools";
  s.about =
      "ERS(4,2,5), RS(2,1) and two replicas in one cluster, and more losses than some survive";
  s.scheme = "ers:4,2,5";
  s.more_pools = {{.prefix = "weak-", .scheme = "rs:2,1"},
                  {.prefix = "copies-", .scheme = "rep:2", .inline_max_bytes = 8}};
  s.nodes = 8;
  s.keys = 3;
  s.clients = 4;
  s.weights[static_cast<size_t>(Verb::kTransition)] = 8;
  return s;
}

Scenario memory() {
  Scenario s;
  s.name = "memory";
  s.about = "nodes that are full in mid-upload, and are filled, and die, in the end";
  s.scheme = "ers:2,1,3";
  s.nodes = 5;
  s.node_memory = {.limit_bytes = 16 << 10, .reserve_bytes = 8 << 10};
  s.segment_bytes = 512;
  s.inline_max_bytes = 256;
  s.keys = 9;
  s.clients = 3;
  s.operations = 16;
  s.large = 0.9;
  s.weights = {20, 50, 5, 2, 5, 2, 2, 1, 1, 5, 2, 6};
  s.think_max = milliseconds(100);
  s.node_kills = 1;
  s.fill_nodes = true;
  s.share = 0.5;  // slow
  return s;
}

// Records, and nothing else, at all the room that there is.
Scenario full() {
  Scenario s;
  s.name = "full";
  s.about = "nodes that die while no other has room for their records";
  s.scheme = "rep:2";
  s.nodes = 4;
  s.node_memory = {.limit_bytes = 16 << 10, .reserve_bytes = 8 << 10};
  s.inline_max_bytes = 1024;
  s.segment_bytes = 300;  // a third of what fills the nodes
  s.partitions = 16;
  s.keys = 24;
  s.clients = 3;
  s.operations = 30;
  s.large = 0.7;
  s.weights = {20, 50, 5, 2, 5, 2, 2, 1, 1, 5, 2};
  s.think_max = milliseconds(60);
  s.fill_nodes = true;
  s.share = 0.5;  // slow
  return s;
}

Scenario answers() {
  Scenario s;
  s.name = "answers";
  s.about = "nodes that die at the instant in which a client is told that its write is done";
  s.more_pools = {{.prefix = "copies-", .scheme = "rep:3", .inline_max_bytes = 1024}};
  s.nodes = 7;
  s.keys = 4;
  s.answer_kills = 0.4;
  s.node_kills = 0;
  s.silent_kills = 0.2;
  s.weights = {20, 40, 4, 4, 6, 3, 8, 6, 2, 10, 4, 4};
  return s;
}

Scenario takeover() {
  Scenario s;
  s.name = "takeover";
  s.about =
      "nodes that stay dead, one after the other, and deciders that take over from each other";
  s.scheme = "rep:2";
  s.inline_max_bytes = 1024;
  s.nodes = 3;
  s.records_only = true;
  s.burials = 2;
  s.successions = 0.6;
  s.silent_kills = 0;
  s.node_kills = 1;
  s.node_stalls = 0;
  s.proxy_kills = 1;
  s.keys = 3;
  s.operations = 20;
  s.faults_until = seconds(6);
  return s;
}

Scenario growth() {
  Scenario s = takeover();
  s.name = "growth";
  s.about = "deciders that start with further nodes in their configuration while others are dead";
  s.nodes = 2;
  s.joiners = 3;
  s.burials = 3;
  return s;
}

// Nobody refuses connections for them: maps are made while a majority answers.
Scenario vanished() {
  Scenario s = takeover();
  s.name = "vanished";
  s.about = "machines that vanish one after the other, for good, without refusing anything";
  s.nodes = 7;
  s.burials = 3;
  s.silent_kills = 0.8;
  s.node_stalls = 1;
  return s;
}

Scenario forced() {
  Scenario s = takeover();
  s.name = "forced";
  s.about = "deciders that are told that the silent nodes are dead, be they most of all";
  s.scheme = "rep:3";
  s.nodes = 5;
  s.burials = 4;
  s.silent_kills = 0.8;
  s.forced = 0.5;
  s.node_kills = s.link_cuts = 0;
  return s;
}

Scenario domains() {
  Scenario s;
  s.name = "domains";
  s.about = "nodes that share failure domains, which die as a whole";
  s.nodes = 11;
  s.domains = 6;
  s.domain_kills = 0.7;
  s.node_kills = 4;
  s.silent_kills = 0;
  s.weights[static_cast<size_t>(Verb::kTransition)] = 4;
  return s;
}

Scenario clocks() {
  Scenario s;
  s.name = "clocks";
  s.about = "wall clocks that differ by hours, and step";
  s.proxies = 3;
  s.clock_steps = 6;
  s.wrong_clocks = 0.5;
  s.expiring = 0.5;
  s.long_expiry = 0.7;
  s.keys = 3;
  s.proxy_kills = 0;
  s.node_kills = 1;
  return s;
}

Scenario busy_keys() {
  Scenario s;
  s.name = "busy-keys";
  s.about = "shards that uploads leave behind, of keys that are written all the time";
  s.proxies = 3;
  s.proxy_kills = 4;
  s.at_decider = 0.4;
  s.network.drop_reply = 0.02;
  s.operations = 10;
  s.think_max = milliseconds(500);
  s.weights = {10, 60, 4, 2, 2, 2, 2, 1, 1, 6, 2};
  s.large = 0.9;
  s.write_on = true;
  return s;
}

Scenario restarts() {
  Scenario s;
  s.name = "restarts";
  s.about = "proxies that all start again with other pools, of more or fewer parities";
  s.scheme = "ers:2,2,3";
  s.other_scheme = "rs:2,1";
  s.more_pools = {{.prefix = "copies-", .scheme = "rep:2", .inline_max_bytes = 1024}};
  s.nodes = 7;
  s.keys = 4;
  s.restarts = 3;
  s.node_kills = 3;
  return s;
}

Scenario strays() {
  Scenario s = takeover();
  s.name = "strays";
  s.about = "processes of another cluster at the addresses of dead nodes";
  s.nodes = 4;
  s.strays = 0.8;
  s.returns = 0.5;
  return s;
}

Scenario stuck_threads() {
  Scenario s;
  s.name = "stuck-threads";
  s.about = "nodes that answer heartbeats, and no data frame";
  s.node_sticks = 4;
  s.node_kills = 1;
  s.node_stalls = 0;
  s.faults_until = seconds(6);
  s.operations = 16;
  s.think_max = milliseconds(300);
  return s;
}

Scenario bits() {
  Scenario s;
  s.name = "bits";
  s.about = "stored records whose bits flip, at one home of a key at a time";
  s.more_pools = {{.prefix = "copies-", .scheme = "rep:3", .inline_max_bytes = 1024}};
  s.keys = 4;
  s.bit_flips = 16;
  s.node_kills = 2;
  return s;
}

Scenario three_losses() {
  Scenario s;
  s.name = "three-losses";
  s.about = "ERS(2,3,3) and four replicas: three nodes may be gone at once";
  s.scheme = "ers:2,3,3";
  s.more_pools = {{.prefix = "copies-", .scheme = "rep:4", .inline_max_bytes = 1024}};
  s.nodes = 8;
  s.node_kills = 5;
  s.keys = 4;
  s.weights[static_cast<size_t>(Verb::kTransition)] = 6;
  return s;
}

// What production reaches with millions of keys.
Scenario scale() {
  Scenario s;
  s.name = "scale";
  s.about = "more keys than a frame of a scan holds, in few hash buckets";
  s.more_pools = {{.prefix = "copies-", .scheme = "rep:3", .inline_max_bytes = 1024}};
  s.node_memory.buckets = 3;
  s.node_memory.buckets_per_walk = 1;
  s.node_memory.scan = {.walks_per_frame = 1, .record_bytes = 400, .shards = 3};
  s.partitions = 8;
  s.keys = 40;
  s.clients = 4;
  s.operations = 40;
  s.think_max = milliseconds(60);
  s.weights = {20, 50, 4, 2, 4, 2, 4, 2, 1, 20, 2};
  s.share = 0.5;  // slow
  return s;
}

Scenario degraded() {
  Scenario s;
  s.name = "degraded";
  s.about = "writes with too few nodes, in a pool that takes them";
  s.degraded_writes = true;
  s.nodes = 5;
  s.node_kills = 4;
  s.quick_restarts = 0.1;
  s.node_stalls = 2;
  s.link_cuts = 1;
  s.proxy_pauses = 0;
  s.fault_max = seconds(4);
  s.operations = 16;
  s.weights[static_cast<size_t>(Verb::kTransition)] = 8;
  return s;
}

Scenario accept_loss() {
  Scenario s;
  s.name = "accept-loss";
  s.about = "more than m nodes die at once, and the operator accepts the loss";
  s.scheme = "ers:2,1,3";
  s.nodes = 5;
  s.keys = 4;
  s.node_kills = 2;
  s.catastrophes = 1;
  s.silent_kills = 0.1;
  s.large = 0.3;
  s.beyond_promise = true;
  s.accept_loss = true;
  s.weights[static_cast<size_t>(Verb::kTransition)] = 8;
  return s;
}

Scenario transitions() {
  Scenario s;
  s.name = "transitions";
  s.about = "objects of up to three windows transition, there and back, under clients and crashes";
  s.more_pools = {{.prefix = "stripes-", .scheme = "srs:2,2,4"},
                  {.prefix = "rows-", .scheme = "ers-1:3,2,5"}};
  s.nodes = 8;
  s.proxies = 3;
  s.keys = 3;
  s.clients = 4;
  s.operations = 14;
  s.large = 0.9;
  s.segments = 9;
  s.weights = {24, 14, 2, 2, 3, 2, 4, 3, 1, 3, 6, 36};
  s.committer_kills = 0.02;
  s.proxy_kills = 2;
  s.proxy_pauses = 3;
  s.at_decider = 0.3;
  s.network.late = 0.01;
  return s;
}

// Values of many segments, in and out part by part, while nodes die, maps change, and others write
// the same keys: clients stop for longer than read_grace, reclaim waits and any lease lasts.
Scenario streaming() {
  Scenario s;
  s.name = "streaming";
  s.about = "values that come and go part by part, for as long as their clients like";
  s.scheme = "ers:2,2,3";
  s.nodes = 7;
  s.proxies = 3;
  s.keys = 2;
  s.clients = 5;
  s.operations = 12;
  s.large = 0.9;
  s.segments = 7;
  s.whole_segments = true;
  s.proxy_memory.staged_bytes = 1200;  // of a few segments
  s.streams.share = 0.8;
  s.ranges = 0.2;
  s.weights = {34, 34, 3, 3, 6, 4, 6, 0, 0, 6, 3, 8};
  s.read_grace = milliseconds(250);
  s.upload_idle = milliseconds(340);
  s.node_kills = 4;
  s.quick_restarts = 0.6;
  s.proxy_kills = 2;
  s.proxy_pauses = 2;
  s.at_decider = 0.3;
  s.faults_until = seconds(8);
  return s;
}

}  // namespace

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> kAll{
      mixed(),         inline_records(), single_parity(), membership(), calm(),     uploads(),
      lost(),          pools(),          memory(),        full(),       degraded(), accept_loss(),
      transitions(),   streaming(),      answers(),       takeover(),   growth(),   vanished(),
      forced(),        domains(),        clocks(),        busy_keys(),  restarts(), strays(),
      stuck_threads(), bits(),           three_losses(),  scale()};
  return kAll;
}

const Scenario* find_scenario(std::string_view name) {
  const auto it = std::ranges::find(scenarios(), name, &Scenario::name);
  if (it != scenarios().end()) return &*it;
  for (const Rule& rule : rules()) {
    if (rule.scenario.name == name) return &rule.scenario;
  }
  return nullptr;
}

const Rule* find_rule(std::string_view mutant_name) {
  const auto it = std::ranges::find(rules(), mutant_name, &Rule::mutant_name);
  return it == rules().end() ? nullptr : &*it;
}

}  // namespace elastripe::sim
