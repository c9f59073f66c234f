#include "tools/bench/load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <vector>

#include "tools/bench/latency.h"
#include "tools/bench/servers.h"

namespace elastripe::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kWaitMs = 5000;

// One connection with at most one request in flight. Requests are small enough for the socket's
// buffer, so sending never waits.
class Connection {
 public:
  Connection(std::string request, std::string reply)
      : request_(std::move(request)), reply_(std::move(reply)) {}
  ~Connection() {
    if (fd_ >= 0) ::close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  int fd() const { return fd_; }

  bool connect(uint16_t port) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const int on = 1;
    return fd_ >= 0 && ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
           ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  bool send() {
    received_.clear();
    return ::send(fd_, request_.data(), request_.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(request_.size());
  }

  // Reads what has come. Says whether the reply is whole; an error if it is not the expected one.
  cli::Result<bool> receive() {
    std::array<char, 16384> chunk{};
    const ssize_t count = ::recv(fd_, chunk.data(), chunk.size(), 0);
    if (count <= 0) return cli::fail("the server closed a connection");
    received_.append(chunk.data(), static_cast<size_t>(count));
    if (!reply_.starts_with(received_)) {
      return cli::fail("unexpected reply: {}", received_.substr(0, received_.find('\r')));
    }
    return received_.size() == reply_.size();
  }

 private:
  const std::string request_;
  const std::string reply_;
  std::string received_;
  int fd_ = -1;
};

}  // namespace

cli::Result<double> measure_load(const LoadSettings& settings) {
  auto client = connect_to(settings.port);
  if (!client) return std::unexpected(client.error());
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  const std::unique_ptr<const int, void (*)(const int*)> close_epoll(
      &epoll, [](const int* fd) { ::close(*fd); });

  std::vector<std::unique_ptr<Connection>> connections;
  for (int i = 0; i < settings.connections; ++i) {
    const std::string key = fmt::format("{}load/{}", settings.prefix, i);
    const std::string object = make_object(settings.object_bytes, static_cast<uint64_t>(i));
    if (auto done = client->put(key, object); !done) return cli::fail("{}", done.error().message);
    connections.push_back(
        settings.put
            ? std::make_unique<Connection>(
                  fmt::format("set {} 0 0 {}\r\n{}\r\n", key, object.size(), object), "STORED\r\n")
            : std::make_unique<Connection>(
                  fmt::format("get {}\r\n", key),
                  fmt::format("VALUE {} 0 {}\r\n{}\r\nEND\r\n", key, object.size(), object)));
    if (!connections.back()->connect(settings.port)) return cli::fail("cannot connect");
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = connections.back().get();
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, connections.back()->fd(), &event);
  }

  const auto start = SteadyClock::now();
  for (const auto& connection : connections) {
    if (!connection->send()) return cli::fail("cannot send");
  }
  uint64_t answered = 0;
  std::array<epoll_event, 64> events{};
  while (SteadyClock::now() - start < settings.duration) {
    const int count = ::epoll_wait(epoll, events.data(), events.size(), kWaitMs);
    if (count <= 0) return cli::fail("no answer for {} ms", kWaitMs);
    for (int i = 0; i < count; ++i) {
      auto* connection = static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      const auto whole = connection->receive();
      if (!whole) return std::unexpected(whole.error());
      if (!*whole) continue;
      ++answered;
      if (!connection->send()) return cli::fail("cannot send");
    }
  }
  const std::chrono::duration<double> took = SteadyClock::now() - start;
  return static_cast<double>(answered) / took.count();
}

}  // namespace elastripe::bench
