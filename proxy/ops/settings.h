// What flows are told by the configuration, with its defaults.
#pragma once

#include <chrono>
#include <cstdint>

#include "proxy/async/clock.h"
#include "proxy/base/setting_rows.h"

namespace elastripe {

struct OpsSettings {
  uint64_t max_object_bytes = uint64_t{1} << 30;
  uint64_t update_max_bytes = uint64_t{1} << 20;
  Duration request_timeout = std::chrono::seconds(8);
  // One call to one node; shorter than the request, so that a flow can go on after a node's death.
  Duration node_timeout = std::chrono::seconds(2);
  // A shard that has not come for so long, and for much longer than the others took, is done
  // without if parities make up for it.
  Duration hedge_after = std::chrono::milliseconds(100);
  // Earlier if its node usually takes less (Hedging): where somebody waits for the bytes.
  bool hedge_early = true;
  Duration read_grace = std::chrono::seconds(10);
  Duration upload_idle = std::chrono::seconds(30);
  Duration tombstone_keep = std::chrono::seconds(60);

  friend bool operator==(const OpsSettings&, const OpsSettings&) = default;
};

// node_timeout follows from request_timeout (proxy/main/config.cc).
void each_setting(OpsSettings& s, auto& row) {
  using namespace setting;
  constexpr uint64_t kMaxValueBytes = 2 * kGiB - 3;  // the largest that the protocol can declare
  row("max_object_bytes", s.max_object_bytes, Sizes{1, kMaxValueBytes},
      "Larger values are refused: SERVER_ERROR object too large for cache. At most 16384 segments. "
      "They pass through the proxy segment by segment, and take no more of its memory for it.");
  row("update_max_bytes", s.update_max_bytes, Sizes{1, 16 << 20},
      "An update of more bytes at once is refused in the same way. They are in the proxy's memory "
      "together, with the segments that they lie in, one by one.");
  row.cluster_wide([&] {
    row("timing.read_grace_ms", s.read_grace, Range{100, kDayMs},
        "Superseded shards stay readable for so long; a node keeps count of 262,144 of them.");
    row("timing.upload_idle_ms", s.upload_idle, Range{100, kDayMs},
        "A client is closed that sends no byte of a value, or not one whole segment of it, or does "
        "not end a line, or takes none of its replies, or not 1 MiB of them, for so long. What an "
        "upload that never ended has left on the nodes is deleted after three times as long, which "
        "must be above a quarter of request_timeout_ms (or above 2000).");
    row("timing.request_timeout_ms", s.request_timeout, Range{100, kDayMs},
        "A request that takes longer is answered with an error. One call to a node may take a "
        "quarter of it, 2000 at most.");
  });
  row("timing.hedge_after_ms", s.hedge_after, Range{1, 60'000},
      "A read does without a node that has not sent its shard for so long, and for three times as "
      "long as the others took: it decodes the shard from parities, unless it comes before these. "
      "Where it is known what 99 of 100 shards of the node take, and that is less, it waits only "
      "for so long, at least 1: in one read of twenty, or if the node is slower than most. Must be "
      "below request_timeout_ms; after half of what is left of that, it does so in any case.");
  row.cluster_wide([&] {
    row("timing.tombstone_keep_ms", s.tombstone_keep, Range{100, kDayMs},
        "What remembers a deletion is kept for at least so long; at least 2000 above "
        "request_timeout_ms.");
  });
}

}  // namespace elastripe
