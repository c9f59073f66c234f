// The admin interface under any bytes. The first byte says how TCP cuts the rest. What it answers
// is HTTP, and JSON where it says so; a body that asks for a job is told back as JSON too.
#include <charconv>
#include <nlohmann/json.hpp>

#include "proxy/admin/admin_server.h"
#include "proxy/base/check.h"
#include "tests/fuzz/fuzzer.h"
#include "tests/fuzz/node_samples.h"
#include "tests/fuzz/stream.h"

using namespace elastripe;
using namespace elastripe::objects;
using namespace elastripe::jobs;
using namespace elastripe::decider;

namespace {

// Keys that begin with s have striped objects.
RecordPtr record_of(const std::string& key) {
  if (key == "missing") return nullptr;
  const node::Record record =
      key.starts_with('s') ? node::striped_record(5) : node::inline_record(5, "value");
  return std::make_shared<node::Record>(record);
}
Task<Result<ObjectReport>> inspect(std::string key, size_t, size_t) {
  if (key == "lost") co_return fail(ErrorCode::kLost, "gone");
  ObjectReport report;
  report.record = record_of(key);
  report.homes = {0, 1, 2};
  co_return report;
}
Task<Result<ScrubReport>> scrub(std::string key) {
  ScrubReport report;
  report.record = record_of(key);
  if (report.record != nullptr) report.segments.resize(report.record->content.segments.size());
  co_return report;
}

ClusterJob job_of(std::string kind, std::string order) {
  return {.id = 1, .kind = std::move(kind), .order = std::move(order), .report = R"({"id": 1})"};
}

AdminSources make_sources() {
  const auto map = std::make_shared<const node::ClusterMap>(node::sample_map());
  AdminSources sources;
  sources.cluster = []() -> Task<ClusterStatus> { co_return ClusterStatus{}; };
  sources.map = [map] { return map; };
  sources.not_serving = [] { return std::string(); };
  sources.inspect = inspect;
  sources.scrub = scrub;
  sources.accept_loss = []() -> Task<Result<AcceptedLoss>> { co_return AcceptedLoss{}; };
  sources.declare_dead = [](std::string name) -> Task<Result<void>> {
    if (name != "n0") co_return fail(ErrorCode::kNotFound, "there is no node {}", name);
    co_return Result<void>{};
  };
  sources.change_members = [](MemberChange change) -> Task<Result<void>> {
    if (change.node.name.empty()) std::abort();
    co_return Result<void>{};
  };
  sources.start_job = [](std::string kind, std::string order) -> Task<Result<ClusterJob>> {
    co_return job_of(std::move(kind), std::move(order));
  };
  sources.repair = [] { return RepairStatus{}; };
  sources.background_scrub = [] { return ScrubStatus{}; };
  sources.jobs = [] { return std::vector{job_of("transition", "{}")}; };
  sources.cancel_job = [](uint64_t id, std::string) -> Task<Result<ClusterJob>> {
    if (id != 1) co_return fail(ErrorCode::kNotFound, "there is no job {}", id);
    co_return job_of("transition", "{}");
  };
  return sources;
}

// What is made only once.
struct World {
  Fd listener = listen_on(resolve("127.0.0.1", 0).value(), false).value();
  SocketAddress address = resolve("127.0.0.1", port_of(listener)).value();
  MetricRegistry registry;
  Loop loop;
  AdminServer server{loop, std::move(listener), registry, make_sources()};
};

void turns(World& world) {
  for (int i = 0; i < 4; ++i) fuzz::turn(world.loop);
}

std::string answers_to(std::string_view stream, unsigned char cuts) {
  static World world;
  Connecting connecting = start_connect(world.address);
  CHECK(connecting.error == 0 || connecting.error == EINPROGRESS);
  fuzz::Remote client(std::move(connecting.socket));
  turns(world);
  fuzz::Pieces pieces(stream, cuts);
  for (auto piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    client.send(piece);
    fuzz::turn(world.loop);
  }
  turns(world);
  client.collect();
  client.hang_up();
  turns(world);
  return client.received();
}

// Returns the status code.
int check_answer(std::string_view answer) {
  constexpr std::string_view kLength = "Content-Length: ";
  CHECK(answer.starts_with("HTTP/"));
  const std::string_view status = answer.substr(std::min(answer.size(), answer.find(' ') + 1));
  int code = 0;
  std::from_chars(status.data(), status.data() + status.size(), code);
  CHECK(code >= 200 && code < 600);
  const size_t end = answer.find("\r\n\r\n");
  const std::string_view headers = answer.substr(0, end);
  const size_t length_at = headers.find(kLength);
  if (length_at == std::string_view::npos || !headers.contains("application/json")) return code;
  size_t length = 0;
  const std::string_view told = headers.substr(length_at + kLength.size());
  std::from_chars(told.data(), told.data() + told.size(), length);
  const std::string_view body = answer.substr(end + 4);
  CHECK(body.size() < length || nlohmann::json::accept(body.substr(0, length)));  // HEAD has none
  return code;
}

void try_to_ask(std::string_view body) {
  static const auto map = std::make_shared<const node::ClusterMap>(node::sample_map());
  for (const JobKind& kind : job_kinds()) {
    const auto asked = kind.parse(body, map);
    if (asked) CHECK(nlohmann::json::accept(job_json({.id = 1, .asked = *asked, .progress = {}})));
  }
}

}  // namespace

bool fuzz::accepts(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view stream = input.substr(1);
  if (const size_t end = stream.find("\r\n\r\n"); end != std::string_view::npos) {
    try_to_ask(stream.substr(end + 4));
  }
  const std::string answers = answers_to(stream, static_cast<unsigned char>(input[0]));
  return !answers.empty() && check_answer(answers) < 400;
}

std::vector<std::string> fuzz::seeds() {
  const auto request = [](const std::string& line, const std::string& action = "",
                          const std::string& body = "") {
    return line + " HTTP/1.1\r\nHost: localhost\r\n" +
           (action.empty() ? "" : "X-Elastripe: " + action + "\r\n") +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  };
  std::vector<std::string> seeds;
  for (const char* path :
       {"/v1/status", "/v1/nodes", "/v1/objects/a%2fb", "/v1/objects/striped?first=1",
        "/v1/scrub/s%25", "/v1/transitions", "/v1/transitions/1", "/v1/jobs", "/v1/jobs/1",
        "/metrics", "/healthz", "/readyz"}) {
    seeds.push_back('\0' + request("GET " + std::string(path)));
  }
  seeds.push_back('\1' + request("HEAD /v1/status"));
  seeds.push_back('\0' + request("POST /v1/accept-loss", "accept-loss"));
  seeds.push_back('\0' + request("POST /v1/nodes/n0/declare-dead", "declare-dead"));
  seeds.push_back('\0' + request("POST /v1/transitions/1/cancel", "transition"));
  for (const char* body :
       {R"({"all": true, "to": 5})", R"({"key": "k", "to": 4, "dry_run": true})",
        R"({"prefix": "a/", "to": 4, "rate": 9, "parallel": 2, "execution": "proxy"})"}) {
    seeds.push_back('\2' + request("POST /v1/transitions", "transition", body));
  }
  seeds.push_back('\2' + request("POST /v1/scrubs", "scrub", R"({"all": true, "repair": true})"));
  seeds.push_back('\2' + request("POST /v1/rebalances", "rebalance", R"({"parallel": 2})"));
  seeds.push_back('\2' + request("POST /v1/recycles", "recycle", R"({"all": true})"));
  seeds.push_back('\2' + request("POST /v1/repairs", "repair", R"({"node": "n0", "rate": 9})"));
  return seeds;
}
