// An object whose shards move, on a cluster of virtual time.
#pragma once

#include <catch2/catch.hpp>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/jobs/scrub.h"
#include "proxy/ops/records/commit.h"
#include "proxy/ops/shards.h"
#include "tests/unit/ops/cluster_fixture.h"

namespace elastripe {

using namespace objects;
using namespace jobs;
using namespace std::chrono_literals;

inline constexpr size_t kShards = 6;  // k' + m of the scheme

inline std::string value_of(size_t size) {
  std::string value(size, '\0');
  for (size_t i = 0; i < size; ++i) value[i] = static_cast<char>(i * 31 + i / 253);
  return value;
}

// One object; of one segment, with m = 1, unless told otherwise: what has lost one shard needs all
// others.
struct Moving {
  explicit Moving(size_t nodes = 9, const std::string& scheme = "ers-2:4,1,5", size_t size = 3000)
      : value(value_of(size)), cluster(nodes, scheme) {
    cluster.settings.upload_idle = 30s;
    proxy = &cluster.add_proxy();
    decider = &cluster.add_decider();
    REQUIRE(cluster.run_until([&] { return cluster.serves_whole(*decider); }));
    follow();
    REQUIRE(cluster.put(*proxy, "key", value));
  }

  void follow() { proxy->map().serve(decider->map().current()); }
  ObjectReport inspect() {
    auto report = cluster.run(inspect_object(proxy->ops(), "key", cluster.deadline()));
    REQUIRE(report.has_value());
    return std::move(*report);
  }
  node::Segment segment() { return inspect().record->content.segments.front(); }
  node::ShardName name(size_t index) {
    return shard_name(segment(), inspect().record->content.scheme, index);
  }
  // A node that is up and has no shard of the object.
  NodeId spare() {
    const auto placement = segment().placement;
    NodeId id = 0;
    while (std::ranges::count(placement, id) > 0 || !proxy->map().current()->is_up(id)) ++id;
    return id;
  }

  template <class Request>
  NodeReply call(NodeId to, const Request& message, Buffer payload = {}) {
    auto request = make_request(message);
    if (!payload.empty()) add_payload(*request, std::array{payload});
    const MapPtr map = proxy->map().current();
    auto reply = cluster.run(
        proxy->ops().nodes.call(to, stamp_for(*map, to), std::move(request), cluster.deadline()));
    REQUIRE(reply.has_value());
    return std::move(*reply);
  }
  bool has(NodeId on, const node::ShardName& shard) {
    const NodeReply reply = call(on, node::ShardConfirmRequest{{shard}, false});
    return node::decode<node::ShardConfirmReply>(reply.args()).value().entries[0].present;
  }

  // Copies a shard to another node and commits that it is there now. The old one stays.
  void move(size_t index, NodeId to) {
    const RecordPtr record = inspect().record;
    const node::Segment before = record->content.segments.front();
    const auto& scheme = record->content.scheme;
    node::ShardReadRequest read;
    read.name = shard_name(before, scheme, index);
    const NodeReply bytes = call(before.placement[index], read);
    REQUIRE(bytes.status() == node::Status::kOk);

    records::Commit commit;
    commit.key = "key";
    commit.mutation = node::Mutation::kReshape;
    commit.condition = node::Condition::kIfVersion;
    commit.condition_argument = record->meta.version;
    commit.known_version = record->meta.version;
    commit.base_version = record->meta.version;
    commit.content = record->content;
    node::Segment& after = commit.content.segments.front();
    after.placement[index] = to;
    node::name_moved_shard(after, index, proxy->ops().ids.next());

    node::ShardWriteRequest write;
    write.header.name = shard_name(after, scheme, index);
    write.header.key = "key";
    write.header.payload_bytes = static_cast<uint32_t>(bytes.payload().size());
    if (index >= scheme.k_prime) write.header.vector_a.resize(scheme.k_prime);
    REQUIRE(call(to, write, Buffer::copy_of(bytes.payload())).status() == node::Status::kOk);
    const MapPtr map = proxy->map().current();
    const auto done = cluster.run(records::commit(proxy->ops(), map, commit, cluster.deadline()));
    REQUIRE(done.has_value());
    REQUIRE(done->status == records::CommitStatus::kCommitted);
    CHECK(done->record->content == commit.content);
    CHECK(done->record->meta.value_version == record->meta.value_version);
  }
  void remove(NodeId from, const node::ShardName& shard) {
    node::ShardDeleteRequest request;
    request.names = {shard};
    REQUIRE(call(from, request).status() == node::Status::kOk);
  }
  // Its memory goes with it.
  void kill(NodeId id) {
    cluster.node(id).kill(/*silent=*/false);
    REQUIRE(cluster.run_until([&] {
      const MapPtr map = decider->map().current();
      return map != nullptr && !map->is_up(id) && cluster.serves_whole(*decider);
    }));
    follow();
  }
  // Something else takes all of the node that new data could have; so many items.
  int fill(NodeId id) {
    node::ArenaStore& store = cluster.node(id).store();
    int items = 0;
    for (uint64_t free = 0; (free = store.memory().free_bytes) > 200; ++items) {
      const size_t bytes = std::min<uint64_t>(free - 100, 4000) - 60;
      const node::ItemRef item =
          store.allocate("filler" + std::to_string(items), bytes, node::Urgency::kNewData);
      REQUIRE(item);
      store.link(item);
    }
    return items;
  }
  void make_room(NodeId id, int items) {
    for (int i = 0; i < items; ++i) {
      REQUIRE(cluster.node(id).store().remove("filler" + std::to_string(i)));
    }
  }
  void check_whole() {
    CHECK(inspect().segments.front().missing.empty());
    const auto scrubbed = cluster.run(scrub_object(proxy->ops(), "key", cluster.deadline()));
    REQUIRE(scrubbed.has_value());
    CHECK(scrubbed->is_clean());
    CHECK(cluster.get(*proxy, "key") == value);
  }
  ReadPath path() {
    const auto read = cluster.run(get_whole(proxy->ops(), "key", cluster.deadline()));
    REQUIRE(read.has_value());
    CHECK(read->value() == value);
    return read->path;
  }

  const std::string value;
  ClusterFixture cluster;
  sim::SimProxy* proxy = nullptr;
  sim::SimProxy* decider = nullptr;
};

}  // namespace elastripe
