// What `elastripe status` makes of a proxy's answers.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tools/cli/status_text.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;

Json serving() {
  return {{"state", "serving"},
          {"reason", ""},
          {"epoch", {{"number", 3}}},
          {"nodes", {{"configured", 6}, {"up", 5}, {"suspect", 0}, {"away", 0}, {"lost", 1}}},
          {"partitions", {{"total", 1024}, {"synced", 1024}, {"lost", 0}, {"short", 0}}},
          {"objects",
           {{"lacking_shards", 0}, {"lost", 0}, {"surviving", {{"0", 0}, {"1", 3}, {"2", 100}}}}},
          {"repair", {{"state", "waiting"}, {"waits_for", "the nodes change"}}},
          {"memory",
           {{"used_bytes", 3 << 20},
            {"limit_bytes", 16 << 20},
            {"record_bytes", 1 << 19},
            {"shard_bytes", 2 << 20},
            {"other_bytes", 1 << 19},
            {"free_bytes", 12 << 20}}}};
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a healthy cluster is told in a few lines") {
  CHECK(status_text(serving(), Json()) ==
        "state       serving\n"
        "epoch       3\n"
        "nodes       5 of 6 up, 0 suspect, 0 away, 1 lost\n"
        "partitions  1024 of 1024 synced, 0 lost\n"
        "redundancy  100 survive 2, 3 survive 1 further failures\n"
        "memory      3.0 MiB of 16.0 MiB used: 0.5 MiB records, 2.0 MiB shards, 0.5 MiB other; "
        "12.0 MiB free\n");
}

TEST_CASE("proxies are told where there are several") {
  Json status = serving();
  status["proxies"] = Json::array({{{"clients", "a:1"}, {"decides", true}, {"leaves", true}}});
  CHECK(status_text(status, Json()).find("proxies") == std::string::npos);
  status["proxies"].push_back({{"clients", "b:2"}, {"decides", false}, {"leaves", false}});
  CHECK(has(status_text(status, Json()), "proxies     a:1 decides leaves, b:2\n"));
}

TEST_CASE("a scrub in the background is told while it runs, and if it has found something") {
  Json status = serving();
  status["scrub"] = {{"state", "running"}, {"objects", {{"clean", 5}, {"refused", 0}}}};
  CHECK(has(status_text(status, Json()), "scrub       5 objects are clean so far, 0 are not\n"));
  status["scrub"] = {{"state", "waiting"}, {"objects", {{"clean", 9}, {"refused", 0}}}};
  CHECK(status_text(status, Json()).find("scrub") == std::string::npos);
  status["scrub"]["objects"]["refused"] = 2;
  CHECK(has(status_text(status, Json()), "the last found 2 objects that are not clean"));
}

TEST_CASE("updates are told while some lie in logs") {
  Json status = serving();
  Json& logs = status["update_logs"] = {{"bytes", 0}, {"used_bytes", 1 << 20}};
  CHECK(status_text(status, Json()).find("updates") == std::string::npos);
  logs = {{"bytes", 1 << 19}, {"used_bytes", 1 << 20},   {"limit_bytes", 8 << 20},
          {"age_ms", 1234},   {"merged_bytes", 3 << 20}, {"refusals", 7}};
  CHECK(has(status_text(status, Json()),
            "updates     0.5 MiB in logs, not folded for 1.2 s at most; 1.0 MiB of 8.0 MiB taken; "
            "3.0 MiB were "
            "merged, 7 updates refused\n"));
}

TEST_CASE("what is not as it should be has lines of its own") {
  Json status = serving();
  status["state"] = "waiting";
  status["reason"] = "n1 does not answer";
  status["partitions"]["short"] = 4;
  status["objects"] = {{"lacking_shards", 17}, {"lost", 2}};
  std::string text = status_text(status, Json());
  CHECK(has(text, "state       waiting: n1 does not answer\n"));
  CHECK(has(text, "0 lost, 4 with too few homes: nodes lack room\n"));
  CHECK(has(text, "objects     17 lack shards, 2 more are lost\n"));
  CHECK(has(text, "repair      waits for the nodes change\n"));
  Json ended = status;
  ended["repair"]["waits_for"] = "";
  CHECK(has(status_text(ended, Json()), "repair      has just ended, or begins: what lacks"));
  status["repair"]["problem"] = "key: no room";
  CHECK(has(status_text(status, Json()), "repair      waits for the nodes change; key: no room\n"));
  status["objects"]["lacking_shards"] = 0;  // as while a node drains
  CHECK(has(status_text(status, Json()), "repair      waits for the nodes change; key: no room\n"));
  status["repair"]["state"] = "off";
  CHECK(has(status_text(status, Json()), "repair      off\n"));
  status["repair"] = {{"state", "running"},
                      {"objects", {{"restored", 5}, {"planned", 17}}},
                      {"seconds_left", nullptr}};
  CHECK(has(status_text(status, Json()), "repair      5 of 17 objects restored\n"));
  status["repair"]["seconds_left"] = 3;
  CHECK(has(status_text(status, Json()), "repair      5 of 17 objects restored, 3 s left\n"));
}

TEST_CASE("a job that somebody started is shown while it runs") {
  const Json running = {{"id", 2},
                        {"kind", "repair"},
                        {"state", "running"},
                        {"phase", "repairing"},
                        {"counted", true},
                        {"planned", {{"read_bytes", 3 << 20}, {"sent_bytes", 1 << 20}}},
                        {"settled_bytes", 1 << 20}};
  Json jobs = {{"jobs", {running}}};
  CHECK(has(status_text(serving(), jobs), "job         repair 2: 25%, 1.0 MiB of 4.0 MiB\n"));
  jobs["jobs"][0]["state"] = "done";
  CHECK(status_text(serving(), jobs).find("repair 2") == std::string::npos);
}

TEST_CASE("a flush_all that is pending is shown") {
  Json status = serving();
  status["flush_at"] = nullptr;
  CHECK(status_text(status, Json()).find("flush_all") == std::string::npos);
  status["flush_at"] = 1'800'000'000;
  CHECK(has(status_text(status, Json()), "flush_all   at 2027-01-15 08:00:00 UTC: "));
}

TEST_CASE("a proxy that tells less than it should is shown all the same") {
  CHECK(has(status_text(Json::object(), Json()), "state       -\n"));
  Json older = serving();
  older["memory"] = {{"used_bytes", 3 << 20}, {"limit_bytes", 16 << 20}};
  older["objects"].erase("surviving");
  CHECK(has(status_text(older, Json()), "lost\nmemory      3.0 MiB of 16.0 MiB used\n"));
}

}  // namespace elastripe::cli
