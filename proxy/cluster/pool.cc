#include "proxy/cluster/pool.h"

#include <algorithm>

#include "proxy/base/check.h"

namespace elastripe {

PoolTable::PoolTable(std::vector<Pool> pools) { replace(std::move(pools)); }

void PoolTable::replace(std::vector<Pool> pools) {
  // Prefixes are distinct, so ties only order the same way everywhere.
  std::ranges::sort(pools, [](const Pool& a, const Pool& b) {
    return a.prefix.size() != b.prefix.size() ? a.prefix.size() > b.prefix.size()
                                              : a.prefix < b.prefix;
  });
  CHECK(!pools.empty() && pools.back().prefix.empty(), "there is no default pool");
  if (versions_.empty() || pools != versions_.back()) versions_.push_back(std::move(pools));
}

const Pool& PoolTable::pool_of(std::string_view key) const {
  // The last one has the empty prefix, so there is always one.
  return *std::ranges::find_if(pools(),
                               [&](const Pool& pool) { return key.starts_with(pool.prefix); });
}

int PoolTable::max_parities() const {
  int most = 0;
  for (const Pool& pool : pools()) most = std::max<int>(most, pool.scheme.m);
  return most;
}

}  // namespace elastripe
