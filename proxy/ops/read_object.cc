#include "proxy/ops/read_object.h"

#include <algorithm>

#include "coding/coder.h"
#include "proxy/async/when_all.h"
#include "proxy/base/crc32c.h"
#include "proxy/ops/attempt.h"

namespace elastripe {

namespace {

// One segment being read. Shared by the reads of its shards.
struct SegmentRead {
  RecordPtr record;
  size_t index = 0;
  coding::SegmentGeometry geometry;
  Buffer data;                   // the segment's bytes
  std::vector<Buffer> parities;  // by parity; empty until read
  coding::ShardSet have;
  coding::ShardSet missing;  // erasures, for good or for now
  bool some_unreachable = false;
  bool is_stale = false;

  const node::Segment& segment() const { return record->content.segments[index]; }
  const coding::Scheme& scheme() const { return record->content.scheme; }
};
using SegmentReadPtr = std::shared_ptr<SegmentRead>;

Task<bool> read_one(OpsContext& ops, MapPtr map, SegmentReadPtr read, size_t shard,
                    TimePoint deadline) {
  std::vector<MutableByteView> into;
  std::vector<Buffer> keep;
  if (shard < read->scheme().k_prime) {
    keep.push_back(read->data);
    for (const auto& extent : read->geometry.shard_extents(static_cast<int>(shard))) {
      if (extent.bytes > 0) {
        into.push_back(read->data.mutable_bytes().subspan(extent.offset, extent.bytes));
      }
      if (extent.zeros > 0) {
        keep.push_back(Buffer::allocate(extent.zeros));  // padding: read and forgotten
        into.push_back(keep.back().mutable_bytes());
      }
    }
  } else {
    Buffer& parity = read->parities[shard - read->scheme().k_prime];
    parity = Buffer::allocate(read->geometry.parity_shard_bytes(read->segment().state));
    keep.push_back(parity);
    into.push_back(parity.mutable_bytes());
  }
  const auto outcome = co_await read_shard(ops, map, read->segment().placement[shard],
                                           shard_name(read->segment(), read->scheme(), shard),
                                           std::move(into), std::move(keep), deadline);
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
  for (size_t i = 0; i < static_cast<size_t>(read->scheme().shards()); ++i) {
    if (wanted[i] && !read->have[i] && !read->missing[i]) {
      reads.push_back(read_one(ops, map, read, i, deadline));
    }
  }
  co_await when_all(std::move(reads));
  if (read->is_stale) co_return fail(ErrorCode::kStaleEpoch, "the cluster map changed");
  co_return Result<void>{};
}

Error undecodable(const SegmentRead& read) {
  const std::string what = fmt::format("segment {}: {} of {} shards are missing", read.index,
                                       read.missing.count(), read.scheme().shards());
  if (read.some_unreachable) return {ErrorCode::kUnavailable, what};
  return {ErrorCode::kNotFound, what};
}

// Degraded read: fetches the parities that the erasures need, and computes the missing data shards.
Task<Result<void>> decode_missing(OpsContext& ops, MapPtr map, SegmentReadPtr read,
                                  TimePoint deadline) {
  const coding::Codec& codec = read->geometry.codec();
  read->parities.resize(read->scheme().m);
  for (;;) {
    const auto plan = coding::decode_plan(codec, read->segment().state, read->missing,
                                          read->missing & codec.data_shards());
    if (!plan) co_return fail(undecodable(*read));
    const auto missing_before = read->missing;
    auto fetched = co_await read_shards(ops, map, read, plan->read, deadline);
    if (!fetched) co_return fetched;
    if (read->missing != missing_before) continue;

    std::vector<ByteView> parities;
    for (const auto& parity : read->parities) parities.push_back(parity.bytes());
    auto coder =
        coding::Coder::decoder(read->geometry, *plan, read->data.mutable_bytes(), parities);
    if (!coder) co_return fail(ErrorCode::kInvalid, "{}", coder.error());
    while (coder->step(coding::kStepBytes)) {
      if (!co_await ops.clock.sleep_until(ops.clock.now())) {
        co_return fail(ErrorCode::kCancelled, "shutting down");
      }
    }
    co_return Result<void>{};
  }
}

Task<Result<SegmentReadPtr>> read_segment(OpsContext& ops, MapPtr map, RecordPtr record,
                                          size_t index, MemoryHold hold, TimePoint deadline) {
  const node::Segment& segment = record->content.segments[index];
  auto geometry = geometry_of(record->content.scheme, segment);
  if (!geometry) co_return fail(geometry.error());
  auto read =
      std::make_shared<SegmentRead>(SegmentRead{record,
                                                index,
                                                *geometry,
                                                Buffer::allocate(segment.length, std::move(hold)),
                                                {},
                                                {},
                                                {},
                                                false,
                                                false});

  auto fetched = co_await read_shards(ops, map, read, geometry->codec().data_shards(), deadline);
  if (fetched && read->missing.any()) fetched = co_await decode_missing(ops, map, read, deadline);
  if (!fetched) co_return fail(fetched.error());
  if (segment.crc32c != 0 && crc32c(read->data.bytes()) != segment.crc32c) {
    co_return fail(ErrorCode::kLost, "segment {} does not match its checksum", index);
  }
  co_return read;
}

}  // namespace

Task<Result<ObjectBytes>> read_object(OpsContext& ops, MapPtr map, RecordPtr record,
                                      MemoryHold hold, TimePoint deadline) {
  std::vector<Task<Result<SegmentReadPtr>>> reads;
  reads.reserve(record->content.segments.size());
  for (size_t i = 0; i < record->content.segments.size(); ++i) {
    reads.push_back(read_segment(ops, map, record, i, hold, deadline));
  }
  hold.reset();  // from now on with the buffers alone
  auto results = co_await when_all(std::move(reads));
  ObjectBytes object;
  for (auto& result : results) {
    if (!result) co_return fail(result.error());
    object.is_degraded |= (*result)->missing.any();
    object.segments.push_back((*result)->data);
  }
  co_return object;
}

}  // namespace elastripe
