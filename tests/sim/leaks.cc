// World's search for what nothing refers to, while clients go on writing.
#include <set>

#include "proxy/ops/reclaim.h"
#include "proxy/ops/shards.h"
#include "server-patches/node/engine/item_formats.h"
#include "tests/sim/world_internal.h"

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// All is well: reclaim has so long for what was abandoned or superseded, beside their graces.
constexpr Duration kReclaimTime = seconds(3);

using Names = std::set<std::string>;  // encoded

template <class Visit>
void for_each_item(node::ArenaStore& store, char tag, Visit visit) {
  uint64_t cursor = 0;
  do {
    cursor = store.walk(cursor, [&](const node::ItemRef& item) {
      if (store.key(item)[0] == tag) visit(item);
      return true;
    });
  } while (cursor != 0);
}

// Of the shards that the record of an item refers to.
void add_names(node::ArenaStore& store, const node::ItemRef& item, Names& names) {
  std::string bytes(node::read_record_prefix(store, item).record_bytes, '\0');
  store.read(item, node::kRecordPrefixBytes, std::as_writable_bytes(std::span(bytes)));
  const auto record = node::decode_record(node::as_view(bytes));
  if (!record || record->content.kind != node::RecordKind::kStriped) return;
  for (const node::Segment& segment : record->content.segments) {
    for (size_t index = 0; index < segment.placement.size(); ++index) {
      std::string name;
      node::encode(shard_name(segment, record->content.scheme, index), name);
      names.insert(std::move(name));
    }
  }
}

}  // namespace

// Clients write the same keys again and again, so that none is ever quiet; what was left behind
// before is collected all the same.
void World::write_on() {
  trace_.add("-- write on");
  const auto abandoned = kAbandonedAfter * scenario_.upload_idle;
  const auto limit = abandoned + 2 * scenario_.read_grace + kReclaimTime;
  stop_at_ = events_.now() + limit + seconds(1);
  start_clients(1'000'000);
  run_until(limit + seconds(1), [] { return false; });
  if (is_settled()) find_old_orphans(limit);
  if (!run_until(kHealLimit, [this] { return clients_left_ == 0; })) {
    violation(Fault::kStuck, "a client's operation does not end");
  }
}

// Shards that were written longer ago than that, and that no record of any node refers to.
void World::find_old_orphans(Duration limit) {
  const auto limit_ms =
      static_cast<uint64_t>(std::chrono::duration_cast<milliseconds>(limit).count());
  Names wanted;
  for (size_t id = 0; id < network_.nodes(); ++id) {
    SimNode& node = network_.node(id);
    if (!node.is_up()) continue;
    for_each_item(node.store(), node::kRecordTag,
                  [&](const node::ItemRef& item) { add_names(node.store(), item, wanted); });
  }
  for (size_t id = 0; id < network_.nodes(); ++id) {
    SimNode& node = network_.node(id);
    if (!node.is_up()) continue;
    for_each_item(node.store(), node::kShardTag, [&](const node::ItemRef& item) {
      const auto shard = node::read_shard_item(node.store(), item);
      if (!shard || wanted.contains(std::string(node.store().key(item).substr(1)))) return;
      const uint64_t age_ms = node.boottime_ms() - shard->written_ms;
      if (age_ms <= limit_ms) return;
      violation(Fault::kLeak,
                fmt::format("while clients write, node {} keeps shard ..{:x}/{}.{} of {}, which no "
                            "record refers to, for {} ms",
                            id, shard->header.name.txid.lo & 0xffffff, shard->header.name.segment,
                            shard->header.name.index, shard->header.key, age_ms));
    });
  }
}

}  // namespace elastripe::sim
