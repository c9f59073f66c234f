// RoomWatch: whether a node has room for further partitions, as the decider sees it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proxy/async/clock.h"
#include "proxy/cluster/membership.h"

namespace elastripe::decider {

// Only a refusal tells that there is too little room, and only a trial that there is enough: a node
// that is no home any more forgets what it had of the partition, and has that room again. So each
// trial that fails makes the wait for the next one twice as long. One for each node and
// incarnation, on the decider's thread.
class RoomWatch {
 public:
  static constexpr Duration kFirstWait = std::chrono::seconds(10);
  static constexpr Duration kLongestWait = std::chrono::minutes(10);
  // A node is tried again only with at least this part of its memory free, 1/32.
  static constexpr uint64_t kShareToTry = 32;

  Room room() const { return room_; }
  // It has refused nothing, or a trial has succeeded since.
  bool is_at_rest() const { return room_ == Room::kForMore && wait_ == Duration::zero(); }
  Duration wait() const { return wait_; }
  Duration try_in(TimePoint now) const {
    return room_ == Room::kForMore ? Duration::zero()
                                   : std::max<Duration>(try_after_ - now, Duration::zero());
  }

  // What another decider had found out, of the same process.
  void take_over(Room room, Duration wait, TimePoint try_after, TimePoint now) {
    room_ = room;
    wait_ = std::clamp<Duration>(wait, Duration::zero(), kLongestWait);
    try_after_ = std::min<TimePoint>(try_after, now + kLongestWait);
  }

  // The node refused a record that sync brought. True if that is news.
  bool refused(Room left, TimePoint now) {
    if (room_ >= left) return false;
    room_ = left;
    wait_ = std::clamp(2 * wait_, kFirstWait, kLongestWait);
    try_after_ = now + wait_;
    return true;
  }
  // What the node tells. True if it shall be tried again.
  bool told(uint64_t free_bytes, uint64_t limit_bytes, TimePoint now) {
    const bool may_try = free_bytes > 0 && free_bytes >= limit_bytes / kShareToTry;
    if (room_ == Room::kForMore || now < try_after_ || !may_try) return false;
    room_ = Room::kForMore;
    return true;
  }
  // All that it is a home of is synced: the trial has succeeded.
  void succeeded() {
    if (room_ == Room::kForMore) wait_ = {};
  }

 private:
  Room room_ = Room::kForMore;
  Duration wait_{};
  TimePoint try_after_;
};

}  // namespace elastripe::decider
