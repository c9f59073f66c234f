// Records, maps and shards to begin with. No fuzzer would guess a checksum: inputs are without them
// ("bare"), and get them before they are tried ("sealed").
#pragma once

#include <array>
#include <string>

#include "server-patches/node/format/crc32c.h"
#include "server-patches/node/format/map_changes.h"
#include "server-patches/node/format/messages.h"

namespace elastripe::node {

template <class Message>
std::string encoded(const Message& message) {
  std::string bytes;
  encode(message, bytes);
  return bytes;
}
template <class Header>
std::string encoded_header(const Header& header) {
  std::array<std::byte, kHeaderBytes> bytes;
  encode(header, bytes);
  return std::string(as_text(bytes));
}

inline std::string sealed_content(ByteView bare) {
  std::string sealed;
  Writer(sealed).u32(crc32c(bare));
  sealed.append(as_text(bare));
  return sealed;
}
inline std::string bare_content(const RecordContent& content) {
  return encoded(content).substr(sizeof(uint32_t));
}

// Where the length of a meta's tail stands; 0 if `bare` is too short for it.
inline size_t meta_tail_at(ByteView bare) {
  constexpr size_t kAttemptsAt = 24;
  if (bare.size() <= kAttemptsAt) return 0;
  const size_t at = kAttemptsAt + 1 + kAttemptBytes * static_cast<size_t>(bare[kAttemptsAt]);
  return at < bare.size() ? at : 0;
}
// The size of a meta, without its checksum; 0 if `bare` is too short for it.
inline size_t bare_meta_bytes(ByteView bare) {
  const size_t tail_at = meta_tail_at(bare);
  if (tail_at == 0) return 0;
  const size_t bytes = tail_at + 1 + static_cast<size_t>(bare[tail_at]);
  return bytes <= bare.size() ? bytes : 0;
}
// A meta and a content; anything else stays as it is.
inline std::string sealed_record(ByteView bare) {
  const size_t meta_bytes = bare_meta_bytes(bare);
  std::string sealed(as_text(bare.first(meta_bytes)));
  if (meta_bytes == 0) return std::string(as_text(bare));
  Writer(sealed).u32(crc32c(bare.first(meta_bytes)));
  return sealed + sealed_content(bare.subspan(meta_bytes));
}
inline std::string bare_record(const Record& record) {
  const std::string meta = encoded(record.meta);
  return meta.substr(0, meta.size() - sizeof(uint32_t)) + bare_content(record.content);
}
// As a later program would write it, with fields that are not known here.
inline std::string grown_record(Record record) {
  record.content.cas = 1;  // so that all fields that are known here stand before them
  std::string bare = encoded(record.meta);
  bare.resize(bare.size() - sizeof(uint32_t) - 1);
  Writer(bare).u8(5);
  return bare + "later" + bare_content(record.content) + "later";
}

inline std::string sealed_map(ByteView bare) {
  std::string sealed;
  Writer(sealed).u64(hash_key(as_text(bare)));
  return sealed.append(as_text(bare));
}
inline std::string bare_map(const ClusterMap& map) { return encoded(map).substr(sizeof(uint64_t)); }

inline Record inline_record(uint64_t version, std::string value) {
  Record record;
  record.meta.version = record.meta.value_version = version;
  record.meta.recent = {{version, {2, version}}};
  record.content.kind = RecordKind::kInline;
  record.content.size = value.size();
  record.content.value = std::move(value);
  return record;
}

inline Record striped_record(uint64_t version) {
  Record record = inline_record(version, "");
  record.content.kind = RecordKind::kStriped;
  record.content.scheme = {.layout = coding::LayoutKind::kRs, .k = 2, .m = 1, .k_prime = 2};
  record.content.size = 100;
  Segment segment;
  segment.data_txid = {7, 8};
  segment.length = 100;
  segment.block_bytes = 64;
  segment.placement = {0, 1, 2};
  name_moved_shard(segment, 0, {9, 10});
  name_moved_shard(segment, 2, {11, 12});
  segment.folded_lsn = 5;
  record.content.segments = {segment};
  return record;
}

inline Record tombstone(uint64_t version) {
  Record record = inline_record(version, "");
  record.content = {};
  return record;
}

// That of the record of that version.
inline LogImage sample_log(uint64_t version) {
  LogImage log{.value = version,
               .last = version + 4,
               .rank = version + 5,
               .settled_to = version + 2,
               .reach = version,
               .recent = {},
               .settled = {},
               .unsettled = {},
               .unnumbered = {{{3, 9}, 0, 7, crc32c(as_view("waits")), "waits"}}};
  for (uint64_t i = 1; i <= 4; ++i) log.recent.push_back({{3, i}, version + i});
  log.settled = {{{}, version + 2, 10, crc32c(as_view("two")), "two"},
                 {{}, version + 1, 13, crc32c(as_view("e")), "e"}};
  log.unsettled = {{{3, 3}, version + 3, 11, crc32c(as_view("three")), "three"},
                   {{3, 4}, version + 4, 90, crc32c(as_view("four")), "four"}};
  return log;
}

inline ShardHeader sample_shard() {
  return {.name = {{7, 8}, 0, 1, 2}, .key = "key", .payload_bytes = 64, .vector_a = {0}};
}

// Node 0 is the tail of partition 0, the head of 1, a home of 2, which is to be synced, and of 3,
// which is LOST.
inline ClusterMap sample_map() {
  constexpr uint64_t kIncarnation = 5;
  ClusterMap map;
  map.cluster_id = 1;
  map.epoch = {.number = 1, .decider = 1, .map_hash = 0};
  map.version_floor = uint64_t{1} << kCounterBits;
  map.flush_floor = 3;
  map.max_parities = 2;
  for (NodeId id = 0; id < 3; ++id) {
    map.nodes.push_back({.id = id,
                         .name = "n" + std::to_string(id),
                         .host = "h",
                         .port = 1,
                         .domain = "d" + std::to_string(id),
                         .incarnation = kIncarnation + id,
                         .state = NodeState::kUp});
  }
  map.partitions.resize(4);
  map.partitions[0].homes = {0, 1, 2};
  for (size_t p = 1; p < 4; ++p) map.partitions[p].homes = {1, 2, 0};
  map.partitions[0].synced = map.partitions[1].synced = true;
  map.partitions[2].sources = {{0, 1}};
  map.partitions[3].lost = true;
  map.capabilities = own_capabilities();
  map.settings = {.version = 3,
                  .heartbeat_ms = 100,
                  .suspect_after_ms = 1000,
                  .lease_ms = 3000,
                  .longest_lease_ms = 6000,
                  .refused_is_dead = true,
                  .text = "pools: []"};
  seal(map);
  return map;
}

// The map after it, in which most kinds of things have changed.
inline ClusterMap next_sample_map() {
  ClusterMap map = sample_map();
  map.base = map.epoch;
  ++map.epoch.number;
  map.version_floor <<= 1;
  map.nodes[1].state = NodeState::kSuspect;
  map.nodes.push_back(map.nodes[2]);
  map.nodes.back().id = 3;
  map.partitions[0].homes = {0, 2};
  map.partitions[1].sources = {{0, 1}, {2}};
  map.settings.text = "pools: [] ";
  seal(map);
  return map;
}

// Changes without the hash of the map that they are of, which comes first.
inline std::string sealed_changes(uint64_t base_hash, ByteView bare) {
  std::string sealed;
  Writer(sealed).u64(base_hash);
  return sealed.append(as_text(bare));
}
inline std::string bare_changes(const ClusterMap& base, const ClusterMap& next) {
  return changes_between(base, next).value().substr(sizeof(uint64_t));
}

}  // namespace elastripe::node
