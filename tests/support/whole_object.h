// Objects as tests read them: whole, with the memory of ops.read_bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/ops/objects/outcome.h"

namespace elastripe {

struct WholeObject {
  std::optional<objects::Object> object;  // nothing: a miss
  std::vector<Buffer> parts;
  objects::ReadPath path = objects::ReadPath::kInline;

  std::string value() const {
    std::string bytes;
    for (const Buffer& part : parts) bytes += part.text();
    return bytes;
  }
};

class WholeSink : public objects::ValueSink {
 public:
  explicit WholeSink(OpsContext& ops) : ops_(ops) {}

  MemoryHold try_reserve(uint64_t bytes) override {
    ReadBudget& budget = ops_.memory.read;
    const bool early = bytes <= budget.early.free();
    auto permit = (early ? budget.early : budget.in_turn).try_acquire(bytes);
    return permit ? held(std::move(*permit)) : nullptr;
  }
  Task<Result<MemoryHold>> reserve(uint64_t bytes) override {
    auto permit = co_await ops_.memory.read.in_turn.acquire(bytes);
    if (!co_await ops_.clock.next_turn()) {
      co_return fail(ErrorCode::kCancelled, "shutting down");
    }
    co_return held(std::move(permit));
  }
  void begin(const objects::Object& object) override { whole.object = object; }
  void part(Buffer bytes) override { whole.parts.push_back(std::move(bytes)); }

  WholeObject whole;

 private:
  static MemoryHold held(Semaphore::Permit permit) {
    return std::make_shared<const Semaphore::Permit>(std::move(permit));
  }

  OpsContext& ops_;
};

inline Task<Result<WholeObject>> get_whole(OpsContext& ops, std::string key, TimePoint deadline,
                                           objects::ByteRange range = {}) {
  WholeSink sink(ops);
  const auto outcome = co_await objects::get_object(ops, key, sink, range, deadline);
  if (!outcome) co_return fail(outcome.error());
  sink.whole.path = outcome->path;
  co_return std::move(sink.whole);
}

inline Task<Result<WholeObject>> touch_and_get_whole(OpsContext& ops, std::string key,
                                                     uint32_t exptime, TimePoint deadline) {
  WholeSink sink(ops);
  const auto outcome =
      co_await objects::touch_and_get_object(ops, key, exptime, sink, {}, deadline);
  if (!outcome) co_return fail(outcome.error());
  sink.whole.path = outcome->path;
  co_return std::move(sink.whole);
}

}  // namespace elastripe
