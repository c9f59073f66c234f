#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "tools/bench/ycsb_workload.h"

namespace elastripe::bench {
namespace {

constexpr int kDraws = 200'000;

// How often each of `items` numbers comes, as a share of all draws.
template <class Next>
std::vector<double> shares(uint64_t items, Next next) {
  std::vector<double> counts(items);
  for (int i = 0; i < kDraws; ++i) counts.at(next()) += 1.0 / kDraws;
  return counts;
}

std::map<Operation, double> mix_of(const std::string& workload) {
  YcsbRecords records(1000);
  const auto source = ycsb_sources(*ycsb_workload(workload), records, kDraws, 1)();
  std::map<Operation, double> mix;
  while (const auto request = source.next()) {
    mix[request->operation] += 1.0 / kDraws;
    source.acknowledged(*request);
  }
  return mix;
}

}  // namespace

TEST_CASE("zipfian numbers come as often as their weights say") {
  constexpr uint64_t kItems = 1000;
  Random random(1);
  Zipfian zipfian(kItems);
  const auto share = shares(kItems, [&] { return zipfian.next(random); });
  const double zeta = Zipfian::zeta(kItems, kZipfianConstant);
  CHECK(share[0] == Approx(1 / zeta).epsilon(0.02));
  CHECK(share[1] == Approx(std::pow(2, -0.99) / zeta).epsilon(0.03));
  // beyond the first two the algorithm approximates
  for (const int first : {10, 100, 500}) {
    CAPTURE(first);
    const double sum = std::accumulate(share.begin(), share.begin() + first, 0.0);
    CHECK(
        sum ==
        Approx(Zipfian::zeta(static_cast<uint64_t>(first), kZipfianConstant) / zeta).epsilon(0.05));
  }
  CHECK(share[kItems - 1] > 0);
}

TEST_CASE("the sum of zipfian weights is that of its definition") {
  CHECK(Zipfian::zeta(1, 0.99) == 1);
  CHECK(Zipfian::zeta(2, 0.99) == Approx(1 + 1 / std::pow(2, 0.99)));
  // what YCSB takes for 10^10 items: 10^6 of them, and the integral over the rest
  const double rest = (std::pow(1e10, 0.01) - std::pow(1e6, 0.01)) / 0.01;
  CHECK(Zipfian::zeta(1'000'000, 0.99) + rest == Approx(26.46902820178302).epsilon(1e-6));
}

TEST_CASE("a zipfian choice that has grown is one of as many items from the start") {
  Zipfian grown(100);
  Random random(1);
  for (uint64_t items = 100; items <= 5000; items += 7) grown.next(random, items);
  Zipfian fresh(5000);
  Random first(2);
  Random second(2);
  for (int i = 0; i < 1000; ++i) CHECK(grown.next(first, 5000) == fresh.next(second));
}

TEST_CASE("one item is always chosen where there is but one") {
  Random random(1);
  Zipfian zipfian(1);
  for (int i = 0; i < 100; ++i) CHECK(zipfian.next(random) == 0);
}

TEST_CASE("scrambled zipfian records are as skewed, and anywhere") {
  constexpr uint64_t kRecords = 1000;
  Random random(1);
  ScrambledZipfian scrambled(kRecords);
  auto share = shares(kRecords, [&] { return scrambled.next(random); });
  const auto likeliest = std::ranges::max_element(share);
  // 1 / zeta(10^10), and what else has the same hash
  CHECK(*likeliest >= 0.0378 * 0.97);
  CHECK(*likeliest <= 0.05);
  const auto place = likeliest - share.begin();
  CHECK(share[static_cast<size_t>(place + 1) % kRecords] < *likeliest / 2);
  CHECK(std::ranges::min(share) > 0);
  std::ranges::sort(share, std::greater<>());
  CHECK(std::accumulate(share.begin(), share.begin() + 10, 0.0) > 0.08);
}

TEST_CASE("the newest records are the likeliest, and none is beyond them") {
  Random random(1);
  Latest latest(100);
  const auto share = shares(500, [&] { return latest.next(random, 500); });
  CHECK(share[499] == Approx(1 / Zipfian::zeta(500, kZipfianConstant)).epsilon(0.02));
  CHECK(share[499] > share[498]);
  CHECK(share[498] > share[400]);
}

TEST_CASE("records count as there once all before them are acknowledged") {
  AcknowledgedCounter counter(10);
  CHECK(counter.next() == 10);
  CHECK(counter.next() == 11);
  CHECK(counter.next() == 12);
  CHECK(counter.limit() == 10);
  counter.acknowledge(11);
  CHECK(counter.limit() == 10);
  counter.acknowledge(10);
  CHECK(counter.limit() == 12);
  counter.acknowledge(12);
  CHECK(counter.limit() == 13);
}

TEST_CASE("threads hand out every number once, and acknowledge all") {
  AcknowledgedCounter counter(0);
  std::vector<std::vector<uint64_t>> taken(4);
  {
    std::vector<std::jthread> threads;
    for (auto& numbers : taken) {
      threads.emplace_back([&] {
        for (int i = 0; i < 5000; ++i) {
          numbers.push_back(counter.next());
          counter.acknowledge(numbers.back());
        }
      });
    }
  }
  std::set<uint64_t> all;
  for (const auto& numbers : taken) all.insert(numbers.begin(), numbers.end());
  CHECK(all.size() == 20'000);
  CHECK(counter.limit() == 20'000);
}

TEST_CASE("workloads mix operations as YCSB's do") {
  using Mix = std::map<Operation, double>;
  const std::map<std::string, Mix> expected{
      {"A", {{Operation::kRead, 0.5}, {Operation::kUpdate, 0.5}}},
      {"B", {{Operation::kRead, 0.95}, {Operation::kUpdate, 0.05}}},
      {"C", {{Operation::kRead, 1}}},
      {"D", {{Operation::kRead, 0.95}, {Operation::kInsert, 0.05}}},
      {"F", {{Operation::kRead, 0.5}, {Operation::kReadModifyWrite, 0.5}}}};
  for (const auto& [workload, mix] : expected) {
    CAPTURE(workload);
    const auto found = mix_of(workload);
    REQUIRE(found.size() == mix.size());
    for (const auto& [operation, share] : mix) {
      CAPTURE(static_cast<int>(operation));
      CHECK(found.at(operation) == Approx(share).margin(0.005));
    }
  }
}

TEST_CASE("updates are of one field, as likely as any other, where fields are updated") {
  constexpr size_t kFields = 10;
  YcsbRecords records(1000);
  for (const char* workload : {"A", "D", "F"}) {
    CAPTURE(workload);
    const auto source = ycsb_sources(*ycsb_workload(workload), records, kDraws, 1, kFields)();
    std::vector<double> counts(kFields);
    double updates = 0;
    while (const auto request = source.next()) {
      const bool changes = request->operation == Operation::kUpdate ||
                           request->operation == Operation::kReadModifyWrite;
      REQUIRE(request->field.has_value() == changes);
      if (changes) counts.at(*request->field) += 1;
      updates += changes ? 1 : 0;
      source.acknowledged(*request);
    }
    for (const double count : counts) CHECK(count == Approx(updates / kFields).epsilon(0.05));
  }
  const auto whole = ycsb_sources(*ycsb_workload("A"), records, 1000, 1)();
  while (const auto request = whole.next()) CHECK_FALSE(request->field.has_value());
}

TEST_CASE("workload names are letters of either case, and E is none") {
  CHECK(ycsb_workload("d")->name == 'D');
  for (const char* name : {"E", "G", "", "AA", "1"}) CHECK_FALSE(ycsb_workload(name));
}

TEST_CASE("workload D reads what is there, and mostly what has just come") {
  YcsbRecords records(100);
  const auto source = ycsb_sources(*ycsb_workload("D"), records, 20'000, 1)();
  std::vector<Request> unacknowledged;
  int recent = 0;
  int reads = 0;
  while (const auto request = source.next()) {
    if (request->operation == Operation::kInsert) {
      unacknowledged.push_back(*request);
      if (unacknowledged.size() == 5) {
        for (const Request& insert : unacknowledged) source.acknowledged(insert);
        unacknowledged.clear();
      }
      continue;
    }
    const uint64_t limit = records.inserted.limit();
    REQUIRE(request->record < limit);
    ++reads;
    if (request->record + 10 >= limit) ++recent;
  }
  CHECK(records.inserted.limit() > 900);
  CHECK(recent > reads / 4);
}

TEST_CASE("every connection makes its share of the operations, in an order of its own") {
  YcsbRecords records(1000);
  const auto sources = ycsb_sources(*ycsb_workload("C"), records, 50, 7);
  std::vector<std::vector<uint64_t>> asked;
  for (int i = 0; i < 2; ++i) {
    const auto source = sources();
    asked.emplace_back();
    while (const auto request = source.next()) asked.back().push_back(request->record);
    CHECK(asked.back().size() == 50);
  }
  CHECK(asked[0] != asked[1]);
  const auto again = ycsb_sources(*ycsb_workload("C"), records, 50, 7)();
  for (const uint64_t record : asked[0]) CHECK(again.next()->record == record);
}

}  // namespace elastripe::bench
