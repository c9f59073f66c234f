// in_batches: many small flows, a bounded number of them at the same time, so that the calls of
// others that share their NodeClient do not queue up behind all of them.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "proxy/async/when_all.h"
#include "proxy/base/error.h"

namespace elastripe {

// Runs make(0) ... make(count - 1), `at_once` tasks at a time, and hands each result to
// take(i, result). The first error that `take` returns is what it ends with, after its batch.
template <class Make, class Take>
Task<Result<void>> in_batches(size_t count, size_t at_once, Make make, Take take) {
  for (size_t first = 0; first < count; first += at_once) {
    const size_t end = std::min(count, first + at_once);
    std::vector<decltype(make(first))> tasks;
    tasks.reserve(end - first);
    for (size_t i = first; i < end; ++i) tasks.push_back(make(i));
    auto results = co_await when_all(std::move(tasks));
    for (size_t i = first; i < end; ++i) {
      Result<void> taken = take(i, std::move(results[i - first]));
      if (!taken) co_return taken;
    }
  }
  co_return Result<void>{};
}

}  // namespace elastripe
