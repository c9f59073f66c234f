#include "proxy/io/channel.h"

#include <fmt/core.h>

#include <cerrno>

#include "proxy/base/check.h"
#include "proxy/base/log.h"

namespace elastripe {
namespace {

constexpr HistogramRow kNodeRequestDuration{{"elastripe_node_request_duration_seconds",
                                             "Time from a frame sent to its reply.",
                                             {"node", "request"}}};
constexpr CounterRow kNodeErrors{
    "elastripe_node_errors_total", "Node requests that failed.", {"node", "code"}};
constexpr CounterRow kNodeSentBytes{
    "elastripe_node_sent_bytes_total", "Bytes written to the node.", {"node"}};
constexpr CounterRow kNodeReceivedBytes{
    "elastripe_node_received_bytes_total", "Bytes read from the node.", {"node"}};

// Frames are made only while less than this is unsent, so that an expired call costs nothing.
constexpr size_t kUnsentBytes = 1 << 20;
// Payloads up to this size are copied: a reference costs as much, and one piece leaves faster.
constexpr size_t kCopiedBytes = 4 << 10;
// A look-up that takes longer is for the connection after this one, if addresses are known.
constexpr Duration kLookUpPatience = std::chrono::milliseconds(100);
}  // namespace

ChannelMetrics::ChannelMetrics(MetricRegistry& registry, const std::string& node)
    : sent_bytes(&registry.cell(kNodeSentBytes, {node})),
      received_bytes(&registry.cell(kNodeReceivedBytes, {node})) {
  for (size_t i = 0; i < durations.size(); ++i) {
    durations[i] = &registry.cell(kNodeRequestDuration, {node, node::kOpcodes[i].name});
  }
  for (const ErrorCode code :
       {ErrorCode::kTimeout, ErrorCode::kDisconnected, ErrorCode::kUnavailable, ErrorCode::kBusy,
        ErrorCode::kNotSent, ErrorCode::kCancelled}) {
    errors[static_cast<size_t>(code)] = &registry.cell(kNodeErrors, {node, elastripe::name(code)});
  }
}

void NodeCall::on_timer() { channel.expire(*this); }

Channel::Channel(Loop& loop, Clock& clock, Random& random, NodeAddress node, ChannelUse use,
                 ChannelLimits limits, MetricRegistry& registry, const Published<TlsContext>* tls)
    : TurnEnd(loop),
      loop_(loop),
      clock_(clock),
      random_(random),
      node_(std::move(node)),
      use_(use),
      limits_(limits),
      metrics_(registry, node_.name),
      tls_(tls),
      stream_(loop, *this),
      addresses_(node_.addresses),
      backoff_(limits.first_backoff, limits.longest_backoff) {}

Channel::~Channel() {
  for (const NodeCall* call : waiting_) CHECK(call == nullptr, "a channel dies with calls");
  for (const Slot& slot : slots_) CHECK(slot.call == nullptr, "a channel dies with calls");
  close_stream();
}

bool Channel::submit(NodeCall& call, TimePoint deadline) {
  if (waiting_.size() >= limits_.waiting_calls) {
    metrics_.errors[static_cast<size_t>(ErrorCode::kBusy)]->add();
    return false;
  }
  call.started = loop_.turn_time();
  call.place = NodeCall::Place::kWaiting;
  call.index = waiting_first_ + waiting_.size();
  waiting_.push_back(&call);
  loop_.arm(call, deadline);
  request_turn_end();
  return true;
}

void Channel::expire(NodeCall& call) {
  switch (call.place) {
    case NodeCall::Place::kNone:
      return;
    case NodeCall::Place::kWaiting:
      waiting_[call.index - waiting_first_] = nullptr;
      finish(call, fail(ErrorCode::kNotSent, "{} could not be sent to node {} in time",
                        node::name(call.request.opcode), node_.name));
      return resume_finished();
    case NodeCall::Place::kSlot:
      slots_[call.index].call = nullptr;
      ++tombstones_;
      break;
    case NodeCall::Place::kReading:
      // The rest of its body is swallowed: nothing more is written to the caller's memory.
      body_.call = nullptr;
      body_.reply = {};
      body_.targets.clear();
      break;
  }
  finish(call, fail(ErrorCode::kTimeout, "node {} did not answer {} in time", node_.name,
                    node::name(call.request.opcode)));
  if (tombstones_ > limits_.tombstones) {
    break_off(ErrorCode::kDisconnected, "too many requests without an answer");
  }
  resume_finished();
}

void Channel::cancel_all() {
  const auto waiting = std::exchange(waiting_, {});
  waiting_first_ += waiting.size();
  for (NodeCall* call : waiting) {
    if (call != nullptr) finish(*call, fail(ErrorCode::kCancelled, "shutting down"));
  }
  break_off(ErrorCode::kCancelled, "shutting down");
  resume_finished();
}

void Channel::on_turn_end() {
  if (state_ == State::kIdle && !waiting_.empty()) start_connecting();
  if (state_ == State::kConnected) write_frames();
  resume_finished();
}

void Channel::fail_hopeless() {
  if (use_ == ChannelUse::kControl || loop_.turn_time() >= try_again_at_) return;
  if (found_) return;  // it may be elsewhere
  for (NodeCall*& call : waiting_) {
    if (call == nullptr || call->stamp.incarnation != failed_incarnation_) continue;
    finish(*std::exchange(call, nullptr), fail(last_failure_));
  }
}

void Channel::start_connecting() {
  fail_hopeless();
  while (!waiting_.empty() && waiting_.front() == nullptr) {
    waiting_.pop_front();
    ++waiting_first_;
  }
  if (waiting_.empty()) return;
  if (node_.resolver == nullptr) return resolved(addresses_);
  state_ = State::kResolving;
  if (found_) addresses_ = *std::exchange(found_, std::nullopt);
  if (!looks_up_) look_up();
  if (!addresses_.empty()) loop_.arm(connect_timer_, loop_.now() + kLookUpPatience);
}

void Channel::look_up() {
  looks_up_ = true;
  lookup_ = node_.resolver->ask(loop_, node_.host, node_.port, [this](Resolver::Found found) {
    looks_up_ = false;
    if (state_ != State::kResolving) {
      if (found) found_ = std::move(*found);
      return;
    }
    connect_timer_.cancel();
    state_ = State::kIdle;
    resolved(std::move(found));
    resume_finished();
  });
}

void Channel::resolved(Resolver::Found found) {
  all_refused_ = found.has_value();  // where the node was before, somebody else may be now
  if (found) addresses_ = std::move(*found);
  if (addresses_.empty()) {
    return connect_failed({ErrorCode::kNotSent, fmt::format("connect to node {}: {}", node_.name,
                                                            found.error().message)});
  }
  address_ = 0;
  try_addresses();
}

void Channel::try_addresses() {
  Connecting attempt = start_connect(addresses_[address_]);
  if (attempt.error != 0 && attempt.error != EINPROGRESS) return attempt_failed(attempt.error);
  TlsPtr tls;
  if (tls_ != nullptr) {
    tls = tls_->load()->connection(attempt.socket.get(), node_.host);
    if (tls == nullptr) return attempt_failed(ENOMEM);
  }
  stream_.open(std::move(attempt.socket), std::move(tls));
  state_ = State::kConnecting;
  loop_.arm(connect_timer_, loop_.now() + limits_.connect_timeout);
  if (attempt.error == 0) return shake_hands();
  stream_.await_writable();
}

void Channel::shake_hands() {
  switch (stream_.shake_hands()) {
    case WriteQueue::Flush::kDone:
      return connected();
    case WriteQueue::Flush::kBroken:
      return attempt_failed(EPROTO);
    case WriteQueue::Flush::kBlocked:
      return;
  }
}

// Only a refusal says that nobody is there. A host that can not be reached may well hold a living
// node.
void Channel::attempt_failed(int error) {
  const std::string reason = stream_.describe(error);
  close_stream();
  if (error != ECONNREFUSED) all_refused_ = false;
  if (++address_ < addresses_.size()) return try_addresses();
  leave_alone({all_refused_ ? ErrorCode::kUnavailable : ErrorCode::kNotSent,
               fmt::format("connect to node {}: {}", node_.name, reason)});
  connect_failed(last_failure_);
}

void Channel::leave_alone(Error why) {
  try_again_at_ = loop_.turn_time() + backoff_.next(random_);
  last_failure_ = std::move(why);
  for (const NodeCall* call : waiting_) {
    if (call != nullptr) failed_incarnation_ = call->stamp.incarnation;
  }
  for (const Slot& slot : slots_) {
    if (slot.call != nullptr) failed_incarnation_ = slot.call->stamp.incarnation;
  }
}

void Channel::connected() {
  connect_timer_.cancel();
  state_ = State::kConnected;
  is_heard_ = false;
  last_sent_ = loop_.turn_time();
  if (tls_ == nullptr) backoff_.reset();
  stream_.watch(true);
  log_debug("connected to node {}", node_.name);
  request_turn_end();
}

void Channel::connect_failed(const Error& error) {
  const auto waiting = std::exchange(waiting_, {});
  waiting_first_ += waiting.size();
  for (NodeCall* call : waiting) {
    if (call != nullptr) finish(*call, fail(error));
  }
}

void Channel::on_connect_timeout() {
  if (state_ == State::kResolving) {
    state_ = State::kIdle;
    resolved(fail(ErrorCode::kTimeout, "{} is not looked up yet", node_.host));
    return resume_finished();
  }
  close_stream();
  all_refused_ = false;
  if (++address_ < addresses_.size()) {
    try_addresses();
    return resume_finished();
  }
  request_turn_end();  // connects again if somebody still waits
}

void Channel::on_writable() {
  if (state_ == State::kConnecting) {
    const int error = stream_.connect_error();
    if (error == 0) {
      shake_hands();
    } else {
      attempt_failed(error);
    }
  } else {
    write_frames();
  }
  resume_finished();
}

void Channel::close_stream() {
  connect_timer_.cancel();
  stream_.close();
  state_ = State::kIdle;
}

void Channel::break_off(ErrorCode code, const std::string& reason) {
  if (state_ == State::kConnected && code != ErrorCode::kCancelled) {
    const LogLevel level = use_ == ChannelUse::kControl ? LogLevel::kInfo : LogLevel::kDebug;
    log_at(level, "connection to node {} lost: {}", node_.name, reason);
    // It may have refused us behind the handshake of TLS, and would again.
    if (tls_ != nullptr && !is_heard_) {
      leave_alone({ErrorCode::kNotSent, fmt::format("node {}: {}", node_.name, reason)});
    }
  }
  close_stream();
  for (const Slot& slot : slots_) {
    if (slot.call == nullptr) continue;
    // What has not begun to leave is dropped with the queue.
    const bool is_unsent = slot.begin >= out_.written_bytes() && code != ErrorCode::kCancelled;
    finish(*slot.call,
           fail(is_unsent ? ErrorCode::kNotSent : code, "node {}: {}", node_.name, reason));
  }
  if (body_.call != nullptr) finish(*body_.call, fail(code, "node {}: {}", node_.name, reason));
  forget_stream();
  if (!waiting_.empty()) request_turn_end();
}

// What belongs to a connection that is closed.
void Channel::forget_stream() {
  body_ = {};
  slots_.clear();
  free_slots_.clear();
  tombstones_ = 0;
  out_.clear();
  in_begin_ = in_end_;  // what lies before it may still be held
}

bool Channel::close_if_idle() {
  if (state_ == State::kIdle) return !waiting_.empty();
  if (state_ != State::kConnected || loop_.turn_time() - last_sent_ < limits_.idle) return true;
  // A slot that is taken is of a call, or of one that has expired: its reply may yet come.
  const bool is_asked = free_slots_.size() < slots_.size() || body_.left > 0;
  if (is_asked || !waiting_.empty() || !out_.empty()) return true;
  log_debug("connection to node {} closed: idle", node_.name);
  close_stream();
  forget_stream();
  in_ = {};
  in_begin_ = in_end_ = 0;
  return false;
}

void Channel::write_frames() {
  const uint64_t now_ms = clock_.unix_ms();
  while (true) {
    while (!waiting_.empty() && out_.bytes() < kUnsentBytes) {
      NodeCall* call = waiting_.front();
      waiting_.pop_front();
      ++waiting_first_;
      if (call == nullptr) continue;
      write_frame(*call, now_ms);
      last_sent_ = loop_.turn_time();
    }
    if (out_.empty()) return;
    const uint64_t before = out_.written_bytes();
    const auto flushed = stream_.flush(out_);
    metrics_.sent_bytes->add(out_.written_bytes() - before);
    if (flushed == WriteQueue::Flush::kBroken) {
      return break_off(ErrorCode::kDisconnected, stream_.describe(out_.error()));
    }
    if (flushed == WriteQueue::Flush::kBlocked) return;
  }
}

void Channel::write_frame(NodeCall& call, uint64_t now_ms) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  ++slot.generation;
  slot.taken = true;
  slot.opcode = call.request.opcode;
  slot.call = &call;
  slot.begin = out_.written_bytes() + out_.bytes();
  call.place = NodeCall::Place::kSlot;
  call.index = index;

  size_t payload_bytes = 0;
  for (const ByteView& part : call.request.payload) payload_bytes += part.size();
  node::RequestHeader header;
  header.opcode = call.request.opcode;
  header.args_bytes = static_cast<uint32_t>(call.request.args.size());
  header.body_bytes = static_cast<uint32_t>(call.request.args.size() + payload_bytes);
  header.opaque = uint64_t{slot.generation} << 32 | index;
  header.cluster_id = call.stamp.cluster_id;
  header.epoch = call.stamp.epoch;
  header.incarnation = call.stamp.incarnation;
  header.now_ms = now_ms;
  std::array<std::byte, node::kHeaderBytes> raw;
  node::encode(header, raw);
  out_.copy(raw);
  out_.copy(call.request.args);
  if (payload_bytes <= kCopiedBytes) {
    for (const ByteView& part : call.request.payload) out_.copy(part);
    return;
  }
  for (const ByteView& part : call.request.payload) out_.reference(part, {});
  // Behind the payload, so that they live until it has left, whatever becomes of the call.
  for (const Buffer& keep : call.request.keep) out_.reference({}, keep);
}

void Channel::finish(NodeCall& call, Result<NodeReply> result) {
  call.cancel();
  call.place = NodeCall::Place::kNone;
  if (result.has_value()) {
    const std::chrono::duration<double> took = loop_.turn_time() - call.started;
    metrics_.duration(call.request.opcode).observe(took.count());
  } else if (Counter* errors = metrics_.errors[static_cast<size_t>(result.error().code)]) {
    errors->add();
  }
  call.result.emplace(std::move(result));
  finished_.push_back(call.waiter);
}

void Channel::resume_finished() {
  // A resumed flow may call again, or cancel: what that finishes is resumed by its own event.
  while (!finished_.empty()) {
    std::vector<std::coroutine_handle<>> finished;
    finished.swap(finished_);
    for (const auto waiter : finished) waiter.resume();
    if (finished_.empty()) {
      finished.clear();
      finished_.swap(finished);  // keeps the capacity
    }
  }
}

}  // namespace elastripe
