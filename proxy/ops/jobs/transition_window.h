// A window of an object's segments on its way through a transition (transition.cc): what one try is
// made of, and the first of its phases.
#pragma once

#include <string>
#include <vector>

#include "coding/codec.h"
#include "proxy/ops/jobs/transition.h"
#include "proxy/ops/shards.h"

namespace elastripe::jobs {

// One segment on its way to the next generation.
struct WindowSegment {
  size_t index = 0;  // in the record's table
  node::Segment before;
  node::Segment after;
  coding::SegmentGeometry geometry;
  Buffer blocks;        // the plan's data blocks, in its order
  Buffer old_parities;  // kProxy: all m old parity shards
  Buffer outgoing;      // m deltas or m new parity shards
};

// One try at one window of one object.
struct TransitionWindow {
  std::string key;
  RecordPtr record;
  Execution execution = Execution::kDelta;
  const coding::Codec* codec = nullptr;
  const coding::TransitionPlan* plan = nullptr;
  std::vector<WindowSegment> segments;
  Traffic traffic;
  std::string refusal;  // why it can not be done, for good
  RecordPtr committed;

  const coding::Scheme& scheme() const { return codec->scheme(); }
};
using WindowPtr = std::shared_ptr<TransitionWindow>;

// The plan that `execution` carries out. The min rule re-encodes a parity when that moves fewer
// bytes; only execution `proxy` moves old parities, so only it uses the rule.
std::expected<const coding::TransitionPlan*, std::string> transition_plan_of(
    const coding::Codec& codec, coding::Direction direction, const TransitionRequest& request);

// Blocks of one segment.
struct SegmentBlocks {
  size_t read = 0;
  size_t sent = 0;
};
SegmentBlocks blocks_on_wire(const coding::TransitionPlan& plan, int m, Execution execution);

// What old parities of a segment take in the proxy: all m shards, if any of their blocks are used.
size_t old_parity_bytes(const TransitionWindow& window, const WindowSegment& segment);

// Reads what the plan needs, looks whether the rest is there, and stages the new parities. What is
// staged stays so after an error. Errors: kNotFound, and window->refusal: shards are missing.
Task<Result<void>> prepare_window(OpsContext& ops, MapPtr map, WindowPtr window,
                                  TimePoint deadline);

}  // namespace elastripe::jobs
