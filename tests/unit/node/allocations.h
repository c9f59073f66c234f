// What this thread asks of the heap, through operator new. Under TSan, which links a new and delete
// of its own, nothing is measured, and nothing fails.
#pragma once

#include <cstddef>
#include <cstdint>

namespace elastripe::node::test {

inline thread_local size_t largest_allocation = 0;  // since somebody has set it to 0
// So many succeed, and none after them.
inline constexpr size_t kAllSucceed = SIZE_MAX;
inline thread_local size_t allocations_left = kAllSucceed;

struct FewAllocations {
  explicit FewAllocations(size_t count) { allocations_left = count; }
  ~FewAllocations() { allocations_left = kAllSucceed; }
  FewAllocations(const FewAllocations&) = delete;
  FewAllocations& operator=(const FewAllocations&) = delete;
};

}  // namespace elastripe::node::test
