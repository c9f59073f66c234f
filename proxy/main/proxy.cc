#include "proxy/main/proxy.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <latch>

#include "proxy/admin/admin_json.h"
#include "proxy/admin/job_report.h"
#include "proxy/base/log.h"
#include "proxy/main/cluster_config.h"

namespace elastripe {
namespace {

constexpr GaugeRow kTlsValidUntil{
    "elastripe_tls_valid_until_seconds",
    "Unix time at which the proxy's certificate ends; 0 without one."};

uint32_t thread_count(const Config& config) {
  return config.threads > 0 ? config.threads : std::max(1u, std::thread::hardware_concurrency());
}

// Where others find what listens here: at the machine's name, if it listens everywhere.
std::string reachable(const std::string& host, uint16_t port) {
  char name[256] = {};
  const bool is_everywhere = host == "0.0.0.0" || host == "::" || host == "*" || host.empty();
  if (!is_everywhere || ::gethostname(name, sizeof(name) - 1) != 0) {
    return to_string(Endpoint{host, port});
  }
  return to_string(Endpoint{name, port});
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

Result<Fd> bind_to(const ListenConfig& listen, const std::string& setting) {
  if (listen.path.empty()) return bind_to(listen.address, setting.c_str());
  auto socket = listen_on_path(listen.path, listen.mode);
  if (socket) return socket;
  return fail(socket.error().code, "{}: can not listen on {}: {}", setting, listen.path,
              socket.error().message);
}

}  // namespace

Result<std::unique_ptr<Proxy>> Proxy::create(Config config) {
  auto credentials = std::make_unique<Credentials>();
  if (auto loaded = credentials->load(config); !loaded) return fail(loaded.error());
  auto resolver = std::make_shared<Resolver>();
  auto addresses = resolve_nodes(config, resolver);
  if (!addresses) return fail(addresses.error());
  auto client = bind_to(config.listen, "listen");
  if (!client) return fail(client.error());
  ClientSockets clients{.first = std::move(*client), .others = {}};
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    auto socket = bind_to(config.listeners[i], fmt::format("listeners.{}", i));
    if (!socket) return fail(socket.error());
    clients.others.push_back(std::move(*socket));
  }
  auto admin = bind_to(config.admin, "admin");
  if (!admin) return fail(admin.error());
  return std::unique_ptr<Proxy>(new Proxy(std::move(config), std::move(credentials),
                                          std::move(*addresses), std::move(resolver),
                                          std::move(clients), std::move(*admin)));
}

Proxy::Proxy(Config config, std::unique_ptr<Credentials> credentials,
             std::vector<NodeAddress> addresses, std::shared_ptr<Resolver> resolver,
             ClientSockets client_sockets, Fd admin_socket)
    : client_port_(port_of(client_sockets.first)),
      admin_port_(port_of(admin_socket)),
      shared_(config, std::move(credentials), std::move(addresses), std::move(resolver),
              thread_count(config)),
      config_(std::make_shared<const Config>(config)),
      file_(config),
      maintenance_(shared_, [this] { control_.survey_again(); }),
      control_(shared_),
      admin_(shared_, control_, maintenance_, std::move(admin_socket)) {
  shared_.clients_address = config.listen.path.empty()
                                ? reachable(config.listen.address.host, client_port_)
                                : config.listen.path;
  shared_.admin_address = reachable(config.admin.host, admin_port_);
  describe();
  control_.have_followed(
      {.check = [this](const node::ClusterSettings& settings) { return check_cluster(settings); },
       .follow =
           [this](const node::ClusterSettings& settings) { return follow_cluster(settings); }});
  control_.have_jobs_run(
      {.run = [this](const jobs::ClusterJob& job) { return maintenance_.run_job(job); },
       .cancel = [this](uint64_t id) { maintenance_.cancel_job(id); },
       .leave = [this] { maintenance_.leave_jobs(); },
       .ended_report = ended_job_json});
  control_.have_maintained(
      {.tell =
           [this] {
             return maintenance_json(maintenance_.repair(), maintenance_.background_scrub());
           },
       .scrub_due_in = [this] { return maintenance_.background_scrub().due_in(); },
       .take_over = [this](Duration due_in) { maintenance_.take_over(due_in); }});
  Gauge& end = shared_.registry.cell(kTlsValidUntil);
  shared_.registry.add_collector([this, &end] {
    const auto until = shared_.credentials->valid_until();
    end.set(until ? std::chrono::system_clock::to_time_t(*until) : 0);
  });
  for (size_t i = 0; i < shared_.threads; ++i) {
    workers_.push_back(std::make_unique<Worker>(shared_, control_, i));
  }
  accept_from(std::move(client_sockets.first), config.listen);
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    accept_from(std::move(client_sockets.others[i]), config.listeners[i]);
  }
}

void Proxy::accept_from(Fd socket, const ListenConfig& listen) {
  workers_.front()->listen(
      std::move(socket), [this, access = shared_.credentials->access(listen)](Fd client) {
        workers_[next_worker_++ % workers_.size()]->adopt(std::move(client), access);
      });
}

Proxy::~Proxy() = default;

// What `stats settings` tells. Any thread.
StatPairs Proxy::settings() const {
  const ConfigPtr now = config();
  const Config& config = *now;
  StatPairs settings = {
      {"maxbytes", std::to_string(control_.stored().limit_bytes)},
      {"maxconns", std::to_string(config.sessions.max_connections)},
      {"tcpport", std::to_string(client_port_)},
      {"udpport", "0"},
      {"inter", config.listen.address.host},
      {"verbosity", "0"},
      {"evictions", "off"},
      {"domain_socket", config.listen.path.empty() ? "NULL" : config.listen.path},
      {"shutdown_command", "no"},
      {"num_threads", std::to_string(shared_.threads)},
      {"num_threads_per_udp", "0"},
      {"detail_enabled", "no"},
      {"cas_enabled", "yes"},
      {"tcp_backlog", std::to_string(kListenBacklog)},
      {"binding_protocol", "auto-negotiate"},
      {"auth_enabled_sasl", config.listen.authenticate ? "yes" : "no"},
      {"auth_enabled_ascii", config.listen.authenticate ? config.users_file : "no"},
      {"item_size_max", std::to_string(config.ops.max_object_bytes)},
      {"maxconns_fast", "yes"},
      {"lru_crawler", "no"},
      {"flush_enabled", config.sessions.allows_flush ? "yes" : "no"},
      {"dump_enabled", config.sessions.allows_dump ? "yes" : "no"},
      {"idle_timeout", std::to_string(config.sessions.idle_timeout / std::chrono::seconds(1))},
      {"track_sizes", "no"},
      {"inline_ascii_response", "no"},
      {"ssl_enabled", config.listen.tls != ListenTls::kOff ? "yes" : "no"},
      {"admin_addr", to_string(Endpoint{config.admin.host, admin_port_})},
      {"proxy_id", shared_.proxy_id}};
  for (auto& setting : setting_stats(config)) settings.push_back(std::move(setting));
  for (const PoolConfig& pool : config.pools) {
    settings.emplace_back("pool_" + (pool.prefix.empty() ? "default" : pool.prefix),
                          coding::to_string(pool.scheme));
  }
  return settings;
}

// What `stats settings` and `stats elastripe` tell.
void Proxy::describe() {
  shared_.stats.stored = [this] { return control_.stored(); };
  shared_.stats.settings = [this] { return settings(); };
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
           shared_.config.listen.path.empty()
               ? to_string(Endpoint{shared_.config.listen.address.host, client_port_})
               : shared_.config.listen.path,
           shared_.threads, to_string(Endpoint{shared_.config.admin.host, admin_port_}));
}

// `done` is called when all threads follow it. Whoever calls this has `changing_`, so that all
// threads are told of changes in the same order.
void Proxy::spread(const Config& config, std::function<void()> done) {
  const auto next = std::make_shared<const Config>(config);
  config_.store(next);
  set_log_level(next->log_level);
  const auto left = std::make_shared<std::atomic<size_t>>(workers_.size() + 3);
  const auto follows = [left, done = std::move(done)] {
    if (left->fetch_sub(1) == 1) done();
  };
  for (auto& worker : workers_) worker->change_settings(next, follows);
  maintenance_.change_settings(next, follows);
  control_.change_settings(next, follows);
  admin_.change_settings(next, follows);
}

// What running with that file comes to. Whoever calls this has `changing_`.
Result<ConfigChange> Proxy::change_to(const Config& file,
                                      const node::ClusterSettings& cluster) const {
  if (cluster.version == 0) return change_config(*config(), file);
  const auto in_force = with_cluster(file, cluster.text);
  if (!in_force) return fail(in_force.error());
  return change_config(*config(), *in_force, /*is_of_cluster=*/true);
}

// Files are read without the lock, for which the control thread waits. The cluster's settings may
// change meanwhile, but what files are read is the proxy's own.
Result<Proxy::Reloaded> Proxy::reload(const Config& wanted) {
  const auto checked = [&] {
    const std::lock_guard lock(changing_);
    return change_to(wanted, cluster_);
  }();
  if (!checked) return fail(checked.error());
  if (auto loaded = shared_.credentials->load(checked->config); !loaded) {
    return fail(loaded.error());
  }
  const auto following = std::make_shared<std::latch>(1);
  Reloaded reloaded;
  {
    const std::lock_guard lock(changing_);
    auto change = change_to(wanted, cluster_);
    if (!change) {
      return fail(ErrorCode::kConflict,
                  "{}: the cluster's settings changed meanwhile, and of the proxy's only users and "
                  "certificates have",
                  change.error().message);
    }
    file_ = wanted;
    if (cluster_.version != 0) reloaded.overruled = overruled(wanted, change->config);
    spread(change->config, [this, following, cluster = cluster_] {
      control_.follows(cluster);
      following->count_down();
    });
    reloaded.change = std::move(*change);
  }
  following->wait();
  return reloaded;
}

Result<void> Proxy::check_cluster(const node::ClusterSettings& settings) {
  const std::lock_guard lock(changing_);
  const auto change = change_to(file_, settings);
  if (!change) return fail(change.error());
  return {};
}

// Before the first map of the cluster, whatever it is; later as the map says that it has changed.
Result<void> Proxy::follow_cluster(const node::ClusterSettings& settings) {
  const std::lock_guard lock(changing_);
  cluster_ = settings;
  const auto change = change_to(file_, cluster_);
  if (!change) {
    log_error("the settings of the cluster, version {}, can not be followed: {}", settings.version,
              change.error().message);
    return fail(change.error());
  }
  log_info(
      "settings of the cluster, version {}: {}", settings.version,
      change->taken.empty() ? "as they were" : fmt::format("{}", fmt::join(change->taken, ", ")));
  const auto differs = overruled(file_, change->config);
  if (!differs.empty()) {
    log_warning("the settings of the cluster count, and not these of the file: {}",
                fmt::join(differs, ", "));
  }
  spread(change->config, [this, settings] { control_.follows(settings); });
  return {};
}

void Proxy::announce_shutdown() {
  if (!shared_.shuts_down.exchange(true)) control_.leave();
}

void Proxy::shut_down(Duration wait) {
  announce_shutdown();
  control_.follow_no_more();
  maintenance_.begin_shutdown();
  // The accepting worker deals to the others: what it has accepted is theirs before they end.
  std::latch accepted(1);
  workers_.front()->stop_listening([&accepted] { accepted.count_down(); });
  accepted.wait();
  for (auto& worker : workers_) worker->begin_shutdown(wait);
  for (auto& worker : workers_) worker->join();
  maintenance_.join();
  // Until here it tells that the proxy is shutting down; the decider keeps the nodes serving.
  admin_.begin_shutdown();
  admin_.join();
  control_.begin_shutdown();
  control_.join();
}

void Proxy::hurry_shutdown() {
  for (auto& worker : workers_) worker->hurry_shutdown();
  wait_for_no_decider();
}

void Proxy::wait_for_no_decider() { control_.hurry_shutdown(); }

}  // namespace elastripe
