#include "tests/sim/clients.h"

#include <algorithm>
#include <numeric>

#include "proxy/ops/jobs/reclaim.h"
#include "tests/sim/operations.h"

using namespace elastripe::jobs;

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// How long a client waits whose value goes part by part.
constexpr Duration kStreamLimit = seconds(20);
// Longer than a try under a map that is over lasts.
constexpr Duration kRestBeforeLastTry = seconds(1);
// By so much a decider may be ahead unnoticed, or a little more.
constexpr uint64_t kExpiryTolerance_ms = 120'000;
constexpr double kNumeric = 0.25;
constexpr double kBlindUpdates = 0.1;  // of those by clients that have seen no value
constexpr double kConditionalUpdates = 0.3;

// Bytes that tell which operation they come from.
std::string fill(std::string identity, size_t index, size_t size) {
  SimRandom random(index);
  while (identity.size() < size) identity += static_cast<char>('a' + random.below(26));
  return identity;
}

}  // namespace

void Clients::start(int operations) {
  for (int id = 0; id < run_.scenario.workload.clients; ++id) {
    ++clients_left_;
    run_.flows.spawn(client(id, operations, run_.random.next()));
  }
}

Task<void> Clients::client(int id, int operations, uint64_t seed) {
  SimRandom random(seed);
  for (int i = 0; i < operations; ++i) {
    co_await run_.clock.sleep_for(
        random.between(Duration::zero(), run_.scenario.workload.think_max));
    SimProxy* proxy = cluster_.choose_proxy(random);
    if (proxy == nullptr) continue;
    if (run_.events.now() >= stop_at_) break;
    Operation op = choose_operation(random, id, *proxy);
    const bool any_flushes = run_.scenario.cluster.followers;
    if (op.verb == Verb::kFlush && !any_flushes) proxy = cluster_.decider();
    if (proxy == nullptr) continue;
    choose_stream(op, random);
    const Duration limit = is_streamed(op) ? kStreamLimit : kRequestTimeout + seconds(1);
    const size_t index = begin(std::move(op), *proxy);
    Pending& pending = *pending_[index];
    run_.flows.spawn(perform(index, proxy));
    // A paused proxy answers late: its client does not wait for it.
    run_.clock.post(run_.clock.now() + limit, [&pending] { give_up(pending); });
    co_await pending.over;
  }
  --clients_left_;
}

Operation Clients::choose_operation(SimRandom& random, int client, SimProxy& proxy) {
  Operation op;
  op.client = client;
  op.key =
      key_name(static_cast<int>(random.below(static_cast<uint64_t>(run_.scenario.workload.keys))));
  const auto weights = run_.scenario.workload.all_weights();
  auto pick = static_cast<int>(
      random.below(static_cast<uint64_t>(std::accumulate(weights.begin(), weights.end(), 0))));
  size_t verb = 0;
  while (pick >= weights[verb]) pick -= weights[verb++];
  op.verb = static_cast<Verb>(verb);

  // Most who have seen no value see to it that there is one.
  if (op.verb == Verb::kUpdate && !last_read_.contains({client, op.key}) &&
      !random.chance(kBlindUpdates)) {
    op.verb = random.chance(0.5) ? Verb::kSet : Verb::kGet;
  }
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
    case Verb::kRebalance:
      break;
    case Verb::kFlush:
      op.key.clear();
      if (random.chance(run_.scenario.workload.late_flushes)) {
        op.at = static_cast<uint32_t>(proxy.clock().unix_ms() / 1000 + 1 + random.below(3));
      }
      break;
    case Verb::kTransition: {
      const coding::Scheme& scheme = cluster_.pools().pool_of(op.key).scheme;
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
    case Verb::kUpdate:
      choose_update(op, random);
      break;
    case Verb::kAppend:
    case Verb::kPrepend:
      op.value =
          fill(fmt::format("+{}.", id), id, random.chance(run_.scenario.workload.large) ? 40 : 0);
      break;
    default:
      choose_value(op, random, proxy);
  }
  return op;
}

// A part of the value that this client has read last, or more than there is. Its bytes are like no
// others, so the value that comes of it is, too.
void Clients::choose_update(Operation& op, SimRandom& random) {
  const size_t id = history_.size();
  const auto seen = last_read_.find({op.client, op.key});
  const size_t size = seen == last_read_.end() ? 40 : seen->second.second.size();
  op.value = fill(fmt::format("u{}.", id), id, random.below(std::max<size_t>(size, 1)));
  op.offset = random.below(size > op.value.size() ? size - op.value.size() + 1 : 3);
  if (seen == last_read_.end() || !random.chance(kConditionalUpdates)) return;
  op.cas = seen->second.first;
  op.expected = seen->second.second;
}

// The value, and the time at which it expires; of a touch only that.
void Clients::choose_value(Operation& op, SimRandom& random, SimProxy& proxy) {
  const Scenario& scenario = run_.scenario;
  const size_t id = history_.size();
  op.flags = static_cast<uint32_t>(id);
  if (random.chance(scenario.workload.expiring)) {
    // As sessions do, by the clock of the proxy.
    op.exptime = static_cast<uint32_t>(proxy.clock().unix_ms() / 1000 + 1 + random.below(4));
    if (scenario.workload.long_expiry > 0 && random.chance(scenario.workload.long_expiry)) {
      const auto most = std::chrono::duration_cast<seconds>(scenario.faults.clock_step_max).count();
      op.exptime += static_cast<uint32_t>(random.below(static_cast<uint64_t>(most)));
    }
  }
  if (op.verb == Verb::kTouch) return;
  const size_t segment = cluster_.pools().pool_of(op.key).segment_bytes;
  const size_t most = random.chance(scenario.workload.large)
                          ? segment * static_cast<size_t>(scenario.workload.segments)
                          : 16;
  if (random.chance(kNumeric)) {
    op.value = std::to_string(1'000'000'000'000'000 + id * 1'000'000'000'000 +
                              random.below(1'000'000'000'000));
    return;
  }
  const bool is_rounded = scenario.workload.whole_segments && most > segment;
  const size_t bytes = random.below(most);
  op.value = new_value(is_rounded ? bytes - bytes % segment + segment : bytes);
}

void Clients::choose_stream(Operation& op, SimRandom& random) {
  if (op.verb == Verb::kUpdate) return;  // its bytes come whole
  const bool is_read = op.verb == Verb::kGet;
  const bool is_striped = op.value.size() > cluster_.pools().pool_of(op.key).inline_max_bytes;
  if (!is_read && !is_striped) return;
  if (run_.scenario.workload.streams.share == 0 ||
      !random.chance(run_.scenario.workload.streams.share))
    return;
  op.pace = random.next() | 1;
  if (!is_read || !random.chance(run_.scenario.workload.ranges)) return;
  const uint64_t most = uint64_t{cluster_.pools().pool_of(op.key).segment_bytes} *
                        static_cast<uint64_t>(run_.scenario.workload.segments);
  op.offset = random.below(most);
  op.length = random.below(most);
}

size_t Clients::begin(Operation op, SimProxy& proxy) {
  op.proxy = proxy.id();
  op.invoked = ++order_;
  op.invoked_ms = proxy.clock().unix_ms();
  const size_t index = history_.size();
  if (run_.trace.on()) run_.trace.add("op {} asks: {}", index, to_string(op));
  history_.push_back(std::move(op));
  pending_[index] = std::make_unique<Pending>();
  return index;
}

Task<void> Clients::perform(size_t index, SimProxy* proxy) {
  Operation op = history_[index];
  const TimePoint began = run_.clock.now();
  co_await execute(op, *proxy, Pace(run_.scenario.workload.streams, run_.calm, op.pace),
                   began + kRequestTimeout);
  Pending& pending = *pending_[index];
  if (pending.is_over) co_return;
  op.invoked_ms = std::min(op.invoked_ms, history_[index].invoked_ms);
  if (op.answer != Answer::kUnknown) {
    op.returned = ++order_;
    op.returned_ms = latest_ms(pending, *proxy);
  }
  if (is_whole_hit(op)) last_read_[{op.client, op.key}] = {op.cas, op.read_value};
  if (op.error.starts_with("lost")) check_loss(op, began);
  check_progress(op);
  if (run_.trace.on()) run_.trace.add("op {} ends: {}", index, to_string(op));
  if (op.answer == Answer::kDone) {
    promise_.note_written(op.key);
    answer_watch_(op);
  }
  history_[index] = std::move(op);
  give_up(pending);
}

// An operation was told that something is lost: is that within the promise?
void Clients::check_loss(const Operation& op, TimePoint began) {
  const auto says = [&](const char* what) { return op.error.find(what) != std::string::npos; };
  const bool arrives = says("while the value arrived");
  // A value whose parts stop coming is taken for abandoned; so is that of a proxy that stops.
  if (arrives && run_.clock.now() - began > kAbandonedAfter * run_.scenario.cluster.upload_idle)
    return;
  if (says("damaged") && promise_.may_be_damaged(op.key)) return;
  const bool lacks_shards = arrives || says("object lost");
  if (lacks_shards ? promise_.may_lack_shards(op.key, arrives) : promise_.is_broken()) return;
  run_.violation(Fault::kLost, fmt::format("within the promise: {}", to_string(op)));
}

// Every node and every proxy has had the same map for long: no try under another one is the last.
void Clients::check_progress(const Operation& op) {
  if (!op.error.starts_with("stale_epoch") || !cluster_.is_at_rest_for(kRestBeforeLastTry)) return;
  run_.violation(Fault::kStuck, fmt::format("an old map only was tried: {}", to_string(op)));
}

void Clients::give_up(Pending& pending) {
  if (pending.is_over) return;
  pending.is_over = true;
  pending.over.set(true);
}

void Clients::give_up_all() {
  for (auto& [index, pending] : pending_) give_up(*pending);
}

// Keys go round the pools.
std::string Clients::key_name(int key) const {
  const auto more_pools = run_.scenario.cluster.more_pools();
  const size_t pool = static_cast<size_t>(key) % (1 + more_pools.size());
  const std::string name = "key-" + std::to_string(key);
  return pool == 0 ? name : std::string(more_pools[pool - 1].prefix) + name;
}

std::string Clients::new_value(size_t bytes) const {
  const size_t operation = history_.size();
  return fill(fmt::format("v{}.", operation), operation, bytes);
}

bool Clients::is_being_written(const std::string& key) const {
  return std::ranges::any_of(history_, [&](const Operation& op) {
    return op.key == key && op.verb != Verb::kGet && op.returned == UINT64_MAX &&
           op.answer == Answer::kUnknown;
  });
}

Operation Clients::ask(Operation op, SimProxy& proxy) {
  // One that was deposed only now hears of the map again, as it would from its watch.
  run_.until(seconds(1), [&] { return proxy.map().current() != nullptr; });
  op.client = kAuditor;
  const size_t index = begin(std::move(op), proxy);
  run_.flows.spawn(perform(index, &proxy));
  if (!run_.until_promptly(kHealLimit, [&] { return pending_[index]->is_over; })) {
    run_.violation(Fault::kStuck, "a final operation does not end");
  }
  return history_[index];
}

Operation Clients::ask(Verb verb, int key, SimProxy& proxy, std::string value) {
  Operation op;
  op.verb = verb;
  op.key = key_name(key);
  op.value = std::move(value);
  return ask(std::move(op), proxy);
}

size_t Clients::begin_loss(int key, SimProxy& proxy) {
  Operation op;
  op.verb = Verb::kLose;
  op.key = key_name(key);
  op.client = kAuditor;
  return begin(std::move(op), proxy);
}

void Clients::end_loss(size_t index) {
  Operation& op = history_[index];
  op.answer = Answer::kDone;
  op.returned = ++order_;
  op.returned_ms = run_.clock.unix_ms();
  ++run_.totals.lost_keys;
}

void Clients::step_clock(SimProxy& proxy, Duration step) {
  const auto step_ms = std::chrono::duration_cast<milliseconds>(step).count();
  run_.trace.add("the wall clock of proxy {} steps by {} ms", proxy.id(), step_ms);
  for (auto& [index, pending] : pending_) {
    if (history_[index].proxy == proxy.id()) {
      pending->latest_ms = std::max(pending->latest_ms, proxy.clock().unix_ms());
    }
  }
  ++run_.totals.clock_steps;
  proxy.clock().set_wall_clock_by(step);
  // Nobody knows by which of its clocks an unknown outcome is decided.
  for (Operation& op : history_) {
    if (op.proxy != proxy.id() || op.returned != UINT64_MAX) continue;
    op.invoked_ms = std::min(op.invoked_ms, proxy.clock().unix_ms());
  }
}

// The latest time by which an operation that ends now may have found its key expired: its proxy's,
// or that of a decider which collected it.
uint64_t Clients::latest_ms(const Pending& pending, SimProxy& proxy) const {
  const bool may_step = run_.scenario.faults.clock_steps > 0;
  const uint64_t collected = run_.clock.unix_ms() + (may_step ? kExpiryTolerance_ms : 0);
  return std::max({pending.latest_ms, proxy.clock().unix_ms(), collected});
}

}  // namespace elastripe::sim
