#include "proxy/session/object_ops.h"

namespace elastripe {

Task<Result<objects::ReadOutcome>> FlowOps::get(const objects::ReadRequest& request,
                                                objects::ValueSink& sink) {
  return objects::read_object(context_, request, sink, deadline());
}
Task<Result<objects::StoreOutcome>> FlowOps::store(objects::StoreRequest request) {
  return objects::store_object(context_, request, deadline());
}
Task<Result<objects::UpdateOutcome>> FlowOps::update(objects::UpdateRequest request) {
  return objects::update_object(context_, request, deadline());
}
Task<Result<objects::CounterOutcome>> FlowOps::change_counter(objects::CounterRequest request) {
  return objects::change_counter(context_, request, deadline());
}
Task<Result<objects::RemoveStatus>> FlowOps::remove(objects::RemoveRequest request) {
  return objects::remove_object(context_, request, deadline());
}
Task<Result<bool>> FlowOps::touch(std::string_view key, uint32_t exptime) {
  return objects::touch_object(context_, key, exptime, deadline());
}
Task<Result<void>> FlowOps::flush_all(uint32_t at) { return flush_(at); }
Task<Result<void>> FlowOps::list(jobs::ObjectVisitor& visitor) {
  return jobs::list_objects(context_, visitor);
}
Storage FlowOps::storage_of(std::string_view key, uint64_t bytes) const {
  return elastripe::storage_of(context_.pools.pool_of(key), bytes);
}
uint64_t FlowOps::inline_max_bytes(std::string_view key) const {
  return context_.pools.pool_of(key).inline_max_bytes;
}
bool FlowOps::unreadable_is_miss(std::string_view key) const {
  return context_.pools.pool_of(key).unreadable_is_miss;
}
std::string FlowOps::not_serving() const {
  return context_.map.current() == nullptr ? context_.map.reason() : std::string();
}

}  // namespace elastripe
