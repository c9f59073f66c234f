#include <numeric>

#include "coding/segment.h"
#include "tests/unit/coding/support.h"

namespace elastripe::coding {
namespace {

const char* const kSchemes[] = {"rep:3",       "rs:4,2",      "rs:10,4",       "srs:4,1,5",
                                "ers-1:4,1,5", "ers-2:4,1,5", "ers-2:12,3,14", "ers-2:3,2,6",
                                "srs:7,2,11",  "ers-2:7,2,11"};

}  // namespace

TEST_CASE("extents of all data shards cover the segment once and pad to the shard size") {
  for (const char* text : kSchemes) {
    const Codec& codec = codec_of(text);
    const auto l = static_cast<size_t>(codec.layout().blocks());
    for (const size_t length : {size_t{1}, size_t{2}, l - 1, l, l + 1, 16 * l - 1, 16 * l,
                                16 * l + 1, 33 * l + 7, size_t{65536}, size_t{100001}}) {
      if (length == 0) continue;
      INFO(text << " length " << length);
      const SegmentGeometry geometry = geometry_of(codec, length);
      std::vector<int> covered(length);
      bool sizes = true;
      for (int i = 0; i < codec.k_prime(); ++i) {
        size_t bytes = 0;
        for (const Extent& extent : geometry.shard_extents(i)) {
          sizes &= extent.bytes + extent.zeros > 0 && extent.offset + extent.bytes <= length;
          for (size_t at = 0; at < extent.bytes; ++at) ++covered[extent.offset + at];
          bytes += extent.bytes + extent.zeros;
        }
        sizes &= bytes == geometry.data_shard_bytes();
      }
      CHECK(sizes);
      CHECK(std::ranges::all_of(covered, [](int times) { return times == 1; }));
      CHECK(l * geometry.block_bytes() ==
            static_cast<size_t>(codec.k_prime()) * geometry.data_shard_bytes());
    }
  }
}

TEST_CASE("padding stays below one percent from 64 KiB on at up to 84 blocks") {
  for (const char* text : kSchemes) {
    const Codec& codec = codec_of(text);
    const auto l = static_cast<size_t>(codec.layout().blocks());
    if (l > 84) continue;
    INFO(text);
    bool below = true;
    for (size_t length = 65536; length < 70000; length += 3) {
      const SegmentGeometry geometry = geometry_of(codec, length);
      below &= (l * geometry.block_bytes() - length) * 100 < length;
    }
    CHECK(below);
  }
}

TEST_CASE("large segments have blocks of a multiple of 16 bytes") {
  const SegmentGeometry geometry = geometry_of(codec_of("ers-2:12,3,14"), (size_t{4} << 20) - 3);
  CHECK(geometry.block_bytes() % 16 == 0);
}

TEST_CASE("a shard of rs or srs is one slice of the segment") {
  const SegmentGeometry rs = geometry_of(codec_of("rs:4,2"), 4 * 1600);
  for (int i = 0; i < 4; ++i) {
    CHECK(rs.shard_extents(i) ==
          std::vector<Extent>{{static_cast<size_t>(i) * 1600, size_t{1600}, size_t{0}}});
  }
  const SegmentGeometry srs = geometry_of(codec_of("srs:4,1,5"), 20 * 160 - 1);
  CHECK(srs.shard_extents(1) == std::vector<Extent>{{640, 640, 0}});
  CHECK(srs.shard_extents(4) == std::vector<Extent>{{2560, 639, 1}});
}

TEST_CASE("a scattered shard names its blocks in row order") {
  const SegmentGeometry geometry = geometry_of(codec_of("ers-2:4,1,5"), 20 * 160);
  // Node 4 holds blocks 16, 7, 10 and 13 in rows 0 to 3.
  CHECK(geometry.shard_extents(4) ==
        std::vector<Extent>{
            {16 * 160, 160, 0}, {7 * 160, 160, 0}, {10 * 160, 160, 0}, {13 * 160, 160, 0}});
}

TEST_CASE("shard sizes follow the state") {
  const SegmentGeometry geometry = geometry_of(codec_of("ers-2:4,1,5"), 20 * 160);
  CHECK(geometry.block_bytes() == 160);
  CHECK(geometry.data_shard_bytes() == 4 * 160);
  CHECK(geometry.parity_shard_bytes(State::kNarrow) == 5 * 160);
  CHECK(geometry.parity_shard_bytes(State::kWide) == 4 * 160);
  CHECK(geometry.shard_bytes(State::kNarrow, 4) == 4 * 160);
  CHECK(geometry.shard_bytes(State::kNarrow, 5) == 5 * 160);
}

TEST_CASE("a segment of no bytes or too many is refused") {
  CHECK_FALSE(SegmentGeometry::make(codec_of("rs:4,2"), 0));
  CHECK_FALSE(SegmentGeometry::make(codec_of("rs:4,2"), kMaxSegmentBytes + 1));
  CHECK(SegmentGeometry::make(codec_of("rs:4,2"), kMaxSegmentBytes));
}

}  // namespace elastripe::coding
