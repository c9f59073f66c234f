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
  size_t buckets = 64;
  size_t buckets_per_walk = 1000;
  node::ScanLimits scan = {};
  size_t log_unit_bytes = 64u << 10;
  size_t log_units = 20;
};

class SimNode final : public node::NodeClock {
 public:
  static constexpr uint64_t kStuckAfter_ms = 600;

  SimNode(EventQueue& events, Trace& trace, uint64_t seed, node::NodeId id, NodeMemory memory);

  node::NodeId id() const { return id_; }
  bool is_up() const { return runs() && stray_map_.empty(); }
  // Somebody is at its address: the node, or a stray.
  bool runs() const { return engine_ != nullptr; }
  bool is_stalled() const { return stalled_; }
  bool is_stuck() const { return stuck_.has_value(); }
  uint64_t sticks() const { return sticks_; }  // so often it got stuck
  // A dead process whose machine is gone too: nobody refuses connections.
  bool is_silent() const { return silent_; }
  bool is_incarnation(uint64_t incarnation) const { return is_up() && incarnation == incarnation_; }
  // Counts the processes: connections of an earlier one are gone.
  uint64_t process() const { return process_; }

  void start();  // empty, with a new incarnation
  // What the builds have that are started from now on.
  void install_build(node::CapabilitySet capabilities) { capabilities_ = capabilities; }
  bool is_outdated() const { return is_up() && running_ != capabilities_; }
  // A process of another cluster, which has a map and a record of that.
  void start_stray();
  bool is_stray() const { return runs() && !stray_map_.empty(); }
  bool is_harmed();  // a stray that has not got any more what it came with
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

  node::Reply hello();  // without a frame
  bool has_lease();
  uint64_t statistic(std::string_view name) const;  // of one that runs

  node::ArenaStore& store() { return *store_; }
  uint64_t boottime_ms() const override;

 private:
  void handle(const std::string& frame, ReplyFunction reply);
  std::string stray_map() const;

  EventQueue& events_;
  Trace& trace_;
  SimRandom random_;
  const node::NodeId id_;
  const NodeMemory memory_;
  const uint64_t boottime_offset_ms_;
  uint64_t process_ = 0;
  uint64_t incarnation_ = 0;
  node::CapabilitySet capabilities_ = node::own_capabilities();
  node::CapabilitySet running_;
  uint64_t sticks_ = 0;
  bool stalled_ = false;
  bool silent_ = false;
  std::string stray_map_;  // encoded; empty if the process is the node's own
  std::vector<std::pair<std::string, ReplyFunction>> inbox_;
  std::unique_ptr<node::ArenaStore> store_;
  std::unique_ptr<node::Engine> engine_;
  std::optional<node::Progress::Stay> stuck_;
};

// For traces: what a request asks, and how it was answered.
std::string describe_request(std::string_view frame);
std::string describe_map(std::string_view encoded);

}  // namespace elastripe::sim
