#include "tools/bench/own_network.h"

#include <fmt/core.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
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

cli::Result<> change_loopback(unsigned long request, ifreq& change, const char* what) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return cli::fail("socket: {}", std::strerror(errno));
  std::strcpy(change.ifr_name, "lo");
  const bool ok = ::ioctl(fd, request, &change) == 0;
  const int reason = errno;
  ::close(fd);
  if (!ok) return cli::fail("{}: {}", what, std::strerror(reason));
  return {};
}

bool write_text(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return !file.fail();
}

}  // namespace

cli::Result<OwnNetwork> OwnNetwork::enter() {
  const auto user = ::getuid();
  const auto group = ::getgid();
  if (::unshare(CLONE_NEWNET) != 0) {
    // not root: root of a user namespace of its own, as `unshare --net
    // --map-root-user`
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      return cli::fail("this machine permits no network of our own: {}", std::strerror(errno));
    }
    if (!write_text("/proc/self/uid_map", fmt::format("0 {} 1", user)) ||
        !write_text("/proc/self/setgroups", "deny") ||
        !write_text("/proc/self/gid_map", fmt::format("0 {} 1", group))) {
      return cli::fail("cannot map the user into a network of our own");
    }
  }
  ifreq up{};
  up.ifr_flags = IFF_UP | IFF_RUNNING;
  TRY(change_loopback(SIOCSIFFLAGS, up, "bringing up the loopback"));
  return OwnNetwork();
}

cli::Result<> OwnNetwork::limit(uint64_t bits_per_second) {
  const auto tc = [](std::vector<std::string> words) {
    std::vector<std::string> argv{"env", "PATH=/usr/sbin:/sbin:/usr/bin:/bin", "tc", "qdisc"};
    argv.insert(argv.end(), words.begin(), words.end());
    return cli::run_to_end(argv);
  };
  ifreq packet{};
  packet.ifr_mtu = bits_per_second == 0 ? kLoopbackPacketBytes : kPacketBytes;
  TRY(change_loopback(SIOCSIFMTU, packet, "the size of packets"));
  if (bits_per_second == 0) {
    tc({"del", "dev", "lo", "root"});  // fails where there was no limit
    return {};
  }
  const auto burst =
      std::max(kLeastBurstBytes,
               static_cast<uint64_t>(static_cast<double>(bits_per_second) / 8 * kTimerSeconds));
  const auto done =
      tc({"replace", "dev", "lo", "root", "tbf", "rate", fmt::format("{}bit", bits_per_second),
          "burst", fmt::format("{}b", burst), "limit", fmt::format("{}b", 64 << 20)});
  if (!done.ok) return cli::fail("tc: {}", done.output.substr(0, done.output.find('\n')));
  return {};
}

}  // namespace elastripe::bench
