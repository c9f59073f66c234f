#include "tools/bench/testbed.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

#include "tools/bench/redis_client.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using std::chrono::seconds;

constexpr const char* kLoopback = "127.0.0.1";
constexpr int kLargestItemMb = 128;  // memcached wants at least twice that memory
constexpr seconds kServerStart{10};
constexpr seconds kReplicaSync{30};
constexpr seconds kServerEnd{10};

// An error that says how to get it.
Result<std::string> needed_program(const std::string& name, const char* package) {
  const auto path = find_program(name);
  if (path.empty()) {
    return cli::fail(
        "{} is not installed: Debian's package {}, or scripts/install-packages --bench", name,
        package);
  }
  return path.string();
}

}  // namespace

std::filesystem::path find_program(const std::string& name) {
  const char* path = ::getenv("PATH");
  std::istringstream directories(std::string(path == nullptr ? "" : path) +
                                 ":/usr/sbin:/usr/local/sbin:/sbin");
  std::string directory;
  while (std::getline(directories, directory, ':')) {
    const auto file = std::filesystem::path(directory) / name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

Result<std::unique_ptr<Testbed>> Testbed::create(int first_port) {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "elastripe-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return cli::fail("cannot make {}", pattern);
  return std::unique_ptr<Testbed>(new Testbed(pattern, first_port));
}

Testbed::~Testbed() {
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
  const auto process = cli::spawn_detached(argv, log);
  if (!process) return std::unexpected(process.error());
  servers_.push_back(*process);
  const auto accepts = [&] {
    return cli::port_accepts(kLoopback, static_cast<uint16_t>(port)) || !cli::is_running(*process);
  };
  if (!cli::wait_until(accepts, kServerStart) || !cli::is_running(*process)) {
    return cli::fail("{} does not start:\n{}", name, cli::tail_of(log, 10));
  }
  return process->pid;
}

Result<Target> Testbed::start_memcached(int threads, int memory_mb) {
  const auto bin = cli::own_directory();
  if (!bin) return std::unexpected(bin.error());
  const auto port = take_ports(1);
  if (!port) return std::unexpected(port.error());
  const auto pid =
      start_server("memcached", *port,
                   {*bin / "elastripe-node", "--plain", "-p", std::to_string(*port), "-U", "0",
                    "-l", kLoopback, "-m", std::to_string(std::max(memory_mb, 2 * kLargestItemMb)),
                    "-I", fmt::format("{}m", kLargestItemMb), "-c", "8192", "-t",
                    std::to_string(threads), "-u", "root"});
  if (!pid) return std::unexpected(pid.error());
  return Target{.name = "memcached",
                .port = static_cast<uint16_t>(*port),
                .key_prefix = {},
                .front = {*pid},
                .back = {}};
}

Result<Target> Testbed::start_twemproxy(int nodes, int memory_mb) {
  const auto program = needed_program("nutcracker", "nutcracker");
  if (!program) return std::unexpected(program.error());
  Target target{.name = "twemproxy", .key_prefix = {}, .front = {}, .back = {}};
  std::string servers;
  for (int i = 0; i < nodes; ++i) {
    const auto node = start_memcached(1, memory_mb);
    if (!node) return std::unexpected(node.error());
    target.back.push_back(node->front.front());
    servers += fmt::format("   - {}:{}:1 n{}\n", kLoopback, node->port, i);
  }
  const auto port = take_ports(2);  // and of its statistics
  if (!port) return std::unexpected(port.error());
  const auto config = dir_ / "nutcracker.yml";
  std::ofstream file(config);
  file << fmt::format(
      "bench:\n  listen: {}:{}\n  hash: fnv1a_64\n  distribution: ketama\n  timeout: 30000\n"
      "  backlog: 1024\n  preconnect: true\n  auto_eject_hosts: false\n  servers:\n{}",
      kLoopback, *port, servers);
  file.close();
  if (!file) return cli::fail("cannot write {}", config.string());
  const auto pid =
      start_server("nutcracker", *port,
                   {*program, "--conf-file", config, "--stats-port", std::to_string(*port + 1),
                    "--stats-addr", kLoopback, "--verbose", "3", "--output",
                    dir_ / "nutcracker.out", "--pid-file", dir_ / "nutcracker.pid"});
  if (!pid) return std::unexpected(pid.error());
  target.port = static_cast<uint16_t>(*port);
  target.front = {*pid};
  return target;
}

Result<Target> Testbed::start_redis(int memory_mb) {
  const auto program = needed_program("redis-server", "redis-server");
  if (!program) return std::unexpected(program.error());
  const auto port = take_ports(2);
  if (!port) return std::unexpected(port.error());
  const auto start = [&](int own_port, std::vector<std::string> more) {
    const auto dir = dir_ / fmt::format("redis-{}", own_port);
    std::error_code ignored;
    std::filesystem::create_directory(dir, ignored);
    std::vector<std::string> argv{*program,
                                  "--port",
                                  std::to_string(own_port),
                                  "--bind",
                                  kLoopback,
                                  "--dir",
                                  dir,
                                  "--save",
                                  "",
                                  "--appendonly",
                                  "no",
                                  "--maxmemory",
                                  fmt::format("{}mb", memory_mb),
                                  "--repl-diskless-sync",
                                  "yes",
                                  "--repl-diskless-sync-delay",
                                  "0",
                                  "--client-output-buffer-limit",
                                  "replica 0 0 0",
                                  "--repl-backlog-size",
                                  "64mb"};
    argv.insert(argv.end(), more.begin(), more.end());
    return start_server("redis", own_port, argv);
  };
  const auto primary = start(*port, {});
  if (!primary) return std::unexpected(primary.error());
  const auto replica = start(*port + 1, {"--replicaof", kLoopback, std::to_string(*port)});
  if (!replica) return std::unexpected(replica.error());

  auto client = RedisClient::connect(kLoopback, static_cast<uint16_t>(*port));
  if (!client) return std::unexpected(client.error());
  const auto in_sync = [&] {
    const auto info = (*client)->info("replication");
    return info && info->find("state=online") != std::string::npos;
  };
  if (!cli::wait_until(in_sync, kReplicaSync)) return cli::fail("the Redis replica does not sync");
  return Target{.name = "redis",
                .port = static_cast<uint16_t>(*port),
                .key_prefix = {},
                .front = {*primary},
                .back = {*replica}};
}

Result<Testbed::Cluster> Testbed::start_cluster(std::string name, cli::ClusterSettings settings) {
  const auto port = take_ports(settings.nodes + 2);
  if (!port) return std::unexpected(port.error());
  settings.port = *port;
  settings.set.emplace_back("timing.read_grace_ms=1000");
  settings.set.emplace_back("timing.request_timeout_ms=30000");
  auto cluster = TemporaryCluster::start(std::move(settings));
  if (!cluster) return std::unexpected(cluster.error());
  const cli::LocalCluster& processes = (*cluster)->processes();
  Target target{.name = std::move(name),
                .port = (*cluster)->proxy_port(),
                .key_prefix = {},
                .front = {},
                .back = {}};
  for (const std::string& process : processes.names()) {
    auto& pids = process == cli::kProxyName ? target.front : target.back;
    pids.push_back(processes.status(process).process.pid);
  }
  clusters_.push_back(std::move(*cluster));
  return Cluster{std::move(target), clusters_.back().get()};
}

}  // namespace elastripe::bench
