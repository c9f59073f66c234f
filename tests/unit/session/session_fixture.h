// A client's end of a connection and the sessions that serve it, over FakeOps.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>
#include <string>

#include "proxy/io/loop_clock.h"
#include "proxy/session/sessions.h"
#include "tests/unit/session/fake_ops.h"

namespace elastripe {

struct SessionClient {
  explicit SessionClient(Sessions& sessions, const ClientAccess& access = {}) {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    here = Fd(fds[0]);
    sessions.adopt(Fd(fds[1]), access);
  }
  void send(std::string_view bytes) {
    REQUIRE(::send(here.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  void finish() { shutdown(here.get(), SHUT_WR); }
  void collect() {
    char part[65536];
    ssize_t got;
    while ((got = read(here.get(), part, sizeof part)) > 0) {
      received.append(part, static_cast<size_t>(got));
    }
    if (got == 0) closed = true;
    if (got < 0 && errno == ECONNRESET) was_reset = true;
  }
  Fd here;
  std::string received;
  bool closed = false;
  bool was_reset = false;
};

struct SessionFixture {
  explicit SessionFixture(SessionSettings settings = {})
      : sessions(loop, ops, clock, server, server.worker(0), settings) {}
  ~SessionFixture() {
    bool empty = false;
    sessions.drain([&] { empty = true; });
    while (ops.turnstile.waiting() > 0) ops.turnstile.let_through();
    sessions.abort();
    turns(3);
    REQUIRE(empty);
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) {
      loop.post([this] { loop.stop(); });
      loop.run();
    }
  }
  void until(SessionClient& client, const std::function<bool()>& done) {
    const TimePoint limit = clock.now() + std::chrono::seconds(10);
    while (!done()) {
      INFO("received " << client.received.size() << ": " << client.received.substr(0, 1000));
      REQUIRE(clock.now() < limit);
      turns(1);
      client.collect();
    }
  }
  void expect(SessionClient& client, const std::string& reply) {
    until(client, [&] { return client.received.size() >= reply.size(); });
    REQUIRE(client.received == reply);
    client.received.clear();
  }

  FakeOps ops;
  MetricRegistry registry;
  ServerStats server{registry, 1};
  Loop loop;
  LoopClock clock{loop};
  Sessions sessions;
};

inline std::string value_reply(const std::string& key, const std::string& value) {
  return "VALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

}  // namespace elastripe
