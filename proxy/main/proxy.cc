#include "proxy/main/proxy.h"

#include <fmt/core.h>

#include <algorithm>

#include "proxy/base/log.h"

namespace elastripe {
namespace {

uint32_t thread_count(const Config& config) {
  return config.threads > 0 ? config.threads : std::max(1u, std::thread::hardware_concurrency());
}

// A name that says nothing now may do so later: the name of a machine that is away, for example.
Result<std::vector<NodeAddress>> resolve_nodes(const Config& config,
                                               const std::shared_ptr<Resolver>& resolver) {
  std::vector<NodeAddress> addresses;
  for (const NodeConfig& node : config.nodes) {
    const Endpoint& where = node.address;
    auto found = resolve_all(where.host, where.port);
    if (is_numeric(where.host)) {
      if (!found) return fail(found.error().code, "node {}: {}", node.name, found.error().message);
      addresses.push_back({.name = node.name,
                           .addresses = std::move(*found),
                           .host = where.host,
                           .port = where.port});
      continue;
    }
    if (!found) log_warning("node {}: {}: trying again", node.name, found.error().message);
    addresses.push_back({.name = node.name,
                         .addresses = found ? std::move(*found) : std::vector<SocketAddress>{},
                         .resolver = resolver,
                         .host = where.host,
                         .port = where.port});
  }
  return addresses;
}

// Without SO_REUSEPORT: a second proxy on the same port must fail, not share its clients.
Result<Fd> bind_to(const Endpoint& endpoint, const char* setting) {
  auto address = resolve(endpoint.host, endpoint.port);
  if (!address) return fail(address.error().code, "{}: {}", setting, address.error().message);
  auto socket = listen_on(*address, false);
  if (!socket) {
    return fail(socket.error().code, "{}: can not listen on {}: {}", setting, to_string(endpoint),
                socket.error().message);
  }
  return socket;
}

}  // namespace

Result<std::unique_ptr<Proxy>> Proxy::create(Config config) {
  auto resolver = std::make_shared<Resolver>();
  auto addresses = resolve_nodes(config, resolver);
  if (!addresses) return fail(addresses.error());
  auto client = bind_to(config.listen, "listen");
  if (!client) return fail(client.error());
  auto admin = bind_to(config.admin, "admin");
  if (!admin) return fail(admin.error());
  return std::unique_ptr<Proxy>(new Proxy(std::move(config), std::move(*addresses),
                                          std::move(resolver), std::move(*client),
                                          std::move(*admin)));
}

Proxy::Proxy(Config config, std::vector<NodeAddress> addresses, std::shared_ptr<Resolver> resolver,
             Fd client_socket, Fd admin_socket)
    : client_port_(port_of(client_socket)),
      admin_port_(port_of(admin_socket)),
      shared_(config, std::move(addresses), std::move(resolver), thread_count(config)),
      maintenance_(shared_, [this] { control_.survey_again(); }),
      control_(shared_),
      admin_(shared_, control_, maintenance_, std::move(admin_socket)) {
  describe();
  for (size_t i = 0; i < shared_.threads; ++i) {
    workers_.push_back(std::make_unique<Worker>(shared_, control_, i));
  }
  workers_.front()->listen(std::move(client_socket), [this](Fd client) {
    workers_[next_worker_++ % workers_.size()]->adopt(std::move(client));
  });
}

Proxy::~Proxy() = default;

// What `stats settings` and `stats elastripe` tell.
void Proxy::describe() {
  const Config& config = shared_.config;
  StatPairs settings = {
      {"maxconns", std::to_string(config.sessions.max_connections)},
      {"tcpport", std::to_string(client_port_)},
      {"udpport", "0"},
      {"inter", config.listen.host},
      {"verbosity", "0"},
      {"evictions", "off"},
      {"domain_socket", "NULL"},
      {"shutdown_command", "no"},
      {"num_threads", std::to_string(shared_.threads)},
      {"num_threads_per_udp", "0"},
      {"detail_enabled", "no"},
      {"cas_enabled", "yes"},
      {"tcp_backlog", std::to_string(kListenBacklog)},
      {"binding_protocol", "ascii"},
      {"auth_enabled_sasl", "no"},
      {"auth_enabled_ascii", "no"},
      {"item_size_max", std::to_string(config.ops.max_object_bytes)},
      {"maxconns_fast", "yes"},
      {"lru_crawler", "no"},
      {"flush_enabled", config.sessions.allows_flush ? "yes" : "no"},
      {"dump_enabled", "no"},
      {"idle_timeout", std::to_string(config.sessions.idle_timeout / std::chrono::seconds(1))},
      {"track_sizes", "no"},
      {"inline_ascii_response", "no"},
      {"ssl_enabled", "no"},
      {"admin_addr", to_string(Endpoint{config.admin.host, admin_port_})},
      {"proxy_id", shared_.proxy_id}};
  for (auto& setting : setting_stats(config)) settings.push_back(std::move(setting));
  for (const PoolConfig& pool : config.pools) {
    settings.emplace_back("pool_" + (pool.prefix.empty() ? "default" : pool.prefix),
                          coding::to_string(pool.scheme));
  }
  shared_.stats.stored = [this] { return control_.stored(); };
  shared_.stats.settings = [this, settings] {
    StatPairs pairs = {{"maxbytes", std::to_string(control_.stored().limit_bytes)}};
    pairs.insert(pairs.end(), settings.begin(), settings.end());
    return pairs;
  };
  shared_.stats.cluster = [this] {
    const MapPtr map = shared_.map.current();
    if (map == nullptr) {
      return StatPairs{{"serving", "no"}, {"reason", shared_.map.reason()}};
    }
    StatPairs pairs = {{"serving", "yes"},
                       {"epoch", std::to_string(map->epoch.number)},
                       {"cluster_id", fmt::format("{:016x}", map->cluster_id)},
                       {"partitions", std::to_string(map->partitions.size())}};
    for (const node::NodeInfo& node : map->nodes) {
      pairs.emplace_back("node:" + node.name, node::name(node.state));
    }
    return pairs;
  };
}

void Proxy::start() {
  control_.start();
  maintenance_.start();
  admin_.start();
  for (auto& worker : workers_) worker->start();
  log_info("listening on {} with {} threads, admin on {}",
           to_string(Endpoint{shared_.config.listen.host, client_port_}), shared_.threads,
           to_string(Endpoint{shared_.config.admin.host, admin_port_}));
}

void Proxy::shut_down() {
  shared_.shuts_down = true;
  maintenance_.begin_shutdown();
  // The accepting worker first: it deals to the others.
  for (auto& worker : workers_) worker->begin_shutdown();
  for (auto& worker : workers_) worker->join();
  maintenance_.join();
  admin_.begin_shutdown();
  admin_.join();
  control_.begin_shutdown();
  control_.join();
}

}  // namespace elastripe
