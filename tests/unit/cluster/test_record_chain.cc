#include <catch2/catch.hpp>

#include "proxy/cluster/record_chain.h"

using namespace elastripe;
using node::Status;

namespace {

std::string refusal_of(Status status) {
  NodeReply reply;
  reply.header.opcode = node::Opcode::kRecordRead;
  reply.header.status = status;
  return to_string(refusal(3, reply));
}

}  // namespace

TEST_CASE("a refusal says what is wrong in the words of the documentation") {
  CHECK(refusal_of(Status::kLost) == "lost: every home of the key's partition crashed");
  CHECK(refusal_of(Status::kNoLease) == "stale_epoch: node 3 has no lease");
  CHECK(refusal_of(Status::kNotHome) == "stale_epoch: node 3 is no home of the key in its map");
  CHECK(refusal_of(Status::kNoSpace) == "no_space: node 3 is full");
  // Never a client's: the request itself was wrong, and who debugs that wants the protocol's words.
  CHECK(refusal_of(Status::kInvalid) == "invalid: node 3 answers INVALID to RECORD_READ");
}
