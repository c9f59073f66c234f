// ObjectOps: the flows as sessions call them. The proxy binds them to a worker's OpsContext; tests
// of sessions bind their own.
#pragma once

#include "proxy/ops/outcome.h"

namespace elastripe {

// Loop thread only. Deadlines are added here, so that a session knows none.
class ObjectOps {
 public:
  virtual ~ObjectOps() = default;
  // Here and below: `key` lives until it has ended.
  virtual Task<Result<ReadOutcome>> get(std::string_view key, ValueSink& sink, ByteRange range) = 0;
  virtual Task<Result<StoreOutcome>> store(StoreRequest request) = 0;
  virtual Task<Result<CounterOutcome>> change_counter(CounterRequest request) = 0;
  virtual Task<Result<bool>> remove(std::string_view key) = 0;
  virtual Task<Result<bool>> touch(std::string_view key, uint32_t exptime) = 0;
  virtual Task<Result<ReadOutcome>> touch_and_get(std::string_view key, uint32_t exptime,
                                                  ValueSink& sink) = 0;
  // Where the memory of the two comes from.
  virtual ReadBudget& read_budget() = 0;
  // Whether a value of that size is stored in shards under that key.
  virtual bool stripes(std::string_view key, uint64_t bytes) const = 0;
  // Why the proxy serves nothing now; empty while it serves.
  virtual std::string not_serving() const = 0;
};

class FlowOps : public ObjectOps {
 public:
  explicit FlowOps(OpsContext& context) : context_(context) {}

  Task<Result<ReadOutcome>> get(std::string_view key, ValueSink& sink, ByteRange range) override;
  Task<Result<StoreOutcome>> store(StoreRequest request) override;
  Task<Result<CounterOutcome>> change_counter(CounterRequest request) override;
  Task<Result<bool>> remove(std::string_view key) override;
  Task<Result<bool>> touch(std::string_view key, uint32_t exptime) override;
  Task<Result<ReadOutcome>> touch_and_get(std::string_view key, uint32_t exptime,
                                          ValueSink& sink) override;
  ReadBudget& read_budget() override { return context_.read_bytes; }
  bool stripes(std::string_view key, uint64_t bytes) const override;
  std::string not_serving() const override;

 private:
  TimePoint deadline() const {
    return context_.clock.turn_time() + context_.settings.request_timeout;
  }

  OpsContext& context_;
};

}  // namespace elastripe
