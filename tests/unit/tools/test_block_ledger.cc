#include <catch2/catch.hpp>

#include "tools/bench/block_ledger.h"

namespace elastripe::bench {
namespace {

AnsweredUpdate update(BlockRun run, uint64_t revision, int sent_ms, int answered_ms) {
  using std::chrono::milliseconds;
  const std::chrono::steady_clock::time_point start;
  return {run, revision, start + milliseconds(sent_ms), start + milliseconds(answered_ms)};
}

}  // namespace

TEST_CASE("a block that nobody has updated is as it was stored") {
  BlockLedger ledger;
  ledger.add_load({{update({5, 1}, 1, 0, 1)}});
  CHECK(ledger.may_have(4, 0));
  CHECK_FALSE(ledger.may_have(4, 1));
  CHECK_FALSE(ledger.may_have(5, 0));
  CHECK(ledger.may_have(5, 1));
}

TEST_CASE("updates of a connection come into effect in their order") {
  BlockLedger ledger;
  // Both in flight at once.
  ledger.add_load({{update({0, 4}, 1, 0, 10), update({2, 4}, 2, 0, 11)}});
  CHECK(ledger.may_have(1, 1));
  CHECK_FALSE(ledger.may_have(2, 1));
  CHECK(ledger.may_have(2, 2));
  CHECK(ledger.may_have(5, 2));
}

TEST_CASE("of connections any update may be the last that no other was sent after") {
  BlockLedger ledger;
  ledger.add_load({{update({0, 1}, 1, 0, 10)}, {update({0, 1}, 2, 5, 20)}});
  CHECK(ledger.may_have(0, 1));
  CHECK(ledger.may_have(0, 2));
  BlockLedger later;
  later.add_load({{update({0, 1}, 1, 0, 10)}, {update({0, 1}, 2, 11, 20)}});
  CHECK_FALSE(later.may_have(0, 1));
  CHECK(later.may_have(0, 2));
}

TEST_CASE("a later load overwrites what it writes, and nothing else") {
  BlockLedger ledger;
  ledger.add_load({{update({0, 2}, 1, 0, 1)}});
  ledger.add_load({{update({1, 1}, 2, 0, 1)}});  // whatever the clock says
  CHECK(ledger.loads() == 2);
  CHECK(ledger.may_have(0, 1));
  CHECK(ledger.may_have(1, 2));
  CHECK_FALSE(ledger.may_have(1, 1));
}

}  // namespace elastripe::bench
