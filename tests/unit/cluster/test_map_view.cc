#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proxy/cluster/map_view.h"

namespace elastripe::test {

TEST_CASE("a node that has told nothing has room for everything") {
  MapView view;
  REQUIRE(view.rooms()->free_bytes(3) == UINT64_MAX);
  REQUIRE(view.rooms()->enter(3, 1 << 30));
  view.expect_nodes(4);
  REQUIRE(view.rooms()->free_bytes(3) == UINT64_MAX);
  REQUIRE(view.rooms()->enter(3, 1 << 30));
}

TEST_CASE("what is on its way to a node takes room there until it has arrived") {
  MapView view;
  view.expect_nodes(2);
  const NodeRoomsPtr rooms = view.rooms();
  rooms->note_free_bytes(1, 1000);
  REQUIRE(rooms->enter(1, 600));
  REQUIRE_FALSE(rooms->enter(1, 500));
  REQUIRE(rooms->enter(1, 300));
  REQUIRE(rooms->enter(0, 5000));
  rooms->leave(1, 600);
  REQUIRE(rooms->enter(1, 500));
  SECTION("a full node takes nothing") {
    rooms->leave(1, 500);
    rooms->leave(1, 300);
    rooms->note_free_bytes(1, 0);
    REQUIRE_FALSE(rooms->enter(1, 1));
  }
}

TEST_CASE("what is known of the rooms stays while the nodes are the same") {
  MapView view;
  view.expect_nodes(2);
  view.rooms()->note_free_bytes(1, 1000);
  view.expect_nodes(2);
  REQUIRE(view.rooms()->free_bytes(1) == 1000);
  view.expect_nodes(3);
  REQUIRE(view.rooms()->free_bytes(1) == UINT64_MAX);
}

namespace {

node::MapPtr map_with(uint32_t settings_version, const std::string& text = {}) {
  auto map = std::make_shared<node::ClusterMap>();
  map->partitions.resize(1);
  map->settings.version = settings_version;
  map->settings.text = text;
  return map;
}

}  // namespace

TEST_CASE("a map is served once the proxy follows its settings") {
  MapView view;
  std::vector<uint32_t> asked;
  view.have_followed(
      [&](const node::ClusterSettings& settings) { asked.push_back(settings.version); });
  const auto none = map_with(0);
  view.serve(none);
  CHECK(view.current() == none);  // there is nothing to follow
  const auto first = map_with(1, "a");
  view.serve(first);
  CHECK(view.current() == none);
  view.serve(first);
  CHECK(asked == std::vector<uint32_t>{1});
  SECTION("and then at once") {
    view.follows(first->settings);
    CHECK(view.current() == first);
    const auto next = map_with(1, "a");
    view.serve(next);
    CHECK(view.current() == next);
  }
  SECTION("the newest, if there is another one meanwhile") {
    const auto second = map_with(2, "b");
    view.serve(second);
    CHECK(asked == std::vector<uint32_t>{1, 2});
    view.follows(first->settings);
    CHECK(view.current() == none);
    view.follows(second->settings);
    CHECK(view.current() == second);
  }
  SECTION("with the same version another cluster has other ones") {
    view.follows(first->settings);
    view.serve(map_with(1, "b"));
    CHECK(view.current() == first);
    CHECK(asked.size() == 2);
  }
  SECTION("and not after it was told to stop") {
    view.stop_serving("over");
    view.follows(first->settings);
    CHECK(view.current() == nullptr);
  }
  SECTION("where it can not, it serves nothing until it can") {
    view.can_not_follow("no");
    CHECK(view.current() == nullptr);
    CHECK(view.reason() == "no");
    view.follows(first->settings);
    CHECK(view.current() == first);
  }
}

TEST_CASE("a map that was only heard of is forgotten once one is served") {
  MapView view;
  const auto heard = map_with(1, "a"), served = map_with(2, "b");
  view.hear_of(heard);
  CHECK(view.heard_of() == heard);
  CHECK(view.current() == nullptr);
  CHECK(view.last_served() == nullptr);
  view.serve(served);
  view.stop_serving("over");
  view.hear_of(heard);
  CHECK(view.heard_of() == nullptr);
  CHECK(view.last_served() == served);
}

}  // namespace elastripe::test
