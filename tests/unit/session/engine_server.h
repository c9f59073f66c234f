// A node for tests of the proxy's side: the real engine behind a loopback socket, served by a
// thread of its own.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "proxy/io/socket.h"
#include "server-patches/node/engine/arena_store.h"
#include "server-patches/node/engine/engine.h"

namespace elastripe {

// Every partition is at home on all nodes, and synced; node 0 is the tail, the last one the head.
inline node::ClusterMap sealed_map(size_t nodes) {
  node::ClusterMap map;
  map.cluster_id = 77;
  map.epoch.number = 1;
  map.epoch.decider = 9;
  map.version_floor = uint64_t{1} << node::kCounterBits;
  map.max_parities = static_cast<uint8_t>(nodes - 1);
  node::Partition partition;
  partition.synced = true;
  for (size_t i = 0; i < nodes; ++i) {
    const auto id = static_cast<node::NodeId>(i);
    const std::string name = "n" + std::to_string(i);
    map.nodes.push_back({.id = id,
                         .name = name,
                         .host = name,
                         .port = 1,
                         .domain = name,
                         .incarnation = 1000 + i,
                         .state = node::NodeState::kUp});
    partition.homes.push_back(id);
  }
  map.partitions.assign(16, partition);
  node::seal(map);
  return map;
}

// Takes one connection, and serves it until it is closed.
class EngineServer : private node::NodeClock {
 public:
  // The node has the map and a lease that never ends.
  EngineServer(node::NodeId id, const node::ClusterMap& map)
      : listener_(listen_on(resolve("127.0.0.1", 0).value(), false).value()),
        store_({}),
        engine_({.incarnation = map.nodes[id].incarnation, .latches = 16}, store_, *this) {
    std::string encoded;
    node::encode(map, encoded);
    tell(node::Opcode::kInstallMap, {}, "", encoded);
    std::string lease;
    node::encode(node::HeartbeatRequest{.lease_stamp_ms = boottime_ms(), .lease_ms = 3000}, lease);
    tell(node::Opcode::kHeartbeat, map.epoch, lease, "");
    thread_ = std::thread([this] { serve(); });
  }
  ~EngineServer() override {
    shutdown(listener_.get(), SHUT_RDWR);  // should nobody have connected
    thread_.join();
  }

  SocketAddress address() const { return resolve("127.0.0.1", port_of(listener_)).value(); }

 private:
  uint64_t boottime_ms() const override { return 5000; }  // time stands still

  void tell(node::Opcode opcode, node::Epoch epoch, std::string_view args,
            std::string_view payload) {
    node::Frame frame{.header = {}, .args = node::as_view(args), .payload = node::as_view(payload)};
    frame.header.opcode = opcode;
    frame.header.args_bytes = static_cast<uint32_t>(args.size());
    frame.header.body_bytes = static_cast<uint32_t>(args.size() + payload.size());
    frame.header.cluster_id = 77;
    frame.header.epoch = epoch;
    REQUIRE(engine_.serve(frame).header.status == node::Status::kOk);
  }

  void serve() {
    pollfd wait{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    poll(&wait, 1, -1);
    const Fd peer(accept(listener_.get(), nullptr, nullptr));
    if (!peer.valid()) return;
    set_no_delay(peer);
    std::string input;
    std::string output;
    char part[65536];
    for (ssize_t got; (got = read(peer.get(), part, sizeof part)) > 0;) {
      input.append(part, static_cast<size_t>(got));
      input.erase(0, answer_all(input, output));
      for (size_t sent = 0; sent < output.size();) {
        const ssize_t took =
            ::send(peer.get(), output.data() + sent, output.size() - sent, MSG_NOSIGNAL);
        if (took < 0) return;
        sent += static_cast<size_t>(took);
      }
      output.clear();
    }
  }

  // Returns how much of the input it has used up.
  size_t answer_all(std::string_view input, std::string& output) {
    const size_t offered = input.size();
    while (input.size() >= node::kHeaderBytes) {
      const auto header =
          node::decode_request_header(node::as_view(input).first<node::kHeaderBytes>()).value();
      if (input.size() < node::kHeaderBytes + header.body_bytes) break;
      const auto body = node::as_view(input.substr(node::kHeaderBytes, header.body_bytes));
      input.remove_prefix(node::kHeaderBytes + header.body_bytes);
      const node::Reply reply =
          engine_.serve({header, body.first(header.args_bytes), body.subspan(header.args_bytes)});
      std::array<std::byte, node::kHeaderBytes> raw;
      node::encode(reply.header, raw);
      output += node::as_text(raw);
      output += reply.args;
      output += node::as_text(reply.payload.bytes());
    }
    return offered - input.size();
  }

  const Fd listener_;
  node::ArenaStore store_;
  node::Engine engine_;
  std::thread thread_;
};

}  // namespace elastripe
