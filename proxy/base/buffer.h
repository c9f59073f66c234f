// A reference-counted block of fixed size, filled once and then shared without copying.
//
// Copies and slices share the block and keep it alive. The reference count is thread-safe, the
// bytes are not: who fills a buffer does so before handing it to another thread. The block is not
// initialised and starts at a multiple of 64 bytes, which region operations like.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>

#include "proxy/base/bytes.h"

namespace elastripe {

class Buffer {
 public:
  static constexpr size_t kAlignment = 64;

  Buffer() = default;  // empty

  // Throws std::bad_alloc, like new.
  static Buffer allocate(size_t size);
  // `with` lives as long as the block: what its bytes were taken from.
  static Buffer allocate(size_t size, std::shared_ptr<const void> with);
  static Buffer copy_of(ByteView bytes, std::shared_ptr<const void> with = nullptr);
  // Bytes of something else, which lives as long as the buffer; they are not to be written.
  static Buffer sharing(std::shared_ptr<const void> owner, ByteView bytes);
  static Buffer copy_of(std::string_view text) { return copy_of(as_bytes(text)); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  const std::byte* data() const { return data_; }
  ByteView bytes() const { return {data_, size_}; }
  std::string_view text() const { return as_string_view(bytes()); }
  operator ByteView() const { return bytes(); }

  // Writes are seen through every copy and slice.
  std::byte* mutable_data() { return data_; }
  MutableByteView mutable_bytes() { return {data_, size_}; }

  // Whether no copy and no slice holds the block beside this one: then it may be filled anew.
  bool is_unique() const {
    if (block_.use_count() != 1) return false;
    std::atomic_thread_fence(std::memory_order_acquire);  // after what others did with it
    return true;
  }

  // A part that keeps the whole block alive; offset + length <= size().
  Buffer slice(size_t offset, size_t length) const;

 private:
  std::shared_ptr<std::byte[]> block_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace elastripe
