// Storing, reading, changing and removing objects, inline and striped, on a healthy cluster.
#include <catch2/catch.hpp>

#include "server-patches/node/format/counter.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe::objects;

namespace elastripe {
namespace {

// Bytes that tell their place, so that a swapped block shows.
std::string bytes_of(size_t size, unsigned salt) {
  std::string value(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    value[i] = static_cast<char>((i * 131 + (i >> 8) * 7 + salt) & 0xff);
  }
  return value;
}

struct Objects : ClusterFixture {
  explicit Objects(const std::string& scheme, size_t nodes = 7) : ClusterFixture(nodes, scheme) {
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
  }
  Result<StoreOutcome> store(StoreVerb verb, const std::string& key, const std::string& value,
                             uint64_t cas = 0) {
    StoreRequest request;
    request.verb = verb;
    request.key = key;
    request.flags = 7;
    if (cas != 0) request.cas = cas;
    return run(store_value(proxy->ops(), request, value, deadline()));
  }
  StoreOutcome outcome(StoreVerb verb, const std::string& key, const std::string& value,
                       uint64_t cas = 0) {
    const auto stored = store(verb, key, value, cas);
    INFO((stored ? "" : to_string(stored.error())));
    REQUIRE(stored.has_value());
    return *stored;
  }
  CounterOutcome count(const std::string& key, uint64_t delta, bool increment) {
    const auto changed =
        run(change_counter(proxy->ops(), CounterRequest{key, delta, increment}, deadline()));
    REQUIRE(changed.has_value());
    return *changed;
  }
  Object read(const std::string& key) {
    const auto outcome = run(get_whole(proxy->ops(), key, deadline()));
    REQUIRE(outcome.has_value());
    REQUIRE(outcome->object.has_value());
    return *outcome->object;
  }
  bool remove(const std::string& key) {
    const auto removed = run(remove_object(proxy->ops(), key, deadline()));
    REQUIRE(removed.has_value());
    return *removed;
  }
  uint64_t frames_of(const std::function<void()>& action) {
    // The heartbeats of the same time are not counted: they are of other opcodes.
    uint64_t frames = 0;
    network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
      frames += !node::is_control(header.opcode);
      return std::nullopt;
    });
    action();
    network().set_delay_rule(nullptr);
    return frames;
  }

  static Task<void> keep_result(Task<Result<WholeObject>> flow,
                                std::optional<Result<WholeObject>>* result) {
    result->emplace(co_await std::move(flow));
  }

  sim::SimProxy* proxy = nullptr;
};

TEST_CASE("an object of any size around the thresholds reads back byte for byte") {
  const auto* scheme = GENERATE("rep:2", "rep:3", "rs:4,1", "rs:2,2", "srs:2,1,3", "ers-1:2,2,3",
                                "ers-2:4,2,5", "ers-2:2,1,5");
  CAPTURE(scheme);
  Objects objects(scheme, 8);
  unsigned salt = 0;
  for (const size_t size :
       std::vector<size_t>{0, 1, 63, 64, 65, 100, 1000, 4095, 4096, 4097, 8192, 12289}) {
    CAPTURE(size);
    const std::string key = "size-" + std::to_string(size);
    const std::string value = bytes_of(size, ++salt);
    REQUIRE(objects.put(*objects.proxy, key, value));
    REQUIRE(objects.get(*objects.proxy, key) == value);
    REQUIRE(objects.read(key).size == size);
  }
}

TEST_CASE("an overwrite is seen at once, and the shards that it supersedes go after the grace") {
  Objects objects("ers-2:2,1,3");
  REQUIRE(objects.put(*objects.proxy, "k", bytes_of(5000, 1)));
  const uint64_t shards = objects.shards();
  REQUIRE(shards == 2 * 4);  // two segments of k' + m shards
  REQUIRE(objects.put(*objects.proxy, "k", bytes_of(6000, 2)));
  REQUIRE(objects.get(*objects.proxy, "k") == bytes_of(6000, 2));
  REQUIRE(objects.shards() == 2 * shards);
  REQUIRE(objects.put(*objects.proxy, "k", "now inline"));
  objects.run_for(objects.settings.read_grace + std::chrono::seconds(1));
  REQUIRE(objects.shards() == 0);
  REQUIRE(objects.get(*objects.proxy, "k") == "now inline");
}

TEST_CASE("shards of objects that are overwritten one after the other are deleted together") {
  Objects objects("ers-2:2,1,3");
  const int count = 30;
  std::map<node::NodeId, int> frames;
  objects.network().set_delay_rule(
      [&](int, node::NodeId to, const node::RequestHeader& header) -> std::optional<Duration> {
        frames[to] += header.opcode == node::Opcode::kShardDelete;
        return std::nullopt;
      });
  for (const unsigned salt : {1U, 2U}) {
    for (int i = 0; i < count; ++i) {
      REQUIRE(objects.put(*objects.proxy, fmt::format("k{}", i), bytes_of(1000, salt)));
    }
  }
  const uint64_t shards = objects.shards();
  objects.run_for(objects.settings.read_grace + std::chrono::seconds(1));
  REQUIRE(objects.shards() == shards / 2);
  // They took some milliseconds each.
  CHECK_FALSE(frames.empty());
  for (const auto& [node, number] : frames) CHECK(number < count / 4);
  for (int i = 0; i < count; ++i) {
    REQUIRE(objects.get(*objects.proxy, fmt::format("k{}", i)) == bytes_of(1000, 2));
  }
}

TEST_CASE("a deleted object is a miss and its shards go after the grace") {
  Objects objects("rs:3,1");
  REQUIRE_FALSE(objects.remove("k"));
  REQUIRE(objects.put(*objects.proxy, "k", bytes_of(5000, 1)));
  REQUIRE(objects.remove("k"));
  REQUIRE(objects.get(*objects.proxy, "k") == "<miss>");
  REQUIRE_FALSE(objects.remove("k"));
  objects.run_for(objects.settings.read_grace + std::chrono::seconds(1));
  REQUIRE(objects.shards() == 0);
  REQUIRE(objects.put(*objects.proxy, "k", bytes_of(5000, 2)));
  REQUIRE(objects.get(*objects.proxy, "k") == bytes_of(5000, 2));
}

TEST_CASE("add stores only what is not there, replace only what is") {
  const size_t size = GENERATE(size_t{10}, size_t{5000});
  Objects objects("ers-2:2,1,3");
  REQUIRE(objects.outcome(StoreVerb::kReplace, "k", bytes_of(size, 1)) == StoreStatus::kNotStored);
  REQUIRE(objects.outcome(StoreVerb::kAdd, "k", bytes_of(size, 2)) == StoreStatus::kStored);
  REQUIRE(objects.outcome(StoreVerb::kAdd, "k", bytes_of(size, 3)) == StoreStatus::kNotStored);
  REQUIRE(objects.get(*objects.proxy, "k") == bytes_of(size, 2));
  REQUIRE(objects.outcome(StoreVerb::kReplace, "k", bytes_of(size, 4)) == StoreStatus::kStored);
  REQUIRE(objects.get(*objects.proxy, "k") == bytes_of(size, 4));
  REQUIRE(objects.read("k").flags == 7);
}

TEST_CASE("a refused striped write leaves no shards behind") {
  Objects objects("ers-2:2,1,3");
  REQUIRE(objects.outcome(StoreVerb::kReplace, "k", bytes_of(5000, 1)) == StoreStatus::kNotStored);
  objects.run_for(std::chrono::seconds(1));
  REQUIRE(objects.shards() == 0);
}

TEST_CASE("cas stores under the cas that was read, once") {
  const size_t size = GENERATE(size_t{10}, size_t{5000});
  Objects objects("ers-2:2,1,3");
  REQUIRE(objects.outcome(StoreVerb::kCas, "k", "x", 1) == StoreStatus::kNotFound);
  REQUIRE(objects.put(*objects.proxy, "k", bytes_of(size, 1)));
  const uint64_t cas = objects.read("k").cas;
  REQUIRE(objects.outcome(StoreVerb::kCas, "k", bytes_of(size, 2), cas + 1) ==
          StoreStatus::kExists);
  REQUIRE(objects.outcome(StoreVerb::kCas, "k", bytes_of(size, 2), cas) == StoreStatus::kStored);
  REQUIRE(objects.outcome(StoreVerb::kCas, "k", bytes_of(size, 3), cas) == StoreStatus::kExists);
  REQUIRE(objects.get(*objects.proxy, "k") == bytes_of(size, 2));
}

TEST_CASE("a touch changes the expiry and not the cas") {
  const size_t size = GENERATE(size_t{10}, size_t{5000});
  Objects objects("ers-2:2,1,3");
  REQUIRE(objects.put(*objects.proxy, "k", bytes_of(size, 1)));
  const uint64_t cas = objects.read("k").cas;
  const auto soon = static_cast<uint32_t>(objects.proxy->clock().unix_ms() / 1000 + 100);
  REQUIRE(objects.run(touch_object(objects.proxy->ops(), "k", soon, objects.deadline())).value());
  REQUIRE(objects.read("k").cas == cas);
  objects.run_for(std::chrono::seconds(101));
  REQUIRE(objects.get(*objects.proxy, "k") == "<miss>");
  REQUIRE_FALSE(
      objects.run(touch_object(objects.proxy->ops(), "k", 0, objects.deadline())).value());
}

TEST_CASE("get-and-touch answers the value even when the new expiry is already over") {
  const size_t size = GENERATE(size_t{10}, size_t{5000});
  Objects objects("ers-2:2,1,3");
  const auto gat = [&](uint32_t exptime) {
    auto outcome =
        objects.run(touch_and_get_whole(objects.proxy->ops(), "k", exptime, objects.deadline()));
    REQUIRE(outcome.has_value());
    return outcome->object.has_value() ? outcome->object->size : 0;
  };
  REQUIRE(gat(0) == 0);
  REQUIRE(objects.put(*objects.proxy, "k", bytes_of(size, 1)));
  REQUIRE(gat(0) == size);
  REQUIRE(gat(1) == size);  // long ago
  REQUIRE(gat(0) == 0);
  REQUIRE(objects.get(*objects.proxy, "k") == "<miss>");
}

TEST_CASE("append and prepend grow an object across the inline threshold and beyond segments") {
  Objects objects("ers-2:2,1,3");
  REQUIRE(objects.outcome(StoreVerb::kAppend, "k", "x") == StoreStatus::kNotStored);
  std::string expected = bytes_of(10, 0);
  REQUIRE(objects.put(*objects.proxy, "k", expected));
  for (const size_t size : std::vector<size_t>{1, 40, 50, 900, 4000, 4096}) {
    const std::string more = bytes_of(size, static_cast<unsigned>(size));
    REQUIRE(objects.outcome(StoreVerb::kAppend, "k", more) == StoreStatus::kStored);
    REQUIRE(objects.outcome(StoreVerb::kPrepend, "k", more) == StoreStatus::kStored);
    expected = more + expected + more;
    REQUIRE(objects.get(*objects.proxy, "k") == expected);
  }
}

TEST_CASE("counters follow memcached's arithmetic") {
  Objects objects("rs:2,1");
  REQUIRE(objects.count("n", 1, true).status == CounterStatus::kNotFound);
  REQUIRE(objects.put(*objects.proxy, "n", "10"));
  REQUIRE(objects.count("n", 5, true).value == 15);
  REQUIRE(objects.count("n", 6, false).value == 9);
  REQUIRE(objects.get(*objects.proxy, "n") == "9 ");  // memcached keeps the length
  REQUIRE(objects.count("n", 100, false).value == 0);
  REQUIRE(objects.put(*objects.proxy, "n", "18446744073709551615"));
  REQUIRE(objects.count("n", 2, true).value == 1);
  REQUIRE(objects.put(*objects.proxy, "n", "no number"));
  REQUIRE(objects.count("n", 1, true).status == CounterStatus::kNotNumber);
}

TEST_CASE("a counter that is striped follows the same rules as an inline one") {
  Objects objects("rs:2,1");
  const std::string fill(100, ' ');  // beyond inline_max_bytes
  for (const std::string start : {"10", "+5", " 12", "12 apples", "0007", "-1", "12a", "x",
                                  "18446744073709551615", "18446744073709551616"}) {
    for (const bool increment : {true, false}) {
      CAPTURE(start, increment);
      for (const std::string& value : {start + fill, start}) {
        REQUIRE(objects.put(*objects.proxy, "n", value));
        const auto sum = node::add_delta(value, increment, 7);
        const CounterOutcome outcome = objects.count("n", 7, increment);
        if (sum.has_value()) {
          REQUIRE(outcome.status == CounterStatus::kOk);
          REQUIRE(outcome.value == sum->number);
          REQUIRE(objects.get(*objects.proxy, "n") == sum->text);
        } else {
          REQUIRE(outcome.status == CounterStatus::kNotNumber);
          REQUIRE(objects.get(*objects.proxy, "n") == value);
        }
      }
    }
  }
}

TEST_CASE("a GET is two rounds, and one while the record is cached and current") {
  Objects objects("rs:3,1");
  sim::SimProxy& other = objects.add_proxy();
  other.map().serve(objects.proxy->map().current());
  const std::string value = bytes_of(3000, 1);
  REQUIRE(objects.put(*objects.proxy, "k", value));
  REQUIRE(objects.frames_of([&] { REQUIRE(objects.get(other, "k") == value); }) == 1 + 3);
  REQUIRE(objects.frames_of([&] { REQUIRE(objects.get(other, "k") == value); }) == 1 + 3);
  // A stale cached record costs the shards that were asked for in vain, never a stale answer.
  REQUIRE(objects.put(*objects.proxy, "k", bytes_of(3000, 2)));
  REQUIRE(objects.get(other, "k") == bytes_of(3000, 2));
}

TEST_CASE("a GET does not wait for the shards of a cached record that is over") {
  Objects objects("rs:3,1");
  sim::SimProxy& other = objects.add_proxy();
  other.map().serve(objects.proxy->map().current());
  REQUIRE(objects.put(*objects.proxy, "k", bytes_of(3000, 1)));
  REQUIRE(objects.get(other, "k") == bytes_of(3000, 1));
  REQUIRE(objects.put(*objects.proxy, "k", bytes_of(3000, 2)));
  int reads = 0;
  objects.network().set_delay_rule(
      [&](int, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
        if (header.opcode != node::Opcode::kShardRead || ++reads > 3) return std::nullopt;
        return Duration(std::chrono::hours(1));
      });
  const TimePoint asked = objects.events().now();
  REQUIRE(objects.get(other, "k") == bytes_of(3000, 2));
  REQUIRE(reads == 3 + 3);
  REQUIRE(objects.events().now() - asked < objects.settings.node_timeout);  // of virtual time
  // Nor does their memory stay away.
  const uint64_t free = other.ops().memory.read.early.free();
  REQUIRE(objects.run_until([&] { return other.ops().memory.read.early.free() > free; }));
}

TEST_CASE("a GET fetches no segment before there is memory for it, and keeps it with its bytes") {
  Objects objects("rs:2,1");
  const std::string value = bytes_of(50'000, 1);
  REQUIRE(objects.put(*objects.proxy, "k", value));
  ReadBudget& memory = objects.proxy->ops().memory.read;
  const uint64_t early = memory.early.free();
  const uint64_t in_turn = memory.in_turn.free();
  REQUIRE(early + in_turn < 2 * value.size());
  auto first = objects.run(get_whole(objects.proxy->ops(), "k", objects.deadline()));
  REQUIRE(first->value() == value);
  REQUIRE(memory.early.free() + memory.in_turn.free() == early + in_turn - value.size());

  // The second takes what is left, and waits for more.
  std::optional<Result<WholeObject>> second;
  Scope scope;
  int shard_reads = 0;
  objects.network().set_delay_rule([&](int, NodeId, const node::RequestHeader& header) {
    shard_reads += header.opcode == node::Opcode::kShardRead;
    return std::optional<Duration>();
  });
  scope.spawn(
      objects.keep_result(get_whole(objects.proxy->ops(), "k", objects.deadline()), &second));
  // Longer than a request may take: the wait for memory does not count.
  objects.run_for(std::chrono::seconds(20));
  REQUIRE_FALSE(second.has_value());
  REQUIRE(memory.in_turn.waiting() == 1);
  const int before = shard_reads;
  REQUIRE(before < 2 * 13);
  objects.run_for(std::chrono::seconds(20));
  REQUIRE(shard_reads == before);

  first->parts.clear();
  REQUIRE(objects.run_until([&] { return second.has_value(); }));
  REQUIRE(second->has_value());
  REQUIRE((*second)->value() == value);
  second.reset();
  REQUIRE(memory.early.free() == early);
  REQUIRE(memory.in_turn.free() == in_turn);
  REQUIRE(shard_reads == 2 * 13);
  objects.network().set_delay_rule(nullptr);
}

TEST_CASE("what is read to be changed takes the memory of writes, and too much is not read") {
  Objects objects("rs:2,1");
  const std::string value = bytes_of(40'000, 1);
  REQUIRE(objects.put(*objects.proxy, "k", value));
  // The client's reads hold all that is theirs.
  const auto held = objects.run(get_whole(objects.proxy->ops(), "k", objects.deadline()));
  REQUIRE(objects.outcome(StoreVerb::kAppend, "k", value) == StoreStatus::kStored);
  const uint64_t shards = objects.shards();
  objects.proxy->ops().settings.max_object_bytes = 100'000;
  const auto refused = objects.store(StoreVerb::kAppend, "k", value);
  REQUIRE(refused.error().code == ErrorCode::kTooLarge);
  REQUIRE(objects.shards() == shards);
}

TEST_CASE("a SET asks no more of the nodes than its commit needs") {
  Objects objects("rs:3,2", 8);
  REQUIRE(objects.frames_of([&] { REQUIRE(objects.put(*objects.proxy, "a", "inline")); }) == 3);
  REQUIRE(objects.frames_of(
              [&] { REQUIRE(objects.put(*objects.proxy, "b", bytes_of(3000, 1))); }) == 5 + 3);
}

TEST_CASE("an object above the limit is refused and changes nothing") {
  Objects objects("rs:2,1");
  REQUIRE(objects.put(*objects.proxy, "k", "old"));
  objects.proxy->ops().settings.max_object_bytes = 100;
  const auto stored = objects.store(StoreVerb::kSet, "k", bytes_of(101, 1));
  REQUIRE_FALSE(stored.has_value());
  REQUIRE(stored.error().code == ErrorCode::kTooLarge);
  REQUIRE(objects.get(*objects.proxy, "k") == "old");
}

TEST_CASE("the report of an object names its shards and which are missing") {
  Objects objects("ers-2:2,1,3");
  REQUIRE(objects.put(*objects.proxy, "k", bytes_of(3000, 1)));
  auto report = objects.run(inspect_object(objects.proxy->ops(), "k", objects.deadline()));
  REQUIRE(report.has_value());
  REQUIRE(report->segments.size() == 1);
  REQUIRE(report->segments[0].missing.empty());
  const auto placement = report->record->content.segments[0].placement;
  objects.node(placement[1]).kill(/*silent=*/false);
  objects.run_for(std::chrono::seconds(5));
  report = objects.run(inspect_object(objects.proxy->ops(), "k", objects.deadline()));
  REQUIRE(report.has_value());
  REQUIRE(report->segments[0].missing == std::vector<uint8_t>{1});
}

}  // namespace
}  // namespace elastripe
