#include "proxy/io/write_queue.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace elastripe {
namespace {
constexpr size_t kChunkBytes = 16 << 10;
constexpr size_t kSlicesPerWrite = 128;
}  // namespace

void WriteQueue::copy(ByteView bytes) {
  while (!bytes.empty()) {
    if (chunk_used_ == chunk_.size()) {
      chunk_ = Buffer::allocate(kChunkBytes);
      chunk_used_ = 0;
      open_ = nullptr;
    }
    const size_t part = std::min(bytes.size(), chunk_.size() - chunk_used_);
    std::byte* place = chunk_.mutable_data() + chunk_used_;
    std::memcpy(place, bytes.data(), part);
    if (open_ != nullptr) {
      open_->size += part;
    } else {
      open_ = &slices_.emplace_back(place, part, chunk_, true);
    }
    chunk_used_ += part;
    bytes_ += part;
    copied_bytes_ += part;
    bytes = bytes.subspan(part);
  }
}

void WriteQueue::reference(ByteView bytes, Buffer keep) {
  open_ = nullptr;
  slices_.push_back({bytes.data(), bytes.size(), std::move(keep), false});
  bytes_ += bytes.size();
}

WriteQueue::Flush WriteQueue::flush(int fd) {
  while (bytes_ > 0) {
    std::array<iovec, kSlicesPerWrite> parts;
    size_t count = 0;
    size_t asked = 0;
    for (auto slice = slices_.begin(); slice != slices_.end() && count < parts.size(); ++slice) {
      if (slice->size == 0) continue;
      parts[count++] = {const_cast<std::byte*>(slice->data), slice->size};
      asked += slice->size;
    }
    ssize_t sent = 0;
    if (count == 1) {  // cheaper for the kernel
      sent = send(fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL);
    } else {
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = count;
      sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    }
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Flush::kBlocked;
      return broken(errno);
    }
    consume(static_cast<size_t>(sent));
    if (static_cast<size_t>(sent) < asked) return Flush::kBlocked;
  }
  return Flush::kDone;
}

ByteView WriteQueue::front() const {
  for (const Slice& slice : slices_) {
    if (slice.size > 0) return {slice.data, slice.size};
  }
  return {};
}

ByteView WriteQueue::gather(MutableByteView to) const {
  size_t gathered = 0;
  for (const Slice& slice : slices_) {
    const size_t part = std::min(slice.size, to.size() - gathered);
    if (part > 0) std::memcpy(to.data() + gathered, slice.data, part);
    gathered += part;
    if (gathered == to.size()) break;
  }
  return to.first(gathered);
}

WriteQueue::Flush WriteQueue::broken(int error) {
  error_ = error;
  return Flush::kBroken;
}

void WriteQueue::consume(size_t bytes) {
  bytes_ -= bytes;
  written_bytes_ += bytes;
  while (!slices_.empty()) {
    Slice& first = slices_.front();
    if (first.is_copy) copied_bytes_ -= std::min(bytes, first.size);
    if (bytes < first.size) {
      first.data += bytes;
      first.size -= bytes;
      return;
    }
    bytes -= first.size;
    slices_.pop_front();
  }
  chunk_ = {};  // an idle connection holds none; the next one has it again from the thread's pool
  chunk_used_ = 0;
  open_ = nullptr;
}

void WriteQueue::clear() {
  slices_.clear();
  bytes_ = copied_bytes_ = 0;
  chunk_ = {};
  chunk_used_ = 0;
  open_ = nullptr;
}

}  // namespace elastripe
