#include <numeric>
#include <set>

#include "coding/layout.h"
#include "tests/unit/coding/support.h"

namespace elastripe::coding {
namespace {

constexpr LayoutKind kElastic[] = {LayoutKind::kSrs, LayoutKind::kErs1, LayoutKind::kErs2};

template <typename Visit>
void for_each_layout(int most, Visit visit) {
  for (const LayoutKind kind : kElastic) {
    for (int k_prime = 2; k_prime <= most; ++k_prime) {
      for (int k = 1; k < k_prime; ++k) {
        const Scheme scheme{kind, static_cast<uint8_t>(k), 1, static_cast<uint8_t>(k_prime)};
        if (!validate(scheme)) continue;
        visit(scheme, Layout(scheme));
      }
    }
  }
}

}  // namespace

TEST_CASE("every stripe and every row has its blocks on distinct nodes") {
  for_each_layout(40, [](const Scheme& scheme, const Layout& layout) {
    INFO(to_string(scheme));
    for (const State state : {State::kNarrow, State::kWide}) {
      bool distinct = true;
      for (int c = 0; c < layout.codewords(state); ++c) {
        std::set<int> nodes;
        for (const uint16_t b : layout.codeword_blocks(state, c)) nodes.insert(layout.node_of(b));
        distinct &= nodes.size() == layout.codeword_blocks(state, c).size();
      }
      CHECK(distinct);
    }
  });
}

TEST_CASE("stripes, rows and shards each hold every block once, where the block says it is") {
  for_each_layout(20, [](const Scheme& scheme, const Layout& layout) {
    INFO(to_string(scheme));
    REQUIRE(layout.blocks() == std::lcm(layout.k(), layout.k_prime()));
    bool agree = true;
    int seen = 0;
    for (int i = 0; i < layout.stripes(); ++i) {
      const auto blocks = layout.stripe_blocks(i);
      for (int p = 0; p < layout.k(); ++p, ++seen) {
        const int b = blocks[static_cast<size_t>(p)];
        agree &= layout.stripe_of(b) == i && layout.position_of(b) == p;
      }
    }
    for (int i = 0; i < layout.rows(); ++i) {
      const auto blocks = layout.row_blocks(i);
      for (int node = 0; node < layout.k_prime(); ++node, ++seen) {
        const int b = blocks[static_cast<size_t>(node)];
        agree &= layout.row_of(b) == i && layout.node_of(b) == node;
        agree &= layout.shard_blocks(node)[static_cast<size_t>(i)] == b;
      }
    }
    CHECK(agree);
    CHECK(seen == 2 * layout.blocks());
  });
}

TEST_CASE("overlaps of a stripe with all rows are its blocks") {
  for_each_layout(14, [](const Scheme& scheme, const Layout& layout) {
    INFO(to_string(scheme));
    for (int i = 0; i < layout.stripes(); ++i) {
      std::multiset<uint16_t> joined;
      for (int t = 0; t < layout.rows(); ++t) {
        for (const uint16_t b : layout.overlap(i, t)) joined.insert(b);
      }
      const auto blocks = layout.stripe_blocks(i);
      CHECK(joined == std::multiset<uint16_t>(blocks.begin(), blocks.end()));
    }
  });
}

TEST_CASE("ers-2 keeps floor(k'/k) stripes within each row") {
  for_each_layout(20, [](const Scheme& scheme, const Layout& layout) {
    if (scheme.layout != LayoutKind::kErs2) return;
    INFO(to_string(scheme));
    int within = 0;
    for (int i = 0; i < layout.stripes(); ++i) {
      const int row = layout.row_of(layout.stripe_blocks(i)[0]);
      within += layout.overlap(i, row).size() == static_cast<size_t>(layout.k()) ? 1 : 0;
    }
    CHECK(within >= layout.k_prime() / layout.k() * layout.rows());
  });
}

TEST_CASE("rs has one stripe that is its one row") {
  const Layout layout(Scheme{LayoutKind::kRs, 6, 3, 6});
  CHECK(layout.blocks() == 6);
  CHECK(layout.stripes() == 1);
  CHECK(layout.rows() == 1);
  for (int b = 0; b < 6; ++b) CHECK(layout.node_of(b) == b);
}

}  // namespace elastripe::coding
