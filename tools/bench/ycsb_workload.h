// The core workloads of YCSB (workloada to workloadf), of which E, scans, is none of memcached's.
#pragma once

#include <memory>
#include <string>

#include "tools/bench/load.h"
#include "tools/bench/ycsb_generators.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

struct YcsbWorkload {
  char name = 'A';
  // Shares of the operations; the rest, if any, are inserts.
  double reads = 0.5;
  double updates = 0.5;
  double read_modify_writes = 0;
  bool latest = false;  // else scrambled zipfian

  double inserts() const { return 1 - reads - updates - read_modify_writes; }
};

// Of A, B, C, D or F.
cli::Result<YcsbWorkload> ycsb_workload(const std::string& name);

// What all connections to one server share: the records there are.
class YcsbRecords {
 public:
  explicit YcsbRecords(uint64_t loaded) : loaded_(loaded), inserted_(loaded) {}

  uint64_t loaded() const { return loaded_; }
  AcknowledgedCounter& inserted() { return inserted_; }

 private:
  const uint64_t loaded_;
  AcknowledgedCounter inserted_;
};

// Sources that make so many operations each. The records must outlive them.
SourceFactory ycsb_sources(const YcsbWorkload& workload, YcsbRecords& records,
                           uint64_t operations_each, uint64_t seed);

}  // namespace elastripe::bench
