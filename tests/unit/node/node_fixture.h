// One engine on a fake clock and an arena, with a map of four nodes, and short forms of frames.
#pragma once

#include <catch2/catch.hpp>

#include "server-patches/node/engine/arena_store.h"
#include "server-patches/node/engine/engine.h"

namespace elastripe::node::test {

inline constexpr uint64_t kClusterId = 77;
inline constexpr uint64_t kOwnIncarnation = 1000;  // of node 0; node n has 1000 + n
inline constexpr uint64_t kNowMs = 1'700'000'000'000;
inline constexpr size_t kPartitions = 16;

class FakeClock : public NodeClock {
 public:
  uint64_t boottime_ms() const override { return now_ms; }
  uint64_t coarse_ms() const override { return now_ms + 1'000'000'007; }
  std::atomic<uint64_t> now_ms = 5000;
};

// The arena, and what a test does first in calls of it.
class HookedStore final : public ItemStore {
 public:
  explicit HookedStore(ArenaStore& arena) : arena_(arena) {}

  std::function<void(std::string_view key)> before_find;
  std::function<bool(std::string_view key)> has_room;  // for an item of that key
  std::function<bool()> waits_for_room;
  std::function<void()> before_walk;

  ItemRef find(std::string_view key) override {
    if (before_find) before_find(key);
    return arena_.find(key);
  }
  ItemRef allocate(std::string_view key, size_t value_bytes, Urgency urgency) override {
    if (has_room && !has_room(key)) return {};
    return arena_.allocate(key, value_bytes, urgency);
  }
  bool wait_for_room(size_t, size_t, Urgency) override {
    return waits_for_room && waits_for_room();
  }

  ItemRef allocate_in_place(std::string_view key, size_t value_bytes) override {
    return arena_.allocate_in_place(key, value_bytes);
  }
  ItemRef use(std::string_view key, bool counts, Use& before) override {
    return arena_.use(key, counts, before);
  }
  void link(const ItemRef& item, bool stays) override { arena_.link(item, stays); }
  bool remove(std::string_view key) override { return arena_.remove(key); }
  std::string_view key(const ItemRef& item) const override { return arena_.key(item); }
  size_t value_bytes(const ItemRef& item) const override { return arena_.value_bytes(item); }
  void read(const ItemRef& item, size_t offset, MutableByteView out) const override {
    arena_.read(item, offset, out);
  }
  ByteView view(const ItemRef& item, size_t offset, size_t bytes) const override {
    return arena_.view(item, offset, bytes);
  }
  void write(const ItemRef& item, size_t offset, ByteView in) override {
    arena_.write(item, offset, in);
  }
  bool is_unshared(const ItemRef& item) const override { return arena_.is_unshared(item); }
  uint64_t walk(uint64_t cursor, const std::function<bool(const ItemRef&)>& visit) override {
    if (before_walk) before_walk();
    return arena_.walk(cursor, visit);
  }
  Memory memory() const override { return arena_.memory(); }

 private:
  void release(void*) override {}  // items are the arena's

  ArenaStore& arena_;
};

// All partitions have the same homes; synced, as in a new cluster.
inline ClusterMap make_map(uint32_t number, std::vector<NodeId> homes) {
  ClusterMap map;
  map.cluster_id = kClusterId;
  map.epoch.number = number;
  map.epoch.decider = 9;
  map.version_floor = static_cast<uint64_t>(number) << kCounterBits;
  map.max_parities = 2;
  map.capabilities = own_capabilities();
  for (NodeId id = 0; id < 4; ++id) {
    map.nodes.push_back({.id = id,
                         .name = "n" + std::to_string(id),
                         .host = "127.0.0.1",
                         .port = static_cast<uint16_t>(11000 + id),
                         .domain = "d" + std::to_string(id),
                         .incarnation = kOwnIncarnation + id,
                         .state = NodeState::kUp});
  }
  Partition partition;
  partition.homes = std::move(homes);
  partition.synced = true;
  map.partitions.assign(kPartitions, partition);
  return map;
}

inline std::string status(const Reply& reply) { return name(reply.header.status); }

template <class Message>
std::string encoded(const Message& message) {
  std::string out;
  encode(message, out);
  return out;
}

template <class Message>
Message args_of(const Reply& reply) {
  auto message = decode<Message>(as_view(reply.args));
  REQUIRE(message.has_value());
  return std::move(*message);
}

inline std::string payload_of(const Reply& reply) {
  return std::string(as_text(reply.payload.bytes()));
}
inline Record record_of(const Reply& reply) {
  auto record = decode_record(reply.payload.bytes());
  REQUIRE(record.has_value());
  return std::move(*record);
}
inline RecordMeta meta_of(const Reply& reply) {
  Reader in(reply.payload.bytes());
  auto meta = decode_meta(in);
  REQUIRE(meta.has_value());
  return std::move(*meta);
}

inline RecordContent inline_content(std::string value, uint32_t exptime = 0) {
  RecordContent content;
  content.kind = RecordKind::kInline;
  content.flags = 5;
  content.exptime = exptime;
  content.size = value.size();
  content.value = std::move(value);
  return content;
}

inline RecordContent striped_content() {
  RecordContent content;
  content.kind = RecordKind::kStriped;
  content.scheme = {.layout = coding::LayoutKind::kRs, .k = 2, .m = 1, .k_prime = 2};
  Segment segment;
  segment.data_txid = {7, 8};
  segment.length = 100;
  segment.block_bytes = 64;
  segment.placement = {0, 1, 2};
  content.segments = {segment};
  content.size = 100;
  return content;
}

class TestNode {
 public:
  // Node 0 is the head of pools with m = 2, or what `homes` makes of it; it has a lease.
  explicit TestNode(std::vector<NodeId> homes = {1, 2, 0}, ArenaStore::Options memory = {},
                    EngineOptions options = {})
      : store(memory), hooked(store), engine(own(options), hooked, clock) {
    install(make_map(1, std::move(homes)));
    grant();
  }

  Reply send(Opcode opcode, std::string_view args, std::string_view payload = {},
             const std::function<void(RequestHeader&)>& change = {}) {
    Frame frame;
    frame.header.opcode = opcode;
    frame.header.args_bytes = static_cast<uint32_t>(args.size());
    frame.header.body_bytes = static_cast<uint32_t>(args.size() + payload.size());
    frame.header.opaque = ++opaque;
    frame.header.cluster_id = kClusterId;
    frame.header.epoch = map.epoch;
    frame.header.incarnation = is_control(opcode) ? 0 : kOwnIncarnation;
    frame.header.now_ms = now_ms;
    if (change) change(frame.header);
    frame.args = as_view(args);
    frame.payload = as_view(payload);
    Reply reply = engine.serve(frame);
    REQUIRE(reply.header.opaque == frame.header.opaque);
    REQUIRE(reply.header.args_bytes == reply.args.size());
    REQUIRE(reply.header.payload_bytes() == reply.payload.size());
    return reply;
  }

  Reply try_install(ClusterMap next) {
    seal(next);
    return send(Opcode::kInstallMap, {}, encoded(next));
  }
  void install(ClusterMap next) {
    seal(next);
    REQUIRE(status(send(Opcode::kInstallMap, {}, encoded(next))) == "OK");
    map = std::move(next);
  }
  Reply heartbeat(uint64_t stamp_ms, uint32_t lease_ms) {
    return send(Opcode::kHeartbeat, encoded(HeartbeatRequest{stamp_ms, lease_ms}));
  }
  void grant(uint32_t lease_ms = 3000) {
    REQUIRE(status(heartbeat(clock.now_ms, lease_ms)) == "OK");
  }
  HelloReply hello() { return args_of<HelloReply>(send(Opcode::kHello, {})); }

  Reply read(const std::string& key, Role role = Role::kAny, uint64_t if_version = 0) {
    return send(
        Opcode::kRecordRead,
        encoded(RecordReadRequest{.role = role, .m = 2, .if_version = if_version, .key = key}));
  }
  // A request that nothing speaks against, under an attempt of its own.
  RecordApplyRequest request(std::string_view key, Mutation mutation) {
    RecordApplyRequest r;
    r.m = 2;
    r.attempt_id = {1, ++attempts};
    r.base_version = UINT64_MAX;
    r.mutation = mutation;
    r.inline_max_bytes = 16384;
    r.key = key;
    return r;
  }
  Reply apply(const RecordApplyRequest& r) { return send(Opcode::kRecordApply, encoded(r)); }
  Reply apply(const RecordApplyRequest& r, const RecordContent& content) {
    return send(Opcode::kRecordApply, encoded(r), encoded(content));
  }
  Reply set(const std::string& key, std::string value, uint32_t exptime = 0) {
    return apply(request(key, Mutation::kSet), inline_content(std::move(value), exptime));
  }
  Reply store_record(const std::string& key, const Record& record, bool sync = false,
                     bool revive = false) {
    return send(Opcode::kRecordStore,
                encoded(RecordStoreRequest{.m = 2, .sync = sync, .revive = revive, .key = key}),
                encoded(record));
  }
  Reply mark_synced(const std::string& key, bool whole_partition, uint64_t floor = 0) {
    return send(Opcode::kMarkSynced,
                encoded(MarkSyncedRequest{partition(key), whole_partition ? "" : key, floor}));
  }
  Reply raise_floor(const std::string& key, uint64_t floor) {
    return send(Opcode::kRaiseFloor, encoded(RaiseFloorRequest{partition(key), floor}));
  }
  uint32_t partition(const std::string& key) const {
    return static_cast<uint32_t>(map.partition_of(key));
  }
  uint64_t stat(const std::string& which) const {
    for (const auto& [stat_name, value] : engine.statistics()) {
      if (stat_name == which) return std::stoull(value);
    }
    FAIL("no statistic " << which);
    return 0;
  }

  static EngineOptions own(EngineOptions options) {
    options.incarnation = kOwnIncarnation;
    options.latches = 16;
    return options;
  }

  FakeClock clock;
  ArenaStore store;
  HookedStore hooked;
  Engine engine;
  ClusterMap map;
  uint64_t now_ms = kNowMs;
  uint64_t opaque = 0;
  uint64_t attempts = 0;
};

inline Record make_record(uint64_t version, std::string value) {
  Record record;
  record.meta.version = record.meta.value_version = version;
  record.meta.recent = {{version, {2, version}}};
  record.content = inline_content(std::move(value));
  return record;
}
inline Record make_tombstone(uint64_t version) {
  Record record = make_record(version, "");
  record.content = {};
  return record;
}

}  // namespace elastripe::node::test
