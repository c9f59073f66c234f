#include "proxy/ops/objects/prepare.h"

#include <algorithm>
#include <array>
#include <map>

#include "coding/coder.h"
#include "proxy/async/when_all.h"
#include "proxy/base/crc32c.h"
#include "proxy/cluster/record_chain.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/batches.h"
#include "proxy/ops/objects/read_segment.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::objects {

using node::Status;

namespace {

// Padding on the wire comes from here.
constexpr std::array<std::byte, 4096> kZeros{};

void add_zeros(std::vector<ByteView>& payload, size_t bytes) {
  while (bytes > 0) {
    const size_t part = std::min(bytes, kZeros.size());
    payload.push_back(ByteView(kZeros).first(part));
    bytes -= part;
  }
}

std::vector<ByteView> shard_payload(const StagedObject& staged, const StagedSegment& segment,
                                    const coding::SegmentGeometry& geometry, size_t index) {
  std::vector<ByteView> payload;
  if (index >= staged.scheme.k_prime) {
    const size_t bytes = geometry.parity_shard_bytes(segment.segment.state);
    payload.push_back(
        segment.parities.bytes().subspan((index - staged.scheme.k_prime) * bytes, bytes));
    return payload;
  }
  for (const auto& extent : geometry.shard_extents(static_cast<int>(index))) {
    if (extent.bytes > 0) {
      payload.push_back(segment.data.bytes().subspan(extent.offset, extent.bytes));
    }
    add_zeros(payload, extent.zeros);
  }
  return payload;
}

// Segments of one object start at different places of the ring, so that a large object spreads.
size_t placement_partition(const node::ClusterMap& map, std::string_view key, uint32_t number) {
  constexpr size_t kStride = 101;
  return (map.partition_of(key) + number * kStride) % map.partitions.size();
}

// What a shard takes of a node, about: a checksum for each page, the header and the item's own.
uint64_t room_of_shard(uint64_t payload_bytes) {
  constexpr uint64_t kHeaderBytes = 512;
  return payload_bytes + payload_bytes / 512 + kHeaderBytes;
}

// What nodes had acknowledged that are up no more has to be written again.
void forget_dead(const node::ClusterMap& map, StagedSegment& segment) {
  const auto& placement = segment.segment.placement;
  for (size_t i = 0; i < placement.size(); ++i) {
    if (!map.is_up(placement[i])) segment.written[i] = false;
  }
}

// Chooses nodes for the shards that are not written and have none in `map`. With degraded_writes,
// up to m shards may go without where nodes are down, parities first: any k' of the k'+m shards
// decode.
Result<void> place(OpsContext& ops, const node::ClusterMap& map, const StagedObject& staged,
                   StagedSegment& segment) {
  auto& placement = segment.segment.placement;
  const auto shards = static_cast<size_t>(staged.scheme.shards());
  if (placement.empty()) placement.assign(shards, kNoNode);
  std::vector<NodeId> kept;
  std::vector<size_t> open;
  for (size_t i = 0; i < shards; ++i) {
    if (segment.written[i] || map.is_up(placement[i])) {
      kept.push_back(placement[i]);
    } else {
      open.push_back(i);
    }
  }
  if (open.empty()) return {};
  auto geometry = geometry_of(staged.scheme, segment.segment);
  if (!geometry) return fail(geometry.error());
  std::vector<uint64_t> bytes(shards);
  for (size_t i = 0; i < shards; ++i) {
    bytes[i] = room_of_shard(geometry->shard_bytes(segment.segment.state, static_cast<int>(i)));
  }
  const MembersPtr members = ops.map.members();
  const NodeRoomsPtr rooms = ops.map.rooms();
  const ShardRoom room{*rooms, std::ranges::max(bytes), staged.refused};
  const Ring& ring = members->ring(map.capabilities);
  const size_t partition = placement_partition(map, staged.key, segment.segment.number);
  const size_t may_miss = staged.degraded_writes ? staged.scheme.m : 0;
  auto chosen = choose_nodes(map, ring, partition, open.size(), kept, room);
  for (size_t missing = 1; !chosen && chosen.error().code == ErrorCode::kUnavailable &&
                           missing <= std::min(may_miss, open.size());
       ++missing) {
    chosen = choose_nodes(map, ring, partition, open.size() - missing, kept, room);
  }
  if (!chosen && chosen.error().code == ErrorCode::kNoSpace) return fail(chosen.error());
  if (!chosen) return fail(ErrorCode::kTooFewNodes, "{}", chosen.error().message);
  for (size_t n = 0; n < open.size(); ++n) {
    const size_t i = open[n];
    placement[i] = n < chosen->size() ? (*chosen)[n] : kNoNode;
    segment.written[i] = false;
    // Until it has been written: what is placed meanwhile sees less room.
    segment.coming[i] =
        placement[i] == kNoNode ? ComingBytes() : ComingBytes(rooms, placement[i], bytes[i]);
  }
  return {};
}

// What is written in place of a shard that is not there, and what holds its bytes.
struct ShardBytes {
  std::vector<ByteView> payload;
  std::vector<Buffer> keep;
};

Task<Result<void>> write_bytes(OpsContext& ops, MapPtr map, StagedPtr staged, size_t segment_index,
                               size_t index, ShardBytes bytes, TimePoint deadline) {
  StagedSegment& segment = staged->segments[segment_index];
  const NodeId to = segment.segment.placement[index];
  node::ShardWriteRequest message;
  message.header.name = shard_name(segment.segment, staged->scheme, index);
  message.header.key = staged->key;
  for (const ByteView part : bytes.payload) {
    message.header.payload_bytes += static_cast<uint32_t>(part.size());
  }
  if (index >= staged->scheme.k_prime) message.header.vector_a.resize(staged->scheme.k_prime);
  auto write = question(message);
  write.frame->payload = std::move(bytes.payload);
  write.frame->keep = std::move(bytes.keep);
  const auto written =
      co_await ask(ops.nodes, *map, to, std::move(write), call_deadline(ops, deadline));
  segment.coming[index] = {};
  if (!written) co_return fail(written.error());
  ops.map.rooms()->note_free_bytes(to, written->reply.header.free_bytes);
  if (written->status() == Status::kNoSpace) {
    staged->refused.push_back(to);
    segment.segment.placement[index] = kNoNode;
    co_return fail(refusal(*map, to, written->reply));
  }
  segment.written[index] = true;
  segment.checksum[index] = written->args.crc32c;
  co_return Result<void>{};
}

Task<Result<void>> write_shard(OpsContext& ops, MapPtr map, StagedPtr staged, size_t segment_index,
                               coding::SegmentGeometry geometry, size_t index, TimePoint deadline) {
  const StagedSegment& segment = staged->segments[segment_index];
  if (segment.segment.placement[index] == kNoNode || segment.written[index]) {
    co_return Result<void>{};
  }
  ShardBytes bytes{shard_payload(*staged, segment, geometry, index),
                   {segment.data, segment.parities}};
  co_return co_await write_bytes(ops, map, staged, segment_index, index, std::move(bytes),
                                 deadline);
}

Result<void> first_error(const std::vector<Result<void>>& results) {
  // Out of memory and bad requests are final; say those first.
  for (const auto& result : results) {
    if (!result && !is_worth_retrying(result.error())) return result;
  }
  for (const auto& result : results) {
    if (!result) return result;
  }
  return {};
}

Task<Result<void>> write_data_shards(OpsContext& ops, MapPtr map, StagedPtr staged,
                                     size_t segment_index, coding::SegmentGeometry geometry,
                                     TimePoint deadline) {
  std::vector<Task<Result<void>>> writes;
  writes.reserve(staged->scheme.k_prime);
  for (size_t i = 0; i < staged->scheme.k_prime; ++i) {
    writes.push_back(write_shard(ops, map, staged, segment_index, geometry, i, deadline));
  }
  const auto results = co_await when_all(std::move(writes));
  co_return first_error(results);
}

// Computes the parities once, in slices: the data shards that were queued before leave meanwhile.
Task<Result<void>> encode_segment(OpsContext& ops, StagedPtr staged, size_t segment_index,
                                  coding::SegmentGeometry geometry) {
  StagedSegment& segment = staged->segments[segment_index];
  if (!segment.parities.empty()) co_return Result<void>{};
  if (!co_await ops.clock.next_turn()) co_return fail(ErrorCode::kCancelled, "shutting down");

  const size_t bytes = geometry.parity_shard_bytes(segment.segment.state);
  Buffer parities = Buffer::allocate(bytes * staged->scheme.m);
  std::vector<MutableByteView> outputs;
  outputs.reserve(staged->scheme.m);
  for (size_t j = 0; j < staged->scheme.m; ++j) {
    outputs.push_back(parities.mutable_bytes().subspan(j * bytes, bytes));
  }
  auto coder =
      coding::Coder::encoder(geometry, segment.segment.state, segment.data.bytes(), outputs);
  if (!coder) co_return fail(ErrorCode::kInvalid, "{}", coder.error());
  while (coder->step(coding::kStepBytes)) {
    if (!co_await ops.clock.next_turn()) co_return fail(ErrorCode::kCancelled, "shutting down");
  }
  segment.parities = std::move(parities);
  co_return Result<void>{};
}

// While the parities that were queued before leave: only the commit needs it.
Task<Result<void>> find_checksum(OpsContext& ops, StagedPtr staged, size_t segment_index) {
  if (!co_await ops.clock.next_turn()) co_return fail(ErrorCode::kCancelled, "shutting down");
  StagedSegment& segment = staged->segments[segment_index];
  // Bytes that change in place keep none.
  if (is_in_place(ops.pools.pool_of(staged->key).updates)) co_return Result<void>{};
  segment.segment.crc32c = crc32c(segment.data.bytes());
  co_return Result<void>{};
}

Task<Result<void>> write_parities(OpsContext& ops, MapPtr map, StagedPtr staged,
                                  size_t segment_index, coding::SegmentGeometry geometry,
                                  TimePoint deadline) {
  std::vector<Task<Result<void>>> writes;
  for (size_t i = staged->scheme.k_prime; i < static_cast<size_t>(staged->scheme.shards()); ++i) {
    writes.push_back(write_shard(ops, map, staged, segment_index, geometry, i, deadline));
  }
  const auto results = co_await when_all(std::move(writes));
  co_return first_error(results);
}

// Some are to be written, and have a node.
bool lacks_parities(const StagedObject& staged, const StagedSegment& segment) {
  for (size_t i = staged.scheme.k_prime; i < segment.written.size(); ++i) {
    if (!segment.written[i] && segment.segment.placement[i] != kNoNode) return true;
  }
  return false;
}

Task<Result<void>> encode_and_write_parities(OpsContext& ops, MapPtr map, StagedPtr staged,
                                             size_t segment_index, coding::SegmentGeometry geometry,
                                             TimePoint deadline) {
  const StagedSegment& segment = staged->segments[segment_index];
  if (!lacks_parities(*staged, segment)) co_return Result<void>{};  // a repair of data shards
  const bool is_first = segment.parities.empty();
  auto encoded = co_await encode_segment(ops, staged, segment_index, geometry);
  if (!encoded) co_return encoded;
  auto writing = write_parities(ops, map, staged, segment_index, geometry, deadline);
  if (!is_first) co_return co_await std::move(writing);
  auto [written, summed] =
      co_await when_both(std::move(writing), find_checksum(ops, staged, segment_index));
  co_return first_error({written, summed});
}

Task<Result<void>> write_placed(OpsContext& ops, MapPtr map, StagedPtr staged, size_t segment_index,
                                TimePoint deadline) {
  auto geometry = geometry_of(staged->scheme, staged->segments[segment_index].segment);
  if (!geometry) co_return fail(geometry.error());
  auto [data, parity] = co_await when_both(
      write_data_shards(ops, map, staged, segment_index, *geometry, deadline),
      encode_and_write_parities(ops, map, staged, segment_index, *geometry, deadline));
  co_return first_error({data, parity});
}

// What is told of the nodes' room is never of now. A shard that is refused goes to another node, if
// one tells that it has room; and so on, not often: then all of them are full.
constexpr int kPlacedAgain = 3;

Task<Result<void>> write_segment(OpsContext& ops, MapPtr map, StagedPtr staged, size_t index,
                                 TimePoint deadline) {
  for (int again = 0;; ++again) {
    const size_t refused_before = staged->refused.size();
    auto written = co_await write_placed(ops, map, staged, index, deadline);
    const bool is_refused = !written && written.error().code == ErrorCode::kNoSpace &&
                            staged->refused.size() > refused_before;
    if (!is_refused || again == kPlacedAgain) co_return written;
    auto placed = place(ops, *map, *staged, staged->segments[index]);
    if (!placed) co_return placed;
  }
}

struct Confirmed {
  size_t segment;
  size_t index;
};

bool is_old(const StagedSegment& segment, TimePoint now) {
  return now - segment.acknowledged >= kAcknowledgedLately;
}

bool some_are_old(const StagedObject& staged, TimePoint now) {
  return std::ranges::any_of(staged.segments,
                             [&](const StagedSegment& segment) { return is_old(segment, now); });
}

// Asks one node which of the shards that it had acknowledged it still has.
Task<Result<void>> confirm_on_node(OpsContext& ops, MapPtr map, StagedPtr staged, NodeId to,
                                   std::vector<Confirmed> shards, bool check_pages,
                                   TimePoint deadline) {
  std::vector<node::ShardName> names;
  names.reserve(shards.size());
  for (const auto& shard : shards) {
    names.push_back(
        shard_name(staged->segments[shard.segment].segment, staged->scheme, shard.index));
  }
  const auto confirmed =
      co_await confirm_shards(ops, map, to, std::move(names), check_pages, deadline);
  if (!confirmed) co_return fail(confirmed.error());
  for (size_t n = 0; n < shards.size(); ++n) {
    StagedSegment& segment = staged->segments[shards[n].segment];
    const auto& entry = (*confirmed)[n];
    const bool is_intact = !check_pages || entry.crc32c == segment.checksum[shards[n].index];
    if (!entry.present || !is_intact) {
      segment.written[shards[n].index] = false;
    }
  }
  co_return Result<void>{};
}

// Asks again about segments whose acknowledgements are of an older epoch, or old: a node that has
// lost its memory since may not have been missed yet, and no frame of the commit goes to it.
Task<Result<void>> confirm(OpsContext& ops, MapPtr map, StagedPtr staged, TimePoint deadline) {
  struct Asked {
    NodeId node;
    bool check_pages;
    auto operator<=>(const Asked&) const = default;
  };
  const TimePoint asked_at = ops.clock.now();
  std::map<Asked, std::vector<Confirmed>> asked;
  for (size_t s = 0; s < staged->segments.size(); ++s) {
    StagedSegment& segment = staged->segments[s];
    const bool is_of_now = segment.epoch_number == map->epoch.number;
    if (is_of_now && !is_old(segment, asked_at)) continue;
    for (size_t i = 0; i < segment.written.size(); ++i) {
      if (segment.written[i]) asked[{segment.segment.placement[i], !is_of_now}].push_back({s, i});
    }
  }
  std::vector<Task<Result<void>>> calls;
  calls.reserve(asked.size());
  for (const auto& [from, shards] : asked) {
    for (size_t first = 0; first < shards.size(); first += kShardsPerFrame) {
      const auto begin = shards.begin() + static_cast<ptrdiff_t>(first);
      const auto count = std::min(kShardsPerFrame, shards.size() - first);
      calls.push_back(
          confirm_on_node(ops, map, staged, from.node,
                          std::vector<Confirmed>(begin, begin + static_cast<ptrdiff_t>(count)),
                          from.check_pages, deadline));
    }
  }
  const auto results = co_await when_all(std::move(calls));
  auto confirmed = first_error(results);
  if (!confirmed) co_return confirmed;
  for (StagedSegment& segment : staged->segments) {
    if (is_old(segment, asked_at)) segment.acknowledged = asked_at;
  }
  co_return confirmed;
}

bool is_written(const StagedSegment& segment) {
  for (size_t i = 0; i < segment.written.size(); ++i) {
    if (!segment.written[i] && segment.segment.placement[i] != kNoNode) return false;
  }
  return true;
}

// Writes the shards that are missing; of a segment whose bytes were let go, it takes them back for
// as long.
Task<Result<void>> complete_segment(OpsContext& ops, MapPtr map, StagedPtr staged, size_t index,
                                    TimePoint deadline) {
  StagedSegment& segment = staged->segments[index];
  if (is_written(segment) || mutant(Mutant::kNoRebuild)) co_return Result<void>{};
  if (!segment.data.empty()) {
    co_return co_await write_segment(ops, map, staged, index, deadline);
  }
  const auto bytes = staged_bytes(*staged, index);
  if (!bytes) co_return fail(bytes.error());
  segment.memory = co_await ops.memory.rebuilt.acquire(*bytes);
  deadline = std::max(deadline, fresh_deadline(ops));
  auto data = co_await staged_data(ops, map, staged, index, deadline);
  Result<void> written;
  if (data) {
    segment.data = std::move(*data);
    written = co_await write_segment(ops, map, staged, index, deadline);
  } else {
    written = fail(data.error());
  }
  segment.let_go();
  co_return written;
}

Task<Result<void>> complete(OpsContext& ops, MapPtr map, StagedPtr staged, TimePoint deadline) {
  co_return co_await in_batches(
      staged->segments.size(), kSegmentsAtOnce,
      [&](size_t i) { return complete_segment(ops, map, staged, i, deadline); },
      [](size_t, const Result<void>& completed) { return completed; });
}

}  // namespace

uint64_t most_segments(const coding::Scheme& scheme) {
  const auto shards = static_cast<size_t>(scheme.shards());
  return node::kMaxContentBytes / 2 / (node::kSegmentBytes + shards * sizeof(NodeId));
}

Result<StagedSegment> new_segment(const coding::Scheme& scheme, coding::State state,
                                  uint32_t length, const node::Id128& txid) {
  const auto codec = coding::codec_for(scheme);
  if (!codec) return fail(ErrorCode::kInvalid, "{}", codec.error());
  const auto geometry = coding::SegmentGeometry::make(**codec, length);
  if (!geometry) return fail(ErrorCode::kInvalid, "{}", geometry.error());
  node::Segment segment;
  segment.state = state;
  segment.length = length;
  segment.block_bytes = static_cast<uint32_t>(geometry->block_bytes());
  segment.placement.resize(static_cast<size_t>(scheme.shards()));
  return replacement_of(segment, txid);
}

Result<StagedPtr> stage_object(OpsContext& ops, const Pool& pool, coding::State state,
                               std::string key, uint64_t size) {
  auto staged = std::make_shared<StagedObject>();
  staged->key = std::move(key);
  staged->scheme = pool.scheme;
  staged->degraded_writes = pool.degraded_writes;
  const Id128 data_txid = ops.ids.next();
  // Before a byte of it is sent: the table could not be committed.
  const uint64_t segments = (size + pool.segment_bytes - 1) / pool.segment_bytes;
  if (segments > most_segments(pool.scheme)) {
    return fail(ErrorCode::kTooLarge, "object too large for cache");
  }
  for (uint64_t offset = 0; offset < size; offset += pool.segment_bytes) {
    const auto length = std::min<uint64_t>(pool.segment_bytes, size - offset);
    auto segment = new_segment(pool.scheme, state, static_cast<uint32_t>(length), data_txid);
    if (!segment) return fail(segment.error());
    segment->segment.number = static_cast<uint32_t>(staged->segments.size());
    staged->segments.push_back(std::move(*segment));
  }
  return staged;
}

StagedSegment replacement_of(const node::Segment& segment, const node::Id128& txid) {
  StagedSegment staged;
  const size_t shards = segment.placement.size();
  staged.segment.data_txid = txid;
  staged.segment.parity_txid = txid;
  staged.segment.number = segment.number;
  staged.segment.state = segment.state;
  staged.segment.length = segment.length;
  staged.segment.block_bytes = segment.block_bytes;
  staged.written.assign(shards, false);
  staged.checksum.assign(shards, 0);
  staged.coming.resize(shards);
  return staged;
}

Result<uint64_t> staged_bytes(const StagedObject& staged, size_t index) {
  const node::Segment& segment = staged.segments[index].segment;
  const auto geometry = geometry_of(staged.scheme, segment);
  if (!geometry) return fail(geometry.error());
  return segment.length + uint64_t{staged.scheme.m} * geometry->parity_shard_bytes(segment.state);
}

Task<Result<Buffer>> staged_data(OpsContext& ops, MapPtr map, StagedPtr staged, size_t index,
                                 TimePoint deadline) {
  const StagedSegment& segment = staged->segments[index];
  if (!segment.data.empty()) co_return segment.data;
  auto read = co_await read_segment(ops, std::move(map), staged->scheme,
                                    SegmentPtr(staged, &segment.segment),
                                    {0, segment.segment.length}, nullptr, deadline);
  if (read) co_return std::move(read->bytes);
  if (read.error().code != ErrorCode::kNotFound) co_return fail(read.error());
  // More nodes are gone than the scheme survives; or reclaim took a value for abandoned that came
  // slowly.
  co_return fail(ErrorCode::kLost, "shards were lost while the value arrived: {}",
                 read.error().message);
}

Task<Result<void>> prepare_segment(OpsContext& ops, MapPtr map, StagedPtr staged, size_t index,
                                   TimePoint deadline) {
  StagedSegment& segment = staged->segments[index];
  forget_dead(*map, segment);
  auto placed = place(ops, *map, *staged, segment);
  if (!placed) co_return placed;
  const bool is_first = segment.epoch_number == 0 || mutant(Mutant::kRelabelAcks);
  if (is_first) {
    segment.epoch_number = map->epoch.number;
    segment.acknowledged = ops.clock.now();
  }
  co_return co_await write_segment(ops, map, staged, index, deadline);
}

Result<void> place_missing(OpsContext& ops, const node::ClusterMap& map, StagedObject& staged,
                           size_t index) {
  return place(ops, map, staged, staged.segments[index]);
}

Task<Result<void>> write_missing(OpsContext& ops, MapPtr map, StagedPtr staged, size_t index,
                                 TimePoint deadline) {
  return write_segment(ops, std::move(map), std::move(staged), index, deadline);
}

Task<Result<void>> copy_missing(OpsContext& ops, MapPtr map, StagedPtr staged, size_t index,
                                size_t shard, SegmentPtr from, TimePoint deadline) {
  const auto geometry = geometry_of(staged->scheme, *from);
  if (!geometry) co_return fail(geometry.error());
  Buffer bytes = Buffer::allocate(geometry->shard_bytes(from->state, static_cast<int>(shard)));
  const ShardRead read = co_await read_shard(ops, map, from->placement[shard],
                                             shard_name(*from, staged->scheme, shard),
                                             {bytes.mutable_bytes()}, {bytes}, deadline);
  switch (read) {
    case ShardRead::kRead:
      break;
    case ShardRead::kMissing:
      co_return fail(ErrorCode::kNotFound, "a shard is not where it was, or damaged");
    case ShardRead::kUnreachable:
      co_return fail(ErrorCode::kTimeout, "node {} does not answer",
                     node_name(*map, from->placement[shard]));
    case ShardRead::kStaleEpoch:
      co_return fail(ErrorCode::kStaleEpoch, "the map is over");
  }
  ShardBytes copy{{bytes.bytes()}, {bytes}};
  auto written = co_await write_bytes(ops, map, staged, index, shard, std::move(copy), deadline);
  if (written && staged->segments[index].checksum[shard] != crc32c(bytes.bytes())) {
    co_return fail(ErrorCode::kNotFound, "a shard was copied, and is another one");
  }
  co_return written;
}

Task<Result<void>> prepare(OpsContext& ops, MapPtr map, StagedPtr staged, TimePoint deadline) {
  const bool is_again = std::ranges::any_of(staged->segments, [&](const StagedSegment& segment) {
    return segment.epoch_number != 0 && segment.epoch_number != map->epoch.number;
  });
  if (is_again) ++ops.counters.reprepares;
  if (is_again && mutant(Mutant::kNoReprepare)) co_return Result<void>{};
  for (auto& segment : staged->segments) {
    forget_dead(*map, segment);
    auto placed = place(ops, *map, *staged, segment);
    if (!placed) co_return placed;
  }
  for (bool must_confirm = is_again || some_are_old(*staged, ops.clock.now()); must_confirm;) {
    auto confirmed = co_await confirm(ops, map, staged, deadline);
    if (!confirmed) co_return confirmed;
    for (auto& segment : staged->segments) segment.epoch_number = map->epoch.number;
    if (std::ranges::all_of(staged->segments, is_written)) co_return Result<void>{};
    auto completed = co_await complete(ops, map, staged, deadline);
    if (!completed) co_return completed;
    // Rebuilding the shards of many segments takes its time.
    must_confirm = some_are_old(*staged, ops.clock.now());
  }
  for (auto& segment : staged->segments) segment.epoch_number = map->epoch.number;
  co_return co_await complete(ops, map, staged, deadline);
}

Task<void> abandon(OpsContext& ops, StagedPtr staged) {
  co_await delete_shards(ops, shards_by_node(staged->scheme, segment_table(*staged)),
                         ops.clock.now() + ops.settings.node_timeout);
}

std::vector<node::Segment> segment_table(const StagedObject& staged) {
  std::vector<node::Segment> table;
  table.reserve(staged.segments.size());
  for (const auto& segment : staged.segments) table.push_back(segment.segment);
  return table;
}

}  // namespace elastripe::objects
