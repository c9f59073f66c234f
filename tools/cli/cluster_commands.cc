// elastripe cluster ...: clusters of one machine.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cli/commands.h"
#include "tools/cli/local_cluster.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::json;

// What the options of all cluster commands are read into.
struct Arguments {
  std::string dir;
  std::vector<std::string> names;
  std::vector<std::string> pools;  // PREFIX=SCHEME
  ClusterSettings settings;
};

void print_cluster(const LocalCluster& cluster, bool json) {
  Json processes = Json::array();
  for (const std::string& name : cluster.names()) {
    const ProcessStatus now = cluster.status(name);
    if (json) {
      processes.push_back({{"name", name},
                           {"port", now.port},
                           {"pid", now.running ? now.process.pid : 0},
                           {"running", now.running}});
    } else {
      fmt::print("{:<7} port {:<6} {}\n", name, now.port,
                 now.running ? fmt::format("pid {}", now.process.pid) : "not running");
    }
  }
  if (json) {
    Json servers = Json::array();
    for (const std::string& proxy : cluster.proxies()) servers.push_back(cluster.server(proxy));
    fmt::print("{}\n", Json{{"dir", cluster.dir().string()},
                            {"server", cluster.server()},
                            {"servers", servers},
                            {"processes", processes}}
                           .dump(2));
  }
}

// Where processes listen is what the command itself starts them with and asks them at.
Result<> check_settings(const ClusterSettings& settings) {
  for (const std::string& setting : settings.set) {
    const std::string key = setting.substr(0, setting.find('='));
    const bool adds_listener =
        key == "listeners" || (key.starts_with("listeners.") && key.ends_with(".port"));
    if (settings.proxies > 1 && adds_listener) {
      return fail("--set {}: several proxies can not listen there; use one", setting);
    }
    if (key == "listen.tls" || key == "listen.authenticate") continue;
    for (const std::string section : {"listen", "admin", "nodes"}) {
      if (key == section || key.starts_with(section + ".")) {
        return fail("--set {}: the cluster's addresses follow from --port; use --port and --nodes",
                    setting);
      }
    }
  }
  return {};
}

// How clients get in.
void tell_security(const LocalCluster& cluster) {
  const ClusterSettings& settings = cluster.settings();
  if (!settings.tls && !settings.auth) return;
  if (settings.tls) {
    fmt::print("they speak TLS with certificates of {}\n", (cluster.dir() / "tls/ca.pem").string());
  }
  if (settings.auth) {
    fmt::print("they log in as a user of {}\n", (cluster.dir() / kUsersName).string());
  }
  fmt::print("on this machine you need neither at {}{}\n", (cluster.dir() / kSocketName).string(),
             settings.proxies == 1 ? "" : ", or at the socket of another proxy");
}

Result<> start(Arguments& arguments, bool json) {
  if (auto ok = check_settings(arguments.settings); !ok) return ok;
  for (const std::string& pool : arguments.pools) {
    const size_t equals = pool.find('=');
    if (equals == std::string::npos || equals == 0) {
      return fail("--pool {}: expected PREFIX=SCHEME", pool);
    }
    arguments.settings.pools.push_back({pool.substr(0, equals), pool.substr(equals + 1), {}});
  }
  auto cluster = LocalCluster::create(arguments.dir, arguments.settings);
  if (!cluster) return std::unexpected(cluster.error());
  if (auto done = cluster->start(cluster->names()); !done) {
    const auto stopped = cluster->stop(cluster->names());
    return fail("{}{}", done.error(), stopped ? "" : "\n" + stopped.error());
  }
  if (json) {
    print_cluster(*cluster, true);
  } else {
    std::string servers;
    for (const std::string& proxy : cluster->proxies()) {
      servers += (servers.empty() ? "" : ", ") + cluster->server(proxy);
    }
    const int proxies = cluster->settings().proxies;
    fmt::print("{} nodes and {} run; clients connect to {}{}\n", cluster->settings().nodes,
               proxies == 1 ? "a proxy" : fmt::format("{} proxies", proxies),
               proxies == 1 ? "" : "any of ", servers);
    tell_security(*cluster);
  }
  return {};
}

// Opens the cluster, checks the names (all when none are given) and does `action` to them.
template <class Action>
Result<> with_cluster(const Arguments& arguments, Action action) {
  auto cluster = LocalCluster::open(arguments.dir);
  if (!cluster) return std::unexpected(cluster.error());
  const auto names = arguments.names.empty() ? cluster->names() : arguments.names;
  if (auto known = cluster->check_names(names); !known) return known;
  return action(*cluster, names);
}

void add_start(CLI::App& group, Globals& globals, const std::shared_ptr<Arguments>& arguments) {
  CLI::App* command =
      group.add_subcommand("start", "Starts nodes and proxies; returns when they serve");
  ClusterSettings& settings = arguments->settings;
  command->add_option("--dir", arguments->dir, "Where configuration, logs and pids are kept")
      ->required();
  command->add_option("--nodes", settings.nodes, "How many nodes")
      ->check(CLI::Range(1, 200))
      ->capture_default_str();
  command
      ->add_option("--proxies", settings.proxies,
                   "How many proxies; any serves any key, and one decides")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  command->add_flag("--etcd", settings.etcd,
                    "An etcd of this cluster, which has to be installed, elects the proxy that "
                    "decides; else the nodes do");
  command
      ->add_option("--scheme", settings.scheme,
                   "Of the default pool: rep:N, rs:K,M, srs:K,M,KP, ers-1:K,M,KP, ers-2:K,M,KP "
                   "(short ers:)")
      ->capture_default_str();
  command->add_option("--pool", arguments->pools,
                      "PREFIX=SCHEME: how objects whose keys start so are stored; repeatable");
  command->add_option("--port", settings.port, "Of the first proxy; node i listens on PORT+1+i")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str();
  command->add_option("--memory-mb", settings.memory_mb, "Of each node, in MiB")
      ->check(CLI::Range(16, 1 << 20))
      ->capture_default_str();
  command->add_option("--node-threads", settings.node_threads, "Worker threads of each node")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_flag("--tls", settings.tls,
                    "Clients, proxy and nodes speak TLS, with certificates made in DIR/tls");
  command->add_flag("--auth", settings.auth,
                    "Clients log in as a user of DIR/users, which is made if it is not there");
  command->add_option("--set", settings.set,
                      "KEY=VALUE: overrides the proxy's configuration, but listen and nodes");
  command->callback([arguments, &globals] { report(globals, start(*arguments, globals.json)); });
}

}  // namespace

void add_cluster_commands(CLI::App& app, Globals& globals) {
  CLI::App* group = app.add_subcommand("cluster", "Runs a cluster on this machine");
  group->require_subcommand(1);
  group->fallthrough();
  auto arguments = std::make_shared<Arguments>();
  add_start(*group, globals, arguments);

  const auto add = [&](const char* name, const char* help, bool takes_names, auto action) {
    CLI::App* command = group->add_subcommand(name, help);
    command->add_option("--dir", arguments->dir, "The cluster's directory")->required();
    if (takes_names) {
      command->add_option("NAME", arguments->names, "n0, n1, ..., proxy, proxy2, ..., or etcd")
          ->required();
    }
    command->callback(
        [arguments, action, &globals] { report(globals, with_cluster(*arguments, action)); });
  };
  add("stop", "Stops every process of the cluster; what it stored is gone", false,
      [](LocalCluster& cluster, const auto& names) { return cluster.stop(names); });
  add("kill", "Kills processes with SIGKILL", true,
      [](LocalCluster& cluster, const auto& names) { return cluster.kill(names); });
  add("restart", "Starts processes again; returns when the cluster has taken the nodes back, empty",
      true, [](LocalCluster& cluster, const auto& names) { return cluster.restart(names); });
  add("status", "Shows which processes run", false,
      [&globals](LocalCluster& cluster, const auto&) -> Result<> {
        print_cluster(cluster, globals.json);
        return {};
      });
}

}  // namespace elastripe::cli
