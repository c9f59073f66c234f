// A simulated node: the real engine over an arena, in a process that can be killed, started again
// empty, and stalled.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server-patches/node/engine/arena_store.h"
#include "server-patches/node/engine/engine.h"
#include "tests/sim/trace.h"

namespace elastripe::sim {

struct NodeMemory {
  size_t limit_bytes = 8u << 20;
  size_t reserve_bytes = 1u << 20;  // part of the limit that new data can not take
};

class SimNode final : public node::NodeClock, public node::Outbox {
 public:
  SimNode(EventQueue& events, Trace& trace, uint64_t seed, node::NodeId id, NodeMemory memory);

  node::NodeId id() const { return id_; }
  bool is_up() const { return engine_ != nullptr; }
  bool is_stalled() const { return stalled_; }
  // A dead process whose machine is gone too: nobody refuses connections.
  bool is_silent() const { return silent_; }
  // Counts the processes: connections of an earlier one are gone.
  uint64_t process() const { return process_; }

  void start();  // empty, with a new incarnation
  void kill(bool silent);
  void stall();
  // As if a thread never came back from its frame: data frames wait, control frames are answered.
  void stick();
  void resume();  // what arrived meanwhile is handled now, by the clock of now

  // Handles a whole request frame, at once or when the node goes on. `reply` gets the reply's
  // bytes, or "" when the process dies before.
  using ReplyFunction = std::function<void(std::string)>;
  void deliver(std::string frame, ReplyFunction reply);
  void tick();

  node::ArenaStore& store() { return *store_; }

 private:
  uint64_t boottime_ms() const override;
  void send(node::NodeId to, node::RequestHeader header, std::string args,
            node::OwnedBytes payload) override;
  void handle(const std::string& frame, ReplyFunction reply);

  EventQueue& events_;
  Trace& trace_;
  SimRandom random_;
  const node::NodeId id_;
  const NodeMemory memory_;
  const uint64_t boottime_offset_ms_;
  uint64_t process_ = 0;
  bool stalled_ = false;
  bool silent_ = false;
  std::vector<std::pair<std::string, ReplyFunction>> inbox_;
  std::unique_ptr<node::ArenaStore> store_;
  std::unique_ptr<node::Engine> engine_;
  std::optional<node::Progress::Stay> stuck_;
};

// For traces: what a request asks, and how it was answered.
std::string describe_request(std::string_view frame);

}  // namespace elastripe::sim
