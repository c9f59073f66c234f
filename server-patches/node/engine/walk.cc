#include "server-patches/node/engine/walk.h"

#include <algorithm>

#include "server-patches/node/format/cluster_map.h"

namespace elastripe::node {

uint64_t visit_bucket(const ItemStore& store, const std::vector<ItemRef>& items, uint64_t cursor,
                      const std::function<bool(const ItemRef&)>& visit) {
  const uint64_t first = cursor_of_bucket(bucket_of_cursor(cursor));
  const uint64_t next = cursor_of_bucket(bucket_of_cursor(cursor) + 1);
  if (items.size() == 1 && cursor == first) {  // as most buckets are
    visit(items.front());
    return next;
  }
  std::vector<std::pair<uint64_t, const ItemRef*>> places;
  for (const ItemRef& item : items) {
    const uint64_t place = first + (hash_key(store.key(item)) >> (64 - kPlaceBits));
    if (place >= cursor) places.emplace_back(place, &item);
  }
  std::ranges::sort(places);
  for (size_t i = 0; i < places.size();) {
    const uint64_t place = places[i].first;
    bool go_on = true;
    for (; i < places.size() && places[i].first == place; ++i) {
      go_on = visit(*places[i].second) && go_on;
    }
    if (!go_on && i < places.size()) return place + 1;
  }
  return next;
}

}  // namespace elastripe::node
