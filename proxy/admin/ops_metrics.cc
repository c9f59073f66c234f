#include "proxy/admin/ops_metrics.h"

namespace elastripe {

OpsMetrics::OpsMetrics(MetricRegistry& registry) {
  for (size_t i = 0; i < cells_.size(); ++i) cells_[i] = &registry.cell(kOpsCounters[i].metric);
}

void OpsMetrics::publish(const OpsCounters& counters) {
  for (size_t i = 0; i < cells_.size(); ++i) {
    cells_[i]->add(counters.*kOpsCounters[i].counter - cells_[i]->value());
  }
}

}  // namespace elastripe
