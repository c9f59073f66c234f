// Which record a request of a YCSB workload is for, as in YCSB's core package.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <random>
#include <set>

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
  // Of that many items, at least as many as before: what is added to the sum of weights is kept.
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
  // Of `records` records, at least as many as before.
  uint64_t next(Random& random, uint64_t records) {
    return records - 1 - zipfian_.next(random, records);
  }

 private:
  Zipfian zipfian_;
};

}  // namespace elastripe::bench
