#include <thread>

#include "coding/coder.h"
#include "tests/unit/coding/support.h"

namespace elastripe::coding {
namespace {

// Fills the places of `shards` in the segment with poison.
void poison(const SegmentGeometry& geometry, const ShardSet& shards, Bytes& segment) {
  for (int i = 0; i < geometry.codec().k_prime(); ++i) {
    if (!shards.test(static_cast<size_t>(i))) continue;
    for (const Extent& extent : geometry.shard_extents(i)) {
      std::fill_n(segment.begin() + static_cast<std::ptrdiff_t>(extent.offset), extent.bytes,
                  kPoison);
    }
  }
}

// Degraded read of `wanted` from a segment in which everything that the plan does not read is
// poisoned: the wanted bytes come back and nothing else changes.
void check_decoder(const SegmentGeometry& geometry, State state, const Bytes& segment,
                   const std::vector<Bytes>& shards, const ShardSet& missing,
                   const ShardSet& wanted, size_t step = SIZE_MAX) {
  const Codec& codec = geometry.codec();
  const auto plan = decode_plan(codec, state, missing, wanted);
  REQUIRE(plan);
  const ShardSet unread = codec.data_shards() & ~plan->read;
  Bytes work = segment;
  poison(geometry, unread, work);
  Bytes expected = segment;
  poison(geometry, unread & ~wanted, expected);
  std::vector<std::span<const std::byte>> parities(static_cast<size_t>(codec.m()));
  for (size_t j = 0; j < parities.size(); ++j) {
    const size_t shard = static_cast<size_t>(codec.k_prime()) + j;
    if (plan->read.test(shard)) parities[j] = shards[shard];
  }
  auto coder = Coder::decoder(geometry, *plan, work, parities);
  INFO((coder ? std::string() : coder.error()));
  REQUIRE(coder);
  while (coder->step(step)) {
  }
  if (work != expected) {
    FAIL(to_string(codec.scheme())
         << " length " << geometry.length() << " state " << static_cast<int>(state) << " missing "
         << missing << " wanted " << wanted);
  }
}

// Repair of `wanted`, given only the shards that the plan reads.
void check_rebuilder(const SegmentGeometry& geometry, State state, const std::vector<Bytes>& shards,
                     const ShardSet& missing, const ShardSet& wanted, size_t step = SIZE_MAX) {
  const Codec& codec = geometry.codec();
  const auto plan = decode_plan(codec, state, missing, wanted);
  REQUIRE(plan);
  std::vector<std::span<const std::byte>> inputs(shards.size());
  std::vector<Bytes> rebuilt(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    if (plan->read.test(i)) inputs[i] = shards[i];
    if (wanted.test(i)) rebuilt[i].assign(shards[i].size(), kPoison);
  }
  auto coder = Coder::rebuilder(geometry, *plan, inputs, spans_of<std::byte>(rebuilt));
  INFO((coder ? std::string() : coder.error()));
  REQUIRE(coder);
  while (coder->step(step)) {
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    if (wanted.test(i) && rebuilt[i] != shards[i]) {
      FAIL(to_string(codec.scheme())
           << " length " << geometry.length() << " state " << static_cast<int>(state) << " missing "
           << missing << " shard " << i);
    }
  }
}

void check_all_erasures(const char* text, size_t length) {
  std::mt19937 random(kSeed);
  const Codec& codec = codec_of(text);
  const SegmentGeometry geometry = geometry_of(codec, length);
  const Bytes segment = random_bytes(random, length);
  for (const State state : {State::kNarrow, State::kWide}) {
    const std::vector<Bytes> shards = encode(geometry, state, segment);
    for_each_erasure(codec.shards(), codec.m(), [&](const ShardSet& missing) {
      check_decoder(geometry, state, segment, shards, missing, missing & codec.data_shards());
      check_rebuilder(geometry, state, shards, missing, missing);
    });
  }
}

const char* const kSmall[] = {
    "rep:2",     "rep:3",       "rep:9",       "rs:2,1",      "rs:4,2",      "rs:5,3",
    "srs:1,1,2", "ers-1:1,1,2", "ers-2:1,1,2", "srs:2,1,3",   "ers-1:2,1,3", "ers-2:2,1,3",
    "srs:2,2,3", "ers-1:2,2,3", "ers-2:2,2,3", "srs:3,2,4",   "ers-1:3,2,4", "ers-2:3,2,4",
    "srs:3,2,5", "ers-1:3,2,5", "ers-2:3,2,5", "srs:4,3,5",   "ers-1:4,3,5", "ers-2:4,3,5",
    "srs:3,2,6", "ers-1:3,2,6", "ers-2:3,2,6", "ers-2:2,4,3", "ers-1:4,1,6", "ers-2:4,2,6"};

}  // namespace

TEST_CASE("every set of at most m missing shards of a small code is decoded and rebuilt") {
  for (const char* text : kSmall) {
    const auto l = static_cast<size_t>(codec_of(text).layout().blocks());
    check_all_erasures(text, 16 * l);
    check_all_erasures(text, 16 * l - 5);
    check_all_erasures(text, 100 * l + 77);
  }
}

TEST_CASE("every missing set of a segment shorter than its blocks is decoded") {
  for (const char* text : {"rep:3", "rs:4,2", "srs:3,2,4", "ers-1:3,2,4", "ers-2:3,2,4"}) {
    for (size_t length = 1; length < 40; ++length) check_all_erasures(text, length);
  }
}

TEST_CASE("parities equal the definition at every length around block boundaries") {
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (const char* text : {"rep:3", "rs:4,2", "srs:4,2,5", "ers-1:4,2,5", "ers-2:4,2,5"}) {
    const Codec& codec = codec_of(text);
    const auto l = static_cast<size_t>(codec.layout().blocks());
    std::vector<size_t> lengths{1, 2, l, 16 * l - 1, 16 * l, 16 * l + 1, 16 * l + 17, 77 * l + 3};
    for (int i = 0; i < 20; ++i) lengths.push_back(1 + random() % (40 * l));
    for (const size_t length : lengths) {
      INFO(text << " length " << length);
      const SegmentGeometry geometry = geometry_of(codec, length);
      const Bytes segment = random_bytes(random, length);
      for (const State state : {State::kNarrow, State::kWide}) {
        std::vector<Bytes> shards = encode(geometry, state, segment);
        shards.erase(shards.begin(), shards.begin() + codec.k_prime());
        CHECK(shards == naive_parities(geometry, state, segment));
      }
    }
  }
}

TEST_CASE("the size of steps does not change the bytes") {
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (const char* text : {"rep:3", "rs:6,3", "ers-2:4,2,5"}) {
    const SegmentGeometry geometry = geometry_of(codec_of(text), 30011);
    const Bytes segment = random_bytes(random, geometry.length());
    const std::vector<Bytes> whole = encode(geometry, State::kNarrow, segment);
    for (const size_t step : {size_t{1}, size_t{64}, size_t{1000}, size_t{4096}, size_t{25000}}) {
      CHECK(encode(geometry, State::kNarrow, segment, step) == whole);
    }
  }
}

TEST_CASE("a step stops near its budget") {
  const SegmentGeometry geometry = geometry_of(codec_of("rs:4,2"), 400 * 1024);
  const Bytes segment(geometry.length());
  std::vector<Bytes> parities(2, Bytes(geometry.parity_shard_bytes(State::kWide)));
  auto coder = Coder::encoder(geometry, State::kWide, segment, spans_of<std::byte>(parities));
  REQUIRE(coder);
  int steps = 1;
  while (coder->step(40 * 1024)) ++steps;
  CHECK(steps == 10);
  CHECK_FALSE(coder->step(1));
}

TEST_CASE("random schemes, lengths and erasures are decoded and rebuilt") {
  INFO("seed " << kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 150; ++round) {
    Scheme scheme;
    do {
      scheme.layout = static_cast<LayoutKind>(random() % 4);
      scheme.k_prime = static_cast<uint8_t>(1 + random() % (round < 100 ? 16 : kMaxDataNodes));
      scheme.k = scheme.layout == LayoutKind::kRs ? scheme.k_prime
                                                  : static_cast<uint8_t>(random() % kMaxDataNodes);
      scheme.m = static_cast<uint8_t>(1 + random() % kMaxParities);
    } while (!validate(scheme));
    const Codec& codec = **codec_for(scheme);
    const size_t length = 1 + random() % (random() % 2 ? 2000 : 60000);
    const SegmentGeometry geometry = geometry_of(codec, length);
    const State state = random() % 2 ? State::kNarrow : State::kWide;
    const Bytes segment = random_bytes(random, length);
    const std::vector<Bytes> shards = encode(geometry, state, segment, 1 + random() % 20000);
    INFO("round " << round << " " << to_string(scheme) << " length " << length);
    for (int sets = 0; sets < 4; ++sets) {
      ShardSet missing;
      const size_t count = 1 + random() % scheme.m;
      while (missing.count() < count) {
        missing.set(random() % static_cast<size_t>(codec.shards()));
      }
      ShardSet wanted;  // a subset: partial decode
      for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = missing[i] && random() % 4 != 0;
      const size_t step = 1 + random() % 20000;
      check_decoder(geometry, state, segment, shards, missing, wanted & codec.data_shards(), step);
      check_rebuilder(geometry, state, shards, missing, wanted, step);
    }
  }
}

TEST_CASE("buffers of wrong size or number are refused") {
  const Codec& codec = codec_of("ers-2:4,2,5");
  const SegmentGeometry geometry = geometry_of(codec, 20 * 160);
  Bytes segment(geometry.length());
  std::vector<Bytes> parities(2, Bytes(geometry.parity_shard_bytes(State::kNarrow)));
  const auto spans = spans_of<std::byte>(parities);
  CHECK(Coder::encoder(geometry, State::kNarrow, segment, spans));
  CHECK_FALSE(Coder::encoder(geometry, State::kWide, segment, spans));
  CHECK_FALSE(Coder::encoder(geometry, State::kNarrow, std::span(segment).first(1), spans));
  CHECK_FALSE(Coder::encoder(geometry, State::kNarrow, segment, std::span(spans).first(1)));

  const auto plan = decode_plan(codec, State::kNarrow, shard_set({0}), shard_set({0}));
  REQUIRE(plan);
  const auto inputs = spans_of<const std::byte>(parities);
  CHECK(Coder::decoder(geometry, *plan, segment, inputs));
  CHECK_FALSE(Coder::decoder(geometry, *plan, std::span(segment).first(9), inputs));
  CHECK_FALSE(Coder::decoder(geometry, *plan, segment, std::span(inputs).first(1)));
  const std::vector<std::span<const std::byte>> empty(2);
  CHECK_FALSE(Coder::decoder(geometry, *plan, segment, empty));
  CHECK_FALSE(Coder::rebuilder(geometry, *plan, inputs, spans));
}

TEST_CASE("a plan that does not fit is refused") {
  const Codec& codec = codec_of("rs:4,2");
  const SegmentGeometry geometry = geometry_of(codec, 6400);
  Bytes segment(geometry.length());
  std::vector<Bytes> parities(2, Bytes(geometry.parity_shard_bytes(State::kWide)));
  const auto inputs = spans_of<const std::byte>(parities);
  DecodePlan plan = decode_plan(codec, State::kWide, shard_set({0}), shard_set({0})).value();
  plan.read.reset(4);  // the only parity
  CHECK_FALSE(Coder::decoder(geometry, plan, segment, inputs));
  plan = decode_plan(codec, State::kWide, shard_set({0}), shard_set({0})).value();
  plan.read.reset(2);  // a data shard
  CHECK_FALSE(Coder::decoder(geometry, plan, segment, inputs));
  plan = decode_plan(codec_of("rs:6,2"), State::kWide, shard_set({7}), shard_set({7})).value();
  CHECK_FALSE(Coder::decoder(geometry, plan, segment, inputs));
  CHECK_FALSE(Coder::decoder(geometry, encode_plan(codec, State::kWide), segment, inputs));
}

TEST_CASE("threads that ask for codecs at once get the same ones and the same bytes") {
  const Bytes segment(5000, kPoison);
  std::vector<const Codec*> found(4);
  std::vector<Bytes> parities(4);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < found.size(); ++t) {
      threads.emplace_back([&, t] {
        for (uint8_t k = 2; k < 12; ++k) {
          found[t] = codec_for(Scheme{LayoutKind::kErs2, k, 1, 13}).value();
        }
        const auto geometry = SegmentGeometry::make(*found[t], segment.size()).value();
        parities[t].resize(geometry.parity_shard_bytes(State::kNarrow));
        std::span<std::byte> output = parities[t];
        Coder::encoder(geometry, State::kNarrow, segment, std::span(&output, 1)).value().finish();
      });
    }
  }
  for (size_t t = 1; t < found.size(); ++t) {
    CHECK(found[t] == found[0]);
    CHECK(parities[t] == parities[0]);
  }
}

TEST_CASE("a codec is made once per scheme") {
  const Codec& codec = codec_of("ers-2:4,1,5");
  CHECK(&codec == &codec_of("ers:4,1,5"));
  CHECK(&codec != &codec_of("ers-1:4,1,5"));
  CHECK_FALSE(codec_for(Scheme{LayoutKind::kRs, 0, 1, 0}));
  CHECK(codec_of("rep:3").parities_are_copies());
  CHECK_FALSE(codec.parities_are_copies());
}

}  // namespace elastripe::coding
