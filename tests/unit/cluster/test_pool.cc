#include <catch2/catch.hpp>

#include "proxy/cluster/pool.h"

namespace elastripe {
namespace {

Pool pool(std::string prefix, uint8_t m) {
  return {.prefix = std::move(prefix), .scheme = {coding::LayoutKind::kErs2, 4, m, 5}};
}

TEST_CASE("a key is in the pool with its longest prefix") {
  const PoolTable table({pool("a", 2), pool("", 1), pool("ab", 3)});
  CHECK(table.pool_of("b").scheme.m == 1);
  CHECK(table.pool_of("a").scheme.m == 2);
  CHECK(table.pool_of("abc").scheme.m == 3);
  CHECK(table.max_parities() == 3);
}

TEST_CASE("pools that are replaced live on for those who refer to them") {
  PoolTable table({pool("", 1), pool("a", 2)});
  const Pool& before = table.pool_of("a");
  table.replace({pool("", 3)});
  CHECK(table.pool_of("a").scheme.m == 3);
  CHECK(table.max_parities() == 3);
  CHECK(before == pool("a", 2));
  const Pool& now = table.pool_of("a");
  table.replace({pool("", 3)});  // the same again
  CHECK(&table.pool_of("a") == &now);
}

}  // namespace
}  // namespace elastripe
