// The client of etcd against servers that do not behave: members that are silent, tokens that are
// void, answers that end early or never.
#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "proxy/async/scope.h"
#include "proxy/etcd/http_etcd.h"
#include "proxy/io/loop_clock.h"
#include "proxy/io/socket.h"

using namespace elastripe;
using namespace std::chrono_literals;

namespace {

constexpr const char* kFound = R"({"header":{"revision":"7"}})";

std::string answer(const std::string& body, const std::string& status = "200 OK") {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body);
}

// A member of etcd, which answers as a test says.
class Member {
 public:
  // What it sends for a request (path, headers and body, as they came), and then: `ends`: it closes
  // the connection; else it says no more. Nothing to send: it is silent.
  struct Reply {
    std::string bytes;
    bool ends = true;
  };
  using Answer = std::function<Reply(const std::string& request)>;

  explicit Member(Answer say)
      : answer_(std::move(say)),
        socket_(listen_on(resolve("127.0.0.1", 0).value(), false).value()) {
    // The listening socket is made for a loop.
    fcntl_blocking(socket_.get());
    thread_ = std::thread([this] { serve(); });
  }
  ~Member() {
    is_over_ = true;
    ::shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
    for (const int client : clients_) ::shutdown(client, SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
    for (const int client : clients_) ::close(client);
  }

  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_of(socket_)); }
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  static void fcntl_blocking(int fd);

  void serve() {
    while (!is_over_) {
      const int client = ::accept(socket_.get(), nullptr, nullptr);
      if (client < 0) return;
      clients_.push_back(client);
      threads_.emplace_back([this, client] { talk(client); });
    }
  }
  void talk(int client) {
    std::string request;
    while (read_request(client, request)) {
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      const Reply reply = answer_(request);
      (void)!::write(client, reply.bytes.data(), reply.bytes.size());
      if (reply.ends && !reply.bytes.empty()) return (void)::shutdown(client, SHUT_RDWR);
    }
  }
  static bool read_request(int client, std::string& request) {
    request.clear();
    char part[4096];
    for (;;) {
      const size_t head = request.find("\r\n\r\n");
      if (head != std::string::npos) {
        const size_t at = request.find("Content-Length: ");
        const size_t body = std::stoul(request.substr(at + 16));
        if (request.size() >= head + 4 + body) return true;
      }
      const ssize_t got = ::read(client, part, sizeof part);
      if (got <= 0) return false;
      request.append(part, static_cast<size_t>(got));
    }
  }

  const Answer answer_;
  const Fd socket_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
  std::vector<std::thread> threads_;
  std::vector<int> clients_;
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

void Member::fcntl_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  REQUIRE(::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0);
}

// The client, on a loop that runs while a call does.
struct Client {
  explicit Client(EtcdSettings settings) : etcd(loop, std::move(settings)) {}

  template <class T>
  Result<T> run(Task<Result<T>> call) {
    std::optional<Result<T>> result;
    Scope scope;
    scope.spawn(await(std::move(call), result));
    loop.run();  // it was told to stop, if there is a result already
    REQUIRE(result);
    return std::move(*result);
  }
  template <class T>
  Task<void> await(Task<Result<T>> call, std::optional<Result<T>>& result) {
    result = co_await std::move(call);
    loop.stop();
  }
  TimePoint in(Duration time) const { return loop.now() + time; }

  Loop loop;
  HttpEtcd etcd;
};

EtcdSettings at(std::vector<std::string> urls) {
  return {.endpoints = std::move(urls), .user = {}, .password_file = {}, .tls = {}};
}

// For its owner only.
class PasswordFile {
 public:
  explicit PasswordFile(std::string_view password) {
    ::close(::mkstemp(path_));
    write(password);
  }
  ~PasswordFile() { ::unlink(path_); }
  void write(std::string_view password) const {
    std::ofstream file(path_);
    file << password << '\n';
    REQUIRE(file.flush());
  }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/elastripe-password-XXXXXX";
};

Member::Reply silence(const std::string&) { return {.bytes = {}, .ends = false}; }
Member::Reply found(const std::string&) { return {.bytes = answer(kFound)}; }

bool has(const std::string& text, std::string_view part) { return text.contains(part); }

}  // namespace

TEST_CASE("a member that is silent has its part of the time, and the next one answers") {
  Member silent(silence);
  Member other(found);
  for (int i = 0; i < 4; ++i) {  // whichever is asked first
    Client client(at({silent.url(), other.url()}));
    const auto reply = client.run(client.etcd.find("/a/", client.in(2s)));
    REQUIRE(reply);
    CHECK(reply->revision == 7);
  }
  CHECK(!other.requests().empty());
  CHECK(has(other.requests()[0], "POST /v3/kv/range"));
  // A member that has lost the others is not to answer.
  CHECK(has(other.requests()[0], "Grpc-Metadata-hasleader: true"));
}

TEST_CASE("nobody who answers is told with where and why") {
  std::string gone;
  {
    const Member member(found);
    gone = member.url();
  }
  Client client(at({gone}));
  const auto reply = client.run(client.etcd.find("/a/", client.in(2s)));
  REQUIRE_FALSE(reply);
  CHECK(reply.error().code == ErrorCode::kUnavailable);
  CHECK(reply.error().message.starts_with("etcd: " + gone + ": "));
}

TEST_CASE("an answer that sends elsewhere is none") {
  Member other(found);
  Member member([&](const std::string&) -> Member::Reply {
    return {.bytes = "HTTP/1.1 302 Found\r\nLocation: " + other.url() +
                     "/v3/kv/range\r\nContent-Length: 0\r\n\r\n"};
  });
  Client client(at({member.url()}));
  CHECK_FALSE(client.run(client.etcd.find("/a/", client.in(2s))));
  CHECK(other.requests().empty());
}

TEST_CASE("an answer without end is not read to it") {
  const std::string much(17 << 20, ' ');
  Member member([&](const std::string&) -> Member::Reply { return {.bytes = answer(much)}; });
  Client client(at({member.url()}));
  const auto reply = client.run(client.etcd.find("/a/", client.in(10s)));
  REQUIRE_FALSE(reply);
  CHECK(has(reply.error().message, "too large"));
}

TEST_CASE("a token that is void is replaced once, and no password is told elsewhere") {
  const PasswordFile file("secret words");
  const char* const path = file.path();
  const char* const voids[] = {
      R"({"error":"x","message":"etcdserver: invalid auth token","code":16})",
      R"({"message":"etcdserver: revision of auth store is old","code":3})"};
  for (const char* const is_void : voids) {
    int tokens = 0;
    bool is_first_void = false;
    Member member([&](const std::string& request) -> Member::Reply {
      if (has(request, "/v3/auth/authenticate")) {
        ++tokens;
        return {.bytes = answer(fmt::format(R"({{"header":{{}},"token":"t{}"}})", tokens))};
      }
      if (is_first_void && has(request, "Authorization: t1\r\n")) {
        return {.bytes = answer(is_void, "400 Bad Request")};
      }
      return found(request);
    });
    Client client({.endpoints = {member.url()}, .user = "u", .password_file = path, .tls = {}});
    REQUIRE(client.run(client.etcd.find("/a/", client.in(2s))));
    is_first_void = true;
    REQUIRE(client.run(client.etcd.find("/a/", client.in(2s))));
    CHECK(tokens == 2);
    const auto requests = member.requests();
    REQUIRE(requests.size() == 5);
    for (const size_t i : {size_t{0}, size_t{3}}) {  // it logs in
      CHECK(has(requests[i], R"("password":"secret words")"));
      CHECK_FALSE(has(requests[i], "Authorization"));
    }
    for (const size_t i : {size_t{1}, size_t{2}, size_t{4}})
      CHECK_FALSE(has(requests[i], "secret"));
    CHECK(has(requests[4], "Authorization: t2\r\n"));
  }
  REQUIRE(::chmod(path, 0644) == 0);
  Member member(found);
  Client client({.endpoints = {member.url()}, .user = "u", .password_file = path, .tls = {}});
  const auto refused = client.run(client.etcd.find("/a/", client.in(2s)));
  REQUIRE_FALSE(refused);
  CHECK(has(refused.error().message, "chmod 600"));
  CHECK(member.requests().empty());
}

TEST_CASE("a password that is refused is not tried again and again, and another one at once") {
  const PasswordFile file("old");
  const auto say = [](const std::string& request) -> Member::Reply {
    if (!has(request, "/v3/auth/authenticate")) return found(request);
    if (has(request, R"("new")")) return {.bytes = answer(R"({"header":{},"token":"t"})")};
    return {.bytes = answer(R"({"message":"authentication failed","code":3})", "400 Bad Request")};
  };
  Member one(say), other(say);
  Client client({.endpoints = {one.url(), other.url()},
                 .user = "u",
                 .password_file = file.path(),
                 .tls = {}});
  for (int i = 0; i < 5; ++i) {
    const auto refused = client.run(client.etcd.find("/a/", client.in(2s)));
    REQUIRE_FALSE(refused);
    CHECK(has(refused.error().message, "u can not log in: authentication failed"));
  }
  CHECK(one.requests().size() + other.requests().size() == 1);
  file.write("new");
  CHECK(client.run(client.etcd.find("/a/", client.in(2s))));
}

TEST_CASE("a watch whose token has run out logs in again") {
  const PasswordFile file("secret");
  int tokens = 0;
  Member member([&](const std::string& request) -> Member::Reply {
    if (has(request, "/v3/auth/authenticate")) {
      return {.bytes = answer(fmt::format(R"({{"header":{{}},"token":"t{}"}})", ++tokens))};
    }
    if (!has(request, "/v3/watch")) return found(request);
    if (has(request, "Authorization: t1\r\n")) {
      return {
          .bytes = answer(
              R"({"result":{"header":{},"created":true,"canceled":true,)"
              R"("cancel_reason":"rpc error: code = PermissionDenied desc = permission denied"}})"
              "\n")};
    }
    return {.bytes = answer(R"({"result":{"header":{"revision":"7"},"created":true}})"
                            "\n"
                            R"({"result":{"header":{"revision":"8"},)"
                            R"("events":[{"kv":{"key":"YQ==","mod_revision":"8"}}]}})"
                            "\n")};
  });
  Client client(
      {.endpoints = {member.url()}, .user = "u", .password_file = file.path(), .tls = {}});
  REQUIRE(client.run(client.etcd.find("/a/", client.in(2s))));
  const auto changes = client.run(client.etcd.changes("/a/", 7, client.in(2s)));
  REQUIRE(changes);
  CHECK(changes->revision == 8);
  CHECK(tokens == 2);
}

TEST_CASE("a watch ends with what it tells, at its deadline, or as a failure") {
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const auto chunk = [](const std::string& line) {
    return fmt::format("{:x}\r\n{}\r\n", line.size(), line);
  };
  const std::string begun = R"({"result":{"header":{"revision":"7"},"created":true}})"
                            "\n";
  const std::string event =
      R"({"result":{"header":{"revision":"8"},"events":[{"kv":{"key":"YQ==","mod_revision":"8"}}]}})"
      "\n";
  Member::Reply reply;
  Member member([&](const std::string&) { return reply; });
  Client client(at({member.url()}));
  const auto watch = [&](Duration time) {
    return client.run(client.etcd.changes("/a/", 7, client.in(time)));
  };
  SECTION("with a change, though its stream goes on") {
    reply = {.bytes = head + chunk(begun) + chunk(event), .ends = false};
    const auto changes = watch(10s);
    REQUIRE(changes);
    CHECK(changes->revision == 8);
    CHECK(changes->changes.size() == 1);
  }
  SECTION("at the deadline, if it has begun") {
    reply = {.bytes = head + chunk(begun), .ends = false};
    const auto changes = watch(300ms);
    REQUIRE(changes);
    CHECK(changes->revision == 7);
    CHECK(changes->changes.empty());
  }
  SECTION("at the deadline, without a word") {
    reply = {.bytes = {}, .ends = false};
    CHECK_FALSE(watch(300ms));
  }
  SECTION("at once, as somebody between has closed it") {
    reply = {.bytes = head + chunk(begun) + "0\r\n\r\n", .ends = false};
    CHECK_FALSE(watch(10s));
  }
}

TEST_CASE("calls that are under way end when they are cancelled, and later ones at once") {
  Member silent(silence);
  Client client(at({silent.url()}));
  std::vector<std::optional<Result<etcd::Found>>> results(3);
  Scope scope;
  for (auto& result : results) {
    scope.spawn(client.await(client.etcd.find("/a/", client.in(60s)), result));
  }
  client.etcd.cancel();
  for (const auto& result : results) {
    REQUIRE(result);
    CHECK(result->error().code == ErrorCode::kCancelled);
  }
  CHECK(client.run(client.etcd.grant(5s, client.in(60s))).error().code == ErrorCode::kCancelled);
}
