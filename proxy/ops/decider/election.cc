#include "proxy/ops/decider/election.h"

namespace elastripe::decider {

// Who starts with all others, as a cluster is formed, need not wait for them.
void NodesElection::follow(bool starts, Duration lease) {
  patience_ = Duration::zero();
  if (!starts) be_patient(lease);
}

// From now on there are others who will miss it, too.
void NodesElection::hear_decider(Duration lease) {
  if (patience_ == Duration::zero()) be_patient(lease);
}

TimePoint NodesElection::may_begin_at(const Vacancy& vacancy) { return vacancy.since + patience_; }

void NodesElection::be_patient(Duration lease) {
  const auto most = static_cast<uint64_t>(lease.count() / 4 + 1);
  patience_ = Duration(static_cast<int64_t>(random_.next() % most));
}

}  // namespace elastripe::decider
