#include "proxy/main/join.h"

#include "proxy/async/scope.h"
#include "proxy/io/loop_clock.h"
#include "proxy/io/system_random.h"
#include "proxy/io/tcp_node_client.h"
#include "proxy/main/cluster_config.h"

namespace elastripe {
namespace {

constexpr Duration kPatience = std::chrono::seconds(2);

Result<node::ClusterMap> map_in(const Result<NodeReply>& reply) {
  if (!reply) return fail(reply.error());
  if (reply->status() != node::Status::kOk || reply->payload().empty()) {
    return fail(ErrorCode::kUnavailable, "it has no cluster map");
  }
  auto map = node::decode_map(reply->payload());
  if (!map) return fail(ErrorCode::kUnavailable, "{}", map.error());
  return std::move(*map);
}

Task<void> greet(Loop& loop, TcpNodeClient& nodes, Clock& clock, Result<node::ClusterMap>& map) {
  map = map_in(
      co_await nodes.call(0, Stamp{}, make_request(node::HelloRequest{}), clock.now() + kPatience));
  loop.stop();
}

Result<node::ClusterMap> ask_for_map(const Endpoint& at, const Published<TlsContext>* tls) {
  auto addresses = resolve_all(at.host, at.port);
  if (!addresses) return fail(addresses.error());
  Loop loop;
  LoopClock clock(loop);
  SystemRandom random;
  MetricRegistry registry;
  const std::vector<NodeAddress> node = {{.name = to_string(at),
                                          .addresses = std::move(*addresses),
                                          .host = at.host,
                                          .port = at.port}};
  TcpNodeClient nodes(loop, clock, random, node, registry, {}, tls);
  Result<node::ClusterMap> map = fail(ErrorCode::kUnavailable, "it was not asked");
  Scope scope;
  scope.spawn(greet(loop, nodes, clock, map));
  loop.run();
  return map;
}

}  // namespace

Result<Config> join_cluster(const Config& config, const Credentials& credentials) {
  const auto at = parse_endpoint(config.join);
  if (!at) return fail(ErrorCode::kInvalid, "join: is '{}', must be host:port", config.join);
  const auto map = ask_for_map(*at, credentials.nodes(config));
  if (!map) return fail(ErrorCode::kUnavailable, "join: {}: {}", config.join, map.error().message);
  if (map->settings.version == 0) {
    return fail(ErrorCode::kUnavailable,
                "join: {}: the cluster has no settings of its own until all its nodes know of such",
                config.join);
  }
  Config joined = config;
  joined.decider.partitions = static_cast<uint32_t>(map->partitions.size());
  for (const node::NodeInfo& node : map->nodes) {
    if (!node.is_removed())
      joined.nodes.push_back({node.name, {node.host, node.port}, node.domain});
  }
  const auto followed = with_cluster(joined, map->settings.text);
  if (!followed) return fail(ErrorCode::kUnavailable, "{}", followed.error().message);
  const auto checked = recheck_config(*followed);
  if (!checked) return fail(ErrorCode::kUnavailable, "{}", checked.error().message);
  return joined;
}

void stay_joined(Config& config, const Config& joined) {
  config.nodes = joined.nodes;
  config.decider.partitions = joined.decider.partitions;
}

}  // namespace elastripe
