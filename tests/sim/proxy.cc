#include "tests/sim/proxy.h"

#include "proxy/ops/attempt.h"
#include "proxy/ops/decider/etcd_election.h"
#include "tests/sim/totals.h"

using namespace elastripe::decider;

namespace elastripe::sim {

namespace {

constexpr size_t kCacheBytes = 64 << 10;
constexpr Duration kLookEvery = std::chrono::seconds(1);  // at the card of who decides

template <class Role>
Task<void> join_ended(std::shared_ptr<Role> role) {
  co_await role->join();
}

}  // namespace

SimProxy::Worker::Worker(SimProxy& proxy, Network& network, const PoolTable& pools,
                         const OpsSettings& settings, const ProxyMemory& sizes)
    : nodes(network, proxy.clock_, proxy.id_),
      ids(proxy.random_),
      cache(kCacheBytes),
      memory({.staged = sizes.staged_bytes,
              .rebuilt = sizes.staged_bytes,
              .decoded = sizes.decode_bytes,
              .read = sizes.read_bytes,
              .max_part = sizes.read_bytes}),
      ops{.nodes = nodes,
          .clock = proxy.clock_,
          .random = proxy.random_,
          .ids = ids,
          .map = proxy.map_,
          .pools = pools,
          .cache = cache,
          .locks = locks,
          .memory = memory,
          .background = background,
          .settings = settings,
          .counters = {},
          .head_floors = {}} {}

SimProxy::SimProxy(int id, EventQueue& events, Network& network, uint64_t seed,
                   const PoolTable& pools, const OpsSettings& settings, const ProxyMemory& memory,
                   Duration wall_lead)
    : id_(id),
      wall_lead_(wall_lead),
      events_(events),
      clock_(events, wall_lead),
      random_(seed),
      data_(*this, network, pools, settings, memory),
      control_(*this, network, pools, settings, memory),
      election_(std::make_unique<NodesElection>(control_.ops.random)),
      last_decider_(clock_) {}

void SimProxy::elect_by(EtcdStore& store, Duration ttl) {
  etcd_.emplace(store, events_, clock_, id_);
  auto election = std::make_unique<EtcdElection>(
      clock_, *etcd_, EtcdElectionSettings{.prefix = "/", .ttl = ttl, .proxy = etcd_name()});
  flows_.spawn(election->run());
  election_ = std::move(election);
}

void SimProxy::take_settings(Duration most) {
  takes_settings_ = true;
  map_.have_followed([this, most](const node::ClusterSettings& settings) {
    asked_ = settings;
    clock_.post(clock_.now() + random_.between(Duration::zero(), most), [this, settings] {
      if (!(settings == asked_)) return;
      taken_ = settings;
      map_.follows(settings);
    });
  });
}

void SimProxy::start_decider(const DeciderSettings& settings) {
  forced_ = settings.force_epoch;
  decider_ = std::make_shared<Decider>(control_.ops, settings, *election_, last_decider_);
  know_proxies();
  flows_.spawn(run_decider());
}

void SimProxy::follow_by(const DeciderSettings& settings, bool may_decide) {
  follows_by_ = settings;
  may_decide_ = may_decide;
  // Not at once: it may be one that decides.
  clock_.post(clock_.now(), [this] {
    if (!decider_) flows_.spawn(run_follower());
  });
}

void SimProxy::correspond(Duration period) {
  const auto card = [this] {
    ProxyCard card;
    card.name = std::to_string(id_);
    card.runs_jobs = runner_.has_value();
    card.capabilities = build();
    card.unix_ms = static_cast<int64_t>(clock_.unix_ms());
    card.decides_as = decides_as();
    if (card.decides_as != 0) {
      card.findings = decider_->status();
      card.handover = decider_->handover();
    }
    return card;
  };
  letters_.emplace(
      control_.ops, static_cast<uint64_t>(id_) + 1, period, jobs_, card,
      [this] { return decides_as(); },
      [this](DeciderTask task, TimePoint deadline) { return perform(std::move(task), deadline); });
  last_decider_.expiry_clock().consult([this] { return letters_->clocks(); });
  flows_.spawn(letters_->run());
  know_proxies();
  if (runner_) {
    keeper_.emplace(control_.ops, jobs_, *letters_,
                    JobKeeper::Proxy{.decides_as = [this] { return decides_as(); },
                                     .has_majority_since =
                                         [this](TimePoint since) {
                                           return decides_as() != 0 &&
                                                  decider_->has_majority_since(since);
                                         },
                                     .ends = [] { return false; }});
    keeper_->have_run(runner_->interface());
    flows_.spawn(keeper_->run());
  }
  flows_.spawn(look_at_deciders());
}

void SimProxy::know_proxies() {
  if (decider_ && letters_) decider_->know_proxies([this] { return letters_->others_have(); });
}

Task<void> SimProxy::look_at_deciders() {
  do {
    if (decides_as() == 0) look_at_decider();
    work_.divide(letters_->work_share());
  } while (co_await clock_.sleep_for(kLookEvery));
}

void SimProxy::look_at_decider() {
  const MapPtr map = map_.current();
  if (!letters_) return;
  last_decider_.look(map, map == nullptr ? nullptr : letters_->find_decider(map->epoch.decider));
}

uint32_t SimProxy::decides_as() const {
  return decider_ && !decider_ended_ && !decider_->is_over() ? decider_->id() : 0;
}

Task<DeciderAnswer> SimProxy::perform(DeciderTask task, TimePoint deadline) {
  if (decides_as() == 0) co_return fail(ErrorCode::kUnavailable, "not here");
  if (keeper_) {
    if (auto* start = std::get_if<StartJob>(&task)) {
      co_return co_await keeper_->start(std::move(*start), deadline);
    }
    if (const auto* cancel = std::get_if<CancelJob>(&task)) {
      co_return co_await keeper_->cancel(*cancel, deadline);
    }
  }
  if (std::holds_alternative<AcceptLoss>(task)) {
    const auto accepted = co_await decider_->accept_loss(deadline);
    if (!accepted) co_return fail(accepted.error());
    co_return TaskOutcome{.loss = *accepted};
  }
  Result<void> done = fail(ErrorCode::kUnavailable, "not here");
  if (const auto* flush = std::get_if<FlushAll>(&task)) {
    done = co_await decider_->flush_all(flush->at, deadline);
  } else if (auto* settings = std::get_if<SettingsChange>(&task)) {
    done = co_await decider_->change_settings(std::move(*settings), deadline);
  } else if (auto* members = std::get_if<MemberChange>(&task)) {
    done = co_await decider_->change_members(std::move(*members), deadline);
  }
  if (!done) co_return fail(done.error());
  co_return TaskOutcome{};
}

void SimProxy::do_task(DeciderTask task, std::function<void(DeciderAnswer)> done) {
  clock_.post(clock_.now(), [this, task = std::move(task), done = std::move(done)] {
    flows_.spawn(run_task(task, done));
  });
}

Task<void> SimProxy::run_task(DeciderTask task, std::function<void(DeciderAnswer)> done) {
  const TimePoint deadline = fresh_deadline(control_.ops);
  DeciderAnswer answer;
  if (keeper_ && is_of_jobs(task)) {
    answer = co_await keeper_->ask(std::move(task), deadline);
  } else if (letters_) {
    answer = co_await letters_->do_task(std::move(task), deadline);
  } else {
    answer = co_await perform(std::move(task), deadline);
  }
  if (is_alive()) done(std::move(answer));
}

void SimProxy::start_recycler(const jobs::RecyclerSettings& settings) {
  recycler_.emplace(data_.ops, settings, &work_);
  flows_.spawn(recycler_->run());
}

void SimProxy::start_repairer(const jobs::RepairSettings& settings) {
  repairer_.emplace(data_.ops, settings);
  flows_.spawn(repairer_->run());
}

Task<void> SimProxy::run_decider() {
  co_await decider_->run();
  end_decider();
  if (follows_by_) co_await run_follower();
}

void SimProxy::end_decider() {
  decider_ended_ = true;
  if (keeper_) keeper_->leave();
  flows_.spawn(join_ended(decider_));
}

// Where nobody decides it does, or the supervisor starts somebody who does.
Task<void> SimProxy::run_follower() {
  for (bool starts = !decider_; is_alive(); starts = false) {
    follower_ = std::make_shared<Follower>(control_.ops, *follows_by_, *election_, starts);
    const bool is_alone = co_await follower_->run();
    flows_.spawn(join_ended(follower_));
    if (!is_alone) co_return;
    if (!may_decide_) continue;
    look_at_decider();
    DeciderSettings settings = *follows_by_;
    settings.gives_way = settings.hands_over = true;
    settings.silent = follower_->silent();
    if (begins_) begins_();
    decider_ = std::make_shared<Decider>(control_.ops, settings, *election_, last_decider_);
    know_proxies();
    decider_ended_ = false;
    co_await decider_->run();
    end_decider();
  }
}

void SimProxy::kill() {
  data_.nodes.close();
  control_.nodes.close();
  clock_.cancel();
  data_.nodes.cancel_calls();
  control_.nodes.cancel_calls();
  if (etcd_) etcd_->cancel_calls();
}

bool SimProxy::is_quiet() const {
  return flows_.live() == 0 && data_.background.live() == 0 && control_.background.live() == 0;
}

OpsCounters SimProxy::counters() const {
  OpsCounters sum = data_.ops.counters;
  add_counters(sum, control_.ops.counters);
  return sum;
}

}  // namespace elastripe::sim
