#include "server-patches/node/engine/brought_map.h"

#include "server-patches/node/format/messages.h"

namespace elastripe::node {
namespace {

// A decider's map is one above the last: a node that was away misses as many as were made
// meanwhile. So that one stray map does not use up all numbers.
constexpr uint64_t kMaxEpochStep = uint64_t{1} << 20;
constexpr uint64_t kMaxVersionFloor = uint64_t{1} << 62;

// Those that are short, so that a node does not keep a map twice.
KeptChanges keep_changes(const ClusterMap& before, const ChangedMap& now) {
  std::optional<std::string> changes = changes_between(before, now.map);
  if (!changes || changes->size() >= now.encoded.size() / 2) return {};
  return {before.epoch.map_hash, std::move(*changes)};
}

}  // namespace

Decoded<BroughtMap> read_map(const Frame& frame, MapPtr installed, CapabilitySet capabilities) {
  const auto request = decode<InstallMapRequest>(frame.args);
  if (!request) return std::unexpected(request.error());
  BroughtMap brought;
  brought.installed = std::move(installed);
  // An older build knows of no changes: to it they are a malformed map.
  brought.is_changes = request->is_changes && capabilities.has(Capability::kMapChanges);
  if (brought.is_changes) {
    const auto head = decode_changes_head(frame.payload);
    if (!head) return std::unexpected(head.error());
    brought.head = *head;
    if (brought.installed == nullptr) {
      brought.made = std::unexpected("there is no map to change");
    } else {
      brought.made = apply_changes(*brought.installed, frame.payload);
    }
  } else {
    auto map = decode_map(frame.payload);
    if (!map) return std::unexpected(map.error());
    brought.head = {0, map->cluster_id, map->epoch, map->version_floor};
    brought.made = ChangedMap{std::move(*map), std::string(as_text(frame.payload))};
  }
  // An older build tells none, either.
  if (brought.installed && brought.made && capabilities.has(Capability::kMapChanges)) {
    brought.kept = keep_changes(*brought.installed, *brought.made);
  }
  return brought;
}

std::optional<Answer> check_map(const Frame& frame, const BroughtMap& brought,
                                const ClusterMap* map) {
  const MapChangesHead& next = brought.head;
  const uint32_t number = next.epoch.number;
  if (number == 0) return refuse(Status::kInvalid, "epoch 0 is no map");
  const uint64_t installed = map != nullptr ? map->epoch.number : 0;
  if (number > installed + kMaxEpochStep) {
    return refuse(Status::kInvalid, "no decider gets so far ahead");
  }
  if (next.version_floor > kMaxVersionFloor) {
    return refuse(Status::kInvalid, "no decider gets to such versions");
  }
  if (map != nullptr) {
    if (next.cluster_id != map->cluster_id) {
      return refuse(Status::kStaleEpoch, "the node belongs to another cluster");
    }
    if (next.epoch == map->epoch) return Answer{};
    if (frame.header.epoch != map->epoch) {
      return refuse(Status::kStaleEpoch, "the node has another map than the one replaced");
    }
    if (number <= map->epoch.number) {
      return refuse(Status::kStaleEpoch, "the node has a later map, or one of that number");
    }
  }
  if (map == nullptr && frame.header.epoch.number != 0) {
    return refuse(Status::kStaleEpoch, "the node has no map to replace");
  }
  if (brought.is_changes && brought.installed.get() != map) {
    return refuse(Status::kStaleEpoch, "another map has just taken the place of the one changed");
  }
  if (!brought.made) return refuse(Status::kInvalid, brought.made.error());
  if (map != nullptr && brought.made->map.partitions.size() != map->partitions.size()) {
    return refuse(Status::kInvalid, "the number of partitions is fixed");
  }
  return std::nullopt;
}

}  // namespace elastripe::node
