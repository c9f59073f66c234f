#include "tools/bench/testbed.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "tools/bench/runner.h"
#include "tools/bench/try.h"
#include "tools/cli/certificates.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using std::chrono::seconds;

constexpr const char* kLoopback = "127.0.0.1";
constexpr int kLargestItemMb = 128;  // memcached wants at least twice that memory
constexpr seconds kServerStart{10};
constexpr seconds kReplicaSync{30};
constexpr seconds kServerEnd{10};
constexpr seconds kSettled{600};

}  // namespace

Result<std::string> needed_program(const std::string& name, const char* package) {
  const auto found = cli::run_to_end(
      {"sh", "-c", "PATH=$PATH:/usr/sbin:/usr/local/sbin:/sbin; command -v \"$0\"", name});
  if (found.ok) return found.output.substr(0, found.output.find('\n'));
  return cli::fail("{} is not installed: Debian's package {}, or scripts/install-packages --bench",
                   name, package);
}

Result<std::filesystem::path> make_temporary_directory() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "elastripe-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return cli::fail("cannot make {}", pattern);
  return pattern;
}

Result<std::vector<std::map<std::string, uint64_t>>> Cluster::node_stats(const char* what) const {
  std::vector<std::map<std::string, uint64_t>> nodes;
  for (int i = 0; i < processes->settings().nodes; ++i) {
    const auto port = static_cast<uint16_t>(target.port + 1 + i);
    const auto client = TRY(ObjectClient::connect(kLoopback, port));
    nodes.push_back(TRY(client->stats(what)));
  }
  return nodes;
}

Result<> Cluster::wait_for(const char* state, int nodes, bool whole) const {
  const auto client = TRY(admin());
  const auto holds = [&] {
    const auto status = client.get("/v1/status");
    if (!status || status->at("nodes").at(state) != nodes) return was_interrupted();
    const auto& partitions = status->at("partitions");
    return !whole || partitions.at("synced") == partitions.at("total") || was_interrupted();
  };
  if (cli::wait_until(holds, kSettled)) return check_interrupt();
  return cli::fail("the cluster does not come to have {} nodes {}{}", nodes, state,
                   whole ? ", and all synced" : "");
}

Result<std::map<std::string, uint64_t>> Cluster::sum_of_stats(const char* what) const {
  std::map<std::string, uint64_t> sums;
  for (const auto& numbers : TRY(node_stats(what))) {
    for (const auto& [name, number] : numbers) sums[name] += number;
  }
  return sums;
}

Result<std::unique_ptr<Testbed>> Testbed::create(int first_port) {
  auto dir = TRY(make_temporary_directory());
  return std::unique_ptr<Testbed>(new Testbed(std::move(dir), first_port));
}

Testbed::~Testbed() {
  for (const auto& cluster : clusters_) {
    [[maybe_unused]] const auto stopped = cluster->stop(cluster->names());
  }
  for (const cli::ProcessId& server : servers_) cli::send_signal(server, SIGKILL);
  cli::wait_until([&] { return std::ranges::none_of(servers_, cli::is_running); }, kServerEnd);
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

Result<int> Testbed::take_ports(int count) {
  int free = 0;
  for (; next_port_ < 65'000 && free < count; ++next_port_) {
    free = cli::port_is_free(kLoopback, static_cast<uint16_t>(next_port_)) ? free + 1 : 0;
  }
  if (free < count) return cli::fail("no {} free ports in a row; choose others with --port", count);
  return next_port_ - count;
}

Result<pid_t> Testbed::start_server(const std::string& name, int port,
                                    const std::vector<std::string>& argv) {
  const auto log = dir_ / fmt::format("{}-{}.log", name, port);
  const auto process = TRY(cli::spawn_detached(argv, log));
  servers_.push_back(process);
  const auto accepts = [&] {
    return cli::port_accepts(kLoopback, static_cast<uint16_t>(port)) || !cli::is_running(process);
  };
  if (!cli::wait_until(accepts, kServerStart) || !cli::is_running(process)) {
    return cli::fail("{} does not start:\n{}", name, cli::tail_of(log, 10));
  }
  return process.pid;
}

Result<std::filesystem::path> Testbed::certificates() {
  auto directory = dir_ / "tls";
  if (!std::filesystem::exists(directory)) TRY(cli::make_cluster_certificates(directory, {}));
  return directory;
}

namespace {

Result<std::shared_ptr<const TlsContext>> client_of(const std::filesystem::path& files) {
  ::signal(SIGPIPE, SIG_IGN);
  auto context = TlsContext::create({files / "client.pem", files / "client.key", files / "ca.pem"},
                                    TlsRole::kClient);
  if (!context) return cli::fail("TLS: {}", context.error().message);
  return std::move(*context);
}

}  // namespace

Result<std::shared_ptr<const TlsContext>> Testbed::tls() { return client_of(TRY(certificates())); }

Result<std::shared_ptr<const TlsContext>> Testbed::tls_of(const Cluster& cluster) {
  return client_of(cluster.processes->dir() / "tls");
}

Result<Target> Testbed::start_memcached(int threads, int memory_mb, bool tls) {
  const auto bin = TRY(cli::own_directory());
  const auto port = TRY(take_ports(1));
  std::vector<std::string> argv{bin / "elastripe-node",
                                "--plain",
                                "-p",
                                std::to_string(port),
                                "-U",
                                "0",
                                "-l",
                                kLoopback,
                                "-m",
                                std::to_string(std::max(memory_mb, 2 * kLargestItemMb)),
                                "-I",
                                fmt::format("{}m", kLargestItemMb),
                                "-c",
                                "16384",
                                "-t",
                                std::to_string(threads),
                                "-u",
                                "root"};
  Target target{.name = "memcached", .port = static_cast<uint16_t>(port)};
  if (tls) {
    const auto files = TRY(certificates());
    argv.insert(argv.end(), {"-Z", "-o", "ssl_chain_cert=" + (files / "proxy.pem").string(), "-o",
                             "ssl_key=" + (files / "proxy.key").string()});
    target.tls = TRY(this->tls());
  }
  target.front = {TRY(start_server("memcached", port, argv))};
  return target;
}

Result<Target> Testbed::start_twemproxy(int nodes, int memory_mb) {
  const auto program = TRY(needed_program("nutcracker", "nutcracker"));
  Target target{.name = "twemproxy"};
  std::string servers;
  for (int i = 0; i < nodes; ++i) {
    const auto node = TRY(start_memcached(1, memory_mb));
    target.back.push_back(node.front.front());
    servers += fmt::format("   - {}:{}:1 n{}\n", kLoopback, node.port, i);
  }
  const int port = TRY(take_ports(2));  // and of its statistics
  const auto config = dir_ / "nutcracker.yml";
  std::ofstream file(config);
  file << fmt::format(
      "bench:\n  listen: {}:{}\n  hash: fnv1a_64\n  distribution: ketama\n  timeout: 30000\n"
      "  backlog: 1024\n  preconnect: true\n  auto_eject_hosts: false\n  servers:\n{}",
      kLoopback, port, servers);
  file.close();
  if (!file) return cli::fail("cannot write {}", config.string());
  const auto pid =
      TRY(start_server("nutcracker", port,
                       {program, "--conf-file", config, "--stats-port", std::to_string(port + 1),
                        "--stats-addr", kLoopback, "--verbose", "3", "--output",
                        dir_ / "nutcracker.out", "--pid-file", dir_ / "nutcracker.pid"}));
  target.port = static_cast<uint16_t>(port);
  target.front = {pid};
  return target;
}

Result<Target> Testbed::start_redis(int memory_mb) {
  const auto program = TRY(needed_program("redis-server", "redis-server"));
  const auto port = TRY(take_ports(2));
  const auto start = [&](int own_port, const std::vector<std::string>& more) {
    const auto dir = dir_ / fmt::format("redis-{}", own_port);
    std::filesystem::create_directory(dir);
    std::vector<std::string> argv{
        program, "--port", std::to_string(own_port), "--bind", kLoopback, "--dir", dir,
        // nothing is kept in files
        "--save", "", "--appendonly", "no", "--maxmemory", fmt::format("{}mb", memory_mb),
        // the replica is sent all at once, and never cut
        "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-backlog-size",
        "64mb", "--client-output-buffer-limit", "replica 0 0 0"};
    argv.insert(argv.end(), more.begin(), more.end());
    return start_server("redis", own_port, argv);
  };
  const auto primary = TRY(start(port, {}));
  const auto replica = TRY(start(port + 1, {"--replicaof", kLoopback, std::to_string(port)}));

  Target target{.name = "redis, WAIT 1",
                .port = static_cast<uint16_t>(port),
                .front = {primary},
                .back = {replica},
                .redis = true};
  const auto client = TRY(target.connect());
  const auto in_sync = [&] { return client->put("sync", "").has_value(); };  // acknowledged by it
  if (!cli::wait_until(in_sync, kReplicaSync)) return cli::fail("the Redis replica does not sync");
  return target;
}

Result<Cluster> Testbed::start_cluster(std::string name, cli::ClusterSettings settings) {
  const auto port = TRY(take_ports(settings.nodes + 2 * settings.proxies));
  settings.port = port;
  settings.set.emplace_back("timing.read_grace_ms=1000");
  settings.set.emplace_back("timing.request_timeout_ms=30000");
  const auto dir = dir_ / fmt::format("cluster-{}", port);
  std::filesystem::create_directory(dir);
  auto created = TRY(cli::LocalCluster::create(dir, std::move(settings)));
  clusters_.push_back(std::make_unique<cli::LocalCluster>(std::move(created)));
  cli::LocalCluster& cluster = *clusters_.back();
  TRY(cluster.start(cluster.names()));
  Target target{.name = std::move(name), .port = static_cast<uint16_t>(port)};
  const std::vector<std::string> proxies = cluster.proxies();
  for (const std::string& process : cluster.names()) {
    const cli::ProcessStatus status = cluster.status(process);
    const bool is_proxy = std::ranges::find(proxies, process) != proxies.end();
    (is_proxy ? target.front : target.back).push_back(status.process.pid);
    if (is_proxy && process != cli::kProxyName) {
      target.more_ports.push_back(static_cast<uint16_t>(status.port));
    }
  }
  return Cluster{std::move(target), &cluster};
}

Result<std::vector<Cluster>> Testbed::start_clusters(const std::string& of,
                                                     cli::ClusterSettings settings,
                                                     const std::string& baseline) {
  std::vector<Cluster> clusters;
  for (const bool ours : {false, true}) {
    if (!ours && baseline.empty()) continue;
    settings.programs = ours ? "" : baseline;
    auto cluster = TRY(start_cluster((ours ? "elastripe" : "baseline") + of, settings));
    clusters.push_back(std::move(cluster));
  }
  return clusters;
}

}  // namespace elastripe::bench
