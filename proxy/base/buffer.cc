#include "proxy/base/buffer.h"

#include <cstring>
#include <memory>
#include <utility>

#include "proxy/base/check.h"
#include "proxy/base/memory_pool.h"

namespace elastripe {
namespace {
static_assert(Buffer::kAlignment == MemoryPool::kAlignment);
// Up to this size a block and its count lie together, with bytes to spare for the alignment; of a
// larger block, whose size is often a power of two, these would waste much.
constexpr size_t kJoinedBytes = kReusesMemory ? 6 << 10 : 0;
}  // namespace

Buffer Buffer::allocate(size_t size) { return allocate(size, nullptr); }

Buffer Buffer::allocate(size_t size, std::shared_ptr<const void> with) {
  Buffer buffer;
  if (size == 0) return buffer;
  if (size <= kJoinedBytes && with == nullptr) {
    buffer.block_ =
        std::allocate_shared_for_overwrite<std::byte[]>(Pooled<std::byte>(), size + kAlignment - 1);
    void* begin = buffer.block_.get();
    size_t room = size + kAlignment - 1;
    buffer.data_ = static_cast<std::byte*>(std::align(kAlignment, size, begin, room));
    buffer.size_ = size;
    return buffer;
  }
  auto free = [size, with = std::move(with)](std::byte* block) mutable {
    MemoryPool::release(block, size);
    with.reset();
  };
  auto* bytes = static_cast<std::byte*>(MemoryPool::allocate(size));
  buffer.block_ = std::shared_ptr<std::byte[]>(bytes, std::move(free), Pooled<std::byte>());
  buffer.data_ = buffer.block_.get();
  buffer.size_ = size;
  return buffer;
}

Buffer Buffer::copy_of(ByteView bytes, std::shared_ptr<const void> with) {
  Buffer buffer = allocate(bytes.size(), std::move(with));
  if (!bytes.empty()) std::memcpy(buffer.data_, bytes.data(), bytes.size());
  return buffer;
}

Buffer Buffer::sharing(std::shared_ptr<const void> owner, ByteView bytes) {
  Buffer buffer;
  buffer.data_ = const_cast<std::byte*>(bytes.data());
  buffer.size_ = bytes.size();
  buffer.block_ =
      std::shared_ptr<std::byte[]>(std::const_pointer_cast<void>(std::move(owner)), buffer.data_);
  return buffer;
}

Buffer Buffer::slice(size_t offset, size_t length) const {
  CHECK(offset <= size_ && length <= size_ - offset, "slice {}+{} of {} bytes", offset, length,
        size_);
  Buffer part;
  if (length == 0) return part;
  part.block_ = block_;
  part.data_ = data_ + offset;
  part.size_ = length;
  return part;
}

}  // namespace elastripe
