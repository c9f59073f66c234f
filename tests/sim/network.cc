#include "tests/sim/network.h"

#include <algorithm>

#include "proxy/base/check.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::sim {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

node::RequestHeader header_of(std::string_view frame) {
  return *node::decode_request_header(node::as_view(frame).first<node::kHeaderBytes>());
}

node::Opcode opcode_of(std::string_view frame) {
  return static_cast<node::Opcode>(node::as_view(frame)[2]);
}

// A connection brings a frame once. Proxies say most things again if they get no answer, but no
// APPLY: after a refusal they may take the same shards for another attempt, or for garbage. Nor an
// update: one that was refused for now is another one later.
bool may_be_duplicated(std::string_view frame) {
  const node::Opcode opcode = opcode_of(frame);
  return opcode != node::Opcode::kRecordApply && opcode != node::Opcode::kLogAppend;
}

// What an APPLY that was answered with kOk has made of the record: the answer has it, or its meta,
// and the request its content.
std::optional<node::Record> committed_record(const node::ReplyHeader& header,
                                             std::string_view reply, std::string_view content) {
  const node::ByteView body = node::as_view(reply).subspan(node::kHeaderBytes);
  const auto args = node::decode<node::RecordApplyReply>(body.first(header.args_bytes));
  CHECK(args.has_value(), "a node answered with bad args: {}", args.error());
  if (!args->whole_record) {
    node::Reader of_meta(body.subspan(header.args_bytes));
    node::Reader of_content(node::as_view(content));
    auto meta = node::decode_meta(of_meta);
    auto decoded = node::decode_content(of_content);
    if (!meta || !decoded) return std::nullopt;  // a deletion has no content
    return node::Record{*meta, std::move(*decoded)};
  }
  auto record = node::decode_record(body.subspan(header.args_bytes));
  CHECK(record.has_value(), "a node answered with a bad record: {}", record.error());
  return std::move(*record);
}

}  // namespace

Network::Network(EventQueue& events, Trace& trace, uint64_t seed, NetworkProfile profile, int nodes,
                 NodeMemory memory)
    : events_(events),
      trace_(trace),
      random_(seed),
      troubled_(profile),
      profile_(profile),
      memory_(memory) {
  for (int id = 0; id < nodes; ++id) add_node();
}

SimNode& Network::add_node() {
  const auto id = static_cast<node::NodeId>(nodes_.size());
  nodes_.push_back(std::make_unique<SimNode>(events_, trace_, random_.next(), id, memory_));
  return *nodes_.back();
}

void Network::mend(int proxy, node::NodeId node) {
  if (cuts_.erase({proxy, node}) == 0) return;
  auto kept = std::exchange(held_, {});
  for (Flight& flight : kept) {
    if (flight.proxy == proxy && flight.to == node) {
      launch(std::move(flight), delay());
    } else {
      held_.push_back(std::move(flight));
    }
  }
}

void Network::mend_all() {
  while (!cuts_.empty()) mend(cuts_.begin()->first, cuts_.begin()->second);
}

void Network::calm() {
  profile_.drop = profile_.drop_reply = profile_.duplicate = profile_.slow = profile_.late = 0;
  profile_.install_echoes = 0;
  profile_.scan_delay_max = Duration::zero();
}

Duration Network::delay() {
  if (random_.chance(profile_.late)) {
    ++counters_.late;
    return random_.between(profile_.slow_max, profile_.late_max);
  }
  if (random_.chance(profile_.slow)) return random_.between(profile_.usual_max, profile_.slow_max);
  return random_.between(microseconds(100), profile_.usual_max);
}

void Network::send(int proxy, node::NodeId to, std::string frame, Caller caller) {
  ++counters_.frames;
  Traffic& traffic = traffic_[node::index_of(opcode_of(frame))];
  ++traffic.frames;
  traffic.bytes += frame.size();
  if (frame_rule_ != nullptr) frame_rule_(proxy, to, frame);
  SimNode& target = node(to);
  Flight flight{proxy, to, target.runs() ? target.process() : 0, std::move(frame), caller};
  if (cuts_.contains({proxy, to})) {
    if (random_.chance(0.5)) held_.push_back(std::move(flight));
    return;
  }
  if (random_.chance(profile_.drop)) {
    ++counters_.dropped;
    if (trace_.on()) {
      trace_.add("p{} -> n{} dropped: {}", proxy, to, describe_request(flight.frame));
    }
    if (random_.chance(0.5)) disconnect(flight.caller);
    return;
  }
  if (delay_rule_ != nullptr) {
    if (const auto delay = delay_rule_(proxy, to, header_of(flight.frame))) {
      return launch(std::move(flight), *delay);
    }
  }
  const node::Opcode opcode = opcode_of(flight.frame);
  if (opcode == node::Opcode::kRecordScan && profile_.scan_delay_max > Duration::zero()) {
    return launch(std::move(flight), random_.between(Duration::zero(), profile_.scan_delay_max));
  }
  for (int i = 0; opcode == node::Opcode::kInstallMap && i < profile_.install_echoes; ++i) {
    launch(flight, random_.between(microseconds(100), profile_.late_max));
  }
  if (random_.chance(profile_.duplicate) && may_be_duplicated(flight.frame)) {
    ++counters_.duplicated;
    launch(flight, random_.between(microseconds(100), profile_.late_max));
  }
  launch(std::move(flight), delay());
}

void Network::launch(Flight flight, Duration delay) {
  events_.after(delay, [this, flight = std::move(flight)]() mutable { arrive(std::move(flight)); });
}

void Network::arrive(Flight flight) {
  SimNode& target = node(flight.to);
  if (!target.runs()) {
    if (target.is_silent()) return;
    if (flight.process != 0) return disconnect(flight.caller);
    return flight.caller(fail(ErrorCode::kUnavailable, "connection refused"));
  }
  // Connections end with the process; what the proxy had still in its hands may reach the next one.
  if (flight.process != target.process() && random_.chance(0.5)) return disconnect(flight.caller);
  if (trace_.on()) {
    trace_.add("p{} -> n{} {}{}", flight.proxy, flight.to, describe_request(flight.frame),
               target.is_stalled() ? " (waits: stalled)" : "");
  }
  const node::Opcode opcode = opcode_of(flight.frame);
  std::string payload;  // the content of the record that it shall make
  if (commit_watch_ != nullptr && opcode == node::Opcode::kRecordApply) {
    payload = flight.frame.substr(node::kHeaderBytes + header_of(flight.frame).args_bytes);
  }
  target.deliver(std::move(flight.frame),
                 [this, proxy = flight.proxy, from = flight.to, payload = std::move(payload),
                  caller = flight.caller](std::string bytes) {
                   if (bytes.empty()) return disconnect(caller);
                   reply(proxy, from, std::move(bytes), payload, caller);
                 });
}

// The frame may have told changes only, so the node is asked what has become of them.
void Network::note_install(SimNode& at) {
  const node::Reply reply = at.hello();
  const auto installed = node::decode_map(reply.payload.bytes());
  CHECK(installed.has_value() || mutant(Mutant::kChangesOfAnyBase), "a node took a bad map: {}",
        installed.error());
  if (!installed) return;
  if (trace_.on())
    trace_.add("n{} has{}", at.id(), describe_map(node::as_text(reply.payload.bytes())));
  for (const InstallWatch& watch : install_watches_) watch(at.id(), *installed);
}

void Network::disconnect(Caller caller) {
  events_.after(random_.between(microseconds(100), milliseconds(5)),
                [caller] { caller(fail(ErrorCode::kDisconnected, "connection reset")); });
}

void Network::reply(int proxy, node::NodeId from, std::string bytes, std::string_view payload,
                    Caller caller) {
  const auto header = node::decode_reply_header(node::as_view(bytes).first<node::kHeaderBytes>());
  CHECK(header.has_value(), "a node sent a bad header: {}", header.error());
  traffic_[node::index_of(header->opcode)].bytes += bytes.size();
  if (frame_rule_ != nullptr) frame_rule_(proxy, from, bytes);
  if (trace_.on() && header->status != node::Status::kOk) {
    trace_.add("p{} <- n{} {} {}", proxy, from, node::name(header->opcode),
               node::name(header->status));
  }
  if (header->status == node::Status::kOk) {
    if (!install_watches_.empty() && header->opcode == node::Opcode::kInstallMap) {
      note_install(node(from));
    }
    if (stage_watch_ != nullptr && header->opcode == node::Opcode::kShardBuild) stage_watch_(proxy);
    if (append_watch_ != nullptr && header->opcode == node::Opcode::kLogAppend) {
      append_watch_(proxy, from);
    }
    if (commit_watch_ != nullptr && header->opcode == node::Opcode::kRecordApply) {
      const auto record = committed_record(*header, bytes, payload);
      commit_watch_(proxy, from, header->epoch.number, record ? &*record : nullptr);
    }
  }
  if (random_.chance(profile_.drop_reply)) {
    ++counters_.dropped;
    trace_.add("p{} <- n{} reply dropped", proxy, from);
    if (random_.chance(0.5)) disconnect(caller);
    return;
  }
  events_.after(delay(), [this, proxy, from, bytes = std::move(bytes), caller]() mutable {
    if (cuts_.contains({proxy, from})) return;
    caller(std::move(bytes));
  });
}

namespace {

std::string encode_frame(const Stamp& stamp, const NodeRequest& request, uint64_t opaque,
                         uint64_t now_ms) {
  node::RequestHeader header;
  header.opcode = request.opcode;
  header.args_bytes = static_cast<uint32_t>(request.args.size());
  size_t payload_bytes = 0;
  for (const ByteView part : request.payload) payload_bytes += part.size();
  header.body_bytes = static_cast<uint32_t>(request.args.size() + payload_bytes);
  header.opaque = opaque;
  header.cluster_id = stamp.cluster_id;
  header.epoch = stamp.epoch;
  header.incarnation = stamp.incarnation;
  header.now_ms = now_ms;
  std::string frame;
  frame.reserve(node::kHeaderBytes + header.body_bytes);
  frame.resize(node::kHeaderBytes);
  node::encode(header, std::as_writable_bytes(std::span(frame)).first<node::kHeaderBytes>());
  frame += request.args;
  for (const ByteView part : request.payload) frame += node::as_text(part);
  return frame;
}

NodeReply decode_frame(std::string_view frame, uint64_t opaque,
                       const std::vector<MutableByteView>& into) {
  const auto bytes = node::as_view(frame);
  const auto header = node::decode_reply_header(bytes.first<node::kHeaderBytes>());
  CHECK(header.has_value(), "a node sent a bad header: {}", header.error());
  CHECK(header->opaque == opaque, "a node answered {} as {}", opaque, header->opaque);
  const ByteView body = bytes.subspan(node::kHeaderBytes);
  ByteView payload = body.subspan(header->args_bytes);
  size_t room = 0;
  for (const MutableByteView part : into) room += part.size();
  if (header->status != node::Status::kOk || into.empty() || room != payload.size()) {
    return {*header, Buffer::copy_of(body)};
  }
  for (const MutableByteView part : into) {
    std::ranges::copy(payload.first(part.size()), part.begin());
    payload = payload.subspan(part.size());
  }
  return {*header, Buffer::copy_of(body.first(header->args_bytes))};
}

}  // namespace

Task<Result<NodeReply>> SimTransport::call(NodeId to, Stamp stamp, NodeRequestPtr request,
                                           TimePoint deadline) {
  if (closed_) {
    CHECK(++calls_after_close_ < 100'000, "a flow goes on after kCancelled");
    co_return fail(ErrorCode::kCancelled, "the proxy is gone");
  }
  const uint64_t id = next_call_++;
  Call call{.done = {}, .into = request->into, .deadline = {}};
  calls_[id] = &call;
  struct Stoppable final : StoppableCall {
    Stoppable(SimTransport& owner, uint64_t call) : transport(owner), id(call) {}
    void stop() override {
      transport.finish(id, fail(ErrorCode::kTimeout, "its answer is not wanted any more"));
    }
    SimTransport& transport;
    const uint64_t id;
  } stoppable(*this, id);
  CallStop* const stop = request->stop;
  if (stop != nullptr) stop->begin(stoppable);
  network_.send(proxy_, to, encode_frame(stamp, *request, id, clock_.unix_ms()), {this, id});
  call.deadline = clock_.post(deadline, [this, id] {
    finish(id, fail(ErrorCode::kTimeout, "no answer within the deadline"));
  });
  auto result = co_await call.done;
  if (stop != nullptr) stop->end();
  co_return result;
}

void Caller::operator()(Result<std::string> reply) const {
  transport->answered(call, std::move(reply));
}

void SimTransport::answered(uint64_t id, Result<std::string> reply) {
  clock_.run_here([this, id, reply = std::move(reply)] {
    const auto call = calls_.find(id);
    if (call == calls_.end()) return;
    if (!reply) return finish(id, fail(reply.error()));
    finish(id, decode_frame(*reply, id, call->second->into));
  });
}

void SimTransport::finish(uint64_t id, Result<NodeReply> result) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) return;
  Call* const call = it->second;
  calls_.erase(it);
  clock_.call_off(call->deadline);
  call->done.set(std::move(result));
}

void SimTransport::cancel_calls() {
  CHECK(closed_);
  while (!calls_.empty()) {
    finish(calls_.begin()->first, fail(ErrorCode::kCancelled, "the proxy is gone"));
  }
}

}  // namespace elastripe::sim
