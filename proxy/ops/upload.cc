#include "proxy/ops/upload.h"

#include <algorithm>

#include "proxy/async/scope.h"
#include "proxy/ops/attempt.h"

namespace elastripe {

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
  for (;;) {
    auto map = current_map(ops);
    if (!map) co_return fail(map.error());
    auto written = co_await prepare_segment(ops, *map, staged, index, deadline);
    if (written) co_return written;
    auto again = co_await before_retry(ops, *map, written.error(), deadline);
    if (!again) co_return again;
  }
}

Task<void> write_and_let_go(Uploading& upload, size_t index, Semaphore::Permit place,
                            TimePoint deadline) {
  auto written = co_await write_segment(upload.ops, upload.staged, index, deadline);
  if (!written && upload.result) upload.result = written;
  if (upload.staged->segments.size() > 1) upload.staged->segments[index].let_go();
  place.release();
}

// Takes the segments in and starts to write each.
Task<void> take_in(Uploading& upload, ValueSource& source, Semaphore* memory, Scope& writes,
                   TimePoint* deadline) {
  OpsContext& ops = upload.ops;
  for (size_t i = 0; i < upload.staged->segments.size(); ++i) {
    auto place = co_await upload.at_once.acquire(1);
    if (!upload.result) co_return;
    StagedSegment& segment = upload.staged->segments[i];
    const TimePoint asked = ops.clock.now();
    if (memory != nullptr) {
      const auto bytes = staged_bytes(*upload.staged, i);
      if (!bytes) upload.result = fail(bytes.error());
      if (!bytes) co_return;
      segment.memory = co_await memory->acquire(*bytes);
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

Task<Result<StagedPtr>> upload(OpsContext& ops, const Pool& pool, std::string key,
                               ValueSource& source, Semaphore* memory, TimePoint* deadline) {
  auto staged = stage_object(ops, pool, std::move(key), source.size());
  if (!staged) co_return fail(staged.error());
  Uploading uploading{ops, *staged, Semaphore(memory == nullptr ? 1 : kSegmentsAtOnce)};
  Scope writes;
  co_await take_in(uploading, source, memory, writes, deadline);
  co_await writes.join();
  if (uploading.result) co_return std::move(*staged);
  for (StagedSegment& segment : (*staged)->segments) segment.let_go();
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
  const TimePoint deadline = fresh_deadline(ops_);
  for (;;) {
    auto map = current_map(ops_);
    if (!map) co_return fail(map.error());
    auto data = co_await staged_data(ops_, *map, staged_, index, deadline);
    if (data) co_return data;
    auto again = co_await before_retry(ops_, *map, data.error(), deadline);
    if (!again) co_return fail(again.error());
  }
}

}  // namespace elastripe
