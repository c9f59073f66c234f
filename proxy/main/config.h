// The proxy's settings: a YAML file, overrides from the command line, and defaults for the rest.
//
// The rows of a setting stand below its struct: of clients in proxy/session/settings.h, of flows in
// proxy/ops/settings.h, of the decider in proxy/ops/decider/settings.h, of repair in
// proxy/ops/jobs/repair_settings.h, the rest here and in config.cc. docs/config.example.yaml is
// made from them. Whatever is unknown, of a wrong type, out of bounds or impossible in combination
// is refused with the place and the reason; nothing is guessed. A Config that came from here is
// consistent; it is immutable and shared by all threads.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coding/scheme.h"
#include "proxy/base/error.h"
#include "proxy/base/log.h"
#include "proxy/base/write_state.h"
#include "proxy/cluster/pool.h"
#include "proxy/etcd/http_etcd.h"
#include "proxy/io/tls.h"
#include "proxy/ops/decider/settings.h"
#include "proxy/ops/jobs/recycler_settings.h"
#include "proxy/ops/jobs/repair_settings.h"
#include "proxy/ops/jobs/scrub_settings.h"
#include "proxy/ops/settings.h"
#include "proxy/session/settings.h"

namespace elastripe {

struct Endpoint {
  std::string host;
  uint16_t port = 0;  // 0: any free port, for listening only

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "host:port", with brackets around an IPv6 address.
std::string to_string(const Endpoint& endpoint);

// Whether clients of a listener speak TLS.
enum class ListenTls : uint8_t {
  kOff,
  kOn,      // the proxy shows its certificate
  kMutual,  // and clients show one of the CA
};

// Where clients connect, and how they come in.
struct ListenConfig {
  Endpoint address;
  std::string path = {};  // of a Unix socket, in place of the address; empty: there is none
  uint32_t mode = 0700;   // of that socket
  ListenTls tls = ListenTls::kOff;
  bool authenticate = false;  // only users of the users file

  friend bool operator==(const ListenConfig&, const ListenConfig&) = default;
};

// "host:port", or the path of a Unix socket.
std::string to_string(const ListenConfig& listen);

struct TlsConfig {
  TlsFiles files;
  bool nodes = false;  // whether nodes are spoken to over TLS

  friend bool operator==(const TlsConfig&, const TlsConfig&) = default;
};

struct NodeConfig {
  std::string name;
  Endpoint address;
  std::string domain;  // failure domain; the node's name if not set

  friend bool operator==(const NodeConfig&, const NodeConfig&) = default;
};

struct PoolConfig {
  std::string prefix;  // of its keys; empty for the default pool
  coding::Scheme scheme{coding::LayoutKind::kErs2, 4, 1, 5};
  uint32_t inline_max_bytes = 16 << 10;
  bool degraded_writes = false;
  bool unreadable_is_miss = false;
  WriteState write_state = WriteState::kNarrow;
  UpdateMethod updates = UpdateMethod::kHome;
  LogCopies log_copies = LogCopies::kAll;
  LogRounds log_rounds = LogRounds::kOne;

  friend bool operator==(const PoolConfig&, const PoolConfig&) = default;
};

// Times that go together; single settings override them. kStandard is what all defaults are.
enum class TimingProfile : uint8_t { kStandard, kLocal };

// Elections by etcd, if it has endpoints.
struct EtcdConfig {
  EtcdSettings client;
  std::string prefix;  // of its keys; empty: by the cluster's name
  Duration ttl = std::chrono::seconds(5);

  bool is_used() const { return !client.endpoints.empty(); }
  friend bool operator==(const EtcdConfig&, const EtcdConfig&) = default;
};

// Which settings a file, or --set, has named: "timing.lease_ms", "pools". It is no setting itself:
// it makes no difference between two configurations.
struct NamedSettings {
  std::set<std::string, std::less<>> paths;

  friend bool operator==(const NamedSettings&, const NamedSettings&) { return true; }
};

struct Config {
  std::string cluster = "elastripe";
  ListenConfig listen{.address = {"127.0.0.1", 11211}};
  std::vector<ListenConfig> listeners;  // further ones
  Endpoint admin{"127.0.0.1", 9211};
  std::string users_file;
  TlsConfig tls;
  bool insecure = false;
  bool experimental = false;  // whether settings may be chosen that keep no promise
  uint32_t threads = 0;       // 0: one per CPU
  LogLevel log_level = LogLevel::kInfo;
  uint32_t segment_bytes = 4 << 20;
  uint64_t record_cache_bytes = 64 << 20;
  uint64_t staged_bytes = 256 << 20;
  uint64_t read_bytes = 256 << 20;
  TimingProfile profile = TimingProfile::kStandard;
  Duration client_keepalive = std::chrono::seconds(60);  // zero: nobody is asked
  Duration shutdown_delay = Duration::zero();
  Duration shutdown_wait = std::chrono::seconds(5);
  EtcdConfig etcd;
  std::string join;    // "host:port" of a node whose map has the nodes; empty: listed, or in etcd
  bool joins = false;  // it learns of the nodes from a cluster that there is
  std::vector<NodeConfig> nodes;                // as listed: the position is the node's id
  std::vector<PoolConfig> pools{PoolConfig{}};  // as listed; one has the empty prefix
  uint8_t max_parities = 1;          // M: the largest m of any pool, when the proxy started
  decider::DeciderSettings decider;  // its nodes are filled in by its thread
  OpsSettings ops;
  jobs::RecyclerSettings recycler;
  jobs::RepairSettings repair;
  jobs::ScrubSettings scrub;
  SessionSettings sessions;
  NamedSettings named;

  friend bool operator==(const Config&, const Config&) = default;
};

// Reads the YAML text, applies the overrides in order and checks the result. An override is
// "path=value" ("timing.lease_ms=5000", "nodes.0.port=11401", "pools=[{scheme: rep:3}]"); the value
// is YAML and replaces what is there; the index after the last appends. Errors are one line:
// "FILE:12: timing.lease_ms: ..." or "--set timing.lease_ms=1: ...".
Result<Config> parse_config(std::string_view yaml, std::string_view file_name,
                            std::span<const std::string> overrides = {});

// The same for a file.
Result<Config> load_config(const std::string& path, std::span<const std::string> overrides = {});

// What a proxy that runs with one configuration takes of another one, at once.
struct ConfigChange {
  Config config;                          // what is in force then
  std::vector<std::string> taken;         // what is new of it: "limits.connections=10", "pools"
  std::vector<std::string> need_restart;  // what differs and stays: "threads", "pools (...)"
};

// Takes the settings that can change while a proxy runs. Those of a pool are for what is written
// from then on; pools are taken together or not at all. `is_of_cluster`: what is the cluster's in
// `wanted` is of its map, and taken at once, whatever it is. kInvalid: what would be taken does not
// fit what stays.
Result<ConfigChange> change_config(const Config& running, const Config& wanted,
                                   bool is_of_cluster = false);

// Before all keys of the cluster in etcd.
std::string etcd_prefix(const Config& config);

// Why the settings do not fit together, as far as they have changed since they were read.
Result<void> recheck_config(const Config& config);

// "host:port", or "[address]:port". Nothing: it is neither.
std::optional<Endpoint> parse_endpoint(std::string_view text);

// The effective settings as YAML, defaults included; parse_config reads it back to an equal Config
// (but for force_epoch, which no file has).
std::string print_config(const Config& config);

// A file with every setting, its default and what it is for: docs/config.example.yaml.
std::string example_config();

// Every setting with its default and one sentence, for --help.
std::string list_settings();

// The settings that have one value, by their name without the section, for `stats settings`; not
// the addresses.
std::vector<std::pair<std::string, std::string>> setting_stats(const Config& config);

}  // namespace elastripe
