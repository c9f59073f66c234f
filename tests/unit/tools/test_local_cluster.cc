#include <fmt/core.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tools/cli/local_cluster.h"

namespace elastripe::cli {
namespace {

namespace fs = std::filesystem;

// A cluster as it is read from the directory that it was started in; nothing of it runs.
LocalCluster described(int nodes, const std::string& proxies) {
  std::string path = (fs::temp_directory_path() / "local-cluster-XXXXXX").string();
  REQUIRE(mkdtemp(path.data()) != nullptr);
  const fs::path description = fs::path(path) / "cluster.json";
  std::ofstream(description) << fmt::format(
      R"({{"nodes": {}, {} "scheme": "rep:2", "pools": [], "address": "127.0.0.1", "port": 20000,
           "memory_mb": 64, "node_threads": 1, "set": []}})",
      nodes, proxies);
  fs::permissions(description, fs::perms::owner_read | fs::perms::owner_write);
  auto cluster = LocalCluster::open(path);
  fs::remove_all(path);
  REQUIRE(cluster);
  return *cluster;
}

TEST_CASE("one proxy has the first port, and its admin interface that behind the nodes") {
  // the second: as it was written before there could be several
  for (const char* proxies : {R"("proxies": 1,)", ""}) {
    const LocalCluster cluster = described(3, proxies);
    CHECK(cluster.names() == std::vector<std::string>{"n0", "n1", "n2", "proxy"});
    CHECK(cluster.server() == "127.0.0.1:20000");
    CHECK(cluster.status("n0").port == 20001);
    CHECK(cluster.status("n2").port == 20003);
    CHECK(cluster.admin_address() == "127.0.0.1:20004");
  }
}

TEST_CASE("further proxies change no port of the others") {
  const LocalCluster cluster = described(3, R"("proxies": 3,)");
  CHECK(cluster.names() == std::vector<std::string>{"n0", "n1", "n2", "proxy", "proxy2", "proxy3"});
  CHECK(cluster.server() == "127.0.0.1:20000");
  CHECK(cluster.status("n2").port == 20003);
  CHECK(cluster.admin_address() == "127.0.0.1:20004");
  CHECK(cluster.server("proxy2") == "127.0.0.1:20005");
  CHECK(cluster.admin_address("proxy2") == "127.0.0.1:20006");
  CHECK(cluster.server("proxy3") == "127.0.0.1:20007");
  CHECK(cluster.admin_address("proxy3") == "127.0.0.1:20008");
}

TEST_CASE("no two of a cluster have the same address, and none is left out between") {
  for (const int nodes : {1, 9, 10, 200}) {
    for (const int proxies : {1, 2, 9, 10, 16}) {
      const LocalCluster cluster = described(nodes, fmt::format(R"("proxies": {},)", proxies));
      std::set<std::string> addresses;
      for (const std::string& name : cluster.names()) {
        addresses.insert(fmt::format("127.0.0.1:{}", cluster.status(name).port));
      }
      for (const std::string& proxy : cluster.proxies()) {
        CHECK(cluster.server(proxy) == fmt::format("127.0.0.1:{}", cluster.status(proxy).port));
        addresses.insert(cluster.admin_address(proxy));
      }
      const int count = nodes + 2 * proxies;
      CHECK(addresses.size() == static_cast<size_t>(count));
      CHECK(*addresses.begin() == "127.0.0.1:20000");
      CHECK(*addresses.rbegin() == fmt::format("127.0.0.1:{}", 20000 + count - 1));
    }
  }
}

TEST_CASE("who names a process that the cluster has not is told which it has") {
  const LocalCluster one = described(3, "");
  CHECK(one.check_names({"n2", "proxy"}));
  for (const char* name : {"n3", "proxy1", "proxy2", ""}) {
    const auto known = one.check_names({"n0", name});
    REQUIRE(!known);
    CHECK(known.error() == fmt::format("no {} here: the cluster has n0 to n2 and proxy", name));
  }
  const LocalCluster several = described(3, R"("proxies": 3,)");
  CHECK(several.check_names({"proxy", "proxy2", "proxy3"}));
  for (const char* name : {"proxy1", "proxy02", "proxy4"}) {
    const auto known = several.check_names({name});
    REQUIRE(!known);
    CHECK(known.error() ==
          fmt::format("no {} here: the cluster has n0 to n2 and proxy to proxy3", name));
  }
}

}  // namespace
}  // namespace elastripe::cli
