// Keeps memory from staying locked to one item size. Memcached cuts its pages into chunks of one
// size each, for good; its page mover can give a page back, if something asks for it. The
// keeper is a thread that does, when few unassigned pages are left: it takes pages from the classes
// that have the most free chunks. A patch makes the mover abort rather than drop a live item.
//
// Pages are the unit of all accounting here: new data may take what is left above the reserve.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "server-patches/node/store/item_store.h"
#include "server-patches/shim/items.h"

namespace elastripe::node {

class PageKeeper {
 public:
  PageKeeper();
  ~PageKeeper();
  PageKeeper(const PageKeeper&) = delete;
  PageKeeper& operator=(const PageKeeper&) = delete;

  // Any thread. True if the classes may grow by that many pages for something of that urgency.
  bool admits(size_t pages, Urgency urgency);
  // Any thread. Waits until that many pages are unassigned, of those that are locked to other
  // sizes, for 100 ms at most; false if something of that urgency may not take so many, or if none
  // has moved meanwhile.
  bool wait_for_pages(size_t pages, Urgency urgency);
  // Any thread; at most 100 ms old.
  ItemStore::Memory memory() const;
  uint64_t moved_pages() const;

 private:
  struct Census {
    uint64_t unassigned = 0;   // in the pool, or never allocated
    uint64_t reclaimable = 0;  // whole pages' worth of free chunks that the mover can collect
    uint64_t assigned = 0;     // to size classes, reclaimable ones included
    int richest_class = 0;     // the one with the most reclaimable pages; 0: none

    uint64_t available() const { return unassigned + reclaimable; }
  };

  Census take_census();
  void run();
  bool move_page_from(int from_class);

  const uint64_t page_bytes_;
  const uint64_t limit_pages_;
  const uint64_t reserve_pages_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable page_moved_;
  uint64_t wanted_ = 0;    // unassigned pages that someone waits for; guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  uint64_t moved_ = 0;     // guarded by mutex_
  Census last_;            // guarded by mutex_
  uint64_t granted_ = 0;   // pages admitted since; guarded by mutex_
  std::thread thread_;
};

}  // namespace elastripe::node
