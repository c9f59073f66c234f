#include "tools/cli/local_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/cli/admin.h"
#include "tools/cli/certificates.h"
#include "tools/cli/cluster_files.h"

namespace elastripe::cli {
namespace {

using std::chrono::seconds;
using Json = nlohmann::json;

constexpr seconds kNodeStart{20};
constexpr seconds kProxyReady{60};
constexpr seconds kTakenBack{30};
constexpr seconds kGracefulStop{10};
constexpr seconds kForcedStop{10};

Result<> write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return fail("cannot write {}", path.string());
  return {};
}

// A user who can write the directory, or what describes its cluster, decides which programs we
// start and which processes we end. Nothing to object to if it is not there.
Result<> check_trusted(const std::filesystem::path& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return {};
  if (found.st_uid != ::geteuid() && found.st_uid != 0) {
    return fail("{} belongs to someone else; choose another --dir", path.string());
  }
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fail(
        "{} can be written by others, who could have planted what is in it; chmod go-w, or "
        "choose another --dir",
        path.string());
  }
  return {};
}

// One user with a password that nobody can guess, unless there are users.
Result<> make_users(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST) return {};
  std::array<unsigned char, 16> random{};
  std::string line = "elastripe:";
  bool is_whole = fd >= 0 && ::getentropy(random.data(), random.size()) == 0;
  for (const unsigned char byte : random) line += fmt::format("{:02x}", byte);
  line += "\n";
  is_whole = is_whole && ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (fd >= 0) ::close(fd);
  if (is_whole) return {};
  return fail("cannot write {}", path.string());
}

// As in n7 or proxy2: a number without leading zeros behind the kind, from `least` on.
bool is_numbered(std::string_view name, std::string_view kind, int least) {
  if (!name.starts_with(kind)) return false;
  const std::string_view digits = name.substr(kind.size());
  int number = -1;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return read.ec == std::errc{} && number >= least &&
         std::to_string(number) == digits;  // all of them
}

// What start() writes; other files of the directory are not ours.
bool is_process_file(const std::filesystem::path& path) {
  const std::string ending = path.extension();
  const std::string name = path.stem();
  if (ending != ".pid" && ending != ".log") return false;
  return name == kProxyName || name == kEtcdName || is_numbered(name, kProxyName, 2) ||
         is_numbered(name, "n", 0);
}

bool is_proxy(const std::string& name) { return name.starts_with(kProxyName); }

// From 0.
int index_of_proxy(const std::string& name) {
  return name == kProxyName ? 0 : std::atoi(name.c_str() + std::strlen(kProxyName)) - 1;
}

}  // namespace

std::vector<std::string> LocalCluster::names() const {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(settings_.nodes) + static_cast<size_t>(settings_.proxies));
  for (int i = 0; i < settings_.nodes; ++i) names.push_back("n" + std::to_string(i));
  if (settings_.etcd) names.emplace_back(kEtcdName);
  std::ranges::copy(proxies(), std::back_inserter(names));
  return names;
}

std::vector<std::string> LocalCluster::proxies() const {
  std::vector<std::string> names{kProxyName};
  for (int i = 2; i <= settings_.proxies; ++i) names.push_back(kProxyName + std::to_string(i));
  return names;
}

std::string LocalCluster::server(const std::string& proxy) const {
  return fmt::format("{}:{}", settings_.address, port_of(proxy));
}

std::string LocalCluster::admin_address(const std::string& proxy) const {
  return fmt::format("{}:{}", settings_.address, admin_port_of(proxy));
}

int LocalCluster::port_of(const std::string& name) const {
  if (name == kEtcdName) return last_proxy_port(settings_) + 1;
  if (!is_proxy(name)) return settings_.port + 1 + std::atoi(name.c_str() + 1);
  const int index = index_of_proxy(name);
  return index == 0 ? settings_.port : settings_.port + settings_.nodes + 2 * index;
}

int LocalCluster::admin_port_of(const std::string& proxy) const {
  return index_of_proxy(proxy) == 0 ? settings_.port + 1 + settings_.nodes : port_of(proxy) + 1;
}

int LocalCluster::last_port() const {
  return last_proxy_port(settings_) + (settings_.etcd ? 2 : 0);
}

std::optional<std::string> LocalCluster::running_proxy() const {
  for (const std::string& proxy : proxies()) {
    if (status(proxy).running) return proxy;
  }
  return std::nullopt;
}

std::string LocalCluster::tls_file(const char* name) const {
  return std::filesystem::absolute(dir_ / "tls" / name);
}

std::filesystem::path LocalCluster::file_of(const std::string& name, const char* ending) const {
  return dir_ / (name + ending);
}

Result<> LocalCluster::check_names(const std::vector<std::string>& wanted) const {
  const std::vector<std::string> known = names();
  for (const std::string& name : wanted) {
    if (std::ranges::find(known, name) == known.end()) {
      const std::string proxies =
          settings_.proxies == 1 ? kProxyName : fmt::format("proxy to proxy{}", settings_.proxies);
      return fail("no {} here: the cluster has n0 to n{}{} and {}", name, settings_.nodes - 1,
                  settings_.etcd ? ", etcd" : "", proxies);
    }
  }
  return {};
}

// The one that is installed; alone, with its data in the directory.
std::vector<std::string> LocalCluster::command_of_etcd() const {
  const int port = port_of(kEtcdName);
  const std::string clients = etcd_url(settings_, port);
  const std::string peers = fmt::format("http://127.0.0.1:{}", port + 1);  // it has none
  std::vector<std::string> argv{"/usr/bin/env",
                                "etcd",
                                "--name=etcd",
                                "--data-dir=" + std::filesystem::absolute(dir_ / "etcd").string(),
                                "--listen-client-urls=" + clients,
                                "--advertise-client-urls=" + clients,
                                "--listen-peer-urls=" + peers,
                                "--initial-advertise-peer-urls=" + peers,
                                "--initial-cluster=etcd=" + peers,
                                "--logger=zap"};
  if (settings_.tls) {
    argv.insert(argv.end(),
                {"--cert-file=" + tls_file("node.pem"), "--key-file=" + tls_file("node.key"),
                 "--client-cert-auth", "--trusted-ca-file=" + tls_file("ca.pem")});
  }
  return argv;
}

Result<std::vector<std::string>> LocalCluster::command_of(const std::string& name) const {
  if (name == kEtcdName) return command_of_etcd();
  auto bin = own_directory();
  if (!settings_.programs.empty()) bin = settings_.programs;
  if (!bin) return std::unexpected(bin.error());
  if (is_proxy(name)) {
    std::vector<std::string> argv{*bin / "elastripe-proxy", "--config",
                                  std::filesystem::absolute(dir_ / "elastripe.yaml")};
    const auto set = [&](std::string setting) {
      argv.emplace_back("--set");
      argv.push_back(std::move(setting));
    };
    for (const std::string& setting : settings_.set) set(setting);
    if (name == kProxyName) return argv;
    // What the first one has for itself.
    set(fmt::format("listen.port={}", port_of(name)));
    set(fmt::format("admin.port={}", admin_port_of(name)));
    if (settings_.tls || settings_.auth) {
      const auto path = std::filesystem::absolute(file_of(name, ".sock"));
      set("listeners.0.path=" + quoted(path.string()));
    }
    return argv;
  }
  std::vector<std::string> argv{*bin / "elastripe-node",
                                "--name",
                                name,
                                "--listen",
                                settings_.address,
                                "--port",
                                std::to_string(port_of(name)),
                                "--memory-mb",
                                std::to_string(settings_.memory_mb),
                                "--threads",
                                std::to_string(settings_.node_threads)};
  if (settings_.log_units > 0) {
    argv.insert(argv.end(), {"--log-units", std::to_string(settings_.log_units)});
  }
  if (settings_.tls) {
    argv.insert(argv.end(), {"--tls-certificate", tls_file("node.pem"), "--tls-key",
                             tls_file("node.key"), "--tls-ca", tls_file("ca.pem")});
  }
  // A user who runs this as root, in a container mostly, has no other user to name.
  if (::geteuid() == 0) argv.insert(argv.end(), {"--user", "root"});
  return argv;
}

Result<> LocalCluster::write_files() const {
  std::error_code error;
  std::filesystem::create_directories(dir_, error);
  if (error) return fail("cannot make {}: {}", dir_.string(), error.message());
  if (auto done = check_trusted(dir_); !done) return done;  // it may be someone else's meanwhile
  // what an earlier cluster of this directory left, with as many nodes as it had
  std::vector<std::filesystem::path> left;
  for (const auto& entry : std::filesystem::directory_iterator(dir_, error)) {
    if (is_process_file(entry.path())) left.push_back(entry.path());
  }
  for (const auto& path : left) std::filesystem::remove(path, error);
  if (settings_.etcd) std::filesystem::remove_all(dir_ / "etcd", error);
  if (settings_.tls) {
    const CertificateOptions options{.hosts = {settings_.address}};
    const auto made = make_cluster_certificates(dir_ / "tls", options);
    if (!made) return std::unexpected(made.error());
  }
  if (settings_.auth) {
    if (auto done = make_users(dir_ / kUsersName); !done) return done;
  }
  if (auto done = write_text(dir_ / "elastripe.yaml", config_of(settings_, dir_)); !done)
    return done;
  return write_text(dir_ / "cluster.json", to_json(settings_).dump(2) + "\n");
}

// The directory may be any: nothing in it is replaced or removed that an earlier cluster of it did
// not write. Its configuration says so itself, and its logs and pids come with its cluster.json.
Result<> LocalCluster::check_files() const {
  const auto foreign = [](const std::filesystem::path& path) {
    return fail("{} was not written by elastripe cluster start; move it, or choose another --dir",
                path.string());
  };
  const auto exists = [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::exists(std::filesystem::symlink_status(path, error));
  };
  const auto config = dir_ / "elastripe.yaml";
  if (exists(config)) {
    std::ifstream file(config);
    std::string first_line;
    if (!std::getline(file, first_line) || first_line != kConfigHeader) return foreign(config);
  }
  const auto description = dir_ / "cluster.json";
  if (exists(description)) return open(dir_) ? Result<>{} : foreign(description);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir_, error)) {
    if (is_process_file(entry.path())) return foreign(entry.path());
  }
  return {};
}

// From a file elsewhere: a start that is refused leaves the directory as it was.
Result<> LocalCluster::check_config() const {
  std::error_code error;
  std::string place = std::filesystem::temp_directory_path(error) / "elastripe-XXXXXX";
  if (error || ::mkdtemp(place.data()) == nullptr) return fail("no room for temporary files");
  const FinishedCommand finished = [&]() -> FinishedCommand {
    const LocalCluster draft(place, settings_);
    if (auto done = draft.write_files(); !done) return {false, done.error()};
    FinishedCommand checked;
    for (const std::string& proxy : proxies()) {
      auto argv = draft.command_of(proxy);
      if (!argv) return {false, argv.error()};
      argv->emplace_back("--check-config");
      checked = run_to_end(*argv);
      if (!checked.ok) break;
    }
    return checked;
  }();
  std::filesystem::remove_all(place, error);
  if (finished.ok) return {};
  std::string reason = finished.output.substr(0, finished.output.rfind('\n'));
  if (const size_t at = reason.find(place); at != std::string::npos) {
    reason.replace(at, place.size(), dir_.string());
  }
  return fail("{}", reason);
}

Result<LocalCluster> LocalCluster::create(const std::filesystem::path& dir,
                                          ClusterSettings settings) {
  LocalCluster cluster(dir, std::move(settings));
  const ClusterSettings& wanted = cluster.settings_;
  if (cluster.last_port() > 65535) return fail("not enough ports above the first");
  for (const auto& path : {dir, dir / "cluster.json"}) {
    if (auto done = check_trusted(path); !done) return std::unexpected(done.error());
  }
  if (const auto old = open(dir)) {
    for (const std::string& name : old->names()) {
      if (old->status(name).running) {
        return fail("a cluster runs in {}; stop it with: elastripe cluster stop --dir {}",
                    dir.string(), dir.string());
      }
    }
  }
  for (int port = wanted.port; port <= cluster.last_port(); ++port) {
    if (!port_is_free(wanted.address, static_cast<uint16_t>(port))) {
      return fail("port {} is taken (the cluster needs {} to {}); choose others with --port", port,
                  wanted.port, cluster.last_port());
    }
  }
  if (auto done = cluster.check_files(); !done) return std::unexpected(done.error());
  if (auto done = cluster.check_config(); !done) return std::unexpected(done.error());
  if (auto done = cluster.write_files(); !done) return std::unexpected(done.error());
  return cluster;
}

Result<LocalCluster> LocalCluster::open(const std::filesystem::path& dir) {
  const auto description = dir / "cluster.json";
  std::ifstream file(description);
  if (!file) return fail("no cluster was started in {}", dir.string());
  for (const auto& path : {dir, description}) {
    if (auto done = check_trusted(path); !done) return std::unexpected(done.error());
  }
  try {
    return LocalCluster(dir, from_json(Json::parse(file)));
  } catch (const Json::exception& error) {
    return fail("{}: {}", description.string(), error.what());
  }
}

ProcessStatus LocalCluster::status(const std::string& name) const {
  ProcessStatus status{name, port_of(name), false, {}};
  if (const auto process = read_pid_file(file_of(name, ".pid"))) {
    status.process = *process;
    status.running = is_running(*process);
  }
  return status;
}

Result<> LocalCluster::wait_for_node(const std::string& name, const ProcessId& process) const {
  const auto port = static_cast<uint16_t>(port_of(name));
  wait_until([&] { return !is_running(process) || port_accepts(settings_.address, port); },
             kNodeStart);
  if (is_running(process) && port_accepts(settings_.address, port)) return {};
  const auto log = file_of(name, ".log");
  return fail("{} {}; the end of {}:\n{}", name,
              is_running(process) ? "does not accept connections" : "ended", log.string(),
              tail_of(log, 15));
}

Result<> LocalCluster::wait_for_proxy(const std::string& name, const ProcessId& process) const {
  Result<> ready = fail("not asked yet");
  wait_until(
      [&] {
        if (!is_running(process)) return true;
        auto admin = AdminClient::of_server(server(name), admin_address(name));
        ready = admin ? admin->ready() : std::unexpected(admin.error());
        return ready.has_value();
      },
      kProxyReady);
  if (ready && is_running(process)) return {};
  const auto log = file_of(name, ".log");
  const std::string who = settings_.proxies == 1 ? "the proxy" : name;
  const std::string what =
      who + (is_running(process) ? " is not ready: " + ready.error() : " ended");
  return fail("{}; the end of {}:\n{}", what, log.string(), tail_of(log, 15));
}

Result<> LocalCluster::start(const std::vector<std::string>& wanted) {
  std::vector<std::string> etcd, others;
  for (const std::string& name : wanted) (name == kEtcdName ? etcd : others).push_back(name);
  for (const auto& group : {etcd, others}) {
    if (auto done = start_together(group); !done) return done;
  }
  return {};
}

Result<> LocalCluster::start_together(const std::vector<std::string>& wanted) {
  std::vector<std::pair<std::string, ProcessId>> started;
  for (const std::string& name : wanted) {
    if (status(name).running) continue;
    const auto argv = command_of(name);
    if (!argv) return std::unexpected(argv.error());
    const auto process = spawn_detached(*argv, file_of(name, ".log"));
    if (!process) return std::unexpected(process.error());
    if (auto done = write_pid_file(file_of(name, ".pid"), *process); !done) return done;
    started.emplace_back(name, *process);
  }
  for (const auto& [name, process] : started) {
    auto done = is_proxy(name) ? wait_for_proxy(name, process) : wait_for_node(name, process);
    if (!done) return done;
  }
  return {};
}

// What proxies still do for their clients needs the nodes.
Result<> LocalCluster::stop(const std::vector<std::string>& wanted) {
  std::vector<std::string> proxies, nodes;
  for (const std::string& name : wanted) (is_proxy(name) ? proxies : nodes).push_back(name);
  const auto first = stop_together(proxies);
  const auto second = stop_together(nodes);
  return first ? second : first;
}

Result<> LocalCluster::stop_together(const std::vector<std::string>& wanted) {
  std::vector<ProcessId> processes;
  for (const std::string& name : wanted) {
    const ProcessStatus now = status(name);
    if (now.running && send_signal(now.process, SIGTERM)) processes.push_back(now.process);
  }
  const auto all_gone = [&] { return std::ranges::none_of(processes, is_running); };
  if (!wait_until(all_gone, kGracefulStop)) {
    for (const ProcessId& process : processes) send_signal(process, SIGKILL);
    if (!wait_until(all_gone, kForcedStop)) return fail("a process does not end");
  }
  for (const std::string& name : wanted) std::filesystem::remove(file_of(name, ".pid"));
  return {};
}

Result<LocalCluster::ToldNodes> LocalCluster::told_nodes() const {
  Result<ToldNodes> told = fail("no proxy runs");
  for (const std::string& proxy : proxies()) {
    if (!status(proxy).running) continue;
    told = told_nodes(proxy);
    if (told) break;
  }
  return told;
}

Result<LocalCluster::ToldNodes> LocalCluster::told_nodes(const std::string& proxy) const {
  const auto admin = AdminClient::of_server(server(proxy), admin_address(proxy));
  if (!admin) return std::unexpected(admin.error());
  const auto answer = admin->get("/v1/nodes");
  if (!answer) return std::unexpected(answer.error());
  ToldNodes nodes;
  for (const auto& node : answer->value("nodes", nlohmann::ordered_json::array())) {
    ToldNode& told = nodes[node.value("name", "")];
    if (node.value("state", "") == "up") told.incarnation_up = node.value("incarnation", "");
    told.process = node.value("process", "");
    told.lacks = node.value("lacks", "");
  }
  return nodes;
}

Result<> LocalCluster::restart(const std::vector<std::string>& wanted) {
  std::vector<std::string> nodes = wanted;
  std::erase_if(nodes, [](const std::string& name) { return is_proxy(name) || name == kEtcdName; });
  ToldNodes before;
  if (!nodes.empty() && running_proxy()) {
    // A proxy that does not answer now may later, of the new processes only.
    if (auto told = told_nodes()) before = std::move(*told);
  }
  if (auto stopped = stop(wanted); !stopped) return stopped;
  if (auto started = start(wanted); !started) return started;
  const auto proxy = running_proxy();
  if (!proxy) return {};
  std::string lacks;
  const auto is_settled = [&](const std::string& name) {
    auto now = told_nodes();
    if (!now) return false;
    const bool is_new = (*now)[name].process != before[name].process;
    lacks = is_new ? (*now)[name].lacks : "";
    const std::string& up = (*now)[name].incarnation_up;
    return !lacks.empty() || (!up.empty() && before[name].incarnation_up != up);
  };
  for (const std::string& name : nodes) {
    const bool settled = wait_until([&] { return is_settled(name); }, kTakenBack);
    if (!lacks.empty()) {
      return fail(
          "{} runs, but it lacks {}, which the cluster uses: it stays out until it is upgraded",
          name, lacks);
    }
    if (settled) continue;
    const auto admin = AdminClient::of_server(server(*proxy), admin_address(*proxy));
    const Result<> ready = admin ? admin->ready() : std::unexpected(admin.error());
    return fail("{} runs, but the proxy has not taken it back after {} s{}", name,
                kTakenBack.count(), ready ? "" : ": " + ready.error());
  }
  return {};
}

Result<> LocalCluster::kill(const std::vector<std::string>& wanted) {
  std::vector<ProcessId> processes;
  for (const std::string& name : wanted) {
    const ProcessStatus now = status(name);
    if (!now.running) return fail("{} is not running", name);
    processes.push_back(now.process);
  }
  for (const ProcessId& process : processes) send_signal(process, SIGKILL);
  const auto all_gone = [&] { return std::ranges::none_of(processes, is_running); };
  if (!wait_until(all_gone, kForcedStop)) return fail("a process does not end");
  return {};
}

}  // namespace elastripe::cli
