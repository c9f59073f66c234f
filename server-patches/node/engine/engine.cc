#include "server-patches/node/engine/engine.h"

#include "server-patches/node/engine/impl.h"
#include "server-patches/node/format/fail_point.h"

namespace elastripe::node {

OwnedBytes::OwnedBytes(std::string_view text) : OwnedBytes(text.size()) {
  if (!text.empty()) std::memcpy(data_.get(), text.data(), text.size());
}

Answer refuse(Status status, std::string_view reason) {
  return {.status = status, .args = {}, .payload = OwnedBytes(reason), .epoch = {}};
}

void raise(std::atomic<uint64_t>& number, uint64_t to) {
  uint64_t seen = number;
  while (seen < to && !number.compare_exchange_weak(seen, to)) {
  }
}

namespace {

// Each takes 100 ms at most.
constexpr int kMaxRoomWaits = 10;

// A read changes nothing, so it has one only.
struct FailPoints {
  std::optional<FailPoint> received;
  std::optional<FailPoint> done;
};
FailPoints fail_points_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kShardRead:
      return {{}, FailPoint::kShardReadDone};
    case Opcode::kShardConfirm:
      return {{}, FailPoint::kShardConfirmDone};
    case Opcode::kShardBuild:
      return {FailPoint::kShardBuildReceived, FailPoint::kShardBuildDone};
    case Opcode::kShardWrite:
      return {FailPoint::kShardWriteReceived, FailPoint::kShardWriteDone};
    case Opcode::kRecordApply:
      return {FailPoint::kRecordApplyReceived, FailPoint::kRecordApplyDone};
    case Opcode::kRecordStore:
      return {FailPoint::kRecordStoreReceived, FailPoint::kRecordStoreDone};
    case Opcode::kShardDelete:
      return {FailPoint::kShardDeleteReceived, FailPoint::kShardDeleteDone};
    case Opcode::kShardPatch:
      return {FailPoint::kShardPatchReceived, FailPoint::kShardPatchDone};
    case Opcode::kLogAppend:
      return {FailPoint::kLogAppendReceived, FailPoint::kLogAppendDone};
    case Opcode::kLogStore:
      return {FailPoint::kLogStoreReceived, FailPoint::kLogStoreDone};
    case Opcode::kLogSettle:
      return {FailPoint::kLogSettleReceived, FailPoint::kLogSettleDone};
    default:
      return {};
  }
}

}  // namespace

Engine::Engine(EngineOptions options, ItemStore& store, const NodeClock& clock)
    : impl_(std::make_unique<Impl>(options, store, clock)) {}
Engine::~Engine() = default;
Reply Engine::serve(const Frame& frame) { return impl_->serve(frame); }
void Engine::tick() { impl_->tick(); }
Progress& Engine::progress() { return impl_->progress(); }
std::vector<std::pair<std::string, std::string>> Engine::statistics() const {
  return impl_->statistics();
}

Engine::Impl::Impl(EngineOptions options, ItemStore& store, const NodeClock& clock)
    : options_(options),
      store_(store),
      clock_(clock),
      latches_(std::make_unique<std::mutex[]>(options.latches)),
      deletions_(options.max_delayed_deletions),
      logs_({.unit_bytes = options.log_unit_bytes, .units = options.log_units}, store,
            options.latches),
      bodies_(store),
      shard_updates_(store, logs_.pool(), counters_) {}

Reply Engine::Impl::serve(const Frame& frame) {
  Answer answer = dispatch(frame);
  if (answer.args.size() + answer.payload.size() > kMaxBodyBytes) {
    answer = refuse(Status::kTooLarge, "the reply does not fit in a frame");
  }
  count(frame, answer);
  Reply reply;
  reply.header.opcode = frame.header.opcode;
  reply.header.status = answer.status;
  reply.header.args_bytes = static_cast<uint32_t>(answer.args.size());
  reply.header.body_bytes = static_cast<uint32_t>(answer.args.size() + answer.payload.size());
  reply.header.opaque = frame.header.opaque;
  reply.header.incarnation = options_.incarnation;
  reply.header.epoch = answer.epoch;
  reply.header.free_bytes = store_.memory().free_bytes;
  reply.args = std::move(answer.args);
  reply.payload = std::move(answer.payload);
  return reply;
}

Answer Engine::Impl::dispatch(const Frame& frame) {
  const RequestHeader& header = frame.header;
  if (header.args_bytes != frame.args.size() || header.body_bytes < header.args_bytes ||
      header.payload_bytes() != frame.payload.size() || header.body_bytes > kMaxBodyBytes) {
    return refuse(Status::kInvalid, "frame sizes do not match the header");
  }
  const auto number = static_cast<uint8_t>(header.opcode);
  if (!is_known(number)) {
    return refuse(Status::kInvalid, "unknown opcode " + std::to_string(number));
  }
  switch (header.opcode) {
    case Opcode::kHello:
      return hello(frame);
    case Opcode::kHeartbeat:
      return heartbeat(frame);
    case Opcode::kInstallMap:
      return install_map(frame);
    case Opcode::kNotices:
      return notices(frame);
    default:
      break;
  }
  for (int waits = 0;; ++waits) {
    Room room{.may_wait = waits < kMaxRoomWaits};
    Answer result = pass_gate(frame, room);
    if (!room.is_awaited) return result;
    // Nothing is locked here, so neither INSTALL_MAP nor other frames of the key wait too.
    if (!store_.wait_for_room(room.key_bytes, room.value_bytes, room.urgency)) {
      waits = kMaxRoomWaits - 1;
    }
  }
}

Answer Engine::Impl::pass_gate(const Frame& frame, Room& room) {
  const Progress::Stay stay(progress_, clock_.coarse_ms());
  // Held until the frame has taken effect: once INSTALL_MAP is answered, no frame of the epoch
  // before can (rule 2).
  std::shared_lock shared(gate_);
  std::optional<NodeId> self;
  const uint64_t now_ms = clock_.boottime_ms();
  std::optional<Answer> refusal = check_gate(frame, now_ms, self);
  Answer result =
      refusal ? std::move(*refusal) : dispatch_data({frame, *map_, *self, room, now_ms});
  if (map_) result.epoch = map_->epoch;
  return result;
}

ItemRef Engine::Impl::allocate(const Context& c, std::string_view key, size_t value_bytes,
                               Urgency urgency) {
  ItemRef item = store_.allocate(key, value_bytes, urgency);
  if (!item && c.room.may_wait) {
    c.room.is_awaited = true;
    c.room.key_bytes = key.size();
    c.room.value_bytes = value_bytes;
    c.room.urgency = urgency;
    return item;
  }
  if (!item && urgency != Urgency::kNewData) item = store_.allocate_in_place(key, value_bytes);
  if (!item) ++counters_.out_of_memory;
  return item;
}

ShardBodies::Allocate Engine::Impl::allocator(const Context& c) {
  return [this, &c](std::string_view key, size_t value_bytes, Urgency urgency) {
    return allocate(c, key, value_bytes, urgency);
  };
}

Answer Engine::Impl::dispatch_data(const Context& c) {
  const FailPoints points = fail_points_of(c.frame.header.opcode);
  if (points.received) fail_point(*points.received);
  Answer result = handle_data(c);
  if (points.done && result.status == Status::kOk) fail_point(*points.done);
  return result;
}

template <class Request>
Answer Engine::Impl::with_request(const Context& c,
                                  Answer (Impl::*handler)(const Context&, const Request&)) {
  const auto request = decode<Request>(c.frame.args);
  return request ? (this->*handler)(c, *request) : refuse(Status::kInvalid, request.error());
}

Answer Engine::Impl::handle_data(const Context& c) {
  switch (c.frame.header.opcode) {
    case Opcode::kRecordRead:
      return with_request(c, &Impl::record_read);
    case Opcode::kRecordApply:
      return with_request(c, &Impl::record_apply);
    case Opcode::kRecordStore:
      return with_request(c, &Impl::record_store);
    case Opcode::kRecordScan:
      return with_request(c, &Impl::record_scan);
    case Opcode::kMarkSynced:
      return with_request(c, &Impl::mark_synced);
    case Opcode::kRaiseFloor:
      return with_request(c, &Impl::raise_floor);
    case Opcode::kDropTombstones:
      return with_request(c, &Impl::drop_tombstones);
    case Opcode::kRecordConfirm:
      return with_request(c, &Impl::record_confirm);
    case Opcode::kRecordFetch:
      return with_request(c, &Impl::record_fetch);
    case Opcode::kShardWrite:
      return with_request(c, &Impl::shard_write);
    case Opcode::kShardRead:
      return with_request(c, &Impl::shard_read);
    case Opcode::kShardConfirm:
      return with_request(c, &Impl::shard_confirm);
    case Opcode::kShardDelete:
      return with_request(c, &Impl::shard_delete);
    case Opcode::kShardScan:
      return with_request(c, &Impl::shard_scan);
    case Opcode::kShardBuild:
      return with_request(c, &Impl::shard_build);
    case Opcode::kShardFingerprint:
      return with_request(c, &Impl::shard_fingerprint);
    case Opcode::kShardPatch:
      return with_request(c, &Impl::shard_patch);
    case Opcode::kShardUpdate:
      return with_request(c, &Impl::shard_update);
    case Opcode::kLogAppend:
      return with_request(c, &Impl::log_append);
    case Opcode::kLogStore:
      return with_request(c, &Impl::log_store);
    case Opcode::kLogSettle:
      return with_request(c, &Impl::log_settle);
    case Opcode::kLogScan:
      return with_request(c, &Impl::log_scan);
    case Opcode::kLogCancel:
      return with_request(c, &Impl::log_cancel);
    default:
      return refuse(Status::kInvalid, "unknown opcode");
  }
}

}  // namespace elastripe::node
