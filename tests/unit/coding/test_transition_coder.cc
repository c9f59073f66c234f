#include "coding/transition_coder.h"
#include "tests/unit/coding/transition_support.h"

namespace elastripe::coding {
namespace {

using Spans = std::vector<std::span<const std::byte>>;

// The blocks of the plan, unpadded, in copies that end where the block ends; others are missing.
struct ReadBlocks {
  std::vector<Bytes> bytes;
  Spans spans;
};

ReadBlocks read_blocks(const SegmentGeometry& geometry, const TransitionPlan& plan,
                       const Bytes& segment) {
  ReadBlocks blocks;
  blocks.bytes.resize(static_cast<size_t>(geometry.codec().layout().blocks()));
  for (const uint16_t b : plan.data_blocks) {
    const size_t length = geometry.block_length(b);
    if (length == 0) continue;
    const auto from = segment.begin() + static_cast<std::ptrdiff_t>(geometry.block_offset(b));
    blocks.bytes[b].assign(from, from + static_cast<std::ptrdiff_t>(length));
  }
  blocks.spans.assign(blocks.bytes.begin(), blocks.bytes.end());
  return blocks;
}

std::vector<Bytes> parities_of(const SegmentGeometry& geometry, State state, const Bytes& segment) {
  std::vector<Bytes> shards = encode(geometry, state, segment);
  shards.erase(shards.begin(), shards.begin() + geometry.codec().k_prime());
  return shards;
}

void run(TransitionCoder& coder, size_t step) {
  while (coder.step(step)) {
  }
  REQUIRE(coder.done());
}

std::vector<Bytes> by_proxy(const SegmentGeometry& geometry, const TransitionPlan& plan,
                            const Bytes& segment, size_t step) {
  const Codec& codec = geometry.codec();
  std::vector<Bytes> old = parities_of(geometry, state_before(plan.direction), segment);
  std::vector<Bytes> made(static_cast<size_t>(codec.m()),
                          Bytes(geometry.parity_shard_bytes(state_after(plan.direction)), kPoison));
  const ReadBlocks blocks = read_blocks(geometry, plan, segment);
  // What is not read is poison.
  for (Bytes& shard : old) {
    for (size_t o = 0; o < shard.size() / geometry.block_bytes(); ++o) {
      if (std::ranges::binary_search(plan.old_codewords, o)) continue;
      std::fill_n(shard.begin() + static_cast<std::ptrdiff_t>(o * geometry.block_bytes()),
                  geometry.block_bytes(), kPoison);
    }
  }
  auto coder = TransitionCoder::parities(codec, plan, geometry.block_bytes(), blocks.spans,
                                         spans_of<const std::byte>(old), spans_of<std::byte>(made));
  INFO((coder ? std::string() : coder.error()));
  REQUIRE(coder);
  run(*coder, step);
  return made;
}

// What a parity node does (docs/node-protocol.md, SHARD_BUILD).
void apply_deltas(const TransitionPlan& plan, size_t block_bytes, const Bytes& old,
                  const Bytes& deltas, Bytes& made) {
  std::ranges::fill(made, std::byte{0});
  const auto add = [&](size_t to, const Bytes& from, size_t block) {
    for (size_t i = 0; i < block_bytes; ++i) {
      made.at(to * block_bytes + i) ^= from.at(block * block_bytes + i);
    }
  };
  for (size_t c = 0; c < plan.codewords.size(); ++c) {
    for (const uint16_t o : plan.codewords[c].old) add(c, old, o);
    for (const uint16_t d : plan.codewords[c].deltas) add(c, deltas, d);
  }
}

std::vector<Bytes> by_deltas(const SegmentGeometry& geometry, const TransitionPlan& plan,
                             const Bytes& segment, size_t step) {
  const Codec& codec = geometry.codec();
  const ReadBlocks blocks = read_blocks(geometry, plan, segment);
  std::vector<Bytes> deltas(static_cast<size_t>(codec.m()),
                            Bytes(plan.deltas.size() * geometry.block_bytes(), kPoison));
  auto coder = TransitionCoder::deltas(codec, plan, geometry.block_bytes(), blocks.spans,
                                       spans_of<std::byte>(deltas));
  INFO((coder ? std::string() : coder.error()));
  REQUIRE(coder);
  run(*coder, step);
  const std::vector<Bytes> old = parities_of(geometry, state_before(plan.direction), segment);
  std::vector<Bytes> made;
  for (size_t j = 0; j < deltas.size(); ++j) {
    made.emplace_back(geometry.parity_shard_bytes(state_after(plan.direction)), kPoison);
    apply_deltas(plan, geometry.block_bytes(), old[j], deltas[j], made.back());
  }
  return made;
}

// Both executions of both directions give the bytes of encoding in the new state.
void check_transitions(const Codec& codec, size_t length, size_t step,
                       std::span<const TransitionOptions> all_options = kAllOptions) {
  INFO(to_string(codec.scheme()) << " length " << length << " step " << step);
  std::mt19937 random(kSeed);
  const SegmentGeometry geometry = geometry_of(codec, length);
  const Bytes segment = random_bytes(random, length);
  for (const Direction direction : kDirections) {
    const std::vector<Bytes> expected = parities_of(geometry, state_after(direction), segment);
    for (const auto& options : all_options) {
      const TransitionPlan plan = plan_of(codec, direction, options);
      INFO("direction " << static_cast<int>(direction) << " min rule " << options.min_rule
                        << " order selection " << options.order_selection);
      CHECK((by_proxy(geometry, plan, segment, step) == expected));
      CHECK((by_deltas(geometry, plan, segment, step) == expected));
    }
  }
}

constexpr const char* kLayouts[] = {"srs", "ers-1", "ers-2"};

}  // namespace

TEST_CASE("transitions give the bytes of encoding anew, in all layouts and with all options") {
  for (const char* layout : kLayouts) {
    for (const auto& [k, m, k_prime] : {std::tuple{2, 1, 3},
                                        {1, 2, 4},
                                        {4, 1, 5},
                                        {4, 3, 5},
                                        {3, 2, 6},
                                        {3, 3, 6},
                                        {6, 2, 7},
                                        {7, 4, 11},
                                        {8, 3, 10},
                                        {9, 3, 14},
                                        {12, 3, 14},
                                        {3, 8, 5}}) {
      const Codec& codec = codec_of(layout, k, m, k_prime);
      const auto l = static_cast<size_t>(codec.layout().blocks());
      check_transitions(codec, 1600 * l, SIZE_MAX);
      check_transitions(codec, 131 * l - 17, SIZE_MAX);  // the last block is short
    }
  }
}

TEST_CASE("transitions give the bytes of encoding anew for every small scheme") {
  for (const char* layout : kLayouts) {
    for (int k_prime = 2; k_prime <= 12; ++k_prime) {
      for (int k = 1; k < k_prime; ++k) {
        check_transitions(codec_of(layout, k, 2, k_prime), 3001, SIZE_MAX,
                          std::span(kAllOptions).first(1));
      }
    }
  }
}

TEST_CASE("short segments transition: whole blocks are padding") {
  for (const char* layout : kLayouts) {
    for (const size_t length : std::initializer_list<size_t>{1, 2, 19, 21, 63, 64, 65, 199}) {
      check_transitions(codec_of(layout, 4, 3, 5), length, SIZE_MAX);
      check_transitions(codec_of(layout, 12, 3, 14), length, SIZE_MAX);
    }
  }
}

TEST_CASE("transitions in steps of any size give the same bytes") {
  for (const char* layout : kLayouts) {
    for (const size_t step : std::initializer_list<size_t>{1, 64, 1000, 4096, 100000}) {
      check_transitions(codec_of(layout, 4, 2, 5), 20 * 3333 - 100, step);
      check_transitions(codec_of(layout, 4, 2, 8), 8 * 1234 - 3, step);
    }
  }
}

TEST_CASE("a step of a transition uses about the bytes that it may") {
  const Codec& codec = codec_of("srs", 4, 2, 5);
  const TransitionPlan plan = plan_of(codec, Direction::kForward);  // reads all blocks
  const size_t block_bytes = 8192;
  std::vector<Bytes> blocks(20, Bytes(block_bytes));
  std::vector<Bytes> deltas(2, Bytes(plan.deltas.size() * block_bytes));
  auto coder = TransitionCoder::deltas(codec, plan, block_bytes, spans_of<const std::byte>(blocks),
                                       spans_of<std::byte>(deltas));
  REQUIRE(coder);
  size_t steps = 1;
  while (coder->step(16384)) ++steps;
  CHECK(steps >= 10);  // 160 KiB of blocks
  CHECK(steps <= 15);
}

TEST_CASE("a delta may have more blocks than one call of combine takes") {
  const Codec& codec = codec_of("ers-1", 15, 3, 64);
  const auto l = static_cast<size_t>(codec.layout().blocks());
  std::mt19937 random(kSeed);
  std::vector<Bytes> blocks;
  for (size_t b = 0; b < l; ++b) blocks.push_back(random_bytes(random, b % 7 == 0 ? 41 : 100));
  TransitionPlan plan = plan_of(codec, Direction::kForward);
  plan.deltas.assign(1, {});
  for (size_t b = 0; b < l; ++b) plan.deltas[0].push_back(static_cast<uint16_t>(b));
  REQUIRE(l > kMaxInputs);

  std::vector<Bytes> deltas(3, Bytes(100, kPoison));
  auto coder = TransitionCoder::deltas(codec, plan, 100, spans_of<const std::byte>(blocks),
                                       spans_of<std::byte>(deltas));
  REQUIRE(coder);
  coder->finish();
  for (int j = 0; j < 3; ++j) {
    Bytes expected(100);
    for (size_t b = 0; b < l; ++b) {
      const uint8_t factor = codec.coefficient(j, codec.layout().node_of(static_cast<int>(b)));
      for (size_t i = 0; i < blocks[b].size(); ++i) {
        expected[i] ^= std::byte{gf_multiply(factor, static_cast<uint8_t>(blocks[b][i]))};
      }
    }
    CHECK((deltas[static_cast<size_t>(j)] == expected));
  }
}

TEST_CASE("there and back again restores the parities of the narrow state") {
  const Codec& codec = codec_of("ers-2", 12, 3, 14);
  std::mt19937 random(kSeed);
  const Bytes segment = random_bytes(random, 84 * 100 - 31);
  const SegmentGeometry geometry = geometry_of(codec, segment.size());
  const std::vector<Bytes> narrow = parities_of(geometry, State::kNarrow, segment);
  std::vector<Bytes> parities = narrow;
  for (const Direction direction : kDirections) {
    const TransitionPlan plan = plan_of(codec, direction);
    const ReadBlocks blocks = read_blocks(geometry, plan, segment);
    std::vector<Bytes> made(3, Bytes(geometry.parity_shard_bytes(state_after(direction))));
    auto coder =
        TransitionCoder::parities(codec, plan, geometry.block_bytes(), blocks.spans,
                                  spans_of<const std::byte>(parities), spans_of<std::byte>(made));
    REQUIRE(coder);
    coder->finish();
    CHECK(made[0].size() != parities[0].size());
    parities = made;
  }
  CHECK((parities == narrow));
}

TEST_CASE("buffers and plans that do not fit are refused") {
  const Codec& codec = codec_of("ers-2", 4, 2, 5);
  const TransitionPlan plan = plan_of(codec, Direction::kForward);
  const size_t rho = plan.deltas.size();
  const auto make = [&](const TransitionPlan& of, size_t block_count, size_t block_bytes,
                        size_t delta_count, size_t delta_bytes) -> std::string {
    std::vector<Bytes> blocks(block_count, Bytes(block_bytes));
    std::vector<Bytes> deltas(delta_count, Bytes(delta_bytes));
    const auto coder = TransitionCoder::deltas(codec, of, 16, spans_of<const std::byte>(blocks),
                                               spans_of<std::byte>(deltas));
    return coder ? "" : coder.error();
  };
  CHECK(make(plan, 20, 16, 2, 16 * rho).empty());
  CHECK(make(plan, 19, 16, 2, 16 * rho) == "19 data blocks, need 20");
  CHECK(make(plan, 20, 17, 2, 16 * rho) == "a data block is too long");
  CHECK(make(plan, 20, 16, 3, 16 * rho) == "3 buffers of deltas, need 2");
  CHECK(make(plan, 20, 16, 2, 16) == "buffer of deltas has 16 bytes, needs 48");
  const TransitionPlan other = plan_of(codec_of("ers-2", 6, 2, 7), Direction::kForward);
  CHECK(make(other, 20, 16, 2, 16 * other.deltas.size()) == "the plan does not fit the scheme");

  std::vector<Bytes> blocks(20);
  std::vector<Bytes> old(2, Bytes(5 * 16));
  std::vector<Bytes> made(2, Bytes(4 * 16));
  const auto proxy = [&] {
    const auto coder =
        TransitionCoder::parities(codec, plan, 16, spans_of<const std::byte>(blocks),
                                  spans_of<const std::byte>(old), spans_of<std::byte>(made));
    return coder ? std::string() : coder.error();
  };
  CHECK(proxy().empty());
  old[1].resize(4 * 16);
  CHECK(proxy() == "buffer of old parities has 64 bytes, needs 80");
  old[1].resize(5 * 16);
  made.pop_back();
  CHECK(proxy() == "1 buffers of new parities, need 2");
}

}  // namespace elastripe::coding
