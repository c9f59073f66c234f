// What the HTTP client of etcd believes over TLS, as its files change.
#include <fmt/core.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>

#include "proxy/etcd/http_calls.h"
#include "proxy/io/socket.h"
#include "tests/support/test_certificates.h"

using namespace elastripe;
using namespace std::chrono_literals;

namespace {

// Answers one request of each connection.
class Server {
 public:
  explicit Server(const TlsFiles& files)
      : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free),
        socket_(listen_on(resolve("127.0.0.1", 0).value(), false).value()) {
    ::signal(SIGPIPE, SIG_IGN);
    const auto pem = SSL_FILETYPE_PEM;
    REQUIRE(SSL_CTX_use_certificate_file(context_.get(), files.certificate.c_str(), pem) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey_file(context_.get(), files.key.c_str(), pem) == 1);
    thread_ = std::thread([this] { serve(); });
  }
  ~Server() {
    is_over_ = true;
    ::shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::string url() const { return fmt::format("https://127.0.0.1:{}/", port_of(socket_)); }

 private:
  void serve() {
    while (!is_over_) {
      pollfd waits{.fd = socket_.get(), .events = POLLIN, .revents = 0};
      ::poll(&waits, 1, -1);
      const Fd client(::accept(socket_.get(), nullptr, nullptr));
      if (client.valid()) talk(client.get());
    }
  }
  void talk(int client) {
    const std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context_.get()), SSL_free);
    SSL_set_fd(tls.get(), client);
    if (SSL_accept(tls.get()) != 1) return;
    char request[4096];
    (void)SSL_read(tls.get(), request, sizeof request);
    const std::string_view reply =
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    (void)SSL_write(tls.get(), reply.data(), static_cast<int>(reply.size()));
    (void)SSL_shutdown(tls.get());
  }

  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  const Fd socket_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

// Why there is no answer; empty: there is one.
std::string ask(HttpCalls& calls, const std::string& url) {
  std::promise<Result<HttpReply>> promise;
  calls.post({.url = url,
              .headers = {},
              .body = "{}",
              .deadline = std::chrono::steady_clock::now() + 30s,
              .is_complete = nullptr},
             [&](Result<HttpReply> reply) { promise.set_value(std::move(reply)); });
  const auto reply = promise.get_future().get();
  return reply ? "" : reply.error().message;
}

}  // namespace

TEST_CASE("a CA file that is replaced counts from the next connection on") {
  TestCertificates ours;
  const TestCertificates others;
  const Server server(ours.issue("etcd", "IP:127.0.0.1"));
  const std::string believed = ours.path("believed.pem");
  const auto believe = [&](const TestCertificates& who) {
    std::filesystem::copy_file(who.path("ca.pem"), believed,
                               std::filesystem::copy_options::overwrite_existing);
  };
  HttpCalls calls({.ca = believed, .certificate = {}, .key = {}});
  believe(others);
  CHECK(ask(calls, server.url()).contains("certificate"));
  believe(ours);
  CHECK(ask(calls, server.url()) == "");
  CHECK(ask(calls, server.url()) == "");
  believe(others);
  CHECK(ask(calls, server.url()).contains("certificate"));
  std::filesystem::remove(believed);
  CHECK(ask(calls, server.url()).contains(believed));
  believe(ours);
  CHECK(ask(calls, server.url()) == "");
}
