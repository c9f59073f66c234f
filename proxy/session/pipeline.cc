#include "proxy/session/pipeline.h"

#include <algorithm>
#include <utility>

#include "proxy/base/hash.h"
#include "proxy/base/reuse.h"
#include "proxy/memcache/replies.h"

namespace elastripe {
namespace {

// Kept for the next commands: most connections have few at once.
constexpr size_t kSpareSlots = kReusesMemory ? 16 : 0;
constexpr size_t kSmallKeys = 16;
constexpr size_t kSmallText = 1024;

void find_hashes(const ClientCommand& command, KeyHashes& hashes) {
  hashes.clear();
  hashes.reserve(command.keys.size() + 1);
  if (!command.key.empty()) hashes.push_back(hash64(command.key));
  for (const auto& key : command.keys) hashes.push_back(hash64(key));
}

// What many keys take.
uint64_t bytes_of_keys(const ClientCommand& command) {
  if (command.keys.size() <= kSmallKeys) return 0;
  uint64_t bytes = command.keys.size() * (sizeof(std::string) + sizeof(KeyHashes::value_type));
  for (const std::string& key : command.keys) bytes += key.size();
  return bytes;
}

memcache::Output reply_of(const ClientCommand& command, const CommandOutcome& outcome) {
  memcache::Output reply;
  command.responder().answer(reply, outcome);
  return reply;
}

}  // namespace

bool Pipeline::Slot::is_small() const {
  return command.keys.capacity() <= kSmallKeys && key_hashes.capacity() <= kSmallKeys &&
         command.argument.capacity() <= kSmallText;
}

void Pipeline::Slot::clear() {
  whole.reset();
  incoming_bytes = 0;
  incoming.reset();
  is_malformed = done = is_cut = false;
  value_bytes = 0;
}

Pipeline::Pipeline(SessionContext& context, Replies& replies, Owner& owner)
    : context_(context),
      replies_(replies),
      owner_(owner),
      memory_(std::make_shared<ClientMemory>(context.settings.read_bytes)) {}

bool Pipeline::has_room() const {
  const auto& settings = context_.settings;
  return slots_.size() < settings.commands_in_flight && replies_.has_room() &&
         keys_.size() < settings.keys_in_flight && key_bytes_ < settings.own_line_bytes &&
         bytes_in_flight_ < settings.bytes_in_flight;
}

Pipeline::SlotPtr Pipeline::slot_for(const memcache::Request& request) {
  SlotPtr slot;
  if (spare_slots_.empty()) {
    slot = std::make_unique<Slot>(*this);
  } else {
    slot = std::move(spare_slots_.back());
    spare_slots_.pop_back();
  }
  slot->command.assign(request, context_.clock);
  slot->writes = slot->command.writes();
  slot->has_all_keys =
      request.command == memcache::Command::kFlushAll || memcache::is_listing(request.command);
  find_hashes(slot->command, slot->key_hashes);
  slot->key_bytes = bytes_of_keys(slot->command);
  return slot;
}

void Pipeline::take(SlotPtr slot) {
  if (!try_start(slot)) held_ = std::move(slot);
}

void Pipeline::retry_held() {
  if (held_ != nullptr) (void)try_start(held_);
}

bool Pipeline::try_start(SlotPtr& slot) {
  const bool may = may_start(*slot);
  keys_wait_ = may && !fit_key_memory(slot->key_bytes);
  if (!may || keys_wait_) return false;
  key_bytes_ += slot->key_bytes;
  start(std::move(slot));
  return true;
}

bool Pipeline::may_start(const Slot& next) const {
  if (next.has_all_keys) return !keys_.any();
  if (context_.settings.order == CommandOrder::kConnection && keys_.any() &&
      (next.writes || keys_.has_writers())) {
    return next.key_hashes.empty();
  }
  return next.key_hashes.empty() ||
         !(keys_.all() || keys_.conflicts(next.key_hashes, next.writes, next.command.concerns));
}

// Takes memory for the keys of running commands and for so many bytes more, or lets go what they do
// not need any more. False: other clients have it.
bool Pipeline::fit_key_memory(uint64_t more) {
  const uint64_t own = context_.settings.own_line_bytes;
  const uint64_t all = key_bytes_ + more;
  const uint64_t wanted = all > own ? all - own : 0;
  if (wanted <= key_memory_.weight()) {
    key_memory_.shrink(wanted);
    return true;
  }
  auto permit = context_.line_bytes.try_acquire(wanted - key_memory_.weight());
  if (permit) key_memory_.merge(std::move(*permit));
  return permit.has_value();
}

void Pipeline::start(SlotPtr next) {
  Slot& slot = *slots_.emplace_back(std::move(next));
  if (slot.whole) {
    slot.command.value = &*slot.whole;
    slot.value_bytes = slot.whole->size();
  } else if (slot.incoming_bytes > 0) {
    slot.incoming =
        std::make_unique<IncomingValue>(slot.incoming_bytes, [this] { owner_.value_asked(); });
    slot.command.value = slot.incoming.get();
    // Until it is committed, it may be in memory, as far as a flow keeps it there.
    slot.value_bytes = std::min(slot.incoming_bytes, context_.settings.bytes_in_flight);
    owner_.begin_value(slot);
  }
  bytes_in_flight_ += slot.value_bytes;
  keys_.add(slot.key_hashes, slot.writes, slot.command.concerns);
  if (slot.has_all_keys) keys_.add_all();
  scope_.spawn(run(&slot));
}

Task<void> Pipeline::run(Slot* slot) {
  memcache::Output reply = co_await execute(context_, *slot, slot->command);
  owner_.command_ended(*slot);
  if (slot->is_malformed) {
    reply = reply_of(slot->command, memcache::replies::kBadDataChunk);
  }
  add_reply(*slot, std::move(reply));
  slot->done = true;
  keys_.remove(slot->key_hashes, slot->writes, slot->command.concerns);
  if (slot->has_all_keys) keys_.remove_all();
  if (!slot->is_small()) {  // it may wait long behind others
    std::vector<std::string>().swap(slot->command.keys);
    KeyHashes().swap(slot->key_hashes);
    key_bytes_ -= std::exchange(slot->key_bytes, 0);
    (void)fit_key_memory(0);
  }
  slot->whole.reset();
  bytes_in_flight_ -= slot->value_bytes;
  owner_.request_turn_end();
}

void Pipeline::answer(SlotPtr slot, const CommandOutcome& outcome) {
  if (slot->command.noreply) return;
  slot->whole.reset();
  slot->done = true;
  add_reply(*slot, reply_of(slot->command, outcome));
  slots_.push_back(std::move(slot));
}

void Pipeline::add_reply(Slot& slot, memcache::Output&& part) {
  if (is_over() || slot.command.noreply || slot.is_cut) return;
  replies_.compose(slot.output, std::move(part));
  owner_.request_turn_end();
}

void Pipeline::queue_replies() {
  while (!is_over() && !slots_.empty()) {
    Slot& slot = *slots_.front();
    replies_.queue(slot.output);
    if (!slot.done) return;
    if (slot.is_cut) return cut_off();
    if (spare_slots_.size() < kSpareSlots && slot.is_small()) {
      slot.clear();
      spare_slots_.push_back(std::move(slots_.front()));
    }
    slots_.pop_front();
  }
}

// The client learns from the end of the connection that the last reply is not whole. What was
// answered before it still arrives.
void Pipeline::cut_off() {
  is_cut_ = true;
  held_.reset();
  keys_wait_ = false;
  for (auto& slot : slots_) slot->output = {};
  replies_.drop_composed();
}

void Pipeline::close() {
  is_closed_ = true;
  keys_wait_ = false;
  // The memory of these replies may be what other reads wait for.
  for (auto& slot : slots_) slot->output = {};
  replies_.clear();
}

bool Pipeline::may_send(const Slot& slot) const {
  return replies_.has_room_for(slot.output, slots_.front().get() == &slot);
}

Task<void> Pipeline::room_for(const Slot& slot) {
  struct Wait : Waiter {
    WaitList& list;
    explicit Wait(WaitList& of) : list(of) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiter) {
      handle = waiter;
      list.push_back(*this);
    }
    void await_resume() const noexcept {}
  };
  while (!slot.has_room()) co_await Wait(senders_);
}

void Pipeline::wake_senders() {
  for (WaitList woken = std::exchange(senders_, {}); !woken.empty();) {
    woken.pop_front().handle.resume();
  }
}

}  // namespace elastripe
