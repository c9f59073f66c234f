// WriteQueue: bytes on their way to a socket: small ones copied together, large ones by reference.
#pragma once

#include <deque>

#include "proxy/base/buffer.h"
#include "proxy/base/memory_pool.h"

namespace elastripe {

// Loop thread only; its owner bounds it by looking at bytes() or copied_bytes().
class WriteQueue {
 public:
  void copy(ByteView bytes);
  void copy(std::string_view text) { copy(as_bytes(text)); }
  // `bytes` stay where they are until they have left or clear() is called; `keep` keeps them alive.
  void reference(ByteView bytes, Buffer keep);

  size_t bytes() const { return bytes_; }
  size_t copied_bytes() const { return copied_bytes_; }  // of bytes()
  bool empty() const { return bytes_ == 0; }

  enum class Flush { kDone, kBlocked, kBroken };
  // Writes what the socket takes. kBlocked: go on when it is writable. kBroken: error() says why.
  Flush flush(int fd);
  int error() const { return error_; }  // an errno
  // For who writes by other means: what is to leave next, not empty unless all has; and how much of
  // it has left, or why nothing more can.
  ByteView front() const;
  // The first bytes of what is to leave, together, as many as fit.
  ByteView gather(MutableByteView to) const;
  void consume(size_t bytes);
  Flush broken(int error);
  uint64_t written_bytes() const { return written_bytes_; }  // since the start

  void clear();

 private:
  struct Slice {
    const std::byte* data;
    size_t size;
    Buffer keep;
    bool is_copy;
  };

  std::deque<Slice, Pooled<Slice>> slices_;
  size_t bytes_ = 0;
  size_t copied_bytes_ = 0;
  uint64_t written_bytes_ = 0;
  int error_ = 0;
  Buffer chunk_;  // where copies go
  size_t chunk_used_ = 0;
  Slice* open_ = nullptr;  // the last slice, if it ends where the next copy goes
};

}  // namespace elastripe
