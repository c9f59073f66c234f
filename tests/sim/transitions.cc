#include <algorithm>

#include "proxy/ops/jobs/transition.h"
#include "tests/sim/phases.h"

using namespace elastripe::objects;

namespace elastripe::sim {

namespace {

bool can_transition(const ObjectReport& report, uint64_t now_ms) {
  if (!report.is_live(now_ms)) return false;
  const node::RecordContent& content = report.record->content;
  return content.kind == node::RecordKind::kStriped && content.scheme.k != content.scheme.k_prime;
}

bool is_whole(const ObjectReport& report) {
  return std::ranges::all_of(report.segments, [](const SegmentHealth& segment) {
    return segment.missing.empty() && segment.unreachable.empty();
  });
}

bool is_value_of(const node::Record& record, const node::Record& other) {
  return record.meta.value_version == other.meta.value_version;
}

bool is_in_state(const node::Record& record, int to) {
  const coding::State state =
      to == record.content.scheme.k_prime ? coding::State::kWide : coding::State::kNarrow;
  return std::ranges::all_of(record.content.segments,
                             [&](const node::Segment& segment) { return segment.state == state; });
}

// A late write may still come, and take the object that is being transitioned away.
void transition(Parts& parts, int key, int to, SimProxy& proxy) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  const auto before = audit.inspect(key, proxy);
  if (!before || !can_transition(*before, run.clock.unix_ms())) return;
  const bool may_fail = !is_whole(*before);
  std::string error;
  for (int tries = 0; tries < 3; ++tries) {  // a map may have changed just then
    Operation op;
    op.verb = Verb::kTransition;
    op.key = clients.key_name(key);
    op.to = to;
    op.at_proxy = run.random.chance(0.5);
    error = clients.ask(std::move(op), proxy).error;
    if (error == "transitioned" || error == "already there" || may_fail) break;
  }
  const auto after = audit.inspect(key, proxy);
  // Nothing was deleted to make room.
  const bool is_full = error.starts_with("no_space");
  if (may_fail || is_full || !after || !can_transition(*after, run.clock.unix_ms())) return;
  if (!is_value_of(*after->record, *before->record) || is_in_state(*after->record, to)) return;
  run.violation(Fault::kStuck, fmt::format("{} is whole, and can not be transitioned to k = {}: {}",
                                           clients.key_name(key), to, error));
}

}  // namespace

void transition_everything(Parts& parts) {
  auto& [run, cluster, promise, clients, faults, audit] = parts;
  run.trace.add("-- transition everything");
  SimProxy* const proxy = cluster.decider();
  for (int key = 0; proxy != nullptr && key < run.scenario.workload.keys && run.is_ok(); ++key) {
    const coding::Scheme& scheme = cluster.pools().pool_of(clients.key_name(key)).scheme;
    if (scheme.k == scheme.k_prime) continue;
    const auto report = audit.inspect(key, *proxy);
    if (!report || !can_transition(*report, run.clock.unix_ms())) continue;
    const bool is_wide = is_in_state(*report->record, scheme.k_prime);
    transition(parts, key, is_wide ? scheme.k : scheme.k_prime, *proxy);
    if (run.is_ok() && run.random.chance(0.5)) audit.read_everything("between the transitions");
    transition(parts, key, is_wide ? scheme.k_prime : scheme.k, *proxy);
  }
  if (run.is_ok()) audit.read_everything("after the transitions");
}

}  // namespace elastripe::sim
