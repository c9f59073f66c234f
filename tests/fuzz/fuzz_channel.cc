// A proxy's channel to a node that answers with any bytes. The first byte says how TCP cuts the
// rest, and when one of the calls is given up. Every call must end, and its memory must not be
// touched afterwards; what a call is given must have the sizes that its header tells.
#include <memory>

#include "proxy/async/scope.h"
#include "proxy/base/check.h"
#include "proxy/io/loop_clock.h"
#include "proxy/io/system_random.h"
#include "proxy/io/tcp_node_client.h"
#include "tests/fuzz/fuzzer.h"
#include "tests/fuzz/node_samples.h"
#include "tests/fuzz/stream.h"

using namespace elastripe;

namespace {

constexpr int kMostTurns = 20'000;

struct Ask {
  node::Opcode opcode;
  std::vector<size_t> into;  // sizes
};
// All are asked at once: the reply to the i-th is of slot i.
const std::vector<Ask> kAsks = {
    {node::Opcode::kRecordRead, {}},         {node::Opcode::kShardRead, {}},
    {node::Opcode::kShardRead, {60, 0, 40}}, {node::Opcode::kShardRead, {1, 900}},
    {node::Opcode::kRecordScan, {}},  // is given up in the middle
};
const size_t kGivenUp = kAsks.size() - 1;

struct Asked {
  CallStop stop;
  bool ended = false;
  bool has_reply = false;
};

Task<void> ask(NodeClient* nodes, const Ask* what, TimePoint deadline, Asked* asked) {
  NodeRequestPtr request = new_request(what->opcode);
  request->args = "args";
  request->stop = &asked->stop;
  std::vector<std::unique_ptr<std::byte[]>> parts;  // of their own: every overrun is seen
  size_t into_bytes = 0;
  for (const size_t bytes : what->into) {
    parts.push_back(std::make_unique<std::byte[]>(bytes));
    request->into.emplace_back(parts.back().get(), bytes);
    into_bytes += bytes;
  }
  const auto reply = co_await nodes->call(0, Stamp{}, std::move(request), deadline);
  asked->ended = true;
  if (!reply) co_return;
  asked->has_reply = true;
  const node::ReplyHeader& header = reply->header;
  CHECK(header.opcode == what->opcode);
  CHECK(reply->args().size() == header.args_bytes);
  CHECK(reply->payload().size() == header.payload_bytes() ||
        (reply->payload().empty() && header.payload_bytes() == into_bytes));
}

// What is made only once.
struct World {
  Fd listener = listen_on(resolve("127.0.0.1", 0).value(), false).value();
  SocketAddress address = resolve("127.0.0.1", port_of(listener)).value();
  Loop loop;
  LoopClock clock{loop};
  SystemRandom random;
};

// The connection that the channel makes.
fuzz::Remote accepted(World& world) {
  for (int turns = 0; turns < kMostTurns; ++turns) {
    fuzz::turn(world.loop);
    Fd peer(accept4(world.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.valid()) return fuzz::Remote(std::move(peer));
  }
  CHECK(false, "the channel does not connect");
  return {};
}

std::string reply(size_t ask, std::string_view args, size_t payload_bytes,
                  node::Status status = node::Status::kOk) {
  node::ReplyHeader header;
  header.opcode = kAsks[ask].opcode;
  header.status = status;
  header.args_bytes = static_cast<uint32_t>(args.size());
  header.body_bytes = static_cast<uint32_t>(args.size() + payload_bytes);
  header.opaque = uint64_t{1} << 32 | ask;
  return node::encoded_header(header) + std::string(args) + std::string(payload_bytes, 'p');
}

}  // namespace

bool fuzz::accepts(std::string_view input) {
  if (input.size() < 2) return false;
  const auto cuts = static_cast<unsigned char>(input[0]);
  int until_given_up = static_cast<unsigned char>(input[1]);
  static World world;
  MetricRegistry registry;
  TcpNodeClient nodes(world.loop, world.clock, world.random,
                      {{.name = "n", .addresses = {world.address}}}, registry);
  Scope scope;
  std::vector<Asked> asked(kAsks.size());
  const TimePoint deadline = world.clock.now() + std::chrono::hours(1);
  for (size_t i = 0; i < kAsks.size(); ++i) {
    scope.spawn(ask(&nodes, &kAsks[i], deadline, &asked[i]));
  }
  Remote hostile = accepted(world);
  fuzz::turn(world.loop);
  Pieces pieces(input.substr(2), cuts);
  for (auto piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    hostile.send(piece);
    fuzz::turn(world.loop);
    if (until_given_up-- == 0) asked[kGivenUp].stop.stop();
  }
  hostile.hang_up();
  fuzz::turn(world.loop);
  CHECK(std::ranges::all_of(asked, &Asked::ended));
  nodes.cancel_all();
  return std::ranges::any_of(asked, &Asked::has_reply);
}

std::vector<std::string> fuzz::seeds() {
  const std::string record = node::encoded(node::inline_record(5, "value"));
  const std::string all = reply(4, "", 901) + reply(0, record, 0) + reply(2, "args", 100) +
                          reply(1, "", 500) + reply(3, "", 300);
  const std::string refused =
      reply(2, "", 100, node::Status::kBadPage) + reply(0, "floor", 9, node::Status::kNotFound);
  std::vector<std::string> seeds;
  for (const std::string& stream : {all, refused}) {
    for (const char cuts : {'\0', '\1', '\2'}) {
      for (const char given_up : {'\2', '\5', '\xff'})
        seeds.push_back(std::string{cuts, given_up} + stream);
    }
  }
  return seeds;
}
