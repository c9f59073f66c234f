#include "proxy/admin/ops_metrics.h"

#include "proxy/base/metric_names.h"

namespace elastripe {
namespace {

struct Published {
  MetricName metric;
  uint64_t OpsCounters::* counter;
};

constexpr std::array kPublished{
    Published{metric_names::kDegradedReads, &OpsCounters::degraded_reads},
    Published{metric_names::kDegradedWrites, &OpsCounters::degraded_writes},
    Published{metric_names::kUnknownOutcomes, &OpsCounters::unknown_outcomes},
    Published{metric_names::kCommitConflicts, &OpsCounters::commit_conflicts},
    Published{metric_names::kReprepares, &OpsCounters::reprepares},
    Published{metric_names::kKeySyncs, &OpsCounters::key_syncs},
    Published{metric_names::kRecordsMended, &OpsCounters::records_mended},
    Published{metric_names::kPartitionSyncs, &OpsCounters::partition_syncs},
    Published{metric_names::kFences, &OpsCounters::fences},
    Published{metric_names::kReclaimedShards, &OpsCounters::reclaimed_shards},
    Published{metric_names::kReclaimedRecords, &OpsCounters::reclaimed_records},
};

}  // namespace

OpsMetrics::OpsMetrics(MetricRegistry& registry) {
  static_assert(kPublished.size() == kCounters, "every counter is a metric: name it above");
  for (size_t i = 0; i < kCounters; ++i) cells_[i] = &registry.counter(kPublished[i].metric);
}

void OpsMetrics::publish(const OpsCounters& counters) {
  for (size_t i = 0; i < kCounters; ++i) {
    cells_[i]->add(counters.*kPublished[i].counter - cells_[i]->value());
  }
}

}  // namespace elastripe
