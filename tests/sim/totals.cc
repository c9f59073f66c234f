#include "tests/sim/totals.h"

namespace elastripe::sim {

void add_counters(OpsCounters& sum, const OpsCounters& more) {
  for (const OpsCounterRow& row : kOpsCounters) sum.*row.counter += more.*row.counter;
}

void Totals::add(const Totals& o) {
  schedules += o.schedules;
  histories += o.histories;
  operations += o.operations;
  unknowns += o.unknowns;
  acknowledged_writes += o.acknowledged_writes;
  errors += o.errors;
  refused_for_memory += o.refused_for_memory;
  unchecked += o.unchecked;
  drained_logs += o.drained_logs;
  transitions += o.transitions;
  flushes += o.flushes;
  undecided_flushes += o.undecided_flushes;
  refused_transitions += o.refused_transitions;
  streams += o.streams;
  cut_uploads += o.cut_uploads;
  cut_reads += o.cut_reads;
  lost_keys += o.lost_keys;
  short_of_room += o.short_of_room;
  node_kills += o.node_kills;
  node_stalls += o.node_stalls;
  node_sticks += o.node_sticks;
  bit_flips += o.bit_flips;
  burials += o.burials;
  joiners += o.joiners;
  settings_changed += o.settings_changed;
  settings_unknown += o.settings_unknown;
  wrong_words += o.wrong_words;
  job_orders += o.job_orders;
  jobs_begun += o.jobs_begun;
  jobs_cancelled += o.jobs_cancelled;
  jobs_gone_on += o.jobs_gone_on;
  elected += o.elected;
  etcd_outages += o.etcd_outages;
  etcd_partings += o.etcd_partings;
  etcd_ends += o.etcd_ends;
  members_added += o.members_added;
  members_drained += o.members_drained;
  members_refilled += o.members_refilled;
  members_removed += o.members_removed;
  strays += o.strays;
  clock_steps += o.clock_steps;
  wrong_deciders += o.wrong_deciders;
  forced += o.forced;
  restarts += o.restarts;
  rounds += o.rounds;
  upgrades += o.upgrades;
  repairer_kills += o.repairer_kills;
  link_cuts += o.link_cuts;
  proxy_kills += o.proxy_kills;
  proxy_pauses += o.proxy_pauses;
  epochs += o.epochs;
  beyond_promise += o.beyond_promise;
  frames += o.frames;
  dropped += o.dropped;
  duplicated += o.duplicated;
  late += o.late;
  events += o.events;
  add_counters(ops, o.ops);
}

}  // namespace elastripe::sim
