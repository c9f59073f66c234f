#include "tests/sim/etcd.h"

#include <algorithm>

namespace elastripe::sim {

using etcd::Change;
using etcd::Changes;
using etcd::Found;
using etcd::KeyValue;
using etcd::Lease;
using etcd::LeaseId;
using etcd::Revision;
using std::chrono::milliseconds;

namespace {

constexpr double kLost = 0.01;     // messages
constexpr double kSlow = 0.05;     // up to kSlowMax
constexpr double kLate = 0.01;     // up to kLateMax
constexpr double kForgets = 0.1;   // writes after which older changes are forgotten
constexpr double kTimesOut = 0.3;  // requests to a member that has no leader; others are refused
constexpr Duration kUsualMax = milliseconds(4);
constexpr Duration kSlowMax = milliseconds(200);
constexpr Duration kLateMax = milliseconds(4000);
constexpr Duration kLeaseLate = milliseconds(1000);  // that one ends, at most

bool is_under(const std::string& key, const std::string& prefix) { return key.starts_with(prefix); }

}  // namespace

void EtcdStore::stop() {
  trace_.add("etcd stops");
  is_up_ = false;
  for (const Waiting& waiting : std::exchange(waiting_, {})) {
    waiting.told(fail(ErrorCode::kUnavailable, "etcd has gone away"));
  }
}

void EtcdStore::join_member(int proxy) {
  if (parted_.erase(proxy) > 0 && is_up_) tell();
}

std::optional<Error> EtcdStore::refusal() {
  if (random_.chance(kTimesOut)) return std::nullopt;
  return Error{ErrorCode::kUnavailable, "etcdserver: no leader"};
}

void EtcdStore::start() {
  if (is_up_) return;
  trace_.add("etcd is back");
  is_up_ = true;
  for (auto& [id, lease] : leases_) lease.ends = events_.now() + lease.ttl;
  for (const auto& [id, lease] : leases_) end_later(id);
}

void EtcdStore::make_anew() {
  trace_.add("etcd is made anew");
  for (const auto& [key, pair] : pairs_) note_end(pair);
  pairs_.clear();
  leases_.clear();
  history_.clear();
  waiting_.clear();
  revision_ = 1;
  forgotten_ = 0;
}

Lease EtcdStore::grant(Duration ttl) {
  const LeaseId id = next_lease_++;
  leases_[id] = {.ttl = ttl, .ends = events_.now() + ttl};
  end_later(id);
  return {.id = id, .ttl = ttl};
}

Result<Lease> EtcdStore::keep_alive(LeaseId id) {
  const auto lease = leases_.find(id);
  if (lease == leases_.end()) return fail(ErrorCode::kNotFound, "no such lease");
  lease->second.ends = events_.now() + lease->second.ttl;
  return Lease{.id = id, .ttl = lease->second.ttl};
}

Result<void> EtcdStore::revoke(LeaseId id) {
  if (leases_.erase(id) == 0) return fail(ErrorCode::kNotFound, "no such lease");
  std::vector<std::string> keys;
  for (const auto& [key, pair] : pairs_) {
    if (pair.lease == id) keys.push_back(key);
  }
  for (const std::string& key : keys) erase(key);
  tell();
  return {};
}

void EtcdStore::end_later(LeaseId id) {
  const TimePoint ends = leases_.at(id).ends;
  events_.at(ends + random_.between(Duration::zero(), kLeaseLate), [this, id] { look_at(id); });
}

void EtcdStore::look_at(LeaseId id) {
  const auto lease = leases_.find(id);
  if (lease == leases_.end() || !is_up_) return;
  if (lease->second.ends > events_.now()) return end_later(id);
  trace_.add("lease {} of etcd ends", id);
  (void)revoke(id);
}

Found EtcdStore::find(const std::string& prefix) const {
  Found found{.revision = revision_, .pairs = {}};
  for (const auto& [key, pair] : pairs_) {
    if (is_under(key, prefix)) found.pairs.push_back(pair);
  }
  return found;
}

Result<Revision> EtcdStore::write(const etcd::Write& write) {
  const auto guard = pairs_.find(write.guard);
  const Revision revision = guard == pairs_.end() ? 0 : guard->second.revision;
  if (revision != write.guard_revision) return Revision{0};
  // As etcd, which refuses leases that it does not have.
  for (const KeyValue& pair : write.pairs) {
    if (pair.lease == 0 || leases_.contains(pair.lease)) continue;
    return fail(ErrorCode::kNotFound, "no such lease");
  }
  ++revision_;
  for (KeyValue pair : write.pairs) put(std::move(pair));
  if (!is_calm_ && random_.chance(kForgets)) forgotten_ = revision_ - 1;
  tell();
  return revision_;
}

void EtcdStore::put(KeyValue pair) {
  pair.revision = revision_;
  trace_.add("etcd: {} is {} (lease {})", pair.key, pair.value, pair.lease);
  if (const auto old = pairs_.find(pair.key); old != pairs_.end()) note_end(old->second);
  history_.push_back({.pair = pair, .is_deletion = false});
  pairs_[pair.key] = std::move(pair);
}

void EtcdStore::erase(const std::string& key) {
  const auto old = pairs_.find(key);
  note_end(old->second);
  pairs_.erase(old);
  history_.push_back({.pair = {.key = key, .value = {}, .lease = 0, .revision = ++revision_},
                      .is_deletion = true});
}

void EtcdStore::note_end(const KeyValue& pair) { had_[{pair.key, pair.value}] = events_.now(); }

TimePoint EtcdStore::last_had(const std::string& key, const std::string& value) const {
  const auto now = pairs_.find(key);
  if (now != pairs_.end() && now->second.value == value) return events_.now();
  const auto had = had_.find({key, value});
  return had == had_.end() ? TimePoint::min() : had->second;
}

Result<Changes> EtcdStore::changes_since(const std::string& prefix, Revision since) const {
  const bool is_of_another = since > revision_;  // store, before this one
  if (since < forgotten_ || is_of_another) {
    return fail(ErrorCode::kNotFound, "changes since {} are gone", since);
  }
  Changes changes{.revision = since, .changes = {}};
  for (const Change& change : history_) {
    if (change.pair.revision <= since || !is_under(change.pair.key, prefix)) continue;
    changes.revision = change.pair.revision;
    changes.changes.push_back(change);
  }
  return changes;
}

void EtcdStore::changes(int proxy, const std::string& prefix, Revision since,
                        std::function<void(Result<Changes>)> told) {
  waiting_.push_back({proxy, prefix, since, std::move(told)});
  tell();
}

void EtcdStore::tell() {
  for (Waiting& waiting : std::exchange(waiting_, {})) {
    auto changes = changes_since(waiting.prefix, waiting.since);
    if (is_parted(waiting.proxy) || (changes && changes->changes.empty())) {
      waiting_.push_back(std::move(waiting));
    } else {
      waiting.told(std::move(changes));
    }
  }
}

std::optional<Duration> EtcdStore::delay() {
  if (is_calm_) return random_.between(Duration::zero(), kUsualMax);
  if (random_.chance(kLost)) return std::nullopt;
  if (random_.chance(kLate)) return random_.between(Duration::zero(), kLateMax);
  return random_.between(Duration::zero(), random_.chance(kSlow) ? kSlowMax : kUsualMax);
}

// Shared by the flow that waits, and by messages that are on their way longer.
template <class T>
struct SimEtcd::Call {
  OneShot<Result<T>> done;
};

// `request` happens at the store, and answers when it likes.
template <class T>
Task<Result<T>> SimEtcd::call(std::function<void(Answer<T>)> request, TimePoint deadline,
                              std::function<Result<T>()> at_deadline) {
  if (clock_.cancelled()) co_return fail(ErrorCode::kCancelled, "the proxy is gone");
  const uint64_t id = next_call_++;
  const auto call = std::make_shared<Call<T>>();
  const Answer<T> finish = [this, id, call](Result<T> result) {
    if (cancels_.erase(id) > 0) call->done.set(std::move(result));
  };
  cancels_[id] = [finish] { finish(fail(ErrorCode::kCancelled, "the proxy is gone")); };
  const Answer<T> answer = [this, finish](Result<T> result) {
    const auto delay = store_.delay();
    if (!delay) return;
    events_.after(*delay, [this, finish, result = std::move(result)] {
      if (!store_.is_cut(proxy_)) clock_.run_here([finish, result] { finish(result); });
    });
  };
  if (const auto delay = store_.delay()) {
    events_.after(*delay, [this, request, answer] {
      if (store_.is_up() && !store_.is_cut(proxy_)) request(answer);
    });
  }
  const auto ticket = clock_.post(deadline, [finish, at_deadline] { finish(at_deadline()); });
  auto result = co_await call->done;
  clock_.call_off(ticket);
  co_return result;
}

namespace {

template <class T>
Result<T> no_answer() {
  return fail(ErrorCode::kUnavailable, "etcd does not answer");
}

}  // namespace

template <class T>
Task<Result<T>> SimEtcd::call_leader(std::function<Result<T>()> request, TimePoint deadline) {
  return call<T>(
      [this, request](Answer<T> answer) {
        if (!store_.is_parted(proxy_)) return answer(request());
        if (auto refusal = store_.refusal()) answer(std::unexpected(std::move(*refusal)));
      },
      deadline, no_answer<T>);
}

Task<Result<Lease>> SimEtcd::grant(Duration ttl, TimePoint deadline) {
  return call_leader<Lease>([this, ttl]() -> Result<Lease> { return store_.grant(ttl); }, deadline);
}

Task<Result<Lease>> SimEtcd::keep_alive(LeaseId lease, TimePoint deadline) {
  return call_leader<Lease>([this, lease] { return store_.keep_alive(lease); }, deadline);
}

Task<Result<void>> SimEtcd::revoke(LeaseId lease, TimePoint deadline) {
  return call_leader<void>([this, lease] { return store_.revoke(lease); }, deadline);
}

Task<Result<Found>> SimEtcd::find(std::string prefix, TimePoint deadline) {
  return call_leader<Found>([this, prefix]() -> Result<Found> { return store_.find(prefix); },
                            deadline);
}

Task<Result<Revision>> SimEtcd::write(etcd::Write write, TimePoint deadline) {
  return call_leader<Revision>([this, write] { return store_.write(write); }, deadline);
}

// A connection that is cut later says nothing, as the real one.
Task<Result<Changes>> SimEtcd::changes(std::string prefix, Revision since, TimePoint deadline) {
  const auto has_begun = std::make_shared<bool>(false);
  return call<Changes>(
      [this, prefix, since, has_begun](Answer<Changes> answer) {
        if (store_.is_parted(proxy_)) {
          if (auto refusal = store_.refusal()) return answer(std::unexpected(std::move(*refusal)));
        }
        *has_begun = true;
        store_.changes(proxy_, prefix, since, std::move(answer));
      },
      deadline,
      [since, has_begun] {
        if (!*has_begun) return no_answer<Changes>();
        return Result<Changes>(Changes{.revision = since, .changes = {}});
      });
}

void SimEtcd::cancel_calls() {
  while (!cancels_.empty()) {
    const auto cancel = cancels_.begin()->second;  // it takes itself out
    cancel();
  }
}

}  // namespace elastripe::sim
