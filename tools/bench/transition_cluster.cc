#include "tools/bench/transition_cluster.h"

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>

#include "coding/codec.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPoll{1};
constexpr milliseconds kLastPoll{100};

uint64_t number_of(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

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
  const auto scheme = coding::parse_scheme(scheme_text(layout, parameters));
  if (!scheme) return std::unexpected(scheme.error());
  const auto codec = coding::codec_for(*scheme);
  if (!codec) return std::unexpected(codec.error());
  const bool by_proxy = execution == "proxy";
  const auto plan = coding::transition_plan(
      **codec, direction, {.min_rule = by_proxy, .order_selection = order_selection});
  if (!plan) return std::unexpected(plan.error());
  const auto cost = coding::transition_cost(*plan, parameters.m);
  const int read = by_proxy ? cost.blocks_read() : cost.data_blocks;
  const int all = by_proxy ? cost.proxy : cost.delta;
  return Blocks{static_cast<uint64_t>(read), static_cast<uint64_t>(all - read)};
}

Result<std::unique_ptr<TransitionCluster>> TransitionCluster::start(const Settings& settings) {
  const Parameters& p = settings.parameters;
  cli::ClusterSettings cluster_settings;
  cluster_settings.nodes = p.nodes();
  cluster_settings.port = settings.port;
  cluster_settings.memory_mb = settings.memory_mb;
  cluster_settings.scheme = scheme_text(kLayouts.back(), p);
  // Superseded parities leave soon, so that a long run does not fill the nodes; and heartbeats,
  // which are on the network that is counted for as long as a transition takes, are few.
  cluster_settings.set = {"timing.read_grace_ms=1000", "timing.heartbeat_ms=500",
                          "timing.suspect_after_ms=5000", "timing.lease_ms=15000"};
  for (const char* layout : kLayouts) {
    cluster_settings.pools.push_back({prefix_of(layout), scheme_text(layout, p), 0});
  }
  cluster_settings.pools.insert(cluster_settings.pools.end(), settings.more.begin(),
                                settings.more.end());
  auto cluster = TemporaryCluster::start(cluster_settings);
  if (!cluster) return std::unexpected(cluster.error());
  auto admin = cli::AdminClient::of_server((*cluster)->processes().server());
  if (!admin) return std::unexpected(admin.error());
  return std::unique_ptr<TransitionCluster>(
      new TransitionCluster(p, std::move(*cluster), std::move(*admin)));
}

Result<uint64_t> TransitionCluster::start_transition(const TransitionCall& call) const {
  const bool forward = call.direction == Direction::kForward;
  Json body = {{"to", forward ? parameters_.k_prime : parameters_.k},
               {"execution", call.execution},
               {"order_selection", call.order_selection},
               {"parallel", call.parallel},
               {"rate", call.rate}};
  if (!call.key.empty()) body["key"] = call.key;
  if (!call.prefix.empty()) body["prefix"] = call.prefix;
  const auto report = admin_.post("/v1/transitions", "transition", body.dump());
  if (!report) return cli::fail("starting a transition: {}", report.error());
  return report->value("id", uint64_t{0});
}

bool TransitionCluster::is_running(uint64_t id) const {
  const auto report = admin_.get(fmt::format("/v1/transitions/{}", id));
  return report && report->value("state", "") == "running";
}

Result<Json> TransitionCluster::wait_for(uint64_t id) const {
  // Rarely asked: asking takes from the processor that is being measured.
  for (milliseconds pause = kFirstPoll;; pause = std::min(2 * pause, kLastPoll)) {
    auto report = admin_.get(fmt::format("/v1/transitions/{}", id));
    if (!report) return cli::fail("transition {}: {}", id, report.error());
    if (report->value("state", "") == "running") {
      std::this_thread::sleep_for(pause);
      continue;
    }
    const Json& counts = report->at("counts");
    if (report->value("state", "") != "done" || counts.value("refused", 1) != 0 ||
        counts.value("failed", 1) != 0) {
      return cli::fail("transition {} did not go through: {} {}", id,
                       report->at("reason").get<std::string>(), report->at("problems").dump());
    }
    return report;
  }
}

Result<Json> TransitionCluster::transition(const TransitionCall& call) const {
  const auto id = start_transition(call);
  if (!id) return std::unexpected(id.error());
  return wait_for(*id);
}

Result<WireBytes> TransitionCluster::wire_bytes() const {
  WireBytes bytes;
  const auto text = admin_.text("/metrics");
  if (!text) return std::unexpected(text.error());
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    const std::string_view line(text->data() + at, end - at);
    if (line.starts_with("elastripe_node_sent_bytes_total") ||
        line.starts_with("elastripe_node_received_bytes_total")) {
      bytes.proxy += static_cast<uint64_t>(std::stod(std::string(line.substr(line.rfind(' ')))));
    }
    at = end + 1;
  }
  for (int i = 0; i < parameters_.nodes(); ++i) {
    auto client = connect_to(cluster_->node_port(i));
    if (!client) return std::unexpected(client.error());
    const auto rows = client->stats("elastripe");
    if (!rows) return cli::fail("stats elastripe of n{}: {}", i, rows.error().message);
    for (const auto& [name, value] : *rows) {
      if (name == "bytes_in" || name == "bytes_out") bytes.nodes += number_of(value);
    }
  }
  return bytes;
}

}  // namespace elastripe::bench
