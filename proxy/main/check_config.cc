#include "proxy/main/check_config.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "proxy/base/bytes.h"
#include "proxy/base/names.h"
#include "proxy/main/cluster_config.h"

namespace elastripe::config {
namespace {

constexpr size_t kMaxPrefixBytes = 250;       // a key's length
constexpr uint64_t kMaxShardBytes = 7 << 20;  // a frame and an item take 8 MiB with their headers
constexpr uint64_t kMaxSegments = 16384;      // a record that lists them fits in a frame
constexpr uint64_t kMaxMapBytes = 8 << 20;    // so does a map
// A request may look at what it did so long after its end.
constexpr Duration kLateAnswer = std::chrono::seconds(2);

// `is_guarded`: whoever comes there must show who it is. `guard`: how that would be.
void check_endpoint(const Config& config, const Endpoint& endpoint, bool is_guarded,
                    std::string_view guard, const std::string& path, Problems& problems) {
  if (!is_host(endpoint.host)) {
    problems.report(path + ".host", "is '{}', must be a host name or an IP address",
                    escape_for_log(endpoint.host));
  } else if (!config.insecure && !is_guarded && !is_loopback(endpoint.host)) {
    problems.report(path + ".host",
                    "{} can be reached from other machines and there is no authentication: {}set "
                    "'insecure: true' if the network is trusted",
                    endpoint.host, guard);
  }
}

// What speaks TLS needs certificates. Whether the files are there is seen when they are read.
void check_files(const Config& config, bool needs_ca, const std::string& path, Problems& problems) {
  const TlsFiles& files = config.tls.files;
  for (const auto& [file, name] : {std::pair(&files.certificate, "certificate"),
                                   std::pair(&files.key, "key"), std::pair(&files.ca, "ca")}) {
    if (!file->empty() || (file == &files.ca && !needs_ca)) continue;
    problems.report(path, "needs tls.{}, which is not set", name);
  }
}

void check_listener(const Config& config, const ListenConfig& listen, const std::string& path,
                    Problems& problems) {
  constexpr size_t kMaxPathBytes = 107;  // of a Unix socket, in Linux
  if (listen.authenticate && config.users_file.empty()) {
    problems.report(path + ".authenticate", "needs users_file, which is not set");
  }
  if (listen.tls != ListenTls::kOff) {
    check_files(config, listen.tls == ListenTls::kMutual, path + ".tls", problems);
  }
  if (listen.path.size() > kMaxPathBytes) {
    problems.report(path + ".path", "has {} bytes, may have {}", listen.path.size(), kMaxPathBytes);
  }
}

void check_addresses(const Config& config, Problems& problems) {
  std::map<std::string, std::string> taken;  // address -> path
  const auto take = [&](const Endpoint& endpoint, bool is_guarded, std::string_view guard,
                        const std::string& path) {
    check_endpoint(config, endpoint, is_guarded, guard, path, problems);
    if (endpoint.port == 0) return;
    const auto [it, free] = taken.try_emplace(to_string(endpoint), path);
    if (!free) {
      problems.report(path + ".port", "{} is the address of {} too", it->first, it->second);
    }
  };
  std::map<std::string, std::string> sockets;  // path of a Unix socket -> path
  const auto listen = [&](const ListenConfig& at, const std::string& path) {
    check_listener(config, at, path, problems);
    if (at.path.empty()) {
      const bool is_guarded = at.authenticate || at.tls == ListenTls::kMutual;
      return take(at.address, is_guarded, "have clients log in ('authenticate: true'), or ", path);
    }
    const auto [it, free] = sockets.try_emplace(at.path, path);
    if (!free) problems.report(path + ".path", "{} is the path of {} too", at.path, it->second);
  };
  listen(config.listen, "listen");
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    listen(config.listeners[i], fmt::format("listeners.{}", i));
  }
  take(config.admin, /*is_guarded=*/false, "", "admin");
  for (size_t i = 0; i < config.nodes.size(); ++i) {
    take(config.nodes[i].address, config.tls.nodes,
         "speak TLS with the nodes ('tls.nodes: true'), or ", fmt::format("nodes.{}", i));
  }
  if (config.tls.nodes) check_files(config, /*needs_ca=*/true, "tls.nodes", problems);
}

void check_nodes(const Config& config, Problems& problems) {
  if (config.nodes.empty() && !config.joins) {
    problems.report("nodes", "at least one node must be listed, or one to `join`");
  }
  std::map<std::string_view, size_t> names;
  for (size_t i = 0; i < config.nodes.size(); ++i) {
    const NodeConfig& node = config.nodes[i];
    const std::string path = fmt::format("nodes.{}", i);
    if (!is_name(node.name)) {
      problems.report(path + ".name", "is '{}', must be 1..{} letters, digits, '.', '_' or '-'",
                      escape_for_log(node.name), kMaxNameBytes);
    }
    if (!is_name(node.domain)) {
      problems.report(path + ".domain", "is '{}', must be 1..{} letters, digits, '.', '_' or '-'",
                      escape_for_log(node.domain), kMaxNameBytes);
    }
    const auto [it, unique] = names.try_emplace(node.name, i);
    if (!unique) {
      problems.report(path + ".name", "{} is the name of nodes.{} too", node.name, it->second);
    }
  }
}

// Whoever writes there can keep a cluster from electing a decider, and name nodes to proxies that
// start; never more than that.
void check_etcd(const Config& config, Problems& problems) {
  const EtcdSettings& etcd = config.etcd.client;
  for (const std::string& url : etcd.endpoints) {
    const bool is_https = url.starts_with("https://");
    const auto at = parse_endpoint(std::string_view(url).substr(is_https ? 8 : 7));
    if (!is_https && !config.insecure && at && !is_loopback(at->host)) {
      problems.report("etcd.endpoints",
                      "{} is on another machine, in clear: use https, or set 'insecure: true' if "
                      "the network is trusted",
                      url);
    }
  }
  if (etcd.user.empty() != etcd.password_file.empty()) {
    problems.report("etcd.user", "and password_file are set together, or none of them");
  }
  if (etcd.tls.certificate.empty() != etcd.tls.key.empty()) {
    problems.report("etcd.certificate", "and key are set together, or none of them");
  }
  const auto printable = [](char c) { return c > 0x20 && c < 0x7f; };
  if (!std::ranges::all_of(config.etcd.prefix, printable)) {
    problems.report("etcd.prefix", "must be printable ASCII bytes without space");
  }
}

void check_pool(const Config& config, const PoolConfig& pool, const NodeCount& nodes,
                const std::string& path, Problems& problems) {
  const auto printable = [](char c) { return c > 0x20 && c < 0x7f; };
  if (pool.prefix.size() > kMaxPrefixBytes || !std::ranges::all_of(pool.prefix, printable)) {
    problems.report(path + ".prefix", "must be at most {} printable ASCII bytes without space",
                    kMaxPrefixBytes);
  }
  const std::string scheme = coding::to_string(pool.scheme);
  if (const auto valid = coding::validate(pool.scheme); !valid) {
    problems.report(path + ".scheme", "{}", valid.error());
  }
  if (pool.write_state != WriteState::kNarrow && pool.scheme.k == pool.scheme.k_prime) {
    problems.report(path + ".write_state", "is {}, but {} has one state only",
                    name_of(pool.write_state), scheme);
  }
  if (is_in_place(pool.updates) && !config.experimental) {
    problems.report(path + ".updates",
                    "is a method that is there to be measured, and survives no crash: set "
                    "'experimental: true' to use it");
  }
  const auto shards = static_cast<size_t>(pool.scheme.shards());
  if (shards > nodes.nodes) {
    problems.report(path + ".scheme", "{} needs {} nodes (k' + m), {} are listed", scheme, shards,
                    nodes.nodes);
  }
  if (shards > nodes.domains) {
    problems.report(path + ".scheme",
                    "{} needs {} failure domains (k' + m), the nodes are in {}: it could not "
                    "survive what it promises",
                    scheme, shards, nodes.domains);
  }
  if (pool.inline_max_bytes > config.ops.max_object_bytes) {
    problems.report(path + ".inline_max_bytes", "is {}, above max_object_bytes ({})",
                    pool.inline_max_bytes, config.ops.max_object_bytes);
  }
  // The largest are parities in state narrow.
  if (config.segment_bytes / pool.scheme.k > kMaxShardBytes) {
    problems.report("segment_bytes", "is {}: a shard of {} would be above {} bytes",
                    config.segment_bytes, scheme, kMaxShardBytes);
  }
}

void check_pools(const Config& config, const NodeCount& nodes, Problems& problems) {
  std::map<std::string_view, size_t> prefixes;
  for (size_t i = 0; i < config.pools.size(); ++i) {
    const PoolConfig& pool = config.pools[i];
    const std::string path = fmt::format("pools.{}", i);
    check_pool(config, pool, nodes, path, problems);
    const auto [it, unique] = prefixes.try_emplace(pool.prefix, i);
    if (!unique) {
      problems.report(path + ".prefix", "'{}' is the prefix of pools.{} too",
                      escape_for_log(pool.prefix), it->second);
    }
  }
  if (!prefixes.contains("")) {
    problems.report("pools", "one pool must have the empty prefix, for all other keys");
  }
}

// The pool of the key.
const PoolConfig& pool_of(const Config& config, std::string_view key) {
  const PoolConfig* longest = nullptr;
  for (const PoolConfig& pool : config.pools) {
    if (!key.starts_with(pool.prefix)) continue;
    if (longest == nullptr || pool.prefix.size() > longest->prefix.size()) longest = &pool;
  }
  return *longest;  // one has the empty prefix
}

int64_t ms(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

void check_timing(const Config& config, Problems& problems) {
  const decider::DeciderSettings& decider = config.decider;
  const OpsSettings& ops = config.ops;
  if (decider.suspect_after <= decider.heartbeat) {
    problems.report("timing.suspect_after_ms", "is {}, must be above heartbeat_ms ({})",
                    ms(decider.suspect_after), ms(decider.heartbeat));
  }
  if (decider.suspect_after > decider.heartbeat && decider.suspect_after < 2 * decider.heartbeat) {
    problems.report(
        "timing.suspect_after_ms",
        "is {}, must be at least twice heartbeat_ms ({}): one late answer would exclude "
        "a node",
        ms(decider.suspect_after), ms(decider.heartbeat));
  }
  if (decider.lease <= decider.suspect_after) {
    problems.report("timing.lease_ms",
                    "is {}, must be above suspect_after_ms ({}): nodes would stop serving before "
                    "they are missed",
                    ms(decider.lease), ms(decider.suspect_after));
  }
  if (decider.lease < 3 * decider.heartbeat) {
    problems.report(
        "timing.lease_ms",
        "is {}, must be at least three times heartbeat_ms ({}): a lease counts from the "
        "answer before, and would end between two heartbeats",
        ms(decider.lease), ms(decider.heartbeat));
  }
  if (ops.hedge_after >= ops.request_timeout) {
    problems.report("timing.hedge_after_ms",
                    "is {}, must be below request_timeout_ms ({}): reads would fail before they do "
                    "without a node",
                    ms(ops.hedge_after), ms(ops.request_timeout));
  }
  if (3 * ops.upload_idle <= ops.node_timeout) {
    problems.report("timing.upload_idle_ms",
                    "is {}: three times as long must be above {}, which one shard may take at a "
                    "request_timeout_ms of {}: uploads that go on would be taken for abandoned",
                    ms(ops.upload_idle), ms(ops.node_timeout), ms(ops.request_timeout));
  }
  if (ops.tombstone_keep < ops.request_timeout + kLateAnswer) {
    problems.report("timing.tombstone_keep_ms",
                    "is {}, must be at least {} above request_timeout_ms ({}): a write that takes "
                    "long could no longer tell whether it was stored before a deletion",
                    ms(ops.tombstone_keep), ms(kLateAnswer), ms(ops.request_timeout));
  }
}

// A map names the homes of each partition, and, until they are synced, the homes of before each of
// the changes since. After M + 1 changes in a row, all before the first is synced:
void check_map(const Config& config, Problems& problems) {
  constexpr uint64_t kNodeBytes = 256;
  const uint64_t m = config.max_parities;
  const uint64_t homes_bytes = 1 + 2 * (m + 1);
  const uint64_t partition_bytes = 3 + (m + 3) * homes_bytes;
  const uint64_t map_bytes =
      config.decider.partitions * partition_bytes + config.nodes.size() * kNodeBytes;
  if (map_bytes > kMaxMapBytes) {
    problems.report("partitions",
                    "is {}, too many for pools of m = {}: a cluster map could take {} bytes, and "
                    "one frame takes {}",
                    config.decider.partitions, m, map_bytes, kMaxMapBytes);
  }
}

// Frames that tell of them have room for so much.
void check_cluster_text(const Config& config, Problems& problems) {
  const size_t bytes = cluster_text(config).size();
  if (bytes > node::kMaxSettingsBytes) {
    problems.report("pools", "take {} bytes of a cluster map, which has room for {}: fewer, please",
                    bytes, node::kMaxSettingsBytes);
  }
}

}  // namespace

NodeCount nodes_of(const Config& config) {
  if (config.joins) return kEnoughNodes;  // pools are the cluster's
  std::set<std::string_view> domains;
  for (const NodeConfig& node : config.nodes) domains.insert(node.domain);
  return {.nodes = config.nodes.size(), .domains = domains.size()};
}

std::optional<std::string> obstacle_to_pools(const Config& running, const Config& wanted) {
  for (const PoolConfig& pool : wanted.pools) {
    if (pool.scheme.m <= running.max_parities) continue;
    return fmt::format("{} wants {} copies of each record, and nodes keep {}",
                       coding::to_string(pool.scheme), pool.scheme.m + 1, running.max_parities + 1);
  }
  return obstacle_to_logs(running, wanted);
}

std::optional<std::string> obstacle_to_logs(const Config& running, const Config& wanted) {
  // By all these prefixes, keys that are in one pool now are in one pool then.
  for (const auto* pools : {&running.pools, &wanted.pools}) {
    for (const PoolConfig& at : *pools) {
      const PoolConfig& before = pool_of(running, at.prefix);
      const PoolConfig& after = pool_of(wanted, at.prefix);
      // What was updated and is not folded yet is found by these.
      const bool has_other_logs = before.log_copies != after.log_copies ||
                                  (before.updates != after.updates &&
                                   (is_in_place(before.updates) || is_in_place(after.updates)));
      if (!has_other_logs) continue;
      return fmt::format(
          "updates of keys with the prefix '{}' may lie where they were logged before", at.prefix);
    }
  }
  return std::nullopt;
}

void check_config(const Config& config, Problems& problems, const NodeCount& nodes) {
  if (!is_name(config.cluster)) {
    problems.report("cluster", "is '{}', must be 1..{} letters, digits, '.', '_' or '-'",
                    escape_for_log(config.cluster), kMaxNameBytes);
  }
  if (!std::has_single_bit(config.decider.partitions)) {
    problems.report("partitions", "is {}, must be a power of two", config.decider.partitions);
  }
  if (config.ops.max_object_bytes / config.segment_bytes > kMaxSegments) {
    problems.report("max_object_bytes", "is {}, more than {} segments of segment_bytes ({})",
                    config.ops.max_object_bytes, kMaxSegments, config.segment_bytes);
  }
  if (!config.join.empty() && !parse_endpoint(config.join)) {
    problems.report("join", "is '{}', must be host:port", escape_for_log(config.join));
  }
  for (const auto& [name, bytes] : {std::pair("staged_bytes", config.staged_bytes),
                                    std::pair("read_bytes", config.read_bytes)}) {
    if (bytes >= config.segment_bytes) continue;
    problems.report(fmt::format("limits.{}", name), "is {}, below segment_bytes ({})", bytes,
                    config.segment_bytes);
  }
  check_nodes(config, problems);
  check_addresses(config, problems);
  check_etcd(config, problems);
  check_pools(config, nodes, problems);
  check_cluster_text(config, problems);
  check_timing(config, problems);
  check_map(config, problems);
}

}  // namespace elastripe::config
