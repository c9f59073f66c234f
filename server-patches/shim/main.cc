// elastripe-node: the node server. Translates its few options into memcached's, in this one place,
// and runs memcached's main with the engine switched on.
#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "server-patches/node/format/fail_point.h"
#include "server-patches/shim/node.h"
#include "server-patches/shim/slab_sizes.h"

extern "C" {
bool elastripe_enabled = false;
unsigned elastripe_page_bytes = 1 << 20;
unsigned elastripe_log_units = 0;
int memcached_main(int argc, char** argv);
}

namespace {

struct Options {
  int port = 11311;
  std::string listen = "127.0.0.1";
  int memory_mb = 1024;
  int threads = 4;
  unsigned log_units = 0;
  std::string name;
  std::string port_file;
  std::string user;
  bool insecure = false;
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_ca;

  bool speaks_tls() const { return !tls_certificate.empty(); }
};

constexpr int kUsageError = 2;

// As the proxy judges its own addresses (proxy/main/check_config.cc).
bool is_loopback(const std::string& address) {
  if (address == "localhost") return true;
  in_addr ipv4{};
  if (inet_pton(AF_INET, address.c_str(), &ipv4) == 1) return (ntohl(ipv4.s_addr) >> 24) == 127;
  in6_addr ipv6{};
  return inet_pton(AF_INET6, address.c_str(), &ipv6) == 1 && IN6_IS_ADDR_LOOPBACK(&ipv6);
}

bool is_root() { return getuid() == 0 || geteuid() == 0; }

// memcached takes lists, ports and protocols there, too: "notls:0.0.0.0" would speak in clear.
std::string check_listen(const std::string& address) {
  in6_addr ipv6{};
  const bool is_name = !address.empty() && std::ranges::all_of(address, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  return is_name || inet_pton(AF_INET6, address.c_str(), &ipv6) == 1 ? "" : "must be one address";
}

// The hash table has a fixed size, so that it can be walked with a cursor: one bucket a KiB of
// memory, under 1% of it.
int hash_power(int memory_mb) {
  const auto buckets = static_cast<uint64_t>(memory_mb) << 10;
  return std::clamp(static_cast<int>(std::bit_width(buckets)) - 1, 16, 27);
}

std::vector<std::string> memcached_arguments(const Options& options) {
  const std::pair<std::string, std::string> chosen[] = {
      {"-p", options.port == 0 ? "-1" : std::to_string(options.port)},
      {"-U", "0"},
      {"-l", options.listen},
      {"-m", std::to_string(options.memory_mb)},
      {"-t", std::to_string(options.threads + 1)},  // the first one for control frames
      {"-c", "4096"},
      {"-M", ""},    // nothing is evicted
      {"-F", ""},    // no flush_all
      {"-X", ""},    // no dumps: they expect shorter keys than the engine's
      {"-C", ""},    // no cas: versions are in the engine's own headers
      {"-I", "8m"},  // the largest shard is a 4 MiB segment under rep
      {"-o", "slab_chunk_max=" + std::to_string(SLAB_CHAIN_MAX)},
      {"-o", "slab_sizes=" + elastripe::node::slab_sizes()},
      // Pages move when the page keeper asks, not by the age of items.
      {"-o", "slab_reassign,no_slab_automove,no_lru_maintainer,no_lru_crawler"},
      {"-o", "no_hashexpand,hashpower=" + std::to_string(hash_power(options.memory_mb))},
      {"-u", options.user},
  };
  std::vector<std::string> arguments = {"elastripe-node"};
  if (options.speaks_tls()) {
    arguments.insert(arguments.end(),
                     {"-Z", "-o", "ssl_chain_cert=" + options.tls_certificate, "-o",
                      "ssl_key=" + options.tls_key, "-o", "ssl_ca_cert=" + options.tls_ca, "-o",
                      "ssl_verify_mode=2", "-o", "ssl_kernel_tls"});
  }
  for (const auto& [flag, value] : chosen) {
    if (flag == "-u" && value.empty()) continue;
    arguments.push_back(flag);
    if (!value.empty()) arguments.push_back(value);
  }
  return arguments;
}

// Shards pass through buffers of up to a few MiB. malloc would hand each of them back to the
// kernel, and a fault for every page of the next one takes longer than reading the shard. So it
// keeps this much for each thread, beside what --memory-mb counts.
constexpr int kKeptBytes = 16 << 20;

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, kKeptBytes);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
}

int run_memcached(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return memcached_main(static_cast<int>(arguments.size()), argv.data());
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): CLI11 throws when an option is declared wrong: a bug
int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--plain") {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    arguments[0] = argv[0];
    return run_memcached(std::move(arguments));
  }

  Options options;
  CLI::App app("elastripe-node: stores records and shards in memory for elastripe proxies");
  app.option_defaults()->always_capture_default();
  app.add_option("--port", options.port, "TCP port; 0 takes a free one")
      ->check(CLI::Range(0, 65535));
  app.set_version_flag("--version", "elastripe-node " ELASTRIPE_VERSION);
  app.add_option("--listen", options.listen, "address to listen on")->check(check_listen);
  app.add_option("--memory-mb", options.memory_mb, "memory for records and shards")
      ->check(CLI::Range(16, 16 * 1024 * 1024));
  app.add_option("--threads", options.threads,
                 "threads for records and shards, beside the one for control frames")
      ->check(CLI::Range(1, 63));
  app.add_option("--log-units", options.log_units,
                 "units of memory for update logs, at least 2; 0: a sixty-fourth of the memory")
      ->check(CLI::Range(0, 1 << 20))
      ->check([](const std::string& units) { return units == "1" ? "must be 0 or above 1" : ""; });
  app.add_option("--name", options.name, "name in logs");
  app.add_option("--port-file", options.port_file, "write the port here once listening");
  app.add_option("--user", options.user, "user to become when started as root, which takes one");
  app.add_flag("--insecure", options.insecure,
               "listen on an address that others can reach: anyone who can connect can read and "
               "write everything");
  // memcached splits its options at commas.
  const auto check_path = [](const std::string& path) {
    return path.contains(',') ? "must be a path without commas" : "";
  };
  auto* certificate =
      app.add_option("--tls-certificate", options.tls_certificate,
                     "PEM file of the node's certificate: only TLS is spoken, and only with those "
                     "who show a certificate of the CA; SIGHUP reads the files again")
          ->check(check_path);
  auto* key = app.add_option("--tls-key", options.tls_key, "PEM file of its private key")
                  ->check(check_path);
  auto* ca = app.add_option("--tls-ca", options.tls_ca, "PEM file of the CA")->check(check_path);
  certificate->needs(key)->needs(ca);
  key->needs(certificate);
  ca->needs(certificate);
  app.footer(
      "elastripe-node --plain [OPTIONS] runs it as plain memcached, with memcached's options.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : kUsageError;
  }

  if (!is_loopback(options.listen) && !options.insecure && !options.speaks_tls()) {
    std::cerr << "elastripe-node: " << options.listen
              << " is not a loopback address, and whoever connects can read and write everything: "
                 "give it certificates (--tls-certificate), or keep the network private and add "
                 "--insecure\n";
    return kUsageError;
  }
  if (auto armed = elastripe::arm_fail_point("node"); !armed) {
    std::cerr << "elastripe-node: " << armed.error() << '\n';
    return kUsageError;
  }
  if (options.user.empty() && is_root()) {
    std::cerr
        << "elastripe-node: started as root, and needs none of root's rights: add --user NAME "
           "to become that user, or --user root to stay\n";
    return kUsageError;
  }
  if (!options.port_file.empty()) {
    setenv("MEMCACHED_PORT_FILENAME", options.port_file.c_str(), 1);
  }
  std::cerr << "elastripe-node" << (options.name.empty() ? "" : " ") << options.name
            << ": starting on " << options.listen << " with " << options.memory_mb << " MiB\n";
  keep_freed_memory();
  elastripe_enabled = true;
  elastripe_log_units = options.log_units;
  elastripe_page_bytes = elastripe::node::slab_page_bytes(options.memory_mb);
  return run_memcached(memcached_arguments(options));
}
