#include <catch2/catch.hpp>

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

}  // namespace elastripe::test
