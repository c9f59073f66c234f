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
  static constexpr uint64_t kTurn_ms = 10'000;

  uint32_t part = 0;
  uint32_t parts = 1;  // as many as there are proxies

  // Another one's turn comes every ten seconds, so that no node waits for a proxy that is there and
  // does nothing.
  bool has(node::NodeId at, uint64_t unix_ms) const {
    return (at + unix_ms / kTurn_ms) % parts == part;
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
