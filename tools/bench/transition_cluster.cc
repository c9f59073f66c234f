#include "tools/bench/transition_cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "coding/codec.h"
#include "tools/bench/object_bytes.h"
#include "tools/bench/runner.h"
#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPoll{1};
constexpr milliseconds kLastPoll{100};

}  // namespace

std::string Parameters::text() const { return fmt::format("({},{},{})", k, m, k_prime); }

std::string Parameters::scheme(const std::string& layout) const {
  return fmt::format("{}:{},{},{}", layout, k, m, k_prime);
}

const char* name_of(Direction direction) {
  return direction == Direction::kForward ? "forward" : "backward";
}

Result<Blocks> planned_blocks(const Parameters& parameters, const std::string& layout,
                              const TransitionCall& call) {
  const auto scheme = TRY(coding::parse_scheme(parameters.scheme(layout)));
  const auto codec = TRY(coding::codec_for(scheme));
  const bool by_proxy = call.execution == "proxy";
  const auto plan = TRY(coding::transition_plan(
      *codec, call.direction, {.min_rule = by_proxy, .order_selection = call.order_selection}));
  const auto cost = coding::transition_cost(plan, parameters.m);
  const int read = by_proxy ? cost.blocks_read() : cost.data_blocks;
  const int all = by_proxy ? cost.proxy : cost.delta;
  return Blocks{static_cast<uint64_t>(read), static_cast<uint64_t>(all - read)};
}

Result<TransitionCluster> TransitionCluster::start(const Parameters& parameters, int port,
                                                   int memory_mb,
                                                   const std::vector<cli::PoolSettings>& more) {
  // Heartbeats, which are on the network that is counted for as long as a transition takes, are
  // few.
  cli::ClusterSettings settings{
      .nodes = parameters.k_prime + parameters.m,
      .scheme = parameters.scheme(kLayouts.back()),
      .pools = more,
      .memory_mb = memory_mb,
      .set = {"timing.heartbeat_ms=500", "timing.suspect_after_ms=5000", "timing.lease_ms=15000"}};
  for (const std::string layout : kLayouts) {
    settings.pools.push_back({layout + "/", parameters.scheme(layout), 0});
  }
  auto testbed = TRY(Testbed::create(port));
  auto cluster = TRY(testbed->start_cluster("elastripe", settings));
  auto admin = TRY(cluster.admin());
  auto client = TRY(cluster.target.connect());
  return TransitionCluster{parameters, std::move(testbed), std::move(cluster), std::move(admin),
                           std::move(client)};
}

Result<> TransitionCluster::put(const std::string& prefix, int objects, size_t bytes) const {
  const std::string object = make_object(bytes, 1);
  for (int i = 0; i < objects; ++i) {
    TRY(check_interrupt());
    TRY(client->put(fmt::format("{}{}", prefix, i), object));
  }
  return {};
}

Result<Json> TransitionCluster::transition(const TransitionCall& call) const {
  const bool forward = call.direction == Direction::kForward;
  Json body = {{"to", forward ? parameters.k_prime : parameters.k},
               {"execution", call.execution},
               {"order_selection", call.order_selection},
               {"parallel", call.parallel},
               {"rate", call.rate}};
  if (!call.key.empty()) body["key"] = call.key;
  if (!call.prefix.empty()) body["prefix"] = call.prefix;
  const auto started = admin.post("/v1/transitions", "transition", body.dump());
  if (!started) return cli::fail("starting a transition: {}", started.error());
  const auto id = started->value("id", uint64_t{0});
  // Rarely asked: asking takes from the processor that is being measured.
  for (milliseconds pause = kFirstPoll;; pause = std::min(2 * pause, kLastPoll)) {
    std::this_thread::sleep_for(pause);
    TRY(check_interrupt());
    auto report = admin.get(fmt::format("/v1/transitions/{}", id));
    if (!report) return cli::fail("transition {}: {}", id, report.error());
    if (report->value("state", "") == "running") continue;
    const Json& counts = report->at("counts");
    if (report->value("state", "") != "done" || counts.value("refused", 1) != 0 ||
        counts.value("failed", 1) != 0) {
      return cli::fail("transition {} did not go through: {} {}", id,
                       report->at("reason").get<std::string>(), report->at("problems").dump());
    }
    return report;
  }
}

Result<Json> TransitionCluster::wire_bytes() const {
  uint64_t of_proxy = 0;
  std::istringstream metrics(TRY(admin.text("/metrics")));
  for (std::string line; std::getline(metrics, line);) {
    if (line.starts_with("elastripe_node_sent_bytes_total") ||
        line.starts_with("elastripe_node_received_bytes_total")) {
      of_proxy += static_cast<uint64_t>(std::stod(line.substr(line.rfind(' '))));
    }
  }
  auto nodes = TRY(cluster.sum_of_stats("elastripe"));
  return Json{{"proxy_wire_bytes", of_proxy},
              {"node_wire_bytes", nodes["bytes_in"] + nodes["bytes_out"]}};
}

}  // namespace elastripe::bench
