// What the client makes of refusals, of silence and of answers that break off.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client-lib/client.h"
#include "tests/unit/client/server.h"

namespace elastripe::client {
namespace {

constexpr int kSilent_ms = 200;  // after which a server that says nothing is given up
const std::string kUnknown = "CLIENT_ERROR outcome unknown: the node died\r\n";
const std::string kPart = "VA 5 c77 s5\r\nhello\r\n";
const std::string kValue = "VALUE key 3 5 77\r\nhello\r\nEND\r\n";

Options options_for(const FakeProxy& proxy) {
  Options options;
  options.port = proxy.port();
  options.request_timeout_ms = kSilent_ms;
  return options;
}

Client connected_to(const FakeProxy& proxy) { return Client::create(options_for(proxy)).value(); }

using Call = std::function<Result<>(Client&)>;

// The call without what it answers.
template <class F>
Call outcome_of(F call) {
  return [call](Client& client) -> Result<> {
    auto result = call(client);
    if (!result) return std::unexpected(result.error());
    return {};
  };
}

const Call kGet = outcome_of([](Client& c) { return c.get("key"); });
const Call kGetMany =
    outcome_of([](Client& c) { return c.get_many(std::vector<std::string>{"a", "key"}); });
const Call kPut = [](Client& c) { return c.put("key", "x"); };
const Call kCas = [](Client& c) { return c.put("key", "x", {.cas = 7}); };
const Call kAdd = [](Client& c) { return c.add("key", "x"); };
const Call kAppend = [](Client& c) { return c.append("key", "x"); };
const Call kPrepend = [](Client& c) { return c.prepend("key", "x"); };
const Call kRemove = [](Client& c) { return c.remove("key"); };
const Call kTouch = [](Client& c) { return c.touch("key", 1); };
const Call kIncrement = outcome_of([](Client& c) { return c.increment("key"); });
const Call kDecrement = outcome_of([](Client& c) { return c.decrement("key", 2); });
const Call kRange = outcome_of([](Client& c) { return c.get_range("key", 2, 5); });
const Call kUpdate = outcome_of([](Client& c) { return c.update("key", 1, "x"); });
const Call kStats = outcome_of([](Client& c) { return c.stats("nothing"); });

TEST_CASE("a refusal has its kind, and the client goes on") {
  struct Case {
    Call call;
    std::string answer;
    ErrorKind kind;
  };
  const std::vector<Case> cases = {
      {kGet, "END\r\n", ErrorKind::kNotFound},
      {kGet, "SERVER_ERROR lost\r\n", ErrorKind::kServer},
      {kGet, "CLIENT_ERROR no_shards: lost\r\n", ErrorKind::kServer},
      {kGet, "SERVER_ERROR not serving: deposed\r\n", ErrorKind::kServer},
      {kGet, "ERROR\r\n", ErrorKind::kServer},
      {kGet, "ERROR Too many open connections\r\n", ErrorKind::kServer},
      {kGet, "NONSENSE\r\n", ErrorKind::kConnection},
      {kGet, "VALUE other 0 1 2\r\nx\r\nEND\r\n", ErrorKind::kConnection},
      {kGetMany, "VALUE a 0 1 2\r\nx\r\nCLIENT_ERROR lost\r\n", ErrorKind::kServer},
      {kGetMany, "VALUE a 0 1 2\r\nx\r\nERROR\r\n", ErrorKind::kServer},
      {kPut, "SERVER_ERROR out of memory storing object\r\n", ErrorKind::kServer},
      {kPut, "NOT_STORED\r\n", ErrorKind::kServer},
      {kPut, "ERROR\r\n", ErrorKind::kServer},
      {kPut, kUnknown, ErrorKind::kUnknownOutcome},
      {kPut, "NONSENSE\r\n", ErrorKind::kConnection},
      {kCas, "EXISTS\r\n", ErrorKind::kExists},
      {kCas, "NOT_FOUND\r\n", ErrorKind::kNotFound},
      {kCas, kUnknown, ErrorKind::kUnknownOutcome},
      {kAdd, "NOT_STORED\r\n", ErrorKind::kExists},
      {kAdd, "SERVER_ERROR out of memory storing object\r\n", ErrorKind::kServer},
      {kAdd, kUnknown, ErrorKind::kUnknownOutcome},
      {kAppend, "NOT_STORED\r\n", ErrorKind::kNotFound},
      {kPrepend, "NOT_STORED\r\n", ErrorKind::kNotFound},
      {kPrepend, kUnknown, ErrorKind::kUnknownOutcome},
      {kRemove, "NOT_FOUND\r\n", ErrorKind::kNotFound},
      {kRemove, kUnknown, ErrorKind::kUnknownOutcome},
      {kTouch, "NOT_FOUND\r\n", ErrorKind::kNotFound},
      {kTouch, kUnknown, ErrorKind::kUnknownOutcome},
      {kTouch, "NONSENSE\r\n", ErrorKind::kConnection},
      {kIncrement, "NOT_FOUND\r\n", ErrorKind::kNotFound},
      {kIncrement, "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
       ErrorKind::kServer},
      {kIncrement, kUnknown, ErrorKind::kUnknownOutcome},
      {kDecrement, "NOT_FOUND\r\n", ErrorKind::kNotFound},
      {kDecrement, "7x\r\n", ErrorKind::kConnection},
      {kRange, "EN\r\n", ErrorKind::kNotFound},
      {kRange, "VA 6 c5 s9\r\nsix by\r\n", ErrorKind::kConnection},
      {kRange, "HD\r\n", ErrorKind::kConnection},
      {kRange, "VA 1 c5\r\nxyz", ErrorKind::kConnection},
      {kRange, "VA 1x c5\r\n", ErrorKind::kConnection},
      {kRange, "VA\r\n", ErrorKind::kConnection},
      {kRange, std::string(5000, 'x'), ErrorKind::kConnection},
      {kUpdate, "NF\r\n", ErrorKind::kNotFound},
      {kUpdate, "NS s7\r\n", ErrorKind::kOutOfRange},
      {kUpdate, "EX\r\n", ErrorKind::kExists},
      {kUpdate, kUnknown, ErrorKind::kUnknownOutcome},
      {kUpdate, "SERVER_ERROR object too large for cache\r\n", ErrorKind::kServer},
      {kStats, "ERROR\r\n", ErrorKind::kServer},
      {kStats, "STAT a 1\r\nNONSENSE\r\n", ErrorKind::kConnection},
  };
  for (const auto& [call, answer, kind] : cases) {
    INFO(answer);
    FakeProxy proxy({answer, kValue});
    Client client = connected_to(proxy);
    const auto result = call(client);
    REQUIRE(!result);
    INFO(result.error().message);
    CHECK(name(result.error().kind) == name(kind));
    CHECK(result.error().may_have_taken_effect() ==
          (kind == ErrorKind::kConnection || kind == ErrorKind::kUnknownOutcome));
    CHECK(result.error().message.find("ERROR ") == std::string::npos);
    CHECK(result.error().message.find('\r') == std::string::npos);
    const auto value = client.get("key");
    REQUIRE(value);
    CHECK(value->bytes() == "hello");
    CHECK(value->flags() == 3);
    CHECK(value->cas() == 77);
  }
}

TEST_CASE("requests are those of the protocol") {
  FakeProxy proxy({"STORED\r\n", "STORED\r\n", "STORED\r\n", "TOUCHED\r\n", "STORED\r\n",
                   "STORED\r\n", "18446744073709551615\r\n", "0\r\n"});
  Client client = connected_to(proxy);
  CHECK(client.put("key", "x", {.flags = 9, .exptime = -1, .cas = 7}));
  CHECK(client.append("key", "end"));
  CHECK(client.prepend("key", "begin"));
  CHECK(client.touch("key", -1));
  CHECK(client.put("key", "x", {.flags = 9, .exptime = 60}));
  CHECK(client.add("key", "x", {.flags = 9, .exptime = 60}));
  CHECK(client.increment("key", UINT64_MAX) == UINT64_MAX);
  CHECK(client.decrement("key") == 0);
  CHECK(proxy.requests() == std::vector<std::string>{
                                "cas key 9 -1 1 7|x", "append key 0 0 3|end",
                                "prepend key 0 0 5|begin", "touch key -1", "set key 9 60 1|x",
                                "add key 9 60 1|x", "incr key 18446744073709551615", "decr key 1"});
  CHECK(client.put("key", "x", {.cas = 0}).error().kind == ErrorKind::kExists);
  CHECK(proxy.requests().size() == 8);
}

TEST_CASE("a server that does not know updates is not believed what it says of their bytes") {
  FakeProxy proxy({"ERROR\r\n", "HD c9 s5\r\n"});
  Client client = connected_to(proxy);
  CHECK(client.update("key", 0, "bytes").error().kind == ErrorKind::kServer);
  CHECK(client.update("key", 0, "bytes") == 9);
  CHECK(proxy.connections() == 2);
}

TEST_CASE("what is out of bounds is not sent") {
  FakeProxy proxy({});
  Client client = connected_to(proxy);
  const std::vector<Object> objects = {{"good", ""}, {"b d", ""}};
  const std::vector<Call> calls = {
      outcome_of([](Client& c) { return c.get("b d"); }),
      outcome_of([](Client& c) { return c.get_many(std::vector<std::string>{"good", "b d"}); }),
      [](Client& c) { return c.put("b d", ""); },
      outcome_of([&](Client& c) { return c.put_many(objects); }),
      outcome_of([&](Client& c) { return c.put_many({objects.data(), 1}, {.cas = 7}); }),
      [](Client& c) { return c.remove("b d"); },
      [](Client& c) { return c.add("b d", ""); },
      [](Client& c) { return c.add("key", "", {.cas = 7}); },
      outcome_of([](Client& c) { return c.increment("b d"); }),
      outcome_of([](Client& c) { return c.decrement("b d"); }),
      [](Client& c) { return c.append("b d", ""); },
      [](Client& c) { return c.prepend("b d", ""); },
      [](Client& c) { return c.touch("b d", 0); },
      outcome_of([](Client& c) { return c.get_range("b d", 0, 1); }),
      outcome_of([](Client& c) { return c.update("b d", 0, ""); }),
      outcome_of([](Client& c) { return c.stats("b d"); })};
  for (const Call& call : calls) {
    const auto result = call(client);
    REQUIRE(!result);
    CHECK(result.error().kind == ErrorKind::kInvalid);
    CHECK(!result.error().may_have_taken_effect());
  }
  CHECK(proxy.connections() == 0);
}

TEST_CASE("a server that says nothing is given up, and its answer is no later request's") {
  for (const Call& call :
       {kGet, kPut, kCas, kAdd, kAppend, kRemove, kIncrement, kTouch, kRange, kUpdate}) {
    FakeProxy proxy({kSilence, kValue});
    Client client = connected_to(proxy);
    const auto result = call(client);
    REQUIRE(!result);
    CHECK(name(result.error().kind) == "timeout");
    CHECK(result.error().message == "no answer in time");
    CHECK(result.error().may_have_taken_effect());
    CHECK(client.get("key")->bytes() == "hello");
    CHECK(proxy.connections() == 2);
  }
}

TEST_CASE("an answer that stops amid an object is an error") {
  for (const auto then : {Reply::Then::kClose, Reply::Then::kBeSilent}) {
    for (const size_t cut : {size_t{1}, size_t{9}, size_t{20}, size_t{24}, kValue.size() - 1}) {
      INFO(cut);
      FakeProxy proxy({{kValue.substr(0, cut), then}, kValue});
      Client client = connected_to(proxy);
      const auto value = client.get("key");
      REQUIRE(!value);
      const bool is_closed = then == Reply::Then::kClose;
      CHECK(name(value.error().kind) == (is_closed ? "connection" : "timeout"));
      CHECK(client.get("key")->bytes() == "hello");
    }
  }
}

TEST_CASE("a connection that was not made says whose, and that nothing was sent") {
  uint16_t port = 0;
  {
    FakeProxy gone({});
    port = gone.port();
  }
  Options options;
  options.port = port;
  Client client = Client::create(options).value();
  for (const Call& call : {kGet, kPut, kTouch, kUpdate}) {
    for (int i = 0; i < 2; ++i) {
      const auto result = call(client);
      REQUIRE(!result);
      CHECK(result.error().kind == ErrorKind::kConnection);
      CHECK(result.error().message.starts_with("127.0.0.1:" + std::to_string(port) + ": "));
      CHECK(result.error().message.find("refused") != std::string::npos);
      CHECK(!result.error().may_have_taken_effect());
    }
  }
}

TEST_CASE("a connection that was closed while it was idle is replaced") {
  struct Case {
    Call call;
    std::string done;
  };
  // A write would be lost on it, and nobody would know.
  for (const auto& [call, done] :
       {Case{kPut, "STORED\r\n"}, Case{kCas, "STORED\r\n"}, Case{kAdd, "STORED\r\n"},
        Case{kAppend, "STORED\r\n"}, Case{kPrepend, "STORED\r\n"}, Case{kRemove, "DELETED\r\n"},
        Case{kTouch, "TOUCHED\r\n"}, Case{kIncrement, "8\r\n"}, Case{kUpdate, "HD c9 s5\r\n"},
        Case{kRange, kPart}}) {
    INFO(done);
    FakeProxy proxy({{done, Reply::Then::kClose}, done});
    Client client = connected_to(proxy);
    REQUIRE(call(client));
    REQUIRE(proxy.has_closed(1));
    CHECK(call(client));
    CHECK(proxy.requests().size() == 2);
  }
  FakeProxy proxy({{kValue, Reply::Then::kClose}, kValue});
  Options options = options_for(proxy);
  options.idle_ms = 0;
  Client client = Client::create(options).value();
  REQUIRE(client.get("key"));
  REQUIRE(proxy.has_closed(1));
  CHECK(client.get("key"));
}

TEST_CASE("a server is asked by a Unix socket") {
  const std::string path = "/tmp/elastripe-client-" + std::to_string(::getpid()) + ".sock";
  {
    FakeProxy proxy({kValue, "TOUCHED\r\n"}, path);
    Client client = Client::create(*parse_address(path)).value();
    CHECK(client.get("key")->bytes() == "hello");
    CHECK(client.touch("key", 1));
    CHECK(proxy.requests() == std::vector<std::string>{"gets key", "touch key 1"});
  }
  Client client = Client::create(*parse_address(path)).value();
  for (const Call& call : {kPut, kUpdate}) {
    const auto result = call(client);
    REQUIRE(!result);
    CHECK(result.error().kind == ErrorKind::kConnection);
    CHECK(result.error().message.starts_with(path + ": "));
    CHECK(!result.error().may_have_taken_effect());
  }
}

TEST_CASE("a forked child leaves the connections of its parent alone") {
  FakeProxy proxy({kValue, "TOUCHED\r\n", kValue, "TOUCHED\r\n", kValue, "TOUCHED\r\n"});
  auto client = std::make_unique<Client>(connected_to(proxy));
  REQUIRE(client->get("key"));
  REQUIRE(client->touch("key", 1));
  const auto succeeds_in_child = [](const auto& work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work() ? 0 : 1);
    int status = 1;
    ::waitpid(child, &status, 0);
    return status == 0;
  };
  // It may use the client, by connections of its own, and end it.
  CHECK(succeeds_in_child([&] {
    const bool works = client->get("key") && client->touch("key", 2);
    client.reset();
    return works;
  }));
  CHECK(proxy.connections() == 4);
  CHECK(client->get("key"));
  CHECK(client->touch("key", 3));
  CHECK(proxy.connections() == 4);
}

// -- logging in

TEST_CASE("every connection logs in first") {
  FakeProxy proxy({"STORED\r\n", kClose, "STORED\r\n", kValue, "STORED\r\n", "TOUCHED\r\n"});
  proxy.ask_for_login();
  Options options = options_for(proxy);
  options.user = "alice";
  options.password = "a secret";
  Client client = Client::create(options).value();
  CHECK(client.get("key").error().may_have_taken_effect());
  CHECK(client.get("key")->bytes() == "hello");
  CHECK(client.touch("key", 0));
  const std::string login = "set elastripe 0 0 14|alice a secret";
  CHECK(proxy.requests() ==
        std::vector<std::string>{login, "gets key", login, "gets key", login, "touch key 0"});
}

TEST_CASE("a server that does not ask who is there is told nothing") {
  FakeProxy proxy({kValue, kPart});
  Options options = options_for(proxy);
  options.user = "alice";
  options.password = "a secret";
  Client client = Client::create(options).value();
  CHECK(client.get("key")->bytes() == "hello");
  CHECK(client.get_range("key", 0, 5)->bytes == "hello");
  for (const std::string& request : proxy.requests()) CHECK(!request.contains("secret"));
}

TEST_CASE("a login that fails is the server's error, and nothing was sent") {
  for (const Call& call : {kPut, kUpdate}) {
    FakeProxy proxy({"CLIENT_ERROR authentication failure\r\n"});
    proxy.ask_for_login();
    Options options = options_for(proxy);
    options.user = "alice";
    Client client = Client::create(options).value();
    const auto result = call(client);
    REQUIRE(!result);
    CHECK(result.error().kind == ErrorKind::kServer);
    CHECK(result.error().message == proxy.address() + ": authentication failure");
    CHECK(!result.error().may_have_taken_effect());
    CHECK(proxy.requests().size() == 1);
  }
}

TEST_CASE("user and password that cannot be told are refused") {
  for (const auto& [user, password] : {std::pair("a b", ""), {"a", "line\n"}, {"", "secret"}}) {
    Options options;
    options.user = user;
    options.password = password;
    CHECK(Client::create(options).error().kind == ErrorKind::kInvalid);
  }
}

// -- many at a time

TEST_CASE("put_many tells what became of each") {
  FakeProxy proxy({"STORED\r\n", "SERVER_ERROR out of memory storing object\r\n", "STORED\r\n",
                   kUnknown, "STORED\r\n"});
  Client client = connected_to(proxy);
  const std::vector<Object> objects = {{"a", "1"}, {"b", "22"}, {"c", "333"}, {"d", ""}};
  const auto errors = client.put_many(objects, {.flags = 9, .exptime = 60});
  REQUIRE(errors);
  REQUIRE(errors->size() == 2);
  CHECK(errors->at("b").kind == ErrorKind::kServer);
  CHECK(errors->at("b").message == "out of memory storing object");
  CHECK(errors->at("d").kind == ErrorKind::kUnknownOutcome);
  CHECK(proxy.requests() == std::vector<std::string>{"set a 9 60 1|1", "set b 9 60 2|22",
                                                     "set c 9 60 3|333", "set d 9 60 0|"});
  CHECK(client.put_many({objects.data(), 1})->empty());
  CHECK(client.put_many({})->empty());
  CHECK(proxy.connections() == 1);
}

TEST_CASE("put_many knows what was not sent") {
  FakeProxy proxy({"STORED\r\n", "STORED\r\n", {"STO", Reply::Then::kClose}});
  Client client = connected_to(proxy);
  std::vector<std::string> keys;
  for (int i = 0; i < 200; ++i) keys.push_back("key" + std::to_string(1000 + i));
  std::vector<Object> objects;
  for (const std::string& key : keys) objects.push_back({key, "x"});
  const auto errors = client.put_many(objects);
  REQUIRE(errors);
  REQUIRE(errors->size() == 198);
  for (size_t i = 2; i < keys.size(); ++i) {
    const Error& error = errors->at(keys[i]);
    CHECK(error.kind == ErrorKind::kConnection);
    CHECK(error.may_have_taken_effect() == (i < 128));
  }
}

TEST_CASE("get_many asks for a thousand at a time") {
  FakeProxy proxy({"END\r\n", "END\r\n", kValue});
  Client client = connected_to(proxy);
  std::vector<std::string> keys;
  for (int i = 0; i < 2000; ++i) keys.push_back("key" + std::to_string(i));
  keys.emplace_back("key");
  const auto found = client.get_many(keys);
  REQUIRE(found);
  CHECK(found->size() == 1);
  CHECK(found->at("key").cas() == 77);
  CHECK(proxy.requests().size() == 3);
}

}  // namespace
}  // namespace elastripe::client
