#include "tools/bench/ycsb_workload.h"

#include <array>

namespace elastripe::bench {
namespace {

constexpr std::array kWorkloads{
    YcsbWorkload{.name = 'A', .reads = 0.5, .updates = 0.5},
    YcsbWorkload{.name = 'B', .reads = 0.95, .updates = 0.05},
    YcsbWorkload{.name = 'C', .reads = 1, .updates = 0},
    YcsbWorkload{.name = 'D', .reads = 0.95, .updates = 0, .latest = true},
    YcsbWorkload{.name = 'F', .reads = 0.5, .updates = 0, .read_modify_writes = 0.5},
};

class YcsbSource : public RequestSource {
 public:
  YcsbSource(const YcsbWorkload& workload, YcsbRecords& records, uint64_t operations, uint64_t seed,
             const Latest& latest)
      : workload_(workload),
        records_(records),
        left_(operations),
        random_(seed),
        zipfian_(records.loaded()),
        latest_(latest) {}

  std::optional<Request> next() override {
    if (left_ == 0) return std::nullopt;
    --left_;
    const Operation operation = choose();
    if (operation == Operation::kInsert) return Request{operation, records_.inserted().next()};
    return Request{operation, workload_.latest ? latest_.next(random_, records_.inserted().limit())
                                               : zipfian_.next(random_)};
  }

  void acknowledged(const Request& request) override {
    if (request.operation == Operation::kInsert) records_.inserted().acknowledge(request.record);
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
  Random random_;
  ScrambledZipfian zipfian_;
  Latest latest_;
};

}  // namespace

cli::Result<YcsbWorkload> ycsb_workload(const std::string& name) {
  for (const YcsbWorkload& workload : kWorkloads) {
    if (name.size() == 1 && (name[0] & ~0x20) == workload.name) return workload;
  }
  return cli::fail("not a workload: {} (A, B, C, D or F)", name);
}

SourceFactory ycsb_sources(const YcsbWorkload& workload, YcsbRecords& records,
                           uint64_t operations_each, uint64_t seed) {
  const Latest latest(records.loaded());  // its sum of weights is made once
  const auto next_seed = std::make_shared<uint64_t>(seed);
  return [=, &records] {
    return std::make_unique<YcsbSource>(workload, records, operations_each, (*next_seed)++, latest);
  };
}

}  // namespace elastripe::bench
