#include "proxy/main/worker.h"

#include "proxy/admin/ops_metrics.h"
#include "proxy/main/elsewhere.h"

namespace elastripe {
namespace {

constexpr Duration kPublishEvery = std::chrono::seconds(1);

constexpr GaugeRow kStagedBytes{"elastripe_staged_bytes",
                                "Bytes of values held in the proxy's memory."};
constexpr GaugeRow kReadBytes{"elastripe_read_bytes",
                              "Bytes of values that are read, in the proxy's memory."};
// for: write, read or decode
constexpr GaugeRow kMemoryWaiters{
    "elastripe_memory_waiters", "Operations that wait for memory for a value.", {"for"}};

FlowMemory memory_of(const Config& config, uint32_t threads) {
  return {.staged = config.staged_bytes / threads,
          .cache = config.record_cache_bytes / threads,
          .read = config.read_bytes / threads};
}

std::chrono::seconds keepalive_of(const Config& config) {
  return std::chrono::ceil<std::chrono::seconds>(config.client_keepalive);
}

}  // namespace

// Copies what the flows of the thread have counted to the metrics.
class Worker::Publisher : private Timer {
 public:
  Publisher(FlowEnvironment& environment, ProxyShared& shared)
      : environment_(environment),
        counters_(shared.registry),
        staged_(shared.registry.cell(kStagedBytes)),
        read_(shared.registry.cell(kReadBytes)),
        writes_waiting_(shared.registry.cell(kMemoryWaiters, {"write"})),
        reads_waiting_(shared.registry.cell(kMemoryWaiters, {"read"})),
        decodes_waiting_(shared.registry.cell(kMemoryWaiters, {"decode"})) {
    on_timer();
  }

 private:
  void on_timer() override {
    counters_.publish(environment_.ops().counters);
    const OpsContext& ops = environment_.ops();
    staged_.set(static_cast<int64_t>(ops.memory.staged.taken()));
    read_.set(
        static_cast<int64_t>(ops.memory.read.early.taken() + ops.memory.read.in_turn.taken()));
    writes_waiting_.set(static_cast<int64_t>(ops.memory.staged.waiting()));
    reads_waiting_.set(static_cast<int64_t>(ops.memory.read.in_turn.waiting()));
    decodes_waiting_.set(static_cast<int64_t>(ops.memory.decoded.waiting()));
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

Worker::Worker(ProxyShared& shared, ControlThread& control, size_t index)
    : shared_(shared),
      control_(control),
      environment_(shared, memory_of(shared.config, shared.threads)),
      ops_(environment_.ops(), [this](uint32_t at) { return flush_all(at); }),
      sessions_(environment_.loop(), ops_, environment_.clock(), shared.stats,
                shared.stats.worker(index), shared.config.sessions),
      publisher_(std::make_unique<Publisher>(environment_, shared)) {}

Worker::~Worker() { cancel(); }

void Worker::start() {
  thread_ = std::thread([this] { environment_.loop().run(); });
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

void Worker::listen(Fd socket, std::function<void(Fd)> accepted) {
  listeners_.push_back(std::make_unique<Listener>(
      environment_.loop(), std::move(socket), keepalive_of(shared_.config), std::move(accepted)));
}

void Worker::change_settings(ConfigPtr config, std::function<void()> done) {
  environment_.loop().post([this, config = std::move(config), done = std::move(done)] {
    environment_.change_settings(*config, memory_of(*config, shared_.threads));
    sessions_.change_settings(config->sessions);
    for (auto& listener : listeners_) listener->set_keepalive(keepalive_of(*config));
    done();
  });
}

void Worker::adopt(Fd socket, const ClientAccess& access) {
  // The job must be copyable, a descriptor's owner is not.
  environment_.loop().post(
      [this, fd = socket.release(), access] { sessions_.adopt(Fd(fd), access); });
}

void Worker::stop_listening(std::function<void()> done) {
  environment_.loop().post([this, done = std::move(done)] {
    listeners_.clear();
    done();
  });
}

void Worker::begin_shutdown(Duration wait) {
  environment_.loop().post([this, wait] { drain(wait); });
}

void Worker::hurry_shutdown() {
  environment_.loop().post([this] { cancel_commands(); });
}

void Worker::drain(Duration wait) {
  environment_.loop().arm(*this, environment_.loop().now() + wait);
  sessions_.drain([this] { sessions_ended(); });
}

void Worker::cancel_commands() {
  environment_.cancel_all();
  sessions_.abort();
}

void Worker::sessions_ended() {
  cancel();
  environment_.cancel_all();
  ending_.spawn(finish());
}

Task<Result<void>> Worker::flush_all(uint32_t at) {
  const auto flushed = co_await Elsewhere<decider::DeciderAnswer>(
      environment_.loop(),
      [&](auto done) { control_.do_task(decider::FlushAll{at}, std::move(done)); });
  if (!flushed) co_return fail(flushed.error());
  co_return Result<void>{};
}

Task<void> Worker::finish() {
  co_await environment_.join_background();
  environment_.loop().stop();
}

}  // namespace elastripe
