// The cas unique: memcached's clients compare it, whatever epoch the cluster is in.
#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/ops/cluster_fixture.h"

using namespace elastripe::objects;

namespace elastripe {
namespace {

using namespace std::chrono_literals;

uint64_t cas_of_version(std::string_view key, uint64_t epoch, uint64_t counter) {
  return cas_of(key, (epoch << node::kCounterBits) + counter);
}

StoreOutcome store_cas(ClusterFixture& cluster, sim::SimProxy& proxy, const std::string& value,
                       uint64_t cas) {
  StoreRequest request;
  request.verb = StoreVerb::kCas;
  request.key = "k";
  request.cas = cas;
  const auto stored = cluster.run(store_value(proxy.ops(), request, value, cluster.deadline()));
  REQUIRE(stored.has_value());
  return *stored;
}

uint64_t read_cas(ClusterFixture& cluster, sim::SimProxy& proxy) {
  const auto read = cluster.run(get_whole(proxy.ops(), "k", cluster.deadline()));
  REQUIRE(read.has_value());
  REQUIRE(read->object.has_value());
  return read->object->cas;
}

// Puts the map of a cluster far ahead: all nodes take `map` under another number.
void install_number(ClusterFixture& cluster, sim::SimProxy& proxy, const node::ClusterMap& map,
                    uint32_t number) {
  node::ClusterMap next = map;
  next.epoch.number = number;
  next.version_floor = static_cast<uint64_t>(number) << node::kCounterBits;
  node::seal(next);
  std::string encoded;
  node::encode(next, encoded);
  const Buffer bytes = Buffer::copy_of(encoded);
  for (const node::NodeInfo& info : map.nodes) {
    NodeRequestPtr request = new_request(node::Opcode::kInstallMap);
    request->payload.push_back(bytes.bytes());
    request->keep.push_back(bytes);
    Stamp stamp = stamp_for(map, info.id);
    stamp.incarnation = 0;
    const auto reply =
        cluster.run(proxy.ops().nodes.call(info.id, stamp, std::move(request), cluster.deadline()));
    REQUIRE(reply.has_value());
    REQUIRE(reply->status() == node::Status::kOk);
  }
}

TEST_CASE("a cas is unique, grows with the value's version, and tells it back, in any epoch") {
  const std::string key = GENERATE("k", "another");
  uint64_t last = 0;
  for (const uint64_t epoch :
       std::vector<uint64_t>{1, 2, 65'535, 65'536, 65'537, 1u << 20, (1u << 26) - 1}) {
    for (const uint64_t counter :
         std::vector<uint64_t>{1, 2, (uint64_t{1} << node::kCounterBits) - 1}) {
      const uint64_t cas = cas_of_version(key, epoch, counter);
      CHECK(cas > last);
      CHECK(cas < uint64_t{1} << 63);
      CHECK(version_of_cas(key, cas) == (epoch << node::kCounterBits) + counter);
      last = cas;
    }
  }
}

TEST_CASE("a cas that would be no condition is that of no value") {
  CHECK(version_of_cas("key", cas_offset("key")) == 1);
}

TEST_CASE("keys that were written at the same version have another cas each") {
  ClusterFixture cluster(5);
  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  std::set<uint64_t> seen;
  for (int i = 0; i < 50; ++i) {
    const std::string key = fmt::format("key-{}", i);
    REQUIRE(cluster.put(proxy, key, "value"));
    const auto read = cluster.run(get_whole(proxy.ops(), key, cluster.deadline()));
    REQUIRE(read.has_value());
    seen.insert(read->object->cas);
  }
  CHECK(seen.size() == 50);
}

TEST_CASE("objects are stored, and compared by their cas, after 65,536 epochs") {
  const std::string value = GENERATE(std::string("inline"), std::string(300, 'x'));
  ClusterFixture cluster(5);
  sim::SimProxy& first = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(first); }));
  REQUIRE(cluster.put(first, "k", value));
  const uint64_t early = read_cas(cluster, first);
  const auto map = first.map().current();
  first.kill();
  install_number(cluster, cluster.add_proxy(), *map, 65'535);

  sim::SimProxy& proxy = cluster.add_decider();
  REQUIRE(cluster.run_until([&] { return cluster.serves_whole(proxy); }));
  REQUIRE(proxy.map().current()->epoch.number >= 65'536);
  REQUIRE(read_cas(cluster, proxy) == early);
  REQUIRE(store_cas(cluster, proxy, value + "2", early) == StoreStatus::kStored);
  const uint64_t late = read_cas(cluster, proxy);
  CHECK(late > early);
  CHECK(store_cas(cluster, proxy, value, early) == StoreStatus::kExists);
  CHECK(store_cas(cluster, proxy, value + "3", late) == StoreStatus::kStored);
  CHECK(cluster.get(proxy, "k") == value + "3");
  CHECK(read_cas(cluster, proxy) > late);
  REQUIRE(cluster.put(proxy, "k", value));
  CHECK(cluster.get(proxy, "k") == value);
}

}  // namespace
}  // namespace elastripe
