// The audit's search for what nothing refers to.
#include <algorithm>
#include <set>

#include "proxy/base/check.h"
#include "proxy/ops/shards.h"
#include "server-patches/node/engine/item_formats.h"
#include "tests/sim/audit.h"

using namespace elastripe::objects;

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

using Names = std::set<std::string>;  // encoded

template <class Visit>
void for_each_item(node::ArenaStore& store, Visit visit) {
  uint64_t cursor = 0;
  do {
    cursor = store.walk(cursor, [&](const node::ItemRef& item) {
      visit(item);
      return true;
    });
  } while (cursor != 0);
}

template <class Visit>
void for_each_item(node::ArenaStore& store, char tag, Visit visit) {
  for_each_item(store, [&](const node::ItemRef& item) {
    if (store.key(item)[0] == tag) visit(item);
  });
}

// Adds the shards that the record of an item refers to.
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

void Audit::wait_for_reclaim() {
  run_.trace.add("-- wait for reclaim");
  std::string leak;
  for (int tries = 0; tries < 3; ++tries) {
    run_.let_pass(seconds(8));
    const auto found = run_.finish(look_for_leaks(), seconds(30));
    CHECK(found.has_value(), "the search for leaks does not end");
    leak = *found;
    if (leak.empty()) return;
  }
  run_.violation(Fault::kLeak, leak);
}

void Audit::find_old_orphans(Duration limit) {
  const auto limit_ms =
      static_cast<uint64_t>(std::chrono::duration_cast<milliseconds>(limit).count());
  Names wanted;
  for (size_t id = 0; id < cluster_.nodes(); ++id) {
    SimNode& node = cluster_.node(id);
    if (!node.is_up()) continue;
    for_each_item(node.store(), node::kRecordTag,
                  [&](const node::ItemRef& item) { add_names(node.store(), item, wanted); });
  }
  for (size_t id = 0; id < cluster_.nodes(); ++id) {
    SimNode& node = cluster_.node(id);
    if (!node.is_up()) continue;
    for_each_item(node.store(), node::kShardTag, [&](const node::ItemRef& item) {
      const auto shard = node::read_shard_item(node.store(), item);
      if (!shard || wanted.contains(std::string(node.store().key(item).substr(1)))) return;
      const uint64_t age_ms = node.boottime_ms() - shard->written_ms;
      if (age_ms <= limit_ms) return;
      run_.violation(
          Fault::kLeak,
          fmt::format("while clients write, node {} keeps shard ..{:x}/{}.{} of {}, which no "
                      "record refers to, for {} ms",
                      id, shard->header.name.txid.lo & 0xffffff, shard->header.name.segment,
                      shard->header.name.index, shard->header.key, age_ms));
    });
  }
}

void Audit::check_memory() {
  const ProxyMemory& whole = run_.scenario.cluster.proxy_memory;
  const ReadBudget unused(whole.read_bytes, whole.read_bytes);
  for (const auto& proxy : cluster_.proxies()) {
    const OpsContext& ops = proxy->ops();
    const uint64_t staged = whole.staged_bytes - ops.memory.staged.free();
    const uint64_t early = unused.early.free() - ops.memory.read.early.free();
    const uint64_t in_turn = unused.in_turn.free() - ops.memory.read.in_turn.free();
    if (!proxy->is_alive() || staged + early + in_turn == 0) continue;
    run_.violation(Fault::kStuck,
                   fmt::format("proxy {} is quiet, and keeps {} staged bytes, {} and {} of reads",
                               proxy->id(), staged, early, in_turn));
  }
}

std::string Audit::what_is_kept() {
  const node::MapPtr map =
      cluster_.decider() == nullptr ? nullptr : cluster_.decider()->map().current();
  if (map == nullptr) return "nobody knows what";
  std::string kept;
  for (size_t id = 0; id < cluster_.nodes(); ++id) {
    node::ArenaStore& store = cluster_.node(id).store();
    for_each_item(store, [&](const node::ItemRef& item) {
      const bool is_shard = store.key(item)[0] == node::kShardTag;
      const std::string_view key = store.key(item).substr(1);
      const auto& homes = map->partitions[map->partition_of(key)].homes;
      const bool is_home = std::ranges::find(homes, id) != homes.end();
      if (!is_shard && !is_home) return;
      kept = fmt::format("node {} keeps {} bytes of {}", id, store.value_bytes(item),
                         is_shard ? "a shard" : key);
    });
  }
  return kept;
}

Task<std::string> Audit::look_for_leaks() {
  SimProxy* proxy = cluster_.decider();
  std::set<std::pair<node::NodeId, std::string>> wanted;  // (node, encoded shard name)
  for (int key = 0; proxy != nullptr && key < run_.scenario.workload.keys; ++key) {
    auto report = co_await inspect_object(proxy->ops(), clients_.key_name(key),
                                          run_.clock.now() + kRequestTimeout);
    if (!report) co_return "a record can not be read: " + to_string(report.error());
    if (report->record == nullptr) continue;
    for (size_t i = 0; i < report->segments.size(); ++i) {
      check_missing(clients_.key_name(key), *report->record, i, report->segments[i].missing);
    }
    for (const node::Segment& segment : report->record->content.segments) {
      for (size_t index = 0; index < segment.placement.size(); ++index) {
        if (segment.placement[index] == kNoNode) continue;
        std::string name;
        node::encode(shard_name(segment, report->record->content.scheme, index), name);
        wanted.insert({segment.placement[index], std::move(name)});
      }
    }
  }
  std::string leak;
  for (size_t id = 0; id < cluster_.nodes(); ++id) {
    if (!cluster_.node(id).is_up()) continue;
    node::ArenaStore& store = cluster_.node(id).store();
    for_each_item(store, node::kShardTag, [&](const node::ItemRef& item) {
      const std::string_view encoded = store.key(item).substr(1);
      if (wanted.contains({static_cast<node::NodeId>(id), std::string(encoded)})) return;
      node::Reader reader(node::as_view(encoded));
      const node::ShardName name = node::decode_name(reader);
      leak = fmt::format("node {} keeps shard ..{:x}/{}.{} that no record refers to", id,
                         name.txid.lo & 0xffffff, name.segment, name.index);
    });
  }
  co_return leak;
}

}  // namespace elastripe::sim
