// Which proxy a Pool asks when another one refuses, dies, is silent or stops amid an answer.
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client-lib/pool.h"
#include "client-lib/proxies.h"
#include "tests/unit/client/server.h"

namespace elastripe::client {
namespace {

constexpr int kSilent_ms = 200;  // after which a server that says nothing is given up
const std::string kValue = "VALUE key 3 5 77\r\nhello\r\nEND\r\n";
const std::string kNotServing = "SERVER_ERROR not serving: deposed\r\n";
const std::string kUnknown = "CLIENT_ERROR outcome unknown: the node died\r\n";

Pool pool_of(const std::vector<std::string>& addresses, size_t idle_clients = 8) {
  Options options;
  options.request_timeout_ms = kSilent_ms;
  return Pool::create(addresses, options, idle_clients).value();
}

// An address where nobody listens.
std::string nobody() { return FakeProxy({}).address(); }

using Call = std::function<Result<>(Pool&)>;

struct Write {
  Call call;
  std::string done;
};

Result<> without_number(const Result<uint64_t>& result) {
  if (!result) return std::unexpected(result.error());
  return {};
}

const std::vector<Write> kWrites = {
    {[](Pool& p) { return p.put("key", "x"); }, "STORED\r\n"},
    {[](Pool& p) { return p.add("key", "x"); }, "STORED\r\n"},
    {[](Pool& p) { return p.append("key", "x"); }, "STORED\r\n"},
    {[](Pool& p) { return p.prepend("key", "x"); }, "STORED\r\n"},
    {[](Pool& p) { return p.remove("key"); }, "DELETED\r\n"},
    {[](Pool& p) { return p.touch("key", 1); }, "TOUCHED\r\n"},
    {[](Pool& p) { return without_number(p.increment("key")); }, "8\r\n"},
    {[](Pool& p) { return without_number(p.decrement("key")); }, "7\r\n"},
    {[](Pool& p) { return without_number(p.update("key", 0, "x")); }, "HD c5 s5\r\n"},
};

TEST_CASE("a read whose answer breaks off is asked elsewhere, and then there first") {
  for (const size_t cut : {size_t{0}, size_t{9}, size_t{20}, kValue.size() - 1}) {
    FakeProxy dying({{kValue.substr(0, cut), Reply::Then::kClose}});
    FakeProxy other({kValue, kValue});
    Pool pool = pool_of({dying.address(), other.address()});
    CHECK(pool.get("key")->bytes() == "hello");
    CHECK(pool.get("key")->bytes() == "hello");
    CHECK(dying.requests().size() == 1);
    CHECK(other.requests().size() == 2);
  }
}

TEST_CASE("a lone proxy is asked once more for what broke off") {
  const Reply part{"VA 5 c7 s9\r\nhel", Reply::Then::kClose};
  FakeProxy server({part, "VA 5 c7 s9\r\nhello\r\n", part, part});
  Pool pool = pool_of({server.address()});
  CHECK(pool.get_range("key", 2, 5)->bytes == "hello");
  CHECK(pool.get_range("key", 2, 5).error().kind == ErrorKind::kConnection);
  CHECK(server.requests() == std::vector<std::string>(4, "mg key v c s o2 n5"));
}

TEST_CASE("a read that is not answered in time is asked elsewhere") {
  FakeProxy silent({kSilence});
  FakeProxy other({kValue});
  Pool pool = pool_of({silent.address(), other.address()});
  CHECK(pool.get("key")->bytes() == "hello");
  FakeProxy lone({{kValue.substr(0, 20), Reply::Then::kBeSilent}});
  Pool second = pool_of({lone.address()});
  CHECK(second.get("key").error().kind == ErrorKind::kTimeout);
  CHECK(lone.requests().size() == 1);
}

TEST_CASE("a miss is an answer") {
  FakeProxy first({"END\r\n"});
  FakeProxy other({kValue});
  Pool pool = pool_of({first.address(), other.address()});
  CHECK(pool.get("key").error().kind == ErrorKind::kNotFound);
  CHECK(other.requests().empty());
}

TEST_CASE("a write that may have taken effect is never sent again") {
  for (const Write& write : kWrites) {
    for (const Reply& reply :
         {kClose, Reply{"STOR", Reply::Then::kClose}, kSilence, Reply{kUnknown}}) {
      FakeProxy first({reply});
      FakeProxy second({write.done});
      Pool pool = pool_of({first.address(), second.address()});
      const auto result = write.call(pool);
      REQUIRE(!result);
      CHECK(result.error().may_have_taken_effect());
      CHECK(first.requests().size() == 1);
      CHECK(second.requests().empty());
    }
  }
}

TEST_CASE("a proxy that is silent to a write is not the first that the next one is sent to") {
  for (const Write& write : kWrites) {
    FakeProxy silent({kSilence});
    FakeProxy other({write.done});
    Pool pool = pool_of({silent.address(), other.address()});
    CHECK(write.call(pool).error().kind == ErrorKind::kTimeout);
    CHECK(write.call(pool));
    CHECK(silent.requests().size() == 1);
  }
}

TEST_CASE("a proxy that is silent to many puts is not the first that the next ones are sent to") {
  const std::vector<Object> objects = {{"a", "1"}};
  FakeProxy silent({kSilence});
  FakeProxy other({"STORED\r\n"});
  Pool pool = pool_of({silent.address(), other.address()});
  CHECK(pool.put_many(objects)->at("a").kind == ErrorKind::kTimeout);
  CHECK(pool.put_many(objects)->empty());
}

TEST_CASE("a proxy whose answer is a refusal is asked first from then on") {
  FakeProxy waiting({kNotServing});
  FakeProxy other({"END\r\n", "END\r\n"});
  Pool pool = pool_of({waiting.address(), other.address()});
  CHECK(pool.get("key").error().kind == ErrorKind::kNotFound);
  CHECK(pool.get("key").error().kind == ErrorKind::kNotFound);
  CHECK(waiting.requests().size() == 1);
}

TEST_CASE("one connection that broke is the last that is lost with its process") {
  const Reply last{kValue, Reply::Then::kClose};
  FakeProxy server({last, last, kValue, kValue});
  auto proxies = Proxies::create({server.address()}, Options(), 8).value();
  // By libmemcached, which does not look at a connection before; as a write, it is not sent again.
  const auto get = [](Client& client) { return client.get("key"); };
  const auto get_on_two_connections = [&] {
    Result<Value> other;
    const auto result = proxies->run(Retry::kWrite, [&](Client& client) {
      other = proxies->run(Retry::kWrite, get);
      return get(client);
    });
    return result && other;
  };
  REQUIRE(get_on_two_connections());
  REQUIRE(server.has_closed(2));
  CHECK(proxies->run(Retry::kWrite, get).error().kind == ErrorKind::kConnection);
  CHECK(get_on_two_connections());
}

TEST_CASE("a write that finds its connection closed by a proxy that stops goes to the next one") {
  for (const Write& write : kWrites) {
    FakeProxy other({write.done});
    auto stopping = std::make_unique<FakeProxy>(std::vector<Reply>{write.done});
    Pool pool = pool_of({stopping->address(), other.address()});
    REQUIRE(write.call(pool));
    stopping.reset();
    CHECK(write.call(pool));
    CHECK(other.requests().size() == 1);
  }
}

TEST_CASE("a write that was not done goes to the next proxy") {
  for (const Write& write : kWrites) {
    FakeProxy waiting({kNotServing});
    FakeProxy other({write.done});
    Pool pool = pool_of({nobody(), waiting.address(), other.address()});
    CHECK(write.call(pool));
    CHECK(waiting.requests() == other.requests());
    Pool gone = pool_of({nobody(), nobody()});
    const auto result = write.call(gone);
    REQUIRE(!result);
    CHECK(result.error().kind == ErrorKind::kConnection);
    CHECK(!result.error().may_have_taken_effect());
  }
}

TEST_CASE("a proxy whose login fails is asked no further, and no other one") {
  FakeProxy first({"CLIENT_ERROR authentication failure\r\n"});
  first.ask_for_login();
  FakeProxy second({});
  Options options;
  options.user = "alice";
  Pool pool = Pool::create({first.address(), second.address()}, options).value();
  CHECK(pool.put("key", "x").error().kind == ErrorKind::kServer);
  CHECK(second.connections() == 0);
}

TEST_CASE("a write with a cas is sent again, and takes effect once at most") {
  struct Conditional {
    Call call;
    std::string done;
    std::vector<std::string> refusals;
  };
  const std::vector<Conditional> writes = {
      {[](Pool& p) { return p.put("key", "x", {.cas = 7}); },
       "STORED\r\n",
       {"EXISTS\r\n", "NOT_FOUND\r\n", "SERVER_ERROR full\r\n"}},
      {[](Pool& p) { return without_number(p.update("key", 1, "x", {.cas = 7})); },
       "HD c8 s5\r\n",
       {"EX\r\n", "NF\r\n", "SERVER_ERROR full\r\n"}}};
  for (const auto& [call, done, refusals] : writes) {
    for (const Reply& broken : {kClose, kSilence, Reply{kUnknown}}) {
      FakeProxy first({broken});
      FakeProxy second({done});
      Pool pool = pool_of({first.address(), second.address()});
      CHECK(call(pool));
      CHECK(first.requests() == second.requests());
      // Nobody knows whose the other cas unique is.
      for (const std::string& refusal : refusals) {
        FakeProxy once({broken});
        FakeProxy again({refusal});
        Pool two = pool_of({once.address(), again.address()});
        const auto result = call(two);
        REQUIRE(!result);
        CHECK(result.error().kind == ErrorKind::kUnknownOutcome);
        CHECK(result.error().message.find("when it was sent again") != std::string::npos);
      }
    }
    FakeProxy unknown({kUnknown});
    Pool two = pool_of({unknown.address(), nobody()});
    CHECK(call(two).error().kind == ErrorKind::kUnknownOutcome);
    FakeProxy lone({kClose, kClose, kClose, done});
    Pool pool = pool_of({lone.address()});
    CHECK(call(pool).error().kind == ErrorKind::kConnection);
    CHECK(lone.requests().size() == 2);
    CHECK(call(pool));
    // A first refusal is known to be one.
    FakeProxy refused({refusals.front()});
    Pool third = pool_of({refused.address()});
    CHECK(call(third).error().kind == ErrorKind::kExists);
  }
}

TEST_CASE("put_many goes to the next proxy if nothing was done") {
  const std::vector<Object> objects = {{"a", "1"}, {"b", "2"}};
  FakeProxy waiting({kNotServing, kNotServing});
  FakeProxy other({"STORED\r\n", "STORED\r\n"});
  Pool pool = pool_of({waiting.address(), other.address()});
  CHECK(pool.put_many(objects)->empty());
  CHECK(other.requests().size() == 2);
  FakeProxy deposed({"STORED\r\n", kNotServing});
  Pool second = pool_of({deposed.address(), other.address()});
  const auto errors = second.put_many(objects);
  REQUIRE(errors);
  CHECK(errors->size() == 1);
  CHECK(!errors->at("b").may_have_taken_effect());
}

TEST_CASE("a pool of nobody, or of impossible addresses, is refused") {
  for (const std::vector<std::string>& addresses :
       {std::vector<std::string>{}, {"a:0"}, {"good", "::1"}}) {
    CHECK(Pool::create(addresses).error().kind == ErrorKind::kInvalid);
  }
}

TEST_CASE("only so many clients are kept while nobody uses them") {
  FakeProxy server({kValue, kValue, kValue, kValue, kValue});
  Pool pool = pool_of({server.address()}, 0);
  CHECK(pool.get("key"));
  CHECK(pool.get("key"));
  CHECK(server.connections() == 2);
  CHECK(server.has_closed(2));
  Pool keeping = pool_of({server.address()}, 1);
  CHECK(keeping.get("key"));
  CHECK(keeping.get("key"));
  CHECK(server.connections() == 3);
  keeping.close();
  CHECK(server.has_closed(3));
  CHECK(keeping.get("key"));
  CHECK(server.connections() == 4);
}

TEST_CASE("many threads use one pool") {
  PlainServer server;
  Pool pool = pool_of({"127.0.0.1:" + std::to_string(server.port())}, 2);
  constexpr int kThreads = 8;
  constexpr int kRounds = 200;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      const std::string key = "key" + std::to_string(id);
      for (int round = 0; round < kRounds; ++round) {
        const std::string object = key + " " + std::to_string(round);
        const auto put = pool.put(key, object);
        const auto value = pool.get(key);
        const auto touched = pool.touch(key, 0);
        if (!put || !value || value->bytes() != object || !touched) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("of threads that put with the same cas unique one wins") {
  PlainServer server;
  Pool pool = pool_of({"127.0.0.1:" + std::to_string(server.port())});
  REQUIRE(pool.put("counter", "0"));
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) {
    threads.emplace_back([&] {
      for (int done = 0; done < kRounds;) {
        const auto value = pool.get("counter");
        if (!value) return;
        const std::string next = std::to_string(std::stoi(std::string(value->bytes())) + 1);
        if (pool.put("counter", next, {.cas = value->cas()})) ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(pool.get("counter")->bytes() == std::to_string(kThreads * kRounds));
}

}  // namespace
}  // namespace elastripe::client
