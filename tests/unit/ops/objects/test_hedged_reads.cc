// Reads while nodes do not answer: parities make up for the shards that are late.
#include <catch2/catch.hpp>

#include "proxy/ops/objects/read_segment.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe::objects;

namespace elastripe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string bytes_of(size_t size, unsigned salt) {
  std::string value(size, '\0');
  for (size_t i = 0; i < size; ++i) value[i] = static_cast<char>((i * 37 + salt) & 0xff);
  return value;
}

constexpr size_t kBytes = 6000;  // two segments

Task<bool> delete_shard(OpsContext& ops, NodeId node, node::ShardName name, TimePoint deadline) {
  co_await delete_shards(ops, {{node, {name}}}, deadline);
  co_return true;
}

// A cluster with one object, and a record of it that needs no asking.
struct Stored {
  explicit Stored(const std::string& scheme, size_t nodes = 7, const std::string& key = "k",
                  size_t bytes = kBytes)
      : cluster(nodes, scheme) {
    proxy = &cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(*proxy); }));
    REQUIRE(cluster.put(*proxy, key, bytes_of(bytes, 1)));
    record = proxy->ops().cache.find(key);
    REQUIRE(record != nullptr);
    map = proxy->map().current();
  }
  NodeId node_of(size_t shard) const { return record->content.segments[0].placement[shard]; }
  Result<SegmentBytes> read(ByteRange range, Duration limit) {
    const SegmentPtr segment(record, &record->content.segments[0]);
    return cluster.run(read_segment(proxy->ops(), map, record->content.scheme, segment, range,
                                    nullptr, cluster.events().now() + limit));
  }
  // How long the read of a whole segment takes.
  Duration time_read() {
    const TimePoint began = cluster.events().now();
    const auto read = this->read({0, record->content.segments[0].length}, seconds(8));
    REQUIRE(read.has_value());
    return cluster.events().now() - began;
  }
  // So many reads while all answer within 4 ms.
  void read_often(size_t times = Hedging::kEnough) {
    for (size_t i = 0; i < times; ++i) REQUIRE(time_read() < milliseconds(15));
  }
  const OpsCounters& counters() const { return proxy->ops().counters; }
  void lose(size_t shard) {
    const auto name = shard_name(record->content.segments[0], record->content.scheme, shard);
    REQUIRE(cluster.run(delete_shard(proxy->ops(), node_of(shard), name, cluster.deadline())));
  }
  // Frames that ask for shards.
  void count_reads() {
    cluster.network().set_delay_rule([this](int, NodeId to, const node::RequestHeader& header) {
      reads += header.opcode == node::Opcode::kShardRead;
      asked = to;
      return delay != nullptr && header.opcode == node::Opcode::kShardRead ? delay() : std::nullopt;
    });
  }

  ClusterFixture cluster;
  sim::SimProxy* proxy = nullptr;
  RecordPtr record;
  MapPtr map;
  int reads = 0;
  NodeId asked = 0;  // by the last frame
  std::function<std::optional<Duration>()> delay;
};

TEST_CASE("shards of as many silent nodes as there are parities are done without, in time") {
  Stored stored("rs:3,2");
  const auto silent = GENERATE(std::vector<size_t>{0}, std::vector<size_t>{1, 2},
                               std::vector<size_t>{0, 3}, std::vector<size_t>{2, 4});
  for (const size_t shard : silent) stored.cluster.node(stored.node_of(shard)).stall();
  const std::string value = bytes_of(kBytes, 1);
  const size_t length = stored.record->content.segments[0].length;
  SECTION("of a whole segment") {
    const auto read = stored.read({0, length}, milliseconds(700));
    REQUIRE(read.has_value());
    CHECK(read->bytes.text() == value.substr(0, length));
    CHECK(read->is_degraded);
  }
  SECTION("of a part of it") {
    const auto read = stored.read({10, length - 20}, milliseconds(700));
    REQUIRE(read.has_value());
    CHECK(read->bytes.text() == value.substr(10, length - 20));
    CHECK(read->is_degraded);
  }
  for (const size_t shard : silent) stored.cluster.node(stored.node_of(shard)).resume();
}

TEST_CASE("what a node sends late goes nowhere") {
  Stored stored("rs:3,2");
  stored.cluster.node(stored.node_of(0)).stall();
  const size_t length = stored.record->content.segments[0].length;
  auto read = stored.read({0, length}, milliseconds(700));
  REQUIRE(read.has_value());
  CHECK(read->bytes.is_unique());  // no call under way refers to it
  std::ranges::fill(read->bytes.mutable_bytes(), std::byte{0});
  stored.cluster.node(stored.node_of(0)).resume();
  stored.cluster.run_for(seconds(5));
  CHECK(read->bytes.text() == std::string(length, '\0'));
}

TEST_CASE("a read that is late as a whole asks for no parities") {
  Stored stored("rs:3,1");
  stored.count_reads();
  const size_t length = stored.record->content.segments[0].length;
  SECTION("since all nodes are slow") {
    stored.delay = [] { return milliseconds(500); };
  }
  SECTION("since all nodes are slow, one more than others") {
    stored.delay = [&] { return milliseconds(stored.reads == 1 ? 700 : 400); };
  }
  const auto read = stored.read({0, length}, seconds(8));
  REQUIRE(read.has_value());
  CHECK_FALSE(read->is_degraded);
  CHECK(stored.reads == 3);
}

TEST_CASE("a late shard that comes before the parities is taken, and nothing is decoded") {
  Stored stored("rs:3,1");
  stored.count_reads();
  stored.delay = [&]() -> std::optional<Duration> {
    if (stored.reads == 1) return milliseconds(150);
    if (stored.reads == 4) return milliseconds(200);
    return std::nullopt;
  };
  const auto read = stored.read({0, stored.record->content.segments[0].length}, seconds(8));
  REQUIRE(read.has_value());
  CHECK_FALSE(read->is_degraded);
  CHECK(stored.reads == 4);
}

TEST_CASE("if the parities are gone, late shards are waited for") {
  Stored stored("rs:3,1");
  stored.lose(3);
  stored.count_reads();
  stored.delay = [&]() -> std::optional<Duration> {
    return stored.reads == 1 ? std::optional<Duration>(milliseconds(600)) : std::nullopt;
  };
  const bool is_whole = GENERATE(true, false);
  const size_t length = stored.record->content.segments[0].length;
  const auto read = stored.read({0, is_whole ? length : length - 1}, seconds(8));
  REQUIRE(read.has_value());
  CHECK(read->bytes.text() == bytes_of(kBytes, 1).substr(0, is_whole ? length : length - 1));
}

TEST_CASE("an error tells shards of silent nodes from missing ones") {
  Stored stored("rs:3,2");
  const size_t length = stored.record->content.segments[0].length;
  for (const size_t shard : {0u, 3u}) stored.cluster.node(stored.node_of(shard)).stall();
  stored.lose(1);
  const auto read = stored.read({0, length}, milliseconds(700));
  REQUIRE(!read);
  CHECK(read.error().code == ErrorCode::kUnavailable);
  CHECK(read.error().message ==
        "segment 0: 2 of 5 shards are on nodes that do not answer, and 1 are missing");
}

TEST_CASE("objects are read in a short time although a node has just stalled") {
  ClusterFixture cluster(7, "rs:3,2");
  cluster.settings.request_timeout = milliseconds(800);
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < 8; ++i) {
    const std::string key = "k" + std::to_string(i);
    if (cluster.homes_of(proxy, key).front() == 3) continue;  // records wait for a map
    REQUIRE(cluster.put(proxy, key, bytes_of(kBytes, 1)));
    keys.push_back(key);
  }
  cluster.node(3).stall();
  for (const std::string& key : keys) {
    const auto read =
        cluster.run(get_whole(proxy.ops(), key, cluster.events().now() + milliseconds(800)));
    REQUIRE(read.has_value());
    REQUIRE(read->object);
    CHECK(read->value() == bytes_of(kBytes, 1));
  }
}

TEST_CASE("a shard is late when it takes longer than its node does, once that is known") {
  Stored stored("rs:3,2");
  SECTION("enough shards have come") {
    stored.read_often();
    stored.cluster.node(stored.node_of(0)).stall();
    CHECK(stored.time_read() < milliseconds(20));
    CHECK(stored.counters().hedges == 1);
  }
  SECTION("enough, but a job reads, for which nobody waits") {
    stored.read_often();
    stored.proxy->ops().settings.hedge_early = false;
    stored.cluster.node(stored.node_of(0)).stall();
    CHECK(stored.time_read() >= milliseconds(100));
  }
  SECTION("too few") {
    stored.read_often(Hedging::kEnough - 1);
    stored.cluster.node(stored.node_of(0)).stall();
    CHECK(stored.time_read() >= milliseconds(100));
    CHECK(stored.counters().hedges == 1);
  }
  SECTION("enough, but the node has always taken longer than hedge_after") {
    stored.count_reads();
    stored.delay = [&]() -> std::optional<Duration> {
      return stored.asked == stored.node_of(0) ? milliseconds(90) : milliseconds(40);
    };
    for (size_t i = 0; i < Hedging::kEnough; ++i) stored.time_read();
    stored.proxy->ops().settings.hedge_after = milliseconds(50);
    stored.delay = nullptr;
    stored.cluster.node(stored.node_of(0)).stall();
    CHECK(stored.time_read() < milliseconds(60));
  }
  CHECK(stored.counters().hedges_withheld == 0);
  stored.cluster.node(stored.node_of(0)).resume();
}

TEST_CASE("a part of a large segment is waited for while decoding all of it would take longer") {
  Stored stored("rs:3,2", 7, "large:k", 4 << 20);
  const auto time_read = [&](ByteRange range) {
    const TimePoint began = stored.cluster.events().now();
    REQUIRE(stored.read(range, seconds(8)).has_value());
    return stored.cluster.events().now() - began;
  };
  for (size_t i = 0; i < Hedging::kEnough; ++i) time_read({0, 100});
  stored.count_reads();
  Duration late = milliseconds(12);
  stored.delay = [&]() -> std::optional<Duration> {
    return stored.asked == stored.node_of(0) ? std::optional<Duration>(late) : std::nullopt;
  };
  CHECK(time_read({0, 100}) < milliseconds(30));
  CHECK(stored.counters().hedges == 0);
  CHECK(stored.reads == 1);
  late = milliseconds(80);
  CHECK(time_read({0, 100}) < milliseconds(60));
  CHECK(stored.counters().hedges == 1);
}

TEST_CASE("a node that is always slow is not waited for as long as it takes") {
  Stored stored("rs:3,2");
  stored.count_reads();
  stored.delay = [&]() -> std::optional<Duration> {
    if (stored.asked != stored.node_of(0)) return std::nullopt;
    return milliseconds(60);
  };
  for (size_t i = 0; i < Hedging::kEnough; ++i) REQUIRE(stored.time_read() >= milliseconds(60));
  REQUIRE(stored.counters().hedges == 0);
  // More often than one read in twenty: the others are known to be faster.
  for (int i = 0; i < 200; ++i) REQUIRE(stored.time_read() < milliseconds(30));
  CHECK(stored.counters().hedges >= 200);
  CHECK(stored.counters().hedges_withheld == 0);
}

TEST_CASE("few reads are hedged for speed alone") {
  Stored stored("rs:3,2");
  stored.read_often(3 * Hedging::kEnough);
  const uint64_t before = stored.counters().hedges;
  SECTION("whatever happens") {
    while (stored.proxy->ops().hedging.take_hedge()) continue;
    stored.cluster.node(stored.node_of(0)).stall();
    CHECK(stored.time_read() >= milliseconds(100));
    CHECK(stored.counters().hedges_withheld == 1);
    CHECK(stored.counters().hedges == before + 1);
    stored.cluster.node(stored.node_of(0)).resume();
  }
  SECTION("when one shard or other of each segment has become slow") {
    int segments = 0;
    stored.count_reads();
    stored.delay = [&]() -> std::optional<Duration> {
      if (stored.asked != stored.node_of(static_cast<size_t>(segments) % 3)) return std::nullopt;
      return milliseconds(60);
    };
    for (; segments < 200; ++segments) stored.time_read();
    CHECK(stored.counters().hedges > before);
    CHECK(stored.counters().hedges <= before + Hedging::kBurst + 200 / Hedging::kReadsPerHedge);
  }
}

TEST_CASE("hedges are bounded, and saved up for") {
  Hedging hedging;
  for (int i = 0; i < Hedging::kBurst; ++i) REQUIRE(hedging.take_hedge());
  REQUIRE_FALSE(hedging.take_hedge());
  for (int i = 0; i < Hedging::kReadsPerHedge; ++i) {
    REQUIRE_FALSE(hedging.take_hedge());
    hedging.note_read();
  }
  REQUIRE(hedging.take_hedge());
  REQUIRE_FALSE(hedging.take_hedge());
}

TEST_CASE("what a node took long ago is forgotten") {
  Hedging hedging;
  const auto note = [&](NodeId node, Duration took, int times) {
    for (int i = 0; i < times; ++i) hedging.note_shard(node, took);
  };
  CHECK_FALSE(hedging.usual(0));
  for (NodeId other = 1; other <= 2; ++other) note(other, milliseconds(10), 100);
  note(0, milliseconds(20), 1000);
  CHECK(hedging.usual(0) >= milliseconds(20));
  CHECK(hedging.usual(0) < milliseconds(25));
  CHECK_FALSE(hedging.is_slow(0));
  note(0, milliseconds(60), 20);
  CHECK(hedging.is_slow(0));
  CHECK(hedging.usual(0) == milliseconds(30));  // three times what most take
  note(0, milliseconds(2), 10'000);
  CHECK(hedging.usual(0) < milliseconds(3));
  note(0, milliseconds(0), 10'000);
  CHECK(hedging.usual(0) == milliseconds(1));
}

}  // namespace
}  // namespace elastripe
