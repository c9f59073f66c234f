#include "tests/sim/operations.h"

#include "proxy/base/check.h"
#include "proxy/ops/jobs/repair.h"
#include "proxy/ops/jobs/transition.h"

using namespace elastripe::objects;
using namespace elastripe::jobs;
using namespace elastripe::decider;

namespace elastripe::sim {

namespace {

// What a client is told (docs/consistency.md, "What clients should do with errors"): of one error
// only it hears that the outcome is unknown, any other says that nothing was done.
Answer answer_of(const Error& error) {
  return error.code == ErrorCode::kUnknownOutcome ? Answer::kUnknown : Answer::kNone;
}

Answer answer_of(const StoreOutcome& outcome) {
  switch (outcome.status) {
    case StoreStatus::kStored:
      return Answer::kDone;
    case StoreStatus::kNotStored:
      return Answer::kNotStored;
    case StoreStatus::kExists:
      return Answer::kExists;
    case StoreStatus::kNotFound:
      return Answer::kNotFound;
  }
  return Answer::kUnknown;
}

StoreVerb store_verb(Verb verb) {
  switch (verb) {
    case Verb::kAdd:
      return StoreVerb::kAdd;
    case Verb::kReplace:
      return StoreVerb::kReplace;
    case Verb::kAppend:
      return StoreVerb::kAppend;
    case Verb::kPrepend:
      return StoreVerb::kPrepend;
    case Verb::kCas:
      return StoreVerb::kCas;
    default:
      return StoreVerb::kSet;
  }
}

void note_error(Operation& op, const Error& error) {
  op.answer = answer_of(error);
  op.error = to_string(error);
}

// What came before an error is a part of the one value that the read had begun with.
Task<void> execute_streamed_get(Operation& op, OpsContext& ops, Pace pace, TimePoint deadline) {
  SlowSink sink(ops, std::move(pace));
  auto read = co_await get_object(ops, op.key, sink, {op.offset, op.length}, deadline);
  const auto& object = sink.whole.object;
  if (!read) note_error(op, read.error());
  ELASTRIPE_CHECK(!read || read->found == object.has_value());
  if (!object) {
    if (read) op.answer = Answer::kMiss;
    co_return;
  }
  op.answer = read ? Answer::kHit : Answer::kCutOff;
  op.read_value = sink.whole.value();
  op.read_size = object->size;
  op.read_flags = object->flags;
  op.cas = object->cas;
  const bool is_whole = op.read_value.size() == object->range_bytes;
  if (read && !is_whole) op.read_value += "(size differs)";
}

Task<void> execute_get(Operation& op, OpsContext& ops, TimePoint deadline) {
  auto read = co_await get_whole(ops, op.key, deadline);
  if (!read) {
    note_error(op, read.error());
    co_return;
  }
  op.answer = read->object ? Answer::kHit : Answer::kMiss;
  if (!read->object) co_return;
  op.read_value = read->value();
  op.read_flags = read->object->flags;
  op.cas = read->object->cas;
  if (op.read_value.size() != read->object->size) op.read_value += "(size differs)";
}

Task<void> execute_store(Operation& op, OpsContext& ops, Pace pace, TimePoint deadline) {
  SlowSource source(ops, op.value, std::move(pace));
  WholeValue whole(Buffer::copy_of(op.value));
  StoreRequest request;
  request.verb = store_verb(op.verb);
  request.key = op.key;
  request.flags = op.flags;
  request.exptime = op.exptime;
  if (request.verb == StoreVerb::kCas) request.cas = op.cas;
  if (is_streamed(op)) {
    request.value = &source;
  } else {
    request.value = &whole;
  }
  auto outcome = co_await store_object(ops, request, deadline);
  if (!outcome) {
    note_error(op, outcome.error());
  } else {
    op.answer = answer_of(*outcome);
  }
  if (!source.was_cut()) co_return;
  // Nobody knows what the whole value would have been.
  ELASTRIPE_CHECK(!outcome && outcome.error().code != ErrorCode::kUnknownOutcome,
                  "what became of a value that never came whole: {}", to_string(op));
  op.answer = Answer::kNone;
}

Task<void> execute_update(Operation& op, OpsContext& ops, TimePoint deadline) {
  WholeValue whole(Buffer::copy_of(op.value));
  UpdateRequest request{.key = op.key, .offset = op.offset};
  if (is_conditional(op)) request.cas = op.cas;
  request.value = &whole;
  const auto outcome = co_await update_object(ops, request, deadline);
  if (!outcome) {
    note_error(op, outcome.error());
    co_return;
  }
  switch (outcome->status) {
    case UpdateStatus::kUpdated:
      op.answer = Answer::kDone;
      break;
    case UpdateStatus::kNotFound:
      op.answer = Answer::kNotFound;
      break;
    case UpdateStatus::kExists:
      op.answer = Answer::kExists;
      break;
    case UpdateStatus::kOutOfRange:
      op.answer = Answer::kNotStored;
      break;
  }
}

Task<void> execute_counter(Operation& op, OpsContext& ops, TimePoint deadline) {
  CounterRequest request;
  request.key = op.key;
  request.delta = op.delta;
  request.increment = op.verb == Verb::kIncrement;
  auto outcome = co_await change_counter(ops, std::move(request), deadline);
  if (!outcome) {
    note_error(op, outcome.error());
    co_return;
  }
  op.number = outcome->value;
  op.answer = outcome->status == CounterStatus::kOk         ? Answer::kDone
              : outcome->status == CounterStatus::kNotFound ? Answer::kNotFound
                                                            : Answer::kNotNumber;
}

// What is to come may come, or be replaced by another flush.
Task<void> execute_flush(Operation& op, SimProxy& proxy, TimePoint deadline) {
  Result<void> flushed;
  if (proxy.letters() != nullptr) {
    const auto done = co_await proxy.letters()->do_task(FlushAll{op.at}, deadline);
    if (!done) flushed = fail(done.error());
  } else {
    flushed = co_await proxy.decider()->flush_all(op.at, deadline);
  }
  if (!flushed) {
    note_error(op, flushed.error());
  } else {
    op.answer = op.at == 0 ? Answer::kDone : Answer::kUnknown;
  }
}

std::string describe(const TransitionOutcome& outcome) {
  switch (outcome.status) {
    case ObjectStatus::kDone:
      return "transitioned";
    case ObjectStatus::kAlreadyThere:
      return "already there";
    case ObjectStatus::kNoObject:
      return "no object";
    case ObjectStatus::kSkipped:
      return "skipped: " + outcome.reason;
    case ObjectStatus::kOverwritten:
      return "overwritten";
    case ObjectStatus::kRefused:
      return "refused: " + outcome.reason;
  }
  return "?";
}

// Ends with kDone and how it went in `error`, or with the error.
Task<void> execute_transition(Operation& op, OpsContext& ops) {
  TransitionRequest request;
  request.key = op.key;
  request.to = op.to;
  request.execution = op.at_proxy ? Execution::kProxy : Execution::kDelta;
  if (ops.random.next() % 2 == 0) request.known = ops.cache.find(op.key);
  request.known_may_be_old = true;
  auto outcome = co_await transition_object(ops, std::move(request));
  op.answer = outcome ? Answer::kDone : Answer::kUnknown;
  op.error = outcome ? describe(*outcome) : to_string(outcome.error());
}

// What is on some nodes goes to others, by chance.
Task<void> execute_rebalance(Operation& op, OpsContext& ops) {
  op.answer = Answer::kUnknown;
  const MapPtr map = ops.map.current();
  if (map == nullptr) co_return;
  constexpr uint64_t kLimit = 1 << 20;
  const NodeRooms rooms(map->nodes.size());
  for (const node::NodeInfo& node : map->nodes) {
    rooms.note_limit_bytes(node.id, kLimit);
    rooms.note_free_bytes(node.id, ops.random.next() % kLimit);
  }
  Balance balance(*map, rooms);
  const auto outcome = co_await repair_object(ops, {.key = op.key, .balance = &balance});
  if (!outcome) co_return;
  op.answer = Answer::kDone;
  op.error = outcome->shards > 0 ? "moved" : "not moved";
}

}  // namespace

Task<void> execute(Operation& op, SimProxy& proxy, Pace pace, TimePoint deadline) {
  OpsContext& ops = proxy.ops();
  switch (op.verb) {
    case Verb::kGet:
      if (is_streamed(op))
        co_return co_await execute_streamed_get(op, ops, std::move(pace), deadline);
      co_return co_await execute_get(op, ops, deadline);
    case Verb::kIncrement:
    case Verb::kDecrement:
      co_return co_await execute_counter(op, ops, deadline);
    case Verb::kDelete:
    case Verb::kTouch: {
      auto done = op.verb == Verb::kDelete
                      ? co_await remove_object(ops, op.key, deadline)
                      : co_await touch_object(ops, op.key, op.exptime, deadline);
      if (!done) {
        note_error(op, done.error());
      } else {
        op.answer = *done ? Answer::kDone : Answer::kNotFound;
      }
      co_return;
    }
    case Verb::kUpdate:
      co_return co_await execute_update(op, ops, deadline);
    case Verb::kFlush:
      co_return co_await execute_flush(op, proxy, deadline);
    case Verb::kTransition:
      co_return co_await execute_transition(op, ops);
    case Verb::kRebalance:
      co_return co_await execute_rebalance(op, ops);
    default:
      co_await execute_store(op, ops, std::move(pace), deadline);
  }
}

}  // namespace elastripe::sim
