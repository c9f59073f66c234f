#include <catch2/catch.hpp>

#include "proxy/cluster/ask.h"

using namespace elastripe;
using node::Status;

namespace {

std::string refusal_of(Status status, NodeId node = 0) {
  node::ClusterMap map;
  map.nodes.emplace_back().name = "n1";
  NodeReply reply;
  reply.header.opcode = node::Opcode::kRecordRead;
  reply.header.status = status;
  return to_string(refusal(map, node, reply));
}

}  // namespace

TEST_CASE("a refusal says what is wrong in the words of the documentation") {
  CHECK(refusal_of(Status::kLost) == "lost: every home of the key's partition crashed");
  CHECK(refusal_of(Status::kNoLease) == "stale_epoch: node n1 has no lease");
  CHECK(refusal_of(Status::kNotHome) == "stale_epoch: node n1 is no home of the key in its map");
  CHECK(refusal_of(Status::kNoSpace) == "no_space: node n1 is full");
  CHECK(refusal_of(Status::kNoSpace, 7) == "no_space: node 7 is full");  // the map has no such node
  // Never a client's: the request itself was wrong, and who debugs that wants the protocol's words.
  CHECK(refusal_of(Status::kInvalid) == "invalid: node n1 answers INVALID to RECORD_READ");
}

TEST_CASE("what a node has refused is not done, and will not be") {
  const node::ClusterMap map;
  for (uint8_t status = 1; status < node::kStatuses; ++status) {
    NodeReply reply;
    reply.header.opcode = node::Opcode::kRecordApply;
    reply.header.status = static_cast<Status>(status);
    CHECK_FALSE(may_be_done(refusal(map, 0, reply)));
  }
  CHECK(may_be_done(malformed(map, 0, "cut off")));
}
