// The rules, each with the scenario that shows what goes wrong without it.
#include <algorithm>

#include "tests/sim/scenario.h"

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// A named copy of one of the random scenarios, to be sharpened.
Scenario based_on(std::string_view base, std::string name) {
  Scenario s = *std::find_if(scenarios().begin(), scenarios().end(),
                             [&](const Scenario& other) { return other.name == base; });
  s.about = "for the rule of the same name";
  s.name = std::move(name);
  s.weights[static_cast<size_t>(Verb::kTransition)] = 0;
  if (base != "streaming") s.streams = {};
  return s;
}

// Nodes come back at once, as another process, while copies of old maps are on their way.
Scenario incarnation() {
  Scenario s = based_on("inline", "incarnation");
  s.network.install_echoes = 30;
  s.network.late_max = seconds(3);
  s.quick_restarts = 1;
  s.silent_kills = 0;
  s.node_kills = 4;
  s.records_only = true;
  s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.operations = 60;
  s.think_max = milliseconds(60);
  s.weights = {60, 30, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  return s;
}

// Two nodes come back together and a third dies before the slow sweep has finished.
Scenario sync_sources() {
  Scenario s = based_on("inline", "sync-source");
  s.nodes = 6;
  s.network.scan_delay_max = milliseconds(290);
  s.records_only = true;
  s.restart_every = seconds(1);
  s.silent_kills = 0;
  s.node_kills = 12;
  s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.operations = 60;
  s.think_max = milliseconds(80);
  s.faults_until = seconds(6);
  s.weights = {40, 40, 2, 2, 6, 2, 2, 2, 2, 2, 2};
  return s;
}

// A node that has not got a map in which it is no home any more, and serves the one before. Sync
// asks every live home of the map before, so it keeps all unsynced homes silent until that node has
// the new map, too. What needs no sync are blind SETs to a LOST partition: its homes are replaced
// by nodes that return, and while its old tail still answers, the new ones take a SET.
Scenario served_too_soon() {
  Scenario s = based_on("lost", "install");
  s.keys = 4;
  s.proxies = 3;
  s.clients = 16;
  s.operations = 80;
  s.think_max = milliseconds(250);
  s.weights = {80, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  s.expiring = 0;
  s.catastrophes = 10;
  s.quick_restarts = 0;
  s.restart_every = seconds(2);
  s.restart_cuts = 0.5;
  s.fault_max = milliseconds(1);
  s.node_kills = s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.map_delay_max = seconds(2);
  s.faults_until = seconds(10);
  return s;
}

// Answers of the head that come slowly, so that epochs change in mid-commit.
Scenario slow_commits(std::string name) {
  Scenario s = based_on("inline", std::move(name));
  s.records_only = true;
  s.network.slow = 0.4;
  s.network.slow_max = milliseconds(280);
  s.silent_kills = 0;
  s.node_kills = 6;
  s.node_stalls = 0;
  s.map_delay_max = milliseconds(20);
  s.operations = 25;
  s.think_max = milliseconds(50);
  return s;
}

// Uploads that take long, while nodes lose their memory.
Scenario slow_uploads(std::string name) {
  Scenario s = based_on("uploads", std::move(name));
  s.network.slow = 0.4;
  s.network.slow_max = milliseconds(280);
  s.node_kills = 6;
  s.node_stalls = 0;
  s.silent_kills = 0;
  s.quick_restarts = 0.8;
  s.keys = 3;
  s.operations = 8;
  s.weights = {10, 60, 2, 2, 2, 2, 2, 0, 0, 2, 2};
  s.faults_until = seconds(3);
  return s;
}

// Large values, one after the other, whose proxies die when the head has decided.
Scenario deaths_in_commits(std::string name) {
  Scenario s = based_on("uploads", std::move(name));
  s.network.slow = 0.3;
  s.committer_kills = 0.1;
  s.weights = {20, 60, 2, 2, 2, 2, 2, 0, 0, 2, 2};
  return s;
}

// Heads that die right after they have decided, before the other homes have it.
Scenario deaths_of_heads(std::string name) {
  Scenario s = slow_commits(std::move(name));
  s.head_kills = 0.15;
  s.clients = 3;
  s.operations = 10;
  s.weights = {10, 10, 2, 2, 4, 20, 2, 40, 2, 2, 2};
  return s;
}

// Commits that come very late, within their epoch: after reclaim has dealt with their shards.
Scenario late_commits(std::string name) {
  Scenario s = based_on("uploads", std::move(name));
  s.network.late = 0.08;
  s.network.late_max = seconds(10);
  s.node_kills = s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.faults_until = seconds(16);
  s.think_max = seconds(1);
  s.expiring = 0;
  s.weights = {20, 50, 2, 2, 2, 2, 2, 0, 0, 30, 2};
  return s;
}

// What a fence that does nothing leaves behind is a leak at best: here, only lost data counts.
Scenario fences_that_do_nothing() {
  Scenario s = late_commits("attempt-id");
  s.network.late = 0.03;
  s.check_leaks = false;
  s.weights = {20, 50, 2, 2, 2, 2, 2, 0, 0, 2, 2};
  return s;
}

// Uploads that fail and leave shards behind, after the key's tombstone was dropped and a home was
// replaced: while the homes' floors differ, a fence that names one of them is refused. Nothing
// worse can come of it: a map's version_floor is above every version of earlier epochs, and shards
// are confirmed in the epoch of their commit, so neither goes back with a floor that was forgotten.
Scenario orphans_of_missing() {
  Scenario s = based_on("uploads", "sync-floor");
  s.network.drop = 0.02;
  s.node_kills = 12;
  s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.clients = 2;
  s.operations = 14;
  s.think_max = seconds(2);
  s.expiring = 0;
  s.faults_until = seconds(14);
  s.weights = {4, 5, 0, 60, 0, 0, 0, 0, 0, 10, 0};
  return s;
}

// Machines that fall silent, more than a map may exclude, and come back with all they had.
Scenario silences() {
  Scenario s = based_on("m1", "last-copy");
  s.upload_idle = milliseconds(1500);  // with rarer reclaim, clients meet more of what is LOST
  s.node_stalls = 8;
  s.node_kills = 2;
  s.link_cuts = 4;
  s.proxy_kills = s.proxy_pauses = 0;
  s.silent_kills = 0;
  s.quick_restarts = 0;
  s.faults_until = seconds(6);
  s.fault_max = seconds(4);
  // Who asks at once is told of the loss before the silence counts as a failure, too.
  s.clients = 5;
  s.operations = 60;
  s.think_max = milliseconds(40);
  return s;
}

// Readers that stop, between the record and its shards, for longer than those are kept.
Scenario paused_readers() {
  Scenario s = based_on("uploads", "reread");
  s.node_kills = s.node_stalls = s.link_cuts = s.proxy_kills = 0;
  s.proxy_pauses = 30;
  s.at_decider = 0;
  s.fault_max = milliseconds(1500);
  s.clients = 6;
  s.operations = 60;
  s.think_max = milliseconds(60);
  s.expiring = 0;
  s.weights = {50, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  return s;
}

// Nodes that are away for a while, and come back with records that were overwritten meanwhile.
Scenario returns_with_old_copies() {
  Scenario s = based_on("inline", "confirm");
  s.records_only = true;
  s.node_stalls = 8;
  s.node_kills = 2;
  s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.faults_until = seconds(6);
  s.fault_max = seconds(4);
  s.operations = 60;
  s.think_max = milliseconds(100);
  s.expiring = 0;
  s.weights = {40, 40, 2, 4, 4, 2, 2, 2, 2, 2, 2};
  return s;
}

// Little else than transitions and reads of one object, by several proxies.
Scenario transitions_only(std::string name) {
  Scenario s = based_on("transitions", std::move(name));
  s.more_pools.clear();
  s.nodes = 7;
  s.keys = 1;
  s.expiring = 0;
  s.large = 1;
  s.weights = {30, 14, 0, 0, 0, 0, 0, 0, 0, 0, 4, 52};
  s.scrub = false;  // a wrong parity is to be found by who needs it
  return s;
}

// Transitions that stop between their prepare and their commit.
Scenario paused_transitions(std::string name, Duration pause_max) {
  Scenario s = transitions_only(std::move(name));
  s.scheme = "ers:2,1,3";
  s.segments = 1;
  s.nodes = 5;
  s.proxies = 4;
  s.proxy_pauses = s.proxy_kills = s.node_kills = s.node_stalls = s.link_cuts = 0;
  s.committer_kills = 0;
  s.stager_pauses = 0.3;
  s.fault_max = pause_max;
  s.keys = 3;
  s.think_max = milliseconds(1500);
  s.faults_until = seconds(12);
  s.weights = {5, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 70};
  return s;
}

// For less time than reclaim waits before it collects what nothing refers to.
Scenario dropped_staging() {
  Scenario s = paused_transitions("staged-timer", milliseconds(700));
  s.check_leaks = false;  // shards that no transition has staged are not collected
  return s;
}

// Values that come part by part to keys that are hardly written otherwise, and stop coming for
// longer than reclaim waits: their shards are fenced, and die.
Scenario idle_uploads(std::string name) {
  Scenario s = based_on("streaming", std::move(name));
  s.node_kills = s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.streams.stops = 0.4;
  s.streams.cuts = 0;
  s.ranges = 0;
  s.segments = 3;
  s.upload_idle = milliseconds(140);
  s.weights = {20, 40, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0};
  return s;
}

// Values that come part by part while nodes lose their memory.
Scenario interrupted_uploads(std::string name) {
  Scenario s = based_on("streaming", std::move(name));
  s.network.slow = 0.3;
  s.network.slow_max = milliseconds(200);
  s.node_kills = 6;
  s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.silent_kills = 0;
  s.quick_restarts = 0.8;
  s.streams.share = 1;
  s.streams.stops = s.streams.cuts = 0;
  s.keys = 10;
  s.operations = 6;
  s.faults_until = seconds(3);
  s.weights = {10, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  return s;
}

// Commits whose answers are lost.
Scenario unknown_outcomes() {
  Scenario s = based_on("streaming", "abandon");
  s.network.drop_reply = 0.03;
  s.network.late = 0.03;
  s.network.slow = 0.3;
  s.network.slow_max = milliseconds(280);
  s.node_kills = 6;
  s.keys = 6;
  s.operations = 8;
  s.weights = {20, 50, 2, 2, 2, 2, 2, 0, 0, 4, 2, 0};
  return s;
}

// Readers that are slow, of values that are always of one size and overwritten soon.
Scenario slow_readers() {
  Scenario s = based_on("streaming", "mixed-versions");
  s.node_kills = s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.keys = 1;
  s.segments = 3;
  s.expiring = 0;
  s.streams.share = 0.7;
  s.streams.stops = 0.2;
  s.streams.stop_max = seconds(1);
  s.streams.cuts = 0;
  s.read_grace = milliseconds(100);
  s.ranges = 0;
  s.weights = {60, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  return s;
}

// Nodes that die while all are full of records.
Scenario full_homes() {
  Scenario s = based_on("full", "full-home");
  s.node_kills = s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.operations = 8;
  return s;
}

// Memory of one node that fails every now and then.
Scenario damaged_records() {
  Scenario s = based_on("inline", "damage");
  s.node_kills = s.node_stalls = s.link_cuts = s.proxy_kills = s.proxy_pauses = 0;
  s.inline_max_bytes = 200;
  s.keys = 6;
  s.operations = 40;
  s.bit_flips = 12;
  return s;
}

Scenario plain(std::string name) { return based_on("mixed", std::move(name)); }

}  // namespace

const std::vector<Rule>& rules() {
#define RULE(mutant, sentence, ...) {Mutant::mutant, #mutant, sentence, __VA_ARGS__}
  static const std::vector<Rule> kRules{
      RULE(kIgnoreEpoch, "rule 1: a node that serves any epoch serves deposed proxies",
           based_on("membership", "epoch")),
      RULE(kIgnoreIncarnation, "rule 1: an empty node must not answer for its predecessor",
           incarnation()),
      RULE(kServeBeforeInstalled, "rule 2: a map is served only once every survivor has it",
           served_too_soon()),
      RULE(kAnswerUnsynced, "rule 3: an unsynced partition has no misses",
           based_on("mixed", "unsynced")),
      RULE(kLostIsMiss, "rule 3: a LOST partition has no misses", based_on("lost", "lost-miss")),
      RULE(kIgnoreLease, "rule 4: a node past its lease serves nothing",
           based_on("membership", "lease")),
      RULE(kSkipLeaseWait, "rule 4: the lease of an excluded node is waited out",
           based_on("membership", "lease-wait")),
      RULE(kSuspectIsSource, "rule 4: a returned suspect's records are old",
           based_on("membership", "suspect")),
      RULE(kTimeoutIsLoss, "rule 4: a timeout makes nothing LOST", silences()),
      RULE(kSyncOneSource, "rule 3: sync takes the maximum of all sources", sync_sources()),
      RULE(kMarkBeforeStored, "rule 3: synced means that every home has stored",
           based_on("mixed", "mark")),
      RULE(kConfirmAny, "rule 3: what a node had counts again only if it is the newest",
           returns_with_old_copies()),
      RULE(kFullIsStored, "rule 3: a home that has no room has not stored", full_homes()),
      RULE(kBlindHead, "rule 5: the head compares the expected version", plain("blind-head")),
      RULE(kStoreAnyVersion, "rule 5: a store never lowers a version", plain("store")),
      RULE(kAckBeforeTail, "rule 5: a write is acknowledged after the tail has it", plain("ack")),
      RULE(kReadHead, "rule 5: reads are decided at the tail", plain("read-head")),
      RULE(kMismatchIsFailure, "rule 6: a mismatch may hide one's own commit", plain("mismatch")),
      RULE(kAttemptIsTxid, "rule 6: an attempt's id is not its data_txid",
           fences_that_do_nothing()),
      RULE(kResendAlways, "rule 6: an unconditional commit is never sent twice",
           based_on("calm", "resend")),
      RULE(kTimeoutIsNotDone, "rule 6: an unknown outcome is told as unknown",
           deaths_of_heads("not-done")),
      RULE(kRestampEpoch, "rule 6a: an operation in flight keeps its epoch",
           deaths_of_heads("restamp")),
      RULE(kNoReprepare, "rule 6a: shards are confirmed in the epoch of their commit",
           slow_uploads("reprepare")),
      RULE(kTrustBytes, "a damaged copy is no copy", damaged_records()),
      RULE(kIgnoreFence, "rule 7: a fenced transaction does not commit",
           based_on("uploads", "fence")),
      RULE(kReclaimWithoutFence, "rule 7: deleting orphans without a fence loses data",
           based_on("uploads", "reclaim-fence")),
      RULE(kReclaimByTimer, "rule 7: a timer alone never drops anything",
           based_on("uploads", "reclaim-timer")),
      RULE(kReclaimQuietKeys, "rule 7: what is left behind goes, however busy its key is",
           based_on("busy-keys", "quiet-keys"), 2000, /*prevents_leaks_only=*/true),
      RULE(kDeleteBeforeTail, "rule 8: superseded shards stay until the tail has the commit",
           deaths_in_commits("superseded")),
      RULE(kNoReread, "rule 8: a reader that misses shards reads the record again",
           paused_readers()),
      RULE(kMixVersions, "rule 8: in mid-stream a reader goes on with the same value only",
           slow_readers()),
      RULE(kKeepFencedShards, "rule 7: a fenced upload starts again under another data_txid",
           idle_uploads("fenced-shards")),
      RULE(kLateBase, "rule 7: the base is known before the first shard is written",
           idle_uploads("late-base")),
      RULE(kNoRebuild, "rule 6a: shards that nodes do not confirm are written again",
           interrupted_uploads("rebuild")),
      RULE(kRelabelAcks, "rule 6a: acknowledgements keep the epoch they were given in",
           interrupted_uploads("relabel")),
      RULE(kAbandonUnknown, "rule 6: the shards of an unknown outcome are kept",
           unknown_outcomes()),
      RULE(kDeleteForgets, "rule 9: a DELETE leaves a tombstone", plain("delete")),
      RULE(kDropWithoutFloor, "rule 9: tombstones go only after the floor was raised",
           late_commits("floor")),
      RULE(kSyncForgetsFloor, "rule 9: sync transfers the floor", orphans_of_missing(), 2000,
           /*prevents_leaks_only=*/true),
      RULE(kCommitBeforeStaged, "rule 26: a transition commits when all its parities are staged",
           transitions_only("staged")),
      RULE(kOverwriteParities, "rule 26: new parities do not replace the old ones in place",
           transitions_only("in-place")),
      RULE(kReuseParityTxid, "rule 26: every transition has a parity_txid of its own",
           transitions_only("parity-txid")),
      RULE(kReshapeIsTxid, "rule 6: a transition's attempt_id is not its data_txid",
           transitions_only("reshape-id")),
      RULE(kReshapeIgnoresFence, "rule 7: a fenced transition does not commit",
           paused_transitions("transition-fence", seconds(3))),
      RULE(kDropStaged, "rule 7: a timer alone never drops staged parities", dropped_staging()),
      RULE(kIgnoreGeneration, "rule 26: a reader uses the generation that the record names",
           transitions_only("generation")),
  };
#undef RULE
  return kRules;
}

}  // namespace elastripe::sim
