#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <thread>

#include "proxy/base/memory_pool.h"

namespace elastripe {
namespace {

// Writes all of it: sanitizers see what is not there.
void* filled(size_t bytes) {
  void* memory = MemoryPool::allocate(bytes);
  std::memset(memory, 0xAB, bytes);
  return memory;
}

}  // namespace

TEST_CASE("a pool has room of any size, at a multiple of its alignment") {
  for (size_t bytes = 1; bytes <= 200'000; bytes += 1 + bytes / 7) {
    void* memory = filled(bytes);
    CHECK(reinterpret_cast<uintptr_t>(memory) % MemoryPool::kAlignment == 0);
    MemoryPool::release(memory, bytes);
  }
}

TEST_CASE("sizes of a class have room for each of them") {
  using namespace memory_pool_internal;
  for (size_t bytes = 1; bytes <= kMaxBytes; ++bytes) {
    const size_t room = bytes_of_class(class_of(bytes));
    REQUIRE(room >= bytes);
    REQUIRE(room - bytes < std::max(kGrain, bytes / 4));
  }
}

TEST_CASE("what was released last is used again first, by any size of its class") {
  if (!kReusesMemory) return;
  void* first = filled(1000);
  void* second = filled(1000);
  MemoryPool::release(first, 1000);
  MemoryPool::release(second, 1000);
  CHECK(filled(961) == second);
  CHECK(filled(1024) == first);
  MemoryPool::release(first, 1024);
  MemoryPool::release(second, 961);
}

TEST_CASE("memory moves to the thread that releases it") {
  void* memory = filled(500);
  bool is_reused = false;
  std::thread([&] {
    MemoryPool::release(memory, 500);
    void* next = filled(500);
    is_reused = next == memory;
    MemoryPool::release(next, 500);
  }).join();
  if (kReusesMemory) CHECK(is_reused);
}

TEST_CASE("a burst leaves a bounded part of its memory in the pool") {
  using memory_pool_internal::lists;
  constexpr size_t kBytes = 4096;
  std::deque<void*, Pooled<void*>> burst;
  for (int i = 0; i < 2000; ++i) burst.push_back(filled(kBytes));
  for (void* memory : burst) MemoryPool::release(memory, kBytes);
  const size_t kept = lists.kept_bytes[memory_pool_internal::class_of(kBytes)];
  CHECK(kept == (kReusesMemory ? memory_pool_internal::kKeptBytes : 0));
}

TEST_CASE("spares come back with the memory that they had") {
  using Strings = Spares<std::string, 2>;
  for (int i = 0; i < 3; ++i) {
    std::string text(1000, 'x');
    text.clear();
    Strings::keep(std::move(text));
  }
  for (int i = 0; i < 2; ++i) {
    CHECK((Strings::take().capacity() >= 1000) == kReusesMemory);
  }
  CHECK(Strings::take().capacity() < 1000);
}

}  // namespace elastripe
