#include "tools/bench/ycsb_generators.h"

#include <algorithm>
#include <cmath>

#include "tools/bench/object_bytes.h"

namespace elastripe::bench {
namespace {

// Of ScrambledZipfianGenerator in YCSB.
constexpr uint64_t kScrambledItems = 10'000'000'000;
constexpr double kScrambledZeta = 26.46902820178302;

double sum_of_weights(uint64_t from, uint64_t to, double constant) {
  double sum = 0;
  for (uint64_t i = from; i < to; ++i) sum += 1 / std::pow(static_cast<double>(i + 1), constant);
  return sum;
}

}  // namespace

double Zipfian::zeta(uint64_t items, double constant) { return sum_of_weights(0, items, constant); }

Zipfian::Zipfian(uint64_t items, double constant)
    : Zipfian(items, constant, zeta(items, constant)) {}

Zipfian::Zipfian(uint64_t items, double constant, double zeta)
    : constant_(constant),
      alpha_(1 / (1 - constant)),
      zeta_two_(Zipfian::zeta(2, constant)),
      items_(items),
      zeta_(zeta) {
  set_eta();
}

void Zipfian::set_eta() {
  eta_ = (1 - std::pow(2 / static_cast<double>(items_), 1 - constant_)) / (1 - zeta_two_ / zeta_);
}

uint64_t Zipfian::next(Random& random, uint64_t items) {
  if (items > items_) {
    zeta_ += sum_of_weights(items_, items, constant_);
    items_ = items;
    set_eta();
  }
  return next(random);
}

uint64_t Zipfian::next(Random& random) {
  const double u = std::uniform_real_distribution<double>(0, 1)(random);
  const double uz = u * zeta_;
  if (uz < 1 || items_ < 2) return 0;
  if (uz < 1 + std::pow(0.5, constant_)) return 1;
  const auto items = static_cast<double>(items_);
  const auto chosen = static_cast<uint64_t>(items * std::pow(eta_ * u - eta_ + 1, alpha_));
  return std::min(chosen, items_ - 1);
}

ScrambledZipfian::ScrambledZipfian(uint64_t records)
    : records_(records), zipfian_(kScrambledItems, kZipfianConstant, kScrambledZeta) {}

uint64_t ScrambledZipfian::next(Random& random) {
  return fnv_hash(zipfian_.next(random)) % records_;
}

void AcknowledgedCounter::acknowledge(uint64_t number) {
  const std::lock_guard lock(mutex_);
  above_.insert(number);
  uint64_t limit = limit_;
  while (!above_.empty() && *above_.begin() == limit) {
    above_.erase(above_.begin());
    ++limit;
  }
  limit_ = limit;
}

}  // namespace elastripe::bench
