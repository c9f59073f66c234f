#include "proxy/ops/transition.h"

#include <algorithm>
#include <map>
#include <set>

#include "coding/coder.h"
#include "coding/transition_coder.h"
#include "proxy/async/when_all.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/commit.h"
#include "proxy/ops/read_tail.h"
#include "proxy/ops/shards.h"
#include "server-patches/node/format/fail_point.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

using coding::Codec;
using coding::Direction;
using coding::TransitionPlan;
using node::Opcode;
using node::RecordContent;
using node::Segment;
using node::Status;

namespace {

// Segments that are staged and committed together: what bounds the memory of both generations.
constexpr size_t kWindowSegments = 4;

// One segment on its way to the next generation.
struct StagedSegment {
  size_t index = 0;  // in the record's table
  Segment before;
  Segment after;
  coding::SegmentGeometry geometry;
  Buffer blocks;        // the plan's data blocks, in its order
  Buffer old_parities;  // kProxy: all m old parity shards
  Buffer outgoing;      // m deltas or m new parity shards
};

// One try at one window of one object.
struct StagedWindow {
  std::string key;
  RecordPtr record;
  Execution execution = Execution::kDelta;
  const Codec* codec = nullptr;
  const TransitionPlan* plan = nullptr;
  std::vector<StagedSegment> segments;
  TransitionTraffic traffic;
  std::string refusal;  // why it can not be done, for good

  const coding::Scheme& scheme() const { return codec->scheme(); }
};
using WindowPtr = std::shared_ptr<StagedWindow>;

// The plan that `execution` carries out: the min rule pays where old parities travel.
std::expected<const TransitionPlan*, std::string> plan_for(const Codec& codec, Direction direction,
                                                           const TransitionRequest& request) {
  return coding::transition_plan_for(codec, direction,
                                     {.min_rule = request.execution == Execution::kProxy,
                                      .order_selection = request.order_selection});
}

// Blocks of one segment.
struct SegmentBlocks {
  size_t read = 0;
  size_t sent = 0;
};
SegmentBlocks blocks_on_wire(const TransitionPlan& plan, int m, Execution execution) {
  const auto parities = static_cast<size_t>(m);
  if (execution == Execution::kDelta) {
    return {plan.data_blocks.size(), parities * plan.deltas.size()};
  }
  return {plan.data_blocks.size() + parities * plan.old_codewords.size(),
          parities * plan.codewords.size()};
}

}  // namespace

Result<TransitionTraffic> expected_traffic(const RecordContent& content,
                                           const TransitionRequest& request) {
  const TransitionNeed need = transition_need(content, request.to);
  TransitionTraffic traffic;
  if (need.status != TransitionStatus::kTransitioned) return traffic;
  const auto codec = coding::codec_for(content.scheme);
  if (!codec) return fail(ErrorCode::kInvalid, "{}", codec.error());
  const auto plan = plan_for(**codec, need.direction, request);
  if (!plan) return fail(ErrorCode::kInvalid, "{}", plan.error());
  const auto blocks = blocks_on_wire(**plan, content.scheme.m, request.execution);
  for (const Segment& segment : content.segments) {
    if (segment.state == coding::state_after(need.direction)) continue;
    traffic += {blocks.read, blocks.sent, blocks.read * segment.block_bytes,
                blocks.sent * segment.block_bytes};
  }
  return traffic;
}

namespace {

// Where the plan's i-th data block is read to.
MutableByteView block_buffer(StagedSegment& segment, size_t i) {
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

std::vector<BlockRun> data_runs(const StagedWindow& window, StagedSegment& segment) {
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

std::vector<BlockRun> parity_runs(const StagedWindow& window, StagedSegment& segment) {
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

std::string node_name(const node::ClusterMap& map, NodeId node) {
  const node::NodeInfo* info = map.find_node(node);
  return info == nullptr ? fmt::format("node {}", node) : info->name;
}

// Its shards are gone; a node that is only silent may have them.
bool is_lost(const node::ClusterMap& map, NodeId node) {
  const node::NodeInfo* info = map.find_node(node);
  return info == nullptr || info->state == node::NodeState::kLost;
}

Error missing_shard(const node::ClusterMap& map, StagedWindow& window, const StagedSegment& segment,
                    size_t shard) {
  const NodeId node = segment.before.placement[shard];
  const std::string where = node == kNoNode ? "was never written" : "on " + node_name(map, node);
  window.refusal = fmt::format("segment {}: shard {} is missing ({})", segment.index, shard, where);
  return {ErrorCode::kNotFound, window.refusal};
}

Task<Result<void>> read_run(OpsContext& ops, MapPtr map, WindowPtr window, StagedSegment& segment,
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
    StagedSegment& segment = window->segments[s];
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
Task<Result<void>> compute(OpsContext& ops, WindowPtr window, StagedSegment& segment) {
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

// Stages parity shard `index` on its node.
Task<Result<void>> stage_parity(OpsContext& ops, MapPtr map, WindowPtr window,
                                StagedSegment& segment, size_t index, TimePoint deadline) {
  const size_t k_prime = window->scheme().k_prime;
  const size_t m = window->scheme().m;
  const size_t block_bytes = segment.before.block_bytes;
  node::ShardHeader header;
  header.name = shard_name(segment.after, window->scheme(), index);
  header.key = window->key;
  header.payload_bytes = static_cast<uint32_t>(window->plan->codewords.size() * block_bytes);
  header.vector_a.resize(k_prime);

  NodeRequest request;
  if (window->execution == Execution::kDelta) {
    node::ShardBuildRequest message;
    message.source = shard_name(segment.before, window->scheme(), index);
    message.header = std::move(header);
    message.block_bytes = segment.before.block_bytes;
    for (const auto& codeword : window->plan->codewords) {
      message.blocks.push_back({codeword.old, codeword.deltas});
    }
    request = make_request(Opcode::kShardBuild, message);
  } else {
    request = make_request(Opcode::kShardWrite, node::ShardWriteRequest{std::move(header)});
  }
  const MutableByteView payload = part_of(segment.outgoing, index - k_prime, m);
  window->traffic += {.blocks_sent = payload.size() / block_bytes, .bytes_sent = payload.size()};
  if (!payload.empty()) request.payload.push_back(payload);
  request.keep = {segment.outgoing};
  const NodeId to = segment.after.placement[index];
  auto reply = co_await ops.nodes.call(to, stamp_for(*map, to), std::move(request),
                                       call_deadline(ops, deadline));
  if (!reply) co_return fail(reply.error());
  if (reply->status() == Status::kNotHere || reply->status() == Status::kBadPage) {
    co_return fail(missing_shard(*map, *window, segment, index));
  }
  if (reply->status() != Status::kOk) co_return fail(refusal(to, *reply));
  fail_point(FailPoint::kParityStaged);
  co_return Result<void>{};
}

Task<Result<void>> stage_segment(OpsContext& ops, MapPtr map, WindowPtr window, size_t s,
                                 TimePoint deadline) {
  StagedSegment& segment = window->segments[s];
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

// The next window of a record that needs one.
Result<WindowPtr> open_window(OpsContext& ops, const TransitionRequest& request, RecordPtr record,
                              Direction direction) {
  const RecordContent& content = record->content;
  const auto codec = coding::codec_for(content.scheme);
  if (!codec) return fail(ErrorCode::kInvalid, "{}", codec.error());
  auto plan = plan_for(**codec, direction, request);
  if (!plan) return fail(ErrorCode::kInvalid, "{}", plan.error());
  auto window = std::make_shared<StagedWindow>();
  window->key = request.key;
  window->record = record;
  window->execution = request.execution;
  window->codec = *codec;
  window->plan = *plan;
  const Id128 parity_txid = ops.ids.next();
  for (size_t i = 0; i < content.segments.size(); ++i) {
    const Segment& before = content.segments[i];
    if (before.state == coding::state_after(direction)) continue;
    auto geometry = geometry_of(content.scheme, before);
    if (!geometry) return fail(geometry.error());
    Segment after = before;
    after.state = coding::state_after(direction);
    ++after.generation;
    after.parity_txid = mutant(Mutant::kReuseParityTxid) ? before.data_txid : parity_txid;
    window->segments.push_back({i, before, std::move(after), *geometry, {}, {}, {}});
    if (window->segments.size() == kWindowSegments) break;
  }
  return window;
}

// What old parities of a segment take in the proxy: all m shards, if any of their blocks are used.
size_t old_parity_bytes(const StagedWindow& window, const StagedSegment& segment) {
  if (window.execution != Execution::kProxy || window.plan->old_codewords.empty()) return 0;
  return window.scheme().m * segment.geometry.parity_shard_bytes(segment.before.state);
}

// Bytes of the proxy's memory that the window takes.
uint64_t window_bytes(const StagedWindow& window) {
  const size_t data_blocks = window.plan->data_blocks.size();
  const size_t sent = blocks_on_wire(*window.plan, window.scheme().m, window.execution).sent;
  uint64_t bytes = 0;
  for (const auto& segment : window.segments) {
    bytes += (data_blocks + sent) * segment.before.block_bytes + old_parity_bytes(window, segment);
  }
  return bytes;
}

void allocate_inputs(StagedWindow& window) {
  for (StagedSegment& segment : window.segments) {
    segment.blocks = Buffer::allocate(window.plan->data_blocks.size() * segment.before.block_bytes);
    segment.old_parities = Buffer::allocate(old_parity_bytes(window, segment));
  }
}

// Parity shards of one generation of the window's segments, by node.
std::vector<ShardsOnNode> parities_of(const StagedWindow& window, bool staged) {
  if (mutant(Mutant::kOverwriteParities)) return {};
  std::vector<Segment> segments;
  for (const auto& segment : window.segments) {
    segments.push_back(staged ? segment.after : segment.before);
    for (size_t i = 0; i < window.scheme().k_prime; ++i) segments.back().placement[i] = kNoNode;
  }
  return shards_by_node(window.scheme(), segments);
}

// Of a transaction that definitely did not commit, and never will.
void abandon(OpsContext& ops, const StagedWindow& window) {
  (void)ops.background.try_spawn(
      delete_shards(ops, parities_of(window, true), ops.clock.now() + ops.settings.node_timeout));
}

Task<Result<void>> prepare(OpsContext& ops, MapPtr map, WindowPtr window, TimePoint deadline) {
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

// Whether `content` still has the shards that the window was made from.
bool has_same_shards(const StagedWindow& window, const RecordContent& content) {
  return content.segments == window.record->content.segments;
}

Commit reshape(const StagedWindow& window, const node::Record& current) {
  Commit commit;
  commit.key = window.key;
  commit.mutation = node::Mutation::kReshape;
  commit.condition = node::Condition::kIfVersion;
  commit.condition_argument = current.meta.version;
  commit.known_version = current.meta.version;
  // Known before the first shard was staged: a fence since then refuses it (rule 7).
  commit.base_version =
      mutant(Mutant::kReshapeIgnoresFence) ? Commit::kNoBase : window.record->meta.version;
  commit.content = current.content;
  for (const auto& segment : window.segments) {
    commit.content.segments[segment.index] = segment.after;
  }
  return commit;
}

enum class WindowEnd : uint8_t {
  kCommitted,
  kOverwritten,  // the object is another one now
  kAgain,        // nothing committed: start from the newest record
};

// A touch in between is no reason to give up: the shards are the same. Nor is it another
// transition, of a proxy that died maybe before its commit had reached the tail, which is where the
// window's record was read: the value is the same.
Task<Result<WindowEnd>> commit_window(OpsContext& ops, MapPtr map, WindowPtr window,
                                      TimePoint deadline) {
  RecordPtr current = window->record;
  for (;;) {
    Commit reshaped = reshape(*window, *current);
    auto result = co_await commit(ops, map, reshaped, deadline);
    if (!result) co_return fail(result.error());
    switch (result->status) {
      case CommitStatus::kCommitted:
        ops.cache.put(window->key, result->record);
        co_return WindowEnd::kCommitted;
      case CommitStatus::kFenced:
        co_return WindowEnd::kAgain;
      default:
        break;
    }
    current = result->record;
    if (current == nullptr || !is_live_now(ops, *current)) co_return WindowEnd::kAgain;
    if (current->meta.value_version != window->record->meta.value_version) {
      co_return WindowEnd::kOverwritten;
    }
    if (!has_same_shards(*window, current->content)) co_return WindowEnd::kAgain;
    if (ops.clock.now() >= deadline) co_return WindowEnd::kAgain;
  }
}

// One try under one map. Errors are those of prepare and commit; nothing is left behind but for
// kUnknownOutcome.
Task<Result<WindowEnd>> try_window(OpsContext& ops, MapPtr map, WindowPtr window,
                                   TimePoint deadline) {
  auto homes = check_homes(ops, *map, window->key);
  if (!homes) co_return fail(homes.error());
  auto prepared = co_await prepare(ops, map, window, deadline);
  if (!prepared) {
    abandon(ops, *window);
    co_return fail(prepared.error());
  }
  fail_point(FailPoint::kAllStaged);
  auto end = co_await commit_window(ops, map, window, deadline);
  if (!end) {
    if (end.error().code != ErrorCode::kUnknownOutcome) abandon(ops, *window);
    co_return end;
  }
  if (*end == WindowEnd::kCommitted) {
    fail_point(FailPoint::kWindowCommitted);
    delete_after_grace(ops, parities_of(*window, false));
  } else {
    abandon(ops, *window);
  }
  co_return end;
}

}  // namespace

Task<Result<TransitionOutcome>> transition_object(OpsContext& ops, TransitionRequest request) {
  TransitionOutcome outcome;
  bool some_done = false;
  TimePoint deadline = ops.clock.now() + ops.settings.request_timeout;
  for (;;) {
    auto tail = co_await read_tail(ops, request.key, deadline);
    if (!tail) co_return fail(tail.error());
    const RecordPtr record = tail->record;
    if (record == nullptr || !is_live_now(ops, *record)) {
      outcome.status = TransitionStatus::kNoObject;
      co_return outcome;
    }
    const TransitionNeed need = transition_need(record->content, request.to);
    outcome.direction = need.direction;
    outcome.reason = need.reason;
    outcome.object_bytes = record->content.size;
    if (need.status != TransitionStatus::kTransitioned) {
      const bool finished = need.status == TransitionStatus::kAlreadyThere && some_done;
      outcome.status = finished ? TransitionStatus::kTransitioned : need.status;
      co_return outcome;
    }

    auto window = open_window(ops, request, record, need.direction);
    if (!window) co_return fail(window.error());
    const TimePoint asked = ops.clock.now();
    const auto permit = co_await ops.staged_bytes.acquire(window_bytes(**window));
    deadline += ops.clock.now() - asked;
    auto end = co_await try_window(ops, tail->map, *window, deadline);
    outcome.traffic += (*window)->traffic;
    if (request.spent != nullptr) *request.spent += (*window)->traffic;
    if (!end && !(*window)->refusal.empty()) {
      // Shards that a record refers to no more may be gone: only the newest tells (rule 8).
      const auto now = co_await read_tail(ops, request.key, deadline);
      if (!now) co_return fail(now.error());
      const bool has_changed =
          now->record == nullptr || !has_same_shards(**window, now->record->content);
      if (has_changed && ops.clock.now() >= deadline) {
        co_return fail(ErrorCode::kTimeout, "others commit again and again");
      }
      if (has_changed) continue;
      outcome.status = TransitionStatus::kRefused;
      outcome.reason = (*window)->refusal;
      co_return outcome;
    }
    if (!end) {
      auto again = co_await before_retry(ops, tail->map, end.error(), deadline);
      if (!again) co_return fail(again.error());
      continue;
    }
    if (*end == WindowEnd::kOverwritten) {
      outcome.status = TransitionStatus::kOverwritten;
      co_return outcome;
    }
    if (*end == WindowEnd::kCommitted) {
      some_done = true;
      deadline = ops.clock.now() + ops.settings.request_timeout;
    } else if (ops.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "others commit again and again");
    }
  }
}

}  // namespace elastripe
