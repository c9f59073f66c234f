// Cursors of ItemStore::walk(), for those who implement it.
//
// A cursor is a bucket and a place in it. Within a bucket, items are visited in the order of a hash
// of their keys, not in that of the store's lists: so a key keeps its place although others of its
// bucket come, go and are replaced between two slices of a walk, and a walk can stop after any
// item, whatever the bucket holds.
#pragma once

#include <functional>
#include <vector>

#include "server-patches/node/store/item_store.h"

namespace elastripe::node {

inline constexpr int kPlaceBits = 36;  // of a cursor: the place; above them: the bucket
constexpr uint64_t bucket_of_cursor(uint64_t cursor) { return cursor >> kPlaceBits; }
constexpr uint64_t cursor_of_bucket(uint64_t bucket) { return bucket << kPlaceBits; }

// Visits those of a bucket's items whose place is at or behind the cursor, until `visit` returns
// false (items that share the place of the last one are visited all the same). Returns the cursor
// to go on from: of the next bucket, if none is left.
uint64_t visit_bucket(const ItemStore& store, const std::vector<ItemRef>& items, uint64_t cursor,
                      const std::function<bool(const ItemRef&)>& visit);

}  // namespace elastripe::node
