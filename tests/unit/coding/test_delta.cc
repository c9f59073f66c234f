// Changes of bytes of a segment against encoding it anew.
#include <utility>

#include "coding/delta.h"
#include "tests/unit/coding/support.h"

namespace elastripe::coding {
namespace {

constexpr State kStates[] = {State::kNarrow, State::kWide};

const char* const kSchemes[] = {
    "rep:2",       "rep:3",       "rs:2,1",      "rs:4,2",      "rs:5,3",      "rs:10,4",
    "srs:1,1,2",   "ers-2:1,1,2", "srs:2,1,3",   "ers-1:2,1,3", "ers-2:2,1,3", "srs:4,3,5",
    "ers-1:4,3,5", "ers-2:4,3,5", "srs:3,2,6",   "ers-1:3,2,6", "ers-2:3,2,6", "ers-2:2,4,3",
    "ers-1:4,2,6", "ers-2:4,2,6", "ers-2:5,2,6", "srs:7,2,11",  "ers-2:7,2,11"};

void add(std::span<std::byte> to, std::span<const std::byte> delta) {
  REQUIRE(to.size() == delta.size());
  for (size_t i = 0; i < to.size(); ++i) to[i] ^= delta[i];
}

// A segment and its shards, which are changed by deltas only.
struct Changed {
  Changed(const char* scheme, State in_state, size_t length, std::mt19937& random)
      : geometry(geometry_of(codec_of(scheme), length)),
        state(in_state),
        segment(random_bytes(random, length)),
        shards(encode(geometry, state, segment)) {}

  // Keeps the deltas of the data shards that it is, for the parities.
  void change(size_t offset, std::span<const std::byte> bytes) {
    for (const DataExtent& extent : data_extents(geometry, offset, bytes.size())) {
      const auto delta = bytes.subspan(extent.segment_offset - offset, extent.bytes);
      add(std::span(segment).subspan(extent.segment_offset, extent.bytes), delta);
      Bytes& shard = shards[static_cast<size_t>(extent.shard)];
      add(std::span(shard).subspan(extent.shard_offset, extent.bytes), delta);
      kept.emplace_back(delta.begin(), delta.end());
      deltas.push_back({extent.shard, extent.shard_offset, {}});
    }
  }

  ParityDeltas sums() {
    for (size_t i = 0; i < kept.size(); ++i) deltas[i].bytes = kept[i];
    return {geometry, state, deltas};
  }

  void add_to_parities(const ParityDeltas& sums) {
    for (int j = 0; j < geometry.codec().m(); ++j) {
      Bytes& shard = shards[static_cast<size_t>(geometry.codec().k_prime() + j)];
      std::span<const std::byte> bytes = sums.bytes(j);
      for (const ByteRange& range : sums.ranges()) {
        add(std::span(shard).subspan(range.offset, range.bytes), bytes.first(range.bytes));
        bytes = bytes.subspan(range.bytes);
      }
      CHECK(bytes.empty());
    }
  }

  SegmentGeometry geometry;
  State state;
  Bytes segment;
  std::vector<Bytes> shards;
  std::vector<Bytes> kept;
  std::vector<DataDelta> deltas;
};

bool have_gaps(const std::vector<ByteRange>& ranges) {
  const auto touch = [](const ByteRange& a, const ByteRange& b) {
    return a.offset + a.bytes >= b.offset;
  };
  return std::ranges::adjacent_find(ranges, touch) == ranges.end() &&
         std::ranges::none_of(ranges, [](const ByteRange& range) { return range.bytes == 0; });
}

// Bytes of parity shards at which some delta arrives.
size_t changed_bytes(const Changed& changed) {
  const Layout& layout = changed.geometry.codec().layout();
  const size_t block_bytes = changed.geometry.block_bytes();
  std::vector<bool> is_changed(changed.geometry.parity_shard_bytes(changed.state));
  for (const DataDelta& delta : changed.deltas) {
    for (size_t i = delta.offset; i < delta.offset + delta.bytes.size(); ++i) {
      const int b = layout.shard_blocks(delta.shard)[i / block_bytes];
      const int codeword = changed.state == State::kNarrow ? layout.stripe_of(b) : layout.row_of(b);
      is_changed[static_cast<size_t>(codeword) * block_bytes + i % block_bytes] = true;
    }
  }
  return static_cast<size_t>(std::ranges::count(is_changed, true));
}

using Extents = std::vector<DataExtent>;
using Ranges = std::vector<ByteRange>;

}  // namespace

TEST_CASE("shards that changes were added to are those of the changed segment") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const char* text : kSchemes) {
    const auto l = static_cast<size_t>(codec_of(text).layout().blocks());
    for (const State state : kStates) {
      for (const size_t length : {size_t{1}, l - 1, l + 1, 16 * l, 33 * l + 7, size_t{20011}}) {
        if (length == 0) continue;
        INFO(text << " state " << static_cast<int>(state) << " length " << length);
        Changed changed(text, state, length, random);
        for (size_t changes = random() % 6; changes > 0; --changes) {
          const size_t offset = random() % length;
          const size_t most = random() % 3 == 0 ? length : changed.geometry.block_bytes() * 2;
          const size_t bytes = std::min(random() % (most + 1), length - offset);
          changed.change(offset, random_bytes(random, bytes));
        }
        ParityDeltas sums = changed.sums();
        const size_t step = random() % 2 == 0 ? SIZE_MAX : 1 + random() % 1000;
        while (sums.step(step)) {
        }
        REQUIRE(sums.done());
        CHECK(have_gaps(sums.ranges()));
        CHECK(sums.bytes(0).size() == changed_bytes(changed));
        changed.add_to_parities(sums);
        REQUIRE(changed.shards == encode(changed.geometry, state, changed.segment));
      }
    }
  }
}

TEST_CASE("the extents of a range are as few as there can be, in the order of the segment") {
  const auto extents = [](const char* scheme, size_t offset, size_t bytes) {
    const SegmentGeometry geometry = geometry_of(codec_of(scheme), 2000);
    REQUIRE(geometry.block_bytes() == 100);
    return data_extents(geometry, offset, bytes);
  };
  CHECK(extents("srs:4,1,5", 350, 200) == Extents{{0, 350, 350, 50}, {1, 0, 400, 150}});
  CHECK(extents("srs:4,1,5", 400, 400) == Extents{{1, 0, 400, 400}});
  CHECK(extents("ers-1:4,1,5", 350, 200) ==
        Extents{{3, 50, 350, 50}, {4, 0, 400, 100}, {0, 100, 500, 50}});
  CHECK(extents("ers-1:4,1,5", 0, 0).empty());
  CHECK(extents("ers-1:4,1,5", 2000, 0).empty());
  CHECK(extents("ers-1:4,1,5", 1999, 1) == Extents{{4, 399, 1999, 1}});
}

TEST_CASE("what comes to one place of a codeword is added up") {
  // Blocks 0..3 on data shards 0..3 are the one codeword of both states.
  const Codec& codec = codec_of("rs:4,2");
  const SegmentGeometry geometry = geometry_of(codec, 4000);
  REQUIRE(geometry.block_bytes() == 1000);
  const Bytes ones(100, std::byte{1});
  const auto ranges = [&](std::vector<DataDelta> deltas) {
    ParityDeltas sums(geometry, State::kWide, deltas);
    sums.finish();
    return sums.ranges();
  };
  CHECK(ranges({}).empty());
  CHECK(ranges({{2, 1000, {}}}).empty());
  CHECK(ranges({{0, 10, ones}, {3, 10, ones}}) == Ranges{{10, 100}});
  CHECK(ranges({{1, 110, ones}, {0, 10, ones}}) == Ranges{{10, 200}});
  CHECK(ranges({{1, 60, ones}, {0, 10, ones}, {2, 30, ones}}) == Ranges{{10, 150}});
  CHECK(ranges({{1, 111, ones}, {0, 10, ones}}) == Ranges{{10, 100}, {111, 100}});
  CHECK(ranges({{1, 900, ones}, {1, 0, ones}, {1, 900, ones}}) == Ranges{{0, 100}, {900, 100}});

  ParityDeltas sums(geometry, State::kNarrow, std::vector<DataDelta>{{1, 0, ones}, {2, 50, ones}});
  sums.finish();
  for (int j = 0; j < codec.m(); ++j) {
    const auto first = static_cast<std::byte>(codec.coefficient(j, 1));
    const auto second = static_cast<std::byte>(codec.coefficient(j, 2));
    REQUIRE(sums.bytes(j).size() == 150);
    CHECK(sums.bytes(j)[0] == first);
    CHECK(sums.bytes(j)[49] == first);
    CHECK(sums.bytes(j)[50] == (first ^ second));
    CHECK(sums.bytes(j)[99] == (first ^ second));
    CHECK(sums.bytes(j)[100] == second);
    CHECK(sums.bytes(j)[149] == second);
  }
}

TEST_CASE("codewords that lie side by side in a parity shard have one range") {
  // Two stripes of two blocks, on data shards 0 1, 2 3; one row of both.
  const SegmentGeometry geometry = geometry_of(codec_of("ers-2:2,1,4"), 4000);
  REQUIRE(geometry.block_bytes() == 1000);
  const Bytes delta(100, std::byte{1});
  const std::vector<DataDelta> deltas = {{0, 900, delta}, {2, 0, delta}};
  CHECK(ParityDeltas(geometry, State::kNarrow, deltas).ranges() == Ranges{{900, 200}});
  CHECK(ParityDeltas(geometry, State::kWide, deltas).ranges() == Ranges{{0, 100}, {900, 100}});
}

TEST_CASE("deltas are added up in slices") {
  std::mt19937 random(kSeed);
  Changed changed("ers-2:4,2,5", State::kWide, 200'000, random);
  changed.change(100, random_bytes(random, 150'000));
  ParityDeltas sums = changed.sums();
  size_t steps = 1;
  while (sums.step(1000)) ++steps;
  CHECK(steps >= 150);
  CHECK(steps <= 2 * 150);
  changed.add_to_parities(sums);
  CHECK(changed.shards == encode(changed.geometry, changed.state, changed.segment));
}

}  // namespace elastripe::coding
