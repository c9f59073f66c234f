#include "tools/bench/temporary_cluster.h"

#include <fmt/core.h>
#include <stdlib.h>

namespace elastripe::bench {

cli::Result<client::Client> connect_to(uint16_t port) {
  client::Options options;
  options.port = port;
  auto client = client::Client::create(options);
  if (!client) return cli::fail("{}", client.error().message);
  return std::move(*client);
}

cli::Result<std::unique_ptr<TemporaryCluster>> TemporaryCluster::start(
    cli::ClusterSettings settings) {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "elastripe-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return cli::fail("cannot make {}", pattern);
  auto cluster = cli::LocalCluster::create(pattern, std::move(settings));
  if (!cluster) {
    std::error_code ignored;
    std::filesystem::remove_all(pattern, ignored);
    return std::unexpected(cluster.error());
  }
  std::unique_ptr<TemporaryCluster> temporary(new TemporaryCluster(std::move(*cluster)));
  if (auto done = temporary->cluster_.start(temporary->cluster_.names()); !done) {
    return std::unexpected(done.error());
  }
  return temporary;
}

TemporaryCluster::~TemporaryCluster() {
  [[maybe_unused]] const auto stopped = cluster_.stop(cluster_.names());
  std::error_code ignored;
  std::filesystem::remove_all(dir(), ignored);
}

}  // namespace elastripe::bench
