#include "tools/bench/drain.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "tools/bench/runner.h"
#include "tools/bench/try.h"

namespace elastripe::bench {
namespace {

using cli::Result;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kPath = "/v1/recycles";
constexpr const char* kKind = "recycle";
constexpr std::chrono::seconds kDrained{120};
constexpr int kFoldsAtOnce = 8;  // as many as the proxy makes by itself

// At all nodes together, each copy by itself.
Result<uint64_t> bytes_left(const Cluster& cluster) {
  const auto stats = TRY(cluster.sum_of_stats("elastripe"));
  const auto bytes = stats.find("log_bytes");
  if (bytes == stats.end()) return cli::fail("the nodes tell no log_bytes");
  return bytes->second;
}

// How many seconds it took, by the proxy's own clock: that it has ended is seen later.
Result<double> recycle(const cli::AdminClient& admin, const std::string& prefix) {
  const Json body{{"prefix", prefix}, {"parallel", kFoldsAtOnce}};
  Json report = TRY(admin.post(kPath, kKind, body.dump()));
  const auto path = fmt::format("{}/{}", kPath, report.at("id").get<uint64_t>());
  Result<> asked;
  const auto has_ended = [&] {
    auto now = admin.get(path);
    if (!now) asked = cli::fail("{}", now.error());
    if (now) report = std::move(*now);
    return !asked || report.at("state") != "running" || was_interrupted();
  };
  const bool ended = cli::wait_until(has_ended, kDrained);
  TRY(asked);
  TRY(check_interrupt());
  if (!ended) return cli::fail("a recycle does not end within {} s", kDrained.count());
  if (report.at("state") == "done" && report.at("counts").at("failed") == 0) {
    return report.at("seconds").get<double>();
  }
  return cli::fail("a recycle is {}: {} {}", report.at("state").dump(), report.at("reason").dump(),
                   report.at("problems").dump());
}

}  // namespace

Result<double> drain(const Cluster& cluster, const cli::AdminClient& admin,
                     const std::string& prefix) {
  const auto begin = SteadyClock::now();
  double seconds = 0;
  while (const uint64_t left = TRY(bytes_left(cluster))) {
    if (SteadyClock::now() >= begin + kDrained) {
      return cli::fail("{} bytes are left in logs after {} s of recycles", left, kDrained.count());
    }
    const std::chrono::duration<double> before = SteadyClock::now() - begin;
    seconds = before.count() + TRY(recycle(admin, prefix));
  }
  return seconds;
}

}  // namespace elastripe::bench
