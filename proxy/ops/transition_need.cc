// What a record alone tells of its transition: which way it has to go, and what that changes.
#include <algorithm>

#include "proxy/ops/shards.h"
#include "proxy/ops/transition.h"

namespace elastripe {

using coding::Direction;
using node::RecordContent;
using node::RecordKind;
using node::Segment;

TransitionTraffic& TransitionTraffic::operator+=(const TransitionTraffic& other) {
  blocks_read += other.blocks_read;
  blocks_sent += other.blocks_sent;
  bytes_read += other.bytes_read;
  bytes_sent += other.bytes_sent;
  return *this;
}

TransitionNeed transition_need(const RecordContent& content, int to) {
  TransitionNeed need;
  const coding::Scheme& scheme = content.scheme;
  const auto skip = [&](std::string reason) {
    need.status = TransitionStatus::kSkipped;
    need.reason = std::move(reason);
    return need;
  };
  if (content.kind == RecordKind::kTombstone) {
    need.status = TransitionStatus::kNoObject;
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
  if (there) need.status = TransitionStatus::kAlreadyThere;
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

}  // namespace elastripe
