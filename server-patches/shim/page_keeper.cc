#include "server-patches/shim/page_keeper.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace elastripe::node {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kMinReservePages = 4;
constexpr uint64_t kMaxReservePages = 64;
constexpr uint64_t kReserveShare = 64;  // of the limit

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
    if (c.pages < 2 || c.chunks_per_page == 0) continue;  // the mover leaves a class its last page
    const uint64_t reclaimable = std::min(c.free_chunks / c.chunks_per_page, c.pages - 1);
    census.reclaimable += reclaimable;
    if (reclaimable > most) {
      most = reclaimable;
      census.richest_class = id;
    }
  }
  const uint64_t allocated = census.assigned + classes[0].pages;
  // a class gets its first page even above the limit
  census.unassigned = classes[0].pages + (limit_pages_ > allocated ? limit_pages_ - allocated : 0);
  const std::lock_guard lock(mutex_);
  last_ = census;
  return census;
}

bool PageKeeper::admits(size_t pages) {
  return pages == 0 || take_census().available() >= reserve_pages_ + pages;
}

bool PageKeeper::wait_for_page() {
  const Census census = take_census();
  if (census.unassigned > 0) return true;
  if (census.reclaimable == 0) return false;
  std::unique_lock lock(mutex_);
  const uint64_t before = moved_;
  wanted_ = true;
  wake_.notify_all();
  page_moved_.wait_for(lock, 100ms, [&] { return moved_ != before || stopping_; });
  return moved_ != before;
}

ItemStore::Memory PageKeeper::memory() const {
  const std::lock_guard lock(mutex_);
  const uint64_t available = last_.available();
  return {
      .used_bytes = (last_.assigned - last_.reclaimable) * page_bytes_,
      .limit_bytes = limit_pages_ * page_bytes_,
      .free_bytes = available > reserve_pages_ ? (available - reserve_pages_) * page_bytes_ : 0};
}

uint64_t PageKeeper::moved_pages() const {
  const std::lock_guard lock(mutex_);
  return moved_;
}

// The mover is a thread of memcached's that reports nothing: watch it.
bool PageKeeper::move_page_from(int from_class) {
  const uint64_t before = take_census().unassigned;
  if (!pages_start_move(from_class)) return false;
  while (pages_is_moving()) std::this_thread::sleep_for(50us);
  return take_census().unassigned > before;
}

void PageKeeper::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, 100ms, [this] { return wanted_ || stopping_; });
    // at least one page for whoever waits, more up to the reserve
    int failures = 0;
    while (!stopping_) {
      const bool wanted = std::exchange(wanted_, false);
      lock.unlock();
      const Census census = take_census();
      const bool short_of_pages = wanted || census.unassigned < reserve_pages_;
      const bool moved = short_of_pages && census.richest_class != 0 && failures < 8 &&
                         move_page_from(census.richest_class);
      const bool go_on = short_of_pages && census.richest_class != 0 && failures < 8;
      lock.lock();
      if (!go_on) break;
      if (moved) {
        ++moved_;
        page_moved_.notify_all();
      } else {
        ++failures;
      }
    }
  }
}

}  // namespace elastripe::node
