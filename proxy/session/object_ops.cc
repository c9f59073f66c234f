#include "proxy/session/object_ops.h"

namespace elastripe {

Task<Result<ReadOutcome>> FlowOps::get(std::string_view key, ValueSink& sink, ByteRange range) {
  return get_object(context_, key, sink, range, deadline());
}
Task<Result<StoreOutcome>> FlowOps::store(StoreRequest request) {
  return store_object(context_, std::move(request), deadline());
}
Task<Result<CounterOutcome>> FlowOps::change_counter(CounterRequest request) {
  return elastripe::change_counter(context_, request, deadline());
}
Task<Result<bool>> FlowOps::remove(std::string_view key) {
  return remove_object(context_, key, deadline());
}
Task<Result<bool>> FlowOps::touch(std::string_view key, uint32_t exptime) {
  return touch_object(context_, key, exptime, deadline());
}
Task<Result<ReadOutcome>> FlowOps::touch_and_get(std::string_view key, uint32_t exptime,
                                                 ValueSink& sink) {
  return touch_and_get_object(context_, key, exptime, sink, deadline());
}
bool FlowOps::stripes(std::string_view key, uint64_t bytes) const {
  return bytes > context_.pools.pool_of(key).inline_max_bytes;
}
std::string FlowOps::not_serving() const {
  return context_.map.current() == nullptr ? context_.map.reason() : std::string();
}

}  // namespace elastripe
