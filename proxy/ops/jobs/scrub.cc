#include "proxy/ops/jobs/scrub.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "coding/coder.h"
#include "proxy/async/when_all.h"
#include "proxy/base/crc32c.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/shards.h"

namespace elastripe::jobs {

namespace {

using node::RecordContent;
using node::Segment;

// One segment with all its shards as nodes keep them, padding included.
struct ShardsRead {
  coding::SegmentGeometry geometry;
  std::vector<Buffer> shards;
  std::vector<ShardRead> outcomes;

  const coding::Codec& codec() const { return geometry.codec(); }
  size_t data_shards() const { return codec().data_shards().count(); }
  bool has(size_t shard) const { return outcomes[shard] == ShardRead::kRead; }
  bool has_all_data() const {
    return std::ranges::all_of(outcomes.begin(),
                               outcomes.begin() + static_cast<ptrdiff_t>(data_shards()),
                               [](ShardRead read) { return read == ShardRead::kRead; });
  }
};

uint64_t bytes_of(const coding::SegmentGeometry& geometry, const Segment& segment) {
  uint64_t bytes = geometry.length();
  const auto shards = static_cast<int>(segment.placement.size());
  for (int i = 0; i < shards; ++i) bytes += geometry.shard_bytes(segment.state, i);
  const auto m = static_cast<uint64_t>(geometry.codec().scheme().m);
  return bytes + m * geometry.parity_shard_bytes(segment.state);
}

Task<ShardRead> read_one(OpsContext& ops, MapPtr map, NodeId from, node::ShardName name,
                         Buffer into, TimePoint deadline) {
  if (from == kNoNode) co_return ShardRead::kMissing;
  co_return co_await read_shard(ops, map, from, name, {into.mutable_bytes()}, {into}, deadline);
}

Task<ShardsRead> read_shards(OpsContext& ops, MapPtr map, const coding::Scheme& scheme,
                             const Segment& segment, coding::SegmentGeometry geometry,
                             TimePoint deadline) {
  ShardsRead read{geometry, {}, {}};
  std::vector<Task<ShardRead>> reads;
  for (size_t i = 0; i < segment.placement.size(); ++i) {
    read.shards.push_back(
        Buffer::allocate(geometry.shard_bytes(segment.state, static_cast<int>(i))));
    reads.push_back(read_one(ops, map, segment.placement[i], shard_name(segment, scheme, i),
                             read.shards.back(), deadline));
  }
  read.outcomes = co_await when_all(std::move(reads));
  co_return read;
}

Task<Result<void>> next_turn(OpsContext& ops) {
  if (co_await ops.clock.next_turn()) co_return Result<void>{};
  co_return fail(ErrorCode::kCancelled, "shutting down");
}

// The checksum is of the object's bytes in their order. In slices.
Task<Result<bool>> matches_checksum(OpsContext& ops, const ShardsRead& read,
                                    const Segment& segment) {
  if (segment.crc32c == 0) co_return true;
  Buffer object = Buffer::allocate(segment.length);
  for (size_t i = 0; i < read.data_shards(); ++i) {
    ByteView shard = read.shards[i].bytes();
    for (const coding::Extent& extent : read.geometry.shard_extents(static_cast<int>(i))) {
      if (extent.bytes > 0) {
        std::memcpy(object.mutable_bytes().data() + extent.offset, shard.data(), extent.bytes);
      }
      shard = shard.subspan(extent.bytes + extent.zeros);
    }
  }
  uint32_t crc = 0;
  for (ByteView rest = object.bytes(); !rest.empty();) {
    const size_t slice = std::min(rest.size(), coding::kStepBytes);
    crc = crc32c(rest.first(slice), crc);
    rest = rest.subspan(slice);
    if (auto turn = co_await next_turn(ops); !turn) co_return fail(turn.error());
  }
  co_return crc == segment.crc32c;
}

// Computes all parities again, in slices, and names those that differ.
Task<Result<std::vector<uint8_t>>> find_wrong(OpsContext& ops, const ShardsRead& read,
                                              const Segment& segment) {
  std::vector<Buffer> computed;
  std::vector<ByteView> shards;
  std::vector<MutableByteView> rebuilt(read.data_shards());
  for (size_t i = 0; i < read.shards.size(); ++i) {
    shards.push_back(read.shards[i].bytes());
    if (i < read.data_shards()) continue;
    computed.push_back(Buffer::allocate(read.shards[i].size()));
    rebuilt.push_back(computed.back().mutable_bytes());
  }
  auto coder = coding::Coder::rebuilder(
      read.geometry, coding::encode_plan(read.codec(), segment.state), shards, rebuilt);
  if (!coder) co_return fail(ErrorCode::kInvalid, "{}", coder.error());
  while (coder->step(coding::kStepBytes)) {
    if (auto turn = co_await next_turn(ops); !turn) co_return fail(turn.error());
  }
  std::vector<uint8_t> wrong;
  for (size_t i = read.data_shards(); i < shards.size(); ++i) {
    if (read.has(i) && !std::ranges::equal(shards[i], rebuilt[i])) {
      wrong.push_back(static_cast<uint8_t>(i));
    }
  }
  co_return wrong;
}

Task<Result<SegmentScrub>> scrub_segment(OpsContext& ops, MapPtr map, RecordPtr record,
                                         size_t index) {
  const coding::Scheme& scheme = record->content.scheme;
  const Segment& segment = record->content.segments[index];
  const auto geometry = geometry_of(scheme, segment);
  if (!geometry) co_return fail(geometry.error());
  const auto permit = co_await ops.memory.staged.acquire(bytes_of(*geometry, segment));
  const TimePoint deadline = ops.clock.now() + ops.settings.request_timeout;
  const ShardsRead read = co_await read_shards(ops, map, scheme, segment, *geometry, deadline);
  SegmentScrub scrub;
  for (size_t i = 0; i < read.outcomes.size(); ++i) {
    if (read.outcomes[i] == ShardRead::kStaleEpoch) {
      co_return fail(ErrorCode::kStaleEpoch, "the cluster map changed");
    }
    const auto shard = static_cast<uint8_t>(i);
    if (read.outcomes[i] == ShardRead::kMissing) scrub.missing.push_back(shard);
    if (read.outcomes[i] == ShardRead::kUnreachable) scrub.unreachable.push_back(shard);
  }
  if (!read.has_all_data()) co_return scrub;
  const auto matches = co_await matches_checksum(ops, read, segment);
  if (!matches) co_return fail(matches.error());
  scrub.data_matches = *matches;
  auto wrong = co_await find_wrong(ops, read, segment);
  if (!wrong) co_return fail(wrong.error());
  scrub.wrong = std::move(*wrong);
  co_return scrub;
}

// Nothing: the object was changed meanwhile, and its shards with it.
using MaybeReport = std::optional<ScrubReport>;

Task<Result<MaybeReport>> try_scrub(OpsContext& ops, MapPtr map, std::string key,
                                    TimePoint deadline) {
  auto tail = co_await records::try_read_tail(ops, map, key, /*if_version=*/0, deadline);
  if (!tail) co_return fail(tail.error());
  ScrubReport report;
  if (tail->record == nullptr || !is_live_now(ops, *map, *tail->record)) {
    co_return MaybeReport(report);
  }
  report.record = tail->record;
  const std::vector<Segment>& segments = report.record->content.segments;
  for (size_t i = 0; i < segments.size(); ++i) {
    auto scrub = co_await scrub_segment(ops, map, report.record, i);
    if (!scrub) co_return fail(scrub.error());
    report.segments.push_back(std::move(*scrub));
  }
  if (report.is_clean()) co_return MaybeReport(std::move(report));
  const auto now = co_await records::try_read_tail(ops, map, key, /*if_version=*/0,
                                                   ops.clock.now() + ops.settings.request_timeout);
  if (!now) co_return fail(now.error());
  if (now->record == nullptr || now->record->content.segments != segments) {
    co_return MaybeReport();
  }
  co_return MaybeReport(std::move(report));
}

}  // namespace

bool ScrubReport::is_clean() const {
  return std::ranges::all_of(segments, &SegmentScrub::is_clean);
}

Task<Result<ScrubReport>> scrub_object(OpsContext& ops, std::string key, TimePoint deadline) {
  return under_newest_map(ops, deadline, [&ops, key](const MapPtr& map, TimePoint& until) {
    return try_scrub(ops, map, key, until);
  });
}

}  // namespace elastripe::jobs
