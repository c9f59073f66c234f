// World's clients: what they ask, and what they note.
#include <algorithm>
#include <numeric>

#include "proxy/base/check.h"
#include "proxy/ops/reclaim.h"
#include "tests/sim/streams.h"
#include "tests/sim/world_internal.h"

namespace elastripe::sim {

using std::chrono::seconds;

namespace {

constexpr double kNumeric = 0.25;

// Bytes that tell which operation they come from.
std::string fill(std::string identity, size_t index, size_t size) {
  SimRandom random(index);
  while (identity.size() < size) identity += static_cast<char>('a' + random.below(26));
  return identity;
}

// What a client is told (docs/consistency.md, "What clients should do with errors"): of one error
// only it hears that the outcome is unknown, any other says that nothing was done.
Answer answer_of(const Error& error) {
  return error.code == ErrorCode::kUnknownOutcome ? Answer::kUnknown : Answer::kNone;
}

Answer answer_of(StoreOutcome outcome) {
  switch (outcome) {
    case StoreOutcome::kStored:
      return Answer::kDone;
    case StoreOutcome::kNotStored:
      return Answer::kNotStored;
    case StoreOutcome::kExists:
      return Answer::kExists;
    case StoreOutcome::kNotFound:
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
  StoreRequest request;
  request.verb = store_verb(op.verb);
  request.key = op.key;
  request.flags = op.flags;
  request.exptime = op.exptime;
  request.cas = op.cas;
  if (is_streamed(op)) {
    request.source = &source;
  } else {
    request.value = Buffer::copy_of(op.value);
  }
  auto outcome = co_await store_object(ops, std::move(request), deadline);
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

// `op` outlives the task: both belong to World::perform().
Task<void> execute(Operation& op, OpsContext& ops, Pace pace, TimePoint deadline) {
  switch (op.verb) {
    case Verb::kGet:
      if (is_streamed(op))
        co_return co_await execute_streamed_get(op, ops, std::move(pace), deadline);
      co_return co_await execute_get(op, ops, deadline);
    case Verb::kIncrement:
    case Verb::kDecrement:
      co_await execute_counter(op, ops, deadline);
      co_return;
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
    case Verb::kTransition:
      co_await execute_transition(op, ops);
      co_return;
    default:
      co_await execute_store(op, ops, std::move(pace), deadline);
  }
}

}  // namespace

std::string unique_value(size_t operation, size_t bytes) {
  return fill(fmt::format("v{}.", operation), operation, bytes);
}

// Keys go round the pools.
std::string World::key_name(int key) const {
  const size_t pool = static_cast<size_t>(key) % (1 + scenario_.more_pools.size());
  const std::string name = "key-" + std::to_string(key);
  return pool == 0 ? name : scenario_.more_pools[pool - 1].prefix + name;
}

Operation World::choose_operation(SimRandom& random, int client, SimProxy& proxy) {
  Operation op;
  op.client = client;
  op.key = key_name(static_cast<int>(random.below(static_cast<uint64_t>(scenario_.keys))));
  const auto& weights = scenario_.weights;
  auto pick = static_cast<int>(
      random.below(static_cast<uint64_t>(std::accumulate(weights.begin(), weights.end(), 0))));
  size_t verb = 0;
  while (pick >= weights[verb]) pick -= weights[verb++];
  op.verb = static_cast<Verb>(verb);

  const size_t id = history_.size();
  if (op.verb == Verb::kCas) {
    const auto seen = last_read_.find({client, op.key});
    if (seen == last_read_.end()) {
      op.verb = Verb::kGet;
      return op;
    }
    op.cas = seen->second.first;
    op.expected = seen->second.second;
  }
  switch (op.verb) {
    case Verb::kGet:
    case Verb::kDelete:
      break;
    case Verb::kTransition: {
      const coding::Scheme& scheme = pools().pool_of(op.key).scheme;
      int& last = last_to_[op.key];
      const bool turns = random.chance(0.8);
      last = op.to = (last == scheme.k_prime) == turns ? scheme.k : scheme.k_prime;
      op.at_proxy = random.chance(0.5);
      break;
    }
    case Verb::kIncrement:
    case Verb::kDecrement:
      op.delta = 1 + random.below(1'000'000'000);
      break;
    case Verb::kAppend:
    case Verb::kPrepend:
      op.value = fill(fmt::format("+{}.", id), id, random.chance(scenario_.large) ? 40 : 0);
      break;
    default: {
      op.flags = static_cast<uint32_t>(id);
      if (random.chance(scenario_.expiring)) {
        // As sessions do, by the clock of the proxy.
        op.exptime = static_cast<uint32_t>(proxy.clock().unix_ms() / 1000 + 1 + random.below(4));
        if (scenario_.long_expiry > 0 && random.chance(scenario_.long_expiry)) {
          const auto most = std::chrono::duration_cast<seconds>(scenario_.clock_step_max).count();
          op.exptime += static_cast<uint32_t>(random.below(static_cast<uint64_t>(most)));
        }
      }
      if (op.verb == Verb::kTouch) break;
      const size_t most =
          random.chance(scenario_.large)
              ? pools().pool_of(op.key).segment_bytes * static_cast<size_t>(scenario_.segments)
              : 16;
      if (random.chance(kNumeric)) {
        op.value = std::to_string(1'000'000'000'000'000 + id * 1'000'000'000'000 +
                                  random.below(1'000'000'000'000));
      } else {
        const size_t segment = pools().pool_of(op.key).segment_bytes;
        const bool is_rounded = scenario_.whole_segments && most > segment;
        const size_t bytes = random.below(most);
        op.value = unique_value(id, is_rounded ? bytes - bytes % segment + segment : bytes);
      }
    }
  }
  return op;
}

void World::choose_stream(Operation& op, SimRandom& random) {
  const bool is_read = op.verb == Verb::kGet;
  const bool is_striped = op.value.size() > pools().pool_of(op.key).inline_max_bytes;
  if (!is_read && !is_striped) return;
  if (scenario_.streams.share == 0 || !random.chance(scenario_.streams.share)) return;
  op.pace = random.next() | 1;
  if (!is_read || !random.chance(scenario_.ranges)) return;
  const uint64_t most =
      uint64_t{pools().pool_of(op.key).segment_bytes} * static_cast<uint64_t>(scenario_.segments);
  op.offset = random.below(most);
  op.length = random.below(most);
}

SimProxy* World::choose_proxy(SimRandom& random) {
  std::vector<SimProxy*> alive;
  for (auto& proxy : proxies_) {
    if (proxy->is_alive()) alive.push_back(proxy.get());
  }
  return alive.empty() ? nullptr : alive[random.below(alive.size())];
}

size_t World::begin(Operation op, SimProxy& proxy) {
  op.proxy = proxy.id();
  op.invoked = ++order_;
  op.invoked_ms = proxy.clock().unix_ms();
  const size_t index = history_.size();
  if (trace_.on()) trace_.add("op {} asks: {}", index, to_string(op));
  history_.push_back(std::move(op));
  pending_[index] = std::make_unique<Pending>();
  return index;
}

void World::give_up(Pending& pending) {
  if (pending.is_over) return;
  pending.is_over = true;
  pending.over.set(true);
}

void World::start_clients(int operations) {
  for (int id = 0; id < scenario_.clients; ++id) {
    ++clients_left_;
    flows_.spawn(client(id, operations, random_.next()));
  }
}

Task<void> World::client(int id, int operations, uint64_t seed) {
  SimRandom random(seed);
  for (int i = 0; i < operations; ++i) {
    co_await clock_.sleep_for(random.between(Duration::zero(), scenario_.think_max));
    SimProxy* proxy = choose_proxy(random);
    if (proxy == nullptr) continue;
    if (events_.now() >= stop_at_) break;
    Operation op = choose_operation(random, id, *proxy);
    choose_stream(op, random);
    const Duration limit = is_streamed(op) ? kStreamLimit : kRequestTimeout + seconds(1);
    const size_t index = begin(std::move(op), *proxy);
    Pending& pending = *pending_[index];
    flows_.spawn(perform(index, proxy));
    // A paused proxy answers late: its client does not wait for it.
    clock_.post(clock_.now() + limit, [this, &pending] { give_up(pending); });
    co_await pending.over;
  }
  --clients_left_;
}

Task<void> World::perform(size_t index, SimProxy* proxy) {
  Operation op = history_[index];
  const TimePoint began = clock_.now();
  co_await execute(op, proxy->ops(), Pace(scenario_.streams, calm_, op.pace),
                   clock_.now() + kRequestTimeout);
  Pending& pending = *pending_[index];
  if (pending.is_over) co_return;
  op.invoked_ms = std::min(op.invoked_ms, history_[index].invoked_ms);
  if (op.answer != Answer::kUnknown) {
    op.returned = ++order_;
    op.returned_ms = latest_ms(pending, *proxy);
  }
  if (is_whole_hit(op)) last_read_[{op.client, op.key}] = {op.cas, op.read_value};
  const auto says = [&](const char* what) { return op.error.find(what) != std::string::npos; };
  const bool lacks_shards = says("object lost") || says("while the value arrived");
  // A value whose parts stop coming is taken for abandoned; so is that of a proxy that stops.
  const bool is_reclaimed = says("while the value arrived") &&
                            clock_.now() - began > kAbandonedAfter * scenario_.upload_idle;
  const bool is_expected = is_reclaimed || (says("damaged") && lost_by_damage_.contains(op.key)) ||
                           (lacks_shards ? may_lack_shards(op.key, says("while the value arrived"))
                                         : is_beyond_promise());
  if (op.error.starts_with("lost") && !is_expected) {
    violation(Fault::kLost, fmt::format("within the promise: {}", to_string(op)));
  }
  if (trace_.on()) trace_.add("op {} ends: {}", index, to_string(op));
  if (op.answer == Answer::kDone) {
    flipped_.erase(op.key);
    lost_by_damage_.erase(op.key);
    fault_after_answer(op);
  }
  history_[index] = std::move(op);
  give_up(pending);
}

}  // namespace elastripe::sim
