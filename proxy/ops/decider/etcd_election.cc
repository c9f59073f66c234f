#include "proxy/ops/decider/etcd_election.h"

#include <algorithm>

#include "proxy/ops/decider/decider_events.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

namespace {

constexpr std::string_view kSeat = "decider";
constexpr std::string_view kMap = "map";
constexpr Duration kPause = std::chrono::milliseconds(500);  // after a failure

std::string describe_map(const node::ClusterMap& map) {
  return fmt::format("cluster {:016x} epoch {} settings {} partitions {}", map.cluster_id,
                     map.epoch.number, map.settings.version, map.partitions.size());
}

std::string describe_members(const node::ClusterMap& map) {
  std::string lines;
  for (const node::NodeInfo& node : map.nodes) {
    if (node.is_removed()) continue;
    const bool is_v6 = node.host.find(':') != std::string::npos;
    fmt::format_to(std::back_inserter(lines), "{} {}{}{}:{} {} {}\n", node.name, is_v6 ? "[" : "",
                   node.host, is_v6 ? "]" : "", node.port, node.domain, node::name(node.role));
  }
  return lines;
}

}  // namespace

EtcdElection::EtcdElection(Clock& clock, etcd::EtcdClient& client, EtcdElectionSettings settings)
    : clock_(clock), client_(client), settings_(std::move(settings)) {}

Task<void> EtcdElection::run() {
  while (co_await look()) {
  }
  over_ = true;
  co_await scope_.join();
}

// False: it is cancelled. Each wait for changes is short: a connection that is cut says nothing.
Task<bool> EtcdElection::look() {
  const auto found = co_await client_.find(settings_.prefix, deadline());
  if (!found) {
    failed(watch_problem_, found.error());
    co_return co_await clock_.sleep_for(kPause);
  }
  const auto taken = std::ranges::find(found->pairs, key(kSeat), &etcd::KeyValue::key);
  if (taken == found->pairs.end()) {
    note({}, found->revision);
  } else {
    note(*taken, taken->revision);
  }
  watch_problem_.clear();
  is_known_ = true;
  for (etcd::Revision since = found->revision;;) {
    step();
    const auto changes = co_await client_.changes(settings_.prefix, since, now() + settings_.ttl);
    if (!changes) {
      is_known_ = false;
      if (changes.error().code != ErrorCode::kNotFound) failed(watch_problem_, changes.error());
      co_return co_await clock_.sleep_for(kPause);
    }
    since = changes->revision;
    for (const etcd::Change& change : changes->changes) {
      // Our own writes are known before they are told.
      const etcd::KeyValue& pair = change.pair;
      if (pair.key != key(kSeat) || pair.revision <= seat_.revision) continue;
      note(change.is_deletion ? std::nullopt : std::optional(pair), pair.revision);
    }
  }
}

void EtcdElection::note(std::optional<etcd::KeyValue> taken, etcd::Revision revision) {
  if (seat_.taken == taken && seat_.revision != 0) {
    seat_.revision = revision;  // an earlier one than before where etcd was made anew
    return;
  }
  seat_ = {.taken = std::move(taken), .revision = revision, .since = now()};
  log_membership(LogLevel::kInfo,
                 LogFields()
                     .add("event", "elected")
                     .add("proxy", seat_.taken ? seat_.taken->value : std::string("none")));
}

void EtcdElection::failed(std::string& problem, const Error& error) {
  if (error.code == ErrorCode::kCancelled) return;
  if (problem.empty()) {
    log_membership(LogLevel::kWarning,
                   LogFields().add("event", "no_election").add("reason", error.message));
  }
  problem = error.message;
}

void EtcdElection::act_failed(const Error& error) {
  failed(act_problem_, error);
  act_after_ = now() + kPause;
}

void EtcdElection::follow(bool, Duration) {
  stands_ = decides_ = false;
  served_ = nullptr;
  step();
}

void EtcdElection::hear_decider(Duration) {
  stands_ = false;
  step();
}

TimePoint EtcdElection::may_begin_at(const Vacancy& vacancy) {
  stands_ = vacancy.has_majority || now() >= vacancy.since + settings_.ttl;
  last_sign_ = vacancy.last_sign;
  step();
  if (mutant(Mutant::kBeginUnelected)) return now();
  return stands_ && has_seat() ? now() : TimePoint::max();
}

void EtcdElection::decide(const node::MapPtr& served, bool leaves) {
  stands_ = false;
  decides_ = !leaves;
  served_ = served;
  step();
}

ElectionStatus EtcdElection::status() const {
  return {.by = "etcd",
          .elected = seat_.taken ? seat_.taken->value : std::string(),
          .problem = watch_problem_.empty() ? act_problem_ : watch_problem_};
}

void EtcdElection::step() {
  if (!acts_ && !over_) scope_.spawn(act());
}

Task<void> EtcdElection::act() {
  acts_ = true;
  while (co_await act_once()) {
  }
  acts_ = false;
}

// True: there may be more to do.
Task<bool> EtcdElection::act_once() {
  if (over_ || now() < act_after_) co_return false;
  if (!wants_seat()) {
    act_problem_.clear();
    co_return lease_.id != 0 && co_await give_back();
  }
  if (!has_lease() || now() >= keep_after_) co_return co_await keep_lease();
  if (!has_seat() && may_take()) co_return co_await take_seat();
  const bool is_news = served_ != nullptr && published_ != served_->epoch;
  if (has_seat() && is_news) co_return co_await publish();
  act_problem_.clear();  // all is done that is to be done now
  co_return false;
}

// If etcd does not hear of it, the lease runs out.
Task<bool> EtcdElection::give_back() {
  const etcd::LeaseId id = std::exchange(lease_, {}).id;
  (void)co_await client_.revoke(id, deadline());
  co_return true;
}

Task<bool> EtcdElection::keep_lease() {
  const TimePoint sent = now();
  const bool is_kept = has_lease();
  const auto lease = is_kept ? co_await client_.keep_alive(lease_.id, deadline())
                             : co_await client_.grant(settings_.ttl, deadline());
  if (!lease) {
    const bool is_over = is_kept && lease.error().code == ErrorCode::kNotFound;
    if (is_over) lease_ = {};
    if (!is_over) act_failed(lease.error());
    co_return is_over;
  }
  lease_ = *lease;
  lease_until_ = sent + lease_.ttl;
  keep_after_ = sent + lease_.ttl / 3;
  co_return true;
}

bool EtcdElection::may_take() const {
  if (!is_known_) return false;
  if (!seat_.taken) return true;
  // Two who serve, as their clusters have the same prefix, shall not wear etcd out.
  if (decides_) return served_ != nullptr && now() >= seat_.since + settings_.ttl / 3;
  // Who decided before would have to have been heard of after it was taken for gone.
  const bool has_begun = last_sign_ > seat_.since;
  return stands_ && (has_begun || now() >= seat_.since + settings_.ttl);
}

// The first one of those who try gets it.
Task<bool> EtcdElection::take_seat() {
  etcd::KeyValue own{.key = key(kSeat), .value = settings_.proxy, .lease = lease_.id};
  etcd::Write write{
      .guard = own.key, .guard_revision = seat_.taken ? seat_.taken->revision : 0, .pairs = {own}};
  const auto written = co_await client_.write(std::move(write), deadline());
  if (!written && written.error().code == ErrorCode::kNotFound) {
    lease_ = {};
    co_return true;
  }
  if (!written) act_failed(written.error());
  if (!written || *written == 0) co_return false;
  own.revision = *written;
  if (own.revision > seat_.revision) note(std::move(own), *written);
  published_ = {};
  co_return true;
}

// While it has the key, so that nobody writes of an older map.
Task<bool> EtcdElection::publish() {
  const node::MapPtr map = served_;
  etcd::Write write{.guard = key(kSeat),
                    .guard_revision = seat_.taken->revision,
                    .pairs = {{.key = key(kMap), .value = describe_map(*map)},
                              {.key = key(kEtcdMembers), .value = describe_members(*map)}}};
  const auto written = co_await client_.write(std::move(write), deadline());
  if (!written) act_failed(written.error());
  if (!written || *written == 0) co_return false;
  published_ = map->epoch;
  co_return true;
}

}  // namespace elastripe::decider
