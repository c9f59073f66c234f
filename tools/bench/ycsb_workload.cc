#include "tools/bench/ycsb_workload.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "tools/bench/object_bytes.h"

namespace elastripe::bench {
namespace {

// ScrambledZipfianGenerator in YCSB has the same.
constexpr uint64_t kScrambledItems = 10'000'000'000;
constexpr double kScrambledZeta = 26.46902820178302;

double sum_of_weights(uint64_t from, uint64_t to, double constant) {
  double sum = 0;
  for (uint64_t i = from; i < to; ++i) sum += 1 / std::pow(static_cast<double>(i + 1), constant);
  return sum;
}

constexpr std::array kWorkloads{
    YcsbWorkload{.name = 'A', .reads = 0.5, .updates = 0.5},
    YcsbWorkload{.name = 'B', .reads = 0.95, .updates = 0.05},
    YcsbWorkload{.name = 'C', .reads = 1, .updates = 0},
    YcsbWorkload{.name = 'D', .reads = 0.95, .updates = 0, .latest = true},
    YcsbWorkload{.name = 'F', .reads = 0.5, .updates = 0, .read_modify_writes = 0.5},
};

class YcsbSource {
 public:
  YcsbSource(const YcsbWorkload& workload, YcsbRecords& records, uint64_t operations, uint64_t seed,
             size_t fields, const Latest& latest)
      : workload_(workload),
        records_(records),
        left_(operations),
        fields_(fields),
        random_(seed),
        zipfian_(records.loaded),
        latest_(latest) {}

  std::optional<Request> next() {
    if (left_ == 0) return std::nullopt;
    --left_;
    const Operation operation = choose();
    if (operation == Operation::kInsert) return Request{operation, records_.inserted.next()};
    Request request{operation, workload_.latest ? latest_.next(random_, records_.inserted.limit())
                                                : zipfian_.next(random_)};
    if (fields_ > 0 && operation != Operation::kRead) request.field = random_() % fields_;
    return request;
  }

  void acknowledged(const Request& request) {
    if (request.operation == Operation::kInsert) records_.inserted.acknowledge(request.record);
  }

 private:
  Operation choose() {
    double at = std::uniform_real_distribution<double>(0, 1)(random_);
    if (at < workload_.reads) return Operation::kRead;
    at -= workload_.reads;
    if (at < workload_.updates) return Operation::kUpdate;
    at -= workload_.updates;
    if (at < workload_.read_modify_writes) return Operation::kReadModifyWrite;
    // a sum of shares that is all but 1 leaves nothing for inserts
    return workload_.latest ? Operation::kInsert : Operation::kRead;
  }

  const YcsbWorkload workload_;
  YcsbRecords& records_;
  uint64_t left_;
  const size_t fields_;  // of which updates change one; 0: all
  Random random_;
  ScrambledZipfian zipfian_;
  Latest latest_;
};

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

cli::Result<YcsbWorkload> ycsb_workload(const std::string& name) {
  for (const YcsbWorkload& workload : kWorkloads) {
    if (name.size() == 1 && (name[0] & ~0x20) == workload.name) return workload;
  }
  return cli::fail("not a workload: {} (A, B, C, D or F)", name);
}

SourceFactory ycsb_sources(const YcsbWorkload& workload, YcsbRecords& records,
                           uint64_t operations_each, uint64_t seed, size_t fields) {
  const Latest latest(records.loaded);  // its sum of weights is made once
  return [=, &records, next_seed = std::make_shared<uint64_t>(seed)] {
    const auto source = std::make_shared<YcsbSource>(workload, records, operations_each,
                                                     (*next_seed)++, fields, latest);
    return RequestSource{std::bind_front(&YcsbSource::next, source),
                         std::bind_front(&YcsbSource::acknowledged, source)};
  };
}

}  // namespace elastripe::bench
