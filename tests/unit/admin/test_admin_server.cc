#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <thread>

#include "proxy/admin/admin_server.h"
#include "proxy/base/published.h"

using namespace elastripe::objects;
using namespace elastripe::jobs;
using namespace elastripe::decider;

namespace elastripe {
namespace {

Task<Result<ObjectReport>> inspect(std::string key) {
  if (key == "lost") co_return fail(ErrorCode::kLost, "gone");
  ObjectReport report;
  if (key == "a/b") {
    node::Record record;
    record.content.kind = node::RecordKind::kInline;
    report.record = std::make_shared<node::Record>(record);
  }
  co_return report;
}

Task<Result<ScrubReport>> scrub(std::string key) {
  if (key == "lost") co_return fail(ErrorCode::kLost, "gone");
  ScrubReport report;
  if (key != "a/b") co_return report;
  node::Record record;
  record.content.kind = node::RecordKind::kStriped;
  record.content.scheme = coding::parse_scheme("ers:2,1,3").value();
  record.content.segments.resize(2);
  for (auto& segment : record.content.segments) segment.placement = {4, 5, 6, 7};
  report.record = std::make_shared<node::Record>(record);
  report.segments.resize(2);
  report.segments[1].missing = {0};
  report.segments[1].wrong = {3};
  co_return report;
}

// The server on a thread of its own; the test is a plain blocking client.
struct Fixture {
  Fixture() {
    AdminSources sources;
    sources.cluster = []() -> Task<ClusterStatus> { co_return ClusterStatus{}; };
    sources.map = [] { return MapPtr(); };
    sources.not_serving = [this] { return ready ? std::string() : std::string("no map yet"); };
    sources.inspect = [this](std::string key, size_t from, size_t) {
      first = from;
      return inspect(std::move(key));
    };
    sources.scrub = scrub;
    sources.accept_loss = [this]() -> Task<Result<AcceptedLoss>> {
      if (!has_loss) co_return fail(ErrorCode::kConflict, "nothing is lost");
      ++accepted;
      co_return AcceptedLoss{.start_empty = 5, .lost = 2};
    };
    sources.declare_dead = [this](std::string node) -> Task<Result<void>> {
      if (node == "n 1") co_return fail(ErrorCode::kConflict, "node n 1 answers");
      declared_dead.push_back(node);
      co_return Result<void>{};
    };
    sources.change_members = [this](MemberChange change) -> Task<Result<void>> {
      if (change.node.name == "n1") co_return fail(ErrorCode::kConflict, "it has data");
      changes.push_back(std::move(change));
      co_return Result<void>{};
    };
    sources.change_settings = [this](SettingsOrder order) -> Task<Result<uint32_t>> {
      if (order.settings.empty()) co_return fail(ErrorCode::kInvalid, "nothing is to change");
      orders.push_back(std::move(order));
      co_return uint32_t{5};
    };
    sources.start_job = [this](std::string kind, std::string order) {
      return start(std::move(kind), std::move(order));
    };
    sources.repair = [] { return RepairStatus{}; };
    sources.background_scrub = [] { return ScrubStatus{}; };
    sources.jobs = [this] { return book.all(); };
    sources.cancel_job = [this](uint64_t id, std::string kind) -> Task<Result<ClusterJob>> {
      cancelled_kind = std::move(kind);
      ++cancelled;
      co_return book.cancel(id, /*term=*/1);
    };
    sources.version = "v";
    sources.host = "admin.example.org";
    registry.cell(CounterRow{"elastripe_degraded_reads_total", "Reads."}).add(3);
    Fd socket = listen_on(resolve("127.0.0.1", 0).value(), false).value();
    port = port_of(socket);
    server = std::make_unique<AdminServer>(loop, std::move(socket), registry, sources);
    thread = std::thread([this] { loop.run(); });
  }
  ~Fixture() {
    loop.stop();
    thread.join();
  }
  // One at a time.
  Task<Result<ClusterJob>> start(std::string kind, std::string order) {
    const auto named = std::ranges::find(job_kinds(), kind, &JobKind::name);
    auto asked = named->parse(order, nullptr);
    if (!asked) co_return fail(asked.error());
    const auto begun = book.begin(/*term=*/1, ++tokens, std::move(kind), std::move(order));
    if (!begun) co_return fail(begun.error());
    const JobReport report{.id = begun->id, .asked = std::move(*asked), .progress = {}};
    book.tell(begun->id, begun->term, report.progress, job_json(report));
    co_return *book.find(begun->id);
  }
  std::string post(const std::string& path, const std::string& body,
                   const std::string& action = "transition") {
    return ask("POST", path,
               "Host: localhost\r\nX-Elastripe: " + action +
                   "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n",
               body);
  }
  Fd connect_to() {
    const SocketAddress address = resolve("127.0.0.1", port).value();
    Fd client(socket(AF_INET, SOCK_STREAM, 0));
    REQUIRE(connect(client.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                    address.length) == 0);
    return client;
  }
  std::string ask(const std::string& method, const std::string& path,
                  const std::string& headers = "Host: localhost\r\n",
                  const std::string& body = {}) {
    const std::string answer =
        exchange(connect_to(), method + " " + path + " HTTP/1.1\r\nConnection: close\r\n" +
                                   headers + "\r\n" + body);
    REQUIRE_FALSE(answer.empty());
    return answer;
  }
  // All that comes until the end. Any thread: only one of them may assert anything.
  static std::string exchange(const Fd& client, const std::string& request) {
    std::string answer;
    if (write(client.get(), request.data(), request.size()) < 0) return answer;
    char part[4096];
    for (ssize_t got; (got = read(client.get(), part, sizeof part)) > 0;) {
      answer.append(part, static_cast<size_t>(got));
    }
    return answer;
  }

  Loop loop;
  MetricRegistry registry;
  std::atomic<bool> ready = true;
  std::atomic<bool> has_loss = true;
  std::atomic<int> accepted = 0;
  std::atomic<size_t> first = 0;
  std::vector<std::string> declared_dead;
  std::vector<MemberChange> changes;
  std::vector<SettingsOrder> orders;
  std::atomic<int> cancelled = 0;
  std::string cancelled_kind;
  JobBook book;
  uint64_t tokens = 0;
  uint16_t port = 0;
  std::unique_ptr<AdminServer> server;
  std::thread thread;
};

TEST_CASE("health and readiness are told apart") {
  Fixture f;
  REQUIRE(f.ask("GET", "/healthz").find(" 200 ") != std::string::npos);
  REQUIRE(f.ask("GET", "/readyz").find(" 200 ") != std::string::npos);
  f.ready = false;
  REQUIRE(f.ask("GET", "/healthz").find(" 200 ") != std::string::npos);
  const std::string answer = f.ask("GET", "/readyz");
  REQUIRE(answer.find(" 503 ") != std::string::npos);
  REQUIRE(answer.ends_with("no map yet\n"));
}

TEST_CASE("metrics are Prometheus' text") {
  Fixture f;
  const std::string answer = f.ask("GET", "/metrics");
  REQUIRE(answer.find("text/plain; version=0.0.4") != std::string::npos);
  REQUIRE(answer.find("elastripe_degraded_reads_total 3") != std::string::npos);
}

TEST_CASE("objects are found by their percent-encoded key") {
  Fixture f;
  const std::string found = f.ask("GET", "/v1/objects/a%2Fb");
  REQUIRE(found.find(" 200 ") != std::string::npos);
  REQUIRE(found.find("\"key\": \"a/b\"") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/objects/%00%01%20").find(" 404 ") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/objects/" + std::string(251, 'k')).find(" 400 ") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/objects/none").find(" 404 ") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/objects/").find(" 400 ") != std::string::npos);
  const std::string lost = f.ask("GET", "/v1/objects/lost");
  REQUIRE(lost.find(" 503 ") != std::string::npos);
  REQUIRE(lost.find("\"error\": \"lost\"") != std::string::npos);
}

TEST_CASE("a scrub names the shards that are not as they should be") {
  Fixture f;
  const std::string answer = f.ask("GET", "/v1/scrub/a%2Fb");
  REQUIRE(answer.find(" 200 ") != std::string::npos);
  const auto report = nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n")));
  REQUIRE(report["key"] == "a/b");
  REQUIRE(report["clean"] == false);
  REQUIRE(report["segments"][0]["clean"] == true);
  REQUIRE(report["segments"][1]["clean"] == false);
  REQUIRE(report["segments"][1]["missing"].dump() == R"([{"node":"#4","role":"D0"}])");
  REQUIRE(report["segments"][1]["wrong"].dump() == R"([{"node":"#7","role":"P0"}])");
  REQUIRE(f.ask("GET", "/v1/scrub/none").find(" 404 ") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/scrub/lost").find(" 503 ") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/scrub/").find(" 400 ") != std::string::npos);
  REQUIRE(f.ask("POST", "/v1/scrub/a%2Fb").find(" 405 ") != std::string::npos);
}

TEST_CASE("accepting a loss needs a POST") {
  Fixture f;
  REQUIRE(f.ask("GET", "/v1/accept-loss").find(" 405 ") != std::string::npos);
  REQUIRE(f.accepted == 0);
  const std::string header = "X-Elastripe: accept-loss\r\n";
  const std::string accepted = f.ask("POST", "/v1/accept-loss", header);
  REQUIRE(accepted.find(" 202 ") != std::string::npos);
  REQUIRE(accepted.find("\"partitions_start_empty\": 5,\n  \"partitions_lost\": 2") !=
          std::string::npos);
  REQUIRE(f.accepted == 1);
  f.has_loss = false;
  const std::string refused = f.ask("POST", "/v1/accept-loss", header);
  REQUIRE(refused.find(" 409 ") != std::string::npos);
  REQUIRE(refused.find("\"message\": \"nothing is lost\"") != std::string::npos);
}

TEST_CASE("declaring a node dead needs a POST that says so, and its name") {
  Fixture f;
  const std::string path = "/v1/nodes/n2/declare-dead";
  const std::string header = "X-Elastripe: declare-dead\r\n";
  REQUIRE(f.ask("GET", path).find(" 405 ") != std::string::npos);
  REQUIRE(f.ask("POST", path, "X-Elastripe: accept-loss\r\n").find(" 400 ") != std::string::npos);
  REQUIRE(f.declared_dead.empty());
  REQUIRE(f.ask("POST", path, header).find(" 202 ") != std::string::npos);
  REQUIRE(f.declared_dead == std::vector<std::string>{"n2"});
  const std::string refused = f.ask("POST", "/v1/nodes/n%201/declare-dead", header);
  REQUIRE(refused.find(" 409 ") != std::string::npos);
  REQUIRE(refused.find("node n 1 answers") != std::string::npos);
  REQUIRE(f.ask("POST", "/v1/nodes//declare-dead", header).find(" 202 ") == std::string::npos);
}

TEST_CASE("the settings of the cluster are changed by a POST") {
  Fixture f;
  const auto post = [&](const std::string& body, const std::string& action = "settings") {
    return f.ask(
        "POST", "/v1/settings",
        "X-Elastripe: " + action + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n",
        body);
  };
  const std::string done = post(R"({"set": ["a=1", "b={c: 2}"], "of_version": 4})");
  CHECK(done.find(" 202 ") != std::string::npos);
  CHECK(done.find("\"version\": 5") != std::string::npos);
  REQUIRE(f.orders.size() == 1);
  CHECK(f.orders[0].settings == std::vector<std::string>{"a=1", "b={c: 2}"});
  CHECK(f.orders[0].of_version == 4u);
  CHECK_FALSE(f.orders[0].is_recycled);
  REQUIRE(post(R"({"set": ["a=1"], "is_recycled": true})").find(" 202 ") != std::string::npos);
  CHECK_FALSE(f.orders[1].of_version);
  CHECK(f.orders[1].is_recycled);
  for (const auto& [body, word] : {std::pair{"{}", "set: is missing"},
                                   {R"({"set": "a=1"})", "expected a list of texts"},
                                   {R"({"set": [1]})", "expected a list of texts"},
                                   {R"({"set": [], "x": 1})", "no such field"},
                                   {R"({"set": []})", "nothing is to change"},
                                   {"", "JSON"}}) {
    const std::string refused = post(body);
    INFO(refused);
    CHECK(refused.find(" 400 ") != std::string::npos);
    CHECK(refused.find(word) != std::string::npos);
  }
  CHECK(post(R"({"set": ["a=1"]})", "drain").find(" 400 ") != std::string::npos);
  CHECK(f.orders.size() == 2);
}

TEST_CASE("members are changed by a POST to a node that says what is done") {
  using Kind = MemberChange::Kind;
  Fixture f;
  const auto post = [&](const std::string& name, const std::string& action,
                        const std::string& body = {}) {
    return f.ask(
        "POST", "/v1/nodes/" + name + "/" + action,
        "X-Elastripe: " + action + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n",
        body);
  };
  REQUIRE(post("n7", "add", R"({"host": "::1", "port": 11401})").find(" 202 ") !=
          std::string::npos);
  REQUIRE(f.changes.size() == 1);
  CHECK(f.changes[0].kind == Kind::kAdd);
  CHECK(f.changes[0].node.name == "n7");
  CHECK(f.changes[0].node.host == "::1");
  CHECK(f.changes[0].node.port == 11401);
  CHECK(f.changes[0].node.domain.empty());
  for (const auto& [action, kind] :
       {std::pair{"drain", Kind::kDrain}, {"refill", Kind::kRefill}, {"remove", Kind::kRemove}}) {
    REQUIRE(post("n2", action).find(" 202 ") != std::string::npos);
    CHECK(f.changes.back().kind == kind);
    CHECK(f.changes.back().node.name == "n2");
  }
  CHECK(post("n1", "remove").find(" 409 ") != std::string::npos);
  CHECK(f.ask("GET", "/v1/nodes/n2/drain").find(" 405 ") != std::string::npos);
  CHECK(f.ask("POST", "/v1/nodes/n2/drain", "X-Elastripe: remove\r\n").find(" 400 ") !=
        std::string::npos);

  const std::pair<const char*, const char*> wrong[] = {
      {"", "JSON"},
      {R"({"port": 1})", "host"},
      {R"({"host": "h", "port": 1})", "insecure"},
      {R"({"host": "a b", "port": 1})", "host name"},
      {R"({"host": "localhost"})", "port"},
      {R"({"host": "localhost", "port": 0})", "port"},
      {R"({"host": "localhost", "port": 1, "domain": "a b"})", "domain"},
      {R"({"host": "localhost", "port": 1, "rack": 1})", "rack"}};
  for (const auto& [body, problem] : wrong) {
    const std::string answer = post("n8", "add", body);
    INFO(body << "\n" << answer);
    CHECK(answer.find(" 400 ") != std::string::npos);
    CHECK(answer.find(problem) != std::string::npos);
  }
  CHECK(post("n%208", "drain").find(" 400 ") != std::string::npos);
  CHECK(f.changes.size() == 4);
}

TEST_CASE("what a web page can send accepts no loss") {
  Fixture f;
  const std::string form = "Content-Type: text/plain\r\n";
  REQUIRE(f.ask("POST", "/v1/accept-loss", form).find(" 400 ") != std::string::npos);
  const std::string origin = "Origin: http://example.org\r\n";
  REQUIRE(f.ask("POST", "/v1/accept-loss", form + origin).find(" 403 ") != std::string::npos);
  REQUIRE(f.ask("POST", "/v1/accept-loss", "X-Elastripe: yes\r\n").find(" 400 ") !=
          std::string::npos);
  const std::string preflight =
      f.ask("OPTIONS", "/v1/accept-loss",
            "Origin: http://example.org\r\nAccess-Control-Request-Method: POST\r\n"
            "Access-Control-Request-Headers: x-elastripe\r\n");
  REQUIRE(preflight.find(" 403 ") != std::string::npos);
  REQUIRE(preflight.find("Access-Control-Allow") == std::string::npos);
  REQUIRE(f.accepted == 0);
}

TEST_CASE("a transition is started, shown and cancelled, and there is one at a time") {
  Fixture f;
  REQUIRE(f.ask("GET", "/v1/transitions").find("\"transitions\": []") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/transitions/1").find(" 404 ") != std::string::npos);
  const std::string body = R"({"prefix": "logs/", "to": 5})";
  const std::string started = f.post("/v1/transitions", body);
  REQUIRE(started.find(" 202 ") != std::string::npos);
  REQUIRE(started.find("\"id\": 1,") != std::string::npos);
  REQUIRE(started.find("\"prefix\": \"logs/\"") != std::string::npos);
  const std::string second = f.post("/v1/transitions", body);
  REQUIRE(second.find(" 409 ") != std::string::npos);
  REQUIRE(second.find("transition 1 is running") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/transitions").find("\"state\": \"running\"") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/transitions/1").find(" 200 ") != std::string::npos);
  for (const char* other : {"2", "", "x", "1x", "-1", "1/", "1/cancel/", "99999999999999999999"}) {
    INFO(other);
    REQUIRE(f.ask("GET", std::string("/v1/transitions/") + other).find(" 404 ") !=
            std::string::npos);
  }
  REQUIRE(f.ask("GET", "/v1/transitions/1/cancel").find(" 405 ") != std::string::npos);
  REQUIRE(f.ask("POST", "/v1/transitions/1").find(" 405 ") != std::string::npos);
  REQUIRE(f.post("/v1/transitions/cancel", "").find(" 404 ") != std::string::npos);
  REQUIRE(f.post("/v1/transitions//cancel", "").find(" 404 ") != std::string::npos);
  REQUIRE(f.cancelled == 0);
  REQUIRE(f.post("/v1/transitions/1/cancel", "").find(" 202 ") != std::string::npos);
  REQUIRE(f.cancelled == 1);
}

TEST_CASE("jobs of all kinds are shown and cancelled together") {
  Fixture f;
  REQUIRE(f.ask("GET", "/v1/jobs").find("\"jobs\": []") != std::string::npos);
  REQUIRE(f.post("/v1/transitions", R"({"all": true, "to": 5})").find(" 202 ") !=
          std::string::npos);
  REQUIRE(f.ask("GET", "/v1/jobs").find("\"kind\": \"transition\"") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/repairs").find("\"repairs\": []") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/repairs/1").find(" 404 ") != std::string::npos);
  REQUIRE(f.post("/v1/repairs/1/cancel", "", "repair").find(" 404 ") != std::string::npos);
  REQUIRE(f.post("/v1/repairs", "{}", "transition").find(" 400 ") != std::string::npos);
  REQUIRE(f.post("/v1/repairs", "{}", "repair").find("transition 1 is running") !=
          std::string::npos);
  REQUIRE(f.ask("GET", "/v1/jobs/1").find(" 200 ") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/jobs/2").find(" 404 ") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/jobsx").find(" 404 ") != std::string::npos);
  REQUIRE(f.ask("POST", "/v1/jobs").find("Allow: GET, HEAD\r\n") != std::string::npos);
  REQUIRE(f.post("/v1/jobs/1/cancel", "").find(" 400 ") != std::string::npos);
  REQUIRE(f.cancelled == 0);
  // The deciding proxy is asked about one that is not known here.
  REQUIRE(f.post("/v1/jobs/2/cancel", "", "job").find(" 404 ") != std::string::npos);
  REQUIRE(f.cancelled == 1);
  REQUIRE(f.cancelled_kind.empty());
  // And it looks whether that is of the kind that the path names.
  for (const JobKind& kind : job_kinds()) {
    INFO(kind.name);
    const int before = f.cancelled;
    const std::string path = std::string(kind.path) + "/2/cancel";
    REQUIRE(f.post(path, "", std::string(kind.name)).find(" 404 ") != std::string::npos);
    REQUIRE(f.cancelled == before + 1);
    REQUIRE(f.cancelled_kind == kind.name);
  }
  const int before = f.cancelled;
  REQUIRE(f.post("/v1/jobs/1/cancel", "", "job").find(" 202 ") != std::string::npos);
  REQUIRE(f.cancelled == before + 1);
}

TEST_CASE("what a web page can send starts and cancels no transition, nor does a wrong body") {
  Fixture f;
  const std::string body = R"({"all": true, "to": 5})";
  for (const char* action : {"accept-loss", "yes", ""}) {
    REQUIRE(f.post("/v1/transitions", body, action).find(" 400 ") != std::string::npos);
    REQUIRE(f.post("/v1/transitions/1/cancel", "", action).find(" 400 ") != std::string::npos);
  }
  const std::string wrong = f.post("/v1/transitions", R"({"all": true, "to": "5"})");
  REQUIRE(wrong.find(" 400 ") != std::string::npos);
  REQUIRE(wrong.find("to: expected an integer from 1 to 255") != std::string::npos);
  REQUIRE(f.ask("PUT", "/v1/transitions").find("Allow: GET, HEAD, POST\r\n") != std::string::npos);
  REQUIRE(f.book.all().empty());
  REQUIRE(f.cancelled == 0);
}

TEST_CASE("a page that had its name resolve to the interface learns nothing") {
  Fixture f;
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:9211", "10.0.0.7:80", "[::1]", "[::1]:9211", "localhost",
        "LocalHost:9211", "admin.example.org", "Admin.Example.org:9211"}) {
    INFO(host);
    REQUIRE(f.ask("GET", "/v1/status", std::string("Host: ") + host + "\r\n").find(" 200 ") !=
            std::string::npos);
  }
  REQUIRE(f.ask("GET", "/healthz", "").find(" 200 ") != std::string::npos);
  for (const char* host :
       {"example.org", "evil.example.org:9211", "localhost.example.org", "127.0.0.1.example.org",
        "[::1].example.org", "xadmin.example.org", "1271", "[::1", "[]"}) {
    INFO(host);
    const std::string header = std::string("Host: ") + host + "\r\n";
    for (const char* path : {"/v1/status", "/v1/objects/a%2Fb", "/metrics", "/readyz"}) {
      const std::string answer = f.ask("GET", path, header);
      REQUIRE(answer.find(" 403 ") != std::string::npos);
      REQUIRE(answer.find("\"error\": \"invalid\"") != std::string::npos);
    }
    f.ask("POST", "/v1/accept-loss", header + "X-Elastripe: accept-loss\r\n");
  }
  REQUIRE(f.accepted == 0);
}

TEST_CASE("what another web page asks for is refused") {
  Fixture f;
  const std::string host = "Host: localhost\r\n";
  for (const char* header : {"Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n",
                             "Origin: http://evil.example\r\n", "Origin: null\r\n"}) {
    REQUIRE(f.ask("GET", "/v1/status", host + header).find(" 403 ") != std::string::npos);
  }
  for (const char* header : {"Sec-Fetch-Site: none\r\n", "Sec-Fetch-Site: same-origin\r\n",
                             "Origin: http://localhost\r\n"}) {
    REQUIRE(f.ask("GET", "/v1/status", host + header).find(" 200 ") != std::string::npos);
  }
}

TEST_CASE("so many connections are open at once, and the next waits for one to end") {
  Fixture f;
  std::vector<Fd> idle;
  for (size_t i = 0; i < AdminServer::kMaxConnections + 10; ++i) idle.push_back(f.connect_to());
  std::atomic<bool> is_answered = false;
  std::thread next([&is_answered, client = f.connect_to()] {
    const std::string request =
        "GET /healthz HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n\r\n";
    is_answered = Fixture::exchange(client, request).contains(" 200 ");
  });
  // Some of these are accepted, so what they ask is answered, while the next waits.
  for (int i = 0; i < 20; ++i) {
    const std::string request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char answer[4096];
    REQUIRE(write(idle.front().get(), request.data(), request.size()) > 0);
    REQUIRE(read(idle.front().get(), answer, sizeof answer) > 0);
  }
  CHECK_FALSE(is_answered);
  idle.clear();
  next.join();
  CHECK(is_answered);
}

TEST_CASE("a page of an object's segments begins where it is asked to") {
  Fixture f;
  for (const char* query : {"?first=", "?first=x", "?last=1", "?first=1&first=2"}) {
    REQUIRE(f.ask("GET", std::string("/v1/objects/a%2Fb") + query).find(" 400 ") !=
            std::string::npos);
  }
  REQUIRE(f.ask("GET", "/v1/objects/a%2Fb?first=7").find(" 200 ") != std::string::npos);
  REQUIRE(f.first == 7);
}

TEST_CASE("other paths and methods are refused") {
  Fixture f;
  REQUIRE(f.ask("GET", "/nonsense").find(" 404 ") != std::string::npos);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"}) {
    INFO(method);
    const std::string answer = f.ask(method, "/v1/status");
    REQUIRE(answer.find(" 405 ") != std::string::npos);
    REQUIRE(answer.find("Allow: GET, HEAD\r\n") != std::string::npos);
    REQUIRE(answer.find("\"error\": \"invalid\"") != std::string::npos);
  }
  // What HTTP does not define, libevent refuses.
  REQUIRE(f.ask("BREW", "/v1/status").find(" 501 ") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/status").find("\"state\": \"starting\"") != std::string::npos);
  REQUIRE(f.ask("GET", "/v1/nodes").find("\"nodes\": []") != std::string::npos);
}

}  // namespace
}  // namespace elastripe
