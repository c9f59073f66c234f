// FramePool: the memory of coroutine frames, used again by the next frame of about the same size.
// A request makes a dozen frames, so this is what keeps small requests off the heap.
#pragma once

#include <array>
#include <cstddef>
#include <new>

#include "proxy/base/reuse.h"

namespace elastripe {

// One a thread: a frame is destroyed on the thread that made it, as tasks never change it.
class FramePool {
 public:
  ~FramePool() {
    for (Free*& first : free_) {
      while (first != nullptr) {
        Free* next = first->next;
        ::operator delete(first);
        first = next;
      }
    }
  }

  static void* allocate(size_t bytes) {
    FramePool& pool = of_thread();
    const size_t index = class_of(bytes);
    if (index >= kClasses) return ::operator new(bytes);
    Free* frame = pool.free_[index];
    if (frame == nullptr) return ::operator new((index + 1) * kGrain);
    pool.free_[index] = frame->next;
    --pool.kept_[index];
    return frame;
  }
  static void release(void* memory, size_t bytes) {
    FramePool& pool = of_thread();
    const size_t index = class_of(bytes);
    if (index >= kClasses || pool.kept_[index] >= kept_frames(index)) {
      return ::operator delete(memory);
    }
    pool.free_[index] = new (memory) Free{pool.free_[index]};
    ++pool.kept_[index];
  }

 private:
  static constexpr size_t kGrain = 64;
  static constexpr size_t kClasses = 32;  // frames of up to 2 KiB
  // Of a class: what about a thousand requests use. A greater burst gives its memory back.
  static constexpr size_t kKeptBytes = 512 << 10;
  struct Free {
    Free* next;
  };

  static size_t kept_frames(size_t index) { return kKeptBytes / kGrain / (index + 1); }
  static size_t class_of(size_t bytes) { return (bytes - 1) / kGrain; }
  static FramePool& of_thread() {
    static thread_local FramePool pool;
    return pool;
  }

  std::array<Free*, kClasses> free_{};
  std::array<size_t, kClasses> kept_{};
};

// Base of promises: their frames come from the pool.
struct PooledFrame {
  static void* operator new(size_t bytes) {
    return kReusesMemory ? FramePool::allocate(bytes) : ::operator new(bytes);
  }
  static void operator delete(void* memory, size_t bytes) {
    kReusesMemory ? FramePool::release(memory, bytes) : ::operator delete(memory);
  }
};

}  // namespace elastripe
