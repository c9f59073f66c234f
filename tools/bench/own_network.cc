#include "tools/bench/own_network.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "tools/bench/try.h"
#include "tools/cli/process.h"

namespace elastripe::bench {
namespace {

// The largest packet of a real network's kind: a bucket must hold one, and as little else as
// possible, because what it holds passes without waiting.
constexpr int kPacketBytes = 9000;
constexpr int kLoopbackPacketBytes = 65536;  // as the kernel sets it
constexpr uint64_t kLeastBurstBytes = 16 << 10;
// A timer is that late at times; what may have passed meanwhile has to be in the bucket.
constexpr double kTimerSeconds = 1e-4;

// A command of iproute2.
cli::Result<> run(const std::string& line) {
  const auto done = cli::run_to_end({"sh", "-c", "PATH=/usr/sbin:/sbin:/usr/bin:/bin; " + line});
  if (!done.ok) return cli::fail("{}: {}", line, done.output.substr(0, done.output.find('\n')));
  return {};
}

bool write_text(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return !file.fail();
}

}  // namespace

cli::Result<> enter_own_network() {
  const auto user = ::getuid();
  const auto group = ::getgid();
  if (::unshare(CLONE_NEWNET) != 0) {
    // not root: root of a user namespace of its own, as `unshare --net --map-root-user`
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      return cli::fail("this machine permits no network of our own: {}", std::strerror(errno));
    }
    if (!write_text("/proc/self/uid_map", fmt::format("0 {} 1", user)) ||
        !write_text("/proc/self/setgroups", "deny") ||
        !write_text("/proc/self/gid_map", fmt::format("0 {} 1", group))) {
      return cli::fail("cannot map the user into a network of our own");
    }
  }
  return run("ip link set dev lo up");
}

cli::Result<> limit_own_network(uint64_t bits_per_second) {
  const bool limited = bits_per_second > 0;
  TRY(run(fmt::format("ip link set dev lo mtu {}", limited ? kPacketBytes : kLoopbackPacketBytes)));
  if (!limited) {
    [[maybe_unused]] const auto there_was_one = run("tc qdisc del dev lo root");
    return {};
  }
  const auto burst =
      std::max(kLeastBurstBytes,
               static_cast<uint64_t>(static_cast<double>(bits_per_second) / 8 * kTimerSeconds));
  return run(fmt::format("tc qdisc replace dev lo root tbf rate {}bit burst {}b limit {}b",
                         bits_per_second, burst, 64 << 20));
}

}  // namespace elastripe::bench
