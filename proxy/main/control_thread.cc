#include "proxy/main/control_thread.h"

#include "proxy/base/log.h"
#include "proxy/ops/attempt.h"

namespace elastripe {
namespace {

constexpr FlowMemory kMemory{.staged = 16 << 20, .cache = 1 << 20};
constexpr Duration kStoredPeriod = std::chrono::seconds(1);  // as clients see it

decider::DeciderSettings decider_settings(const Config& config) {
  decider::DeciderSettings settings = config.decider;
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
      decider_(environment_.ops(), decider_settings(shared.config)),
      cluster_metrics_(shared.registry),
      ops_metrics_(shared.registry) {}

void ControlThread::start() {
  flows_.spawn(run_decider());
  flows_.spawn(publish_stored());
  thread_ = std::thread([this] { environment_.loop().run(); });
}

void ControlThread::change_settings(ConfigPtr config, std::function<void()> done) {
  environment_.loop().post([this, config = std::move(config), done = std::move(done)] {
    environment_.change_settings(*config, kMemory);
    done();
  });
}

void ControlThread::flush_all(uint32_t at, std::function<void(Result<void>)> done) {
  environment_.loop().post(
      [this, at, done = std::move(done)] { flows_.spawn(run_flush(at, done)); });
}

Task<void> ControlThread::run_flush(uint32_t at, std::function<void(Result<void>)> done) {
  done(co_await decider_.flush_all(at, fresh_deadline(environment_.ops())));
}

void ControlThread::accept_loss(std::function<void(Result<decider::AcceptedLoss>)> done) {
  environment_.loop().post([this, done = std::move(done)] { done(decider_.accept_loss()); });
}

void ControlThread::declare_dead(std::string node, std::function<void(Result<void>)> done) {
  environment_.loop().post([this, node = std::move(node), done = std::move(done)] {
    done(decider_.declare_dead(node));
  });
}

void ControlThread::change_members(MemberChange change, std::function<void(Result<void>)> done) {
  environment_.loop().post([this, change = std::move(change), done = std::move(done)] {
    done(decider_.change_members(change));
  });
}

void ControlThread::survey_again() {
  environment_.loop().post([this] { decider_.survey_again(); });
}

void ControlThread::tell_status(std::function<void(decider::ClusterStatus)> done) {
  environment_.loop().post([this, done = std::move(done)] {
    decider::ClusterStatus status = decider_.status();
    cluster_metrics_.refresh(status);
    ops_metrics_.publish(environment_.ops().counters);
    done(std::move(status));
  });
}

void ControlThread::join() {
  if (thread_.joinable()) thread_.join();
}

Task<void> ControlThread::run_decider() {
  co_await decider_.run();
  if (shutting_down_) co_return;
  // Deposed: another proxy decides now. This one serves nothing more; its admin interface stays up
  // to say so.
  log_error("this proxy is deposed and serves nothing: {}", shared_.map.reason());
}

// While nothing is served, what was stored last.
Task<void> ControlThread::publish_stored() {
  Clock& clock = environment_.clock();
  do {
    const MapPtr map = shared_.map.current();
    if (map == nullptr) continue;
    stored_.store(std::make_shared<const StoredItems>(stored_items(decider_.status(), *map)));
  } while (co_await clock.sleep_until(clock.now() + kStoredPeriod));
}

void ControlThread::begin_shutdown() {
  environment_.loop().post([this] { shut_down(); });
}

void ControlThread::shut_down() {
  shutting_down_ = true;
  environment_.cancel_all();
  ending_.spawn(finish());
}

Task<void> ControlThread::finish() {
  co_await flows_.join();
  co_await environment_.join_background();
  environment_.loop().stop();
}

}  // namespace elastripe
