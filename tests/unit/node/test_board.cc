#include <catch2/catch.hpp>

#include "server-patches/node/engine/board.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

std::string texts(const Board::Read& read) {
  std::string all;
  for (const Notice& notice : read.notices) all += std::string(notice.text) + " ";
  return all;
}

}  // namespace

TEST_CASE("a notice is read by whom it is for, until its life is over") {
  Board board;
  REQUIRE(board.post({{1, 0, 1, 1000, "all"}, {1, 7, 2, 500, "seven"}}, 100));
  REQUIRE(board.post({{2, 8, 1, 1000, "eight"}}, 200));
  const Board::Read read = board.read(7, 0, 300);
  REQUIRE(texts(read) == "all seven ");
  REQUIRE(read.last == 3);
  REQUIRE(read.notices[0].life_ms == 800);
  REQUIRE(read.notices[1].from == 1);
  REQUIRE(texts(board.read(8, 0, 300)) == "all eight ");
  SECTION("what was posted since") {
    REQUIRE(texts(board.read(7, read.last, 300)).empty());
    REQUIRE(board.post({{3, 7, 1, 1000, "news"}}, 300));
    REQUIRE(texts(board.read(7, read.last, 300)) == "news ");
  }
  SECTION("while it lives") {
    REQUIRE(texts(board.read(7, 0, 599)) == "all seven ");
    REQUIRE(texts(board.read(7, 0, 600)) == "all ");
    REQUIRE(texts(board.read(7, 0, 1100)).empty());
  }
  SECTION("the sender replaces it, which is news") {
    REQUIRE(board.post({{1, 0, 1, 1000, "all again"}}, 300));
    REQUIRE(texts(board.read(7, 0, 300)) == "seven all again ");
    REQUIRE(texts(board.read(7, read.last, 300)) == "all again ");
  }
}

TEST_CASE("a reader whose clock is behind is told no longer life than there is") {
  Board board;
  REQUIRE(board.post({{1, 0, 1, kMaxNoticeLife_ms, "text"}}, 1000));
  REQUIRE(board.read(7, 0, 999).notices[0].life_ms == kMaxNoticeLife_ms);
}

TEST_CASE("more notices than a board takes are refused whatever they replace") {
  Board board;
  REQUIRE_FALSE(board.post(std::vector<Notice>(Board::kMaxNotices + 1, {1, 0, 1, 1000, "x"}), 0));
  REQUIRE(board.read(7, 0, 0).notices.empty());
}

TEST_CASE("a full board refuses, and keeps what lives") {
  Board board;
  SECTION("by number") {
    std::vector<Notice> many;
    for (uint64_t i = 0; i < Board::kMaxNotices; ++i) many.push_back({1, 0, i, 1000, "x"});
    REQUIRE(board.post(many, 0));
    many.pop_back();
    REQUIRE(board.post(many, 0));  // in their own places
    REQUIRE_FALSE(board.post({{2, 0, 1, 1000, "y"}}, 999));
    REQUIRE_FALSE(board.post({{1, 0, 1, 1000, "z"}, {2, 0, 1, 1000, "y"}}, 999));
    REQUIRE(board.read(7, 0, 999).notices.size() == Board::kMaxNotices);
    REQUIRE(board.post({{2, 0, 1, 1000, "y"}}, 1000));
    REQUIRE(texts(board.read(7, 0, 1000)) == "y ");
  }
  SECTION("by bytes") {
    const std::string large(kMaxNoticeBytes, 'x');
    for (uint64_t i = 0; i < Board::kMaxBytes / kMaxNoticeBytes; ++i) {
      REQUIRE(board.post({{1, 0, i, 1000, large}}, 0));
    }
    REQUIRE_FALSE(board.post({{2, 0, 1, 1000, "y"}}, 0));
    REQUIRE(board.post({{1, 0, 5, 1000, "shorter"}, {2, 0, 1, 1000, "y"}}, 0));
  }
}

TEST_CASE("notices are for proxies of the node's cluster, of whatever epoch") {
  TestNode node;
  const NoticesRequest request = {7, 0, {{1, 0, 1, 1000, "text"}}};
  const auto send = [&](const std::function<void(RequestHeader&)>& change) {
    return node.send(Opcode::kNotices, encoded(request), {}, change);
  };
  REQUIRE(status(send([](auto& h) { h.cluster_id = 7; })) == "STALE_EPOCH");
  node.grant(0);
  const Reply reply = send([](auto& h) { h.epoch = {}; });
  REQUIRE(status(reply) == "OK");
  const auto read = args_of<NoticesReply>(reply);
  REQUIRE(read.last == 1);
  REQUIRE(read.notices == std::vector<Notice>{{1, 0, 1, 1000, "text"}});
  node.clock.now_ms += 1000;
  const auto later =
      args_of<NoticesReply>(node.send(Opcode::kNotices, encoded(NoticesRequest{7, 0, {}})));
  REQUIRE(later.notices.empty());
  REQUIRE(later.last == 1);
}

TEST_CASE("notices are refused without a map, without room, and when they are no notices") {
  ArenaStore store({});
  FakeClock clock;
  Engine unmapped({.incarnation = 5}, store, clock);
  const std::string none = encoded(NoticesRequest{7, 0, {}});
  Frame frame;
  frame.header.opcode = Opcode::kNotices;
  frame.header.args_bytes = frame.header.body_bytes = static_cast<uint32_t>(none.size());
  frame.args = as_view(none);
  REQUIRE(status(unmapped.serve(frame)) == "JOINING");

  TestNode node;
  REQUIRE(status(node.send(Opcode::kNotices, "\xff\xff\xff")) == "INVALID");
  const auto post = [&](uint64_t number) {
    const std::string text(kMaxNoticeBytes, 'x');
    return node.send(Opcode::kNotices, encoded(NoticesRequest{8, 0, {{1, 7, number, 1000, text}}}));
  };
  for (uint64_t i = 0; i < Board::kMaxBytes / kMaxNoticeBytes; ++i) {
    REQUIRE(status(post(i)) == "OK");
  }
  REQUIRE(status(post(Board::kMaxNotices)) == "NO_SPACE");
  REQUIRE(status(post(0)) == "OK");
}

}  // namespace elastripe::node::test
