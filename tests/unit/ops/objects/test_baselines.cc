// The baselines among the methods of updates: shards that change in place.
#include <catch2/catch.hpp>
#include <random>

#include "proxy/async/when_all.h"
#include "proxy/ops/jobs/scrub.h"
#include "tests/unit/ops/objects/update_calls.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace std::chrono_literals;

namespace {

struct InPlace : ClusterFixture {
  explicit InPlace(const std::string& method, const std::string& scheme = "rs:3,2")
      : ClusterFixture(7, scheme), key(method + ":k") {
    proxy_memory = {.staged_bytes = 8 << 20, .read_bytes = 8 << 20, .decode_bytes = 8 << 20};
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
  }
  Result<UpdateOutcome> update(uint64_t offset, const std::string& bytes,
                               std::optional<uint64_t> cas = {}) {
    return run(
        update_with(proxy->ops(), {.key = key, .offset = offset, .cas = cas}, bytes, deadline()));
  }
  UpdateStatus status(uint64_t offset, const std::string& bytes, std::optional<uint64_t> cas = {}) {
    const auto outcome = update(offset, bytes, cas);
    INFO((outcome ? "" : to_string(outcome.error())));
    REQUIRE(outcome.has_value());
    return outcome->status;
  }
  uint64_t cas() {
    const auto outcome = run(get_whole(proxy->ops(), key, deadline()));
    REQUIRE(outcome.has_value());
    REQUIRE(outcome->object.has_value());
    return outcome->object->cas;
  }
  bool is_clean() {
    const auto report = run(jobs::scrub_object(proxy->ops(), key, deadline()));
    INFO((report ? "" : to_string(report.error())));
    REQUIRE(report.has_value());
    return report->is_clean();
  }
  std::vector<node::NodeId> placement() {
    const RecordPtr record = proxy->ops().cache.find(key);
    REQUIRE(record != nullptr);
    return record->content.segments.front().placement;
  }

  const std::string key;
  sim::SimProxy* proxy = nullptr;
};

constexpr size_t kSegment = 4096;

const char* any_method() {
  return GENERATE("fo", "pl", "plr", "cord", "dpu", "tsue", "tsue2", "parix");
}

}  // namespace

TEST_CASE("shards that change in place have all updates, and parities that fit", "[baselines]") {
  const std::string method = any_method();
  const std::string scheme = GENERATE("rs:3,2", "ers-2:2,2,3");
  const uint32_t seed = std::random_device{}();
  CAPTURE(method, scheme, seed);
  std::mt19937 random(seed);
  InPlace s(method, scheme);
  std::string value = bytes_of(3 * kSegment + 100, 1);
  REQUIRE(s.put(*s.proxy, s.key, value));
  const uint64_t shards = s.shards();
  uint64_t cas = s.cas();
  for (int round = 0; round < 120; ++round) {
    const size_t length = 1 + random() % (round % 20 == 0 ? 2 * kSegment : 300);
    const size_t offset = random() % (value.size() - length + 1);
    const std::string bytes = bytes_of(length, random());
    const auto outcome = s.update(offset, bytes);
    REQUIRE(outcome.has_value());
    REQUIRE(outcome->status == UpdateStatus::kUpdated);
    REQUIRE(outcome->cas > cas);
    REQUIRE(outcome->size == value.size());
    cas = outcome->cas;
    value.replace(offset, length, bytes);
    if (round % 10 == 0) {
      REQUIRE(s.get(*s.proxy, s.key) == value);
      REQUIRE(s.cas() == cas);
    }
    if (round % 60 == 59) REQUIRE(s.is_clean());
  }
  CHECK(s.get(*s.proxy, s.key) == value);
  CHECK(s.shards() == shards);
  CHECK(s.proxy->ops().counters.logged_updates == 0);
}

TEST_CASE("what was drained is decoded when nodes have died", "[baselines]") {
  InPlace s(any_method());
  std::string value = bytes_of(kSegment, 1);
  REQUIRE(s.put(*s.proxy, s.key, value));
  for (unsigned i = 0; i < 20; ++i) {
    const std::string bytes = bytes_of(100, i);
    REQUIRE(s.status(i * 190, bytes) == UpdateStatus::kUpdated);
    value.replace(i * 190, 100, bytes);
  }
  REQUIRE(s.is_clean());
  const std::vector<node::NodeId> placement = s.placement();
  s.node(placement[0]).kill(/*silent=*/false);
  CHECK(s.get(*s.proxy, s.key) == value);
  s.node(placement[1]).kill(/*silent=*/false);
  CHECK(s.get(*s.proxy, s.key) == value);
  // The shards of those that are gone could not follow.
  const auto refused = s.update(0, "x");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kTooFewNodes);
  CHECK(s.get(*s.proxy, s.key) == value);
}

TEST_CASE("updates at the same time, by two proxies, leave parities that fit", "[baselines]") {
  InPlace s(any_method());
  sim::SimProxy& other = s.add_proxy();
  other.map().serve(s.proxy->map().current());
  const std::string value = bytes_of(2 * kSegment, 1);
  REQUIRE(s.put(*s.proxy, s.key, value));
  // Each of them has its own byte in all of these.
  const auto several = [](ClusterFixture& fixture, sim::SimProxy& proxy, std::string key,
                          char byte) -> Task<int> {
    int done = 0;
    for (size_t i = 0; i < 40; ++i) {
      const size_t offset = i * 37 % 500;
      auto outcome = co_await update_with(proxy.ops(), {.key = key, .offset = offset},
                                          std::string(30, byte), fixture.deadline());
      done += outcome.has_value() && outcome->status == UpdateStatus::kUpdated;
    }
    co_return done;
  };
  std::vector<Task<int>> tasks;
  for (const char byte : {'a', 'b', 'c'}) {
    tasks.push_back(several(s, *s.proxy, s.key, byte));
    tasks.push_back(several(s, other, s.key, static_cast<char>(byte - 'a' + 'A')));
  }
  const std::vector<int> done = s.run(when_all(std::move(tasks)));
  CHECK(done == std::vector<int>(6, 40));
  CHECK(s.is_clean());
  const std::string now = s.get(*s.proxy, s.key);
  CHECK(now.substr(530) == value.substr(530));
  CHECK(s.get(other, s.key) == now);
  const std::string last = now.substr(39 * 37 % 500, 30);
  CHECK(std::string("abcABC").find(last[15]) != std::string::npos);
}

// Each writer has every fourth block, and has all that it has written.
Task<bool> write_blocks(ClusterFixture& fixture, sim::SimProxy& proxy, std::string key,
                        size_t writer, std::string& value) {
  constexpr size_t kBlock = 1500;
  std::mt19937 random(static_cast<uint32_t>(writer));
  for (unsigned i = 0; i < 300; ++i) {
    const size_t block = random() % (value.size() / kBlock / 4) * 4 + writer;
    const size_t length = 1 + random() % kBlock;
    const size_t offset = block * kBlock + random() % (kBlock - length + 1);
    const std::string bytes = bytes_of(length, random());
    auto outcome = co_await update_with(proxy.ops(), {.key = key, .offset = offset}, bytes,
                                        fixture.deadline());
    if (!outcome || outcome->status != UpdateStatus::kUpdated) co_return false;
    value.replace(offset, length, bytes);
  }
  co_return true;
}

TEST_CASE("what is kept goes to the parities when it is too much, and when it is drained",
          "[baselines]") {
  const std::string method =
      GENERATE("large-cord", "large-dpu", "large-tsue", "large-tsue2", "large-parix");
  const std::string scheme = GENERATE("rs:3,1", "rs:3,2", "ers-2:2,2,3");
  CAPTURE(method, scheme);
  InPlace s(method, scheme);
  sim::SimProxy& other = s.add_proxy();
  other.map().serve(s.proxy->map().current());
  std::string value = bytes_of(1'500'000, 1);
  REQUIRE(s.put(*s.proxy, s.key, value));
  const auto total = [&](std::string_view statistic) {
    uint64_t sum = 0;
    for (size_t id = 0; id < 7; ++id) sum += s.node(id).statistic(statistic);
    return sum;
  };
  std::vector<Task<bool>> tasks;
  for (size_t writer = 0; writer < 4; ++writer) {
    tasks.push_back(write_blocks(s, writer % 2 == 0 ? *s.proxy : other, s.key, writer, value));
  }
  CHECK(s.run(when_all(std::move(tasks))) == std::vector<bool>(4, true));
  CHECK(s.get(*s.proxy, s.key) == value);
  CHECK(total("refused_LOG_FULL") > 2);
  CHECK(total("log_bytes") > 0);
  // An update that is more than all that can be kept.
  const std::string large = bytes_of(1'000'000, 2);
  REQUIRE(s.status(300'000, large) == UpdateStatus::kUpdated);
  value.replace(300'000, large.size(), large);
  CHECK(s.get(other, s.key) == value);
  REQUIRE(s.is_clean());
  CHECK(total("log_bytes") == 0);
  const std::vector<node::NodeId> placement = s.placement();
  s.node(placement[1]).kill(/*silent=*/false);
  CHECK(s.get(*s.proxy, s.key) == value);
}

TEST_CASE("what is kept goes with its object", "[baselines]") {
  InPlace s(GENERATE("dpu", "tsue", "tsue2", "parix"));
  REQUIRE(s.put(*s.proxy, s.key, bytes_of(5000, 1)));
  REQUIRE(s.status(10, "bytes") == UpdateStatus::kUpdated);
  const auto log_bytes = [&] {
    uint64_t sum = 0;
    for (size_t id = 0; id < 7; ++id) sum += s.node(id).statistic("log_bytes");
    return sum;
  };
  CHECK(log_bytes() > 0);
  REQUIRE(s.run(remove_object(s.proxy->ops(), s.key, s.deadline())).value());
  s.run_for(60s);  // its shards are deleted
  CHECK(log_bytes() == 0);
}

TEST_CASE("what a baseline can not update is told", "[baselines]") {
  InPlace s(any_method());
  CHECK(s.status(0, "x") == UpdateStatus::kNotFound);
  REQUIRE(s.put(*s.proxy, s.key, "short"));  // in its record
  CHECK(s.status(1, "xy") == UpdateStatus::kUpdated);
  CHECK(s.get(*s.proxy, s.key) == "sxyrt");
  const std::string value = bytes_of(5000, 1);
  REQUIRE(s.put(*s.proxy, s.key, value));
  CHECK(s.status(5000, "x") == UpdateStatus::kOutOfRange);
  CHECK(s.status(4999, "xy") == UpdateStatus::kOutOfRange);
  const uint64_t cas = s.cas();
  CHECK(s.status(0, "x", cas + 1) == UpdateStatus::kExists);
  CHECK(s.get(*s.proxy, s.key) == value);
  CHECK(s.status(0, "x", cas) == UpdateStatus::kUpdated);
  CHECK(s.status(0, "y", cas) == UpdateStatus::kExists);
  CHECK(s.status(0, "y", s.cas()) == UpdateStatus::kUpdated);
  REQUIRE(s.run(remove_object(s.proxy->ops(), s.key, s.deadline())).value());
  CHECK(s.status(0, "x") == UpdateStatus::kNotFound);
}

TEST_CASE("a cas of the whole value sees updates in place", "[baselines]") {
  InPlace s(any_method());
  REQUIRE(s.put(*s.proxy, s.key, bytes_of(5000, 1)));
  const uint64_t before = s.cas();
  REQUIRE(s.status(10, "new") == UpdateStatus::kUpdated);
  if (GENERATE(false, true)) {  // another version of the record, and the same value
    REQUIRE(s.run(touch_object(s.proxy->ops(), s.key, 0, s.deadline())).value());
    CHECK(s.cas() > before);
  }
  const auto cas_with = [&](uint64_t cas) {
    StoreRequest request;
    request.verb = StoreVerb::kCas;
    request.key = s.key;
    request.cas = cas;
    return s.run(store_value(s.proxy->ops(), request, bytes_of(4000, 2), s.deadline()));
  };
  CHECK(cas_with(before) == StoreStatus::kExists);
  CHECK(cas_with(s.cas()) == StoreStatus::kStored);
  CHECK(s.get(*s.proxy, s.key) == bytes_of(4000, 2));
  REQUIRE(s.status(10, "newer") == UpdateStatus::kUpdated);
  CHECK(s.store(*s.proxy, StoreVerb::kAppend, s.key, "end") == StoreStatus::kStored);
  std::string value = bytes_of(4000, 2) + "end";
  value.replace(10, 5, "newer");
  CHECK(s.get(*s.proxy, s.key) == value);
  CHECK(s.is_clean());
}

TEST_CASE("an update of an object that another proxy has replaced is made to the new value",
          "[baselines]") {
  InPlace s(any_method());
  sim::SimProxy& other = s.add_proxy();
  other.map().serve(s.proxy->map().current());
  REQUIRE(s.put(*s.proxy, s.key, bytes_of(5000, 1)));
  REQUIRE(s.get(*s.proxy, s.key) == bytes_of(5000, 1));
  std::string value = bytes_of(6000, 2);
  REQUIRE(s.put(other, s.key, value));
  REQUIRE(s.status(10, "bytes") == UpdateStatus::kUpdated);
  value.replace(10, 5, "bytes");
  CHECK(s.get(other, s.key) == value);
  s.run_for(60s);  // its shards are deleted
  value = bytes_of(5500, 3);
  REQUIRE(s.put(other, s.key, value));
  s.run_for(60s);
  REQUIRE(s.status(20, "again") == UpdateStatus::kUpdated);
  value.replace(20, 5, "again");
  CHECK(s.get(*s.proxy, s.key) == value);
  CHECK(s.is_clean());
}
