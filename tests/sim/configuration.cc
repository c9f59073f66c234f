#include "tests/sim/configuration.h"

#include "proxy/base/check.h"
#include "tests/sim/run.h"

using namespace elastripe::decider;

namespace elastripe::sim {

using std::chrono::milliseconds;

namespace {

coding::Scheme scheme_of(std::string_view text) {
  const auto scheme = coding::parse_scheme(text);
  CHECK(scheme.has_value(), "{}", scheme.error());
  return *scheme;
}

std::vector<Pool> pools_of(const Scenario& scenario, std::string_view scheme) {
  std::vector<Pool> pools(1);
  pools[0].scheme = scheme_of(scheme);
  pools[0].inline_max_bytes = scenario.cluster.inline_max_bytes;
  pools[0].segment_bytes = scenario.cluster.segment_bytes;
  pools[0].degraded_writes = scenario.cluster.degraded_writes;
  for (const ScenarioPool& more : scenario.cluster.more_pools()) {
    Pool& pool = pools.emplace_back();
    pool.prefix = more.prefix;
    pool.scheme = scheme_of(more.scheme);
    pool.inline_max_bytes = more.inline_max_bytes;
    pool.segment_bytes = more.segment_bytes;
  }
  for (Pool& pool : pools) {
    pool.write_state = scenario.cluster.write_state;
    pool.log_copies = scenario.cluster.log_copies;
    pool.log_rounds = scenario.cluster.log_rounds;
  }
  return pools;
}

OpsSettings ops_settings(const Scenario& scenario) {
  OpsSettings settings;
  settings.request_timeout = kRequestTimeout;
  settings.node_timeout = milliseconds(300);
  settings.read_grace = scenario.cluster.read_grace;
  settings.upload_idle = scenario.cluster.upload_idle;
  settings.tombstone_keep = milliseconds(4000);
  return settings;
}

DeciderSettings decider_settings(const Scenario& scenario, size_t nodes) {
  DeciderSettings settings;
  for (size_t id = 0; id < nodes; ++id) settings.nodes.push_back(node_of_member(scenario, id));
  settings.partitions = scenario.cluster.partitions;
  settings.heartbeat = milliseconds(50);
  settings.suspect_after = milliseconds(400);
  settings.lease = milliseconds(1000);
  // Where the settings are the cluster's, so are the pools, and no restart changes them.
  if (scenario.faults.restarts > 0) {
    settings.capabilities = settings.capabilities.without(
        node::CapabilitySet(uint64_t{1} << static_cast<int>(node::Capability::kSettings)));
  }
  return settings;
}

}  // namespace

std::string domain_of(const Scenario& scenario, size_t node) {
  if (scenario.cluster.domains == 0) return fmt::format("node-{}", node);
  return fmt::format("domain-{}", node % static_cast<size_t>(scenario.cluster.domains));
}

ConfiguredNode node_of_member(const Scenario& scenario, size_t id) {
  return {.name = fmt::format("node-{}", id),
          .host = "127.0.0.1",
          .port = static_cast<uint16_t>(id + 1),
          .domain = domain_of(scenario, id)};
}

Configuration::Configuration(const Scenario& scenario, size_t nodes, std::string_view scheme)
    : pools(pools_of(scenario, scheme)),
      ops(ops_settings(scenario)),
      decider(decider_settings(scenario, nodes)) {}

}  // namespace elastripe::sim
