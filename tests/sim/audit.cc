#include "tests/sim/audit.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "proxy/ops/jobs/scrub.h"
#include "proxy/ops/objects/fold.h"
#include "proxy/ops/shards.h"

using namespace elastripe::objects;
using namespace elastripe::jobs;

namespace elastripe::sim {

void Audit::read_everything(const char* when) {
  run_.trace.add("-- read everything {}", when);
  SimProxy* scrubber = nullptr;
  for (size_t i = 0; i < cluster_.proxies().size(); ++i) {  // a new decider may join
    SimProxy* const proxy = cluster_.proxies()[i].get();
    for (int key = 0; key < run_.scenario.workload.keys && proxy->is_alive() && run_.is_ok();
         ++key) {
      std::string error = clients_.ask(Verb::kGet, key, *proxy).error;
      if (!error.empty()) {  // a map may have changed just then
        (void)run_.until(kHealLimit, [&] { return cluster_.is_settled() || !proxy->is_alive(); });
        error = clients_.ask(Verb::kGet, key, *proxy).error;
      }
      if (!error.empty() && promise_.may_be_damaged(clients_.key_name(key))) {
        const Operation op = clients_.ask(Verb::kSet, key, *proxy, clients_.new_value(20));
        error = op.answer == Answer::kDone ? "" : op.error;
      }
      if (error.empty() && scrubber == nullptr) scrubber = proxy;
      if (error.empty() && scrubber == proxy && run_.scenario.expect.scrub) {
        if (run_.seed % 2 == 0) error = drain(key, *proxy);
        scrub(key, *proxy, when);
      }
      if (!error.empty()) error = why_unreadable(key, *proxy);
      if (!error.empty()) {
        run_.violation(Fault::kLost, fmt::format("{} can not be read {}: {}",
                                                 clients_.key_name(key), when, error));
      }
    }
  }
}

Result<ObjectReport> Audit::inspect(int key, SimProxy& proxy) {
  auto report = run_.finish(
      inspect_object(proxy.ops(), clients_.key_name(key), run_.clock.now() + kRequestTimeout));
  if (report) return std::move(*report);
  run_.violation(Fault::kStuck, "the inspection of an object does not end");
  return ObjectReport{};
}

// Empty if more was lost than the object could survive: its partition's homes, or more than m of a
// segment's shards, each of which is accounted for.
std::string Audit::why_unreadable(int key, SimProxy& proxy) {
  const auto report = inspect(key, proxy);
  if (!report) {
    const bool is_expected = promise_.is_broken() && report.error().code == ErrorCode::kLost;
    return is_expected ? std::string() : to_string(report.error());
  }
  if (!report->is_live(run_.clock.unix_ms())) return {};
  if (promise_.is_broken() && !run_.scenario.expect.accept_loss) return {};
  for (size_t i = 0; i < report->segments.size(); ++i) {
    check_missing(clients_.key_name(key), *report->record, i, report->segments[i].missing);
  }
  for (const SegmentHealth& segment : report->segments) {
    if (segment.missing.size() > report->record->content.scheme.m) return {};
  }
  // The decider, which forgets what is lost, may have come upon a newer record of it just then.
  if (clients_.ask(Verb::kGet, key, proxy).error.empty()) return {};
  return "no segment lacks more shards than its scheme survives";
}

void Audit::note_committed(const node::Record& record) {
  const uint64_t epoch = record.meta.version >> node::kCounterBits;
  for (const node::Segment& segment : record.content.segments) {
    written_in_.emplace(segment.data_txid, epoch);
    if (segment.generation > 0) {
      transitioned_in_.emplace(std::tuple(segment.data_txid, segment.number, segment.generation),
                               epoch);
    }
    for (size_t index = 0; index < segment.placement.size(); ++index) {
      const node::Id128 txid = node::txid_of_shard(segment, record.content.scheme, index);
      if (txid != segment.data_txid) reshaped_in_.emplace(txid, epoch);
    }
  }
}

// The epoch of the last commit for which the shard was confirmed (rule 6a): that of the value, or
// of the update that wrote the segment, of a transition of the segment since, or of the shard's own
// move, or of the fold that made it. Folds do not confirm the shards that they leave as they are.
uint64_t Audit::confirmed_in_epoch(const node::Record& record, const node::Segment& segment,
                                   size_t index) const {
  const auto written = written_in_.find(segment.data_txid);
  uint64_t epoch = written != written_in_.end() ? written->second
                                                : record.meta.value_version >> node::kCounterBits;
  const auto reshaped =
      reshaped_in_.find(node::txid_of_shard(segment, record.content.scheme, index));
  if (reshaped != reshaped_in_.end()) epoch = std::max(epoch, reshaped->second);
  const auto transitioned =
      transitioned_in_.find(std::tuple(segment.data_txid, segment.number, segment.generation));
  if (transitioned != transitioned_in_.end()) epoch = std::max(epoch, transitioned->second);
  return epoch;
}

// So only a node that was killed since then may lack one.
void Audit::check_missing(const std::string& key, const node::Record& record, size_t segment,
                          const std::vector<uint8_t>& missing) {
  const node::Segment& table = record.content.segments[segment];
  for (const uint8_t index : missing) {
    const uint64_t epoch = confirmed_in_epoch(record, table, index);
    const NodeId holder = table.placement[index];
    if (is_accounted_for(key, epoch, holder)) continue;
    run_.violation(Fault::kLost,
                   fmt::format("shard {}.{} was confirmed in epoch {} and is missing on node {}, "
                               "whose memory was not lost since",
                               segment, index, epoch, holder));
  }
}

// The shard of a missing node was never written: too few were up. How many there were is not always
// noticed.
bool Audit::is_accounted_for(const std::string& key, uint64_t epoch, NodeId holder) const {
  if (holder == kNoNode) {
    const Pool& pool = cluster_.pools().pool_of(key);
    const auto up = cluster_.nodes_up_in(epoch);
    const auto shards = static_cast<size_t>(pool.scheme.shards());
    // Repair leaves out what no node is there for, too.
    const bool repairs = run_.scenario.cluster.repair_after > Duration::zero();
    return (pool.degraded_writes || repairs) && up.value_or(0) < shards;
  }
  return promise_.has_died_since(holder, epoch);
}

// Folds the object's log, and reads what comes of it. Half of the schedules are looked at so, the
// others with what lies in their logs.
std::string Audit::drain(int key, SimProxy& proxy) {
  if (run_.scenario.workload.weights[static_cast<size_t>(Verb::kUpdate)] == 0) return {};
  const auto end = run_.finish(
      fold_object(proxy.ops(), clients_.key_name(key), run_.clock.now() + kRequestTimeout));
  if (!end) run_.violation(Fault::kStuck, "the fold of an object does not end");
  if (!end || !*end || **end != FoldEnd::kFolded) return {};
  ++run_.totals.drained_logs;
  return clients_.ask(Verb::kGet, key, proxy).error;
}

// Whatever is there is what the record says, and what is not has died.
void Audit::scrub(int key, SimProxy& proxy, const char* when) {
  const auto report = run_.finish(
      scrub_object(proxy.ops(), clients_.key_name(key), run_.clock.now() + kRequestTimeout));
  if (!report) return run_.violation(Fault::kStuck, "the scrub of an object does not end");
  const Result<ScrubReport>& scrubbed = *report;
  if (!scrubbed || scrubbed->record == nullptr) return;  // reads tell what is unreadable
  for (size_t i = 0; i < scrubbed->segments.size(); ++i) {
    const SegmentScrub& segment = scrubbed->segments[i];
    if (!segment.wrong.empty() || !segment.bad.empty() || segment.has_unexplained ||
        !segment.data_matches) {
      run_.violation(
          Fault::kParity,
          fmt::format("{} {}: segment {}: wrong {}, bad {}{}{}", clients_.key_name(key), when, i,
                      fmt::join(segment.wrong, " "), fmt::join(segment.bad, " "),
                      segment.has_unexplained ? ", shards do not fit together" : "",
                      segment.data_matches ? "" : ", data fails its checksum"));
    }
    if (promise_.is_broken() && !run_.scenario.expect.accept_loss) continue;
    check_missing(clients_.key_name(key), *scrubbed->record, i, segment.missing);
  }
}

}  // namespace elastripe::sim
