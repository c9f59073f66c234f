// Updates that go to the tail and to the other copies of the log at the same time.
#include <array>
#include <catch2/catch.hpp>
#include <map>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/jobs/recycler.h"
#include "proxy/ops/jobs/scrub.h"
#include "proxy/ops/records/log_copies.h"
#include "tests/unit/ops/objects/update_calls.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace std::chrono_literals;

namespace {

using node::Opcode;

struct OneRound : ClusterFixture {
  OneRound() : ClusterFixture(7, "rs:2,2") {
    proxy_memory.read_bytes = 2 << 20;
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
    REQUIRE(put(*proxy, key, value));
    homes = homes_of(*proxy, key);
    REQUIRE(homes.size() == 3);
    network().set_delay_rule([this](int, node::NodeId to, const node::RequestHeader& header) {
      ++frames[header.opcode];
      const auto slow = delays.find({to, header.opcode});
      return slow == delays.end() ? std::optional<Duration>() : slow->second;
    });
  }
  ~OneRound() { network().set_delay_rule({}); }

  Result<UpdateOutcome> update(uint64_t offset, const std::string& bytes,
                               std::optional<uint64_t> cas = {}) {
    return run(
        update_with(proxy->ops(), {.key = key, .offset = offset, .cas = cas}, bytes, deadline()));
  }
  bool is_updated(uint64_t offset, const std::string& bytes) {
    const auto outcome = update(offset, bytes);
    if (!outcome) return false;
    value.replace(offset, bytes.size(), bytes);
    return outcome->status == UpdateStatus::kUpdated;
  }
  uint64_t in_one_round() { return proxy->ops().counters.updates_in_one_round; }
  node::NodeId tail() const { return homes.front(); }
  node::NodeId middle() const { return homes[1]; }
  node::NodeId head() const { return homes.back(); }
  void check_value() {
    CHECK(get(*proxy, key) == value);
    const auto report = run(jobs::scrub_object(proxy->ops(), key, deadline()));
    REQUIRE(report.has_value());
    CHECK(report->is_clean());
  }

  std::string key = "once:k";
  std::string value = bytes_of(10000, 1);
  sim::SimProxy* proxy = nullptr;
  std::vector<node::NodeId> homes;
  std::map<Opcode, int> frames;
  std::map<std::pair<node::NodeId, Opcode>, Duration> delays;
};

}  // namespace

TEST_CASE("an update that comes alone takes one round, and the copies get its number", "[update]") {
  OneRound s;
  REQUIRE(s.is_updated(5, "first"));
  CHECK(s.frames[Opcode::kLogAppend] == 1);
  CHECK(s.frames[Opcode::kLogStore] == 2);
  CHECK(s.in_one_round() == 1);
  SECTION("with the next one") {
    REQUIRE(s.is_updated(8, "second"));
    CHECK(s.frames[Opcode::kLogStore] == 4);
    CHECK(s.frames[Opcode::kLogSettle] == 0);
    CHECK(s.in_one_round() == 2);
    s.run_for(10ms);
  }
  SECTION("soon, by itself") {
    s.run_for(10ms);
    CHECK(s.frames[Opcode::kLogSettle] == 3);  // two copies; and then the tail hears of it
  }
  SECTION("when somebody reads it") {
    CHECK(s.get(*s.proxy, s.key) == s.value);
    CHECK(s.frames[Opcode::kLogStore] == 4);
    s.run_for(10ms);
  }
  s.frames.clear();
  CHECK(s.get(*s.proxy, s.key) == s.value);
  CHECK(s.frames[Opcode::kLogStore] == 0);
  s.check_value();
}

TEST_CASE("updates of one object that come together share rounds", "[update]") {
  OneRound s;
  Scope scope;
  int done = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string bytes(10, static_cast<char>('a' + i));
    s.value.replace(static_cast<size_t>(i) * 10, 10, bytes);
    scope.spawn([](OneRound& s, int i, std::string bytes, int& done) -> Task<void> {
      const auto outcome = co_await update_with(
          s.proxy->ops(), {.key = s.key, .offset = uint64_t(i) * 10, .cas = {}}, bytes,
          s.deadline());
      done += outcome && outcome->status == UpdateStatus::kUpdated;
    }(s, i, bytes, done));
  }
  REQUIRE(s.run_until([&] { return scope.live() == 0; }));
  CHECK(done == 8);
  CHECK(s.in_one_round() == 1);
  CHECK(s.proxy->ops().counters.update_rounds < 7);
  s.check_value();
}

TEST_CASE("an update in one round survives the death of the tail, and of the proxy", "[update]") {
  OneRound s;
  const bool is_numbered = GENERATE(true, false);
  REQUIRE(s.is_updated(5, "first"));
  REQUIRE(s.is_updated(7, "second"));
  if (is_numbered) s.run_for(10ms);
  sim::SimProxy& other = s.add_decider();
  s.proxy->kill();
  s.node(s.tail()).kill(/*silent=*/false);
  s.proxy = &other;
  REQUIRE(s.run_until([&] { return s.serves_whole(other); }));
  CHECK(s.get(other, s.key) == s.value);
  REQUIRE(s.is_updated(6, "third"));
  CHECK(s.get(other, s.key) == s.value);
}

TEST_CASE("an update fails while a copy does not answer, and the next goes through", "[update]") {
  OneRound s;
  s.delays[{s.middle(), Opcode::kLogStore}] = 3s;  // longer than a call may take
  const auto outcome = s.update(5, "first");
  INFO((outcome ? "" : to_string(outcome.error())));
  CHECK_FALSE(outcome.has_value());
  s.delays.clear();
  REQUIRE(s.is_updated(5, "again"));
  s.run_for(5s);
  s.check_value();
}

TEST_CASE("a number that a copy may not have been told is told again", "[update]") {
  OneRound s;
  REQUIRE(s.is_updated(5, "first"));
  s.delays[{s.middle(), Opcode::kLogStore}] = 10min;  // with the number of the first
  CHECK_FALSE(s.update(6, "second").has_value());
  s.delays.clear();
  const std::string seen = s.get(*s.proxy, s.key);
  CHECK(seen != s.value);
  s.run_for(20ms);
  s.node(s.tail()).kill(/*silent=*/false);
  REQUIRE(s.run_until([&] { return s.homes_of(*s.proxy, s.key) != s.homes; }));
  CHECK(s.get(*s.proxy, s.key) == seen);
}

// The proxy of the first dies when the copies have it and before the tail does.
TEST_CASE("an update that only copies have holds nobody up", "[update]") {
  OneRound s;
  sim::SimProxy& other = s.add_proxy();
  const MapPtr map = s.proxy->map().current();
  other.map().serve(map);
  s.delays[{s.tail(), Opcode::kLogAppend}] = 10min;
  Scope scope;
  scope.spawn([](OneRound& s, sim::SimProxy& from) -> Task<void> {
    (void)co_await update_with(from.ops(), {.key = s.key, .offset = 5, .cas = {}}, "lost",
                               s.deadline());
  }(s, other));
  REQUIRE(s.run_until([&] { return s.frames[Opcode::kLogStore] == 2; }));
  s.run_for(20ms);
  other.kill();
  REQUIRE(s.run_until([&] { return scope.live() == 0; }));
  s.delays.clear();
  SECTION("other bytes are updated in one round") {
    REQUIRE(s.is_updated(50, "beside"));
    CHECK(s.in_one_round() == 1);
  }
  SECTION("what lies over it takes two, and stays above it") {
    REQUIRE(s.is_updated(4, "over it"));
    CHECK(s.in_one_round() == 0);
  }
  SECTION("what depends on the value cancels it") {
    const auto read = s.run(get_whole(s.proxy->ops(), s.key, s.deadline()));
    StoreRequest request;
    request.verb = StoreVerb::kCas;
    request.key = s.key;
    request.cas = read->object->cas;
    s.value = bytes_of(9000, 2);
    const auto stored = s.run(store_value(s.proxy->ops(), request, s.value, s.deadline()));
    REQUIRE(stored.has_value());
    CHECK(*stored == StoreStatus::kStored);
  }
  SECTION("append does, too") {
    REQUIRE(s.store(*s.proxy, StoreVerb::kAppend, s.key, "more") == StoreStatus::kStored);
    s.value += "more";
  }
  SECTION("who folds logs cancels it at last") {
    jobs::Recycler recycler(s.proxy->ops(), {});
    s.run_for(3s);
    s.frames.clear();
    s.run(recycler.round(0s, 0));
    CHECK(s.frames[Opcode::kLogCancel] >= 3);
    s.frames.clear();
    s.run(recycler.round(0s, 0));
    CHECK(s.frames[Opcode::kLogCancel] == 0);
    REQUIRE(s.is_updated(5, "in one"));
    CHECK(s.in_one_round() == 1);
  }
  s.check_value();
}

TEST_CASE("updates that a full log refuses are cancelled, and made in the end", "[update]") {
  OneRound s;
  // The log gets full.
  s.value = bytes_of(512 << 10, 1);
  REQUIRE(s.put(*s.proxy, s.key, s.value));
  for (uint64_t i = 0; i < 200; ++i) {
    REQUIRE(s.is_updated(i * 7919 % (s.value.size() - 32768), bytes_of(32768, i)));
  }
  s.run_for(10ms);
  CHECK(s.proxy->ops().counters.full_logs > 0);
  CHECK(s.proxy->ops().counters.full_log_us > 0);
  CHECK(s.frames[Opcode::kLogCancel] > 0);
  CHECK(s.in_one_round() > 0);
  s.check_value();
}

// What a copy may have when the tail refuses it may come back with the next sync.
TEST_CASE("an update that is refused and can not be cancelled at all copies may be made",
          "[update]") {
  OneRound s;
  s.value = bytes_of(512 << 10, 1);
  REQUIRE(s.put(*s.proxy, s.key, s.value));
  s.delays[{s.middle(), Opcode::kLogCancel}] = 3s;  // longer than a call may take
  constexpr size_t kBytes = 32768;
  uint64_t offset = 0;
  std::string bytes;
  Result<UpdateOutcome> outcome = UpdateOutcome{};
  for (uint64_t i = 0; i < 200 && outcome; ++i) {
    offset = i * 7919 % (s.value.size() - kBytes);
    bytes = bytes_of(kBytes, i);
    outcome = s.update(offset, bytes);
    if (outcome) s.value.replace(offset, kBytes, bytes);
  }
  REQUIRE_FALSE(outcome.has_value());
  INFO(to_string(outcome.error()));
  CHECK(outcome.error().code == ErrorCode::kUnknownOutcome);
  s.delays.clear();
  s.run_for(5s);
  std::string made = s.value;
  made.replace(offset, kBytes, bytes);
  const std::string seen = s.get(*s.proxy, s.key);
  CHECK((seen == s.value || seen == made));
  s.value = seen;
  s.check_value();
}

namespace {

// What the home has without a number.
std::vector<node::Id128> unnumbered_at(OneRound& s, node::NodeId home) {
  const auto told =
      s.run(read_record(s.proxy->ops().nodes, s.proxy->map().current(), home, node::Role::kAny,
                        s.key, /*if_version=*/0, s.deadline(), {node::LogWanted::kUnsettled}));
  REQUIRE(told.has_value());
  std::vector<node::Id128> ids;
  if (told->log == nullptr) return ids;
  for (const auto& extent : told->log->image.unnumbered) ids.push_back(extent.id);
  return ids;
}

// Behind the proxy's back: the home forgets the update, and takes none without a number any more
// that knows of nothing later.
void cancel_at(OneRound& s, node::NodeId home, const node::Id128& id, uint64_t known) {
  const MapPtr map = s.proxy->map().current();
  node::LogCancelRequest cancel;
  cancel.m = map->max_parities;
  cancel.value = s.proxy->ops().cache.find(s.key)->meta.value_version;
  cancel.known = known;
  cancel.key = s.key;
  cancel.ids = {id};
  const auto answer = s.run([](OneRound& s, MapPtr map, node::NodeId home,
                               node::LogCancelRequest cancel) -> Task<Result<bool>> {
    const auto told = co_await ask(s.proxy->ops().nodes, *map, home, cancel, s.deadline());
    if (!told) co_return fail(told.error());
    co_return told->status() == node::Status::kOk;
  }(s, map, home, std::move(cancel)));
  REQUIRE(answer.has_value());
  REQUIRE(*answer);
}

}  // namespace

TEST_CASE("an update that a copy does not take without its number gets there with it", "[update]") {
  OneRound s;
  REQUIRE(s.is_updated(5, "first"));
  s.run_for(10ms);
  const uint64_t known = s.proxy->ops().cache.last_lsn(s.key);
  REQUIRE(known > 0);
  cancel_at(s, GENERATE(1, 2) == 1 ? s.middle() : s.head(), {9, 9}, known);
  s.frames.clear();
  REQUIRE(s.is_updated(7, "second"));
  CHECK(s.in_one_round() == 1);
  CHECK(s.frames[Opcode::kLogStore] > 2);
  s.node(s.tail()).kill(/*silent=*/false);
  REQUIRE(s.run_until([&] { return s.homes_of(*s.proxy, s.key) != s.homes; }));
  CHECK(s.get(*s.proxy, s.key) == s.value);
}

TEST_CASE("a copy that lacks an update is not taken for told of its number", "[update]") {
  OneRound s;
  s.delays[{s.middle(), Opcode::kLogSettle}] = 30ms;
  REQUIRE(s.is_updated(5, "first"));
  const auto waiting = unnumbered_at(s, s.middle());
  REQUIRE(waiting.size() == 1);
  cancel_at(s, s.middle(), waiting.front(), /*known=*/0);
  s.run_for(60ms);
  CHECK(s.frames[Opcode::kLogSettle] == 2);  // the copies; the tail hears of nothing
  CHECK(s.get(*s.proxy, s.key) == s.value);  // whoever reads it brings it there
  s.run_for(10ms);
  s.node(s.tail()).kill(/*silent=*/false);
  s.node(s.head()).kill(/*silent=*/false);
  REQUIRE(s.run_until([&] { return s.homes_of(*s.proxy, s.key) != s.homes; }));
  CHECK(s.get(*s.proxy, s.key) == s.value);
}

TEST_CASE("with two copies, updates are counted that are lost with both", "[update]") {
  OneRound s;
  s.key = "two:k";
  REQUIRE(s.put(*s.proxy, s.key, s.value));
  s.homes = s.homes_of(*s.proxy, s.key);
  const std::string before = s.value;
  REQUIRE(s.is_updated(5, "first"));
  s.run_for(10ms);
  const auto lost = [&] { return s.proxy->ops().counters.lost_updates; };
  SECTION("one of them is enough") {
    s.node(GENERATE(true, false) ? s.tail() : s.head()).kill(/*silent=*/false);
    REQUIRE(s.run_until([&] { return s.homes_of(*s.proxy, s.key) != s.homes; }));
    CHECK(s.get(*s.proxy, s.key) == s.value);
    CHECK(lost() == 0);
  }
  SECTION("nobody else has them") {
    s.node(s.tail()).kill(/*silent=*/false);
    s.node(s.head()).kill(/*silent=*/false);
    REQUIRE(s.run_until([&] { return s.homes_of(*s.proxy, s.key) != s.homes; }));
    CHECK(s.get(*s.proxy, s.key) == before);
    CHECK(lost() == 1);
    CHECK(s.get(*s.proxy, s.key) == before);
    CHECK(lost() == 1);
    s.value = before;
    REQUIRE(s.is_updated(5, "again"));
    CHECK(s.get(*s.proxy, s.key) == s.value);
    CHECK(lost() == 1);
  }
}

namespace {

// An update that has come to the copies. What the tail is sent of it comes too late, as long
// as `delays` say so.
class LateUpdate {
 public:
  LateUpdate(OneRound& s, uint64_t offset, const std::string& bytes) : s_(s) {
    s.delays[{s.tail(), Opcode::kLogAppend}] = 10min;
    s.value.replace(offset, bytes.size(), bytes);
    scope_.spawn(run(s, offset, bytes, outcome_));
    s.run_for(20ms);
    for (const node::NodeId copy : {s.middle(), s.head()}) {
      REQUIRE(unnumbered_at(s, copy).size() == 1);
    }
  }
  void finish() {
    REQUIRE(s_.run_until([&] { return scope_.live() == 0; }));
    REQUIRE(outcome_.has_value());
  }

 private:
  static Task<void> run(OneRound& s, uint64_t offset, std::string bytes,
                        Result<UpdateOutcome>& outcome) {
    outcome = co_await update_with(s.proxy->ops(), {.key = s.key, .offset = offset, .cas = {}},
                                   bytes, s.deadline());
  }

  OneRound& s_;
  Result<UpdateOutcome> outcome_ = fail(ErrorCode::kTimeout, "it has not ended");
  Scope scope_;
};

std::vector<uint64_t> numbers_at(OneRound& s, node::NodeId home) {
  const auto told =
      s.run(read_record(s.proxy->ops().nodes, s.proxy->map().current(), home, node::Role::kAny,
                        s.key, /*if_version=*/0, s.deadline(), {node::LogWanted::kImage}));
  REQUIRE(told.has_value());
  REQUIRE(told->log != nullptr);
  std::vector<uint64_t> numbers;
  for (const node::UpdateName& name : told->log->image.recent) numbers.push_back(name.lsn);
  return numbers;
}

}  // namespace

// Sync must not number what it finds there: the tail will do so, and otherwise.
TEST_CASE("what copies have without a number waits for the tail if that stays synced", "[update]") {
  OneRound s;
  std::string whole;
  node::encode(node::MarkSyncedRequest{}, whole);
  s.network().set_delay_rule([&](int, node::NodeId to, const node::RequestHeader& header) {
    ++s.frames[header.opcode];
    // Only the tail of this partition is told that partitions are synced.
    const bool is_lost = header.opcode == Opcode::kMarkSynced &&
                         header.args_bytes == whole.size() &&
                         to != s.homes_of(*s.proxy, s.key).front();
    if (is_lost) return std::optional<Duration>(10min);
    const auto slow = s.delays.find({to, header.opcode});
    return slow == s.delays.end() ? std::optional<Duration>() : slow->second;
  });
  const auto replaced = [&](auto die) {
    const uint32_t before = s.proxy->map().current()->epoch.number;
    die();
    REQUIRE(s.run_until([&] { return s.proxy->map().current()->epoch.number > before; }));
  };
  replaced([&] { s.node(s.middle()).kill(/*silent=*/false); });
  s.homes = s.homes_of(*s.proxy, s.key);
  s.delays[{s.tail(), Opcode::kHeartbeat}] = 10min;  // the decider hears nothing of the mark
  s.run_for(20ms);
  REQUIRE(s.is_updated(5, "first"));  // now the key is synced at all of them
  s.run_for(10ms);

  LateUpdate late(s, 7, "second");
  const auto is_beside = [&](node::NodeId id) {
    return s.node(id).is_up() && std::ranges::find(s.homes, id) == s.homes.end();
  };
  node::NodeId beside = 0;
  while (!is_beside(beside)) ++beside;
  replaced([&] { s.node(beside).kill(/*silent=*/false); });
  REQUIRE(s.homes_of(*s.proxy, s.key) == s.homes);
  s.delays.erase({s.tail(), Opcode::kHeartbeat});
  s.run_for(3s);  // the sweep comes before the update is sent to the tail again
  s.delays.clear();
  late.finish();
  s.run_for(50ms);
  const auto at_tail = numbers_at(s, s.tail());
  CHECK_FALSE(at_tail.empty());
  CHECK(numbers_at(s, s.middle()) == at_tail);
  CHECK(numbers_at(s, s.head()) == at_tail);
}

// Else the next map might find the tail synced without them, and it would give their numbers away.
TEST_CASE("sync has the tail number first what copies have without a number", "[update]") {
  OneRound s;
  REQUIRE(s.is_updated(5, "first"));
  s.run_for(10ms);
  const auto copies = std::array{s.middle(), s.head()};
  LateUpdate late(s, 7, "second");
  bool is_held = true;
  s.network().set_delay_rule([&](int, node::NodeId to, const node::RequestHeader& header) {
    const bool is_late = is_held && header.opcode == Opcode::kRecordStore &&
                         to == s.homes_of(*s.proxy, s.key).front();
    return is_late ? std::optional<Duration>(10min) : std::optional<Duration>();
  });
  s.node(s.tail()).kill(/*silent=*/false);
  REQUIRE(s.run_until([&] { return s.homes_of(*s.proxy, s.key) != s.homes; }));
  s.run_for(500ms);
  const node::NodeId new_tail = s.homes_of(*s.proxy, s.key).front();
  for (const node::NodeId copy : copies) {
    if (copy != new_tail) CHECK(unnumbered_at(s, copy).size() == 1);
  }
  is_held = false;
  late.finish();
  CHECK(s.get(*s.proxy, s.key) == s.value);
}

// The proxy knows an old version of the record, and only the tail has the next map as it begins.
TEST_CASE("an update of a record that changed is made although the map changes, too", "[update]") {
  OneRound s;
  REQUIRE(s.get(*s.proxy, s.key) == s.value);
  sim::SimProxy& other = s.add_proxy();
  const MapPtr map = s.proxy->map().current();
  other.map().serve(map);
  REQUIRE(s.run(records::renumber(other.ops(), map, s.key, s.deadline())).has_value());
  node::NodeId beside = 0;
  while (std::ranges::find(s.homes, beside) != s.homes.end()) ++beside;
  for (const node::NodeId copy : {s.middle(), s.head()}) {
    s.delays[{copy, Opcode::kInstallMap}] = 500ms;
  }
  s.node(beside).kill(/*silent=*/false);
  const auto is_installed = [&] { return s.frames[Opcode::kInstallMap] >= 6; };
  REQUIRE(s.run_until(is_installed));
  s.run_for(20ms);
  REQUIRE(s.proxy->map().current() == map);
  s.frames.clear();
  REQUIRE(s.is_updated(7, "bytes"));
  CHECK(s.frames[Opcode::kLogStore] > 2);
  CHECK(s.proxy->map().current() != map);
  REQUIRE(s.homes_of(*s.proxy, s.key) == s.homes);
  CHECK(s.get(*s.proxy, s.key) == s.value);
}

TEST_CASE("updates of what was set again in a LOST partition outlive a home", "[update]") {
  OneRound s;
  for (const node::NodeId home : s.homes) s.node(home).kill(/*silent=*/false);
  const auto serves = [&](uint64_t up) {
    const decider::ClusterStatus status = s.proxy->decider()->status();
    return status.state == "serving" && status.partitions_lost > 0 &&
           std::ranges::count(status.nodes, node::NodeState::kUp, [](const auto& node) {
             return node.info.state;
           }) == static_cast<ptrdiff_t>(up);
  };
  REQUIRE(s.run_until([&] { return serves(4); }));
  for (const node::NodeId home : s.homes) s.node(home).start();
  REQUIRE(s.run_until([&] { return serves(7); }));
  REQUIRE(s.put(*s.proxy, s.key, s.value));
  s.homes = s.homes_of(*s.proxy, s.key);
  REQUIRE(s.is_updated(5, "first"));
  s.run_for(10ms);
  s.node(s.tail()).kill(/*silent=*/false);
  REQUIRE(s.run_until([&] { return serves(6); }));
  CHECK(s.homes_of(*s.proxy, s.key) != s.homes);
  // It comes back without its memory, and is the tail again.
  s.run_for(1s);
  s.node(s.tail()).start();
  REQUIRE(s.run_until([&] { return serves(7) && s.homes_of(*s.proxy, s.key) == s.homes; }));
  s.run_for(1s);
  CHECK(s.get(*s.proxy, s.key) == s.value);
}
