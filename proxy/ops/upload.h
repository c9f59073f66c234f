// Upload: the value of a striped PUT on its way into shards, segment by segment as it comes.
#pragma once

#include "proxy/ops/prepare.h"
#include "proxy/ops/value.h"

namespace elastripe {

// Stages the source's value (not empty) and writes its shards, under newer and newer maps; nothing
// refers to them yet. Segments of a value that has several are let go once they are written. Their
// memory is taken from `memory`; null: the caller has reserved one with its parities. The wait for
// memory and for the source does not count: `*deadline` moves by it, and to `request_timeout` after
// each segment but the first has come. Errors: those of the source and of prepare_segment; nothing
// is left behind then.
Task<Result<StagedPtr>> upload(OpsContext& ops, const Pool& pool, std::string key,
                               ValueSource& source, Semaphore* memory, TimePoint* deadline);

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

}  // namespace elastripe
