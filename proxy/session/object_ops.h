// ObjectOps: the flows as sessions call them. The proxy binds them to a worker's OpsContext; tests
// of sessions bind their own.
#pragma once

#include <functional>

#include "proxy/cluster/pool.h"
#include "proxy/ops/jobs/list_objects.h"
#include "proxy/ops/objects/outcome.h"

namespace elastripe {

// Loop thread only. Deadlines are added here, so that a session knows none.
class ObjectOps {
 public:
  virtual ~ObjectOps() = default;
  // Here and below: the key lives until it has ended.
  virtual Task<Result<objects::ReadOutcome>> get(const objects::ReadRequest& request,
                                                 objects::ValueSink& sink) = 0;
  virtual Task<Result<objects::StoreOutcome>> store(objects::StoreRequest request) = 0;
  virtual Task<Result<objects::UpdateOutcome>> update(objects::UpdateRequest request) = 0;
  virtual Task<Result<objects::CounterOutcome>> change_counter(objects::CounterRequest request) = 0;
  virtual Task<Result<objects::RemoveStatus>> remove(objects::RemoveRequest request) = 0;
  virtual Task<Result<bool>> touch(std::string_view key, uint32_t exptime) = 0;
  // Every value becomes a miss, now or at the unix second `at` (0: now).
  virtual Task<Result<void>> flush_all(uint32_t at) = 0;
  // Shows every object that there is (proxy/ops/jobs/list_objects.h).
  virtual Task<Result<void>> list(jobs::ObjectVisitor& visitor) = 0;
  // What large values take.
  virtual MemoryBudgets& memory() = 0;
  // How a value of so many bytes is stored under that key.
  virtual Storage storage_of(std::string_view key, uint64_t bytes) const = 0;
  // The largest value that a record under that key may hold.
  virtual uint64_t inline_max_bytes(std::string_view key) const = 0;
  // What clients are told of such a key while it can not be read.
  virtual bool unreadable_is_miss(std::string_view key) const = 0;
  // Why the proxy serves nothing now; empty while it serves.
  virtual std::string not_serving() const = 0;
};

class FlowOps : public ObjectOps {
 public:
  // What only the decider can do, on whichever thread it is.
  using Flush = std::function<Task<Result<void>>(uint32_t at)>;

  explicit FlowOps(OpsContext& context, Flush flush = {})
      : context_(context), flush_(std::move(flush)) {}

  Task<Result<objects::ReadOutcome>> get(const objects::ReadRequest& request,
                                         objects::ValueSink& sink) override;
  Task<Result<objects::StoreOutcome>> store(objects::StoreRequest request) override;
  Task<Result<objects::UpdateOutcome>> update(objects::UpdateRequest request) override;
  Task<Result<objects::CounterOutcome>> change_counter(objects::CounterRequest request) override;
  Task<Result<objects::RemoveStatus>> remove(objects::RemoveRequest request) override;
  Task<Result<bool>> touch(std::string_view key, uint32_t exptime) override;
  Task<Result<void>> flush_all(uint32_t at) override;
  Task<Result<void>> list(jobs::ObjectVisitor& visitor) override;
  MemoryBudgets& memory() override { return context_.memory; }
  Storage storage_of(std::string_view key, uint64_t bytes) const override;
  uint64_t inline_max_bytes(std::string_view key) const override;
  bool unreadable_is_miss(std::string_view key) const override;
  std::string not_serving() const override;

 private:
  TimePoint deadline() const {
    return context_.clock.turn_time() + context_.settings.request_timeout;
  }

  OpsContext& context_;
  const Flush flush_;
};

}  // namespace elastripe
