#include "proxy/session/input.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "proxy/memcache/replies.h"

namespace elastripe {
namespace {

using memcache::Command;

constexpr const char* kShuttingDown = "the proxy is shutting down";

// Then other sockets of the loop get their turn.
constexpr size_t kReadPerTurn = 1 << 20;
constexpr size_t kKeptInput = 4096;

}  // namespace

bool Input::can_take() {
  if (uploading_ != nullptr) {
    return block_.body_left() == 0 || uploading_->incoming->awaits_arrival() ||
           !value_room().empty();
  }
  return is_receiving() || pipeline_.has_room();
}

// Who has not logged in takes no memory that others wait for.
memcache::ParseLimits Input::limits() const {
  memcache::ParseLimits limits;
  if (!login_.is_done()) limits.retrieval_line_bytes = limits.line_bytes;
  return limits;
}

bool Input::wants_bytes() {
  return !finished_ && !at_end_ && !pipeline_.holds() && !left_over_waits_ && !line_waits_ &&
         can_take();
}

bool Input::read_from(Stream& stream) {
  bool is_broken = false;
  for (size_t taken = 0; taken < kReadPerTurn && wants_bytes();) {
    const size_t got = read_once(stream, is_broken);
    if (got == 0) break;
    taken += got;
  }
  return !is_broken;
}

// Bytes taken; 0 when there is nothing more to read now.
size_t Input::read_once(Stream& stream, bool& is_broken) {
  std::array<iovec, 2> parts;
  size_t count = 0;
  const MutableByteView room = value_room();
  if (!room.empty()) parts[count++] = {room.data(), room.size()};
  // What is behind a part that was asked for waits in TCP for the next one.
  const bool to_scratch = room.size() == block_.body_left() || room.empty();
  if (to_scratch) parts[count++] = {scratch_.bytes.get(), ReadScratch::kBytes};
  const size_t asked = room.size() + (to_scratch ? ReadScratch::kBytes : 0);
  const Stream::Taken got = stream.read(std::span(parts).first(count));
  is_broken = got.error != 0;
  at_end_ = got.at_end;
  if (got.bytes == 0) return 0;
  context_.stats.received(got.bytes);
  received_bytes_ += got.bytes;
  const size_t to_value = std::min(got.bytes, room.size());
  if (to_value > 0) value_received(to_value);
  keep({reinterpret_cast<const char*>(scratch_.bytes.get()), got.bytes - to_value});
  return got.bytes < asked ? 0 : got.bytes;
}

// Processes the input behind what is left over, and leaves over what can not be processed yet.
void Input::keep(std::string_view input) {
  if (left_over_.empty()) {
    left_over_ = input.substr(process(input));
  } else {
    left_over_ += input;
    process_left_over();
  }
  if (left_over_.empty() && left_over_.capacity() > kKeptInput) std::string().swap(left_over_);
  give_memory_to_held();
  line_waits_ = !fit_line_memory();
}

void Input::process_left_over() { left_over_.erase(0, process(left_over_)); }

// Starts the held command if what it waits for is the memory of its own line.
void Input::give_memory_to_held() {
  if (line_memory_.weight() == 0 || !pipeline_.waits_for_keys()) return;
  line_memory_.release();
  pipeline_.retry_held();
}

// False: the lines of others have it. A long line has all of its memory or none. What is behind a
// command that is held has none: it is one read at most, and the command may wait for that memory.
bool Input::fit_line_memory() {
  if (pipeline_.holds() || left_over_.size() <= context_.settings.own_line_bytes) {
    line_memory_.release();
  } else if (line_memory_.weight() == 0) {
    auto memory = context_.line_bytes.try_acquire(context_.settings.longest_line_bytes);
    if (!memory) return false;
    line_memory_ = std::move(*memory);
  }
  return true;
}

void Input::resume() {
  // What was taken before the end was known is still answered.
  pipeline_.retry_held();
  if (draining_ && !is_in_command()) finish(kShuttingDown);
  if (finished_) return break_off_upload(kShuttingDown);
  if (!pipeline_.holds() && left_over_waits_) process_left_over();
  give_memory_to_held();
  line_waits_ = !fit_line_memory();
  if (at_end_ && !pipeline_.holds() && !left_over_waits_) finish("the client sent no more");
}

bool Input::may_resume() {
  return !finished_ && !pipeline_.holds() && left_over_waits_ && can_take();
}

void Input::finish(const char* why) {
  finished_ = true;
  left_over_.clear();
  left_over_waits_ = line_waits_ = false;
  line_memory_.release();
  break_off_upload(why);
}

void Input::drain() {
  draining_ = true;
  if (!is_in_command()) finish(kShuttingDown);
}

// Has taken a command that waits for its value, or for a command before it.
bool Input::is_in_command() const {
  return storing_ != nullptr || uploading_ != nullptr || pipeline_.holds();
}

// A value that has come whole is stored.
void Input::break_off_upload(const char* why) {
  if (uploading_ != nullptr) uploading_->incoming->break_off({ErrorCode::kCancelled, why});
}

size_t Input::process(std::string_view input) {
  const size_t offered = input.size();
  left_over_waits_ = false;
  while (!finished_ && step(input)) {
  }
  return finished_ ? offered : offered - input.size();
}

bool Input::step(std::string_view& input) {
  if (pipeline_.holds()) {
    left_over_waits_ = true;
    return false;
  }
  if (swallow_left_ > 0) return swallow(input);
  // Also when all of it has come past the input, and nothing is to come behind it.
  if (storing_ != nullptr || uploading_ != nullptr) return receive_value(input);
  if (input.empty() || draining_) return false;
  if (!pipeline_.has_room()) {
    left_over_waits_ = true;
    return false;
  }
  const memcache::ParseResult parsed = parser_.parse(input, request_);
  if (parsed.status == memcache::ParseStatus::kNeedMore) return false;
  sending_.restart();
  if (parsed.status == memcache::ParseStatus::kRequest) {
    begin_command();  // refers to the input
    input.remove_prefix(parsed.consumed);
    return true;
  }
  if (parsed.refusal) {
    pipeline_.answer(pipeline_.slot_for(request_),
                     login_.is_done() ? parsed.refusal : memcache::replies::kUnauthenticated);
  }
  input.remove_prefix(parsed.consumed);
  swallow_left_ = parsed.swallow_bytes;
  if (parsed.close) finished_ = true;
  return true;
}

bool Input::swallow(std::string_view& input) {
  const auto part = static_cast<size_t>(std::min<uint64_t>(swallow_left_, input.size()));
  input.remove_prefix(part);
  swallow_left_ -= part;
  value_bytes_ += part;
  if (swallow_left_ == 0) sending_.restart();
  return swallow_left_ == 0;
}

void Input::begin_command() {
  if (request_.command == Command::kQuit) {
    finished_ = true;
    if (request_.binary) pipeline_.take(pipeline_.slot_for(request_));
    return;
  }
  if (login_.is_attempt(request_)) {
    if (request_.value_bytes > Login::kMaxValueBytes) {
      return answer_here(memcache::replies::kUnauthenticated);
    }
    is_login_ = true;
    return collect(pipeline_.slot_for(request_));
  }
  if (const auto answer = login_.answer(request_)) return answer_here(*answer);
  if (!memcache::is_storage(request_.command)) {
    return pipeline_.take(pipeline_.slot_for(request_));
  }
  if (request_.value_bytes > context_.settings.max_object_bytes) {
    context_.stats.add(Stat::kStoreTooLarge);
    return answer_here(memcache::replies::kTooLarge);
  }
  Pipeline::SlotPtr slot = pipeline_.slot_for(request_);
  if (context_.ops.storage_of(slot->command.key, request_.value_bytes) == Storage::kStriped) {
    slot->incoming_bytes = request_.value_bytes;
    return pipeline_.take(std::move(slot));
  }
  collect(std::move(slot));
}

// The value that follows, if one does, is swallowed.
void Input::answer_here(const CommandOutcome& outcome) {
  const Command which = request_.command;
  Pipeline::SlotPtr slot = pipeline_.slot_for(request_);
  if (memcache::is_storage(which) || memcache::is_sasl_login(which)) {
    swallow_left_ = uint64_t{request_.value_bytes} + slot->command.terminator_bytes();
  }
  pipeline_.answer(std::move(slot), outcome);
}

// The command goes on when its value has come whole.
void Input::collect(Pipeline::SlotPtr slot) {
  storing_ = std::move(slot);
  value_ = Buffer::allocate(request_.value_bytes);
  received_ = 0;
  block_ = memcache::DataBlock(request_.value_bytes, storing_->command.terminator_bytes());
}

void Input::log_in(Pipeline::SlotPtr slot, std::string_view value) {
  const CommandOutcome outcome = login_.log_in(slot->command, value);
  context_.stats.add(Stat::kAuthCmds);
  if (!login_.is_done()) context_.stats.login_failed();
  parser_ = memcache::RequestParser(limits());
  pipeline_.answer(std::move(slot), outcome);
  if (login_.is_hopeless()) finished_ = true;
}

void Input::begin_value(Pipeline::Slot& slot) {
  block_ = memcache::DataBlock(slot.incoming->size(), slot.command.terminator_bytes());
  uploading_ = &slot;
}

// Where the next bytes of the value go.
MutableByteView Input::value_room() {
  if (uploading_ != nullptr) return uploading_->incoming->room();
  if (storing_ == nullptr) return {};
  return value_.mutable_bytes().subspan(received_);
}

void Input::value_received(size_t bytes) {
  value_bytes_ += bytes;
  block_.body_received(bytes);
  if (uploading_ != nullptr) {
    uploading_->incoming->received(bytes);
  } else {
    received_ += bytes;
  }
}

bool Input::receive_value(std::string_view& input) {
  while (!input.empty() && block_.body_left() > 0) {
    if (uploading_ != nullptr) uploading_->incoming->offer(input.size());
    if (swallow_left_ > 0) return true;  // its command has failed meanwhile
    const MutableByteView room = value_room();
    if (room.empty()) {
      left_over_waits_ = !uploading_->incoming->awaits_arrival();
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

void Input::end_value() {
  sending_.restart();
  if (Pipeline::Slot* slot = std::exchange(uploading_, nullptr)) {
    if (block_.valid()) return slot->incoming->complete();
    slot->is_malformed = true;
    return slot->incoming->break_off({ErrorCode::kCancelled, "the value has no line end"});
  }
  received_ = 0;
  Pipeline::SlotPtr slot = std::exchange(storing_, nullptr);
  Buffer value = std::exchange(value_, {});
  const bool is_login = std::exchange(is_login_, false);
  if (!block_.valid()) {
    return pipeline_.answer(std::move(slot), memcache::replies::kBadDataChunk);
  }
  if (is_login) return log_in(std::move(slot), node::as_text(value.bytes()));
  slot->whole.emplace(std::move(value));
  pipeline_.take(std::move(slot));
}

void Input::command_ended(Pipeline::Slot& slot) {
  if (uploading_ != &slot) return;
  uploading_ = nullptr;
  swallow_left_ = block_.left();
  block_ = {};
}

// More of a line is to come.
bool Input::is_in_line() {
  return !left_over_.empty() && !left_over_waits_ && !line_waits_ && can_take();
}

bool Input::holds_value_memory() {
  return uploading_ != nullptr && uploading_->incoming_bytes > kSmallBytes &&
         (!value_room().empty() || block_.body_left() == 0);
}

void Input::watch_client(TimePoint now) {
  // A segment has to come whole: between two of them others must see that the upload lives.
  const bool in_parts = uploading_ != nullptr;
  const bool waits = in_parts ? can_take() : !finished_ && (is_receiving() || is_in_line());
  sending_.update(now, waits, value_bytes_,
                  in_parts ? UINT64_MAX : context_.settings.progress_bytes);
}

}  // namespace elastripe
