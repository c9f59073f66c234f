#include "proxy/main/control_thread.h"

#include <algorithm>

#include "proxy/base/log.h"
#include "proxy/main/cluster_config.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/decider/decider_status.h"
#include "proxy/ops/decider/etcd_election.h"

namespace elastripe {

using decider::DeciderAnswer;
using decider::DeciderTask;

namespace {

constexpr FlowMemory kMemory{.staged = 16 << 20, .cache = 1 << 20};
constexpr Duration kLongestPeriod = std::chrono::milliseconds(250);  // of letters to others
constexpr Duration kHandOverLook = std::chrono::milliseconds(20);
constexpr Duration kStoredPeriod = std::chrono::seconds(1);  // as clients see it

decider::DeciderSettings decider_settings(const Config& config) {
  decider::DeciderSettings settings = config.decider;
  settings.max_parities = config.max_parities;
  settings.joins = config.joins;
  settings.cluster_text = cluster_text(config);
  for (const NodeConfig& node : config.nodes) {
    settings.nodes.push_back({node.name, node.address.host, node.address.port, node.domain});
  }
  return settings;
}

StoredItems stored_items(const decider::ClusterStatus& status, const node::ClusterMap& map) {
  StoredItems stored;
  uint64_t records = 0;
  for (const decider::NodeStatus& node : status.nodes) {
    if (node.info.state != node::NodeState::kUp) continue;
    records += node.statistics.records;
    stored.bytes += node.statistics.record_bytes + node.statistics.shard_bytes;
    stored.used_bytes += node.statistics.used_bytes;
    stored.limit_bytes += node.statistics.limit_bytes;
  }
  uint64_t homes = 0;
  for (const node::Partition& partition : map.partitions) homes += partition.homes.size();
  if (homes > 0) stored.items = records * map.partitions.size() / homes;
  return stored;
}

}  // namespace

ControlThread::ControlThread(ProxyShared& shared)
    : shared_(shared),
      environment_(shared, kMemory),
      config_(std::make_shared<const Config>(shared.config)),
      last_decider_(environment_.clock()),
      correspondence_(
          environment_.ops(), std::stoull(shared.proxy_id, nullptr, 16),
          std::min<Duration>(shared.config.decider.heartbeat, kLongestPeriod), shared.jobs,
          [this] { return card(); }, [this] { return decides_as(); },
          [this](DeciderTask task, TimePoint deadline) {
            return perform(std::move(task), deadline);
          }),
      jobs_(environment_.ops(), shared.jobs, correspondence_,
            {.decides_as = [this] { return decides_as(); },
             .has_majority_since =
                 [this](TimePoint since) {
                   return decider_ != nullptr && decider_->has_majority_since(since);
                 },
             .ends = [&shared] { return shared.shuts_down.load(); }}),
      cluster_metrics_(shared.registry),
      ops_metrics_(shared.registry) {
  last_decider_.expiry_clock().consult([this] { return correspondence_.clocks(); });
}

// As the configuration said at the start.
void ControlThread::prepare_election() {
  const Config& config = shared_.config;
  if (!config.etcd.is_used()) {
    election_ = std::make_unique<decider::NodesElection>(environment_.ops().random);
    return;
  }
  etcd_.emplace(environment_.loop(), config.etcd.client);
  auto election = std::make_unique<decider::EtcdElection>(
      environment_.clock(), *etcd_,
      decider::EtcdElectionSettings{
          .prefix = etcd_prefix(config),
          .ttl = config.etcd.ttl,
          .proxy = fmt::format("{} {}", shared_.proxy_id, shared_.admin_address)});
  flows_.spawn(election->run());
  election_ = std::move(election);
}

void ControlThread::start() {
  prepare_election();
  flows_.spawn(decide_or_follow());
  flows_.spawn(publish_stored());
  flows_.spawn(jobs_.run());
  flows_.spawn(correspondence_.run());
  thread_ = std::thread([this] { environment_.loop().run(); });
}

void ControlThread::change_settings(ConfigPtr config, std::function<void()> done) {
  environment_.loop().post([this, config = std::move(config), done = std::move(done)] {
    environment_.change_settings(*config, kMemory);
    config_ = config;
    if (decider_ != nullptr) decider_->know_own(decider_settings(*config));
    done();
  });
}

void ControlThread::follows(const node::ClusterSettings& settings) {
  environment_.loop().post([this, settings] {
    is_unable_ = is_unable_ && !(settings == asked_);
    shared_.map.follows(settings);
  });
}

void ControlThread::have_followed(ClusterFollower follower) {
  cluster_follower_ = std::move(follower);
  shared_.map.have_followed([this](const node::ClusterSettings& settings) { follow(settings); });
}

void ControlThread::follow(const node::ClusterSettings& settings) {
  asked_ = settings;
  auto followed = cluster_follower_.follow(settings);
  if (followed) return;
  is_unable_ = true;
  shared_.map.can_not_follow(followed.error().message);
  if (decider_ != nullptr) decider_->leave();
}

// Else nobody could undo it through another proxy; and a proxy of an older build would go on by its
// file.
Result<void> ControlThread::may_change(const SettingsChange& change) const {
  if (auto checked = cluster_follower_.check(change.settings); !checked) {
    return fail(ErrorCode::kInvalid, "the proxy that decides could not follow: {}",
                checked.error().message);
  }
  for (const decider::KnownProxy& proxy : correspondence_.proxies()) {
    const bool knows_such = proxy.card.capabilities.has(node::Capability::kSettings);
    if (proxy.is_self || proxy.card.leaves || knows_such) continue;
    return fail(ErrorCode::kUnavailable,
                "proxy {} is of a build that knows no settings of the cluster: upgrade it, and try "
                "again",
                proxy.card.name);
  }
  return {};
}

void ControlThread::have_maintained(Maintenance maintenance) {
  maintenance_ = std::move(maintenance);
}

void ControlThread::have_jobs_run(decider::JobRunner runner) { jobs_.have_run(std::move(runner)); }

ControlThread::DeciderPtr ControlThread::new_decider(const decider::DeciderSettings& settings) {
  return std::make_shared<decider::Decider>(environment_.ops(), settings, *election_,
                                            last_decider_);
}

void ControlThread::do_task(DeciderTask task, std::function<void(DeciderAnswer)> done) {
  environment_.loop().post([this, task = std::move(task), done = std::move(done)] {
    if (!flows_.try_spawn(run_task(task, done))) {
      done(fail(ErrorCode::kUnavailable, "shutting down"));
    }
  });
}

Task<void> ControlThread::run_task(DeciderTask task, std::function<void(DeciderAnswer)> done) {
  const TimePoint deadline = fresh_deadline(environment_.ops());
  if (is_of_jobs(task)) {
    done(co_await jobs_.ask(std::move(task), deadline));
  } else {
    done(co_await correspondence_.do_task(std::move(task), deadline));
  }
}

namespace {

DeciderAnswer without_counts(const Result<void>& done) {
  if (!done) return fail(done.error());
  return decider::TaskOutcome{};
}

DeciderAnswer with_counts(const Result<decider::AcceptedLoss>& accepted) {
  if (!accepted) return fail(accepted.error());
  return decider::TaskOutcome{.loss = *accepted};
}

}  // namespace

Task<DeciderAnswer> ControlThread::perform(DeciderTask task, TimePoint deadline) {
  const DeciderPtr decider = decider_;
  if (decider == nullptr) {
    co_return fail(ErrorCode::kUnavailable, "this proxy does not decide any more; try again");
  }
  if (const auto* flush = std::get_if<decider::FlushAll>(&task)) {
    co_return without_counts(co_await decider->flush_all(flush->at, deadline));
  }
  if (std::holds_alternative<decider::AcceptLoss>(task)) {
    co_return with_counts(co_await decider->accept_loss(deadline));
  }
  if (auto* start = std::get_if<decider::StartJob>(&task)) {
    co_return co_await jobs_.start(std::move(*start), deadline);
  }
  if (const auto* cancel = std::get_if<decider::CancelJob>(&task)) {
    co_return co_await jobs_.cancel(*cancel, deadline);
  }
  if (const auto* dead = std::get_if<decider::DeclareDead>(&task)) {
    co_return without_counts(decider->declare_dead(dead->node));
  }
  if (auto* settings = std::get_if<SettingsChange>(&task)) {
    if (auto may = may_change(*settings); !may) co_return fail(may.error());
    co_return without_counts(co_await decider->change_settings(std::move(*settings), deadline));
  }
  auto& members = std::get<MemberChange>(task);
  co_return without_counts(co_await decider->change_members(std::move(members), deadline));
}

decider::ProxyCard ControlThread::card() const {
  decider::ProxyCard card = {.name = shared_.proxy_id,
                             .clients = shared_.clients_address,
                             .admin = shared_.admin_address,
                             .version = shared_.stats.version,
                             .decides_as = decides_as(),
                             .leaves = shared_.shuts_down,
                             .findings = {},
                             .capabilities = node::own_capabilities(),
                             .runs_jobs = true,
                             .handover = {},
                             .unix_ms = static_cast<int64_t>(environment_.clock().unix_ms())};
  if (decider_ != nullptr) {
    card.findings = decider_->status();
    card.findings.maintenance = maintenance_.tell();
    card.handover = decider_->handover();
    card.handover.scrub_due_in = maintenance_.scrub_due_in();
  }
  return card;
}

uint32_t ControlThread::decides_as() const {
  return decider_ == nullptr || decider_->is_over() ? 0 : decider_->id();
}

// For the time when this proxy decides in its place.
void ControlThread::look_at_decider() {
  const MapPtr map = shared_.map.current();
  last_decider_.look(map,
                     map == nullptr ? nullptr : correspondence_.find_decider(map->epoch.decider));
}

// Who follows leaves it to the decider, which looks every minute.
void ControlThread::survey_again() {
  environment_.loop().post([this] {
    if (decider_ != nullptr) decider_->survey_again();
  });
}

decider::ClusterStatus ControlThread::status() const {
  if (decider_ != nullptr) return decider_->status();
  decider::ClusterStatus status = follower_->status();
  const decider::ProxyCard* decides = correspondence_.find_decider(correspondence_.whom_to_ask());
  if (decides == nullptr) decides = correspondence_.find_decider(status.epoch.decider);
  auto& findings = static_cast<decider::DeciderFindings&>(status);
  const decider::Inherited& last = last_decider_.inherited();
  if (decides != nullptr) {
    findings = decides->findings;
  } else if (last.decider == status.epoch.decider) {
    // It is gone, and nobody could accept a loss.
    findings = last.findings;
    findings.can_accept_loss = false;
  }
  return status;
}

void ControlThread::tell_status(std::function<void(decider::ClusterStatus)> done) {
  environment_.loop().post([this, done = std::move(done)] {
    decider::ClusterStatus status = this->status();
    status.proxies = correspondence_.proxies();
    decider::show_one_decider(status.proxies, status.epoch.decider);
    status.election = election_->status();
    const std::string& problem = status.election.problem;
    if (!status.decides && status.state != "serving" && !problem.empty()) {
      status.reason += (status.reason.empty() ? "" : "; ") + problem;
    }
    cluster_metrics_.refresh(status);
    ops_metrics_.publish(environment_.ops().counters);
    done(std::move(status));
  });
}

void ControlThread::join() {
  if (thread_.joinable()) thread_.join();
}

// What it has under way may take its time.
void ControlThread::end(auto role) {
  const auto join = [](auto ended) -> Task<void> { co_await ended->join(); };
  (void)endings_.try_spawn(join(std::move(role)));
}

// A proxy decides where nobody else does, and follows whoever does.
Task<void> ControlThread::decide_or_follow() {
  // The operator vouches for what is so at the start.
  bool is_forced = shared_.config.decider.force_epoch;
  for (bool starts = true;; starts = false) {
    decider::DeciderSettings settings = decider_settings(*config_);
    settings.gives_way = settings.hands_over = !is_forced;
    settings.force_epoch = is_forced;
    if (!is_forced) {
      follower_ =
          std::make_shared<decider::Follower>(environment_.ops(), settings, *election_, starts);
      decider_ = nullptr;
      const bool is_alone = co_await follower_->run();
      end(follower_);
      if (!is_alone) co_return;
      look_at_decider();
      const decider::Inherited& last = last_decider_.inherited();
      if (const auto due_in = last.handover.scrub_due_in) {
        maintenance_.take_over(*due_in - (environment_.clock().now() - last.told_at));
      }
      // By the times that it has heard of; what is this proxy's own may have changed meanwhile.
      const decider::DeciderSettings known = follower_->settings();
      settings = decider_settings(*config_);
      settings.gives_way = settings.hands_over = true;
      settings.force_epoch = false;
      settings.silent = follower_->silent();
      decider::take_times(settings, known);
    }
    decider_ = new_decider(settings);
    decider_->know_own(decider_settings(*config_));
    decider_->know_proxies([this] { return correspondence_.others_have(); });
    follower_ = nullptr;
    is_forced = false;
    if (leaves_ || is_unable_) decider_->leave();
    co_await decider_->run();
    if (!shutting_down_) jobs_.leave();
    end(decider_);
    if (shutting_down_) co_return;
  }
}

// While nothing is served, what was stored last.
Task<void> ControlThread::publish_stored() {
  Clock& clock = environment_.clock();
  do {
    if (decider_ == nullptr) look_at_decider();
    shared_.work.divide(correspondence_.work_share());
    const MapPtr map = shared_.map.current();
    if (map == nullptr) continue;
    stored_.store(std::make_shared<const StoredItems>(stored_items(status(), *map)));
  } while (co_await clock.sleep_until(clock.now() + kStoredPeriod));
}

void ControlThread::leave() {
  environment_.loop().post([this] {
    leaves_ = true;
    if (decider_ != nullptr) decider_->leave();
    correspondence_.tell_at_once();
  });
}

void ControlThread::follow_no_more() {
  environment_.loop().post([this] { shared_.map.follow_no_more(); });
}

void ControlThread::begin_shutdown() {
  environment_.loop().post([this] { ending_.spawn(hand_over()); });
}

void ControlThread::hurry_shutdown() { hurries_ = true; }

// Nodes hear that this proxy leaves by its next heartbeats, and a follower takes over then. It goes
// on to decide until it has; if none can, no longer than leases would wait for it.
Task<void> ControlThread::hand_over() {
  Clock& clock = environment_.clock();
  const TimePoint end = clock.now() + config_->decider.lease;
  const auto may_take_over = [](const decider::KnownProxy& proxy) {
    return !proxy.is_self && !proxy.card.leaves;
  };
  const auto waits = [&, this] {
    return decides_as() != 0 && !hurries_ && clock.now() < end &&
           std::ranges::any_of(correspondence_.proxies(), may_take_over);
  };
  if (waits()) {
    log_info("another proxy is to decide first, which may take {} ms",
             config_->decider.lease / std::chrono::milliseconds(1));
  }
  while (waits()) {
    if (!co_await clock.sleep_for(kHandOverLook)) break;
  }
  shut_down();
}

void ControlThread::shut_down() {
  shutting_down_ = true;
  environment_.cancel_all();
  if (etcd_) etcd_->cancel();
  ending_.spawn(finish());
}

Task<void> ControlThread::finish() {
  co_await flows_.join();
  co_await endings_.join();
  co_await environment_.join_background();
  environment_.loop().stop();
}

}  // namespace elastripe
