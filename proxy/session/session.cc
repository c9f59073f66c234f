#include "proxy/session/session.h"

#include <event2/event.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "proxy/base/check.h"
#include "proxy/base/hash.h"
#include "proxy/base/reuse.h"
#include "proxy/memcache/compose.h"
#include "proxy/memcache/replies.h"

namespace elastripe {
namespace {

using memcache::Command;

// Then other sockets of the loop get their turn.
constexpr size_t kReadPerTurn = 1 << 20;

bool is_write(Command command) {
  switch (command) {
    case Command::kGat:
    case Command::kGats:
    case Command::kIncr:
    case Command::kDecr:
    case Command::kDelete:
    case Command::kTouch:
      return true;
    default:
      return memcache::is_storage(command);
  }
}

// Of retrievals and of commands with one key.
void find_hashes(const ClientCommand& command, KeyHashes& hashes) {
  hashes.clear();
  hashes.reserve(command.keys.size() + 1);
  if (!command.key.empty()) hashes.push_back(hash64(command.key));
  for (const auto& key : command.keys) hashes.push_back(hash64(key));
}

// Kept for the next commands: most connections have few at once.
constexpr size_t kSpareSlots = kReusesMemory ? 16 : 0;
constexpr size_t kSmallKeys = 16;
constexpr size_t kSmallText = 1024;

}  // namespace

Session::Session(Loop& loop, Fd socket, SessionContext& context, ReadScratch& scratch, Owner& owner)
    : TurnEnd(loop),
      loop_(loop),
      socket_(std::move(socket)),
      context_(context),
      scratch_(scratch),
      owner_(owner),
      read_budget_(std::make_shared<ReadBudget>(context.settings.read_bytes, 0)),
      last_activity_(loop.now()) {
  read_event_ =
      event_new(loop_.base(), socket_.get(), EV_READ | EV_PERSIST, &Session::on_readable, this);
  write_event_ = event_new(loop_.base(), socket_.get(), EV_WRITE, &Session::on_writable, this);
  CHECK(read_event_ != nullptr && write_event_ != nullptr);
  watch();
  on_timer();
}

Session::~Session() { close_socket(); }

void Session::close_socket() {
  cancel();
  if (read_event_ != nullptr) event_free(std::exchange(read_event_, nullptr));
  if (write_event_ != nullptr) event_free(std::exchange(write_event_, nullptr));
  reading_ = false;
  socket_.reset();
  // Nobody takes these replies any more; their memory may be what other reads wait for.
  out_.clear();
  drop_replies();
  break_off_upload("the client is gone");
}

// What has come whole is stored.
void Session::break_off_upload(const char* why) {
  if (uploading_ != nullptr) uploading_->incoming->break_off({ErrorCode::kCancelled, why});
}

void Session::drop_replies() {
  for (auto& slot : slots_) slot->output = {};
  reply_bytes_ = 0;
}

void Session::drain() {
  finishing_ = true;
  left_over_.clear();
  break_off_upload("the proxy is shutting down");
  request_turn_end();
}

void Session::abort() {
  close_socket();
  request_turn_end();
}

void Session::on_readable(int, short, void* self) {
  auto& session = *static_cast<Session*>(self);
  session.read_some();
  session.request_turn_end();
}

void Session::on_writable(int, short, void* self) {
  static_cast<Session*>(self)->request_turn_end();
}

// Replies leave here, at most one write a turn, and what waited for them goes on.
void Session::on_turn_end() {
  if (open()) resume_input();
  if (open()) {
    send_finished();
  }
  if (open()) {
    const uint64_t before = out_.written_bytes();
    const auto flushed = out_.flush(socket_.get());
    const uint64_t sent = out_.written_bytes() - before;
    if (sent > 0) {
      context_.stats.sent(sent);
      last_activity_ = loop_.turn_time();
    }
    if (flushed == WriteQueue::Flush::kBroken) close_socket();
    if (flushed == WriteQueue::Flush::kBlocked) CHECK(event_add(write_event_, nullptr) == 0);
  }
  const bool all_answered = finishing_ && slots_.empty() && held_ == nullptr;
  if (open() && (all_answered || cut_) && out_.empty()) close_socket();
  if (!open()) {
    if (scope_.live() == 0) owner_.ended(*this);
    return;
  }
  watch_client();
  // Sending has made room.
  if (may_go_on()) request_turn_end();
  watch();
}

// Whether what comes next has a place to go to.
bool Session::can_take_input() {
  if (uploading_ != nullptr) return block_.body_left() == 0 || !value_room().empty();
  return receiving() || has_room();
}

// A session at one of its limits reads nothing: the client's sends then wait in TCP.
void Session::watch() {
  const bool want = open() && !finishing_ && !end_of_input_ && held_ == nullptr &&
                    !left_over_waits_ && can_take_input();
  if (want == reading_) return;
  reading_ = want;
  CHECK((want ? event_add(read_event_, nullptr) : event_del(read_event_)) == 0);
}

void Session::watch_client() {
  const TimePoint now = loop_.turn_time();
  // A segment has to come whole: between two of them others must see that the upload lives.
  const bool in_parts = uploading_ != nullptr;
  const bool in_line = !left_over_.empty() && !left_over_waits_ && can_take_input();
  const uint64_t enough = context_.settings.progress_bytes;
  const bool waits = in_parts ? can_take_input() : !finishing_ && (receiving() || in_line);
  sending_.update(now, waits, value_bytes_, in_parts ? UINT64_MAX : enough);
  taking_.update(now, !out_.empty(), out_.written_bytes(), enough);
}

void Session::on_timer() {
  const auto& settings = context_.settings;
  const TimePoint now = loop_.now();
  const TimePoint late =
      std::min(sending_.late_at(settings.stall_timeout), taking_.late_at(settings.stall_timeout));
  const bool is_idle = slots_.empty() && held_ == nullptr && !receiving() && out_.empty();
  const bool may_idle = !is_idle || settings.idle_timeout == Duration::zero();
  const TimePoint idle_end = may_idle ? TimePoint::max() : last_activity_ + settings.idle_timeout;
  if (now >= late) context_.stats.connection_cut();
  if (now >= std::min(late, idle_end)) return abort();
  Duration period = settings.stall_timeout;
  if (settings.idle_timeout > Duration::zero()) period = std::min(period, settings.idle_timeout);
  loop_.arm(*this, std::min(now + period, std::min(late, idle_end)));
}

void Session::read_some() {
  for (size_t taken = 0; taken < kReadPerTurn && reading_;) {
    const size_t got = read_once();
    if (got == 0) return;
    taken += got;
    watch();
  }
}

// Bytes taken; 0 when there is nothing more to read now.
size_t Session::read_once() {
  std::array<iovec, 2> parts;
  size_t count = 0;
  const MutableByteView room = value_room();
  if (!room.empty()) parts[count++] = {room.data(), room.size()};
  // What is behind a part that was asked for waits in TCP for the next one.
  const bool to_scratch = room.size() == block_.body_left();
  if (to_scratch) parts[count++] = {scratch_.bytes.get(), ReadScratch::kBytes};
  const size_t asked = room.size() + (to_scratch ? ReadScratch::kBytes : 0);
  const ssize_t got = readv(socket_.get(), parts.data(), static_cast<int>(count));
  if (got < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) abort();
    return 0;
  }
  if (got == 0) {
    end_of_input_ = true;
    return 0;
  }
  const auto bytes = static_cast<size_t>(got);
  context_.stats.received(bytes);
  last_activity_ = loop_.turn_time();
  const size_t to_value = std::min(bytes, room.size());
  if (to_value > 0) value_received(to_value);
  const std::string_view input(reinterpret_cast<const char*>(scratch_.bytes.get()),
                               bytes - to_value);
  if (left_over_.empty()) {
    left_over_ = input.substr(process(input));
  } else {
    left_over_ += input;
    left_over_.erase(0, process(left_over_));
  }
  return bytes < asked ? 0 : bytes;
}

void Session::resume_input() {
  // What was taken before the end was known is still answered.
  if (held_ != nullptr && may_start(*held_)) start(std::move(held_));
  if (finishing_) return break_off_upload("the proxy is shutting down");
  if (held_ == nullptr && left_over_waits_) left_over_.erase(0, process(left_over_));
  if (!end_of_input_ || held_ != nullptr || left_over_waits_) return;
  finishing_ = true;
  break_off_upload("the client sent no more");
}

bool Session::may_go_on() {
  return !finishing_ && held_ == nullptr && left_over_waits_ && can_take_input();
}

size_t Session::process(std::string_view input) {
  const size_t offered = input.size();
  left_over_waits_ = false;
  while (!finishing_ && open() && step(input)) {
  }
  return finishing_ ? offered : offered - input.size();
}

bool Session::step(std::string_view& input) {
  if (held_ != nullptr) {
    left_over_waits_ = true;
    return false;
  }
  if (swallow_left_ > 0) {
    const auto part = static_cast<size_t>(std::min<uint64_t>(swallow_left_, input.size()));
    input.remove_prefix(part);
    swallow_left_ -= part;
    value_bytes_ += part;
    if (swallow_left_ == 0) sending_.restart();
    return swallow_left_ == 0;
  }
  if (!block_.complete()) return receive_value(input);
  if (input.empty()) return false;
  if (!has_room()) {
    left_over_waits_ = true;
    return false;
  }
  const memcache::ParseResult parsed = parser_.parse(input, request_);
  if (parsed.status == memcache::ParseStatus::kNeedMore) return false;
  sending_.restart();
  if (parsed.status == memcache::ParseStatus::kRequest) {
    begin_command();
    input.remove_prefix(parsed.consumed);
    return true;
  }
  input.remove_prefix(parsed.consumed);
  if (!parsed.reply.empty()) answer_line(parsed.reply, false);
  swallow_left_ = parsed.swallow_bytes;
  if (parsed.close) finishing_ = true;
  return true;
}

bool Session::has_room() const {
  const auto& settings = context_.settings;
  return slots_.size() < settings.commands_in_flight &&
         out_.bytes() + reply_bytes_ < settings.unsent_bytes &&
         keys_.size() < settings.keys_in_flight && bytes_in_flight_ < settings.bytes_in_flight;
}

void Session::begin_command() {
  if (request_.command == Command::kQuit) {
    finishing_ = true;
    return;
  }
  if (!memcache::is_storage(request_.command)) return start_or_hold(new_slot());
  if (request_.value_bytes > context_.settings.max_object_bytes) {
    answer_line(memcache::replies::kTooLarge, request_.noreply);
    swallow_left_ = uint64_t{request_.value_bytes} + memcache::DataBlock::kTerminatorBytes;
    return;
  }
  SlotPtr slot = new_slot();
  if (context_.ops.stripes(slot->command.key, request_.value_bytes)) {
    slot->command.incoming_bytes = request_.value_bytes;
    return start_or_hold(std::move(slot));
  }
  storing_ = std::move(slot);
  storing_->command.value = Buffer::allocate(request_.value_bytes);
  received_ = 0;
  block_ = memcache::DataBlock(request_.value_bytes);
}

// Where the next bytes of the value go.
MutableByteView Session::value_room() {
  if (uploading_ != nullptr) return uploading_->incoming->room();
  if (storing_ == nullptr) return {};
  return storing_->command.value.mutable_bytes().subspan(received_);
}

void Session::value_received(size_t bytes) {
  value_bytes_ += bytes;
  block_.body_received(bytes);
  if (uploading_ != nullptr) {
    uploading_->incoming->received(bytes);
  } else {
    received_ += bytes;
  }
}

bool Session::receive_value(std::string_view& input) {
  while (!input.empty() && block_.body_left() > 0) {
    const MutableByteView room = value_room();
    if (room.empty()) {
      left_over_waits_ = true;
      return false;
    }
    const size_t part = std::min(room.size(), input.size());
    std::memcpy(room.data(), input.data(), part);
    input.remove_prefix(part);
    value_received(part);
    if (swallow_left_ > 0) return true;  // its command has failed meanwhile
  }
  if (block_.body_left() == 0) block_.take_terminator(input);
  if (!block_.complete()) return false;
  end_value();
  return true;
}

void Session::end_value() {
  sending_.restart();
  if (Slot* slot = std::exchange(uploading_, nullptr)) {
    if (block_.valid()) return slot->incoming->complete();
    slot->is_malformed = true;
    return slot->incoming->break_off({ErrorCode::kCancelled, "the value has no line end"});
  }
  received_ = 0;
  SlotPtr slot = std::exchange(storing_, nullptr);
  if (block_.valid()) {
    start_or_hold(std::move(slot));
  } else {
    answer_line(memcache::replies::kBadDataChunk, slot->command.noreply);
  }
}

// The command has ended without its value, which the client may still be sending.
void Session::swallow_rest(Slot& slot) {
  if (uploading_ != &slot) return;
  uploading_ = nullptr;
  swallow_left_ = block_.left();
  block_ = {};
}

// Of the request that was parsed.
Session::SlotPtr Session::new_slot() {
  SlotPtr slot;
  if (spare_slots_.empty()) {
    slot = std::make_unique<Slot>(*this);
  } else {
    slot = std::move(spare_slots_.back());
    spare_slots_.pop_back();
  }
  slot->command.assign(request_);
  slot->writes = is_write(request_.command);
  find_hashes(slot->command, slot->key_hashes);
  return slot;
}

bool Session::Slot::is_small() const {
  return command.keys.capacity() <= kSmallKeys && key_hashes.capacity() <= kSmallKeys &&
         command.argument.capacity() <= kSmallText;
}

void Session::Slot::clear() {
  command.value = {};
  incoming.reset();
  is_malformed = done = is_cut = false;
  value_bytes = 0;
}

void Session::start_or_hold(SlotPtr slot) {
  if (may_start(*slot)) {
    start(std::move(slot));
  } else {
    held_ = std::move(slot);
  }
}

bool Session::may_start(const Slot& next) const {
  return !keys_.conflicts(next.key_hashes, next.writes);
}

void Session::start(SlotPtr next) {
  Slot& slot = *slots_.emplace_back(std::move(next));
  ClientCommand& command = slot.command;
  slot.value_bytes = command.value.size();
  if (command.incoming_bytes > 0) {
    slot.incoming = std::make_unique<IncomingValue>(command.incoming_bytes, [this] {
      sending_.restart();
      request_turn_end();
    });
    command.source = slot.incoming.get();
    // Until it is committed, it may be in memory, as far as a flow keeps it there.
    slot.value_bytes = std::min(command.incoming_bytes, context_.settings.bytes_in_flight);
    block_ = memcache::DataBlock(command.incoming_bytes);
    uploading_ = &slot;
  }
  bytes_in_flight_ += slot.value_bytes;
  keys_.add(slot.key_hashes, slot.writes);
  scope_.spawn(run(&slot));
}

Task<void> Session::run(Slot* slot) {
  memcache::Output reply = co_await execute(context_, *slot, slot->command);
  swallow_rest(*slot);
  if (slot->is_malformed) {
    reply = {};
    memcache::compose_line(reply, memcache::replies::kBadDataChunk);
  }
  add_reply(*slot, std::move(reply));
  slot->done = true;
  last_activity_ = loop_.turn_time();  // a reply may not leave for it
  keys_.remove(slot->key_hashes, slot->writes);
  if (!slot->is_small()) {  // it may wait long behind others
    std::vector<std::string>().swap(slot->command.keys);
    KeyHashes().swap(slot->key_hashes);
  }
  bytes_in_flight_ -= slot->value_bytes;
  request_turn_end();
}

void Session::answer_line(std::string_view line, bool noreply) {
  if (noreply) return;
  Slot& slot = *slots_.emplace_back(std::make_unique<Slot>(*this));
  slot.done = true;
  memcache::Output output;
  memcache::compose_line(output, line);
  add_reply(slot, std::move(output));
}

void Session::add_reply(Slot& slot, memcache::Output part) {
  if (!open() || cut_ || slot.command.noreply || slot.is_cut) return;
  reply_bytes_ += part.bytes();
  slot.output.append(std::move(part));
  request_turn_end();
}

void Session::send_output(Slot& slot) {
  reply_bytes_ -= slot.output.bytes();
  slot.output.drain([this](std::string_view text) { out_.copy(as_bytes(text)); },
                    [this](Buffer value) {
                      const ByteView bytes = value.bytes();
                      out_.reference(bytes, std::move(value));
                    });
}

// The client learns from the end of the connection that the last reply is not whole. What was
// answered before it still arrives.
void Session::cut_off() {
  cut_ = finishing_ = true;
  left_over_.clear();
  held_.reset();
  drop_replies();
}

void Session::send_finished() {
  while (!cut_ && !slots_.empty()) {
    Slot& slot = *slots_.front();
    send_output(slot);
    if (!slot.done) return;
    if (slot.is_cut) return cut_off();
    if (spare_slots_.size() < kSpareSlots && slot.is_small()) {
      slot.clear();
      spare_slots_.push_back(std::move(slots_.front()));
    }
    slots_.pop_front();
  }
}

}  // namespace elastripe
