#include "proxy/main/worker.h"

#include "proxy/admin/ops_metrics.h"
#include "proxy/base/metric_names.h"

namespace elastripe {
namespace {

constexpr Duration kDrain = std::chrono::seconds(5);
constexpr Duration kPublishEvery = std::chrono::seconds(1);
// What an idle or stalled client may hold of the connection's time is the upload's idle limit.
SessionSettings session_settings(const Config& config) {
  SessionSettings settings;
  settings.max_object_bytes = config.max_object_bytes;
  settings.stall_timeout = std::chrono::milliseconds(config.timing.upload_idle_ms);
  settings.idle_timeout = std::chrono::milliseconds(config.timing.client_idle_ms);
  settings.max_connections = config.limits.connections;
  return settings;
}

}  // namespace

// Copies what the flows of the thread have counted to the metrics.
class Worker::Publisher : private Timer {
 public:
  Publisher(FlowEnvironment& environment, ProxyShared& shared)
      : environment_(environment),
        counters_(shared.registry),
        staged_(shared.registry.gauge(metric_names::kStagedBytes)),
        read_(shared.registry.gauge(metric_names::kReadBytes)),
        writes_waiting_(shared.registry.gauge(metric_names::kMemoryWaiters, {{"for", "write"}})),
        reads_waiting_(shared.registry.gauge(metric_names::kMemoryWaiters, {{"for", "read"}})),
        decodes_waiting_(shared.registry.gauge(metric_names::kMemoryWaiters, {{"for", "decode"}})) {
    on_timer();
  }

 private:
  void on_timer() override {
    counters_.publish(environment_.ops().counters);
    const OpsContext& ops = environment_.ops();
    staged_.set(static_cast<int64_t>(ops.staged_bytes.taken()));
    read_.set(static_cast<int64_t>(ops.read_bytes.early.taken() + ops.read_bytes.in_turn.taken()));
    writes_waiting_.set(static_cast<int64_t>(ops.staged_bytes.waiting()));
    reads_waiting_.set(static_cast<int64_t>(ops.read_bytes.in_turn.waiting()));
    decodes_waiting_.set(static_cast<int64_t>(ops.decode_bytes.waiting()));
    environment_.loop().arm(*this, environment_.loop().now() + kPublishEvery);
  }

  FlowEnvironment& environment_;
  OpsMetrics counters_;
  Gauge& staged_;
  Gauge& read_;
  Gauge& writes_waiting_;
  Gauge& reads_waiting_;
  Gauge& decodes_waiting_;
};

Worker::Worker(ProxyShared& shared, size_t index)
    : environment_(shared, shared.config.limits.staged_bytes / shared.threads,
                   shared.config.record_cache_bytes / shared.threads,
                   shared.config.limits.read_bytes / shared.threads),
      ops_(environment_.ops()),
      sessions_(environment_.loop(), ops_, environment_.clock(), shared.stats,
                shared.stats.worker(index), session_settings(shared.config)),
      keepalive_(std::chrono::ceil<std::chrono::seconds>(
          std::chrono::milliseconds(shared.config.timing.client_keepalive_ms))),
      publisher_(std::make_unique<Publisher>(environment_, shared)) {}

Worker::~Worker() { cancel(); }

void Worker::start() {
  thread_ = std::thread([this] { environment_.loop().run(); });
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::listen(Fd socket, std::function<void(Fd)> accepted) {
  listener_ = std::make_unique<Listener>(environment_.loop(), std::move(socket), keepalive_,
                                         std::move(accepted));
}

void Worker::adopt(Fd socket) {
  // The job must be copyable, a descriptor's owner is not.
  environment_.loop().post([this, fd = socket.release()] { sessions_.adopt(Fd(fd)); });
}

void Worker::begin_shutdown() {
  environment_.loop().post([this] { drain(); });
}

void Worker::drain() {
  listener_.reset();
  environment_.loop().arm(*this, environment_.loop().now() + kDrain);
  sessions_.drain([this] { sessions_ended(); });
}

void Worker::on_timer() {
  environment_.cancel_all();
  sessions_.abort();
}

void Worker::sessions_ended() {
  cancel();
  environment_.cancel_all();
  ending_.spawn(finish());
}

Task<void> Worker::finish() {
  co_await environment_.join_background();
  environment_.loop().stop();
}

}  // namespace elastripe
