// The latest of a series of immutable values: any thread stores, any thread loads.
//
// This is std::atomic<std::shared_ptr<const T>>, whose load in libstdc++ 12 releases its inner lock
// without release order: a data race with the next store.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace elastripe {

template <class T>
class Published {
 public:
  Published() = default;
  explicit Published(std::shared_ptr<const T> first) : value_(std::move(first)) {}

  std::shared_ptr<const T> load() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

  // The value before is let go outside of the lock.
  void store(std::shared_ptr<const T> value) {
    const std::lock_guard lock(mutex_);
    value_.swap(value);  // a parameter outlives the guard
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;
};

}  // namespace elastripe
