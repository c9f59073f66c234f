// Upload: the value of a striped PUT on its way into shards, segment by segment as it comes.
#pragma once

#include "proxy/ops/objects/prepare.h"
#include "proxy/ops/objects/staging_memory.h"
#include "proxy/ops/objects/value.h"

namespace elastripe::objects {

// Stages the source's value (not empty), coded as `state` says, and writes its shards, under newer
// and newer maps; nothing refers to them yet. Segments of a value that has several are let go once
// they are written. Their memory is taken from `memory`, once bytes of them have come. The wait for
// memory and for the source does not count: `*deadline` moves by it, and to `request_timeout` after
// each segment but the first has come. Errors: those of the source and of prepare_segment; nothing
// is left behind then.
Task<Result<StagedPtr>> upload(OpsContext& ops, const Pool& pool, coding::State state,
                               std::string key, ValueSource& source, StagingMemory memory,
                               TimePoint* deadline);

// The value of a staged object again, for another upload: from its memory or its shards.
class StagedValue : public ValueSource {
 public:
  StagedValue(OpsContext& ops, StagedPtr staged) : ops_(ops), staged_(std::move(staged)) {}

  uint64_t size() const override;
  // `bytes` must be the next segment's.
  Task<Result<Buffer>> next(size_t bytes) override;

 private:
  OpsContext& ops_;
  const StagedPtr staged_;
  size_t given_ = 0;  // segments
};

}  // namespace elastripe::objects
