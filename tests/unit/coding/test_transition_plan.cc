#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "tests/unit/coding/transition_support.h"

namespace elastripe::coding {
namespace {

using Json = nlohmann::json;
using Blocks = std::vector<uint16_t>;

Json load(const std::string& name) {
  std::ifstream file(std::string(ELASTRIPE_TEST_DATA) + "/" + name);
  REQUIRE(file);
  return Json::parse(file);
}

// "3,6-8" as {3, 6, 7, 8}.
Blocks parse_ranges(const std::string& text) {
  Blocks blocks;
  for (size_t at = 0; at < text.size();) {
    size_t used = 0;
    const int first = std::stoi(text.substr(at), &used);
    at += used;
    int last = first;
    if (at < text.size() && text[at] == '-') {
      last = std::stoi(text.substr(++at), &used);
      at += used;
    }
    for (int b = first; b <= last; ++b) blocks.push_back(static_cast<uint16_t>(b));
    ++at;
  }
  return blocks;
}

// The old codeword that a new one starts from, of plans that have at most one; -1 for none.
int source_of(const TransitionPlan& plan, size_t codeword) {
  const Blocks& old = plan.codewords[codeword].old;
  REQUIRE(old.size() <= 1);
  return old.empty() ? -1 : old[0];
}

TransitionCost cost_of(const Codec& codec, Direction direction,
                       const TransitionOptions& options = {}) {
  return transition_cost(plan_of(codec, direction, options), codec.m());
}

void toggle(std::set<int>& set, std::span<const uint16_t> blocks) {
  for (const int b : blocks) {
    if (!set.insert(b).second) set.erase(b);
  }
}

// As sets: what a new codeword starts from and adds is its blocks; its deltas are what it adds; no
// delta is the sum of others; the lists of the whole plan are the unions.
void check_plan(const Codec& codec, const TransitionPlan& plan) {
  const Layout& layout = codec.layout();
  REQUIRE(plan.codewords.size() ==
          static_cast<size_t>(layout.codewords(state_after(plan.direction))));
  std::set<int> read;
  std::set<int> used;
  bool right = true;
  for (size_t c = 0; c < plan.codewords.size(); ++c) {
    const auto& codeword = plan.codewords[c];
    std::set<int> sum;
    for (const uint16_t o : codeword.old) {
      toggle(sum, layout.codeword_blocks(state_before(plan.direction), o));
      right &= used.insert(o).second;
    }
    toggle(sum, codeword.blocks);
    const auto expected = layout.codeword_blocks(state_after(plan.direction), static_cast<int>(c));
    right &= sum == std::set<int>(expected.begin(), expected.end());
    read.insert(codeword.blocks.begin(), codeword.blocks.end());
    right &= std::ranges::is_sorted(codeword.blocks) && std::ranges::is_sorted(codeword.old);

    std::set<int> delta;
    for (const uint16_t d : codeword.deltas) toggle(delta, plan.deltas.at(d));
    right &= delta == std::set<int>(codeword.blocks.begin(), codeword.blocks.end());
  }
  right &= plan.data_blocks == Blocks(read.begin(), read.end());
  right &= plan.old_codewords == Blocks(used.begin(), used.end());
  CHECK(right);
}

// The rank of a forward plan's deltas by another way: blocks are edges between the row they are in
// and the row that their stripe's parities start; a connected part of n rows has rank n - 1.
size_t graph_rank(const Codec& codec, const TransitionPlan& plan) {
  const Layout& layout = codec.layout();
  std::vector<int> row_of_stripe(static_cast<size_t>(layout.stripes()));
  for (size_t row = 0; row < plan.codewords.size(); ++row) {
    for (const uint16_t i : plan.codewords[row].old) row_of_stripe[i] = static_cast<int>(row);
  }
  std::vector<int> part(static_cast<size_t>(layout.rows()));
  std::iota(part.begin(), part.end(), 0);
  size_t rank = 0;
  for (const uint16_t b : plan.data_blocks) {
    const int one = part[static_cast<size_t>(layout.row_of(b))];
    const int other =
        part[static_cast<size_t>(row_of_stripe[static_cast<size_t>(layout.stripe_of(b))])];
    if (one == other) continue;
    std::ranges::replace(part, one, other);
    ++rank;
  }
  return rank;
}

}  // namespace

TEST_CASE("plans start from the parities and read the blocks of the golden vectors") {
  const Json golden = load("golden.json");
  for (const Json& numbers : golden["cases"]) {
    const int k = numbers["k"];
    const int m = numbers["m"];
    const int k_prime = numbers["kp"];
    for (const auto& [layout, key] : {std::pair{"ers-1", "ers1"}, {"ers-2", "ers2"}}) {
      const Codec& codec = codec_of(layout, k, m, k_prime);
      INFO(to_string(codec.scheme()));
      const Json& expected = numbers[key];

      const TransitionPlan forward = plan_of(codec, Direction::kForward);
      std::vector<int> row_of_stripe(static_cast<size_t>(codec.layout().stripes()), -1);
      for (size_t row = 0; row < forward.codewords.size(); ++row) {
        for (const uint16_t i : forward.codewords[row].old)
          row_of_stripe[i] = static_cast<int>(row);
      }
      CHECK(Json(row_of_stripe) == expected["parity_to_row"]);
      CHECK(Json(forward.data_blocks) == expected["forward_data_reads"]);
      CHECK(transition_cost(forward, m).blocks_read() == expected["forward_count"]);
      CHECK(cost_of(codec, Direction::kForward, {.min_rule = true}).blocks_read() ==
            expected["forward_count_min_rule"]);

      const TransitionPlan backward = plan_of(codec, Direction::kBackward);
      std::vector<int> kept(static_cast<size_t>(codec.layout().rows()), -1);
      std::vector<int> recomputed;
      for (size_t i = 0; i < backward.codewords.size(); ++i) {
        const int row = source_of(backward, i);
        if (row < 0) {
          recomputed.push_back(static_cast<int>(i));
        } else {
          kept[static_cast<size_t>(row)] = static_cast<int>(i);
        }
      }
      CHECK(Json(kept) == expected["backward_kept_stripe_of_row"]);
      CHECK(Json(recomputed) == expected["backward_recomputed"]);
      CHECK(Json(backward.data_blocks) == expected["backward_data_reads"]);
      CHECK(transition_cost(backward, m).blocks_read() == expected["backward_count"]);
    }
    const Codec& srs = codec_of("srs", k, m, k_prime);
    CHECK(cost_of(srs, Direction::kForward).blocks_read() == numbers["srs_forward_reads_sec61"]);
    CHECK(cost_of(srs, Direction::kBackward).blocks_read() == numbers["l"]);
  }
}

TEST_CASE("plans read the data blocks of the model, whatever m is") {
  const Json rows = load("transitions.json")["reads"];
  REQUIRE(rows.size() == 78);
  for (const Json& row : rows) {
    for (const auto& [layout, column] : {std::pair{"ers-1", size_t{2}}, {"ers-2", size_t{4}}}) {
      for (const int m : {1, 4}) {
        const Codec& codec = codec_of(layout, row[0], m, row[1]);
        INFO(to_string(codec.scheme()));
        CHECK(plan_of(codec, Direction::kForward).data_blocks ==
              parse_ranges(row[column].get<std::string>()));
        CHECK(plan_of(codec, Direction::kBackward).data_blocks ==
              parse_ranges(row[column + 1].get<std::string>()));
      }
    }
  }
}

TEST_CASE("counts are those of the model and of the paper's formulas in all 244 sets") {
  const Json rows = load("transitions.json")["counts"];
  REQUIRE(rows.size() == 244);
  int helped = 0;
  for (const Json& row : rows) {
    const int k = row[0];
    const int m = row[1];
    const int k_prime = row[2];
    const Codec& srs = codec_of("srs", k, m, k_prime);
    INFO(to_string(srs.scheme()));
    CHECK(cost_of(srs, Direction::kForward).blocks_read() == row[3]);
    for (const auto& [layout, column] : {std::pair{"ers-1", size_t{4}}, {"ers-2", size_t{7}}}) {
      const Codec& codec = codec_of(layout, k, m, k_prime);
      CHECK(cost_of(codec, Direction::kForward).blocks_read() == row[column]);
      CHECK(cost_of(codec, Direction::kForward, {.min_rule = true}).blocks_read() ==
            row[column + 1]);
      CHECK(cost_of(codec, Direction::kBackward).blocks_read() == row[column + 2]);
    }
    // Section 6.1; backward with the m parities of each row, where the paper prints each stripe.
    const Codec& ers2 = codec_of("ers-2", k, m, k_prime);
    const int l = std::lcm(k, k_prime);
    const int stripes = l / k;
    const int rows_count = l / k_prime;
    const int r = k_prime % k;
    const int crossing = stripes - k_prime / k * rows_count;
    const int forward = cost_of(ers2, Direction::kForward).blocks_read();
    const int forward_min = cost_of(ers2, Direction::kForward, {.min_rule = true}).blocks_read();
    CHECK(forward == m * stripes + crossing * (k - r));
    CHECK(cost_of(ers2, Direction::kBackward).blocks_read() == m * rows_count + l - rows_count * k);
    // The least that any conversion reads which keeps data in place.
    CHECK(forward_min == m * stripes + crossing * (k - std::max(r, m)));
    CHECK(forward_min == row[10]);
    CHECK(cost_of(ers2, Direction::kBackward).blocks_read() == row[11]);
    CHECK(forward_min <= forward);
    helped += forward_min < forward ? 1 : 0;
  }
  CHECK(helped == 74);
}

TEST_CASE("a plan's sums are its codewords, in all layouts and with all options") {
  for (const char* layout : {"srs", "ers-1", "ers-2"}) {
    for (int k_prime = 2; k_prime <= 12; ++k_prime) {
      for (int k = 1; k < k_prime; ++k) {
        for (const int m : {1, 3, 8}) {
          const Codec& codec = codec_of(layout, k, m, k_prime);
          INFO(to_string(codec.scheme()));
          for (const Direction direction : kDirections) {
            for (const auto& options : kAllOptions) {
              check_plan(codec, plan_of(codec, direction, options));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("the largest schemes have plans") {
  for (const char* layout : {"srs", "ers-1", "ers-2"}) {
    for (const auto& [k, k_prime] : {std::pair{1, 64},
                                     {15, 64},
                                     {16, 63},
                                     {32, 64},
                                     {33, 55},
                                     {48, 64},
                                     {60, 64},
                                     {16, 17},
                                     {31, 32}}) {
      const Codec& codec = codec_of(layout, k, 8, k_prime);
      INFO(to_string(codec.scheme()));
      for (const Direction direction : kDirections) {
        for (const auto& options : kAllOptions) {
          check_plan(codec, plan_of(codec, direction, options));
        }
      }
    }
  }
}

TEST_CASE("forward deltas are as many as the rank of the graph of rows") {
  for (const char* layout : {"ers-1", "ers-2"}) {
    for (int k_prime = 2; k_prime <= 20; ++k_prime) {
      for (int k = 1; k < k_prime; ++k) {
        const Codec& codec = codec_of(layout, k, 2, k_prime);
        INFO(to_string(codec.scheme()));
        const TransitionPlan plan = plan_of(codec, Direction::kForward);
        CHECK(plan.deltas.size() == graph_rank(codec, plan));
      }
    }
  }
}

TEST_CASE("backward deltas leave out the stripe that is the sum of the others") {
  const TransitionPlan plan = plan_of(codec_of("ers-2", 12, 3, 14), Direction::kBackward);
  CHECK(plan.codewords.size() == 7);
  CHECK(plan.deltas.size() == 6);
  CHECK(plan.codewords[6].old.empty());
  CHECK(plan.codewords[6].deltas.size() == 6);
}

TEST_CASE("the network carries fewer blocks if old parities stay where they are") {
  const auto check = [](const char* layout, int k, int m, int k_prime, int proxy, int delta,
                        int hub) {
    const TransitionCost cost = cost_of(codec_of(layout, k, m, k_prime), Direction::kForward);
    INFO(layout << " " << k << "," << m << "," << k_prime);
    CHECK(cost.proxy == proxy);
    CHECK(cost.delta == delta);
    CHECK(cost.hub == hub);
  };
  check("ers-2", 12, 3, 14, 49, 25, 20);
  check("ers-2", 4, 1, 5, 12, 6, 3);
  check("srs", 12, 3, 14, 84 + 18, 84 + 18, 84 + 12);
  check("srs", 4, 3, 8, 8 + 3, 8 + 3, 8 + 2);  // m > 2: encodes anew
  check("srs", 4, 2, 8, 4 + 2, 0, 0);          // only old parities
  check("ers-2", 4, 3, 8, 6 + 3, 0, 0);
}

TEST_CASE("delta never costs more than proxy with or without the min rule") {
  for (const char* layout : {"srs", "ers-1", "ers-2"}) {
    for (int k_prime = 2; k_prime <= 14; ++k_prime) {
      for (int k = 1; k < k_prime; ++k) {
        for (int m = 1; m <= 4; ++m) {
          const Codec& codec = codec_of(layout, k, m, k_prime);
          INFO(to_string(codec.scheme()));
          for (const Direction direction : kDirections) {
            const TransitionCost cost = cost_of(codec, direction);
            const TransitionCost least = cost_of(codec, direction, {.min_rule = true});
            CHECK(least.proxy <= cost.proxy);
            CHECK(least.data_blocks >= cost.data_blocks);
            CHECK(cost.delta <= least.proxy);
            CHECK(cost.hub <= cost.delta);
          }
        }
      }
    }
  }
}

TEST_CASE("Algorithm 4's order of stripes reads less than the other order") {
  // Section 4.2: six and seven data blocks row-major, four and seven with ERS-aware placement.
  for (const auto& [layout, with] : {std::pair{"ers-1", 6}, {"ers-2", 4}}) {
    const Codec& codec = codec_of(layout, 4, 3, 5);
    CHECK(cost_of(codec, Direction::kBackward).data_blocks == with);
    CHECK(cost_of(codec, Direction::kBackward, {.order_selection = false}).data_blocks == 7);
  }
  // Experiment 5.
  for (const auto& [k, m, k_prime] :
       {std::tuple{4, 1, 5}, {5, 1, 6}, {8, 2, 10}, {9, 2, 10}, {10, 3, 12}, {12, 3, 14}}) {
    const Codec& codec = codec_of("ers-2", k, m, k_prime);
    CHECK(cost_of(codec, Direction::kBackward).blocks_read() <
          cost_of(codec, Direction::kBackward, {.order_selection = false}).blocks_read());
  }
}

TEST_CASE("kept plans are those of their codec, direction and options, and each is made once") {
  std::set<const TransitionPlan*> kept;
  for (const char* layout : {"srs", "ers-1", "ers-2"}) {
    const Codec& codec = codec_of(layout, 4, 2, 5);
    for (const Direction direction : kDirections) {
      for (const TransitionOptions& options : kAllOptions) {
        const auto plan = transition_plan_for(codec, direction, options);
        REQUIRE(plan);
        CHECK(transition_plan_for(codec, direction, options) == *plan);
        kept.insert(*plan);
        const TransitionPlan made = plan_of(codec, direction, options);
        CHECK((*plan)->direction == direction);
        CHECK((*plan)->data_blocks == made.data_blocks);
        CHECK((*plan)->old_codewords == made.old_codewords);
        CHECK((*plan)->deltas == made.deltas);
      }
    }
  }
  CHECK(kept.size() == 3 * 2 * 4);
  CHECK(!transition_plan_for(codec_of("rs:4,2"), Direction::kForward));
}

TEST_CASE("rs and rep have no transition") {
  for (const char* scheme : {"rs:4,2", "rep:3"}) {
    for (const Direction direction : kDirections) {
      const auto plan = transition_plan(codec_of(scheme), direction);
      REQUIRE(!plan);
      CHECK(plan.error() == std::string(scheme) + " has only one state");
    }
  }
}

}  // namespace elastripe::coding
