// The core workloads of YCSB (workloada to workloadf), of which E, scans, is none of memcached's,
// and which record each of their requests is for, as in YCSB's core package.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include "tools/bench/load.h"
#include "tools/cli/result.h"

namespace elastripe::bench {

using Random = std::mt19937_64;

inline constexpr double kZipfianConstant = 0.99;

// Numbers from 0 on, the smaller the likelier: P(i) is proportional to 1 / (i + 1)^constant. By the
// algorithm of Gray et al., "Quickly generating billion-record synthetic databases" (1994).
class Zipfian {
 public:
  explicit Zipfian(uint64_t items, double constant = kZipfianConstant);
  // For so many items that summing their weights would take long: the sum is given.
  Zipfian(uint64_t items, double constant, double zeta);

  uint64_t next(Random& random);
  // A choice of that many items, at least as many as before: what is added to the sum of weights is
  // kept.
  uint64_t next(Random& random, uint64_t items);

  // The sum of the weights of `items` items.
  static double zeta(uint64_t items, double constant);

 private:
  void set_eta();

  double constant_;
  double alpha_;
  double zeta_two_;
  uint64_t items_;
  double zeta_;
  double eta_ = 0;
};

// A zipfian choice whose likely records are spread over all of them: the hash of a zipfian number
// of 10^10.
class ScrambledZipfian {
 public:
  explicit ScrambledZipfian(uint64_t records);
  uint64_t next(Random& random);

 private:
  uint64_t records_;
  Zipfian zipfian_;
};

// Numbers handed out once each, and how far all of them are acknowledged. Used by any threads.
class AcknowledgedCounter {
 public:
  explicit AcknowledgedCounter(uint64_t first) : next_(first), limit_(first) {}

  uint64_t next() { return next_++; }
  void acknowledge(uint64_t number);
  // All numbers below it are acknowledged.
  uint64_t limit() const { return limit_; }

 private:
  std::atomic<uint64_t> next_;
  std::atomic<uint64_t> limit_;
  std::mutex mutex_;
  std::set<uint64_t> above_;  // acknowledged ones that are not below limit_
};

// The newest records are the likeliest: a zipfian number, counted back from the newest.
class Latest {
 public:
  explicit Latest(uint64_t records) : zipfian_(records) {}
  // There are `records` records, at least as many as before.
  uint64_t next(Random& random, uint64_t records) {
    return records - 1 - zipfian_.next(random, records);
  }

 private:
  Zipfian zipfian_;
};

struct YcsbWorkload {
  char name = 'A';
  // Shares of the operations; the rest, if any, are inserts.
  double reads = 0.5;
  double updates = 0.5;
  double read_modify_writes = 0;
  bool latest = false;  // else scrambled zipfian
};

// The name is A, B, C, D or F.
cli::Result<YcsbWorkload> ycsb_workload(const std::string& name);

// What all connections to one server share: the records there are.
struct YcsbRecords {
  explicit YcsbRecords(uint64_t records) : loaded(records), inserted(records) {}

  const uint64_t loaded;
  AcknowledgedCounter inserted;
};

// Sources that make so many operations each. The records must outlive them. `fields`: updates
// change one of so many, each as likely as any other; 0: they change whole records.
SourceFactory ycsb_sources(const YcsbWorkload& workload, YcsbRecords& records,
                           uint64_t operations_each, uint64_t seed, size_t fields = 0);

}  // namespace elastripe::bench
