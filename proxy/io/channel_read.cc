// The reading side of a channel: small replies are read in bulk and parsed out of one buffer; a
// body that is not there yet is read straight to its place.
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "proxy/base/check.h"
#include "proxy/io/channel.h"

namespace elastripe {
namespace {
constexpr size_t kInBytes = 64 << 10;
// Less room than this in a block that replies still hold: a new block takes over.
constexpr size_t kMinRoomBytes = 16 << 10;
// Bodies up to this size are slices of the input block, and keep it for as long as they live.
constexpr size_t kSliceBytes = 4 << 10;
// Then other sockets of the loop get their turn.
constexpr size_t kReadPerTurn = 256 << 10;

size_t total(const std::vector<MutableByteView>& parts) {
  size_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  return bytes;
}
}  // namespace

void Channel::on_readable() {
  read_some();
  resume_finished();
}

void Channel::read_some() {
  for (size_t taken = 0; taken < kReadPerTurn && state_ == State::kConnected;) {
    std::array<iovec, 64> parts;
    const size_t count = read_targets(parts);
    size_t asked = 0;
    for (size_t i = 0; i < count; ++i) asked += parts[i].iov_len;
    const Stream::Taken got = stream_.read(std::span(parts).first(count));
    if (got.error != 0) return break_off(ErrorCode::kDisconnected, stream_.describe(got.error));
    if (got.at_end) return break_off(ErrorCode::kDisconnected, "closed by the node");
    if (got.bytes == 0) return;
    metrics_.received_bytes->add(got.bytes);
    if (!std::exchange(is_heard_, true)) backoff_.reset();
    taken += got.bytes;
    take_into_body(got.bytes);
    if (!parse()) return break_off(ErrorCode::kDisconnected, "it sent a malformed reply");
    if (got.bytes < asked) return;
    // Callers check what has been read while it is in the processor's cache.
    resume_finished();
  }
}

// The open ends of the body, then the free part of the input buffer.
size_t Channel::read_targets(std::array<iovec, 64>& parts) {
  size_t count = 0;
  size_t direct = 0;
  for (size_t i = body_.target; i < body_.targets.size() && count + 1 < parts.size(); ++i) {
    parts[count++] = {body_.targets[i].data(), body_.targets[i].size()};
    direct += body_.targets[i].size();
  }
  if (body_.call != nullptr && direct < body_.left) return count;  // more targets than parts
  make_room();
  parts[count++] = {in_.mutable_data() + in_end_, in_.size() - in_end_};
  return count;
}

// Room behind what is not parsed yet, in this block or in a new one: what slices hold stays as it
// is.
void Channel::make_room() {
  const size_t unparsed = in_end_ - in_begin_;
  if (!in_.is_unique()) {
    if (in_.size() - in_end_ >= kMinRoomBytes) return;
    Buffer next = Buffer::allocate(kInBytes);
    if (unparsed > 0) std::memcpy(next.mutable_data(), in_.data() + in_begin_, unparsed);
    in_ = std::move(next);
  } else if (unparsed > 0 && in_begin_ > 0) {
    std::memmove(in_.mutable_data(), in_.data() + in_begin_, unparsed);
  }
  in_begin_ = 0;
  in_end_ = unparsed;
}

// Accounts for those of `bytes` just read that went to the body's targets; the rest is in
// in_.
void Channel::take_into_body(size_t bytes) {
  while (bytes > 0 && body_.target < body_.targets.size()) {
    MutableByteView& target = body_.targets[body_.target];
    const size_t part = std::min(bytes, target.size());
    target = target.subspan(part);
    bytes -= part;
    body_.left -= part;
    if (!target.empty()) return;
    ++body_.target;
  }
  in_end_ += bytes;
}

bool Channel::parse() {
  while (true) {
    if (body_.left > 0 && body_.call == nullptr) {
      const size_t part = std::min(body_.left, in_end_ - in_begin_);
      in_begin_ += part;
      body_.left -= part;
    }
    if (body_.left > 0) return true;
    if (body_.call != nullptr) finish_body();
    if (in_end_ - in_begin_ < node::kHeaderBytes) return true;
    const auto header = node::decode_reply_header(
        std::span<const std::byte, node::kHeaderBytes>(in_.data() + in_begin_, node::kHeaderBytes));
    if (!header.has_value()) return false;
    in_begin_ += node::kHeaderBytes;
    bool known = false;
    NodeCall* call = release_slot(*header, known);
    if (!known) return false;
    begin_body(*header, call);
  }
}

// The call of the reply: null for a tombstone; `known` is false if nothing was asked under this
// name.
NodeCall* Channel::release_slot(const node::ReplyHeader& header, bool& known) {
  const auto index = static_cast<uint32_t>(header.opaque);
  const auto generation = static_cast<uint32_t>(header.opaque >> 32);
  known = index < slots_.size() && slots_[index].taken && slots_[index].generation == generation &&
          slots_[index].opcode == header.opcode;
  if (!known) return nullptr;
  Slot& slot = slots_[index];
  slot.taken = false;
  free_slots_.push_back(index);
  if (slot.call == nullptr) --tombstones_;
  return std::exchange(slot.call, nullptr);
}

void Channel::begin_body(const node::ReplyHeader& header, NodeCall* call) {
  body_.left = header.body_bytes;
  body_.call = call;
  body_.target = 0;
  body_.targets.clear();
  if (call == nullptr) return;
  call->place = NodeCall::Place::kReading;
  body_.reply.header = header;
  const size_t payload_bytes = header.payload_bytes();
  const bool direct = header.status == node::Status::kOk && payload_bytes > 0 &&
                      payload_bytes == total(call->request.into);
  const size_t own_bytes = direct ? header.args_bytes : header.body_bytes;
  if (!direct && own_bytes <= kSliceBytes && own_bytes <= in_end_ - in_begin_) {
    body_.reply.body = in_.slice(in_begin_, own_bytes);
    in_begin_ += own_bytes;
    body_.left = 0;
    return;
  }
  if (own_bytes > 0) {
    body_.reply.body = Buffer::allocate(own_bytes);
    body_.targets.push_back(body_.reply.body.mutable_bytes());
  }
  if (direct) {
    for (const MutableByteView& part : call->request.into) {
      if (!part.empty()) body_.targets.push_back(part);
    }
  }
  // What has been read already.
  while (body_.target < body_.targets.size() && in_begin_ < in_end_) {
    MutableByteView& target = body_.targets[body_.target];
    const size_t part = std::min(target.size(), in_end_ - in_begin_);
    std::memcpy(target.data(), in_.data() + in_begin_, part);
    in_begin_ += part;
    body_.left -= part;
    target = target.subspan(part);
    if (target.empty()) ++body_.target;
  }
}

void Channel::finish_body() {
  NodeCall& call = *std::exchange(body_.call, nullptr);
  body_.targets.clear();
  finish(call, std::exchange(body_.reply, {}));
}

}  // namespace elastripe
