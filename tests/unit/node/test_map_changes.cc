// Maps that are told as changes: the format, and what a node takes and tells.
#include <array>
#include <new>

#include "server-patches/node/format/map_changes.h"
#include "tests/unit/node/allocations.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

ClusterMap sealed(ClusterMap map) {
  seal(map);
  return map;
}
ClusterMap base_map() {
  ClusterMap map = make_map(5, {1, 2, 0});
  map.partitions[3].synced = false;
  map.partitions[3].sources = {{0}, {1, 2}};
  return sealed(std::move(map));
}
// The map after it, but for what a test changes.
ClusterMap following(const ClusterMap& base) {
  ClusterMap map = base;
  ++map.epoch.number;
  map.base = base.epoch;
  map.version_floor += uint64_t{1} << kCounterBits;
  return map;
}
std::string changes_of(const ClusterMap& base, const ClusterMap& next) {
  const auto changes = changes_between(base, next);
  REQUIRE(changes.has_value());
  return *changes;
}

const std::array<std::pair<const char*, void (*)(ClusterMap&)>, 12> kEdits = {{
    {"the epoch", [](ClusterMap&) {}},
    {"the decider", [](ClusterMap& map) { map.epoch.decider = 77; }},
    {"no base", [](ClusterMap& map) { map.base = {}; }},
    {"a flush",
     [](ClusterMap& map) {
       map.flush_floor = map.version_floor;
       map.flush_at = 1'900'000'000;
     }},
    {"more copies", [](ClusterMap& map) { map.max_parities = 3; }},
    {"a node",
     [](ClusterMap& map) {
       map.nodes[2].state = NodeState::kLost;
       map.nodes[2].incarnation = 9;
       map.nodes[3].host = "elsewhere";
     }},
    {"a role", [](ClusterMap& map) { map.nodes[1].role = NodeRole::kDraining; }},
    {"more nodes",
     [](ClusterMap& map) {
       for (NodeId id = 4; id < 6; ++id) {
         map.nodes.push_back(map.nodes[3]);
         map.nodes.back().id = id;
       }
       map.partitions[15].homes = {5, 4, 0};
     }},
    {"partitions",
     [](ClusterMap& map) {
       map.partitions[0].homes = {3};
       map.partitions[3] = map.partitions[4];
       map.partitions[9].sources = {{}, {1}};
       map.partitions[15].synced = false;
       map.partitions[15].lost = true;
     }},
    {"settings",
     [](ClusterMap& map) {
       map.settings = {.version = 2,
                       .heartbeat_ms = 100,
                       .suspect_after_ms = 1000,
                       .lease_ms = 3000,
                       .longest_lease_ms = 6000,
                       .refused_is_dead = false,
                       .text = "pools: []"};
     }},
    {"everything",
     [](ClusterMap& map) {
       for (Partition& partition : map.partitions) partition.homes = {3, 1};
       for (NodeInfo& node : map.nodes) ++node.incarnation;
     }},
    {"fewer capabilities", [](ClusterMap& map) { map.capabilities = CapabilitySet(2); }},
}};

}  // namespace

TEST_CASE("whatever has changed in a map comes out of its changes") {
  ClusterMap base = base_map();
  for (const auto& [what, edit] : kEdits) {
    INFO(what);
    ClusterMap next = following(base);
    edit(next);
    seal(next);
    const std::string changes = changes_of(base, next);
    auto changed = apply_changes(base, as_view(changes));
    REQUIRE(changed);
    CHECK(changed->map == *decode_map(as_view(encoded(next))));
    CHECK(changed->encoded == encoded(next));
    const auto head = decode_changes_head(as_view(changes));
    REQUIRE(head);
    CHECK(head->base_hash == base.epoch.map_hash);
    CHECK(head->epoch == next.epoch);
    CHECK(head->cluster_id == next.cluster_id);
    CHECK(head->version_floor == next.version_floor);
    // And what comes after it.
    base = std::move(changed->map);
  }
}

TEST_CASE("changes are as long as what has changed") {
  ClusterMap base = make_map(5, {1, 2, 0});
  base.partitions.resize(16'384, base.partitions[0]);
  seal(base);
  ClusterMap next = following(base);
  for (size_t p = 0; p < 50; ++p) next.partitions[p * 300].homes = {1, 2, 3};
  seal(next);
  CHECK(encoded(next).size() > 100'000);
  CHECK(changes_of(base, next).size() < 1000);
}

TEST_CASE("maps of which one does not come of the other have no changes") {
  const ClusterMap base = base_map();
  ClusterMap next = following(base);
  SECTION("of two clusters") { next.cluster_id = 1; }
  SECTION("of other partitions") { next.partitions.pop_back(); }
  SECTION("a node is gone") { next.nodes.pop_back(); }
  CHECK_FALSE(changes_between(base, sealed(next)));
}

TEST_CASE("changes are refused on any map but the one that they are of") {
  const ClusterMap base = base_map();
  ClusterMap next = following(base);
  next.partitions[0].homes = {3};
  seal(next);
  const std::string changes = changes_of(base, next);
  CHECK(apply_changes(base, as_view(changes)));
  ClusterMap other = base;
  other.partitions[1].synced = false;
  seal(other);
  CHECK(apply_changes(other, as_view(changes)).error() == "the changes are of another map");
  CHECK_FALSE(apply_changes(next, as_view(changes)));
  other = base;
  other.cluster_id = 1;  // with the hash of the right one
  CHECK_FALSE(apply_changes(other, as_view(changes)));
}

TEST_CASE("cut or damaged changes give the map that was meant, or none") {
  const ClusterMap base = base_map();
  for (const auto& [what, edit] : kEdits) {
    ClusterMap next = following(base);
    edit(next);
    seal(next);
    const std::string changes = changes_of(base, next);
    const std::string whole = encoded(next);
    const auto is_right_or_none = [&](const std::string& bytes) {
      const auto changed = apply_changes(base, as_view(bytes));
      return !changed || (changed->encoded == whole && encoded(changed->map) == whole);
    };
    for (size_t n = 0; n < changes.size(); ++n) {
      INFO(what << ", cut to " << n);
      CHECK_FALSE(apply_changes(base, as_view(changes.substr(0, n))));
    }
    for (size_t bit = 0; bit < changes.size() * 8; ++bit) {
      std::string damaged = changes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
      INFO(what << ", bit " << bit);
      CHECK(is_right_or_none(damaged));
    }
    CHECK(is_right_or_none(changes + "of a newer peer"));
    CHECK(apply_changes(base, as_view(changes + "of a newer peer")));
  }
}

TEST_CASE("changes of fields that are not known here make no map") {
  const ClusterMap base = base_map();
  ClusterMap next = following(base);
  // The hash of a newer build's map covers what this one does not encode.
  const std::string body = encoded(sealed(next)).substr(sizeof(uint64_t)) + "a later field";
  next.epoch.map_hash = hash_key(body);
  CHECK(apply_changes(base, as_view(changes_of(base, next))).error() ==
        "changed as told, the map does not match its hash");
}

TEST_CASE("changes that would make a map too large for a frame are refused") {
  const std::vector<NodeId> group(255, 1);
  ClusterMap base = base_map();
  base.partitions[0].sources.assign(15'000, group);
  seal(base);
  ClusterMap next = following(base);
  next.partitions[1].sources.assign(2'000, group);
  seal(next);
  CHECK(encoded(base).size() < kMaxBodyBytes);
  CHECK(apply_changes(base, as_view(changes_of(base, next))).error() ==
        "the changed map would not fit in a frame");
}

namespace {

const std::string kAsChanges = encoded(InstallMapRequest{.is_changes = true});

// A node under base_map(), with a lease.
struct ChangedNode : TestNode {
  explicit ChangedNode(EngineOptions options = {}) : TestNode({1, 2, 0}, {}, options) {
    install(base_map());
    grant();
  }
  Reply install_changes(std::string_view changes,
                        const std::function<void(RequestHeader&)>& change = {}) {
    return send(Opcode::kInstallMap, kAsChanges, changes, change);
  }
  Reply ask(uint64_t known, bool takes_changes = true) {
    return send(Opcode::kHello,
                encoded(HelloRequest{.known_map = known, .takes_changes = takes_changes}));
  }
};

ClusterMap next_of(const ClusterMap& base) {
  ClusterMap next = following(base);
  next.partitions[7].homes = {1, 2, 3};
  next.partitions[7].synced = false;
  next.partitions[7].sources = {{0, 1, 2}};
  return sealed(std::move(next));
}

}  // namespace

TEST_CASE("a map that comes as changes is the same as one that comes whole") {
  ChangedNode changed, whole;
  const ClusterMap next = next_of(changed.map);
  REQUIRE(status(changed.install_changes(changes_of(changed.map, next))) == "OK");
  changed.map = next;
  whole.install(next);
  const Reply told = changed.ask(0);
  CHECK(told.header.epoch == next.epoch);
  CHECK(payload_of(told) == encoded(next));
  CHECK(payload_of(told) == payload_of(whole.ask(0)));
  CHECK(changed.hello().synced == whole.hello().synced);
  CHECK_FALSE(changed.hello().has_lease);
  SECTION("the same changes once more are nothing new") {
    changed.grant();
    REQUIRE(status(changed.install_changes(changes_of(base_map(), next))) == "OK");
    CHECK(changed.hello().has_lease);
  }
}

TEST_CASE("changes that a node can not take leave it as it was") {
  ChangedNode node;
  const ClusterMap base = node.map;
  const ClusterMap next = next_of(base);
  const std::string changes = changes_of(base, next);
  const auto refused = [&](std::string_view bytes,
                           const std::function<void(RequestHeader&)>& change) {
    return status(node.install_changes(bytes, change));
  };
  SECTION("of another map than the header names") {
    ClusterMap other = base;
    other.partitions[1].synced = false;
    seal(other);
    CHECK(refused(changes_of(other, next), {}) == "INVALID");
  }
  SECTION("in place of another map than the installed one") {
    CHECK(refused(changes, [](auto& header) { header.epoch = {}; }) == "STALE_EPOCH");
  }
  SECTION("of a map before") {
    CHECK(refused(changes_of(make_map(4, {1, 2, 0}), base), {}) == "OK");  // it is there
    CHECK(refused(changes_of(base, sealed(make_map(4, {1, 2, 0}))), {}) == "STALE_EPOCH");
  }
  SECTION("malformed") {
    CHECK(refused("garbage", {}) == "INVALID");
    CHECK(refused(changes.substr(0, changes.size() - 1), {}) == "INVALID");
  }
  CHECK(node.hello().has_lease);
  CHECK(payload_of(node.ask(0)) == encoded(base));
}

TEST_CASE("a map is refused for the same reason however it comes") {
  for (const auto& [what, edit] : std::array<std::pair<const char*, void (*)(ClusterMap&)>, 5>{
           {{"epoch 0", [](ClusterMap& map) { map.epoch.number = 0; }},
            {"too far ahead", [](ClusterMap& map) { map.epoch.number = UINT32_MAX; }},
            {"too high versions", [](ClusterMap& map) { map.version_floor = UINT64_MAX; }},
            {"the number of the installed one", [](ClusterMap& map) { map.epoch.number = 5; }},
            {"a home that there is not",
             [](ClusterMap& map) { map.partitions[1].homes = {9}; }}}}) {
    INFO(what);
    ChangedNode node;
    ClusterMap next = next_of(node.map);
    edit(next);
    seal(next);
    const std::string whole = status(node.try_install(next));
    CHECK(whole != "OK");
    CHECK(status(node.install_changes(changes_of(node.map, next))) == whole);
  }
}

TEST_CASE("a node without a map takes no changes") {
  ArenaStore store({});
  FakeClock clock;
  Engine engine({.incarnation = 5}, store, clock);
  const ClusterMap base = base_map();
  const std::string changes = changes_of(base, next_of(base));
  Frame frame;
  frame.header.opcode = Opcode::kInstallMap;
  frame.header.cluster_id = kClusterId;
  frame.header.args_bytes = static_cast<uint32_t>(kAsChanges.size());
  frame.header.body_bytes = static_cast<uint32_t>(kAsChanges.size() + changes.size());
  frame.args = as_view(kAsChanges);
  frame.payload = as_view(changes);
  CHECK(status(engine.serve(frame)) == "INVALID");
  frame.header.epoch = base.epoch;
  CHECK(status(engine.serve(frame)) == "STALE_EPOCH");
}

TEST_CASE("who has the map before is told what has changed") {
  ChangedNode node;
  const ClusterMap base = node.map;
  const ClusterMap next = next_of(base);
  const bool as_changes = GENERATE(false, true);
  if (as_changes) {
    REQUIRE(status(node.install_changes(changes_of(base, next))) == "OK");
    node.map = next;
  } else {
    node.install(next);
  }
  const auto is_changes = [](const Reply& reply) { return args_of<HelloReply>(reply).is_changes; };
  const Reply told = node.ask(base.epoch.map_hash);
  REQUIRE(is_changes(told));
  const auto changed = apply_changes(base, told.payload.bytes());
  REQUIRE(changed);
  CHECK(changed->map == next);
  for (const Reply& whole : {node.ask(0), node.ask(sealed(make_map(1, {1, 2, 0})).epoch.map_hash),
                             node.ask(base.epoch.map_hash, /*takes_changes=*/false)}) {
    CHECK_FALSE(is_changes(whole));
    CHECK(payload_of(whole) == encoded(next));
  }
  const Reply known = node.ask(next.epoch.map_hash);
  CHECK_FALSE(is_changes(known));
  CHECK(payload_of(known).empty());
}

TEST_CASE("changes that are half as long as the map are not kept") {
  ChangedNode node;
  const ClusterMap base = node.map;
  ClusterMap next = following(base);
  for (Partition& partition : next.partitions) partition.homes = {2, 1, 0};
  node.install(next);
  const Reply told = node.ask(base.epoch.map_hash);
  CHECK_FALSE(args_of<HelloReply>(told).is_changes);
  CHECK(payload_of(told) == encoded(node.map));
}

TEST_CASE("an older build takes and tells whole maps") {
  EngineOptions options;
  options.capabilities = own_capabilities().without(
      CapabilitySet(uint64_t{1} << static_cast<int>(Capability::kMapChanges)));
  ChangedNode node(options);
  const ClusterMap base = node.map;
  const ClusterMap next = next_of(base);
  CHECK(status(node.install_changes(changes_of(base, next))) == "INVALID");
  node.install(next);
  CHECK_FALSE(args_of<HelloReply>(node.ask(base.epoch.map_hash)).is_changes);
  CHECK(payload_of(node.ask(base.epoch.map_hash)) == encoded(next));
}

namespace {

Frame install_frame(std::string_view args, std::string_view map, const Epoch& replaced) {
  Frame frame;
  frame.header.opcode = Opcode::kInstallMap;
  frame.header.args_bytes = static_cast<uint32_t>(args.size());
  frame.header.body_bytes = static_cast<uint32_t>(args.size() + map.size());
  frame.header.cluster_id = kClusterId;
  frame.header.epoch = replaced;
  frame.args = as_view(args);
  frame.payload = as_view(map);
  return frame;
}

// Nothing: memory has ended on the way.
std::optional<Reply> serve_with(size_t allocations, Engine& engine, const Frame& frame) {
  const FewAllocations few(allocations);
  try {
    return engine.serve(frame);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("a map that there is no memory for changes nothing") {
  ChangedNode node;
  REQUIRE(status(node.set("another key", "value")) == "OK");
  const ClusterMap next = next_of(node.map);
  const bool is_changes = GENERATE(false, true);
  const std::string args = is_changes ? kAsChanges : "";
  const std::string map = is_changes ? changes_of(node.map, next) : encoded(next);
  const Frame frame = install_frame(args, map, node.map.epoch);
  const std::vector<uint8_t> synced = node.hello().synced;
  std::optional<Reply> reply;
  for (size_t allocations = 0; !reply; ++allocations) {
    INFO("after " << allocations << " allocations");
    reply = serve_with(allocations, node.engine, frame);
    if (reply) break;
    const Reply told = node.ask(0);
    CHECK(told.header.epoch == node.map.epoch);
    CHECK(payload_of(told) == encoded(node.map));
    CHECK(node.hello().synced == synced);
    CHECK(node.hello().has_lease);
    CHECK(status(node.read("another key")) == "OK");
  }
  CHECK(status(*reply) == "OK");
  CHECK(payload_of(node.ask(0)) == encoded(next));
  CHECK_FALSE(node.hello().has_lease);
}

TEST_CASE("a first map that there is no memory for may be followed by one of more partitions") {
  ClusterMap larger = make_map(2, {1, 2, 0});
  larger.partitions.resize(64 * kPartitions, larger.partitions[0]);
  seal(larger);
  const std::string first = encoded(sealed(make_map(1, {1, 2, 0})));
  const std::string second = encoded(larger);
  bool is_installed = false;
  for (size_t allocations = 0; !is_installed; ++allocations) {
    INFO("after " << allocations << " allocations");
    FakeClock clock;
    ArenaStore store{{}};
    Engine engine(TestNode::own({}), store, clock);
    is_installed = serve_with(allocations, engine, install_frame({}, first, {})).has_value();
    const auto reply = serve_with(kAllSucceed, engine, install_frame({}, second, {}));
    REQUIRE(reply);
    CHECK(status(*reply) == (is_installed ? "STALE_EPOCH" : "OK"));
  }
}

}  // namespace elastripe::node::test
