#include "proxy/main/control_thread.h"

#include <coroutine>
#include <optional>

#include "proxy/base/log.h"

namespace elastripe {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kStagedBytes = 16 << 20;
constexpr uint64_t kCacheBytes = 1 << 20;

DeciderSettings decider_settings(const Config& config) {
  DeciderSettings settings;
  for (const NodeConfig& node : config.nodes) {
    settings.nodes.push_back({node.name, node.address.host, node.address.port, node.domain});
  }
  settings.partitions = config.partitions;
  settings.heartbeat = milliseconds(config.timing.heartbeat_ms);
  settings.suspect_after = milliseconds(config.timing.suspect_after_ms);
  settings.lease = milliseconds(config.timing.lease_ms);
  settings.force_epoch = config.force_epoch;
  settings.refused_is_dead = config.refused_is_dead;
  return settings;
}

std::vector<std::string> node_names(const Config& config) {
  std::vector<std::string> names;
  names.reserve(config.nodes.size());
  for (const NodeConfig& node : config.nodes) names.push_back(node.name);
  return names;
}

// Suspends a flow of one thread until MaintenanceThread has done its part; resumed on `loop`.
struct ScrubElsewhere {
  MaintenanceThread& maintenance;
  Loop& loop;
  std::string key;
  std::optional<Result<ScrubReport>> report = std::nullopt;

  bool await_ready() const { return false; }
  bool await_suspend(std::coroutine_handle<> waiter) {
    const auto started =
        maintenance.scrub(std::move(key), [this, waiter](Result<ScrubReport> done) {
          report.emplace(std::move(done));
          loop.post([waiter] { waiter.resume(); });
        });
    if (!started) report.emplace(fail(started.error()));
    return started.has_value();
  }
  Result<ScrubReport> await_resume() { return std::move(*report); }
};

}  // namespace

ControlThread::ControlThread(ProxyShared& shared, MaintenanceThread& maintenance, Fd admin_socket)
    : shared_(shared),
      maintenance_(maintenance),
      environment_(shared, kStagedBytes, kCacheBytes),
      decider_(environment_.ops(), decider_settings(shared.config)),
      admin_(environment_.loop(), std::move(admin_socket), shared.registry, admin_sources()),
      cluster_metrics_(shared.registry, node_names(shared.config)),
      ops_metrics_(shared.registry) {
  shared.registry.add_collector([this] {
    cluster_metrics_.refresh(decider_.status());
    ops_metrics_.publish(environment_.ops().counters);
  });
}

AdminSources ControlThread::admin_sources() {
  return {
      .cluster = [this] { return decider_.status(); },
      .map = [this] { return shared_.map.current(); },
      .not_serving =
          [this] {
            if (shared_.shuts_down) return std::string("shutting down");
            return shared_.map.current() == nullptr ? shared_.map.reason() : std::string();
          },
      .inspect =
          [this](std::string key) {
            OpsContext& ops = environment_.ops();
            return inspect_object(ops, std::move(key),
                                  ops.clock.now() + ops.settings.request_timeout);
          },
      .scrub = [this](std::string key) { return scrub(std::move(key)); },
      .accept_loss = [this] { return decider_.accept_loss(); },
      .declare_dead = [this](const std::string& node) { return decider_.declare_dead(node); },
      .start_transition =
          [this](TransitionJobSpec spec) { return maintenance_.start_transition(std::move(spec)); },
      .transitions = [this] { return maintenance_.transitions(); },
      .cancel_transition = [this](uint64_t id) { return maintenance_.cancel_transition(id); },
      .version = shared_.stats.version,
      .proxy_id = shared_.proxy_id,
      .host = shared_.config.admin.host};
}

Task<Result<ScrubReport>> ControlThread::scrub(std::string key) {
  co_return co_await ScrubElsewhere{maintenance_, environment_.loop(), std::move(key)};
}

void ControlThread::start() {
  flows_.spawn(run_decider());
  thread_ = std::thread([this] { environment_.loop().run(); });
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
  co_await admin_.join();
  co_await environment_.join_background();
  environment_.loop().stop();
}

}  // namespace elastripe
