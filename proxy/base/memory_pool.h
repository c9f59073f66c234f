// Memory of small things that is used again by the next of about the same size, so that a small
// command, once warm, takes nothing from the heap: frames of coroutines, buffers, containers that
// live as long as one command (MemoryPool, Pooled), and things that keep what they have allocated
// (Spares).
//
// One pool a thread, without locks. What was allocated on one thread may be released on another,
// whose pool then has it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include "proxy/base/reuse.h"

namespace elastripe {

namespace memory_pool_internal {

inline constexpr std::align_val_t kAlignment{64};
inline constexpr size_t kMaxBytes = 64 << 10;  // of what is kept
// Sizes up to kFineBytes are rounded up to kGrain, larger ones to a quarter of a power of two.
inline constexpr size_t kGrain = 64;
inline constexpr size_t kFineBytes = 1024;
inline constexpr size_t kFineClasses = kFineBytes / kGrain;
// A class keeps what several hundred requests use. A greater burst gives its memory back.
inline constexpr size_t kKeptBytes = 1 << 20;

constexpr size_t log_of(size_t number) { return static_cast<size_t>(std::bit_width(number)) - 1; }
constexpr size_t class_of(size_t bytes) {
  if (bytes <= kFineBytes) return (bytes - 1) / kGrain;
  const size_t log = log_of(bytes - 1);
  return kFineClasses + 4 * (log - log_of(kFineBytes)) + ((bytes - 1) >> (log - 2)) % 4;
}
constexpr size_t bytes_of_class(size_t index) {
  if (index < kFineClasses) return (index + 1) * kGrain;
  const size_t quarter = (index - kFineClasses) % 4;
  const size_t log = (index - kFineClasses) / 4 + log_of(kFineBytes);
  return (5 + quarter) << (log - 2);
}
inline constexpr size_t kClasses = class_of(kMaxBytes) + 1;
static_assert(bytes_of_class(kClasses - 1) == kMaxBytes);

struct Free {
  Free* next;
};
struct Lists {
  std::array<Free*, kClasses> free{};
  std::array<size_t, kClasses> kept_bytes{};
  bool is_closed = false;
};
inline constinit thread_local Lists lists;

// Frees what is kept when the thread ends. The lists themselves have no destructor: who releases
// memory later still finds them, closed.
struct Closer {
  ~Closer() {
    for (Free*& first : lists.free) {
      while (first != nullptr) ::operator delete(std::exchange(first, first->next), kAlignment);
    }
    lists.is_closed = true;
  }
};
inline bool is_open() {
  static thread_local Closer closer;
  (void)closer;
  return !lists.is_closed;
}

}  // namespace memory_pool_internal

class MemoryPool {
 public:
  // All blocks are aligned so.
  static constexpr size_t kAlignment = static_cast<size_t>(memory_pool_internal::kAlignment);

  // At least one byte. Throws std::bad_alloc, like new.
  static void* allocate(size_t bytes) {
    using namespace memory_pool_internal;
    if (!kReusesMemory || bytes > kMaxBytes) {
      return ::operator new(bytes, memory_pool_internal::kAlignment);
    }
    const size_t index = class_of(bytes);
    Free* block = lists.free[index];
    if (block == nullptr) {
      return ::operator new(bytes_of_class(index), memory_pool_internal::kAlignment);
    }
    lists.free[index] = block->next;
    lists.kept_bytes[index] -= bytes_of_class(index);
    return block;
  }
  // `bytes` as they were asked for.
  static void release(void* memory, size_t bytes) {
    using namespace memory_pool_internal;
    if (kReusesMemory && bytes <= kMaxBytes) {
      const size_t index = class_of(bytes);
      const size_t kept = lists.kept_bytes[index] + bytes_of_class(index);
      if (kept <= kKeptBytes && is_open()) {
        lists.free[index] = new (memory) Free{lists.free[index]};
        lists.kept_bytes[index] = kept;
        return;
      }
    }
    ::operator delete(memory, memory_pool_internal::kAlignment);
  }
};

// The allocator of what lives in the pool.
template <class T>
struct Pooled {
  using value_type = T;

  Pooled() = default;
  template <class U>
  Pooled(const Pooled<U>&) noexcept {}

  T* allocate(size_t count) {
    static_assert(alignof(T) <= MemoryPool::kAlignment);
    return static_cast<T*>(MemoryPool::allocate(count * kSize));
  }
  void deallocate(T* memory, size_t count) noexcept {
    MemoryPool::release(static_cast<void*>(memory), count * kSize);
  }
  template <class U>
  bool operator==(const Pooled<U>&) const {
    return true;
  }

 private:
  // NOLINTNEXTLINE(bugprone-sizeof-expression): of a pointer, if T is one
  static constexpr size_t kSize = sizeof(T);
};

// Objects that were used, kept for the memory that they have allocated. Whoever keeps one has
// emptied it, and made sure that a huge use did not leave it huge. Not for destructors of
// thread-local or static objects: the list may be gone by then.
template <class T, size_t kMost = 1024>
class Spares {
 public:
  static T take() {
    std::vector<T>& spares = of_thread();
    if (spares.empty()) return T{};
    T spare = std::move(spares.back());
    spares.pop_back();
    return spare;
  }
  static void keep(T&& object) {
    if (kReusesMemory && of_thread().size() < kMost) of_thread().push_back(std::move(object));
  }

 private:
  static std::vector<T>& of_thread() {
    static thread_local std::vector<T> spares;
    return spares;
  }
};

}  // namespace elastripe
