#include "proxy/cluster/pool.h"

#include <algorithm>

#include "proxy/base/check.h"

namespace elastripe {

PoolTable::PoolTable(std::vector<Pool> pools) : pools_(std::move(pools)) {
  // Prefixes are distinct, so ties only order the same way everywhere.
  std::ranges::sort(pools_, [](const Pool& a, const Pool& b) {
    return a.prefix.size() != b.prefix.size() ? a.prefix.size() > b.prefix.size()
                                              : a.prefix < b.prefix;
  });
  CHECK(!pools_.empty() && pools_.back().prefix.empty(), "there is no default pool");
}

const Pool& PoolTable::pool_of(std::string_view key) const {
  // The last one has the empty prefix, so there is always one.
  return *std::ranges::find_if(pools_,
                               [&](const Pool& pool) { return key.starts_with(pool.prefix); });
}

int PoolTable::max_parities() const {
  int most = 0;
  for (const Pool& pool : pools_) most = std::max<int>(most, pool.scheme.m);
  return most;
}

}  // namespace elastripe
