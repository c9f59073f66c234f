#include "tools/bench/servers.h"

#include <fmt/core.h>
#include <signal.h>

#include <charconv>
#include <map>

namespace elastripe::bench {
namespace {

constexpr std::chrono::seconds kPlainStart{10};

uint64_t number_of(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string inline_prefix(size_t scheme) { return fmt::format("inline{}/", scheme); }
std::string striped_prefix(size_t scheme) { return fmt::format("striped{}/", scheme); }

cli::Result<std::unique_ptr<Servers>> Servers::start(const ServerSettings& settings) {
  cli::ClusterSettings cluster_settings;
  cluster_settings.nodes = settings.nodes;
  cluster_settings.port = settings.port;
  cluster_settings.memory_mb = settings.memory_mb;
  cluster_settings.scheme = settings.schemes.front();
  // overwritten objects leave soon, so that a long run does not fill the nodes
  cluster_settings.set = {"timing.read_grace_ms=1000"};
  for (size_t i = 0; i < settings.schemes.size(); ++i) {
    cluster_settings.pools.push_back({inline_prefix(i), settings.schemes[i], kInlineMaxBytes});
    cluster_settings.pools.push_back({striped_prefix(i), settings.schemes[i], 0});
  }
  auto cluster = TemporaryCluster::start(cluster_settings);
  if (!cluster) return std::unexpected(cluster.error());
  std::unique_ptr<Servers> servers(new Servers(std::move(*cluster)));
  if (auto done = servers->start_plain(settings.memory_mb); !done) {
    return std::unexpected(done.error());
  }
  return servers;
}

cli::Result<> Servers::start_plain(int memory_mb) {
  const int first = cluster_->settings().port + cluster_->settings().nodes + 2;
  for (int port = first; port < first + 100 && plain_port_ == 0; ++port) {
    if (cli::port_is_free("127.0.0.1", static_cast<uint16_t>(port))) {
      plain_port_ = static_cast<uint16_t>(port);
    }
  }
  const auto bin = cli::own_directory();
  if (!bin) return std::unexpected(bin.error());
  const auto log = cluster_->dir() / "plain.log";
  const auto process = cli::spawn_detached(
      {*bin / "elastripe-node", "--plain", "-p", std::to_string(plain_port_), "-U", "0", "-l",
       "127.0.0.1", "-m", std::to_string(memory_mb), "-I", "64m", "-t", "2", "-u", "root"},
      log);
  if (!process) return std::unexpected(process.error());
  plain_ = *process;
  const auto accepts = [&] { return cli::port_accepts("127.0.0.1", plain_port_); };
  if (!cli::wait_until(accepts, kPlainStart)) {
    return cli::fail("plain memcached does not start:\n{}", cli::tail_of(log, 10));
  }
  return {};
}

Servers::~Servers() {
  if (plain_.pid > 0) cli::send_signal(plain_, SIGKILL);
}

cli::Result<uint64_t> Servers::used_bytes() const {
  uint64_t total = 0;
  for (int i = 0; i < cluster_->settings().nodes; ++i) {
    auto client = connect_to(cluster_->node_port(i));
    if (!client) return std::unexpected(client.error());
    const auto rows = client->stats("slabs");
    if (!rows) return cli::fail("stats slabs of n{}: {}", i, rows.error().message);
    std::map<std::string, uint64_t> chunk_bytes;
    for (const auto& [name, value] : *rows) {  // CLASS:chunk_size comes before CLASS:used_chunks
      const size_t colon = name.find(':');
      if (colon == std::string::npos) continue;
      const std::string slab_class = name.substr(0, colon);
      if (name.substr(colon) == ":chunk_size") chunk_bytes[slab_class] = number_of(value);
      if (name.substr(colon) == ":used_chunks") total += chunk_bytes[slab_class] * number_of(value);
    }
  }
  return total;
}

}  // namespace elastripe::bench
