// What sync asks of a node beside scans: to confirm the copies that it has from an older tenure,
// and for the records that others lack. docs/node-protocol.md, "Synced"; rule 3 of
// docs/consistency.md.
#include <algorithm>

#include "server-patches/node/engine/impl.h"

namespace elastripe::node {
namespace {

// Below this share of its memory a node forgets what it might confirm, rather than refuse what it
// lacks.
constexpr uint64_t kShareToKeep = 16;
constexpr size_t kMaxFetchBytes = 4u << 20;

}  // namespace

// It is to become synced here, so a source may have just these copies.
bool Engine::Impl::is_confirmable(size_t partition) const {
  const Partition& homes = map_->partitions[partition];
  const PartitionState& state = partitions_[partition];
  return self_ && !state.synced && !state.lost && is_home(homes, *self_, homes.homes.size());
}

bool Engine::Impl::has_room_for_forgotten() const {
  const ItemStore::Memory memory = store_.memory();
  return memory.free_bytes >= memory.limit_bytes / kShareToKeep;
}

// One commit has the same bytes wherever it is, so the copy is as good as one sent by the source. A
// version by itself is not enough: two heads that did not know of each other may both have
// assigned it.
bool Engine::Impl::confirm_latched(const Context& c, const RecordConfirmRequest::Entry& entry) {
  const size_t partition = c.map.partition_of(entry.key);
  const RecordItemKey item_key = record_item_key(entry.key);
  Found found = find_record(partition, item_key);
  if (!found.item || found.damaged) return false;
  if (!found.forgotten) return found.prefix.version >= entry.commit.version;
  // Where the key is synced all is known of it, and a forgotten copy is no part of that.
  if (!is_confirmable(partition) || knowledge(partition, entry.key, found) == Knowledge::kSynced) {
    return false;
  }
  const auto loaded = load_record(found);
  if (!loaded) return false;
  const RecordMeta& meta = loaded->record.meta;
  const Id128 attempt = meta.recent.empty() ? Id128{} : meta.recent.back().attempt_id;
  if (CommitName{meta.version, attempt} != entry.commit && !mutant(Mutant::kConfirmAny)) {
    return false;
  }
  if (!relink_record(c, partition, item_key, found, /*marks=*/false)) return false;
  raise(max_version_, meta.version);
  return true;
}

Answer Engine::Impl::record_confirm(const Context& c, const RecordConfirmRequest& request) {
  if (request.records.size() > kMaxListEntries) {
    return refuse(Status::kInvalid, "too many records");
  }
  for (const auto& entry : request.records) {
    const Partition& partition = c.map.partitions[c.map.partition_of(entry.key)];
    if (!is_home(partition, c.self, partition.homes.size())) {
      return refuse(Status::kNotHome, "the node is no home of a key");
    }
  }
  RecordConfirmReply reply;
  reply.held.resize((request.records.size() + 7) / 8);
  for (size_t i = 0; i < request.records.size(); ++i) {
    const auto& entry = request.records[i];
    const Latch held = latch(hash_key(entry.key));
    const bool is_held = confirm_latched(c, entry);
    // It is begun again when there may be room.
    if (c.room.is_awaited) return refuse(Status::kNoSpace, "no memory for the records");
    if (!is_held) continue;
    reply.held[i / 8] = static_cast<uint8_t>(reply.held[i / 8] | 1u << (i % 8));
  }
  return answer(Status::kOk, reply);
}

Answer Engine::Impl::record_fetch(const Context& c, const RecordFetchRequest& request) {
  if (request.keys.size() > kMaxListEntries) return refuse(Status::kInvalid, "too many keys");
  const size_t budget = std::clamp<size_t>(request.max_bytes, 1, kMaxFetchBytes);
  std::vector<Found> records;
  RecordFetchReply reply;
  size_t bytes = 0;
  for (const std::string& key : request.keys) {
    const size_t number = c.map.partition_of(key);
    const Partition& partition = c.map.partitions[number];
    if (!is_home(partition, c.self, partition.homes.size()) && !is_source(partition, c.self)) {
      return refuse(Status::kNotHome, "the node is neither home nor source of a key");
    }
    Found found;
    bool damaged = false;  // then what was stored since may not be the newest
    {
      const Latch held = latch(hash_key(key));
      found = find_record(number, record_item_key(key));
      damaged = is_damaged(number, key);
    }
    const uint32_t size = found.visible() && !damaged ? found.prefix.record_bytes : 0;
    if (bytes > 0 && bytes + size > budget) break;
    reply.sizes.push_back(size);
    bytes += size;
    if (size > 0) records.push_back(std::move(found));
  }
  OwnedBytes payload(bytes);
  size_t at = 0;
  for (const Found& found : records) {
    const size_t size = found.prefix.record_bytes;
    store_.read(found.item, kRecordPrefixBytes, payload.bytes().subspan(at, size));
    at += size;
  }
  return answer(Status::kOk, reply, std::move(payload));
}

}  // namespace elastripe::node
