#include "proxy/ops/read_segment.h"

#include <algorithm>

#include "coding/coder.h"
#include "proxy/async/when_all.h"
#include "proxy/base/crc32c.h"
#include "proxy/ops/attempt.h"

namespace elastripe {

namespace {

// One segment being read. Shared by the reads of its shards.
struct SegmentRead {
  coding::Scheme scheme;
  SegmentPtr segment;
  coding::SegmentGeometry geometry;
  ByteRange range;  // of the segment; `data` is its bytes
  Buffer data;
  std::vector<Buffer> parities;  // by parity; empty until read
  coding::ShardSet have;
  coding::ShardSet missing;  // erasures, for good or for now
  bool some_unreachable = false;
  bool is_stale = false;

  size_t shards() const { return static_cast<size_t>(scheme.shards()); }
  bool is_whole() const { return range.length == segment->length; }
};
using SegmentReadPtr = std::shared_ptr<SegmentRead>;

// Which bytes of a shard are read, and where to.
struct ShardTarget {
  ShardRange range;
  std::vector<MutableByteView> into;
  std::vector<Buffer> keep;
};

// The bytes of data shard `index` between the first and the last that the range has, those between
// that it has not (and padding) to a place where they are forgotten. Nothing to read: an empty
// `into`.
ShardTarget data_target(SegmentRead& read, size_t index) {
  ShardTarget target;
  const size_t range_end = read.range.offset + read.range.length;
  size_t shard_offset = 0;
  size_t skipped = 0;  // since the last piece
  const auto skip_to = [&](size_t bytes) {
    if (bytes == 0) return;
    target.keep.push_back(Buffer::allocate(bytes));
    target.into.push_back(target.keep.back().mutable_bytes());
  };
  target.keep.push_back(read.data);
  for (const auto& extent : read.geometry.shard_extents(static_cast<int>(index))) {
    const size_t begin = std::max<size_t>(extent.offset, read.range.offset);
    const size_t end = std::min<size_t>(extent.offset + extent.bytes, range_end);
    if (begin < end) {
      skipped += begin - extent.offset;
      if (target.into.empty() && !read.is_whole()) {
        target.range.offset = static_cast<uint32_t>(shard_offset + begin - extent.offset);
      } else {
        skip_to(skipped);
      }
      target.into.push_back(
          read.data.mutable_bytes().subspan(begin - read.range.offset, end - begin));
      skipped = extent.offset + extent.bytes - end;
    } else {
      skipped += extent.bytes;
    }
    skipped += extent.zeros;
    shard_offset += extent.bytes + extent.zeros;
  }
  // A whole shard is asked for as such: its padding must be there too.
  if (read.is_whole()) skip_to(skipped);
  for (const auto& part : target.into) target.range.length += static_cast<uint32_t>(part.size());
  return target;
}

ShardTarget parity_target(SegmentRead& read, size_t index) {
  Buffer& parity = read.parities[index - read.scheme.k_prime];
  parity = Buffer::allocate(read.geometry.parity_shard_bytes(read.segment->state));
  return {{}, {parity.mutable_bytes()}, {parity}};
}

Task<bool> read_one(OpsContext& ops, MapPtr map, SegmentReadPtr read, size_t shard,
                    TimePoint deadline) {
  ShardTarget target =
      shard < read->scheme.k_prime ? data_target(*read, shard) : parity_target(*read, shard);
  if (target.into.empty()) co_return true;  // no byte of the range
  const auto outcome = co_await read_shard(ops, map, read->segment->placement[shard],
                                           shard_name(*read->segment, read->scheme, shard),
                                           std::move(target.into), std::move(target.keep), deadline,
                                           read->is_whole() ? ShardRange{} : target.range);
  if (outcome == ShardRead::kRead) {
    read->have.set(shard);
  } else {
    read->missing.set(shard);
    read->some_unreachable |= outcome == ShardRead::kUnreachable;
    read->is_stale |= outcome == ShardRead::kStaleEpoch;
  }
  co_return outcome == ShardRead::kRead;
}

// Reads those of `wanted` that were not tried yet.
Task<Result<void>> read_shards(OpsContext& ops, MapPtr map, SegmentReadPtr read,
                               coding::ShardSet wanted, TimePoint deadline) {
  std::vector<Task<bool>> reads;
  reads.reserve(wanted.count());
  for (size_t i = 0; i < read->shards(); ++i) {
    if (wanted[i] && !read->have[i] && !read->missing[i]) {
      reads.push_back(read_one(ops, map, read, i, deadline));
    }
  }
  co_await when_all(std::move(reads));
  if (read->is_stale) co_return fail(ErrorCode::kStaleEpoch, "the cluster map changed");
  co_return Result<void>{};
}

Error undecodable(const SegmentRead& read) {
  const std::string what = fmt::format("segment {}: {} of {} shards are missing",
                                       read.segment->number, read.missing.count(), read.shards());
  if (read.some_unreachable) return {ErrorCode::kUnavailable, what};
  return {ErrorCode::kNotFound, what};
}

// Shards of nodes that the map says are down, before any is asked for: what makes up for them is
// then read in the same round as the others.
void note_down_nodes(const node::ClusterMap& map, SegmentRead& read) {
  for (size_t i = 0; i < read.scheme.k_prime; ++i) {
    const auto outcome = read_without_asking(map, read.segment->placement[i]);
    if (!outcome) continue;
    read.missing.set(i);
    read.some_unreachable |= *outcome == ShardRead::kUnreachable;
  }
}

// Degraded read: fetches what the erasures need, and what was not read yet, and computes the
// missing data shards.
Task<Result<void>> decode_missing(OpsContext& ops, MapPtr map, SegmentReadPtr read,
                                  TimePoint deadline) {
  const coding::Codec& codec = read->geometry.codec();
  read->parities.resize(read->scheme.m);
  for (;;) {
    const auto plan = coding::decode_plan(codec, read->segment->state, read->missing,
                                          read->missing & codec.data_shards());
    if (!plan) co_return fail(undecodable(*read));
    const auto missing_before = read->missing;
    auto fetched = co_await read_shards(ops, map, read, plan->read | codec.data_shards(), deadline);
    if (!fetched) co_return fetched;
    if (read->missing != missing_before) continue;

    std::vector<ByteView> parities;
    for (const auto& parity : read->parities) parities.push_back(parity.bytes());
    auto coder =
        coding::Coder::decoder(read->geometry, *plan, read->data.mutable_bytes(), parities);
    if (!coder) co_return fail(ErrorCode::kInvalid, "{}", coder.error());
    while (coder->step(coding::kStepBytes)) {
      if (!co_await ops.clock.next_turn()) {
        co_return fail(ErrorCode::kCancelled, "shutting down");
      }
    }
    co_return Result<void>{};
  }
}

Result<void> verify(const SegmentRead& read) {
  if (read.segment->crc32c == 0 || crc32c(read.data.bytes()) == read.segment->crc32c) return {};
  return fail(ErrorCode::kLost, "segment {} does not match its checksum", read.segment->number);
}

Task<Semaphore::Permit> decode_memory(OpsContext& ops, uint64_t bytes, Duration* waited) {
  const TimePoint asked = ops.clock.now();
  auto permit = co_await ops.decode_bytes.acquire(bytes);
  *waited = ops.clock.now() - asked;
  co_return permit;
}

uint64_t parity_bytes(const SegmentRead& read) {
  return uint64_t{read.scheme.m} * read.geometry.parity_shard_bytes(read.segment->state);
}

// A part of a segment whose shards are missing: decoding takes all of what was coded together.
Task<Result<void>> decode_range(OpsContext& ops, MapPtr map, SegmentReadPtr part,
                                TimePoint deadline, Duration* waited) {
  const size_t length = part->segment->length;
  const auto memory = co_await decode_memory(ops, length + parity_bytes(*part), waited);
  auto whole = std::make_shared<SegmentRead>(*part);
  whole->range = {0, length};
  whole->data = Buffer::allocate(length);
  whole->have.reset();
  note_down_nodes(*map, *whole);
  auto decoded = co_await decode_missing(ops, map, whole, deadline + *waited);
  if (decoded) decoded = verify(*whole);
  if (!decoded) co_return decoded;
  std::ranges::copy(whole->data.bytes().subspan(part->range.offset, part->range.length),
                    part->data.mutable_data());
  co_return decoded;
}

}  // namespace

Task<Result<SegmentBytes>> read_segment(OpsContext& ops, MapPtr map, coding::Scheme scheme,
                                        SegmentPtr segment, ByteRange range, MemoryHold hold,
                                        TimePoint deadline, Duration* waited) {
  Duration of_memory{};
  if (waited == nullptr) waited = &of_memory;
  auto geometry = geometry_of(scheme, *segment);
  if (!geometry) co_return fail(geometry.error());
  auto read =
      std::make_shared<SegmentRead>(SegmentRead{scheme,
                                                segment,
                                                *geometry,
                                                range,
                                                Buffer::allocate(range.length, std::move(hold)),
                                                {},
                                                {},
                                                {}});
  if (read->is_whole()) note_down_nodes(*map, *read);
  Result<void> done;
  if (!read->missing.any()) {
    done = co_await read_shards(ops, map, read, geometry->codec().data_shards(), deadline);
  }
  const bool is_degraded = read->missing.any();
  if (done && is_degraded && !read->is_whole()) {
    done = co_await decode_range(ops, map, read, deadline, waited);
  } else if (done && is_degraded) {
    const auto memory = co_await decode_memory(ops, parity_bytes(*read), waited);
    done = co_await decode_missing(ops, map, read, deadline + *waited);
    read->parities.clear();
  }
  if (done && read->is_whole()) done = verify(*read);
  if (!done) co_return fail(done.error());
  co_return SegmentBytes{std::move(read->data), is_degraded};
}

}  // namespace elastripe
