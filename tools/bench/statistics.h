// Quantiles of samples.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace elastripe::bench {

// The value at `fraction` (0 to 1) of the sorted samples, between two of them by proportion; 0 of
// none.
double quantile(std::vector<double> samples, double fraction);
inline double median(std::vector<double> samples) { return quantile(std::move(samples), 0.5); }

// Latencies as counts of buckets whose width grows with the value (as in HdrHistogram): any
// quantile of any number of samples, in a few KiB, off by less than 0.4%.
class Histogram {
 public:
  Histogram();

  // Values above 2^42 ns (over an hour) count as that.
  void record(std::chrono::nanoseconds value);
  void add(const Histogram& other);

  uint64_t count() const { return count_; }

  // The least value that at least this fraction (0 to 1) of all samples do not exceed; 0 of none.
  std::chrono::nanoseconds quantile(double fraction) const;
  double quantile_us(double fraction) const {
    return std::chrono::duration<double, std::micro>(quantile(fraction)).count();
  }

 private:
  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
};

}  // namespace elastripe::bench
