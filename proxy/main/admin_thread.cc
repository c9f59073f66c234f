#include "proxy/main/admin_thread.h"

#include "proxy/main/cluster_config.h"
#include "proxy/main/elsewhere.h"

namespace elastripe {
namespace {
constexpr FlowMemory kMemory{.staged = 16 << 20, .cache = 1 << 20};
}  // namespace

AdminThread::AdminThread(ProxyShared& shared, ControlThread& control,
                         MaintenanceThread& maintenance, Fd socket)
    : shared_(shared),
      control_(control),
      maintenance_(maintenance),
      environment_(shared, kMemory),
      server_(environment_.loop(), std::move(socket), shared.registry, sources()),
      config_(std::make_shared<const Config>(shared.config)) {}

AdminSources AdminThread::sources() {
  return {.cluster = [this] { return cluster(); },
          .map = [this] { return shared_.map.current(); },
          .not_serving =
              [this] {
                if (shared_.shuts_down) return std::string("shutting down");
                return shared_.map.current() == nullptr ? shared_.map.reason() : std::string();
              },
          .inspect =
              [this](std::string key, size_t first, size_t most) {
                OpsContext& ops = environment_.ops();
                return objects::inspect_object(ops, std::move(key),
                                               ops.clock.now() + ops.settings.request_timeout,
                                               first, most);
              },
          .scrub = [this](std::string key) { return scrub(std::move(key)); },
          .accept_loss = [this] { return accept_loss(); },
          .declare_dead =
              [this](std::string node) { return have_done(decider::DeclareDead{std::move(node)}); },
          .change_members = [this](MemberChange change) { return have_done(std::move(change)); },
          .change_settings =
              [this](SettingsOrder order) { return change_cluster_settings(std::move(order)); },
          .start_job =
              [this](std::string kind, std::string order) {
                return do_job_task(decider::StartJob{environment_.ops().random.next(),
                                                     std::move(kind), std::move(order)});
              },
          .jobs = [this] { return shared_.jobs.all(); },
          .cancel_job =
              [this](uint64_t id, std::string kind) {
                return do_job_task(decider::CancelJob{id, std::move(kind)});
              },
          .repair = [this] { return maintenance_.repair(); },
          .background_scrub = [this] { return maintenance_.background_scrub(); },
          .version = shared_.stats.version,
          .proxy_id = shared_.proxy_id,
          .host = shared_.config.admin.host,
          .is_network_trusted = shared_.config.insecure || shared_.config.tls.nodes};
}

Task<decider::ClusterStatus> AdminThread::cluster() {
  auto status = co_await Elsewhere<decider::ClusterStatus>(
      environment_.loop(), [this](auto done) { control_.tell_status(std::move(done)); });
  if (status.state == "serving" && shared_.map.current() == nullptr) {
    status.state = "waiting";
    status.reason = shared_.map.reason();
  }
  if (shared_.shuts_down) status.state = "stopping";
  co_return status;
}

Task<Result<jobs::ScrubReport>> AdminThread::scrub(std::string key) {
  using Outcome = Result<jobs::ScrubReport>;
  co_return co_await Elsewhere<Outcome>(environment_.loop(), [&](auto done) {
    const auto started = maintenance_.scrub(std::move(key), done);
    if (!started) done(fail(started.error()));
  });
}

Task<decider::DeciderAnswer> AdminThread::ask_decider(decider::DeciderTask task) {
  co_return co_await Elsewhere<decider::DeciderAnswer>(
      environment_.loop(), [&](auto done) { control_.do_task(std::move(task), std::move(done)); });
}

Task<Result<decider::AcceptedLoss>> AdminThread::accept_loss() {
  const auto accepted = co_await ask_decider(decider::AcceptLoss{});
  if (!accepted) co_return fail(accepted.error());
  co_return accepted->loss;
}

// Whoever asks for it next finds it here, though this proxy only hears of it each second.
Task<Result<jobs::ClusterJob>> AdminThread::do_job_task(decider::DeciderTask task) {
  auto done = co_await ask_decider(std::move(task));
  if (!done) co_return fail(done.error());
  if (!done->job) {
    co_return fail(ErrorCode::kUnknownOutcome, "the proxy that decides tells of no job");
  }
  shared_.jobs.note(*done->job);
  co_return std::move(*done->job);
}

Task<Result<uint32_t>> AdminThread::change_cluster_settings(SettingsOrder order) {
  const MapPtr map = shared_.map.current();
  if (map == nullptr) co_return fail(ErrorCode::kUnavailable, "{}", shared_.map.reason());
  auto change = change_cluster(*config_, *map, order.settings, order.is_recycled);
  if (!change) co_return fail(change.error());
  if (order.of_version && *order.of_version != change->of_version) {
    co_return fail(ErrorCode::kConflict, "the settings are of version {} by now, not of {}",
                   change->of_version, *order.of_version);
  }
  // Whether that changes anything, who decides knows.
  const bool is_same = change->settings.text == map->settings.text;
  const uint32_t version = is_same ? change->of_version : change->settings.version;
  const auto done = co_await have_done(std::move(*change));
  if (!done) co_return fail(done.error());
  co_return version;
}

Task<Result<void>> AdminThread::have_done(decider::DeciderTask task) {
  const auto done = co_await ask_decider(std::move(task));
  if (!done) co_return fail(done.error());
  co_return Result<void>{};
}

void AdminThread::start() {
  thread_ = std::thread([this] { environment_.loop().run(); });
}

void AdminThread::change_settings(ConfigPtr config, std::function<void()> done) {
  environment_.loop().post([this, config = std::move(config), done = std::move(done)] {
    environment_.change_settings(*config, kMemory);
    config_ = config;
    done();
  });
}

void AdminThread::begin_shutdown() {
  environment_.loop().post([this] {
    environment_.cancel_all();
    ending_.spawn(finish());
  });
}

void AdminThread::join() {
  if (thread_.joinable()) thread_.join();
}

Task<void> AdminThread::finish() {
  co_await server_.join();
  co_await environment_.join_background();
  environment_.loop().stop();
}

}  // namespace elastripe
