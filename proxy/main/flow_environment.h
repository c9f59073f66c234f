// FlowEnvironment: everything flows of one thread work with: its loop, clock, channels, caches.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "proxy/io/loop_clock.h"
#include "proxy/io/system_random.h"
#include "proxy/io/tcp_node_client.h"
#include "proxy/main/config.h"
#include "proxy/main/credentials.h"
#include "proxy/ops/context.h"
#include "proxy/ops/jobs/job_book.h"
#include "proxy/ops/jobs/work_share.h"
#include "proxy/session/server_stats.h"

namespace elastripe {

using ConfigPtr = std::shared_ptr<const Config>;

// Made before the threads start, outlives them, and is safe to share.
struct ProxyShared {
  ProxyShared(Config config_in, std::unique_ptr<Credentials> credentials_in,
              std::vector<NodeAddress> addresses_in, std::shared_ptr<Resolver> resolver_in,
              uint32_t threads_in);

  const Config config;  // that the proxy started with; what has changed since, threads are told
  const std::unique_ptr<Credentials> credentials;
  const std::vector<NodeAddress> addresses;  // of the configured nodes
  const std::shared_ptr<Resolver> resolver;
  const uint32_t threads;
  const std::string proxy_id;  // of this process: hexadecimal, random
  // As other proxies and people are told where it is.
  std::string clients_address;
  std::string admin_address;
  MetricRegistry registry;
  MapView map;
  jobs::JobBook jobs;
  jobs::SharedWork work;  // of this proxy, where all have a part of it
  ServerStats stats;
  std::atomic<bool> shuts_down = false;
};

// What the flows of one thread may hold, in bytes. Whatever it says, there is room for the largest
// part of a value.
struct FlowMemory {
  uint64_t staged = 0;
  uint64_t cache = 0;
  uint64_t read = 0;
};

// Belongs to one thread; made and destroyed while its loop does not run.
class FlowEnvironment {
 public:
  FlowEnvironment(ProxyShared& shared, const FlowMemory& memory);

  Loop& loop() { return loop_; }
  Clock& clock() { return clock_; }
  const Clock& clock() const { return clock_; }
  OpsContext& ops() { return ops_; }

  // What flows do from now on follows `config`, and what they hold `memory`. Loop thread.
  void change_settings(const Config& config, const FlowMemory& memory);
  // Ends every wait of every flow as cancelled, now and from now on. Loop thread.
  void cancel_all();
  // Ends when the background flows have.
  Task<void> join_background() { return background_.join(); }

 private:
  Loop loop_;
  LoopClock clock_;
  SystemRandom random_;
  MemoryBudgets memory_;  // outlives the buffers of the channels
  IdSource ids_;
  TcpNodeClient nodes_;
  PoolTable pools_;
  RecordCache cache_;
  KeyLocks locks_;
  Scope background_;
  OpsContext ops_;
};

}  // namespace elastripe
