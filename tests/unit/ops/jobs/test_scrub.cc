// What a scrub finds.
#include <catch2/catch.hpp>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/jobs/scrub.h"
#include "proxy/ops/jobs/transition.h"
#include "proxy/ops/shards.h"
#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace elastripe::jobs;
using namespace std::chrono_literals;

namespace {

using Shards = std::vector<uint8_t>;

constexpr node::CapabilitySet kOlder(1);  // moved shards only

struct Scrubbing : ClusterFixture {
  explicit Scrubbing(node::CapabilitySet capabilities = node::own_capabilities())
      : ClusterFixture(8, "ers:3,2,5"),
        proxy((decider_settings.capabilities = capabilities, add_decider())) {
    REQUIRE(run_until([&] { return serves_whole(proxy); }));
    REQUIRE(put(proxy, "key", std::string(10'001, 'v')));  // three segments
  }
  ScrubReport scrub(const std::string& key = "key") {
    auto report = run(scrub_object(proxy.ops(), key, deadline()));
    REQUIRE(report.has_value());
    return *report;
  }
  // A node says that a shard, whole by its own checksums, is `object` bytes and `padding`.
  void replace(size_t segment_index, uint8_t shard, char object, char padding = '\0') {
    const auto record = scrub().record;
    const auto& segment = record->content.segments.at(segment_index);
    const auto& scheme = record->content.scheme;
    const NodeId on = segment.placement.at(shard);
    const auto geometry = geometry_of(scheme, segment).value();
    const MapPtr map = proxy.map().current();
    node::ShardDeleteRequest remove;
    remove.names.push_back(shard_name(segment, scheme, shard));
    REQUIRE(run(proxy.ops().nodes.call(on, stamp_for(*map, on), make_request(remove), deadline()))
                ->status() == node::Status::kOk);
    std::string text(geometry.shard_bytes(segment.state, shard), object);
    if (shard < scheme.k_prime) {
      text.clear();
      for (const auto& extent : geometry.shard_extents(shard)) {
        text += std::string(extent.bytes, object) + std::string(extent.zeros, padding);
      }
    }
    const Buffer bytes = Buffer::copy_of(text);
    node::ShardHeader header;
    header.name = shard_name(segment, scheme, shard);
    header.key = "key";
    header.payload_bytes = static_cast<uint32_t>(bytes.size());
    if (shard >= scheme.k_prime) header.vector_a.resize(scheme.k_prime);
    auto request = make_request(node::ShardWriteRequest{header});
    request->payload.push_back(bytes.bytes());
    request->keep = {bytes};
    REQUIRE(run(proxy.ops().nodes.call(on, stamp_for(*map, on), std::move(request), deadline()))
                ->status() == node::Status::kOk);
  }

  // Requests of this opcode while `work` runs.
  template <class Work>
  size_t count(node::Opcode opcode, Work work) {
    size_t requests = 0;
    network().set_delay_rule(
        [&](int, NodeId, const node::RequestHeader& header) -> std::optional<Duration> {
          requests += header.opcode == opcode ? 1 : 0;
          return std::nullopt;
        });
    work();
    network().set_delay_rule({});
    return requests;
  }

  sim::SimProxy& proxy;
};

}  // namespace

TEST_CASE("what was written is clean, in both states, and so is what has no shards") {
  Scrubbing s;
  CHECK(s.scrub().is_clean());
  CHECK(s.scrub().segments.size() == 3);
  REQUIRE(s.run(transition_object(s.proxy.ops(), {.key = "key", .to = 5})).has_value());
  CHECK(s.scrub().is_clean());
  CHECK(s.scrub().record->content.segments.front().state == coding::State::kWide);

  CHECK(s.scrub("none").record == nullptr);
  REQUIRE(s.put(s.proxy, "small", "inline"));
  CHECK(s.scrub("small").is_clean());
  CHECK(s.scrub("small").segments.empty());
}

TEST_CASE("a parity that the data does not make is wrong, though its checksums are right") {
  Scrubbing s;
  s.replace(1, 6, 'x');
  const ScrubReport report = s.scrub();
  CHECK_FALSE(report.is_clean());
  CHECK(report.segments[0].is_clean());
  CHECK(report.segments[1].wrong == Shards{6});
  CHECK(report.segments[1].data_matches);
  CHECK(report.segments[2].is_clean());
}

TEST_CASE("data that was not written fails the segment's checksum, and is outvoted") {
  Scrubbing s;
  s.replace(0, 2, 'x');
  const ScrubReport report = s.scrub();
  CHECK_FALSE(report.segments[0].data_matches);
  CHECK(report.segments[0].wrong == Shards{2});
  CHECK_FALSE(report.segments[0].has_unexplained);
  CHECK(report.segments[0].to_restore() == coding::ShardSet(1 << 2));
  CHECK(report.segments[1].is_clean());
}

TEST_CASE("padding counts: transitions read it") {
  Scrubbing s;
  const auto record = s.scrub().record;
  const auto geometry = geometry_of(record->content.scheme, record->content.segments[2]).value();
  uint8_t padded = 0;
  while (geometry.shard_extents(padded).back().zeros == 0) ++padded;
  s.replace(2, padded, 'v', 'x');
  const ScrubReport report = s.scrub();
  CHECK_FALSE(report.segments[2].data_matches);
  CHECK(report.segments[2].wrong == Shards{padded});
}

TEST_CASE("a shard of a dead node is missing, and of a silent one unreachable") {
  Scrubbing s;
  const auto placement = s.scrub().record->content.segments[0].placement;
  s.node(placement[1]).stall();
  CHECK(s.scrub().segments[0].unreachable == Shards{1});
  s.node(placement[1]).resume();
  s.node(placement[5]).kill(/*silent=*/false);
  REQUIRE(s.run_until(
      [&] { return s.serves_whole(s.proxy) && !s.proxy.map().current()->is_up(placement[5]); },
      20s));
  const ScrubReport report = s.scrub();
  CHECK(report.segments[0].missing == Shards{5});
  CHECK(report.segments[0].wrong.empty());
}

TEST_CASE("a scrub asks for fingerprints, and counts what it looked at") {
  Scrubbing s;
  const ScrubReport clean = s.scrub();
  CHECK(s.count(node::Opcode::kShardRead, [&] { s.scrub(); }) == 0);
  CHECK(s.count(node::Opcode::kShardFingerprint, [&] { s.scrub(); }) == 3 * 7);
  uint64_t bytes = 0;
  for (const auto& segment : clean.record->content.segments) {
    const auto geometry = geometry_of(clean.record->content.scheme, segment).value();
    for (int i = 0; i < 7; ++i) bytes += geometry.shard_bytes(segment.state, i);
  }
  CHECK(clean.bytes == bytes);
  CHECK(s.proxy.ops().counters.scrubbed_objects == 3);
  CHECK(s.proxy.ops().counters.scrubbed_bytes == 3 * bytes);
  CHECK(s.proxy.ops().counters.scrub_wrong == 0);
  s.replace(0, 2, 'x');
  s.scrub();
  CHECK(s.proxy.ops().counters.scrub_wrong == 1);
}

TEST_CASE("beside older nodes the shards are read, and the same is found") {
  Scrubbing s(kOlder);
  CHECK(s.scrub().is_clean());
  CHECK(s.count(node::Opcode::kShardFingerprint, [&] { s.scrub(); }) == 0);
  CHECK(s.count(node::Opcode::kShardRead, [&] { s.scrub(); }) == 3 * 7);
  s.replace(0, 2, 'x');
  s.replace(1, 6, 'x');
  const ScrubReport report = s.scrub();
  CHECK(report.segments[0].wrong == Shards{2});
  CHECK_FALSE(report.segments[0].data_matches);
  CHECK(report.segments[1].wrong == Shards{6});
  CHECK(report.segments[1].data_matches);
  CHECK(report.segments[2].is_clean());
}

TEST_CASE("more wrong shards than can be told apart are left unexplained") {
  Scrubbing s;
  REQUIRE(s.run(transition_object(s.proxy.ops(), {.key = "key", .to = 5})).has_value());
  s.replace(0, 1, 'x');  // a row has a block of every shard
  s.replace(0, 2, 'y');
  const ScrubReport report = s.scrub();
  CHECK_FALSE(report.is_clean());
  CHECK(report.segments[0].has_unexplained);
  CHECK(report.segments[0].wrong.empty());
  CHECK(report.segments[0].to_restore().none());
}

TEST_CASE("a home whose copy of the record is another one is told") {
  Scrubbing s;
  const NodeId home = s.homes_of(s.proxy, "key").back();
  node::ArenaStore& store = s.node(home).store();
  std::vector<std::string> records;
  for (uint64_t cursor = 0;;) {
    cursor = store.walk(cursor, [&](const node::ItemRef& item) {
      if (store.key(item).front() == '\x01') records.emplace_back(store.key(item));
      return true;
    });
    if (cursor == 0) break;
  }
  REQUIRE(records.size() == 1);
  REQUIRE(store.remove(records.front()));
  const ScrubReport report = s.scrub();
  CHECK_FALSE(report.is_clean());
  CHECK(report.unlike == std::vector<NodeId>{home});
}
