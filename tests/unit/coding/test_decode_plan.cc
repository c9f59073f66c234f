#include "coding/decode_plan.h"
#include "tests/unit/coding/support.h"

namespace elastripe::coding {
namespace {

const char* const kSchemes[] = {"rep:2",       "rep:4",       "rs:2,1",      "rs:4,2",
                                "srs:2,1,3",   "ers-1:2,1,3", "ers-2:2,1,3", "srs:4,3,5",
                                "ers-1:4,3,5", "ers-2:4,3,5", "ers-2:3,2,6", "ers-2:2,2,5"};

// Whether every codeword that has a wanted block keeps enough parities.
bool enough_parities(const Codec& codec, State state, const ShardSet& missing,
                     const ShardSet& wanted) {
  const size_t left = static_cast<size_t>(codec.m()) - (missing & codec.parity_shards()).count();
  for (int c = 0; c < codec.layout().codewords(state); ++c) {
    size_t lost = 0;
    bool concerned = (wanted & codec.parity_shards()).any();
    for (const uint16_t b : codec.layout().codeword_blocks(state, c)) {
      const auto node = static_cast<size_t>(codec.layout().node_of(b));
      lost += missing.test(node) ? 1 : 0;
      concerned |= wanted.test(node);
    }
    if (concerned && lost > left) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a plan exists exactly when every codeword concerned keeps enough parities") {
  for (const char* text : kSchemes) {
    const Codec& codec = codec_of(text);
    for (const State state : {State::kNarrow, State::kWide}) {
      for_each_erasure(codec.shards(), codec.shards(), [&](const ShardSet& missing) {
        INFO(text << " state " << static_cast<int>(state) << " missing " << missing);
        const auto plan = decode_plan(codec, state, missing, missing);
        if (plan.has_value() != enough_parities(codec, state, missing, missing)) FAIL("feasible");
        if (missing.count() <= static_cast<size_t>(codec.m()) && !plan) FAIL("m are not tolerated");
        if (!plan) return;
        if ((plan->read & missing).any()) FAIL("reads what is missing");
        CodewordSolution solution;
        for (int c = 0; c < codec.layout().codewords(state); ++c) {
          if (!solve_codeword(codec, *plan, c, solution)) FAIL("codeword " << c);
          for (const int shard : solution.inputs) {
            if (!plan->read.test(static_cast<size_t>(shard))) FAIL("uses what is not read");
          }
        }
      });
    }
  }
}

TEST_CASE("only parities that some stripe needs are read") {
  // Stripes of ers-2:2,2,6 lie on nodes {0,1}, {2,3} or {4,5}.
  const Codec& codec = codec_of("ers-2:2,2,6");
  const ShardSet missing = shard_set({0, 2});
  const auto narrow = decode_plan(codec, State::kNarrow, missing, missing);
  REQUIRE(narrow);
  CHECK(narrow->read == shard_set({1, 3, 6}));
  const auto wide = decode_plan(codec, State::kWide, missing, missing);
  REQUIRE(wide);
  CHECK(wide->read == shard_set({1, 3, 4, 5, 6, 7}));
}

TEST_CASE("more than m missing shards decode where they share no stripe") {
  const Codec& codec = codec_of("ers-2:2,1,6");
  const ShardSet missing = shard_set({0, 2, 4});
  CHECK(decode_plan(codec, State::kNarrow, missing, missing));
  CHECK_FALSE(decode_plan(codec, State::kWide, missing, missing));
}

TEST_CASE("wanting one shard reads only the stripes that it is in") {
  const Codec& codec = codec_of("ers-2:2,2,6");
  const auto plan = decode_plan(codec, State::kNarrow, shard_set({0, 2}), shard_set({2}));
  REQUIRE(plan);
  CHECK(plan->read == shard_set({3, 6}));
}

TEST_CASE("a missing parity is replaced by the next one") {
  const Codec& codec = codec_of("rs:4,2");
  const auto plan = decode_plan(codec, State::kWide, shard_set({1, 4}), shard_set({1}));
  REQUIRE(plan);
  CHECK(plan->read == shard_set({0, 2, 3, 5}));
}

TEST_CASE("wanting nothing reads nothing") {
  const auto plan = decode_plan(codec_of("rs:4,2"), State::kWide, shard_set({1}), {});
  REQUIRE(plan);
  CHECK(plan->read.none());
}

TEST_CASE("wanted shards must be missing and missing shards must exist") {
  const Codec& codec = codec_of("rs:4,2");
  CHECK_FALSE(decode_plan(codec, State::kWide, shard_set({1}), shard_set({1, 2})));
  CHECK_FALSE(decode_plan(codec, State::kWide, shard_set({6}), shard_set({6})));
}

}  // namespace elastripe::coding
