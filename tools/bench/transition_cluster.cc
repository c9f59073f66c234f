#include "tools/bench/transition_cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <thread>

#include "coding/codec.h"
#include "tools/bench/runner.h"
#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPoll{1};
constexpr milliseconds kLastPoll{100};

std::string scheme_text(const std::string& layout, const Parameters& p) {
  return fmt::format("{}:{},{},{}", layout, p.k, p.m, p.k_prime);
}

}  // namespace

std::string Parameters::text() const { return fmt::format("({},{},{})", k, m, k_prime); }

const char* name_of(Direction direction) {
  return direction == Direction::kForward ? "forward" : "backward";
}

Result<Blocks> planned_blocks(const Parameters& parameters, const std::string& layout,
                              Direction direction, const std::string& execution,
                              bool order_selection) {
  const auto scheme = TRY(coding::parse_scheme(scheme_text(layout, parameters)));
  const auto codec = TRY(coding::codec_for(scheme));
  const bool by_proxy = execution == "proxy";
  const auto plan = TRY(coding::transition_plan(
      *codec, direction, {.min_rule = by_proxy, .order_selection = order_selection}));
  const auto cost = coding::transition_cost(plan, parameters.m);
  const int read = by_proxy ? cost.blocks_read() : cost.data_blocks;
  const int all = by_proxy ? cost.proxy : cost.delta;
  return Blocks{static_cast<uint64_t>(read), static_cast<uint64_t>(all - read)};
}

Result<std::unique_ptr<TransitionCluster>> TransitionCluster::start(const Settings& settings) {
  const Parameters& p = settings.parameters;
  cli::ClusterSettings cluster_settings;
  cluster_settings.nodes = p.nodes();
  cluster_settings.memory_mb = settings.memory_mb;
  cluster_settings.scheme = scheme_text(kLayouts.back(), p);
  // Heartbeats, which are on the network that is counted for as long as a transition takes, are
  // few.
  cluster_settings.set = {"timing.heartbeat_ms=500", "timing.suspect_after_ms=5000",
                          "timing.lease_ms=15000"};
  for (const char* layout : kLayouts) {
    cluster_settings.pools.push_back({prefix_of(layout), scheme_text(layout, p), 0});
  }
  cluster_settings.pools.insert(cluster_settings.pools.end(), settings.more.begin(),
                                settings.more.end());
  auto testbed = TRY(Testbed::create(settings.port));
  const auto cluster = TRY(testbed->start_cluster("elastripe", cluster_settings));
  auto admin = TRY(cluster.admin());
  auto client = TRY(cluster.target.connect());
  return std::unique_ptr<TransitionCluster>(
      new TransitionCluster(p, std::move(testbed), cluster, std::move(admin), std::move(client)));
}

Result<Json> TransitionCluster::transition(const TransitionCall& call) const {
  const bool forward = call.direction == Direction::kForward;
  Json body = {{"to", forward ? parameters_.k_prime : parameters_.k},
               {"execution", call.execution},
               {"order_selection", call.order_selection},
               {"parallel", call.parallel},
               {"rate", call.rate}};
  if (!call.key.empty()) body["key"] = call.key;
  if (!call.prefix.empty()) body["prefix"] = call.prefix;
  const auto started = admin_.post("/v1/transitions", "transition", body.dump());
  if (!started) return cli::fail("starting a transition: {}", started.error());
  const auto id = started->value("id", uint64_t{0});
  // Rarely asked: asking takes from the processor that is being measured.
  for (milliseconds pause = kFirstPoll;; pause = std::min(2 * pause, kLastPoll)) {
    std::this_thread::sleep_for(pause);
    TRY(check_interrupt());
    auto report = admin_.get(fmt::format("/v1/transitions/{}", id));
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

Result<WireBytes> TransitionCluster::wire_bytes() const {
  const auto metrics = TRY(admin_.text("/metrics"));
  auto nodes = TRY(cluster_.sum_of_stats("elastripe"));
  WireBytes bytes{.nodes = (nodes)["bytes_in"] + (nodes)["bytes_out"]};
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("elastripe_node_sent_bytes_total") ||
        line.starts_with("elastripe_node_received_bytes_total")) {
      bytes.proxy += static_cast<uint64_t>(std::stod(line.substr(line.rfind(' '))));
    }
  }
  return bytes;
}

}  // namespace elastripe::bench
