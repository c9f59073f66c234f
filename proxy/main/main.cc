// elastripe-proxy: configuration -> control thread -> workers -> signals -> orderly shutdown.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <thread>
#include <utility>

#include "proxy/base/log.h"
#include "proxy/main/credentials.h"
#include "proxy/main/join.h"
#include "proxy/main/options.h"
#include "proxy/main/proxy.h"
#include "server-patches/node/format/fail_point.h"

namespace elastripe {
namespace {

constexpr Duration kJoinPause = std::chrono::seconds(1);
constexpr Duration kLookPeriod = std::chrono::milliseconds(10);  // whether all has ended

sigset_t signals(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers) sigaddset(&set, number);
  return set;
}

// SIGPIPE is an error of a write, not of the process; the others are waited for, so every thread
// that is made later has them blocked.
sigset_t prepare_signals() {
  signal(SIGPIPE, SIG_IGN);
  const sigset_t awaited = signals({SIGTERM, SIGINT, SIGHUP});
  pthread_sigmask(SIG_BLOCK, &awaited, nullptr);
  return awaited;
}

void raise_descriptor_limit(const Config& config) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t wanted = config.sessions.max_connections + 64 * config.nodes.size() + 64;
  if (limit.rlim_cur < wanted) {
    log_warning("limits.connections is {} but only {} file descriptors are allowed",
                config.sessions.max_connections, limit.rlim_cur);
  }
}

// "client PORT" and "admin PORT"; appears whole or not at all.
bool write_port_file(const std::string& path, const Proxy& proxy) {
  const std::string draft = path + ".new";
  {
    std::ofstream out(draft);
    out << "client " << proxy.client_port() << "\nadmin " << proxy.admin_port() << "\n";
    if (!out.flush()) return false;
  }
  return std::rename(draft.c_str(), path.c_str()) == 0;
}

// SIGHUP: takes what can change while the proxy runs from its files, or says why not.
void reload(const Options& options, Proxy& proxy) {
  auto config = load_config(options.config_file, options.overrides);
  if (config && config->joins) stay_joined(*config, *proxy.config());
  const auto reloaded =
      config ? proxy.reload(*config) : Result<Proxy::Reloaded>(fail(config.error()));
  if (!reloaded) return log_error("reload: {}; nothing has changed", reloaded.error().message);
  const ConfigChange& change = reloaded->change;
  raise_descriptor_limit(change.config);
  if (!change.need_restart.empty()) {
    log_warning("reload: what differs and needs a restart: {}",
                fmt::join(change.need_restart, ", "));
  }
  if (!reloaded->overruled.empty()) {
    log_warning("reload: what is the cluster's (elastripe config set): {}",
                fmt::join(reloaded->overruled, ", "));
  }
  log_info("reload: users and certificates are those of the files; changed settings: {}",
           change.taken.empty() ? "none" : fmt::format("{}", fmt::join(change.taken, ", ")));
}

bool comes_within(const sigset_t& awaited, Duration time) {
  const TimePoint end = std::chrono::steady_clock::now() + time;
  for (;;) {
    const auto left = std::max(end - std::chrono::steady_clock::now(), Duration::zero());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
    if (sigtimedwait(&awaited, nullptr, &timeout) >= 0) return true;
    if (errno != EINTR) return false;
  }
}

// SIGTERM or SIGINT came; another one ends what is waited for.
void shut_down(Proxy& proxy) {
  const ConfigPtr config = proxy.config();
  const sigset_t impatience = signals({SIGTERM, SIGINT});
  const auto ms = [](Duration time) { return time / std::chrono::milliseconds(1); };
  log_info("shutting down: not ready any more, closing in {} ms", ms(config->shutdown_delay));
  proxy.announce_shutdown();
  if (comes_within(impatience, config->shutdown_delay)) {
    log_info("a second signal: ending at once");
    proxy.wait_for_no_decider();
    return proxy.shut_down(Duration::zero());
  }
  log_info("taking no more connections; what clients have asked for may take {} ms",
           ms(config->shutdown_wait));
  const std::jthread second_signal([&](const std::stop_token& over) {
    while (!over.stop_requested()) {
      if (!comes_within(impatience, kLookPeriod)) continue;
      log_info("a second signal: ending at once");
      return proxy.hurry_shutdown();
    }
  });
  proxy.shut_down(config->shutdown_wait);
}

// Until the node that is asked tells of the others. Nothing: a signal has ended that.
Result<std::optional<Config>> join(const Config& config) {
  Credentials credentials;
  if (auto loaded = credentials.load(config); !loaded) return fail(loaded.error());
  const sigset_t end = signals({SIGTERM, SIGINT});
  std::string told;
  for (;;) {
    auto joined = join_cluster(config, credentials);
    if (joined) return std::optional(std::move(*joined));
    const std::string& reason = joined.error().message;
    if (joined.error().code == ErrorCode::kInvalid) return fail(joined.error());
    if (std::exchange(told, reason) != reason) log_warning("{}: trying again", reason);
    if (comes_within(end, kJoinPause)) return std::optional<Config>();
  }
}

int complain(const std::string& line) {
  fmt::print(stderr, "elastripe-proxy: {}\n", line);
  return 1;
}

int run(const Options& options) {
  if (auto armed = arm_fail_point("proxy"); !armed) return complain(armed.error());
  auto config = load_config(options.config_file, options.overrides);
  if (!config) return complain(config.error().message);
  config->decider.force_epoch = options.force_epoch;
  if (options.check_config) {
    auto read = Credentials().load(*config);
    if (read && config->etcd.is_used()) read = check_files(config->etcd.client);
    if (!read) return complain(read.error().message);
    fmt::print("{}: the configuration is valid\n", options.config_file);
    return 0;
  }
  set_log_level(config->log_level);

  const sigset_t awaited = prepare_signals();
  if (config->joins) {
    auto joined = join(*config);
    if (!joined) return complain(joined.error().message);
    if (!*joined) return 0;
    config = std::move(**joined);
  }
  raise_descriptor_limit(*config);
  auto proxy = Proxy::create(std::move(*config));
  if (!proxy) return complain(proxy.error().message);
  (*proxy)->start();
  if (!options.port_file.empty() && !write_port_file(options.port_file, **proxy)) {
    complain("can not write " + options.port_file);
  }

  int signal_number = 0;
  while (sigwait(&awaited, &signal_number) == 0 && signal_number == SIGHUP) {
    reload(options, **proxy);
  }
  shut_down(**proxy);
  return 0;
}

}  // namespace
}  // namespace elastripe

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto options = elastripe::parse_options(argc, argv, exit_code);
  return options ? elastripe::run(*options) : exit_code;
}
