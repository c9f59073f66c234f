// Streams over TLS: two ends of one connection, on one loop.
#include <signal.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "proxy/io/loop.h"
#include "proxy/io/stream.h"
#include "tests/support/test_certificates.h"

namespace elastripe {
namespace {

using ContextPtr = std::shared_ptr<const TlsContext>;

ContextPtr context(const TlsFiles& files, TlsRole role) {
  auto made = TlsContext::create(files, role);
  INFO((made ? "" : made.error().message));
  REQUIRE(made);
  return *made;
}

// Sends what is in `out`, and keeps what comes.
struct End final : Stream::Owner {
  explicit End(Loop& loop) : stream(loop, *this) {}

  void open(int fd, TlsPtr tls) {
    Fd socket(fd);
    stream.open(std::move(socket), std::move(tls));
    stream.watch(true);
  }
  // As a channel does, before it sends anything.
  void shake_hands() {
    is_shaking = true;
    handshake = stream.shake_hands();
    if (handshake == WriteQueue::Flush::kBlocked) return;
    is_shaking = false;
    if (handshake == WriteQueue::Flush::kBroken) error = EPROTO;
  }
  void send(std::string_view bytes) {
    out.copy(bytes);
    flush();
  }
  void flush() {
    if (stream.flush(out) == WriteQueue::Flush::kBroken) error = out.error();
  }
  void on_readable() override {
    ++reads;
    std::string part(part_bytes, '\0');
    const iovec room{part.data(), part.size()};
    const Stream::Taken taken = stream.read(std::span(&room, 1));
    received.append(part, 0, taken.bytes);
    at_end |= taken.at_end;
    if (taken.error != 0) error = taken.error;
    if (taken.is_end()) stream.watch(false);
  }
  void on_writable() override { is_shaking ? shake_hands() : flush(); }
  std::string reason() const { return stream.describe(error); }

  Stream stream;
  WriteQueue out;
  std::string received;
  size_t part_bytes = 64 << 10;  // of one read
  int reads = 0;
  bool at_end = false;
  int error = 0;
  bool is_shaking = false;
  WriteQueue::Flush handshake = WriteQueue::Flush::kBlocked;
};

struct Connection {
  Connection(const ContextPtr& server_context, const ContextPtr& client_context,
             const std::string& host = "localhost") {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    server.open(fds[0], server_context->connection(fds[0]));
    client.open(fds[1], client_context ? client_context->connection(fds[1], host) : nullptr);
    if (client_context) client.shake_hands();
  }
  void until(const std::function<bool()>& done) {
    const TimePoint limit = loop.now() + std::chrono::seconds(20);
    while (!done()) {
      INFO("client: " << client.error << ", server: " << server.error);
      REQUIRE(loop.now() < limit);
      loop.post([this] { loop.stop(); });
      loop.run();
    }
  }
  Loop loop;
  End server{loop};
  End client{loop};
};

struct Fixture {
  Fixture() { signal(SIGPIPE, SIG_IGN); }
  TestCertificates certificates;
  TlsFiles server_files = certificates.issue("server", "DNS:localhost,IP:127.0.0.1");
  TlsFiles client_files = certificates.issue("client", "");
  ContextPtr server = context(server_files, TlsRole::kServer);
  ContextPtr mutual = context(server_files, TlsRole::kMutualServer);
  ContextPtr client = context(client_files, TlsRole::kClient);
};

std::string bytes_of(size_t count) {
  std::string bytes;
  while (bytes.size() < count) bytes += std::to_string(bytes.size()) + ",";
  return bytes;
}

}  // namespace

TEST_CASE("bytes go both ways over TLS, more than the socket takes", "[tls]") {
  Fixture f;
  for (const ContextPtr& server : {f.server, f.mutual}) {
    for (const std::string host : {"localhost", "127.0.0.1"}) {
      Connection c(server, f.client, host);
      const std::string asked = bytes_of(5 << 20), answered = bytes_of(3 << 20) + "end";
      c.until([&] { return c.client.handshake == WriteQueue::Flush::kDone; });
      c.client.send(asked);
      CHECK_FALSE(c.client.out.empty());
      c.server.send(answered);
      c.until([&] {
        return c.server.received.size() >= asked.size() &&
               c.client.received.size() >= answered.size();
      });
      CHECK(c.server.received == asked);
      CHECK(c.client.received == answered);
      CHECK(c.server.stream.has_shaken_hands());
    }
  }
}

TEST_CASE("what is decrypted and not taken is told again, and only while it is wanted", "[tls]") {
  Fixture f;
  Connection c(f.server, f.client);
  c.until([&] { return c.client.handshake == WriteQueue::Flush::kDone; });
  c.server.part_bytes = 100;
  c.client.send(std::string(1000, 'x'));
  c.until([&] { return c.server.reads > 0 && !c.server.received.empty(); });
  c.server.stream.watch(false);
  const size_t before = c.server.received.size();
  REQUIRE(before < 1000);
  for (int i = 0; i < 5; ++i) {
    c.loop.post([&] { c.loop.stop(); });
    c.loop.run();
  }
  CHECK(c.server.received.size() == before);
  c.server.stream.watch(true);
  c.until([&] { return c.server.received.size() == 1000; });
}

TEST_CASE("the end of a TLS connection comes behind its last bytes", "[tls]") {
  Fixture f;
  Connection c(f.server, f.client);
  c.until([&] { return c.client.handshake == WriteQueue::Flush::kDone; });
  c.client.send("last");
  c.client.stream.close();
  c.until([&] { return c.server.at_end; });
  CHECK(c.server.received == "last");
  CHECK(c.server.error == 0);
}

TEST_CASE("a client believes only servers of its CA that have the host", "[tls]") {
  Fixture f;
  TestCertificates others;
  const ContextPtr foreign = context(others.issue("server"), TlsRole::kServer);
  const auto failure = [&](const ContextPtr& server, const std::string& host) {
    Connection c(server, f.client, host);
    c.until([&] { return c.client.error != 0; });
    return c.client.reason();
  };
  CHECK(failure(foreign, "localhost").starts_with("TLS: certificate verify failed ("));
  CHECK(failure(f.server, "other.example") == "TLS: certificate verify failed (hostname mismatch)");
  CHECK(failure(f.server, "127.0.0.2") == "TLS: certificate verify failed (IP address mismatch)");
}

TEST_CASE("a mutual server wants a certificate of its CA", "[tls]") {
  Fixture f;
  TestCertificates others;
  TlsFiles foreign = others.issue("client");
  std::ofstream(others.path("both.pem"))
      << std::ifstream(foreign.ca).rdbuf() << std::ifstream(f.client_files.ca).rdbuf();
  foreign.ca = others.path("both.pem");  // it does believe the server
  Connection c(f.mutual, context(foreign, TlsRole::kClient));
  c.until([&] { return c.server.error != 0; });
  INFO(c.server.reason());
  CHECK(c.server.reason().starts_with("TLS: certificate verify failed ("));
  CHECK_FALSE(c.server.stream.has_shaken_hands());
  CHECK(c.server.received.empty());
}

TEST_CASE("bytes that are no TLS break the connection", "[tls]") {
  Fixture f;
  Connection c(f.server, nullptr);
  c.client.send("get key\r\n");
  c.until([&] { return c.server.error != 0; });
  CHECK(c.server.error == EPROTO);
  CHECK(c.server.reason().starts_with("TLS: "));
  CHECK(c.server.received.empty());
}

TEST_CASE("files that are no pair of key and certificate are refused by name", "[tls]") {
  Fixture f;
  const auto error = [](const TlsFiles& files, TlsRole role) {
    const auto made = TlsContext::create(files, role);
    return made ? std::string() : made.error().message;
  };
  TlsFiles files = f.server_files;
  files.certificate = f.certificates.path("nothing.pem");
  CHECK(error(files, TlsRole::kServer) ==
        "certificate " + files.certificate + ": No such file or directory");
  files = f.server_files;
  files.key = f.client_files.key;
  CHECK(error(files, TlsRole::kServer) == "key " + files.key + ": key values mismatch");
  files = f.server_files;
  std::ofstream(f.certificates.path("text.pem")) << "no PEM\n";
  files.ca = f.certificates.path("text.pem");
  CHECK(error(files, TlsRole::kServer).empty());
  CHECK(error(files, TlsRole::kMutualServer).starts_with("ca " + files.ca + ": "));
  files.ca = "";
  CHECK(error(files, TlsRole::kClient).starts_with("ca : "));
}

TEST_CASE("certificates that the other side would refuse are refused", "[tls]") {
  TestCertificates certificates;
  TestCertificates other;
  const auto error = [](const TlsFiles& files, TlsRole role) {
    const auto made = TlsContext::create(files, role);
    if (made) return std::string();
    const std::string& text = made.error().message;
    const std::string name = "certificate " + files.certificate + ": ";
    REQUIRE(text.starts_with(name));
    return text.substr(name.size());
  };
  const std::string names = "DNS:localhost";
  for (const TlsRole role : {TlsRole::kServer, TlsRole::kMutualServer, TlsRole::kClient}) {
    CHECK(error(certificates.issue("late", names, {.begins_in_s = -9, .ends_in_s = -5}), role)
              .starts_with("has expired at "));
    CHECK(error(certificates.issue("early", names, {.begins_in_s = 900}), role)
              .starts_with("is valid from "));
    CHECK(error(certificates.issue("server", names, {.usage = "serverAuth"}), role).empty());
    CHECK(error(certificates.issue("client", names, {.usage = "clientAuth"}), role) ==
          (role == TlsRole::kClient ? "" : "is for clients only (extended key usage)"));
    TlsFiles strange = certificates.issue("strange");
    strange.ca = other.path("ca.pem");  // right for a server: that is the CA of its clients
    CHECK(error(strange, role) ==
          (role == TlsRole::kClient
               ? "is not by the CA " + strange.ca + ": unable to get local issuer certificate"
               : ""));
  }
}

TEST_CASE("a context tells how long and for what its certificate is", "[tls]") {
  TestCertificates certificates;
  const auto files =
      certificates.issue("client", "DNS:localhost", {.ends_in_s = 7200, .usage = "clientAuth"});
  const auto until = context(files, TlsRole::kClient)->valid_until();
  const auto left = until - std::chrono::system_clock::now();
  CHECK(left > std::chrono::seconds(3600));
  CHECK(left <= std::chrono::seconds(7200));
  CHECK_FALSE(context(files, TlsRole::kClient)->is_of_server());
  CHECK(context(certificates.issue("server"), TlsRole::kClient)->is_of_server());
}

}  // namespace elastripe
