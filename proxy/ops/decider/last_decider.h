// LastDecider: what a proxy knows of whoever decided last, for the time when it decides itself. It
// stays when that one's card is not shown any more, as a takeover may have to wait for long.
#pragma once

#include "proxy/ops/decider/cluster_status.h"
#include "proxy/ops/jobs/expiry_clock.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe::decider {

// What a decider takes over from the one before it.
struct Inherited {
  uint32_t decider = 0;  // that one; 0: nothing is known of any
  TimePoint told_at{};
  DeciderFindings findings{};
  Handover handover{};
};

// One for each process, on the control thread.
class LastDecider {
 public:
  explicit LastDecider(const Clock& clock) : clock_(clock), expiry_clock_(clock) {}

  // For a proxy that follows, more often than cards fade: the map that it serves by (null: none)
  // and the card of the one that made it (null: it is not heard of just now). Only that decider is
  // remembered: what another one has told may be refuted since.
  void look(const node::MapPtr& followed, const ProxyCard* card);
  // This proxy has ceased to decide as `decider`, beside the map that it leaves served.
  void keep(uint32_t decider, const node::MapPtr& left, const DeciderFindings& findings,
            const Handover& handover);

  // This proxy has begun to decide, and given way to the decider of that map: once for a map, as
  // that one may be gone, too.
  void give_way_to(const node::ClusterMap& map);
  bool may_give_way_to(const node::ClusterMap& map) const;

  const Inherited& inherited() const { return last_; }
  // What it has seen of the wall clock counts for every decider of the process.
  jobs::ExpiryClock& expiry_clock() { return expiry_clock_; }

 private:
  const Clock& clock_;
  jobs::ExpiryClock expiry_clock_;
  Inherited last_;
  uint64_t gave_way_in_ = 0;  // that cluster
  uint32_t gave_way_to_ = 0;  // the number of its map
};

}  // namespace elastripe::decider
