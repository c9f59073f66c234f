// What commands take from the heap: counted by operator new (and libevent's malloc) on the thread
// that serves them, with everything below them real: sessions, flows, channels, and nodes'
// engines behind sockets of their own, on threads that do not count.
#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <deque>
#include <future>
#include <new>
#include <string>
#include <thread>

#include "proxy/main/flow_environment.h"
#include "proxy/session/sessions.h"
#include "tests/unit/session/engine_server.h"

namespace {

thread_local bool is_counted = false;
std::atomic<uint64_t> allocations = 0;

void* counted_allocation(size_t bytes, size_t alignment) {
  if (is_counted) allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes) != 0) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return counted_allocation(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return counted_allocation(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace elastripe {
namespace {

constexpr int kCommands = 1000;

void count_libevent() {
  event_set_mem_functions(
      [](size_t bytes) -> void* {
        if (is_counted) allocations.fetch_add(1, std::memory_order_relaxed);
        return std::malloc(bytes);
      },
      [](void* memory, size_t bytes) -> void* {
        if (is_counted) allocations.fetch_add(1, std::memory_order_relaxed);
        return std::realloc(memory, bytes);
      },
      [](void* memory) { std::free(memory); });
}

// A worker of the proxy, every key at home on all nodes, and one client.
class Served {
 public:
  explicit Served(size_t copies) : map_(sealed_map(copies)) {
    count_libevent();
    Config config;
    config.decider.partitions = static_cast<uint32_t>(map_.partitions.size());
    config.pools = {
        {.prefix = "", .scheme = coding::parse_scheme("rep:" + std::to_string(copies)).value()}};
    std::vector<NodeAddress> addresses;
    for (size_t id = 0; id < copies; ++id) {
      const auto& node = nodes_.emplace_back(static_cast<node::NodeId>(id), map_);
      config.nodes.push_back({.name = map_.nodes[id].name, .address = {}, .domain = ""});
      const node::NodeInfo& info = map_.nodes[id];
      addresses.push_back(
          {.name = info.name, .addresses = {node.address()}, .host = info.host, .port = info.port});
    }
    shared_.emplace(config, std::make_unique<Credentials>(), addresses, /*resolver_in=*/nullptr, 1);
    shared_->map.expect_nodes(copies);
    shared_->map.serve(std::make_shared<const node::ClusterMap>(map_));
    environment_.emplace(*shared_,
                         FlowMemory{.staged = 64 << 20, .cache = 1 << 20, .read = 64 << 20});
    ops_.emplace(environment_->ops());
    sessions_.emplace(environment_->loop(), *ops_, environment_->clock(), shared_->stats,
                      shared_->stats.worker(0), SessionSettings{});
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    client_ = Fd(fds[0]);
    REQUIRE(evutil_make_socket_nonblocking(fds[1]) == 0);
    sessions_->adopt(Fd(fds[1]), {});
    thread_ = std::thread([this] {
      is_counted = true;
      environment_->loop().run();
      is_counted = false;
    });
  }
  ~Served() {
    client_.reset();
    std::promise<void> ended;
    environment_->loop().post([&] { sessions_->drain([&] { ended.set_value(); }); });
    ended.get_future().wait();
    environment_->loop().post([this] {
      environment_->cancel_all();
      environment_->loop().stop();
    });
    thread_.join();
  }

  // Sends all of `requests`, then takes their replies, which must be `replies`.
  void exchange(std::string_view requests, std::string_view replies) {
    REQUIRE(send(client_.get(), requests.data(), requests.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(requests.size()));
    received_.resize(replies.size());
    const ssize_t got = recv(client_.get(), received_.data(), received_.size(), MSG_WAITALL);
    REQUIRE(got == static_cast<ssize_t>(replies.size()));
    REQUIRE(received_ == replies);
  }

 private:
  node::ClusterMap map_;
  std::deque<EngineServer> nodes_;
  std::optional<ProxyShared> shared_;
  std::optional<FlowEnvironment> environment_;
  std::optional<FlowOps> ops_;
  std::optional<Sessions> sessions_;
  Fd client_;
  std::string received_;
  std::thread thread_;
};

// Longer than a std::string holds without the heap.
std::string key_of(int number) { return "a/key/of/usual/length/" + std::to_string(number); }
std::string value_of(int number) { return std::string(1024, static_cast<char>('a' + number)); }

struct Traffic {
  std::string requests;
  std::string replies;
};

Traffic sets(int count) {
  Traffic traffic;
  for (int i = 0; i < count; ++i) {
    traffic.requests += "set " + key_of(i) + " 0 0 1024\r\n" + value_of(i) + "\r\n";
    traffic.replies += "STORED\r\n";
  }
  return traffic;
}

Traffic gets(int count) {
  Traffic traffic;
  for (int i = 0; i < count; ++i) {
    traffic.requests += "get " + key_of(i) + "\r\n";
    traffic.replies += "VALUE " + key_of(i) + " 0 1024\r\n" + value_of(i) + "\r\nEND\r\n";
  }
  return traffic;
}

// The allocations of a round of kCommands, `depth` at a time. Not of the first one: what more
// commands at a time than ever before need is allocated then, and kept.
uint64_t fewest_allocations(Served& served, const Traffic& traffic, int depth) {
  constexpr int kRounds = 20;
  uint64_t fewest = UINT64_MAX;
  for (int round = 0; round < kRounds && fewest > 0; ++round) {
    const uint64_t before = allocations;
    for (int i = 0; i < kCommands; i += depth) served.exchange(traffic.requests, traffic.replies);
    const uint64_t during = allocations - before;
    if (round > 0) fewest = std::min(fewest, during);
  }
  return fewest;
}

}  // namespace

TEST_CASE("a warm proxy answers small GETs and SETs without taking memory from the heap") {
  const int depth = GENERATE(1, 16);
  const size_t copies = GENERATE(as<size_t>(), 2, 3);
  CAPTURE(depth, copies);
  Served served(copies);
  served.exchange(sets(depth).requests, sets(depth).replies);
  REQUIRE(allocations > 0);
  CHECK(fewest_allocations(served, gets(depth), depth) == 0);
  CHECK(fewest_allocations(served, sets(depth), depth) == 0);
}

TEST_CASE("a warm proxy answers other small commands without taking memory from the heap") {
  const std::string key = key_of(0);
  Served served(2);
  served.exchange("set " + key + " 0 0 1\r\n1\r\n", "STORED\r\n");
  const Traffic traffic = GENERATE_COPY(
      Traffic{"touch " + key + " 0\r\n", "TOUCHED\r\n"},
      Traffic{"add " + key + " 0 0 1\r\n2\r\n", "NOT_STORED\r\n"},
      Traffic{"mg " + key + " v f\r\n", "VA 1 f0\r\n1\r\n"},
      Traffic{"ms " + key + " 1 T0\r\n1\r\n", "HD\r\n"},
      // A binary get of such a key: a header, then the key; "Not found".
      Traffic{std::string("\x80\0\0\x1b\0\0\0\0\0\0\0\x1bwxyz\0\0\0\0\0\0\0\0", 24) +
                  "another/key/of/usual/length",
              std::string("\x81\0\0\0\0\0\0\1\0\0\0\x09wxyz\0\0\0\0\0\0\0\0", 24) + "Not found"},
      Traffic{"get another/key/of/usual/length\r\n", "END\r\n"},
      Traffic{"incr " + key + " 1\r\ndecr " + key + " 1\r\n", "2\r\n1\r\n"},
      Traffic{"get " + key + " " + key + "\r\n",
              "VALUE " + key + " 0 1\r\n1\r\nVALUE " + key + " 0 1\r\n1\r\nEND\r\n"},
      Traffic{"delete " + key + "\r\nset " + key + " 0 0 1\r\n1\r\n", "DELETED\r\nSTORED\r\n"});
  CAPTURE(traffic.requests);
  CHECK(fewest_allocations(served, traffic, 1) == 0);
}

}  // namespace elastripe
