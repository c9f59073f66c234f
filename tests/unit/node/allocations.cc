#include "tests/unit/node/allocations.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#if !__has_feature(thread_sanitizer)
namespace {

void* counted_allocation(size_t bytes) {
  using namespace elastripe::node::test;
  largest_allocation = std::max(largest_allocation, bytes);
  if (allocations_left != kAllSucceed) {
    if (allocations_left == 0) return nullptr;
    --allocations_left;
  }
  return std::malloc(bytes);
}

}  // namespace

void* operator new(size_t bytes) {
  if (void* memory = counted_allocation(bytes)) return memory;
  throw std::bad_alloc();
}
// Under ASan the default would not be made of the one above, and what it gives goes to the same
// delete.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return counted_allocation(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif
