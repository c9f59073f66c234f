// A client's connection under any bytes. The first byte says how TCP cuts the rest, and its highest
// bit whether the client has to log in. It must end when the client has, hold no memory then, and
// have answered the same however the bytes came.
#include <sys/socket.h>

#include "proxy/base/check.h"
#include "proxy/io/loop_clock.h"
#include "proxy/session/sessions.h"
#include "tests/fuzz/client_samples.h"
#include "tests/fuzz/fuzzer.h"
#include "tests/fuzz/stream.h"
#include "tests/unit/session/fake_ops.h"

using namespace elastripe;

namespace {

constexpr int kMostTurns = 20'000;

// Every limit is within the reach of a small input.
constexpr SessionSettings kSettings = {.max_object_bytes = 3000,
                                       .commands_in_flight = 6,
                                       .bytes_in_flight = 600,
                                       .unsent_bytes = 2000,
                                       .unsent_text = 500,
                                       .read_bytes = 1000,
                                       .keys_in_flight = 20,
                                       .keys_read = 4,
                                       .all_keys_read = 8,
                                       .line_bytes = 4096,
                                       .own_line_bytes = 100};

// How long an object lives is told in seconds, which shall be the same however long answers take.
struct SameSecond : LoopClock {
  using LoopClock::LoopClock;
  uint64_t unix_ms() const override { return 1'700'000'000'000; }
};

// What is made only once.
struct World {
  MetricRegistry registry;
  ServerStats server{registry, 1};
  Loop loop;
  SameSecond clock{loop};
  Published<Users> users{std::make_shared<const Users>(Users::parse("user:word").value())};
};

constexpr unsigned char kMustLogIn = 0x80;

// Values longer than this come in parts.
constexpr uint64_t kInlineBytes = 40;

struct Ops : FakeOps {
  Ops() {
    inline_bytes = kInlineBytes;
    part_bytes = 30;
    slow = {"slow", "the parts of parts", "the commit of commit"};
    failures.emplace("broken", Error{ErrorCode::kLost, "lost"});
    failures.emplace("the rest of torn", Error{ErrorCode::kTimeout, "late"});
  }
};

// All that a client gets for these bytes, which it sends in pieces before it closes.
std::string answers_to(std::string_view stream, unsigned char cuts, bool must_log_in) {
  static World world;
  Ops ops;
  Sessions sessions(world.loop, ops, world.clock, world.server, world.server.worker(0), kSettings);
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
  fuzz::Remote client{Fd(fds[0])};
  sessions.adopt(Fd(fds[1]), {.users = must_log_in ? &world.users : nullptr});
  const auto serve = [&] {
    fuzz::turn(world.loop);
    client.collect();
    if (ops.turnstile.waiting() > 0) ops.turnstile.let_through();
  };
  fuzz::Pieces pieces(stream, cuts);
  for (auto piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    client.send(piece);
    serve();
  }
  client.finish();
  for (int turns = 0; sessions.size() > 0; ++turns) {
    CHECK(turns < kMostTurns, "the session does not end");
    serve();
  }
  client.collect();
  CHECK(client.closed());
  CHECK(ops.turnstile.waiting() == 0);
  CHECK(ops.live_bytes == 0);
  CHECK(ops.memory().staged.taken() == 0);
  return client.received();
}

}  // namespace

bool fuzz::accepts(std::string_view input) {
  if (input.empty()) return false;
  const auto first = static_cast<unsigned char>(input[0]);
  const bool must_log_in = (first & kMustLogIn) != 0;
  const std::string_view stream = input.substr(1);
  const std::string whole = answers_to(stream, 0, must_log_in);
  const std::string in_pieces = answers_to(stream, first & ~kMustLogIn, must_log_in);
  // What statistics say depends on how much was read so far.
  const bool asks_statistics = stream.contains("stats") || stream.contains("\x80\x10");
  CHECK(asks_statistics || whole == in_pieces, "{}\nor, in pieces,\n{}", whole, in_pieces);
  return !whole.empty() && !whole.contains("ERROR");
}

std::vector<std::string> fuzz::seeds() {
  const std::string large(100, 'v');
  std::vector<std::string> streams = client_samples();
  for (const std::string key : {"k", "slow", "parts", "commit"}) {
    streams.push_back("set " + key + " 0 0 100\r\n" + large + "\r\nget " + key + " k\r\nmg " + key +
                      " v o50 n20\r\ntouch " + key + " 0\r\nversion\r\n");
  }
  std::vector<std::string> seeds;
  for (const std::string& stream : streams) {
    seeds.push_back(std::string("\0", 1) + stream);
    seeds.push_back('\5' + stream);
  }
  seeds.push_back("\x85set k 0 0 9\r\nuser word\r\nget k\r\n");
  seeds.push_back("\x85set k 0 0 9 noreply\r\nuser word\r\nmn\r\n");
  seeds.push_back('\x85' + fuzz::client_samples().back());  // by SASL
  return seeds;
}
