// A client's connection over TLS. The first byte says how TCP cuts it, whether the client has to
// show a certificate, and which version it speaks. What follows is either sent as it is, in place
// of a handshake; or a client of OpenSSL sends it, and some bytes of what that sends are changed:
// of the handshake, or of records. The session must end when the client has and hold no memory
// then. A client that nothing was changed of gets what it would in clear; any other the beginning
// of that.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "proxy/base/check.h"
#include "proxy/io/loop_clock.h"
#include "proxy/session/sessions.h"
#include "tests/fuzz/client_samples.h"
#include "tests/fuzz/fuzzer.h"
#include "tests/fuzz/stream.h"
#include "tests/support/test_certificates.h"
#include "tests/unit/session/fake_ops.h"

using namespace elastripe;

namespace {

constexpr int kMostTurns = 20'000;

constexpr unsigned char kMutual = 0x80;
constexpr unsigned char kRaw = 0x40;
constexpr unsigned char kOlder = 0x20;  // TLS 1.2
constexpr unsigned char kCuts = 0x1f;
constexpr size_t kMostChanges = 7;

// A byte of all that the client sends becomes another.
struct Change {
  size_t at;
  unsigned char by;
};

struct Conversation {
  bool mutual = false, raw = false, older = false;
  unsigned char cuts = 0;
  std::vector<Change> changes;
  std::string_view stream;

  static std::optional<Conversation> read(std::string_view bytes) {
    const auto next = [&] {
      const auto first = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      return first;
    };
    if (bytes.empty()) return {};
    const unsigned char first = next();
    Conversation input{.mutual = (first & kMutual) != 0,
                       .raw = (first & kRaw) != 0,
                       .older = (first & kOlder) != 0,
                       .cuts = static_cast<unsigned char>(first & kCuts),
                       .changes = {},
                       .stream = {}};
    if (!input.raw) {
      if (bytes.empty()) return {};
      const size_t changes = next() & kMostChanges;
      if (bytes.size() < 3 * changes) return {};
      for (size_t i = 0; i < changes; ++i) {
        const size_t high = next();
        const size_t at = high << 8 | next();
        input.changes.push_back({at, next()});
      }
    }
    input.stream = bytes;
    return input;
  }
};

// What is made only once.
struct World {
  std::shared_ptr<const TlsContext> context(TlsRole role) {
    auto made = TlsContext::create(files, role);
    CHECK(made.has_value());
    return *made;
  }

  MetricRegistry registry;
  ServerStats server{registry, 1};
  Loop loop;
  LoopClock clock{loop};
  TestCertificates certificates;
  TlsFiles files = certificates.issue("localhost");
  Published<TlsContext> one_side{context(TlsRole::kServer)};
  Published<TlsContext> mutual{context(TlsRole::kMutualServer)};
  std::shared_ptr<const TlsContext> client = context(TlsRole::kClient);
};

World& world() {
  static World made;
  return made;
}

// The sessions of one client, and its socket.
class Connection {
 public:
  explicit Connection(const ClientAccess& access) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    remote_ = fuzz::Remote(Fd(fds[0]));
    sessions_.adopt(Fd(fds[1]), access);
  }
  void send(std::string_view bytes, unsigned char cuts) {
    fuzz::Pieces pieces(bytes, cuts);
    for (auto piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
      remote_.send(piece);
      serve();
    }
  }
  void end() {
    remote_.finish();
    for (int turns = 0; sessions_.size() > 0; ++turns) {
      CHECK(turns < kMostTurns, "the session does not end");
      serve();
    }
    remote_.collect();
    CHECK(remote_.closed());
    CHECK(ops_.live_bytes == 0);
    CHECK(ops_.memory().staged.taken() == 0);
  }
  void serve() {
    fuzz::turn(world().loop);
    remote_.collect();
  }
  const std::string& received() const { return remote_.received(); }

 private:
  FakeOps ops_;
  Sessions sessions_{world().loop,
                     ops_,
                     world().clock,
                     world().server,
                     world().server.worker(0),
                     {.max_object_bytes = 3000}};
  fuzz::Remote remote_;
};

std::string answers_in_clear(std::string_view stream) {
  Connection connection({});
  connection.send(stream, 0);
  connection.end();
  return connection.received();
}

// A client whose bytes go through memory, where they are changed.
class TlsClient {
 public:
  explicit TlsClient(const Conversation& input)
      : input_(input),
        connection_({.tls = input.mutual ? &world().mutual : &world().one_side}),
        tls_(world().client->connection(-1, "localhost")),
        in_(BIO_new(BIO_s_mem())),
        out_(BIO_new(BIO_s_mem())) {
    SSL_set_bio(tls_.get(), in_, out_);
    if (input.older) SSL_set_max_proto_version(tls_.get(), TLS1_2_VERSION);
  }

  // All that it reads.
  std::string talk() {
    for (int flights = 0; flights < 6 && SSL_do_handshake(tls_.get()) != 1; ++flights) exchange();
    has_met_ = SSL_is_init_finished(tls_.get()) != 0;
    if (has_met_) {
      fuzz::Pieces records(input_.stream, input_.cuts);
      for (auto record = records.next(); !record.empty(); record = records.next()) {
        (void)SSL_write(tls_.get(), record.data(), static_cast<int>(record.size()));
        exchange();
      }
      if (input_.cuts % 2 == 0) (void)SSL_shutdown(tls_.get());
    }
    exchange();
    connection_.end();
    take_in();
    ERR_clear_error();
    return plain_;
  }
  bool has_met() const { return has_met_; }
  bool is_changed() const { return is_changed_; }

 private:
  void exchange() {
    std::string bytes(static_cast<size_t>(BIO_pending(out_)), '\0');
    if (!bytes.empty()) BIO_read(out_, bytes.data(), static_cast<int>(bytes.size()));
    for (const auto& [at, by] : input_.changes) {
      if (at < sent_ || at - sent_ >= bytes.size() || by == 0) continue;
      bytes[at - sent_] = static_cast<char>(static_cast<unsigned char>(bytes[at - sent_]) ^ by);
      is_changed_ = true;
    }
    sent_ += bytes.size();
    connection_.send(bytes, input_.cuts);
    for (int turns = 0; turns < 3; ++turns) connection_.serve();
    take_in();
  }
  void take_in() {
    const std::string_view more = std::string_view(connection_.received()).substr(taken_);
    taken_ += more.size();
    if (!more.empty()) BIO_write(in_, more.data(), static_cast<int>(more.size()));
    if (!has_met_) return;
    char part[4096];
    for (int got; (got = SSL_read(tls_.get(), part, sizeof part)) > 0;) {
      plain_.append(part, static_cast<size_t>(got));
    }
  }

  const Conversation& input_;
  Connection connection_;
  const TlsPtr tls_;
  BIO* const in_;  // of tls_
  BIO* const out_;
  size_t sent_ = 0;
  size_t taken_ = 0;
  std::string plain_;
  bool has_met_ = false;
  bool is_changed_ = false;
};

std::string seed(unsigned char first, const std::vector<Change>& changes,
                 const std::string& stream) {
  std::string bytes{static_cast<char>(first), static_cast<char>(changes.size())};
  for (const auto& [at, by] : changes) {
    bytes += {static_cast<char>(at >> 8), static_cast<char>(at), static_cast<char>(by)};
  }
  return bytes + stream;
}

}  // namespace

bool fuzz::accepts(std::string_view bytes) {
  const auto input = Conversation::read(bytes);
  if (!input) return false;
  if (input->raw) {
    Connection connection({.tls = input->mutual ? &world().mutual : &world().one_side});
    connection.send(input->stream, input->cuts);
    connection.end();
    return !connection.received().empty();
  }
  TlsClient client(*input);
  const std::string answers = client.talk();
  const std::string in_clear = answers_in_clear(input->stream);
  CHECK(client.has_met() || client.is_changed(), "an honest client is refused");
  const bool asks_statistics =
      input->stream.contains("stats") || input->stream.contains("\x80\x10");
  if (!asks_statistics) {
    CHECK(in_clear.starts_with(answers), "{}\nin clear\n{}", answers, in_clear);
    CHECK(client.is_changed() || answers == in_clear, "{}\nin clear\n{}", answers, in_clear);
  }
  return client.has_met();
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> seeds;
  const std::string commands =
      "set k 0 0 5\r\nhello\r\nget k\r\n" + std::string("mg k v\r\nmn\r\n");
  for (const int first : {0, 3, kMutual + 0, kMutual + 5, kOlder + 1, kMutual + kOlder}) {
    seeds.push_back(seed(static_cast<unsigned char>(first), {}, commands));
  }
  seeds.push_back(seed(2, {{600, 1}}, commands));
  for (const std::string& stream : client_samples()) seeds.push_back(seed(4, {}, stream));
  // Records of a handshake without their contents: an alert comes.
  seeds.push_back(std::string("\x40\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", 11));
  return seeds;
}
