// RoomWait: objects of a job that a full node has no room for. Old parities go after read_grace,
// and so does what clients overwrite: the node may well have room then. Until it has, no further
// object begins. Where that was in vain once, objects fail at once.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "proxy/ops/context.h"

namespace elastripe::jobs {

// On one thread, that of `ops`.
class RoomWait {
 public:
  explicit RoomWait(OpsContext& ops) : ops_(ops) {}

  bool somebody_waits() const { return waiting_ > 0; }

  // One object's tries.
  class Tries {
   public:
    explicit Tries(RoomWait& owner) : owner_(owner) {}
    ~Tries() { tried(); }
    Tries(const Tries&) = delete;
    Tries& operator=(const Tries&) = delete;

    // After a try that failed with kNoSpace, as `full` says: true if another one may do better.
    bool may_try_again(const std::string& full) {
      const TimePoint now = owner_.ops_.clock.now();
      if (!since_) since_ = now;
      if (now - *since_ > owner_.ops_.settings.read_grace + kAfterGrace) {
        owner_.stays_full_.insert(full);
      }
      return !owner_.stays_full_.contains(full);
    }
    // Until it is worth it. The object counts as waiting until the next try has ended, tried().
    // False: shutting down.
    Task<bool> wait() {
      waits_ = true;
      ++owner_.waiting_;
      return owner_.ops_.clock.sleep_for(kPause);
    }
    void tried() {
      if (std::exchange(waits_, false)) --owner_.waiting_;
    }

   private:
    RoomWait& owner_;
    std::optional<TimePoint> since_;  // the first try that failed
    bool waits_ = false;
  };

 private:
  // How much longer than the grace a node may stay full, and how often that is tried.
  static constexpr Duration kAfterGrace = std::chrono::seconds(2);
  static constexpr Duration kPause = std::chrono::seconds(1);

  OpsContext& ops_;
  size_t waiting_ = 0;                // objects
  std::set<std::string> stays_full_;  // what was said of nodes that were waited for in vain
};

}  // namespace elastripe::jobs
