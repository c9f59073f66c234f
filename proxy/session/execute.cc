#include "proxy/session/execute.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "proxy/async/one_shot.h"
#include "proxy/async/scope.h"
#include "proxy/base/memory_pool.h"
#include "proxy/memcache/compose.h"
#include "proxy/memcache/exptime.h"
#include "proxy/memcache/meta.h"
#include "proxy/memcache/replies.h"

namespace elastripe {
namespace {

using memcache::Command;
using memcache::Output;
namespace replies = memcache::replies;

// So many keys of one retrieval are asked for at the same time.
constexpr size_t kKeysAtOnce = 256;

// One command on its way to a reply.
struct Execution {
  SessionContext& context;
  CommandClient& client;
  Output output{};
  CommandStatus status = CommandStatus::kOk;
  ReadPath path = ReadPath::kInline;
  bool in_parts = false;  // parts of the reply leave as they come; `output` is the next one
  bool has_sent = false;

  void line(std::string_view text, CommandStatus how = CommandStatus::kOk) {
    memcache::compose_line(output, text);
    status = how;
  }
  void error(const Error& failure) {
    output = {};
    status = CommandStatus::kServerError;
    if (has_sent) return client.cut();
    compose_error(output, failure, context.ops.not_serving());
  }
  void send_part() {
    in_parts = true;
    if (output.empty()) return;
    has_sent = true;
    client.send(std::exchange(output, {}));
  }
  void count(Stat stat) { context.stats.add(stat); }
  uint32_t expiry(int32_t exptime) const {
    if (exptime == 0) return 0;  // never
    return memcache::absolute_exptime(exptime,
                                      static_cast<int64_t>(context.clock.unix_ms() / 1000));
  }
};

StoreVerb verb_of(Command command) {
  switch (command) {
    case Command::kAdd:
      return StoreVerb::kAdd;
    case Command::kReplace:
      return StoreVerb::kReplace;
    case Command::kAppend:
      return StoreVerb::kAppend;
    case Command::kPrepend:
      return StoreVerb::kPrepend;
    case Command::kCas:
      return StoreVerb::kCas;
    default:
      return StoreVerb::kSet;
  }
}

Task<void> run_store(Execution& run, ClientCommand& command) {
  run.count(Stat::kCmdSet);
  if (command.source != nullptr) run.path = ReadPath::kStriped;
  StoreRequest request;
  request.verb = verb_of(command.command);
  request.key = command.key;
  request.flags = command.flags;
  request.exptime = run.expiry(command.exptime);
  request.cas = command.cas_unique;
  request.value = std::move(command.value);
  request.source = command.source;
  const auto outcome = co_await run.context.ops.store(std::move(request));
  if (!outcome.has_value()) {
    run.error(outcome.error());
    co_return;
  }
  const bool cas = command.command == Command::kCas;
  switch (*outcome) {
    case StoreOutcome::kStored:
      if (cas) run.count(Stat::kCasHits);
      run.line(replies::kStored);
      break;
    case StoreOutcome::kNotStored:
      run.line(replies::kNotStored, CommandStatus::kRefused);
      break;
    case StoreOutcome::kExists:
      if (cas) run.count(Stat::kCasBadval);
      run.line(replies::kExists, CommandStatus::kRefused);
      break;
    case StoreOutcome::kNotFound:
      if (cas) run.count(Stat::kCasMisses);
      run.line(replies::kNotFound, CommandStatus::kMiss);
      break;
  }
}

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
  bool touching;
  uint32_t exptime;
  Turns::Ticket place;  // among the client's commands
  Turns keys{};
  size_t answered = 0;  // keys, in their order
  bool failed = false;
};

// Memory of the client's budget and of everyone's.
MemoryHold held_in_both(std::shared_ptr<ReadBudget> own, Semaphore::Permit of_own,
                        Semaphore::Permit of_all) {
  struct Hold {
    std::shared_ptr<ReadBudget> own;
    Semaphore::Permit of_own;
    Semaphore::Permit of_all;
  };
  return std::allocate_shared<const Hold>(Pooled<Hold>(), std::move(own), std::move(of_own),
                                          std::move(of_all));
}

// Where one key's value goes: into the reply, part by part if there are several.
class KeyReply : public ValueSink {
 public:
  KeyReply(Retrieval& retrieval, size_t index)
      : retrieval_(retrieval), index_(index), place_(retrieval.keys.take()) {}

  void begin(const Object& object) override {
    const bool with_cas = memcache::wants_cas(retrieval_.command.command);
    memcache::compose_value_header(output_, key(), object.flags, object.range_bytes,
                                   with_cas ? std::optional(object.cas) : std::nullopt);
    expect(object.range_bytes);
  }
  void part(Buffer bytes) override {
    left_ -= bytes.size();
    output_.append(std::move(bytes));
    if (left_ == 0) return memcache::compose_value_trailer(output_);
    if (is_first()) send_part();
  }

  MemoryHold try_reserve(uint64_t bytes) override {
    if (is_unwanted()) return nullptr;
    if (bytes <= own()->early.free() && bytes <= all().early.free()) {
      if (auto hold = take_at_once(own()->early, all().early, bytes)) return hold;
    }
    const bool has_turn = place_.has_turn() && retrieval_.place.has_turn();
    return has_turn ? take_at_once(own()->in_turn, all().in_turn, bytes) : nullptr;
  }

  Task<Result<MemoryHold>> reserve(uint64_t bytes) override {
    co_await place_.turn();
    co_await retrieval_.place.turn();
    if (is_unwanted()) co_return unwanted();
    if (auto hold = try_reserve(bytes)) co_return hold;
    // What this waits for may be what the parts and keys before it hold.
    retrieval_.run.send_part();
    if (is_first()) send_part();
    auto of_own = co_await own()->in_turn.acquire(bytes);
    auto of_all = co_await all().in_turn.acquire(bytes);
    // In a later turn of the loop: whoever lets a buffer go is not the place to run a flow.
    Clock& clock = retrieval_.run.context.clock;
    if (!co_await clock.next_turn() || is_unwanted()) co_return unwanted();
    co_return held_in_both(own(), std::move(of_own), std::move(of_all));
  }

  const std::string& key() const { return retrieval_.command.key_at(index_); }
  Output take() { return std::exchange(output_, {}); }

 protected:
  Output& output() { return output_; }
  // So many bytes of the value follow, and its line end.
  void expect(uint64_t bytes) {
    left_ = bytes;
    if (left_ == 0) memcache::compose_value_trailer(output_);
  }

 private:
  const std::shared_ptr<ReadBudget>& own() { return retrieval_.run.client.read_budget(); }
  ReadBudget& all() { return retrieval_.run.context.ops.read_budget(); }
  MemoryHold take_at_once(Semaphore& own_part, Semaphore& all_part, uint64_t bytes) {
    auto of_own = own_part.try_acquire(bytes);
    if (!of_own) return nullptr;
    auto of_all = all_part.try_acquire(bytes);
    return of_all ? held_in_both(own(), std::move(*of_own), std::move(*of_all)) : nullptr;
  }
  // All keys before this one are answered.
  bool is_first() const { return !retrieval_.failed && retrieval_.answered == index_; }
  void send_part() {
    retrieval_.run.output.append(take());
    retrieval_.run.send_part();
  }
  bool is_unwanted() const { return retrieval_.failed || retrieval_.run.client.is_gone(); }
  static std::unexpected<Error> unwanted() {
    return fail(ErrorCode::kCancelled, "nobody waits for the value");
  }

  Retrieval& retrieval_;
  const size_t index_;
  Turns::Ticket place_;
  Output output_;
  uint64_t left_ = 0;  // bytes of the value
};

struct KeyAnswer {
  Result<ReadOutcome> outcome;
  Output output;
};
using KeyResult = OneShot<KeyAnswer>;

Task<Result<ReadOutcome>> read_value(Retrieval& retrieval, KeyReply& reply) {
  ObjectOps& ops = retrieval.run.context.ops;
  if (retrieval.touching) return ops.touch_and_get(reply.key(), retrieval.exptime, reply);
  return ops.get(reply.key(), reply, ByteRange{});
}

Task<void> read_key(Retrieval& retrieval, size_t index, KeyResult& result) {
  KeyReply reply(retrieval, index);
  ++retrieval.run.client.keys_read();
  Result<ReadOutcome> outcome = co_await read_value(retrieval, reply);
  --retrieval.run.client.keys_read();
  result.set({std::move(outcome), reply.take()});
}

// Adds the answer to the retrieval's reply.
void take_answer(Retrieval& retrieval, KeyAnswer answer) {
  Execution& run = retrieval.run;
  if (!answer.outcome) {
    retrieval.failed = true;
    return run.error(answer.outcome.error());
  }
  ++retrieval.answered;
  count_read(run, retrieval.touching, answer.outcome->found);
  if (!answer.outcome->found) return;
  run.path = std::max(run.path, answer.outcome->path);
  run.status = CommandStatus::kOk;
  run.output.append(std::move(answer.output));
  if (run.in_parts) run.send_part();
}

Task<void> run_retrieval(Execution& run, ClientCommand& command) {
  const bool touching = command.command == Command::kGat || command.command == Command::kGats;
  Retrieval retrieval{.run = run,
                      .command = command,
                      .touching = touching,
                      .exptime = touching ? run.expiry(command.exptime) : 0,
                      .place = run.client.reads().take()};
  const size_t keys = command.key_count();
  run.status = CommandStatus::kMiss;
  if (keys == 1) {
    KeyReply reply(retrieval, 0);
    Result<ReadOutcome> outcome = co_await read_value(retrieval, reply);
    take_answer(retrieval, {std::move(outcome), reply.take()});
    if (!retrieval.failed) memcache::compose_line(run.output, replies::kEnd);
    co_return;
  }
  std::deque<KeyResult, Pooled<KeyResult>> results;  // of the keys that are being read
  Scope reads;
  size_t asked = 0;
  for (size_t i = 0; i < keys && !retrieval.failed; ++i) {
    // Calls to nodes wait in queues that all clients share.
    const auto may_ask = [&] {
      return asked == i || retrieval.place.has_turn() ||
             run.client.keys_read() < run.context.settings.keys_read;
    };
    for (; asked < std::min(i + kKeysAtOnce, keys) && may_ask(); ++asked) {
      reads.spawn(read_key(retrieval, asked, results.emplace_back()));
    }
    take_answer(retrieval, co_await results.front());
    results.pop_front();
  }
  co_await reads.join();
  if (!retrieval.failed) memcache::compose_line(run.output, replies::kEnd);
}

// What was asked for, each with a space before it; of a miss (null) what the request itself says.
std::string meta_flags(const memcache::MetaGet& get, const std::string& key, const Object* object) {
  std::string flags;
  for (const char flag : get.answers) {
    if (object == nullptr && flag != 'k' && flag != 'O') continue;
    flags += {' ', flag};
    if (flag == 'c') flags += std::to_string(object->cas);
    if (flag == 'f') flags += std::to_string(object->flags);
    if (flag == 's') flags += std::to_string(object->size);
    if (flag == 'k') flags += key;
    if (flag == 'O') flags += get.opaque;
  }
  return flags;
}

// mg: a range of one value, or what is known of it.
class MetaReply : public KeyReply {
 public:
  MetaReply(Retrieval& retrieval, const memcache::MetaGet& get)
      : KeyReply(retrieval, 0), get_(get) {}

  void begin(const Object& object) override {
    const auto bytes = get_.value ? std::optional(object.range_bytes) : std::nullopt;
    memcache::compose_meta_hit(output(), bytes, meta_flags(get_, key(), &object));
    if (get_.value) expect(object.range_bytes);
  }

 private:
  const memcache::MetaGet& get_;
};

Task<void> run_meta_get(Execution& run, ClientCommand& command) {
  const auto get = memcache::parse_meta_get(command.argument);
  if (!get) {
    run.line(get.error(), CommandStatus::kClientError);
    co_return;
  }
  Retrieval retrieval{.run = run,
                      .command = command,
                      .touching = false,
                      .exptime = 0,
                      .place = run.client.reads().take()};
  MetaReply reply(retrieval, *get);
  const ByteRange range{get->offset, get->value ? get->length : 0};
  auto outcome = co_await run.context.ops.get(command.key, reply, range);
  run.status = CommandStatus::kMiss;
  const bool found = outcome && outcome->found;
  take_answer(retrieval, {std::move(outcome), reply.take()});
  if (!found && !retrieval.failed && !get->quiet) {
    memcache::compose_meta_miss(run.output, meta_flags(*get, command.key, nullptr));
  }
}

Task<void> run_counter(Execution& run, ClientCommand& command) {
  const bool increment = command.command == Command::kIncr;
  const auto outcome = co_await run.context.ops.change_counter(
      {.key = command.key, .delta = command.delta, .increment = increment});
  if (!outcome.has_value()) {
    run.error(outcome.error());
    co_return;
  }
  switch (outcome->status) {
    case CounterStatus::kOk:
      run.count(increment ? Stat::kIncrHits : Stat::kDecrHits);
      memcache::compose_number(run.output, outcome->value);
      break;
    case CounterStatus::kNotFound:
      run.count(increment ? Stat::kIncrMisses : Stat::kDecrMisses);
      run.line(replies::kNotFound, CommandStatus::kMiss);
      break;
    case CounterStatus::kNotNumber:
      run.line(replies::kNonNumeric, CommandStatus::kClientError);
      break;
  }
}

Task<void> run_delete(Execution& run, ClientCommand& command) {
  const auto found = co_await run.context.ops.remove(command.key);
  if (!found.has_value()) {
    run.error(found.error());
    co_return;
  }
  run.count(*found ? Stat::kDeleteHits : Stat::kDeleteMisses);
  run.line(*found ? replies::kDeleted : replies::kNotFound,
           *found ? CommandStatus::kOk : CommandStatus::kMiss);
}

Task<void> run_touch(Execution& run, ClientCommand& command) {
  run.count(Stat::kCmdTouch);
  const auto found = co_await run.context.ops.touch(command.key, run.expiry(command.exptime));
  if (!found.has_value()) {
    run.error(found.error());
    co_return;
  }
  run.count(*found ? Stat::kTouchHits : Stat::kTouchMisses);
  run.line(*found ? replies::kTouched : replies::kNotFound,
           *found ? CommandStatus::kOk : CommandStatus::kMiss);
}

void run_administrative(Execution& run, const ClientCommand& command) {
  switch (command.command) {
    case Command::kVersion:
      memcache::compose_version(run.output, run.context.server.version);
      break;
    case Command::kMetaNoop:
      run.line(replies::kMetaNoop);
      break;
    case Command::kVerbosity:
      run.line(replies::kOk);
      break;
    case Command::kStats:
      if (!run.context.server.answer(command.argument, run.output)) {
        run.line(replies::kError, CommandStatus::kClientError);
      }
      break;
    case Command::kFlushAll:
      run.count(Stat::kCmdFlush);
      memcache::compose_server_error(run.output,
                                     "flush_all is not supported: it would drop redundant data of "
                                     "every client; delete keys, or restart the nodes");
      run.status = CommandStatus::kServerError;
      break;
    default:
      break;
  }
}

}  // namespace

void ClientCommand::assign(const memcache::Request& request) {
  command = request.command;
  noreply = request.noreply;
  key = request.keys.size() == 1 ? request.keys.front() : request.key;
  if (request.keys.size() > 1) {
    keys.assign(request.keys.begin(), request.keys.end());
  } else {
    keys.clear();
  }
  flags = request.flags;
  exptime = request.exptime;
  cas_unique = request.cas_unique;
  delta = request.delta;
  argument = request.argument;
  value = {};
  incoming_bytes = 0;
  source = nullptr;
}

void compose_error(Output& output, const Error& error, const std::string& not_serving) {
  if (error.code == ErrorCode::kNoSpace)
    return memcache::compose_line(output, replies::kOutOfMemory);
  if (error.code == ErrorCode::kTooLarge) return memcache::compose_line(output, replies::kTooLarge);
  if (error.code == ErrorCode::kUnknownOutcome) {
    return memcache::compose_server_error(output, "outcome unknown: " + error.message);
  }
  if (!not_serving.empty()) {
    return memcache::compose_server_error(output, "not serving: " + not_serving);
  }
  memcache::compose_server_error(output, to_string(error));
}

Task<Output> execute(SessionContext& context, CommandClient& client, ClientCommand& command) {
  Execution run{context, client};
  const Command which = command.command;
  const TimePoint started = context.clock.turn_time();
  if (memcache::is_storage(which)) {
    co_await run_store(run, command);
  } else if (memcache::is_retrieval(which)) {
    co_await run_retrieval(run, command);
  } else if (which == Command::kMetaGet) {
    co_await run_meta_get(run, command);
  } else if (which == Command::kIncr || which == Command::kDecr) {
    co_await run_counter(run, command);
  } else if (which == Command::kDelete) {
    co_await run_delete(run, command);
  } else if (which == Command::kTouch) {
    co_await run_touch(run, command);
  } else {
    run_administrative(run, command);
  }
  const std::chrono::duration<double> took = context.clock.turn_time() - started;
  context.stats.command(which, run.status, run.path, took.count());
  co_return std::move(run.output);
}

}  // namespace elastripe
