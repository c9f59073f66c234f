// Channel: one pipelined TCP connection to one node, made on demand.
//
//   waiting_ (never sent) -> frames in out_, in slots_ until their replies come -> completed
//
// Replies are matched by `opaque` = (generation of the slot, index of the slot). A call that times
// out leaves its slot taken, as a tombstone, so that the late reply is known and swallowed.
// Whatever completes is resumed last in an event, or between two reads, when the channel's state is
// whole again.
#pragma once

#include <array>
#include <coroutine>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proxy/base/memory_pool.h"
#include "proxy/base/metrics.h"
#include "proxy/base/published.h"
#include "proxy/cluster/node_client.h"
#include "proxy/io/backoff.h"
#include "proxy/io/loop.h"
#include "proxy/io/resolver.h"
#include "proxy/io/stream.h"

namespace elastripe {

struct ChannelLimits {
  size_t waiting_calls = 16384;  // above: kBusy
  size_t tombstones = 4096;      // above: the node is stuck, the connection is closed
  Duration connect_timeout = std::chrono::seconds(1);  // then it is tried again from the start
  // When a node could not be connected to. At most as long as it is between two heartbeats, so that
  // a node which is back is not left alone for longer.
  Duration first_backoff = std::chrono::milliseconds(10);
  Duration longest_backoff = std::chrono::milliseconds(100);
  // Nothing was sent for so long, and nothing is waited for: the connection is closed, within a
  // quarter of that time. The next call makes another one.
  Duration idle = std::chrono::seconds(60);
};

// What a channel counts, by node.
struct ChannelMetrics {
  ChannelMetrics(MetricRegistry& registry, const std::string& node);
  Histogram& duration(node::Opcode opcode) { return *durations[node::index_of(opcode)]; }

  std::array<Histogram*, node::kOpcodes.size()> durations{};  // by place of the opcode
  std::array<Counter*, 16> errors{};                          // by ErrorCode
  Counter* sent_bytes;
  Counter* received_bytes;
};

// Where a node is. With a resolver, `host` is a name, which is looked up again for every
// connection: the node may have moved. Without one, `addresses` are all there are.
struct NodeAddress {
  std::string name;
  std::vector<SocketAddress> addresses;  // to begin with
  std::shared_ptr<Resolver> resolver = nullptr;
  std::string host = {};
  uint16_t port = 0;
};

class Channel;

// One call, in the frame of TcpNodeClient::call. Its timer is the deadline.
struct NodeCall final : Timer, StoppableCall {
  NodeCall(Channel& owner, Stamp by, NodeRequest& what)
      : channel(owner), stamp(by), request(what) {}
  void on_timer() override;
  void stop() override { on_timer(); }

  enum class Place { kNone, kWaiting, kSlot, kReading };

  Channel& channel;
  const Stamp stamp;
  NodeRequest& request;
  TimePoint started;
  Place place = Place::kNone;
  uint64_t index = 0;  // in waiting_ (its number) or in slots_
  std::coroutine_handle<> waiter;
  std::optional<Result<NodeReply>> result;
};

// What a channel is for. Only the control thread has control frames to send, so that its channels
// tell of a lost connection once, and those of all threads only when they are debugged.
enum class ChannelUse : uint8_t { kData, kControl };

// Loop thread only.
class Channel : private TurnEnd, private Stream::Owner {
 public:
  // `tls`: over what connections are made from then on; null: in clear. It outlives the channel.
  Channel(Loop& loop, Clock& clock, Random& random, NodeAddress node, ChannelUse use,
          ChannelLimits limits, MetricRegistry& registry, const Published<TlsContext>* tls);
  ~Channel() override;

  // Queues; completes later, never inside. False: the queue is full. When the node could not be
  // connected to, calls for the same process of it fail alike for a while, without another try.
  // Who asks for another one knows that something has changed; and control frames are those by
  // which a node that comes back is found.
  bool submit(NodeCall& call, TimePoint deadline);
  // The deadline of a call has passed, or it is stopped.
  void expire(NodeCall& call);
  // Completes every call with kCancelled and closes the connection.
  void cancel_all();
  // Closes the connection if it is idle (ChannelLimits). Returns whether there still is one, or
  // will be.
  bool close_if_idle();

  const std::string& name() const { return node_.name; }
  size_t tombstones() const { return tombstones_; }

 private:
  friend struct NodeCall;
  enum class State { kIdle, kResolving, kConnecting, kConnected };
  struct Slot {
    uint32_t generation = 0;
    bool taken = false;
    node::Opcode opcode = node::Opcode::kHello;
    NodeCall* call = nullptr;  // null while taken: a tombstone
    uint64_t begin = 0;        // of its frame, in all that was ever queued in out_
  };
  // A body that is being read past the input buffer.
  struct Body {
    size_t left = 0;
    NodeCall* call = nullptr;  // null: swallow
    NodeReply reply;
    std::vector<MutableByteView> targets;
    size_t target = 0;
  };
  struct ConnectTimer : Timer {
    explicit ConnectTimer(Channel& channel) : owner(channel) {}
    void on_timer() override { owner.on_connect_timeout(); }
    Channel& owner;
  };

  void on_turn_end() override;
  void on_readable() override;
  void on_writable() override;
  void on_connect_timeout();

  void start_connecting();
  void look_up();
  void resolved(Resolver::Found found);
  // To the next address that takes a connection, or may.
  void try_addresses();
  void shake_hands();
  void attempt_failed(int error);
  void leave_alone(Error why);
  void connected();
  void connect_failed(const Error& error);
  // Calls that there is no point in connecting for.
  void fail_hopeless();
  // Loses the connection: calls whose frames have left, or have begun to, fail with `code`, those
  // behind with kNotSent; waiting ones connect again.
  void break_off(ErrorCode code, const std::string& reason);
  void close_stream();
  void forget_stream();

  void write_frames();
  void write_frame(NodeCall& call, uint64_t now_ms);

  void read_some();
  size_t read_targets(std::array<struct iovec, 64>& parts);
  void make_room();
  void take_into_body(size_t bytes);
  bool parse();  // false: the node sent nonsense
  void begin_body(const node::ReplyHeader& header, NodeCall* call);
  void finish_body();
  NodeCall* release_slot(const node::ReplyHeader& header, bool& known);

  void finish(NodeCall& call, Result<NodeReply> result);
  void resume_finished();

  Loop& loop_;
  Clock& clock_;
  Random& random_;
  const NodeAddress node_;
  const ChannelUse use_;
  const ChannelLimits limits_;
  ChannelMetrics metrics_;
  const Published<TlsContext>* const tls_;

  State state_ = State::kIdle;
  Stream stream_;
  ConnectTimer connect_timer_{*this};
  Resolver::Waiting lookup_;
  bool looks_up_ = false;
  std::optional<std::vector<SocketAddress>> found_;  // by a look-up that was not waited for
  std::vector<SocketAddress> addresses_;             // of the node, as far as known
  size_t address_ = 0;                               // that is being tried
  bool all_refused_ = true;  // those that were tried, and they are all that the node may have
  bool is_heard_ = false;    // the node has sent something on this connection
  TimePoint last_sent_;      // or connected, if nothing was sent
  Backoff backoff_;
  TimePoint try_again_at_;
  Error last_failure_;               // until then
  uint64_t failed_incarnation_ = 0;  // the process that was to be called

  std::deque<NodeCall*, Pooled<NodeCall*>> waiting_;  // null: expired
  uint64_t waiting_first_ = 0;                        // number of waiting_.front()
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  size_t tombstones_ = 0;
  WriteQueue out_;

  Buffer in_;  // bodies of small replies are slices of it
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  Body body_;

  std::vector<std::coroutine_handle<>> finished_;
};

}  // namespace elastripe
