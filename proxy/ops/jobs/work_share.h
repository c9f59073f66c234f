// Work at nodes that any proxy may do, divided among those that are there, so that what nodes are
// asked does not grow with the proxies.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "proxy/async/clock.h"
#include "server-patches/node/format/frame.h"

namespace elastripe::jobs {

// One proxy's part. Proxies may know of different others for some seconds: work is then done twice,
// or later.
struct WorkShare {
  static constexpr std::chrono::milliseconds kShortestTurn{10'000};

  uint32_t part = 0;
  uint32_t parts = 1;  // as many as there are proxies

  // Whether the node is this one's to look at. Then it is another one's turn, so that no node waits
  // for a proxy that is there and does nothing. A turn is as long as all need to look twice.
  bool has(node::NodeId at, uint64_t unix_ms, Duration look_period) const {
    using std::chrono::milliseconds;
    const auto looks = std::chrono::duration_cast<milliseconds>(2 * look_period);
    const auto turn_ms = static_cast<uint64_t>(std::max(kShortestTurn, looks).count());
    return (at + unix_ms / turn_ms) % parts == part;
  }
};

// Any thread.
class SharedWork {
 public:
  void divide(WorkShare share) {
    share_.store(uint64_t{share.part} << 32 | std::max(share.parts, 1u));
  }
  WorkShare share() const {
    const uint64_t both = share_.load();
    return {static_cast<uint32_t>(both >> 32), static_cast<uint32_t>(both)};
  }

 private:
  std::atomic<uint64_t> share_ = 1;
};

}  // namespace elastripe::jobs
