// The first phase of a transition: reading what the plan needs, and staging the new parities.
#include <algorithm>
#include <map>
#include <set>

#include "coding/coder.h"
#include "coding/transition_coder.h"
#include "proxy/async/when_all.h"
#include "proxy/cluster/record_chain.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/jobs/transition_window.h"
#include "server-patches/node/format/fail_point.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::jobs {

using node::Status;

namespace {

// Where the plan's i-th data block is read to.
MutableByteView block_buffer(WindowSegment& segment, size_t i) {
  const size_t bytes = segment.before.block_bytes;
  return segment.blocks.mutable_bytes().subspan(i * bytes, bytes);
}

MutableByteView part_of(Buffer& buffer, size_t part, size_t parts) {
  const size_t bytes = buffer.size() / parts;
  return buffer.mutable_bytes().subspan(part * bytes, bytes);
}

// Adjacent blocks of one shard, read with one request.
struct BlockRun {
  size_t shard = 0;
  size_t first = 0;  // block of the shard
  std::vector<MutableByteView> into;
  Buffer keep;
};

std::vector<BlockRun> data_runs(const TransitionWindow& window, WindowSegment& segment) {
  const coding::Layout& layout = window.codec->layout();
  std::vector<std::pair<std::pair<int, int>, size_t>> cells;  // (node, row), place in the plan
  for (size_t i = 0; i < window.plan->data_blocks.size(); ++i) {
    const int b = window.plan->data_blocks[i];
    cells.push_back({{layout.node_of(b), layout.row_of(b)}, i});
  }
  std::ranges::sort(cells);
  std::vector<BlockRun> runs;
  for (const auto& [cell, i] : cells) {
    const auto shard = static_cast<size_t>(cell.first);
    const auto row = static_cast<size_t>(cell.second);
    if (runs.empty() || runs.back().shard != shard ||
        runs.back().first + runs.back().into.size() != row) {
      runs.push_back({shard, row, {}, segment.blocks});
    }
    runs.back().into.push_back(block_buffer(segment, i));
  }
  return runs;
}

std::vector<BlockRun> parity_runs(const TransitionWindow& window, WindowSegment& segment) {
  const size_t m = window.scheme().m;
  const size_t bytes = segment.before.block_bytes;
  std::vector<BlockRun> runs;
  for (size_t j = 0; j < m; ++j) {
    const MutableByteView shard = part_of(segment.old_parities, j, m);
    const size_t index = window.scheme().k_prime + j;
    for (const uint16_t codeword : window.plan->old_codewords) {
      if (runs.empty() || runs.back().shard != index ||
          runs.back().first + runs.back().into.size() != codeword) {
        runs.push_back({index, codeword, {}, segment.old_parities});
      }
      runs.back().into.push_back(shard.subspan(codeword * bytes, bytes));
    }
  }
  return runs;
}

// Its shards are gone; a node that is only silent may have them.
bool is_lost(const node::ClusterMap& map, NodeId node) {
  const node::NodeInfo* info = map.find_node(node);
  return info == nullptr || info->state == node::NodeState::kLost;
}

Error missing_shard(const node::ClusterMap& map, TransitionWindow& window,
                    const WindowSegment& segment, size_t shard) {
  const NodeId node = segment.before.placement[shard];
  const std::string where = node == kNoNode ? "was never written" : "on " + node_name(map, node);
  window.refusal = fmt::format("segment {}: shard {} is missing ({})", segment.index, shard, where);
  return {ErrorCode::kNotFound, window.refusal};
}

Task<Result<void>> read_run(OpsContext& ops, MapPtr map, WindowPtr window, WindowSegment& segment,
                            BlockRun run, TimePoint deadline) {
  const size_t bytes = segment.before.block_bytes;
  const size_t blocks = run.into.size();
  const ShardRange range{static_cast<uint32_t>(run.first * bytes),
                         static_cast<uint32_t>(blocks * bytes)};
  window->traffic += {.blocks_read = blocks, .bytes_read = blocks * bytes};
  const auto read = co_await read_shard(ops, map, segment.before.placement[run.shard],
                                        shard_name(segment.before, window->scheme(), run.shard),
                                        std::move(run.into), {run.keep}, deadline, range);
  switch (read) {
    case ShardRead::kRead:
      co_return Result<void>{};
    case ShardRead::kMissing:
      co_return fail(missing_shard(*map, *window, segment, run.shard));
    case ShardRead::kStaleEpoch:
      co_return fail(ErrorCode::kStaleEpoch, "the cluster map changed");
    case ShardRead::kUnreachable:
      break;
  }
  co_return fail(ErrorCode::kTimeout, "segment {}: shard {} does not answer", segment.index,
                 run.shard);
}

Result<void> first_error(std::vector<Result<void>> results) {
  for (auto& result : results) {
    if (!result && result.error().code == ErrorCode::kNotFound) return result;
  }
  for (auto& result : results) {
    if (!result) return result;
  }
  return {};
}

// Shards that the transition does not touch otherwise: an object with missing shards is to be
// repaired first.
using Untouched = std::map<NodeId, std::vector<std::pair<size_t, size_t>>>;  // segment, shard

Task<Result<void>> check_present(OpsContext& ops, MapPtr map, WindowPtr window, NodeId on,
                                 std::vector<std::pair<size_t, size_t>> shards,
                                 TimePoint deadline) {
  std::vector<node::ShardName> names;
  names.reserve(shards.size());
  for (const auto& [s, shard] : shards) {
    names.push_back(shard_name(window->segments[s].before, window->scheme(), shard));
  }
  const auto confirmed =
      co_await confirm_shards(ops, map, on, std::move(names), /*check_pages=*/false, deadline);
  if (!confirmed) co_return fail(confirmed.error());
  for (size_t n = 0; n < shards.size(); ++n) {
    if (!(*confirmed)[n].present) {
      const auto& [s, shard] = shards[n];
      co_return fail(missing_shard(*map, *window, window->segments[s], shard));
    }
  }
  co_return Result<void>{};
}

// Reads everything that the plan needs, and looks whether the rest is there.
Task<Result<void>> read_inputs(OpsContext& ops, MapPtr map, WindowPtr window, TimePoint deadline) {
  std::vector<Task<Result<void>>> reads;
  Untouched untouched;
  for (size_t s = 0; s < window->segments.size(); ++s) {
    WindowSegment& segment = window->segments[s];
    auto runs = data_runs(*window, segment);
    if (window->execution == Execution::kProxy) {
      std::ranges::move(parity_runs(*window, segment), std::back_inserter(runs));
    }
    std::set<size_t> touched;
    for (const BlockRun& run : runs) touched.insert(run.shard);
    for (size_t i = 0; i < segment.before.placement.size(); ++i) {
      const NodeId node = segment.before.placement[i];
      if (is_lost(*map, node)) co_return fail(missing_shard(*map, *window, segment, i));
      if (!map->is_up(node)) {
        co_return fail(ErrorCode::kUnavailable, "{} does not answer", node_name(*map, node));
      }
      const bool builds = window->execution == Execution::kDelta && i >= window->scheme().k_prime;
      if (!builds && !touched.contains(i)) untouched[node].emplace_back(s, i);
    }
    for (BlockRun& run : runs) {
      reads.push_back(read_run(ops, map, window, segment, std::move(run), deadline));
    }
  }
  for (auto& [node, shards] : untouched) {
    reads.push_back(check_present(ops, map, window, node, std::move(shards), deadline));
  }
  co_return first_error(co_await when_all(std::move(reads)));
}

// Computes what the parity nodes are sent, in slices.
Task<Result<void>> compute(OpsContext& ops, WindowPtr window, WindowSegment& segment) {
  const size_t m = window->scheme().m;
  const bool sends_deltas = window->execution == Execution::kDelta;
  const size_t blocks = sends_deltas ? window->plan->deltas.size() : window->plan->codewords.size();
  segment.outgoing = Buffer::allocate(m * blocks * segment.before.block_bytes);

  std::vector<ByteView> data(static_cast<size_t>(window->codec->layout().blocks()));
  for (size_t i = 0; i < window->plan->data_blocks.size(); ++i) {
    data[window->plan->data_blocks[i]] = block_buffer(segment, i);
  }
  std::vector<MutableByteView> outputs;
  std::vector<ByteView> old;
  for (size_t j = 0; j < m; ++j) {
    outputs.push_back(part_of(segment.outgoing, j, m));
    if (!sends_deltas) old.push_back(part_of(segment.old_parities, j, m));
  }
  auto coder =
      sends_deltas
          ? coding::TransitionCoder::deltas(*window->codec, *window->plan,
                                            segment.before.block_bytes, data, outputs)
          : coding::TransitionCoder::parities(*window->codec, *window->plan,
                                              segment.before.block_bytes, data, old, outputs);
  if (!coder) co_return fail(ErrorCode::kInvalid, "{}", coder.error());
  while (coder->step(coding::kStepBytes)) {
    if (!co_await ops.clock.next_turn()) co_return fail(ErrorCode::kCancelled, "shutting down");
  }
  co_return Result<void>{};
}

// Stages a parity shard on its node, which makes it out of deltas (SHARD_BUILD), or gets it whole
// (SHARD_WRITE).
template <class Request>
Task<Result<void>> stage_parity(OpsContext& ops, MapPtr map, WindowPtr window,
                                WindowSegment& segment, Request message, TimePoint deadline) {
  const size_t index = message.header.name.index;
  const size_t block_bytes = segment.before.block_bytes;
  auto stage = question(message);
  const MutableByteView payload =
      part_of(segment.outgoing, index - window->scheme().k_prime, window->scheme().m);
  window->traffic += {.blocks_sent = payload.size() / block_bytes, .bytes_sent = payload.size()};
  if (!payload.empty()) stage.frame->payload.push_back(payload);
  stage.frame->keep = {segment.outgoing};
  const NodeId to = segment.after.placement[index];
  const auto staged =
      co_await ask(ops.nodes, *map, to, std::move(stage), call_deadline(ops, deadline));
  if (!staged) co_return fail(staged.error());
  if (staged->status() == Status::kNotHere || staged->status() == Status::kBadPage) {
    co_return fail(missing_shard(*map, *window, segment, index));
  }
  if (staged->status() != Status::kOk) co_return fail(refusal(*map, to, staged->reply));
  fail_point(FailPoint::kParityStaged);
  co_return Result<void>{};
}

Task<Result<void>> stage_parity(OpsContext& ops, MapPtr map, WindowPtr window,
                                WindowSegment& segment, size_t index, TimePoint deadline) {
  const TransitionWindow& w = *window;
  node::ShardHeader header;
  header.name = shard_name(segment.after, w.scheme(), index);
  header.key = w.key;
  header.payload_bytes =
      static_cast<uint32_t>(w.plan->codewords.size() * segment.before.block_bytes);
  header.vector_a.resize(w.scheme().k_prime);
  if (w.execution != Execution::kDelta) {
    return stage_parity(ops, map, window, segment, node::ShardWriteRequest{std::move(header)},
                        deadline);
  }
  node::ShardBuildRequest message;
  message.source = shard_name(segment.before, w.scheme(), index);
  message.header = std::move(header);
  message.block_bytes = segment.before.block_bytes;
  for (const auto& codeword : w.plan->codewords) {
    message.blocks.push_back({codeword.old, codeword.deltas});
  }
  return stage_parity(ops, map, window, segment, std::move(message), deadline);
}

Task<Result<void>> stage_segment(OpsContext& ops, MapPtr map, WindowPtr window, size_t s,
                                 TimePoint deadline) {
  WindowSegment& segment = window->segments[s];
  auto computed = co_await compute(ops, window, segment);
  if (!computed) co_return computed;
  std::vector<Task<Result<void>>> calls;
  const auto shards = static_cast<size_t>(window->scheme().shards());
  for (size_t i = window->scheme().k_prime; i < shards; ++i) {
    calls.push_back(stage_parity(ops, map, window, segment, i, deadline));
  }
  auto staged = co_await when_all(std::move(calls));
  if (mutant(Mutant::kCommitBeforeStaged)) staged.clear();
  co_return first_error(std::move(staged));
}

void allocate_inputs(TransitionWindow& window) {
  for (WindowSegment& segment : window.segments) {
    segment.blocks = Buffer::allocate(window.plan->data_blocks.size() * segment.before.block_bytes);
    segment.old_parities = Buffer::allocate(old_parity_bytes(window, segment));
  }
}

}  // namespace

Task<Result<void>> prepare_window(OpsContext& ops, MapPtr map, WindowPtr window,
                                  TimePoint deadline) {
  allocate_inputs(*window);
  fail_point(FailPoint::kRecordRead);
  auto read = co_await read_inputs(ops, map, window, deadline);
  if (!read) co_return read;
  fail_point(FailPoint::kInputsRead);
  std::vector<Task<Result<void>>> staging;
  staging.reserve(window->segments.size());
  for (size_t s = 0; s < window->segments.size(); ++s) {
    staging.push_back(stage_segment(ops, map, window, s, deadline));
  }
  co_return first_error(co_await when_all(std::move(staging)));
}

}  // namespace elastripe::jobs
