// The simulated network between proxies and nodes: delays, drops, duplicates and reorders frames.
//
// Every frame has a delay of its own, so order is kept nowhere: reconnects may reorder everything,
// and flows must not rely on it. Of commits only those that compare versions are duplicated: a
// second copy of the others might take effect long after the first was answered, so flows never
// resend them (rule 5). All may be dropped or come late.
#pragma once

#include <array>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/base/error.h"
#include "proxy/cluster/node_client.h"
#include "tests/sim/node.h"

namespace elastripe::sim {

struct NetworkProfile {
  double drop = 0.005;  // of requests
  double drop_reply = 0.005;
  double duplicate = 0.01;
  double slow = 0.05;   // up to slow_max, within a call's deadline
  double late = 0.005;  // up to late_max, long after the call's deadline
  Duration usual_max = std::chrono::milliseconds(2);
  Duration slow_max = std::chrono::milliseconds(60);
  Duration late_max = std::chrono::seconds(5);
  int install_echoes = 0;      // late copies of every INSTALL_MAP
  Duration scan_delay_max{0};  // of RECORD_SCAN: sync by sweep is slow
};

class SimTransport;

// Where an answer goes: a call of a proxy.
struct Caller {
  SimTransport* transport;
  uint64_t call;

  void operator()(Result<std::string> reply) const;  // its bytes
};

class Network {
 public:
  Network(EventQueue& events, Trace& trace, uint64_t seed, NetworkProfile profile, int nodes,
          NodeMemory memory = {});

  SimNode& node(size_t id) { return *nodes_[id]; }
  size_t nodes() const { return nodes_.size(); }
  SimNode& add_node();  // of the next id; not started

  // Between a proxy and a node: frames wait until the link is mended, or are lost.
  void cut(int proxy, node::NodeId node) { cuts_.insert({proxy, node}); }
  bool is_cut(int proxy, node::NodeId node) const { return cuts_.contains({proxy, node}); }
  void mend(int proxy, node::NodeId node);
  void mend_all();
  // No more drops, duplicates, lateness; and as it was at first.
  void calm();
  void trouble() { profile_ = troubled_; }

  // For unit tests of flows (tests/unit/ops): a special delay for some request frames; nothing: the
  // usual.
  using DelayRule =
      std::function<std::optional<Duration>(int proxy, node::NodeId, const node::RequestHeader&)>;
  void set_delay_rule(DelayRule rule) { delay_rule_ = std::move(rule); }

  // Likewise: sees each request frame and each reply, and may change it.
  using FrameRule = std::function<void(int proxy, node::NodeId, std::string& frame)>;
  void set_frame_rule(FrameRule rule) { frame_rule_ = std::move(rule); }

  // Called when a node has answered an APPLY with kOk, before its answer leaves. `record` is what
  // was committed in `epoch`; null if the answer does not tell.
  using CommitWatch =
      std::function<void(int proxy, node::NodeId head, uint32_t epoch, const node::Record* record)>;
  void watch_commits(CommitWatch watch) { commit_watch_ = std::move(watch); }
  // Called when a node has acknowledged a parity shard that it has built.
  using StageWatch = std::function<void(int proxy)>;
  void watch_staging(StageWatch watch) { stage_watch_ = std::move(watch); }
  // Called when a tail has numbered an update.
  using AppendWatch = std::function<void(int proxy, node::NodeId tail)>;
  void watch_appends(AppendWatch watch) { append_watch_ = std::move(watch); }
  // Called when a node has installed a map.
  using InstallWatch = std::function<void(node::NodeId at, const node::ClusterMap& map)>;
  void watch_installs(InstallWatch watch) { install_watches_.push_back(std::move(watch)); }

  // The answer is told at most twice, and maybe never; the first counts.
  void send(int proxy, node::NodeId to, std::string frame, Caller caller);

  struct Counters {
    uint64_t frames = 0;
    uint64_t dropped = 0;
    uint64_t duplicated = 0;
    uint64_t late = 0;
  };
  const Counters& counters() const { return counters_; }
  // What one opcode takes: frames that were sent, and bytes of requests and of replies.
  struct Traffic {
    uint64_t frames = 0;
    uint64_t bytes = 0;
  };
  using TrafficByOpcode = std::array<Traffic, node::kOpcodes.size()>;
  const TrafficByOpcode& traffic() const { return traffic_; }

 private:
  struct Flight {
    int proxy;
    node::NodeId to;
    uint64_t process;  // of the node, when the frame was sent; 0: it was down
    std::string frame;
    Caller caller;
  };

  Duration delay();
  void launch(Flight flight, Duration delay);
  void arrive(Flight flight);
  void note_install(SimNode& at);
  void disconnect(Caller caller);
  // `payload`: of the request, where a watch is told of it.
  void reply(int proxy, node::NodeId from, std::string bytes, std::string_view payload,
             Caller caller);

  EventQueue& events_;
  Trace& trace_;
  SimRandom random_;
  const NetworkProfile troubled_;
  NetworkProfile profile_;
  const NodeMemory memory_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::set<std::pair<int, node::NodeId>> cuts_;
  std::vector<Flight> held_;
  DelayRule delay_rule_;
  FrameRule frame_rule_;
  CommitWatch commit_watch_;
  AppendWatch append_watch_;
  StageWatch stage_watch_;
  std::vector<InstallWatch> install_watches_;
  Counters counters_;
  TrafficByOpcode traffic_;
};

// The NodeClient of one OpsContext.
class SimTransport final : public NodeClient {
 public:
  SimTransport(Network& network, VirtualClock& clock, int proxy)
      : network_(network), clock_(clock), proxy_(proxy) {}

  Task<Result<NodeReply>> call(NodeId to, Stamp stamp, NodeRequestPtr request,
                               TimePoint deadline) override;

  // Ends all calls, now and later, as cancelled (the proxy was killed). What left, left.
  void close() { closed_ = true; }
  void cancel_calls();

  void answered(uint64_t call, Result<std::string> reply);

 private:
  struct Call {
    OneShot<Result<NodeReply>> done;
    const std::vector<MutableByteView>& into;
    EventQueue::Ticket deadline;
  };
  void finish(uint64_t call, Result<NodeReply> result);

  Network& network_;
  VirtualClock& clock_;
  const int proxy_;
  bool closed_ = false;
  uint64_t next_call_ = 1;
  uint64_t calls_after_close_ = 0;
  std::map<uint64_t, Call*> calls_;
};

}  // namespace elastripe::sim
