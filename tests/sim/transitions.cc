// World's transitions: those of its clients, and one of every object there and back when all has
// healed.
#include <algorithm>

#include "proxy/ops/transition.h"
#include "tests/sim/world_internal.h"

namespace elastripe::sim {

namespace {

std::string describe(const TransitionOutcome& outcome) {
  switch (outcome.status) {
    case TransitionStatus::kTransitioned:
      return "transitioned";
    case TransitionStatus::kAlreadyThere:
      return "already there";
    case TransitionStatus::kNoObject:
      return "no object";
    case TransitionStatus::kSkipped:
      return "skipped: " + outcome.reason;
    case TransitionStatus::kOverwritten:
      return "overwritten";
    case TransitionStatus::kRefused:
      return "refused: " + outcome.reason;
  }
  return "?";
}

bool can_transition(const ObjectReport& report, uint64_t now_ms) {
  if (report.record == nullptr || !report.record->is_live(now_ms)) return false;
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

}  // namespace

Task<void> execute_transition(Operation& op, OpsContext& ops) {
  TransitionRequest request;
  request.key = op.key;
  request.to = op.to;
  request.execution = op.at_proxy ? Execution::kProxy : Execution::kDelta;
  auto outcome = co_await transition_object(ops, std::move(request));
  op.answer = outcome ? Answer::kDone : Answer::kUnknown;
  op.error = outcome ? describe(*outcome) : to_string(outcome.error());
}

// A late write may still come, and take the object that is being transitioned away.
void World::transition(int key, int to, SimProxy& proxy) {
  const auto before = inspect(key, proxy);
  if (!before || !can_transition(*before, clock_.unix_ms())) return;
  const bool may_fail = !is_whole(*before);
  std::string error;
  for (int tries = 0; tries < 3; ++tries) {  // a map may have changed just then
    Operation op;
    op.verb = Verb::kTransition;
    op.key = key_name(key);
    op.to = to;
    op.at_proxy = random_.chance(0.5);
    error = ask(std::move(op), proxy).error;
    if (error == "transitioned" || error == "already there" || may_fail) break;
  }
  const auto after = inspect(key, proxy);
  // Nothing was deleted to make room.
  const bool is_full = error.starts_with("no_space");
  if (may_fail || is_full || !after || !can_transition(*after, clock_.unix_ms())) return;
  if (!is_value_of(*after->record, *before->record) || is_in_state(*after->record, to)) return;
  violation(Fault::kStuck, fmt::format("{} is whole, and can not be transitioned to k = {}: {}",
                                       key_name(key), to, error));
}

// There and back: so that it ends in the state that clients have left it in.
void World::transition_everything() {
  trace_.add("-- transition everything");
  SimProxy* const proxy = decider();
  for (int key = 0; proxy != nullptr && key < scenario_.keys && result_.ok(); ++key) {
    const coding::Scheme& scheme = pools().pool_of(key_name(key)).scheme;
    if (scheme.k == scheme.k_prime) continue;
    const auto report = inspect(key, *proxy);
    if (!report || !can_transition(*report, clock_.unix_ms())) continue;
    const bool is_wide = is_in_state(*report->record, scheme.k_prime);
    transition(key, is_wide ? scheme.k : scheme.k_prime, *proxy);
    if (result_.ok() && random_.chance(0.5)) audit("between the transitions");
    transition(key, is_wide ? scheme.k_prime : scheme.k, *proxy);
  }
  if (result_.ok()) audit("after the transitions");
}

}  // namespace elastripe::sim
