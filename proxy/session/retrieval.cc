#include "proxy/session/retrieval.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "proxy/async/one_shot.h"
#include "proxy/async/scope.h"
#include "proxy/base/memory_pool.h"

namespace elastripe {
namespace {

using memcache::Command;
using memcache::Output;

// So many keys of one retrieval are asked for at the same time.
constexpr size_t kKeysAtOnce = 256;
// A larger reply leaves in parts, as the client takes them.
constexpr size_t kPartBytes = 16 << 10;
// What a record takes beside its value, while that is on its way to the client.
constexpr uint64_t kRecordBytes = 1 << 10;

void count_read(Execution& run, bool touching, bool hit) {
  if (touching) {
    run.count(Stat::kCmdTouch);
    run.count(hit ? Stat::kTouchHits : Stat::kTouchMisses);
  } else {
    run.count(Stat::kCmdGet);
    run.count(hit ? Stat::kGetHits : Stat::kGetMisses);
  }
}

// One retrieval at work: its keys are read at the same time, and take memory in their order.
struct Retrieval {
  Execution& run;
  ClientCommand& command;
  objects::ReadRequest request;  // of each key
  Turns::Ticket place;           // among the client's commands
  Turns keys{};
  size_t answered = 0;  // keys, in their order
  size_t unreadable = 0;
  std::optional<Error> first_failure{};
  bool is_cut = false;
};

// Where one key's value goes: into the reply, part by part if there are several.
class KeyReply : public objects::ValueSink {
 public:
  KeyReply(Retrieval& retrieval, size_t index)
      : retrieval_(retrieval), index_(index), place_(retrieval.keys.take()) {}

  // A record may come with its value in it, so that has its memory before it is asked for.
  bool try_admit() {
    admitted_ = try_take(most_of_record());
    return admitted_ != nullptr;
  }
  Task<Result<void>> admit() {
    auto memory = co_await take(most_of_record());
    if (!memory) co_return fail(memory.error());
    admitted_ = std::move(*memory);
    co_return Result<void>{};
  }

  void begin(const objects::Object& object) override {
    is_wanted_ = responder().begin_value(output_, key(), object);
    if (!is_wanted_) return;
    left_ = object.range_bytes;
    if (left_ == 0) responder().end_value(output_);
  }
  void part(Buffer bytes) override {
    if (!is_wanted_) return;
    left_ -= bytes.size();
    if (bytes.size() < Output::kReferenceBytes) output_.keep(last_);
    output_.append(std::move(bytes));
    if (left_ == 0) return responder().end_value(output_);
    if (is_first()) send_part();
  }

  MemoryHold try_reserve(uint64_t bytes) override {
    if (auto admitted = std::exchange(admitted_, nullptr); admitted && bytes <= admitted->bytes) {
      admitted->shrink(bytes + kRecordBytes);
      return last_ = std::move(admitted);
    }
    return last_ = try_take(bytes);
  }

  Task<Result<MemoryHold>> reserve(uint64_t bytes) override {
    admitted_ = last_ = nullptr;
    auto memory = co_await take(bytes);
    if (!memory) co_return fail(memory.error());
    co_return last_ = std::move(*memory);
  }

  const std::string& key() const { return retrieval_.command.key_at(index_); }
  // As far as it was not sent; whoever calls takes it.
  Output&& reply() { return std::move(output_); }
  // As long as it is held, the keys behind this one wait.
  Turns::Ticket place() { return std::move(place_); }
  // Some of the value, which has to go on.
  bool has_left() const { return has_left_; }

 private:
  uint64_t most_of_record() {
    return retrieval_.run.context.ops.inline_max_bytes(key()) + kRecordBytes;
  }
  const Responder& responder() const { return retrieval_.run.responder; }
  ClientMemory& own() { return *retrieval_.run.client.memory(); }
  ReadBudget& all() { return retrieval_.run.context.ops.memory().read; }
  ValueMemoryPtr held(uint64_t bytes, Semaphore::Permit of_own, Semaphore::Permit of_all = {}) {
    return std::allocate_shared<ValueMemory>(Pooled<ValueMemory>(), retrieval_.run.client.memory(),
                                             bytes, std::move(of_own), std::move(of_all));
  }

  // Without waiting; null: not now.
  ValueMemoryPtr try_take(uint64_t bytes) {
    if (is_unwanted()) return nullptr;
    if (auto memory = try_take_small(own().small.early, bytes)) return memory;
    if (bytes <= own().large.early.free() && bytes <= all().early.free()) {
      if (auto memory = try_take_shared(own().large.early, all().early, bytes)) return memory;
    }
    if (!place_.has_turn() || !retrieval_.place.has_turn()) return nullptr;
    if (auto memory = try_take_small(own().small.in_turn, bytes)) return memory;
    return try_take_shared(own().large.in_turn, all().in_turn, bytes);
  }
  ValueMemoryPtr try_take_small(Semaphore& own_part, uint64_t bytes) {
    if (bytes > kSmallBytes || bytes > own_part.free()) return nullptr;
    auto of_own = own_part.try_acquire(bytes);
    return of_own ? held(bytes, std::move(*of_own)) : nullptr;
  }
  ValueMemoryPtr try_take_shared(Semaphore& own_part, Semaphore& all_part, uint64_t bytes) {
    auto of_own = own_part.try_acquire(bytes);
    if (!of_own) return nullptr;
    auto of_all = all_part.try_acquire(bytes);
    return of_all ? held(bytes, std::move(*of_own), std::move(*of_all)) : nullptr;
  }

  Task<Result<ValueMemoryPtr>> take(uint64_t bytes) {
    co_await place_.turn();
    co_await retrieval_.place.turn();
    if (is_unwanted()) co_return unwanted();
    if (auto memory = try_take(bytes)) co_return memory;
    // What this waits for may be what the parts and keys before it hold.
    send_part();
    const bool is_small = bytes <= kSmallBytes;
    auto of_own = co_await (is_small ? own().small : own().large).in_turn.acquire(bytes);
    Semaphore::Permit of_all;
    if (!is_small) {
      ++own().waiting;
      of_all = co_await all().in_turn.acquire(bytes);
      --own().waiting;
    }
    // In a later turn of the loop: whoever lets a buffer go is not the place to run a flow.
    Clock& clock = retrieval_.run.context.clock;
    if (!co_await clock.next_turn() || is_unwanted()) co_return unwanted();
    co_return held(bytes, std::move(of_own), std::move(of_all));
  }
  // All keys before this one are answered.
  bool is_first() const { return !retrieval_.is_cut && place_.has_turn(); }
  void send_part() {
    has_left_ |= !output_.empty();
    retrieval_.run.output.append(reply());
    retrieval_.run.send_part();
  }
  bool is_unwanted() const { return retrieval_.is_cut || retrieval_.run.client.is_gone(); }
  static std::unexpected<Error> unwanted() {
    return fail(ErrorCode::kCancelled, "nobody waits for the value");
  }

  Retrieval& retrieval_;
  const size_t index_;
  Turns::Ticket place_;
  ValueMemoryPtr admitted_;  // for the value of its record
  ValueMemoryPtr last_;      // that was given
  Output output_;
  bool has_left_ = false;
  bool is_wanted_ = true;  // the value is to be told
  uint64_t left_ = 0;      // bytes of the value
};

struct KeyAnswer {
  Result<objects::ReadOutcome> outcome;
  Output output;
  bool has_left;
  Turns::Ticket place;  // until it is answered
};
using KeyResult = OneShot<KeyAnswer>;

Task<Result<objects::ReadOutcome>> read_now(Retrieval& retrieval, KeyReply& reply) {
  objects::ReadRequest request = retrieval.request;
  request.key = reply.key();
  return retrieval.run.context.ops.get(request, reply);
}

// One of many: counted while it asks nodes, not while it waits for the client's memory.
Task<Result<objects::ReadOutcome>> read_one_of_many(Retrieval& retrieval, KeyReply& reply) {
  if (!reply.try_admit()) {
    auto admitted = co_await reply.admit();
    if (!admitted) co_return fail(admitted.error());
  }
  ++retrieval.run.context.keys_read;
  auto outcome = co_await read_now(retrieval, reply);
  --retrieval.run.context.keys_read;
  co_return outcome;
}

Task<Result<objects::ReadOutcome>> read_when_admitted(Retrieval& retrieval, KeyReply& reply) {
  auto admitted = co_await reply.admit();
  if (!admitted) co_return fail(admitted.error());
  co_return co_await read_now(retrieval, reply);
}

Task<Result<objects::ReadOutcome>> read_value(Retrieval& retrieval, KeyReply& reply) {
  return reply.try_admit() ? read_now(retrieval, reply) : read_when_admitted(retrieval, reply);
}

Task<void> read_key(Retrieval& retrieval, size_t index, KeyResult& result) {
  KeyReply reply(retrieval, index);
  Result<objects::ReadOutcome> outcome = co_await read_one_of_many(retrieval, reply);
  result.set({std::move(outcome), reply.reply(), reply.has_left(), reply.place()});
}

// Notes a key that could not be read. What is answered of the others stays.
void take_failure(Retrieval& retrieval, const std::string& key, const KeyAnswer& answer) {
  Execution& run = retrieval.run;
  // Also where nobody waits for the rest.
  if (answer.has_left || run.client.is_gone()) {
    retrieval.is_cut = true;
    run.status = CommandStatus::kServerError;
    run.output = {};
    return run.client.cut();
  }
  const ObjectOps& ops = run.context.ops;
  const bool as_miss = ops.unreadable_is_miss(key) && ops.not_serving().empty();
  run.context.stats.unreadable_key(as_miss);
  if (as_miss) {
    run.responder.miss(run.output, key);
    return count_read(run, retrieval.request.touch.has_value(), false);
  }
  if (retrieval.unreadable++ == 0) retrieval.first_failure = answer.outcome.error();
}

// Adds the answer of the next key to the retrieval's reply.
void take_answer(Retrieval& retrieval, KeyAnswer answer) {
  Execution& run = retrieval.run;
  const std::string& key = retrieval.command.key_at(retrieval.answered++);
  if (!answer.outcome) return take_failure(retrieval, key, answer);
  count_read(run, retrieval.request.touch.has_value(), answer.outcome->found);
  if (!answer.outcome->found) return run.responder.miss(run.output, key);
  run.path = std::max(run.path, answer.outcome->path);
  run.status = CommandStatus::kOk;
  run.output.append(std::move(answer.output));
  if (run.in_parts) run.send_part();
}

// Behind the values: the end, or why some are not among them.
void end_retrieval(Retrieval& retrieval) {
  Execution& run = retrieval.run;
  if (retrieval.is_cut) return;
  if (!retrieval.first_failure) return run.responder.end(run.output);
  Error& failure = *retrieval.first_failure;
  const size_t keys = retrieval.command.key_count();
  if (keys > 1) {
    failure.message += fmt::format(" ({} of {} keys)", retrieval.unreadable, keys);
  }
  run.fail(failure);
}

Retrieval begin_retrieval(Execution& run, ClientCommand& command) {
  const bool is_gat = command.command == Command::kGat || command.command == Command::kGats;
  objects::ReadRequest request;
  request.range = command.range;
  request.is_use = command.is_use;
  request.tells_use = command.tells_use;
  if (is_gat || command.touches) {
    request.touch = run.expiry(command.touches.value_or(command.exptime));
  }
  if (command.command == Command::kMetaGet) {
    request.may_win = true;
    if (command.wins_before) request.wins_before = run.expiry(*command.wins_before);
    if (command.creates) request.creates = {run.expiry(*command.creates), command.new_cas};
  }
  run.status = CommandStatus::kMiss;
  return {.run = run, .command = command, .request = request, .place = run.client.reads().take()};
}

Task<void> answer_one(Execution& run, ClientCommand& command) {
  Retrieval retrieval = begin_retrieval(run, command);
  KeyReply reply(retrieval, 0);
  auto outcome = co_await read_value(retrieval, reply);
  take_answer(retrieval, {std::move(outcome), reply.reply(), reply.has_left(), reply.place()});
  end_retrieval(retrieval);
}

Task<void> answer_many(Execution& run, ClientCommand& command) {
  Retrieval retrieval = begin_retrieval(run, command);
  const size_t keys = command.key_count();
  std::deque<KeyResult, Pooled<KeyResult>> results;  // of the keys that are being read
  Scope reads;
  size_t asked = 0;
  for (size_t i = 0; i < keys && !retrieval.is_cut; ++i) {
    if (run.output.bytes() >= kPartBytes) run.send_part();
    if (run.in_parts && !run.client.has_room()) co_await run.client.room();
    // Calls to nodes wait in queues that all clients share. The first retrieval of each goes on,
    // if only key by key.
    const auto may_ask = [&] {
      const auto& settings = run.context.settings;
      const bool is_first = retrieval.place.has_turn();
      if (is_first && asked == i) return true;
      return run.context.keys_read < settings.all_keys_read &&
             (is_first || run.client.keys_read() < settings.keys_read);
    };
    if (asked == i && !may_ask()) co_await retrieval.place.turn();
    for (; asked < std::min(i + kKeysAtOnce, keys) && may_ask(); ++asked) {
      ++run.client.keys_read();
      reads.spawn(read_key(retrieval, asked, results.emplace_back()));
    }
    take_answer(retrieval, co_await results.front());
    --run.client.keys_read();
    results.pop_front();
  }
  for (; !results.empty(); results.pop_front()) {  // of a reply that was cut
    (void)co_await results.front();
    --run.client.keys_read();
  }
  co_await reads.join();
  end_retrieval(retrieval);
}

}  // namespace

Task<void> run_retrieval(Execution& run, ClientCommand& command) {
  return command.key_count() == 1 ? answer_one(run, command) : answer_many(run, command);
}

}  // namespace elastripe
