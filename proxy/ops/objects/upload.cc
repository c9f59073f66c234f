#include "proxy/ops/objects/upload.h"

#include <algorithm>

#include "proxy/async/scope.h"
#include "proxy/ops/attempt.h"

namespace elastripe::objects {

namespace {

// Shared by the flow that takes the value in and those that write its segments.
struct Uploading {
  OpsContext& ops;
  StagedPtr staged;
  Semaphore at_once;
  Result<void> result{};  // the first error
};

// Until it is written once, whatever the maps in between; prepare() settles the epoch.
Task<Result<void>> write_segment(OpsContext& ops, StagedPtr staged, size_t index,
                                 TimePoint deadline) {
  return under_newest_map(ops, deadline,
                          [&ops, staged, index](const MapPtr& map, TimePoint& until) {
                            return prepare_segment(ops, map, staged, index, until);
                          });
}

Task<void> write_and_let_go(Uploading& upload, size_t index, Semaphore::Permit place,
                            TimePoint deadline) {
  auto written = co_await write_segment(upload.ops, upload.staged, index, deadline);
  if (!written && upload.result) upload.result = written;
  if (upload.staged->segments.size() > 1) upload.staged->segments[index].let_go();
  place.release();
}

// Takes the segments in and starts to write each.
Task<void> take_in(Uploading& upload, ValueSource& source, StagingMemory memory, Scope& writes,
                   TimePoint* deadline) {
  OpsContext& ops = upload.ops;
  for (size_t i = 0; i < upload.staged->segments.size(); ++i) {
    auto place = co_await upload.at_once.acquire(1);
    if (!upload.result) co_return;
    StagedSegment& segment = upload.staged->segments[i];
    const TimePoint asked = ops.clock.now();
    if (!memory.is_reserved()) {
      auto arrived = co_await source.arrived(segment.segment.length);
      if (!arrived && upload.result) upload.result = arrived;
      if (!upload.result) co_return;
      const auto bytes = staged_bytes(*upload.staged, i);
      if (!bytes) upload.result = fail(bytes.error());
      if (!bytes) co_return;
      segment.memory = co_await memory.acquire(*bytes);
    }
    auto data = co_await source.next(segment.segment.length);
    if (!data) {
      if (upload.result) upload.result = fail(data.error());
      co_return;
    }
    segment.data = std::move(*data);
    *deadline += ops.clock.now() - asked;
    if (i > 0) *deadline = std::max(*deadline, fresh_deadline(ops));
    writes.spawn(write_and_let_go(upload, i, std::move(place), *deadline));
  }
}

}  // namespace

Task<Result<StagedPtr>> upload(OpsContext& ops, const Pool& pool, coding::State state,
                               std::string key, ValueSource& source, StagingMemory memory,
                               TimePoint* deadline) {
  auto staged = stage_object(ops, pool, state, std::move(key), source.size());
  if (!staged) co_return fail(staged.error());
  Uploading uploading{ops, *staged, Semaphore(memory.is_reserved() ? 1 : kSegmentsAtOnce)};
  Scope writes;
  co_await take_in(uploading, source, memory, writes, deadline);
  co_await writes.join();
  if (uploading.result) co_return std::move(*staged);
  (*staged)->let_go();
  (void)ops.background.try_spawn(abandon(ops, *staged));
  co_return fail(uploading.result.error());
}

uint64_t StagedValue::size() const {
  uint64_t bytes = 0;
  for (const StagedSegment& segment : staged_->segments) bytes += segment.segment.length;
  return bytes;
}

Task<Result<Buffer>> StagedValue::next(size_t) {
  const size_t index = given_++;
  return under_newest_map(ops_, fresh_deadline(ops_),
                          [this, index](const MapPtr& map, TimePoint& until) {
                            return staged_data(ops_, map, staged_, index, until);
                          });
}

}  // namespace elastripe::objects
