// PooledFrame: the memory of coroutine frames, used again by the next frame of about the same size.
// A request makes a dozen frames, so this is what keeps small requests off the heap.
#pragma once

#include "proxy/base/memory_pool.h"

namespace elastripe {

// Base of promises: their frames come from the pool.
struct PooledFrame {
  static void* operator new(size_t bytes) { return MemoryPool::allocate(bytes); }
  static void operator delete(void* memory, size_t bytes) { MemoryPool::release(memory, bytes); }
};

}  // namespace elastripe
