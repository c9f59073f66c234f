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
#include "proxy/session/server_stats.h"

namespace elastripe {

// Made before the threads start, outlives them, and is safe to share.
struct ProxyShared {
  ProxyShared(Config config_in, std::unique_ptr<Credentials> credentials_in,
              std::vector<NodeAddress> addresses_in, std::shared_ptr<Resolver> resolver_in,
              uint32_t threads_in);

  const Config config;
  const std::unique_ptr<Credentials> credentials;
  const std::vector<NodeAddress> addresses;  // of the configured nodes
  const std::shared_ptr<Resolver> resolver;
  const uint32_t threads;
  const std::string proxy_id;  // of this process: hexadecimal, random
  const PoolTable pools;
  MetricRegistry registry;
  MapView map;
  ServerStats stats;
  std::atomic<bool> shuts_down = false;
};

// Belongs to one thread; made and destroyed while its loop does not run.
class FlowEnvironment {
 public:
  // Whatever `read_bytes` is, the largest object can be read.
  FlowEnvironment(ProxyShared& shared, uint64_t staged_bytes, uint64_t cache_bytes,
                  uint64_t read_bytes = 0);

  Loop& loop() { return loop_; }
  Clock& clock() { return clock_; }
  OpsContext& ops() { return ops_; }

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
  RecordCache cache_;
  KeyLocks locks_;
  Scope background_;
  OpsContext ops_;
};

}  // namespace elastripe
