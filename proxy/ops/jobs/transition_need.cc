// What a record alone tells of its transition: which way it has to go, and what that changes.
#include <algorithm>

#include "proxy/ops/jobs/transition_window.h"

namespace elastripe::jobs {

using coding::Direction;
using node::RecordContent;
using node::RecordKind;
using node::Segment;

TransitionNeed transition_need(const RecordContent& content, int to) {
  TransitionNeed need;
  const coding::Scheme& scheme = content.scheme;
  const auto skip = [&](std::string reason) {
    need.status = ObjectStatus::kSkipped;
    need.reason = std::move(reason);
    return need;
  };
  if (content.kind == RecordKind::kTombstone) {
    need.status = ObjectStatus::kNoObject;
    return need;
  }
  if (content.kind == RecordKind::kInline) return skip("inline");
  if (scheme.k == scheme.k_prime) {
    return skip(scheme.k == 1 ? "rep" : "rs");
  }
  if (to != scheme.k && to != scheme.k_prime) return skip("other scheme");
  need.direction = to == scheme.k_prime ? Direction::kForward : Direction::kBackward;
  const bool there = std::ranges::all_of(content.segments, [&](const Segment& segment) {
    return segment.state == coding::state_after(need.direction);
  });
  if (there) need.status = ObjectStatus::kAlreadyThere;
  return need;
}

Result<ParityBytes> parity_bytes(const RecordContent& content, int to) {
  ParityBytes bytes;
  const coding::State after =
      to == content.scheme.k_prime ? coding::State::kWide : coding::State::kNarrow;
  for (const Segment& segment : content.segments) {
    auto geometry = geometry_of(content.scheme, segment);
    if (!geometry) return fail(geometry.error());
    bytes.before += content.scheme.m * geometry->parity_shard_bytes(segment.state);
    bytes.after += content.scheme.m * geometry->parity_shard_bytes(after);
  }
  return bytes;
}

std::expected<const coding::TransitionPlan*, std::string> transition_plan_of(
    const coding::Codec& codec, Direction direction, const TransitionRequest& request) {
  return coding::transition_plan_for(codec, direction,
                                     {.min_rule = request.execution == Execution::kProxy,
                                      .order_selection = request.order_selection});
}

SegmentBlocks blocks_on_wire(const coding::TransitionPlan& plan, int m, Execution execution) {
  const auto parities = static_cast<size_t>(m);
  if (execution == Execution::kDelta) {
    return {plan.data_blocks.size(), parities * plan.deltas.size()};
  }
  return {plan.data_blocks.size() + parities * plan.old_codewords.size(),
          parities * plan.codewords.size()};
}

size_t old_parity_bytes(const TransitionWindow& window, const WindowSegment& segment) {
  if (window.execution != Execution::kProxy || window.plan->old_codewords.empty()) return 0;
  return window.scheme().m * segment.geometry.parity_shard_bytes(segment.before.state);
}

Result<Traffic> expected_traffic(const RecordContent& content, const TransitionRequest& request) {
  const TransitionNeed need = transition_need(content, request.to);
  Traffic traffic;
  if (need.status != ObjectStatus::kDone) return traffic;
  const auto codec = coding::codec_for(content.scheme);
  if (!codec) return fail(ErrorCode::kInvalid, "{}", codec.error());
  const auto plan = transition_plan_of(**codec, need.direction, request);
  if (!plan) return fail(ErrorCode::kInvalid, "{}", plan.error());
  const auto blocks = blocks_on_wire(**plan, content.scheme.m, request.execution);
  for (const Segment& segment : content.segments) {
    if (segment.state == coding::state_after(need.direction)) continue;
    traffic += {blocks.read, blocks.sent, blocks.read * segment.block_bytes,
                blocks.sent * segment.block_bytes};
  }
  return traffic;
}

}  // namespace elastripe::jobs
