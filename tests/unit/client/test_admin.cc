// What the client makes of an admin interface, and which one it takes for that of a proxy.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "client-lib/admin.h"
#include "tests/unit/client/server.h"

namespace elastripe::client {
namespace {

// What a proxy says of itself, and its admin interface of itself.
Reply settings_of(const FakeProxy& proxy, const std::string& host = "127.0.0.1") {
  return "STAT admin_addr " + host + ":" + std::to_string(proxy.port()) +
         "\r\nSTAT proxy_id 7d02\r\nEND\r\n";
}
const Reply kStatus = http(200, R"({"proxy_id": "7d02"})");
const Reply kUnknownJob = http(404, R"({"error": "not_found", "message": "no such transition"})");
const std::string kObject = R"({"key": "a/b", "kind": "striped", "size": 1048576,
  "homes": ["n4", "n1"], "scheme": "ers-2:4,1,5", "missing_shards": 1, "unreachable_shards": 2})";

Result<Admin> admin_of(const std::vector<std::string>& proxies) {
  Options options;
  options.request_timeout_ms = 200;
  return Admin::create(proxies, options);
}

// Answers of its interface, each behind those to what the client asks first.
std::vector<Reply> admin_replies(const FakeProxy& proxy, const std::vector<Reply>& answers) {
  std::vector<Reply> replies;
  for (const Reply& answer : answers) {
    replies.insert(replies.end(), {settings_of(proxy), kStatus, answer});
  }
  return replies;
}

std::string report_of(const std::string& state) {
  return R"({"id": 3, "state": ")" + state + R"(", "reason": "why",
    "counts": {"transitioned": 100, "skipped": {"inline": 12, "rs": 4}}})";
}

TEST_CASE("an object's record is told") {
  FakeProxy proxy({});
  for (const std::string host : {"127.0.0.1", "0.0.0.0", "[::]"}) {
    proxy.will_reply({settings_of(proxy, host), kStatus, http(200, kObject)});
    const auto info = admin_of({proxy.address()})->object_info("a/b");
    REQUIRE(info);
    CHECK(info->kind == "striped");
    CHECK(info->size == 1048576);
    CHECK(info->scheme == "ers-2:4,1,5");
    CHECK(info->homes == std::vector<std::string>{"n4", "n1"});
    CHECK(info->missing_shards == 1);
    CHECK(info->unreachable_shards == 2);
    CHECK(info->json.starts_with('{'));
    CHECK(proxy.requests().back() == "GET /v1/objects/a%2Fb");
  }
}

TEST_CASE("what an admin interface refuses has its kind") {
  struct Case {
    Reply reply;
    ErrorKind kind;
    std::string message;
  };
  for (const auto& [reply, kind, message] :
       {Case{http(404, R"({"error": "not_found", "message": "no such object"})"),
             ErrorKind::kNotFound, "no such object"},
        Case{http(409, R"({"error": "conflict", "message": "job 2 runs"})"), ErrorKind::kServer,
             "job 2 runs"},
        Case{http(503, R"({"error": "unavailable", "message": "deposed"})"), ErrorKind::kServer,
             "not serving: deposed"},
        Case{http(503, R"({"error": "unknown_outcome", "message": "the decider has died"})"),
             ErrorKind::kUnknownOutcome, "outcome unknown: the decider has died"},
        Case{http(400, "<html>\nno JSON"), ErrorKind::kServer, "<html>"},
        Case{http(200, "no JSON"), ErrorKind::kConnection, "does not answer with JSON"},
        Case{kSilence, ErrorKind::kTimeout, ""}, Case{kClose, ErrorKind::kConnection, ""}}) {
    INFO(message);
    FakeProxy proxy({});
    proxy.will_reply({settings_of(proxy), kStatus, reply});
    const auto job = admin_of({proxy.address()})->transition(5, {.all = true});
    REQUIRE(!job);
    CHECK(name(job.error().kind) == name(kind));
    CHECK(job.error().message.find(message) != std::string::npos);
    CHECK(job.error().may_have_taken_effect() ==
          (kind == ErrorKind::kTimeout || kind == ErrorKind::kConnection ||
           kind == ErrorKind::kUnknownOutcome));
    CHECK(proxy.requests().size() == 3);
  }
}

TEST_CASE("an interface of another proxy is not taken") {
  FakeProxy proxy({});
  proxy.will_reply({settings_of(proxy), http(200, R"({"proxy_id": "other"})")});
  CHECK(admin_of({proxy.address()})->object_info("key").error().kind == ErrorKind::kServer);
  // It knows no such page: that is not to say that there is no such object.
  proxy.will_reply({settings_of(proxy), http(404, "no such page")});
  CHECK(admin_of({proxy.address()})->object_info("key").error().kind == ErrorKind::kServer);
  proxy.will_reply({"STAT pid 7\r\nEND\r\n"});
  const auto info = admin_of({proxy.address()})->object_info("key");
  REQUIRE(!info);
  CHECK(info.error().message.find("is no elastripe proxy") != std::string::npos);
}

TEST_CASE("the next proxy is asked when one serves nothing") {
  FakeProxy deposed({});
  FakeProxy serving({});
  deposed.will_reply({settings_of(deposed), kStatus, http(503, R"({"message": "deposed"})")});
  serving.will_reply({settings_of(serving), kStatus, http(202, report_of("running"))});
  const auto job =
      admin_of({deposed.address(), serving.address()})->transition(5, {.prefix = "logs/"});
  REQUIRE(job);
  CHECK(job->id() == 3);
  CHECK(serving.requests().back() ==
        R"(POST /v1/transitions|{"dry_run":false,"parallel":4,"prefix":"logs/","rate":0,"to":5})");
}

TEST_CASE("a transition that may have begun is begun at no other proxy") {
  for (const Reply& reply :
       {http(503, R"({"error": "unknown_outcome", "message": "the decider has died"})"), kSilence,
        kClose}) {
    FakeProxy first({});
    FakeProxy second({});
    first.will_reply({settings_of(first), kStatus, reply});
    second.will_reply({settings_of(second), kStatus, http(202, report_of("running"))});
    const auto job = admin_of({first.address(), second.address()})->transition(5, {.all = true});
    REQUIRE(!job);
    CHECK(job.error().may_have_taken_effect());
    CHECK(second.requests().empty());
  }
}

TEST_CASE("a transition is waited for, and its end told") {
  FakeProxy proxy({});
  proxy.will_reply(
      admin_replies(proxy, {http(202, report_of("running")), http(200, report_of("running")),
                            http(200, report_of("done")), http(200, report_of("failed")),
                            http(200, report_of("running")), http(202, report_of("cancelling")),
                            http(200, report_of("cancelled"))}));
  const auto job = admin_of({proxy.address()})->transition(5, {.key = "key"});
  REQUIRE(job);
  const auto report = job->wait();
  REQUIRE(report);
  CHECK(report->state == "done");
  CHECK(report->counts.at("transitioned") == 100);
  CHECK(report->counts.at("skipped") == 16);
  CHECK(job->wait().error().message == "the transition failed: why");
  CHECK(job->wait(std::chrono::milliseconds(0)).error().kind == ErrorKind::kTimeout);
  CHECK(job->cancel()->state == "cancelling");
  CHECK(proxy.requests().back() == "POST /v1/transitions/3/cancel|{}");
  CHECK(job->wait()->state == "cancelled");
}

TEST_CASE("a transition goes on without the proxy that was asked for it") {
  FakeProxy other({});
  auto first = std::make_unique<FakeProxy>(std::vector<Reply>{});
  first->will_reply(admin_replies(*first, {http(202, report_of("running"))}));
  // It hears of the transition a moment later.
  other.will_reply(
      admin_replies(other, {kUnknownJob, http(200, report_of("running")), kUnknownJob,
                            http(200, report_of("done")), http(202, report_of("cancelling"))}));
  const auto job = admin_of({first->address(), other.address()})->transition(5, {.all = true});
  REQUIRE(job);
  first.reset();
  CHECK(job->report()->state == "running");
  CHECK(job->wait()->state == "done");
  CHECK(job->cancel()->state == "cancelling");
}

TEST_CASE("a cancellation that was not answered is asked for elsewhere") {
  for (const Reply& reply :
       {http(503, R"({"error": "unknown_outcome", "message": "untold"})"),
        http(503, R"({"error": "unavailable", "message": "deposed"})"), kSilence, kClose}) {
    FakeProxy first({});
    FakeProxy other({});
    first.will_reply(admin_replies(first, {http(202, report_of("running")), reply}));
    other.will_reply(admin_replies(other, {http(202, report_of("cancelling"))}));
    const auto job = admin_of({first.address(), other.address()})->transition(5, {.all = true});
    REQUIRE(job);
    CHECK(job->cancel()->state == "cancelling");
    CHECK(other.requests().back() == "POST /v1/transitions/3/cancel|{}");
  }
}

TEST_CASE("a transition is found by its id") {
  FakeProxy proxy({});
  proxy.will_reply(admin_replies(
      proxy, {http(200, report_of("running")), http(200, report_of("done")), kUnknownJob}));
  auto admin = admin_of({proxy.address()});
  const auto job = admin->find_transition(3);
  REQUIRE(job);
  CHECK(job->id() == 3);
  CHECK(proxy.requests().back() == "GET /v1/transitions/3");
  CHECK(job->wait()->state == "done");
  CHECK(admin->find_transition(4).error().kind == ErrorKind::kNotFound);
}

TEST_CASE("what names not one choice, or no text, is not sent") {
  FakeProxy proxy({});
  auto admin = admin_of({proxy.address()});
  for (const TransitionOptions& options :
       {TransitionOptions{}, {.key = "a", .all = true}, {.key = "a b"}, {.prefix = "\xff"}}) {
    CHECK(admin->transition(5, options).error().kind == ErrorKind::kInvalid);
  }
  CHECK(admin->object_info("a b").error().kind == ErrorKind::kInvalid);
  CHECK(proxy.connections() == 0);
  CHECK(Admin::create({"a", "b"}, {}, "c").error().kind == ErrorKind::kInvalid);
  CHECK(Admin::create({"a"}, {}, "/path").error().kind == ErrorKind::kInvalid);
}

}  // namespace
}  // namespace elastripe::client
