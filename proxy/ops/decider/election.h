// Election: which of the proxies that hear of no decider begins to decide.
//
// It is there for order: safety rests on the leases of the nodes, whoever begins (rules 2 and 3).
// Where two begin, both lose some time; where nobody may, the cluster serves as long as there is a
// decider.
#pragma once

#include "proxy/async/clock.h"
#include "proxy/ops/decider/cluster_status.h"
#include "server-patches/node/format/cluster_map.h"

namespace elastripe::decider {

// One proxy's part in it. Control thread.
class Election {
 public:
  // What a follower knows that hears of no decider.
  struct Vacancy {
    TimePoint since;
    bool has_majority = false;  // of the nodes that may be alive answers it: it could take over
    TimePoint last_sign = TimePoint::min();  // when a node heard of a decider last
  };

  virtual ~Election() = default;

  // The proxy follows from now on. `starts`: its process has just begun, and has heard of nobody.
  virtual void follow(bool starts, Duration lease) = 0;
  // It hears of a decider.
  virtual void hear_decider(Duration lease) = 0;
  // It hears of none, and is asked again every heartbeat. When it may begin, as far as is known
  // now; TimePoint::max(): not for all that is known.
  virtual TimePoint may_begin_at(const Vacancy& vacancy) = 0;
  // It decides, every heartbeat. `served`: the map that it serves; null: none. `leaves`: another
  // one shall take its place.
  virtual void decide(const node::MapPtr& served, bool leaves) = 0;
  virtual ElectionStatus status() const = 0;
};

// By the nodes alone, which tell when they heard of a decider last: whoever has waited for a random
// time begins. Nothing has to be installed for it.
class NodesElection final : public Election {
 public:
  explicit NodesElection(Random& random) : random_(random) {}

  void follow(bool starts, Duration lease) override;
  void hear_decider(Duration lease) override;
  TimePoint may_begin_at(const Vacancy& vacancy) override;
  void decide(const node::MapPtr&, bool) override {}
  ElectionStatus status() const override { return {}; }

 private:
  void be_patient(Duration lease);

  Random& random_;
  Duration patience_{};
};

}  // namespace elastripe::decider
