// FramePool: the memory of coroutine frames, used again by the next frame of about the same size.
// A request makes a dozen frames, so this is what keeps small requests off the heap.
#pragma once

#include <array>
#include <cstddef>
#include <new>

namespace elastripe {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ELASTRIPE_POOLED_FRAMES 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ELASTRIPE_POOLED_FRAMES 0  // they are to see every use of a frame that is gone
#endif
#endif
#ifndef ELASTRIPE_POOLED_FRAMES
#define ELASTRIPE_POOLED_FRAMES 1
#endif

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
    if (index >= kClasses || pool.kept_[index] == kKeptOfClass) return ::operator delete(memory);
    pool.free_[index] = new (memory) Free{pool.free_[index]};
    ++pool.kept_[index];
  }

 private:
  static constexpr size_t kGrain = 64;
  static constexpr size_t kClasses = 32;        // frames of up to 2 KiB
  static constexpr size_t kKeptOfClass = 1024;  // a burst gives its memory back
  struct Free {
    Free* next;
  };

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
#if ELASTRIPE_POOLED_FRAMES
  static void* operator new(size_t bytes) { return FramePool::allocate(bytes); }
  static void operator delete(void* memory, size_t bytes) { FramePool::release(memory, bytes); }
#endif
};

}  // namespace elastripe
