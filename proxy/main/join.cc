#include "proxy/main/join.h"

#include <algorithm>
#include <random>
#include <sstream>

#include "proxy/async/scope.h"
#include "proxy/io/loop_clock.h"
#include "proxy/io/system_random.h"
#include "proxy/io/tcp_node_client.h"
#include "proxy/main/cluster_config.h"
#include "proxy/ops/decider/etcd_election.h"

namespace elastripe {
namespace {

constexpr Duration kPatience = std::chrono::seconds(2);
constexpr size_t kAskedAtOnce = 3;  // of the nodes that etcd names; then it is asked again

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

Task<void> look_up(Loop& loop, etcd::EtcdClient& etcd, std::string key, Clock& clock,
                   Result<etcd::Found>& found) {
  found = co_await etcd.find(std::move(key), clock.now() + kPatience);
  loop.stop();
}

// Lines "NAME HOST:PORT ..." (proxy/ops/decider/etcd_election.h).
Result<std::vector<Endpoint>> nodes_in_etcd(const Config& config) {
  const std::string key = etcd_prefix(config) + std::string(decider::kEtcdMembers);
  Loop loop;
  LoopClock clock(loop);
  HttpEtcd etcd(loop, config.etcd.client);
  Result<etcd::Found> found = fail(ErrorCode::kUnavailable, "it was not asked");
  Scope scope;
  scope.spawn(look_up(loop, etcd, key, clock, found));
  loop.run();
  if (!found) return fail(found.error());
  const auto pair = std::ranges::find(found->pairs, key, &etcd::KeyValue::key);
  if (pair == found->pairs.end()) {
    return fail(ErrorCode::kUnavailable, "etcd has no key {}: no cluster of that name was formed",
                key);
  }
  std::vector<Endpoint> nodes;
  std::istringstream lines(pair->value);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, address;
    words >> name >> address;
    if (const auto at = parse_endpoint(address)) nodes.push_back(*at);
  }
  std::ranges::shuffle(nodes, std::minstd_rand(std::random_device()()));
  if (nodes.size() > kAskedAtOnce) nodes.resize(kAskedAtOnce);
  return nodes;
}

Result<std::vector<Endpoint>> nodes_to_ask(const Config& config) {
  if (config.join.empty()) return nodes_in_etcd(config);
  const auto at = parse_endpoint(config.join);
  if (!at) return fail(ErrorCode::kInvalid, "join: is '{}', must be host:port", config.join);
  return std::vector{*at};
}

}  // namespace

Result<Config> join_cluster(const Config& config, const Credentials& credentials) {
  const auto places = nodes_to_ask(config);
  if (!places) return fail(places.error());
  Result<node::ClusterMap> map = fail(ErrorCode::kUnavailable, "there is no node to ask");
  for (const Endpoint& at : *places) {
    map = ask_for_map(at, credentials.nodes(config));
    if (map && map->settings.version == 0) {
      map = fail(ErrorCode::kUnavailable,
                 "the cluster has no settings of its own until all its nodes know of such");
    }
    if (map) break;
    map = fail(map.error().code, "join: {}: {}", to_string(at), map.error().message);
  }
  if (!map) return fail(map.error());
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
