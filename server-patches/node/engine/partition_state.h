// What a node knows of one partition. docs/node-protocol.md, "Synced".
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace elastripe::node {

// For sets of keys in which views are looked up.
struct KeyHash {
  using is_transparent = void;
  size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
};

// "Synced": what the node knows of one partition. Changes under the exclusive gate, but for what is
// atomic or under the mutex.
struct PartitionState {
  std::atomic<bool> synced = false;
  bool lost = false;
  std::atomic<uint32_t> tenure = 0;  // older records are forgotten
  std::atomic<uint64_t> floor = 0;
  // The version_floor of the newest map under which the partition had to be synced: LSNs are above
  // it, and so above all that a home which is gone may have given.
  uint64_t sync_floor = 0;
  uint32_t sync_epoch = 0;  // of the newest map that did not say that the partition is synced
  // The sync_epoch under which the node was a synced home of the partition last: it has missed
  // nothing of what came between that sync and the next. Who stays synced under a map that asks for
  // a sync keeps the one before until that is complete.
  std::atomic<uint32_t> synced_in = 0;
  std::mutex mutex;
  using Keys = std::unordered_set<std::string, KeyHash, std::equal_to<>>;
  // Keys that were synced by themselves and have no record; the others say it in their items.
  // Guarded by mutex; while not synced as a whole.
  Keys absent_keys;
  // Whose copy here was found damaged, with the highest version that it can have had, until sync
  // has marked them or a later commit took its place: what was stored meanwhile may not be the
  // newest. Guarded by mutex; has_damaged: there are any.
  std::unordered_map<std::string, uint64_t, KeyHash, std::equal_to<>> damaged_keys;
  std::atomic<bool> has_damaged = false;
};

}  // namespace elastripe::node
