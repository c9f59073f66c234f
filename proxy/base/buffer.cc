#include "proxy/base/buffer.h"

#include <cstring>
#include <new>

#include "proxy/base/check.h"

namespace elastripe {

Buffer Buffer::allocate(size_t size) {
  Buffer buffer;
  if (size == 0) return buffer;
  constexpr std::align_val_t kAlign{kAlignment};
  buffer.block_ = std::shared_ptr<std::byte[]>(
      static_cast<std::byte*>(::operator new[](size, kAlign)),
      [](std::byte* block) { ::operator delete[](block, std::align_val_t{kAlignment}); });
  buffer.data_ = buffer.block_.get();
  buffer.size_ = size;
  return buffer;
}

Buffer Buffer::copy_of(ByteView bytes) {
  Buffer buffer = allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer.data_, bytes.data(), bytes.size());
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
