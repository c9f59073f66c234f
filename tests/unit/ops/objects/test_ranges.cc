// Reading ranges of objects, whole and through missing shards.
#include <catch2/catch.hpp>
#include <set>

#include "coding/segment.h"
#include "proxy/ops/shards.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace std::chrono_literals;

namespace {

constexpr size_t kSegment = 4096;

std::string value_of(size_t size) {
  std::string value(size, '\0');
  for (size_t i = 0; i < size; ++i) value[i] = static_cast<char>(i * 31 + i / 253);
  return value;
}

struct Ranges : ClusterFixture {
  explicit Ranges(const std::string& scheme) : ClusterFixture(8, scheme) {
    proxy = &add_decider();
    REQUIRE(run_until([&] { return serves_whole(*proxy); }));
  }
  void put_large(size_t size) {
    value = value_of(size);
    REQUIRE(put(*proxy, "k", value));
    const auto report = run(inspect_object(proxy->ops(), "k", deadline()));
    REQUIRE(report.has_value());
    record = report->record;
  }
  std::string range(uint64_t offset, uint64_t length) {
    const auto read = run(get_whole(proxy->ops(), "k", deadline(), {offset, length}));
    if (!read) return to_string(read.error());
    REQUIRE(read->object.has_value());
    REQUIRE(read->object->size == value.size());
    REQUIRE(read->object->range_bytes == read->value().size());
    return read->value();
  }
  std::string expected(uint64_t offset, uint64_t length) const {
    return offset >= value.size() ? "" : value.substr(offset, length);
  }
  // Where blocks, segments and the value begin and end, and a byte to either side.
  std::set<uint64_t> edges() const {
    std::set<uint64_t> marks{0, value.size()};
    uint64_t begin = 0;
    for (const node::Segment& segment : record->content.segments) {
      marks.insert(begin);
      // All blocks of the first segment, the outer ones of the others.
      for (uint64_t at = segment.block_bytes; at < segment.length; at += segment.block_bytes) {
        const bool is_outer =
            at == segment.block_bytes || at + segment.block_bytes >= segment.length;
        if (begin == 0 || is_outer) marks.insert(begin + at);
      }
      begin += segment.length;
    }
    std::set<uint64_t> edges;
    for (const uint64_t mark : marks) {
      if (mark > 0) edges.insert(mark - 1);
      edges.insert(mark);
      edges.insert(mark + 1);
    }
    return edges;
  }
  void require_all_ranges() {
    const std::set<uint64_t> all = edges();
    for (const uint64_t begin : all) {
      for (const uint64_t end : all) {
        if (end < begin) continue;
        if (range(begin, end - begin) == expected(begin, end - begin)) continue;
        CAPTURE(begin, end);
        REQUIRE(range(begin, end - begin) == expected(begin, end - begin));
      }
    }
    REQUIRE(range(0, UINT64_MAX) == value);
    REQUIRE(range(UINT64_MAX, UINT64_MAX).empty());
    REQUIRE(range(1, UINT64_MAX) == value.substr(1));
  }
  std::multiset<NodeId> nodes_asked(uint64_t offset, uint64_t length) {
    std::multiset<NodeId> asked;
    network().set_delay_rule(
        [&](int, NodeId to, const node::RequestHeader& header) -> std::optional<Duration> {
          if (header.opcode == node::Opcode::kShardRead) asked.insert(to);
          return std::nullopt;
        });
    REQUIRE(range(offset, length) == expected(offset, length));
    network().set_delay_rule(nullptr);
    return asked;
  }
  // The holders of the data shards that have some bytes of the range.
  std::multiset<NodeId> holders(uint64_t offset, uint64_t length) {
    std::multiset<NodeId> result;
    uint64_t begin = 0;
    for (const node::Segment& segment : record->content.segments) {
      const auto geometry = geometry_of(record->content.scheme, segment);
      for (uint8_t i = 0; i < record->content.scheme.k_prime; ++i) {
        for (const auto& extent : geometry->shard_extents(i)) {
          const uint64_t from = begin + extent.offset;
          if (extent.bytes == 0 || from >= offset + length || from + extent.bytes <= offset) {
            continue;
          }
          result.insert(segment.placement[i]);
          break;
        }
      }
      begin += segment.length;
    }
    return result;
  }

  std::string value;
  RecordPtr record;
  sim::SimProxy* proxy = nullptr;
};

}  // namespace

TEST_CASE("a range at any edge of blocks, shards and segments is what the value has there") {
  const auto* scheme = GENERATE("rep:2", "rs:3,1", "ers-1:2,2,3", "ers-2:2,1,3");
  const size_t size = GENERATE(size_t{100}, 2 * kSegment + 77);
  CAPTURE(scheme, size);
  Ranges ranges(scheme);
  ranges.proxy->ops().settings.hedge_early = false;
  ranges.put_large(size);
  ranges.require_all_ranges();
  CHECK(ranges.proxy->counters().degraded_reads == 0);

  ranges.node(ranges.record->content.segments[0].placement[0]).kill(/*silent=*/false);
  ranges.run_for(5s);
  ranges.require_all_ranges();
  CHECK(ranges.proxy->counters().degraded_reads > 0);
}

TEST_CASE("a range of an inline object is what the value has there") {
  Ranges ranges("rs:2,1");
  ranges.put_large(20);
  for (uint64_t begin = 0; begin <= 21; ++begin) {
    for (uint64_t length = 0; length <= 22; ++length) {
      REQUIRE(ranges.range(begin, length) == ranges.expected(begin, length));
    }
  }
}

TEST_CASE("a range asks just the nodes that have bytes of it") {
  const auto* scheme = GENERATE("rs:4,1", "ers-1:4,2,5", "ers-2:4,2,5");
  CAPTURE(scheme);
  Ranges ranges(scheme);
  ranges.put_large(3 * kSegment + 77);
  CHECK(ranges.nodes_asked(5, 1).size() == 1);
  CHECK(ranges.nodes_asked(kSegment - 1, 2).size() == 2);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{300}, uint64_t{kSegment - 10}}) {
    for (const uint64_t length : {1u, 100u, 1000u, 5000u}) {
      CAPTURE(offset, length);
      CHECK(ranges.nodes_asked(offset, length) == ranges.holders(offset, length));
    }
  }
}

namespace {

Task<void> read_range(OpsContext& ops, ByteRange range, TimePoint deadline,
                      std::optional<Result<WholeObject>>* done) {
  *done = co_await get_whole(ops, "k", deadline, range);
}

}  // namespace

TEST_CASE("degraded reads take turns at the memory that decoding takes, however many they are") {
  const bool is_known = GENERATE(false, true);
  CAPTURE(is_known);
  Ranges ranges("ers-2:2,1,3");
  ranges.put_large(kSegment);
  ranges.node(ranges.record->content.segments[0].placement[0]).kill(/*silent=*/true);
  if (is_known) ranges.run_for(5s);
  OpsContext& ops = ranges.proxy->ops();
  REQUIRE(ops.memory.decoded.taken() == 0);
  constexpr size_t kReads = 16;
  std::vector<std::optional<Result<WholeObject>>> reads(kReads);
  Scope scope;
  for (size_t i = 0; i < kReads; ++i) {
    const ByteRange range = i % 2 == 0 ? ByteRange{} : ByteRange{i, 100};
    scope.spawn(read_range(ops, range, ranges.deadline() + 60s, &reads[i]));
  }
  size_t waiting = 0;
  REQUIRE(ranges.run_until([&] {
    waiting = std::max(waiting, ops.memory.decoded.waiting());
    return std::ranges::all_of(reads, [](const auto& read) { return read.has_value(); });
  }));
  CHECK(waiting > 0);
  // Those that were given up, too, let it go.
  CHECK(ranges.run_until([&] { return ops.memory.decoded.taken() == 0; }));
  for (size_t i = 0; i < kReads; ++i) {
    REQUIRE(reads[i]->has_value());
    CHECK((*reads[i])->value() == (i % 2 == 0 ? ranges.value : ranges.expected(i, 100)));
  }
}
