#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "proxy/async/scope.h"
#include "proxy/io/loop_clock.h"
#include "proxy/io/system_random.h"
#include "proxy/io/tcp_node_client.h"
#include "tests/unit/io/node_stub.h"

namespace elastripe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What names say; shared with the resolver's thread, which may outlive the test.
class Names {
 public:
  void say(std::vector<SocketAddress> addresses) {
    const std::lock_guard lock(mutex_);
    addresses_ = std::move(addresses);
  }
  void be_silent() {
    const std::lock_guard lock(mutex_);
    silent_ = true;
  }
  void speak() {
    const std::lock_guard lock(mutex_);
    silent_ = false;
    changed_.notify_all();
  }
  int asked() const { return asked_; }

  Resolver::Found look_up() {
    ++asked_;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !silent_; });
    if (addresses_.empty()) return fail(ErrorCode::kInvalid, "node.example: unknown");
    return addresses_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<SocketAddress> addresses_;
  bool silent_ = false;
  std::atomic<int> asked_ = 0;
};

SocketAddress address_that_refuses() {
  NodeStub gone;
  const SocketAddress address = gone.address();
  gone.stop_listening();
  return address;
}

struct Outcome {
  std::optional<Result<NodeReply>> result;
  bool done() const { return result.has_value(); }
};

Task<void> do_call(NodeClient* client, TimePoint deadline, Outcome* out) {
  NodeRequestPtr request = new_request(node::Opcode::kShardRead);
  out->result = co_await client->call(0, Stamp{.cluster_id = 1, .epoch = {}, .incarnation = 7},
                                      std::move(request), deadline);
}

// A client of one node, whose name is looked up in `names`.
struct Fixture {
  explicit Fixture(std::vector<SocketAddress> known = {})
      : resolver(std::make_shared<Resolver>(
            [names = names](const std::string&, uint16_t) { return names->look_up(); })),
        clock(loop),
        client(loop, clock, random, {{"n1", std::move(known), resolver, "node.example", 1}},
               registry) {}
  ~Fixture() {
    names->speak();
    client.cancel_all();
    REQUIRE(scope.live() == 0);
  }

  void start(Outcome& out, Duration timeout = seconds(30)) {
    scope.spawn(do_call(&client, clock.now() + timeout, &out));
  }
  // Asserts nothing while all is well: a node's thread may do so meanwhile.
  void until(const std::function<bool()>& done) {
    const TimePoint limit = clock.now() + seconds(60);
    while (!done()) {
      if (clock.now() >= limit) FAIL("it takes too long");
      loop.post([this] { loop.stop(); });
      loop.run();
    }
  }
  ErrorCode error_of_call() {
    Outcome out;
    start(out);
    until([&] { return out.done(); });
    REQUIRE_FALSE(out.result->has_value());
    return out.result->error().code;
  }
  // A call that the stub gets and answers.
  void call_reaches(NodeStub& stub) {
    Outcome out;
    start(out);
    std::thread node([&] {
      if (!stub.connected()) stub.accept();
      stub.send(NodeStub::reply_to(stub.receive(), "", ""));
    });
    until([&] { return out.done(); });
    node.join();
    REQUIRE(out.result->has_value());
  }

  // The first calls may meet the end of an earlier connection.
  void call_reaches_at_last(NodeStub& stub) {
    std::thread node([&] {
      stub.accept();
      stub.send(NodeStub::reply_to(stub.receive(), "", ""));
    });
    for (bool reached = false; !reached;) {
      Outcome out;
      start(out);
      until([&] { return out.done(); });
      reached = out.result->has_value();
    }
    node.join();
  }

  std::shared_ptr<Names> names = std::make_shared<Names>();
  std::shared_ptr<Resolver> resolver;
  MetricRegistry registry;
  Loop loop;
  LoopClock clock;
  SystemRandom random;
  TcpNodeClient client;
  Scope scope;
};

TEST_CASE("all addresses of a name are tried") {
  Fixture f;
  NodeStub stub;
  f.names->say({address_that_refuses(), address_that_refuses(), stub.address()});
  f.call_reaches(stub);
}

TEST_CASE("a name is looked up again when the connection is lost") {
  Fixture f;
  NodeStub before;
  NodeStub after;
  f.names->say({before.address()});
  f.call_reaches(before);
  const int asked = f.names->asked();
  f.call_reaches(before);
  CHECK(f.names->asked() == asked);
  f.names->say({after.address()});
  before.stop_listening();
  before.hang_up();
  f.call_reaches_at_last(after);
}

TEST_CASE("a node is gone only if all its addresses refuse") {
  Fixture f;
  f.names->say({address_that_refuses(), address_that_refuses()});
  CHECK(f.error_of_call() == ErrorCode::kUnavailable);
}

TEST_CASE("a name that says nothing does not prove a node gone") {
  Fixture f;
  CHECK(f.error_of_call() == ErrorCode::kNotSent);
}

TEST_CASE("a known address serves while its name can not be looked up, but proves nothing") {
  NodeStub stub;
  Fixture f({stub.address()});
  f.call_reaches(stub);
  Fixture refused({address_that_refuses()});
  CHECK(refused.error_of_call() == ErrorCode::kNotSent);
}

TEST_CASE("a known address serves while a look-up takes long") {
  NodeStub stub;
  Fixture f({stub.address()});
  f.names->be_silent();
  f.call_reaches(stub);
  CHECK(f.names->asked() == 1);
}

TEST_CASE("what a look-up finds late is where the next connection goes") {
  NodeStub after;
  Fixture f({address_that_refuses()});
  f.names->be_silent();
  CHECK(f.error_of_call() == ErrorCode::kNotSent);  // the name may have another address by now
  CHECK(f.names->asked() == 1);
  SECTION("the node is there") {
    f.names->say({after.address()});
    f.names->speak();
    f.call_reaches_at_last(after);
  }
  SECTION("the node is gone") {
    f.names->say({address_that_refuses()});
    f.names->speak();
    // Another thread tells of it, when it gets to run.
    while (f.error_of_call() != ErrorCode::kUnavailable) {
    }
    CHECK(f.names->asked() >= 1);
  }
}

TEST_CASE("a lookup that takes long keeps nobody else waiting") {
  Fixture f;
  f.names->be_silent();
  Outcome out;
  f.start(out, milliseconds(20));
  f.until([&] { return out.done(); });
  CHECK(out.result->error().code == ErrorCode::kNotSent);
  CHECK(f.names->asked() == 1);
}

TEST_CASE("who asks for the same name meanwhile gets the same answer") {
  Fixture f;
  f.names->be_silent();
  f.names->say({address_that_refuses()});
  int answers = 0;
  std::vector<Resolver::Waiting> waiting;
  const auto ask = [&] {
    waiting.push_back(f.resolver->ask(f.loop, "node.example", 1, [&](const Resolver::Found& found) {
      answers += found.has_value();
    }));
  };
  ask();
  f.until([&] { return f.names->asked() == 1; });
  for (int i = 0; i < 9; ++i) ask();
  waiting.erase(waiting.begin() + 3, waiting.begin() + 5);  // these do not wait any more
  f.names->speak();
  f.until([&] { return answers == 8; });
  CHECK(f.names->asked() == 1);
}

}  // namespace
}  // namespace elastripe
