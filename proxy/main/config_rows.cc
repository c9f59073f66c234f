#include "proxy/main/config_rows.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "proxy/base/bytes.h"
#include "proxy/base/names.h"

namespace elastripe::config {
namespace {

using namespace setting;

constexpr uint64_t kMaxKeepaliveMs = 32'767'000;  // Linux takes no longer TCP_KEEPIDLE
constexpr Words<TimingProfile, 2> kProfiles{
    {{TimingProfile::kStandard, "standard"}, {TimingProfile::kLocal, "local"}}};

constexpr Words<UpdateMethod, 10> kUpdateMethods{{{UpdateMethod::kHome, "home"},
                                                  {UpdateMethod::kOff, "off"},
                                                  {UpdateMethod::kFo, "fo"},
                                                  {UpdateMethod::kPl, "pl"},
                                                  {UpdateMethod::kPlr, "plr"},
                                                  {UpdateMethod::kCord, "cord"},
                                                  {UpdateMethod::kDpu, "dpu"},
                                                  {UpdateMethod::kTsue, "tsue"},
                                                  {UpdateMethod::kTsue2, "tsue2"},
                                                  {UpdateMethod::kParix, "parix"}}};

constexpr Words<ListenTls, 3> kListenTls{
    {{ListenTls::kOff, "off"}, {ListenTls::kOn, "on"}, {ListenTls::kMutual, "mutual"}}};

// The paths of the settings of a listener.
struct ListenPaths {
  std::string_view host, port, path, mode, tls, authenticate;
};
constexpr ListenPaths kOfFirstListener{"listen.host", "listen.port", "listen.path",
                                       "listen.mode", "listen.tls",  "listen.authenticate"};
constexpr ListenPaths kOfListener{"host", "port", "path", "mode", "tls", "authenticate"};

std::expected<void, std::string> read_mode(std::string_view text, uint32_t& mode) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 8);
  if (error != std::errc{} || end != text.data() + text.size() || number > 0777) {
    return std::unexpected(fmt::format("is '{}', must be an octal number up to 0777", text));
  }
  mode = number;
  return {};
}

void listen_settings(const ListenPaths& paths, ListenConfig& listen, Rows& row) {
  row(paths.host, listen.address.host, AnyText{},
      "Where clients connect: a name or an IP address.");
  row(paths.port, listen.address.port, Range{0, 65535}, "Port for clients; 0 takes any free one.");
  row(paths.path, listen.path, AnyText{},
      "Path of a Unix socket to listen on, in place of host and port.");
  row(
      paths.mode, [&listen] { return fmt::format("0{:o}", listen.mode); },
      [&listen](std::string_view text) { return read_mode(text, listen.mode); },
      "Who may connect to the Unix socket: its mode, octal.");
  row(paths.tls, listen.tls, kListenTls,
      "Whether clients speak TLS. on: the proxy shows its certificate. mutual: and clients show "
      "one "
      "of the CA.");
  row(paths.authenticate, listen.authenticate, TrueOrFalse{},
      "Whether clients must log in as a user of `users_file`: by memcached's ASCII authentication, "
      "or by SASL PLAIN in the binary protocol.");
}

void process_settings(Config& c, Rows& row) {
  row("cluster", c.cluster, AnyText{}, "Name of the cluster, for logs and the admin interface.");
  row("join", c.join, AnyText{},
      "host:port of any node of a cluster that there is, in place of `nodes`: the proxy asks it "
      "for "
      "the others, and for all that is the cluster's, until it answers. It forms no cluster. With "
      "neither, it learns of a node from etcd, in the same way.");
  row("insecure", c.insecure, TrueOrFalse{},
      "Whether the network is trusted. If not, nothing listens beyond loopback without "
      "authentication: clients need a listener that authenticates them (users_file, or tls: "
      "mutual), nodes need `tls.nodes`; and the admin interface, which asks nobody, is for "
      "loopback.");
  row("experimental", c.experimental, TrueOrFalse{},
      "Whether settings are accepted that are there to be measured, and keep fewer promises than "
      "all else: the baselines among the methods of updates.");
  row("threads", c.threads, Range{0, 256}, "Worker threads; 0 means one per CPU.");
  row.reloaded([&] {
    row("log_level", c.log_level, kLogLevels, "The least important lines that are logged.");
  });
  row("segment_bytes", c.segment_bytes, Sizes{4 * kKiB, 64 * kMiB},
      "Larger objects are stored in segments of this size; a shard (segment_bytes / k) may have at "
      "most 7 MiB.");
  row.reloaded([&] {
    row("record_cache_bytes", c.record_cache_bytes, Sizes{0, 1024 * kGiB},
        "Memory for cached records, over all threads; 0 turns the cache off.");
    row("users_file", c.users_file, AnyText{},
        "File of the users who may be clients where `authenticate` is true: a line user:password "
        "each, as of memcached. Nobody but its owner may read it (mode 0600). SIGHUP has it read "
        "again.");
  });
  listen_settings(kOfFirstListener, c.listen, row);
  row.reloaded([&] {
    row("tls.certificate", c.tls.files.certificate, AnyText{},
        "PEM file of the proxy's certificate, with those between it and the CA behind it. SIGHUP "
        "has these files read again.");
    row("tls.key", c.tls.files.key, AnyText{}, "PEM file of its private key.");
    row("tls.ca", c.tls.files.ca, AnyText{},
        "PEM file of the CA whose certificates are believed: those of nodes, and of clients where "
        "`tls` is mutual.");
  });
  row("tls.nodes", c.tls.nodes, TrueOrFalse{},
      "Whether the proxy speaks TLS with the nodes. Both show certificates of the CA, and that of "
      "a "
      "node must have its host.");
  row("admin.host", c.admin.host, AnyText{}, "Where the admin interface listens.");
  row("admin.port", c.admin.port, Range{0, 65535},
      "Port of the admin interface; 0 takes any free one.");
}

std::expected<void, std::string> read_urls(std::string_view text, std::vector<std::string>& urls) {
  urls.clear();
  while (!text.empty()) {
    const std::string_view url = text.substr(0, text.find(','));
    text.remove_prefix(std::min(url.size() + 1, text.size()));
    const size_t scheme = url.starts_with("https://") ? 8 : url.starts_with("http://") ? 7 : 0;
    const auto at = parse_endpoint(url.substr(scheme));
    if (scheme == 0 || !at || !is_host(at->host) || at->port == 0) {
      return std::unexpected(
          fmt::format("has '{}', must be URLs like https://HOST:2379, with "
                      "commas between them",
                      escape_for_log(url)));
    }
    urls.emplace_back(url);
  }
  return {};
}

void etcd_settings(EtcdConfig& etcd, Rows& row) {
  row(
      "etcd.endpoints",
      [&etcd] { return fmt::format("{}", fmt::join(etcd.client.endpoints, ",")); },
      [&etcd](std::string_view text) { return read_urls(text, etcd.client.endpoints); },
      "URLs of etcd's members (https://HOST:2379), with commas between them; version 3.4 or "
      "later, and its JSON gateway, which it has by default. Empty: the nodes elect who decides.");
  row("etcd.prefix", etcd.prefix, AnyText{},
      "All keys of the cluster begin with it, and those of no other cluster do; empty: /elastripe/ "
      "and the name of the cluster.");
  row("etcd.user", etcd.client.user, AnyText{},
      "Who logs in there, where etcd has authentication enabled; it reads and writes under the "
      "prefix.");
  row("etcd.password_file", etcd.client.password_file, AnyText{},
      "File whose first line is its password. Nobody but its owner may read it (mode 0600).");
  row("etcd.ca", etcd.client.tls.ca, AnyText{},
      "PEM file of the CA whose certificates are believed for https; empty: those of the system.");
  row("etcd.certificate", etcd.client.tls.certificate, AnyText{},
      "PEM file of the certificate that is shown to etcd; empty: none.");
  row("etcd.key", etcd.client.tls.key, AnyText{}, "PEM file of its private key.");
  row("etcd.ttl_ms", etcd.ttl, Range{3000, 60'000},
      "For so long etcd keeps the key of a proxy that it does not hear of, in whole seconds; a "
      "proxy "
      "that was elected and does not begin holds up the others for as long.");
}

void memory_settings(Config& c, Rows& row) {
  row("limits.staged_bytes", c.staged_bytes, Sizes{kMiB, 1024 * kGiB},
      "Memory for segments of values that are being written, with their parities, from when they "
      "begin to arrive; in equal parts for the threads, two segments at least. When it is used up, "
      "such writes wait. Values up to 64 KiB have memory of their own beside it, up to 128 KiB for "
      "each connection.");
  row("limits.read_bytes", c.read_bytes, Sizes{kMiB, 1024 * kGiB},
      "Memory for segments of values that are read, from before they are fetched until their "
      "client has taken them, in equal parts for the threads, two segments at least. When it is "
      "used up, reads wait. Values up to 64 KiB have memory of their own beside it, up to 128 KiB "
      "for each connection.");
}

void keepalive_settings(Config& c, Rows& row) {
  row("timing.client_keepalive_ms", c.client_keepalive, Range{0, kMaxKeepaliveMs},
      "After so long without a byte the client's machine is asked (TCP keepalive, in whole "
      "seconds) whether it is there, and has half as long to answer; 0: it is not asked.");
}

void shutdown_settings(Config& c, Rows& row) {
  row("timing.shutdown_delay_ms", c.shutdown_delay, Range{0, kDayMs},
      "From SIGTERM or SIGINT on the proxy is not ready (/readyz), and serves for so long before "
      "it "
      "takes no more connections: as long as load balancers need to notice.");
  row("timing.shutdown_wait_ms", c.shutdown_wait, Range{0, kDayMs},
      "Then what clients have asked for, and are sending or taking, may go on for so long before "
      "it "
      "is cancelled.");
}

}  // namespace

Settings settings_of(NodeConfig& node) {
  Rows row;
  row("name", node.name, AnyText{}, "What the node is called, here and on the ring.");
  row("host", node.address.host, AnyText{}, "Where it listens: a name or an IP address.");
  row("port", node.address.port, Range{1, 65535}, "The port where it listens.");
  row("domain", node.domain, AnyText{},
      "What fails together (a machine, a rack): the shards of one segment are on nodes of "
      "different domains. Left out, it is the node's name.");
  return row.take();
}

Settings settings_of(ListenConfig& listen) {
  Rows row;
  listen_settings(kOfListener, listen, row);
  return row.take();
}

namespace {

void pool_settings(PoolConfig& pool, Rows& row) {
  row("prefix", pool.prefix, AnyText{}, "Keys that begin with it are in the pool.");
  row(
      "scheme", [&pool] { return coding::to_string(pool.scheme); },
      [&pool](std::string_view text) -> std::expected<void, std::string> {
        const auto scheme = coding::parse_scheme(text);
        if (!scheme) return std::unexpected(scheme.error());
        pool.scheme = *scheme;
        return {};
      },
      "How a segment is coded.\n"
      "rep:N           N copies\n"
      "rs:K,M          Reed-Solomon, K data and M parity nodes\n"
      "ers-2:K,M,KP    elastic: stored with K, may go to KP and back without moving data; ers-1 "
      "(row\n"
      "                order) and srs (stretched) are for comparison. `ers:` is short for "
      "`ers-2:`.");
  row("inline_max_bytes", pool.inline_max_bytes, Sizes{0, kMiB},
      "Objects up to this size are stored whole, M + 1 times.");
  row("degraded_writes", pool.degraded_writes, TrueOrFalse{},
      "Whether writes go on while some of the nodes that a scheme needs are down (with less "
      "redundancy until they are repaired); else they are refused.");
  row("unreadable", pool.unreadable_is_miss, Words<bool, 2>{{{false, "error"}, {true, "miss"}}},
      "What clients are told of a key that can not be read now, or is lost. error: an error. miss: "
      "that there is no such key, which is all that some clients can go on after; only for "
      "caches.");
  row("write_state", pool.write_state, kWriteStates,
      "The state that new values of an elastic scheme are written in. narrow: coded with K. wide: "
      "with KP, which takes less memory. as_before: as the object that is replaced, if the proxy "
      "knows that without asking: the client's thread has read the object since its transition, or "
      "written it so, and still has its record cached; or the value is larger than a segment. Else "
      "narrow.");
  row("updates", pool.updates, kUpdateMethods,
      "How a part of a striped value is updated (ms with an offset). home: by a log at the homes "
      "of its record, which is folded into the shards later. off: it is written into the shards at "
      "once. fo, pl, plr, cord, dpu, tsue, tsue2, parix: baselines that change shards in place, to "
      "be measured; they survive no crash, and need `experimental`, and a restart.");
  row("log_copies", pool.log_copies,
      Words<LogCopies, 2>{{{LogCopies::kAll, "all"}, {LogCopies::kTwo, "two"}}},
      "How many nodes have an update before it is acknowledged. all: M + 1, so that it survives M "
      "crashes, as all else does. two: it survives one until it is folded, and costs less.");
  row("log_rounds", pool.log_rounds,
      Words<LogRounds, 2>{{{LogRounds::kOne, "one"}, {LogRounds::kTwo, "two"}}},
      "How many rounds an update takes. one: to all copies at once, which is quicker where updates "
      "of an object come one by one. two: first to the node that numbers it, then to the others.");
}

}  // namespace

Settings settings_of(PoolConfig& pool) {
  Rows row;
  row.cluster_wide([&] { pool_settings(pool, row); });
  return row.take();
}

namespace {

// The profile comes first: settings beside it override it.
void profile_settings(Config& c, Rows& row) {
  row("timing.profile", c.profile, kProfiles,
      "Times that go together. standard: the values below, for any network. local: heartbeat 50, "
      "suspect_after 300, lease 900, hedge_after 50, for machines in one room whose processes "
      "never stall for 300 ms. What is set below overrides either.");
  row.after_reading([&c] {
    if (c.profile == TimingProfile::kStandard) return;
    c.decider.heartbeat = std::chrono::milliseconds(50);
    c.decider.suspect_after = std::chrono::milliseconds(300);
    c.decider.lease = std::chrono::milliseconds(900);
    c.ops.hedge_after = std::chrono::milliseconds(50);
  });
}

}  // namespace

Settings settings_of(Config& config) {
  Rows row;
  process_settings(config, row);
  etcd_settings(config.etcd, row);
  profile_settings(config, row);
  each_setting(config.decider, row);
  row.reloaded([&] {
    each_setting(config.ops, row);
    each_setting(config.recycler, row);
    each_setting(config.repair, row);
    each_setting(config.scrub, row);
    each_setting(config.sessions, row);
    memory_settings(config, row);
    keepalive_settings(config, row);
    shutdown_settings(config, row);
  });
  return row.take();
}

std::vector<Section> sections_of(Config& config) {
  std::vector<Section> sections{{"listen", "For clients."},
                                {"listeners",
                                 "Further places for clients, each with the settings of `listen`: "
                                 "`- {host: ..., port: ..., tls: on}`."},
                                {"tls", "Certificates, for whoever speaks TLS."},
                                {"admin", "Admin interface: status, /metrics, /healthz, /readyz."},
                                {"etcd", "Where etcd elects the proxy that decides."},
                                {"nodes", "The nodes, at least k' + m of every pool."},
                                {"pools",
                                 "How objects are stored, by the longest prefix of their key. One "
                                 "pool has the empty prefix."},
                                {"limits", "What clients may take of the proxy."},
                                {"repair", "Making again what crashes have taken."},
                                {"scrub", "Looking whether all shards fit together."},
                                {"timing", "After how long what happens."}};
  const auto items_of = [&](std::string_view name) -> std::vector<Settings>& {
    return std::ranges::find(sections, name, &Section::name)->items;
  };
  for (ListenConfig& listen : config.listeners) {
    items_of("listeners").push_back(settings_of(listen));
  }
  for (NodeConfig& node : config.nodes) items_of("nodes").push_back(settings_of(node));
  for (PoolConfig& pool : config.pools) items_of("pools").push_back(settings_of(pool));
  return sections;
}

void read_pools(MapReader& map, Config& config) {
  if (map.has("pools")) config.pools.clear();
  map.list("pools", [&](MapReader& under) {
    PoolConfig pool;
    under.settings(settings_of(pool));
    config.pools.push_back(std::move(pool));
  });
  for (const PoolConfig& pool : config.pools) {
    config.max_parities = std::max(config.max_parities, static_cast<uint8_t>(pool.scheme.m));
  }
}

void derive_settings(Config& config) {
  config.ops.node_timeout =
      std::min<Duration>(std::chrono::seconds(2), config.ops.request_timeout / 4);
  config.sessions.max_object_bytes = config.ops.max_object_bytes;
  config.sessions.stall_timeout = config.ops.upload_idle;
}

}  // namespace elastripe::config
