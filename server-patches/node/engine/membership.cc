// The gate, the lease, maps, and what of each partition is synced.
// docs/node-protocol.md, "Gate", "Lease", "Maps", "Synced"; rules 1-4 of docs/consistency.md.
#include <algorithm>

#include "server-patches/node/engine/impl.h"

namespace elastripe::node {

bool is_home(const Partition& partition, NodeId self, size_t count) {
  const size_t homes = std::min(count, partition.homes.size());
  const auto end = partition.homes.begin() + static_cast<ptrdiff_t>(homes);
  return std::find(partition.homes.begin(), end, self) != end;
}

std::optional<NodeId> Engine::Impl::find_self(const ClusterMap& map, uint64_t incarnation) const {
  for (const NodeInfo& node : map.nodes) {
    if (node.incarnation == incarnation && node.state == NodeState::kUp) return node.id;
  }
  return std::nullopt;
}

std::optional<Answer> Engine::Impl::check_gate(const Frame& frame, uint64_t now_ms,
                                               std::optional<NodeId>& self) const {
  const RequestHeader& header = frame.header;
  self = self_;
  if (mutant(Mutant::kIgnoreIncarnation)) {
    if (map_) self = find_self(*map_, header.incarnation);
  } else if (header.incarnation != options_.incarnation) {
    return refuse(Status::kStaleEpoch, "this is another incarnation of the node");
  }
  if (!map_) return refuse(Status::kJoining, "the node has no map");
  if (header.cluster_id != map_->cluster_id) {
    return refuse(Status::kStaleEpoch, "the node belongs to another cluster");
  }
  if (header.epoch != map_->epoch && !mutant(Mutant::kIgnoreEpoch)) {
    return refuse(Status::kStaleEpoch, "the node has another epoch");
  }
  if (!self) return refuse(Status::kJoining, "the map does not name this incarnation as up");
  if (!has_lease(now_ms) && !mutant(Mutant::kIgnoreLease)) {
    return refuse(Status::kNoLease, "the node has no lease in this epoch");
  }
  return std::nullopt;
}

HelloReply Engine::Impl::describe(uint32_t known_synced) const {
  HelloReply reply;
  reply.clock_ms = clock_.boottime_ms();
  reply.max_version = max_version_;
  reply.has_lease = has_lease(reply.clock_ms);
  reply.statistics = node_statistics();
  reply.capabilities = options_.capabilities;
  reply.version = options_.version;
  if (const uint64_t heard_ms = decider_heard_ms_; heard_ms != 0) {
    reply.decider_age_ms = reply.clock_ms - std::min(heard_ms, reply.clock_ms);
  }
  if (!map_) return reply;
  const auto synced = std::ranges::count_if(
      own_partitions_, [&](uint32_t p) { return partitions_[p].synced.load(); });
  if (static_cast<uint32_t>(synced) == known_synced) return reply;
  reply.synced.resize((map_->partitions.size() + 7) / 8);
  for (const uint32_t p : own_partitions_) {
    if (!partitions_[p].synced) continue;
    reply.synced[p / 8] = static_cast<uint8_t>(reply.synced[p / 8] | 1u << (p % 8));
  }
  return reply;
}

std::optional<Answer> Engine::Impl::check_progress() const {
  const uint64_t longest_ms = progress_.longest_ms(clock_.coarse_ms());
  if (longest_ms <= options_.stuck_after_ms) return std::nullopt;
  return refuse(Status::kNoLease,
                "a thread has been inside one frame for " + std::to_string(longest_ms) + " ms");
}

Answer Engine::Impl::hello(const Frame& frame) {
  const auto request = decode<HelloRequest>(frame.args);
  if (!request) return refuse(Status::kInvalid, request.error());
  if (auto stuck = check_progress()) return std::move(*stuck);
  std::shared_lock shared(gate_);
  const bool is_known = map_ && map_->epoch.map_hash == request->known_map;
  HelloReply reply = describe();
  reply.is_changes = !is_known && request->takes_changes && map_changes_.are_of(request->known_map);
  const std::string_view map = reply.is_changes ? map_changes_.bytes : encoded_map_;
  Answer result = answer(Status::kOk, reply, OwnedBytes(is_known ? "" : map));
  if (map_) result.epoch = map_->epoch;
  hear_decider(/*grants=*/false, request->sign);  // it is told of others
  return result;
}

Answer Engine::Impl::heartbeat(const Frame& frame) {
  const auto request = decode<HeartbeatRequest>(frame.args);
  if (!request) return refuse(Status::kInvalid, request.error());
  if (auto stuck = check_progress()) return std::move(*stuck);
  std::shared_lock shared(gate_);
  const RequestHeader& header = frame.header;
  const bool meant = header.incarnation == 0 || header.incarnation == options_.incarnation;
  Answer result;
  if (!map_ || !meant || header.cluster_id != map_->cluster_id || header.epoch != map_->epoch) {
    result = refuse(Status::kStaleEpoch, "the heartbeat is of another epoch");
  } else {
    if (request->lease_stamp_ms != 0) {
      // A stamp is a clock that this node once told, so it can not lie ahead.
      const uint64_t stamp_ms = std::min(request->lease_stamp_ms, clock_.boottime_ms());
      raise(lease_until_ms_, stamp_ms + request->lease_ms);
    }
    hear_decider(request->lease_stamp_ms != 0, request->sign);
    result = answer(Status::kOk, describe(request->known_synced));
  }
  if (map_) result.epoch = map_->epoch;
  return result;
}

void Engine::Impl::hear_decider(bool grants, DeciderSign sign) {
  if (sign == DeciderSign::kLeaves) {
    decider_heard_ms_ = 0;
  } else if (grants || sign == DeciderSign::kHere) {
    decider_heard_ms_ = clock_.boottime_ms();
  }
}

Answer Engine::Impl::notices(const Frame& frame) {
  const auto request = decode<NoticesRequest>(frame.args);
  if (!request) return refuse(Status::kInvalid, request.error());
  Answer result;
  std::shared_lock shared(gate_);
  if (!map_) {
    result = refuse(Status::kJoining, "the node has no map");
  } else if (frame.header.cluster_id != map_->cluster_id) {
    result = refuse(Status::kStaleEpoch, "the node belongs to another cluster");
  } else if (!board_.post(request->posted, clock_.boottime_ms())) {
    result = refuse(Status::kNoSpace, "the board is full");
  } else {
    const Board::Read read = board_.read(request->reader, request->since, clock_.boottime_ms());
    result = answer(Status::kOk, NoticesReply{read.last, read.notices});
  }
  if (map_) result.epoch = map_->epoch;
  return result;
}

Answer Engine::Impl::install_map(const Frame& frame) {
  if (auto stuck = check_progress()) return std::move(*stuck);
  MapPtr installed;
  {
    std::shared_lock shared(gate_);
    installed = map_;
  }
  auto brought = read_map(frame, std::move(installed), options_.capabilities);
  if (auto stuck = check_progress()) return std::move(*stuck);
  std::unique_lock exclusive(gate_);
  const auto finish = [&](Answer result) {
    if (map_) result.epoch = map_->epoch;
    return result;
  };
  if (!brought) return finish(refuse(Status::kInvalid, brought.error()));
  if (auto refused = check_map(frame, *brought, map_.get())) return finish(std::move(*refused));
  // All that needs memory comes first: a map is installed as a whole, or not at all.
  const uint32_t number = brought->head.epoch.number;
  auto map = std::make_shared<const ClusterMap>(std::move(brought->made->map));
  const std::optional<NodeId> self = find_self(*map, options_.incarnation);
  std::vector<uint32_t> own;
  for (uint32_t p = 0; self && p < map->partitions.size(); ++p) {
    const Partition& partition = map->partitions[p];
    if (is_home(partition, *self, partition.homes.size())) own.push_back(p);
  }
  // The last, as it stays: a map of another number of partitions may come if this one does not.
  if (!partitions_) partitions_ = std::make_unique<PartitionState[]>(map->partitions.size());
  lease_until_ms_ = 0;  // a lease is the permission to serve under one epoch
  decider_heard_ms_ = clock_.boottime_ms();
  const MapPtr before = std::exchange(map_, std::move(map));
  encoded_map_ = std::move(brought->made->encoded);
  map_changes_ = before == brought->installed ? std::move(brought->kept) : KeptChanges{};
  self_ = self;
  own_partitions_ = std::move(own);
  for (size_t p = 0; p < map_->partitions.size(); ++p) {
    const Partition& partition = map_->partitions[p];
    PartitionState& state = partitions_[p];
    const bool home = self_ && is_home(partition, *self_, partition.homes.size());
    const bool stays = home && stays_home(before.get(), p);
    const bool keeps =
        (home && partition.synced) || stays || (self_ && is_source(partition, *self_));
    if (!keeps) {
      state.tenure = number;
      state.floor = 0;
      state.damaged_keys.clear();
      state.has_damaged = false;
    }
    const bool still_synced = stays && state.synced && has_homes_of(*before, p);
    state.synced = (partition.synced || still_synced) && !partition.lost;
    if (!partition.synced) state.sync_epoch = number;
    if (!partition.synced && !still_synced) state.sync_floor = map_->version_floor;
    // Who stays synced has not taken part yet in the sync that this map asks for. With its number
    // it would outrank a tail that was marked, key by key, under the map before.
    if (home && partition.synced && state.synced) state.synced_in = state.sync_epoch;
    state.lost = partition.lost;
    state.absent_keys.clear();
  }
  ++tenures_changed_;
  return finish({});
}

// A home of the partition before and now, in which it has missed nothing: no other map was between.
// Its decider may not know yet how far sync has come.
bool Engine::Impl::stays_home(const ClusterMap* before, size_t partition) const {
  if (before == nullptr || map_->base != before->epoch) return false;
  const Partition& old = before->partitions[partition];
  return !old.lost && !map_->partitions[partition].lost && before->is_up(*self_) &&
         before->nodes[*self_].incarnation == options_.incarnation &&
         is_home(old, *self_, old.homes.size());
}

// The same processes on the same places: what the head has committed and others have not got yet is
// where it was, too.
bool Engine::Impl::has_homes_of(const ClusterMap& before, size_t partition) const {
  const std::vector<NodeId>& homes = map_->partitions[partition].homes;
  return homes == before.partitions[partition].homes && std::ranges::all_of(homes, [&](NodeId id) {
           return before.nodes[id].incarnation == map_->nodes[id].incarnation;
         });
}

Knowledge Engine::Impl::knowledge(size_t partition, std::string_view key, const Found& found) {
  PartitionState& state = partitions_[partition];
  if (state.synced && !state.has_damaged) return Knowledge::kSynced;
  std::lock_guard lock(state.mutex);
  const bool is_marked = state.synced ||
                         (found.item && found.prefix.synced_in == map_->epoch.number) ||
                         state.absent_keys.contains(key);
  const bool damaged = state.damaged_keys.contains(key);
  // Nobody can tell whether a damaged item was marked.
  if (is_marked || state.lost) {
    return damaged ? Knowledge::kDamaged : is_marked ? Knowledge::kSynced : Knowledge::kLost;
  }
  return Knowledge::kNotSynced;
}

// A mark that is dropped costs another sync of that key, if it is asked for again.
void Engine::Impl::mark_absent(PartitionState& state, std::string_view key) {
  const size_t limit = std::max<size_t>(options_.absent_keys / map_->partitions.size(), 1);
  std::lock_guard lock(state.mutex);
  if (state.synced) return;
  if (state.absent_keys.size() >= limit && !state.absent_keys.contains(key)) {
    state.absent_keys.clear();
  }
  state.absent_keys.emplace(key);
}

bool Engine::Impl::mark_key(const Context& c, size_t partition, std::string_view key,
                            const Found& found) {
  PartitionState& state = partitions_[partition];
  if (!found.visible()) {
    mark_absent(state, key);
  } else if (!state.synced && found.prefix.synced_in != map_->epoch.number &&
             !relink_record(c, partition, record_item_key(key), found, /*marks=*/true)) {
    return false;
  }
  forget_damage(partition, key);
  return true;
}

void Engine::Impl::forget_damage(size_t partition, std::string_view key) {
  PartitionState& state = partitions_[partition];
  if (!state.has_damaged) return;
  std::lock_guard lock(state.mutex);
  if (const auto damaged = state.damaged_keys.find(key); damaged != state.damaged_keys.end()) {
    state.damaged_keys.erase(damaged);
  }
  state.has_damaged = !state.damaged_keys.empty();
}

bool Engine::Impl::is_damaged(size_t partition, std::string_view key) {
  PartitionState& state = partitions_[partition];
  if (!state.has_damaged) return false;
  std::lock_guard lock(state.mutex);
  return state.damaged_keys.contains(key);
}

uint64_t Engine::Impl::damaged_version(size_t partition, std::string_view key) {
  PartitionState& state = partitions_[partition];
  std::lock_guard lock(state.mutex);
  const auto damaged = state.damaged_keys.find(key);
  return damaged == state.damaged_keys.end() ? 0 : damaged->second;
}

void Engine::Impl::note_damaged(size_t partition, std::string_view key, uint64_t version) {
  PartitionState& state = partitions_[partition];
  version = std::min(version, max_floor(*map_));  // above which no floor can be raised
  {
    std::lock_guard lock(state.mutex);
    const auto [damaged, is_new] = state.damaged_keys.emplace(key, version);
    if (!is_new && version <= damaged->second) return;
    damaged->second = version;
    state.has_damaged = true;
    if (is_new) ++counters_.bad_records;
  }
  // A head may have assigned a version that no other home has yet, and forgets it with this copy.
  // No later commit may take it, and sync takes the floor to the other homes, so that they refuse
  // what is still on its way to them ("Records", "Damage").
  const std::vector<NodeId>& homes = map_->partitions[partition].homes;
  if (self_ && !homes.empty() && homes.back() == *self_) {
    raise(state.floor, version);
  }
}

Answer Engine::Impl::mark_synced(const Context& c, const MarkSyncedRequest& request) {
  if (request.partition >= c.map.partitions.size() ||
      (!request.key.empty() && c.map.partition_of(request.key) != request.partition)) {
    return refuse(Status::kInvalid, "no such partition, or not the key's");
  }
  if (request.floor > max_floor(c.map)) return refuse(Status::kInvalid, kNoSuchVersion);
  const Partition& partition = c.map.partitions[request.partition];
  PartitionState& state = partitions_[request.partition];
  const bool home = is_home(partition, c.self, partition.homes.size());
  if (!request.key.empty()) {
    if (!home) return refuse(Status::kNotHome, "the node is no home of the partition");
    raise(state.floor, request.floor);
    const Latch held = latch(hash_key(request.key));
    const Found found = find_record(request.partition, record_item_key(request.key));
    if (!mark_key(c, request.partition, request.key, found)) {
      return refuse(Status::kNoSpace, "no memory for the mark");
    }
  } else if (home) {
    if (state.lost) return refuse(Status::kLost, "a LOST partition does not become synced");
    raise(state.floor, request.floor);
    std::lock_guard lock(state.mutex);
    if (!state.synced.exchange(true)) ++tenures_changed_;  // nothing is confirmed any more
    state.synced_in = state.sync_epoch;
    state.absent_keys.clear();
  } else {
    state.floor = 0;
    const uint32_t number = c.map.epoch.number;
    if (state.tenure.exchange(number) != number) ++tenures_changed_;
    std::lock_guard lock(state.mutex);
    state.damaged_keys.clear();
    state.has_damaged = false;
  }
  raise(max_version_, request.floor);
  return {};
}

Answer Engine::Impl::raise_floor(const Context& c, const RaiseFloorRequest& request) {
  if (request.partition >= c.map.partitions.size()) {
    return refuse(Status::kInvalid, "no such partition");
  }
  if (request.floor > max_floor(c.map)) return refuse(Status::kInvalid, kNoSuchVersion);
  const Partition& partition = c.map.partitions[request.partition];
  if (!is_home(partition, c.self, partition.homes.size())) {
    return refuse(Status::kNotHome, "the node is no home of the partition");
  }
  raise(partitions_[request.partition].floor, request.floor);
  raise(max_version_, request.floor);
  return {};
}

}  // namespace elastripe::node
