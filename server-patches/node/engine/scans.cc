// Walks over everything that is stored: scans of records and shards, and forgetting.
// docs/node-protocol.md, "RECORD_SCAN", "SHARD_SCAN", "Synced".
#include <algorithm>

#include "server-patches/node/engine/impl.h"

namespace elastripe::node {
namespace {

// With room for the floors of all partitions, and to name all as unsynced.
constexpr size_t kMaxSliceBytes = kMaxBodyBytes - (2u << 20);
constexpr size_t kDeletedPerTick = 8192;

bool has_bit(const std::vector<uint8_t>& bits, size_t index) {
  return index / 8 < bits.size() && (bits[index / 8] >> (index % 8) & 1) != 0;
}

// The bits must not go on behind the last partition.
bool names_partitions_of(const ClusterMap& map, const std::vector<uint8_t>& bits) {
  const size_t count = map.partitions.size();
  if (bits.size() > (count + 7) / 8) return false;
  for (size_t p = count; p < bits.size() * 8; ++p) {
    if (has_bit(bits, p)) return false;
  }
  return true;
}

// Whether a scan that is restricted to kinds of records returns this one.
bool is_wanted(const RecordScanRequest& request, const Record& record, uint32_t age_s,
               uint64_t now_ms, uint64_t flush_floor) {
  const bool is_dead = record.is_as_good_as_tombstone(now_ms, flush_floor);
  // To collect what was flushed, no clock has to be believed.
  const bool is_flushed = !record.is_tombstone() && record.is_flushed(flush_floor);
  const bool is_expired = !record.is_tombstone() && record.is_expired(now_ms);
  const bool is_asked = (request.tombstones_only && (record.is_tombstone() || is_flushed)) ||
                        (request.expired_only && (is_expired || is_flushed));
  if (is_dead) return is_asked && age_s >= request.min_age_s;
  return record.is_striped() && (request.striped_only || is_asked);
}

// The object's key, if the item is a record's.
std::optional<std::string_view> record_key(const ItemStore& store, const ItemRef& item) {
  const std::string_view key = store.key(item);
  if (key.empty() || key.front() != kRecordTag) return std::nullopt;
  return key.substr(1);
}

// As encoded, without the key's bytes.
constexpr size_t kVersionBytes = 28;

// Nothing if the record is damaged.
std::optional<CommitName> last_commit(const ItemStore& store, const ItemRef& item,
                                      const RecordItemPrefix& prefix) {
  if (!prefix.is_intact) return std::nullopt;
  std::string bytes(prefix.record_bytes, '\0');
  store.read(item, kRecordPrefixBytes, std::as_writable_bytes(std::span(bytes)));
  if (!is_intact(as_view(bytes))) return std::nullopt;
  Reader in(as_view(bytes));
  const auto meta = decode_meta(in);
  if (!meta) return std::nullopt;
  const Id128 attempt = meta->recent.empty() ? Id128{} : meta->recent.back().attempt_id;
  return CommitName{meta->version, attempt};
}

// An inline record without its value.
void strip_value(std::string& encoded) {
  auto record = decode_record(as_view(encoded));
  if (!record || record->content.kind != RecordKind::kInline) return;
  record->content.value.clear();
  record->content.size = 0;
  encoded.clear();
  encode(*record, encoded);
}

}  // namespace

Answer Engine::Impl::record_scan(const Context& c, const RecordScanRequest& request) {
  if (!names_partitions_of(c.map, request.partitions)) {
    return refuse(Status::kInvalid, "no such partition");
  }
  const size_t chosen_bits = request.partitions.size() * 8;
  for (size_t p = 0; p < chosen_bits; ++p) {
    if (!has_bit(request.partitions, p)) continue;
    const Partition& partition = c.map.partitions[p];
    if (!is_home(partition, c.self, partition.homes.size()) && !is_source(partition, c.self)) {
      return refuse(Status::kNotHome, "the node is neither home nor source of a partition");
    }
  }
  const ScanLimits& limits = options_.scan;
  const bool selective = request.tombstones_only || request.expired_only || request.striped_only;
  const auto now_s = static_cast<uint32_t>(c.now_ms / 1000);
  const size_t budget = std::clamp<size_t>(request.max_bytes, 1, limits.record_bytes);
  RecordScanReply reply;
  // Told before the first record is read: what becomes synced later may have been missed.
  for (size_t p = 0; request.cursor == 0 && p < chosen_bits; ++p) {
    if (!has_bit(request.partitions, p) || partitions_[p].synced || partitions_[p].lost) continue;
    reply.unsynced.push_back(static_cast<uint32_t>(p));
  }
  size_t bytes = 0;
  const auto has_room = [&](size_t more) {
    return bytes < budget && bytes + more <= kMaxSliceBytes;
  };
  const auto visit = [&](const ItemRef& item) {
    const auto key = record_key(store_, item);
    if (!key) return true;
    const size_t partition = c.map.partition_of(*key);
    if (!has_bit(request.partitions, partition)) return true;
    if (!key->starts_with(request.prefix)) return true;
    const RecordItemPrefix prefix = read_record_prefix(store_, item);
    const bool forgotten = prefix.is_intact && prefix.tenure < partitions_[partition].tenure;
    if (request.versions_only) {
      if (forgotten && !is_confirmable(partition)) return true;
      const auto commit = last_commit(store_, item, prefix);
      if (!commit && forgotten) return true;
      if (!commit) note_damaged(partition, *key, highest_version(prefix));
      const bool damaged = !forgotten && is_damaged(partition, *key);
      reply.versions.push_back(
          {std::string(*key), commit.value_or(CommitName{}), forgotten, damaged});
      bytes += key->size() + kVersionBytes;
      return bytes < budget;
    }
    if (forgotten) return true;
    // What is too large to come with what was found before is named only.
    bool fits = has_room(prefix.record_bytes);
    bool damaged = !prefix.is_intact;
    std::string encoded;
    if (!damaged && (fits || selective || request.without_values)) {
      encoded.resize(prefix.record_bytes);
      store_.read(item, kRecordPrefixBytes, std::as_writable_bytes(std::span(encoded)));
      damaged = !node::is_intact(as_view(encoded));
    }
    // Nobody knows what it is: RECORD_READ gets it from other homes.
    if (damaged) {
      note_damaged(partition, *key, highest_version(prefix));
      fits = false;
    }
    if (selective && !damaged) {
      const uint32_t age_s = now_s - std::min(now_s, prefix.written_s);
      const auto record = decode_record(as_view(encoded));
      if (!record || !is_wanted(request, *record, age_s, c.frame.header.now_ms, c.map.flush_floor))
        return true;
    }
    if (request.without_values && !damaged) {
      strip_value(encoded);
      fits = has_room(encoded.size());
    }
    if (!fits) encoded.clear();
    bytes += key->size() + encoded.size();
    reply.records.push_back({std::string(*key), std::move(encoded)});
    return bytes < budget;
  };
  reply.cursor = request.cursor;
  for (size_t walk = 0; walk < limits.walks_per_frame && bytes < budget; ++walk) {
    reply.cursor = store_.walk(reply.cursor, visit);
    if (reply.cursor == 0) break;
  }
  for (ScannedVersion& scanned : reply.versions) {
    if (logs_.count() == 0) break;
    const size_t partition = c.map.partition_of(scanned.key);
    const Latch held = latch(hash_key(scanned.key));
    const Found found = find_record(partition, record_item_key(scanned.key), Trust::kPrefix);
    scanned.has_log = find_log(partition, scanned.key, found) != nullptr;
  }
  if (reply.cursor == 0) {
    // Read after the records: a tombstone that the walk missed because it was just collected lies
    // at or below them.
    for (size_t p = 0; p < c.map.partitions.size(); ++p) {
      if (!has_bit(request.partitions, p)) continue;
      reply.floors.emplace_back(static_cast<uint32_t>(p), partitions_[p].floor.load());
    }
  }
  return answer(Status::kOk, reply);
}

Answer Engine::Impl::shard_scan(const Context& c, const ShardScanRequest& request) {
  const ScanLimits& limits = options_.scan;
  if (!names_partitions_of(c.map, request.partitions)) {
    return refuse(Status::kInvalid, "no such partition");
  }
  const size_t budget = std::clamp<size_t>(request.max_entries, 1, limits.shards);
  ShardScanReply reply;
  if (counters_.shards == 0) return answer(Status::kOk, reply);  // all objects are inline
  const auto visit = [&](const ItemRef& item) {
    const std::string_view key = store_.key(item);
    if (key.empty() || key.front() != kShardTag) return true;
    auto shard = read_shard_item(store_, item);
    if (!shard) return true;
    const uint64_t age_ms = c.now_ms - std::min(c.now_ms, shard->written_ms);
    if (age_ms < request.min_age_ms) return true;
    if (!request.partitions.empty() &&
        !has_bit(request.partitions, c.map.partition_of(shard->header.key))) {
      return true;
    }
    if (deletions_.has(shard->header.name)) return true;
    reply.shards.push_back({.name = shard->header.name,
                            .key = std::move(shard->header.key),
                            .age_ms = age_ms,
                            .payload_bytes = shard->header.payload_bytes});
    return reply.shards.size() < budget;
  };
  reply.cursor = request.cursor;
  for (size_t walk = 0; walk < limits.walks_per_frame && reply.shards.size() < budget; ++walk) {
    reply.cursor = store_.walk(reply.cursor, visit);
    if (reply.cursor == 0) break;
  }
  return answer(Status::kOk, reply);
}

void Engine::Impl::tick() {
  delete_due_shards();
  survey_logs();
  fold_parities();
  // What was kept to be confirmed goes as well once room is short.
  if (std::exchange(keeps_confirmable_, has_room_for_forgotten()) && !keeps_confirmable_) {
    ++tenures_changed_;
  }
  for (size_t walk = 0; walk < options_.scan.walks_per_tick; ++walk) {
    if (forget_cursor_ == 0) forgets_ = tenures_changed_;
    if (forgets_ == forgotten_) return;
    if (forget_cursor_ == 0) forget_logs();
    forget_slice();
    if (forget_cursor_ == 0) forgotten_ = forgets_;
  }
}

void Engine::Impl::delete_due_shards() {
  const auto due = deletions_.take_due(clock_.boottime_ms(), kDeletedPerTick);
  if (due.empty()) return;
  const Progress::Stay stay(progress_, clock_.coarse_ms());
  std::shared_lock shared(gate_);
  for (const ShardName& name : due) delete_shard(name);
}

// The gate is free between slices: INSTALL_MAP waits for one at most.
void Engine::Impl::forget_slice() {
  const Progress::Stay stay(progress_, clock_.coarse_ms());
  std::shared_lock shared(gate_);
  const auto is_forgotten = [&](const ItemRef& item, std::string_view key) {
    const size_t partition = map_->partition_of(key);
    const RecordItemPrefix prefix = read_record_prefix(store_, item);
    if (!prefix.is_intact || prefix.tenure >= partitions_[partition].tenure) return false;
    return !keeps_confirmable_ || !is_confirmable(partition);
  };
  std::vector<std::string> keys;
  const uint64_t next = store_.walk(forget_cursor_, [&](const ItemRef& item) {
    const auto key = record_key(store_, item);
    if (key && is_forgotten(item, *key)) keys.emplace_back(*key);
    return true;
  });
  for (const std::string& key : keys) {
    const Latch held = latch(hash_key(key));
    const Found found = find_record(map_->partition_of(key), record_item_key(key));
    if (!found.item || !found.forgotten) continue;  // written anew meanwhile
    remove_record(record_item_key(key), found);
    ++counters_.forgotten;
  }
  forget_cursor_ = next;
}

}  // namespace elastripe::node
