// Nodes that are neither well nor dead: a thread that does not come back, memory that does not come
// soon (run it under TSan too).
#include <semaphore>
#include <thread>

#include "server-patches/node/format/map_changes.h"
#include "tests/unit/node/node_fixture.h"

namespace elastripe::node::test {
namespace {

// Sends a frame from a thread of its own, which TestNode::send() is not made for.
class Sender {
 public:
  Sender(TestNode& node, Opcode opcode, std::string args, std::string payload = {})
      : thread_([this, &node, opcode, args = std::move(args), payload = std::move(payload)] {
          Frame frame;
          frame.header.opcode = opcode;
          frame.header.args_bytes = static_cast<uint32_t>(args.size());
          frame.header.body_bytes = static_cast<uint32_t>(args.size() + payload.size());
          frame.header.cluster_id = kClusterId;
          frame.header.epoch = node.map.epoch;
          frame.header.incarnation = kOwnIncarnation;
          frame.header.now_ms = kNowMs;
          frame.args = as_view(args);
          frame.payload = as_view(payload);
          reply_ = node.engine.serve(frame);
        }) {}

  const Reply& join() {
    thread_.join();
    return reply_;
  }

 private:
  Reply reply_;
  std::jthread thread_;
};

std::string read_args(std::string_view key) {
  return encoded(RecordReadRequest{.role = Role::kAny, .m = 2, .key = key});
}

}  // namespace

TEST_CASE("a node with a thread that is stuck in a frame says so, and gets no lease") {
  TestNode node;
  std::binary_semaphore inside(0), go_on(0);
  node.hooked.before_find = [&](std::string_view key) {
    if (!key.ends_with("stuck")) return;
    inside.release();
    go_on.acquire();
  };
  Sender stuck(node, Opcode::kRecordRead, read_args("stuck"));
  inside.acquire();

  node.clock.now_ms += 2000;
  node.grant(3000);
  REQUIRE(node.hello().has_lease);
  node.clock.now_ms += 2000;
  REQUIRE(status(node.heartbeat(node.clock.now_ms, 3000)) == "NO_LEASE");
  REQUIRE(status(node.send(Opcode::kHello, {})) == "NO_LEASE");
  // Not even a map: it would wait for the frame, and nobody would answer any more.
  ClusterMap next = make_map(2, {1, 2, 0});
  REQUIRE(status(node.try_install(next)) == "NO_LEASE");
  seal(next);
  const std::string changes = changes_between(node.map, next).value();
  REQUIRE(status(node.send(Opcode::kInstallMap, encoded(InstallMapRequest{.is_changes = true}),
                           changes)) == "NO_LEASE");
  REQUIRE(status(node.read("other")) == "NOT_FOUND");
  node.clock.now_ms += 1000;
  REQUIRE(status(node.read("other")) == "NO_LEASE");

  go_on.release();
  REQUIRE(status(stuck.join()) == "NOT_FOUND");
  node.grant(3000);
  REQUIRE(status(node.read("other")) == "NOT_FOUND");
}

TEST_CASE("a frame that waits for memory holds up nothing else") {
  TestNode node;
  std::binary_semaphore waiting(0), go_on(0);
  std::atomic<bool> has_room = false;
  node.hooked.has_room = [&](std::string_view key) { return !key.ends_with("big") || has_room; };
  node.hooked.waits_for_room = [&] {
    waiting.release();
    go_on.acquire();
    return true;
  };
  Sender sender(node, Opcode::kRecordApply, encoded(node.request("big", Mutation::kSet)),
                encoded(inline_content("value")));
  waiting.acquire();

  // However long: waiting is not being stuck.
  node.clock.now_ms += 60'000;
  node.grant();
  REQUIRE(status(node.read("big")) == "NOT_FOUND");
  REQUIRE(status(node.set("other", "value")) == "OK");
  has_room = true;
  SECTION("it goes on when there is room") {
    go_on.release();
    REQUIRE(status(sender.join()) == "OK");
    REQUIRE(record_of(node.read("big")).content.value == "value");
  }
  SECTION("under a map that came meanwhile it is of an old epoch") {
    node.install(make_map(2, {1, 2, 0}));
    node.grant();
    go_on.release();
    REQUIRE(status(sender.join()) == "STALE_EPOCH");
    REQUIRE(status(node.read("big")) == "NOT_FOUND");
  }
}

TEST_CASE("a frame does not wait for memory for ever") {
  TestNode node;
  REQUIRE(status(node.set("key", "value")) == "OK");
  int waits = 0;
  node.hooked.has_room = [](std::string_view) { return false; };
  node.hooked.waits_for_room = [&] { return ++waits > 0; };
  REQUIRE(status(node.set("other", "value")) == "NO_SPACE");
  REQUIRE(waits > 1);
  REQUIRE(waits <= 10);
  REQUIRE(node.stat("out_of_memory") == 1);
  // What fits in place of what it replaces is the last resort.
  waits = 0;
  REQUIRE(status(node.apply(node.request("key", Mutation::kDelete))) == "OK");
  REQUIRE(waits > 1);
}

}  // namespace elastripe::node::test
