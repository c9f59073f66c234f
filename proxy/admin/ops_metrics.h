// OpsMetrics: what the flows of one thread have counted, as metrics.
#pragma once

#include <array>

#include "proxy/base/metrics.h"
#include "proxy/ops/counters.h"

namespace elastripe {

// One for each thread that runs flows: the metrics are the sums over all threads. Made before the
// thread starts; then used on that thread only, since the counters are.
class OpsMetrics {
 public:
  explicit OpsMetrics(MetricRegistry& registry);

  // The metrics say what `counters` say now. Counters only grow.
  void publish(const OpsCounters& counters);

 private:
  std::array<Counter*, kOpsCounters.size()> cells_;
};

}  // namespace elastripe
