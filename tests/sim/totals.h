// What happened in schedules, counted: a schedule that does nothing proves nothing.
#pragma once

#include <cstdint>

#include "proxy/ops/context.h"

namespace elastripe::sim {

struct Totals {
  uint64_t schedules = 0, histories = 0, operations = 0, unknowns = 0, acknowledged_writes = 0;
  uint64_t errors = 0;  // definite ones, and of reads
  uint64_t refused_for_memory = 0;
  uint64_t drained_logs = 0;         // that were folded when all had ended
  uint64_t unchecked = 0;            // schedules that may have lost updates within the promise
  uint64_t transitions = 0;          // that changed the state of an object
  uint64_t refused_transitions = 0;  // shards were missing
  uint64_t flushes = 0;              // done, or maybe
  uint64_t undecided_flushes = 0;    // schedules whose keys were not searched for one order
  uint64_t streams = 0;              // operations whose values went part by part
  uint64_t cut_uploads = 0, cut_reads = 0;
  uint64_t lost_keys = 0;  // that the operator was told of, and accepted
  // Schedules in which partitions had too few homes, as nodes had no room.
  uint64_t short_of_room = 0;
  uint64_t node_kills = 0, node_stalls = 0, link_cuts = 0, proxy_kills = 0, proxy_pauses = 0;
  uint64_t node_sticks = 0, bit_flips = 0, burials = 0, joiners = 0, strays = 0;
  uint64_t settings_changed = 0, settings_unknown = 0;  // as the operator was told
  uint64_t wrong_words = 0;  // nodes that were declared dead, and were not
  // As the operator was told; and how often another proxy has gone on with one.
  uint64_t job_orders = 0, jobs_begun = 0, jobs_cancelled = 0, jobs_gone_on = 0;
  uint64_t elected = 0;  // times that a proxy began to decide whom etcd had elected
  uint64_t etcd_outages = 0, etcd_partings = 0, etcd_ends = 0;
  uint64_t members_added = 0, members_drained = 0, members_refilled = 0, members_removed = 0;
  uint64_t clock_steps = 0, forced = 0, restarts = 0, rounds = 0, repairer_kills = 0;
  uint64_t wrong_deciders = 0;  // schedules in which one whose clock was ahead decided for long
  uint64_t upgrades = 0;        // nodes that were of an older build until they started again
  // Schedules that ended with LOST partitions after more than m crashes and timeouts together.
  uint64_t beyond_promise = 0;
  uint64_t epochs = 0, frames = 0, dropped = 0, duplicated = 0, late = 0, events = 0;
  OpsCounters ops;
  void add(const Totals& other);
};

// Those of a proxy that is gone, or of another worker of it.
void add_counters(OpsCounters& sum, const OpsCounters& more);

}  // namespace elastripe::sim
