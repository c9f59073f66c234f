// Hedging: when a shard is late, by what its node usually takes; and how often others may be asked
// instead for the sake of speed alone. One per OpsContext.
#pragma once

#include <optional>
#include <vector>

#include "proxy/async/clock.h"
#include "proxy/base/duration_summary.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe {

class Hedging {
 public:
  // The shard of a read came so long after it was asked for.
  void note_shard(node::NodeId node, Duration took);
  // It had not come when it was done without. How long it would have taken nobody knows: twice as
  // long is assumed, so that a node which turns slow is known to be so after few reads.
  void note_late_shard(node::NodeId node, Duration waited) { note_shard(node, 2 * waited); }

  // What a shard of the node takes at most, but for one in a hundred; nothing while too few have
  // come. However slow the node is, it is not more than three times of what most nodes take: nobody
  // shall wait for one that is always slow.
  std::optional<Duration> usual(node::NodeId node) const;
  // Whether it is as slow as that.
  bool is_slow(node::NodeId node) const;

  // One read in twenty may be hedged, and kBurst at once.
  void note_read();
  bool take_hedge();

  static constexpr uint64_t kEnough = 100;  // shards of a node, to know what it takes
  static constexpr int kReadsPerHedge = 20;
  static constexpr int kBurst = 16;

 private:
  struct Node {
    DurationSummary<4> took;
    std::optional<Duration> p99;
  };

  std::vector<Node> nodes_;  // by id
  std::vector<Duration> p99s_;
  Duration most_{};  // of usual()
  int reads_ = kBurst * kReadsPerHedge;
};

}  // namespace elastripe
