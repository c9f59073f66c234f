#include "server-patches/shim/page_keeper.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace elastripe::node {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kMinReservePages = 8;
constexpr uint64_t kMaxReservePages = 64;
constexpr uint64_t kReserveShare = 128;  // of the limit

}  // namespace

PageKeeper::PageKeeper()
    : page_bytes_(pages_bytes_each()),
      limit_pages_(pages_limit_bytes() / page_bytes_),
      reserve_pages_(std::clamp(limit_pages_ / kReserveShare, kMinReservePages, kMaxReservePages)) {
  take_census();
  thread_ = std::thread([this] { run(); });
}

PageKeeper::~PageKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  page_moved_.notify_all();
  thread_.join();
}

PageKeeper::Census PageKeeper::take_census() {
  pages_class classes[PAGES_CLASSES];
  pages_classes(classes);
  Census census;
  uint64_t most = 0;
  for (int id = 1; id < PAGES_CLASSES; ++id) {
    const pages_class& c = classes[id];
    census.assigned += c.pages;
    if (c.chunks_per_page == 0) continue;
    const uint64_t reclaimable = c.free_chunks / c.chunks_per_page;
    census.reclaimable += reclaimable;
    if (reclaimable > most) {
      most = reclaimable;
      census.richest_class = id;
    }
  }
  const uint64_t allocated = census.assigned + classes[0].pages;
  // what replaces an item may have taken a page above the limit
  census.unassigned = classes[0].pages + (limit_pages_ > allocated ? limit_pages_ - allocated : 0);
  const std::lock_guard lock(mutex_);
  last_ = census;
  granted_ = 0;
  return census;
}

bool PageKeeper::admits(size_t pages, Urgency urgency) {
  if (pages == 0) return true;
  if (take_census().available() < kept_of_reserve(urgency, reserve_pages_) + pages) return false;
  const std::lock_guard lock(mutex_);
  granted_ += pages;
  return true;
}

bool PageKeeper::wait_for_pages(size_t pages, Urgency urgency) {
  const auto until = std::chrono::steady_clock::now() + 100ms;
  const uint64_t moved_before = moved_pages();
  for (;;) {
    const uint64_t moved = moved_pages();
    const Census census = take_census();
    if (census.available() < kept_of_reserve(urgency, reserve_pages_) + pages) return false;
    if (census.unassigned >= pages) return true;
    std::unique_lock lock(mutex_);
    wanted_ = std::max<uint64_t>(wanted_, pages);
    wake_.notify_all();
    if (!page_moved_.wait_until(lock, until, [&] { return moved_ != moved || stopping_; }) ||
        stopping_) {
      return moved_ != moved_before && !stopping_;
    }
  }
}

ItemStore::Memory PageKeeper::memory() const {
  const std::lock_guard lock(mutex_);
  const uint64_t taken = reserve_pages_ + granted_;
  const uint64_t available = last_.available();
  return {.used_bytes = (last_.assigned - last_.reclaimable) * page_bytes_,
          .limit_bytes = limit_pages_ * page_bytes_,
          .free_bytes = available > taken ? (available - taken) * page_bytes_ : 0};
}

uint64_t PageKeeper::moved_pages() const {
  const std::lock_guard lock(mutex_);
  return moved_;
}

// The mover is a thread of memcached's that reports nothing: watch it. For a moment after a move it
// is busy still.
bool PageKeeper::move_page_from(int from_class) {
  const uint64_t before = pages_moved();
  pages_move started = pages_start_move(from_class);
  while (started == PAGES_MOVER_BUSY) {
    std::this_thread::sleep_for(10us);
    started = pages_start_move(from_class);
  }
  if (started != PAGES_MOVE_STARTED) return false;
  while (pages_is_moving()) std::this_thread::sleep_for(10us);
  return pages_moved() > before;
}

void PageKeeper::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, 100ms, [this] { return wanted_ > 0 || stopping_; });
    int failures = 0;
    while (!stopping_) {
      const uint64_t wanted = std::max(std::exchange(wanted_, 0), reserve_pages_);
      lock.unlock();
      const Census census = take_census();
      const bool short_of_pages = census.unassigned < wanted;
      const bool moved = short_of_pages && census.richest_class != 0 && failures < 8 &&
                         move_page_from(census.richest_class);
      const bool go_on = short_of_pages && census.richest_class != 0 && failures < 8;
      lock.lock();
      if (!go_on) break;
      if (moved) {
        ++moved_;
        failures = 0;
        page_moved_.notify_all();
      } else {
        ++failures;
      }
    }
  }
}

}  // namespace elastripe::node
