#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tools/bench/rows.h"

namespace elastripe::bench {
namespace {

const Rows kRows{{{"server", "a"}, {"depth", 1}, {"rate", quartiles({10, 20, 30})}, {"us", 1.234}},
                 {{"server", "b"}, {"depth", 1}, {"rate", quartiles({5, 40, 15})}},
                 {{"server", "a"}, {"depth", 16}, {"rate", quartiles({100})}, {"us", 5.0}}};

}  // namespace

TEST_CASE("a pattern is filled with strings, numbers and spreads, and nothing where nothing is") {
  CHECK(fill("{server}, depth {depth}", kRows[0]) == "a, depth 1");
  CHECK(fill("{rate} {rate .1}", kRows[0]) == "20 (15-25) 20.0 (15.0-25.0)");
  CHECK(fill("<{us .2}> <{rate/q1}>", kRows[0]) == "<1.23> <15>");
  CHECK(fill("<{us .2}>", kRows[1]) == "<>");
  CHECK(fill("{size bytes}, {net rate}", {{"size", 64 << 10}, {"net", 500'000'000}}) ==
        "64 KiB, 500 Mbit/s");
}

TEST_CASE("a quantile lies between two samples by proportion") {
  CHECK(quantile({}, 0.5) == 0);
  CHECK(quantile({30, 10, 20}, 0.5) == 20);
  CHECK(quantile({30, 10, 20}, 0.75) == 25);
  CHECK(quantile({30, 10, 20}, 1) == 30);
}

TEST_CASE("rows are found by their labels") {
  CHECK(where(kRows, {{"server", "a"}}).size() == 2);
  CHECK(*find(kRows, {{"server", "a"}, {"depth", 16}}) == kRows[2]);
  CHECK(find(kRows, {{"server", "c"}}) == nullptr);
}

TEST_CASE(
    "samples of the same rounds are compared by the median of their ratios, others as they are") {
  Rows rows = kRows;
  compare(rows, "over_b", "rate", {"depth"}, {{"server", "b"}});
  CHECK(number(rows[0], "over_b") == 2);  // of 2, 0.5 and 2; of the medians it would be 1.33
  CHECK(number(rows[1], "over_b") == 1);
  CHECK_FALSE(rows[2].contains("over_b"));
  CHECK(ratio(kRows[2], kRows[0], "us") == Approx(5 / 1.234));
}

TEST_CASE("rows that differ in one label stand side by side") {
  const Rows wide = side_by_side(kRows, {"depth"}, "server");
  REQUIRE(wide.size() == 2);
  CHECK(number(wide[0], "a/rate") == 20);
  CHECK(number(wide[0], "b/rate") == 15);
  CHECK(number(wide[1], "a/rate") == 100);
  CHECK(member(wide[1], "b").is_null());
}

TEST_CASE("a table has a column for each of its description, and a line for each row") {
  CHECK(table_of("text", "server | x = us .1 | = {server}{depth}", kRows) ==
        "text\n\n| server | x |  |\n|---|---|---|\n"
        "| a | 1.2 | a1 |\n| b |  | b1 |\n| a | 5.0 | a16 |\n\n");
}

}  // namespace elastripe::bench
