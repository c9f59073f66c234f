// The engine under frames of any content that pass its gate. The input is a list of frames:
// opcode (1 byte), length of the args (1 byte), length of the payload (2 bytes, little-endian),
// args, payload, in which contents and records are without checksums. Every frame must be answered
// once, with sizes that fit, and memory must stay bounded.
#include <cstdlib>

#include "server-patches/node/engine/arena_store.h"
#include "server-patches/node/engine/engine.h"
#include "tests/fuzz/seal.h"

using namespace elastripe::node;

namespace {

constexpr uint64_t kIncarnation = 5;
constexpr size_t kLimitBytes = 64u << 10;

struct FixedClock : NodeClock {
  uint64_t boottime_ms() const override { return 1000; }
};
struct NoOutbox : Outbox {
  void send(NodeId, RequestHeader, std::string, OwnedBytes) override {}
};
struct CountReply : ReplySink {
  explicit CountReply(int& count) : replies(count) {}
  void complete(Reply reply) override {
    ++replies;
    const ReplyHeader& header = reply.header;
    if (header.args_bytes != reply.args.size()) std::abort();
    if (header.payload_bytes() != reply.payload.size()) std::abort();
    if (header.body_bytes > kMaxBodyBytes) std::abort();
  }
  int& replies;
};

void require(bool holds) {
  if (!holds) std::abort();
}

// Tail of partition 0, head of 1 (m = 2), unsynced home of 2, home of a LOST 3.
ClusterMap make_map() {
  ClusterMap map;
  map.cluster_id = 1;
  map.epoch = {.number = 1, .decider = 1, .map_hash = 0};
  map.max_parities = 2;
  for (NodeId id = 0; id < 3; ++id) {
    map.nodes.push_back({.id = id,
                         .name = "n",
                         .host = "h",
                         .port = 1,
                         .domain = "d",
                         .incarnation = kIncarnation + id,
                         .state = NodeState::kUp});
  }
  map.partitions.resize(4);
  map.partitions[0].homes = {0, 1, 2};
  for (size_t p = 1; p < 4; ++p) map.partitions[p].homes = {1, 2, 0};
  map.partitions[0].synced = map.partitions[1].synced = true;
  map.partitions[2].sources = {{0, 1}};
  map.partitions[3].lost = true;
  seal(map);
  return map;
}

class Driver {
 public:
  Driver()
      : store_({.limit_bytes = kLimitBytes, .reserve_bytes = kLimitBytes / 8, .buckets = 16}),
        engine_({.incarnation = kIncarnation, .latches = 4}, store_, clock_, outbox_),
        map_(make_map()) {
    std::string bytes;
    encode(map_, bytes);
    send(Opcode::kInstallMap, {}, as_view(bytes));
    installed_ = true;
    std::string lease;
    encode(HeartbeatRequest{1000, 1000}, lease);
    send(Opcode::kHeartbeat, as_view(lease), {});
  }

  void send(Opcode opcode, ByteView args, ByteView payload) {
    Frame frame;
    frame.header.opcode = opcode;
    frame.header.args_bytes = static_cast<uint32_t>(args.size());
    frame.header.body_bytes = static_cast<uint32_t>(args.size() + payload.size());
    frame.header.cluster_id = map_.cluster_id;
    // Of INSTALL_MAP it is the epoch that the map replaces: none at first.
    frame.header.epoch = installed_ ? map_.epoch : Epoch{};
    frame.header.incarnation = is_control(opcode) ? 0 : kIncarnation;
    frame.header.now_ms = 1'700'000'000'000;
    frame.args = args;
    frame.payload = payload;
    int replies = 0;
    engine_.handle(frame, std::make_unique<CountReply>(replies));
    require(replies == 1);
    require(store_.memory().used_bytes <= kLimitBytes);
  }

  void tick() {
    engine_.tick();
    require(!engine_.statistics().empty());
  }

 private:
  FixedClock clock_;
  NoOutbox outbox_;
  ArenaStore store_;
  Engine engine_;
  ClusterMap map_;
  bool installed_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Driver driver;
  Reader in(std::as_bytes(std::span(data, size)));
  while (!in.at_end()) {
    const uint8_t opcode = in.u8();
    const size_t args_bytes = in.u8();
    const size_t payload_bytes = in.u16();
    const std::string_view args = in.raw(args_bytes);
    const std::string_view payload = in.raw(payload_bytes);
    if (!in.ok()) break;
    if (!is_known(opcode)) continue;
    std::string sealed(payload);
    if (!payload.empty() && static_cast<Opcode>(opcode) == Opcode::kRecordApply) {
      sealed = sealed_content(as_view(payload));
    } else if (static_cast<Opcode>(opcode) == Opcode::kRecordStore) {
      sealed = sealed_record(as_view(payload));
    }
    driver.send(static_cast<Opcode>(opcode), as_view(args), as_view(sealed));
  }
  driver.tick();
  return 0;
}
