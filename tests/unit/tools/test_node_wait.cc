// When `elastripe node wait` is over, by what a proxy answers.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tools/cli/node_wait.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

// n1 is back, and nothing lacks redundancy, as a proxy that follows tells it.
struct Told {
  Json nodes = {{"epoch", 7},
                {"nodes",
                 {{{"name", "n1"},
                   {"state", "up"},
                   {"incarnation", "a1"},
                   {"process", "a1"},
                   {"last_answer_age_ms", 40}}}}};
  Json status = {
      {"state", "serving"},
      {"decides", false},
      {"epoch", {{"number", 7}, {"decider", "0000d1"}}},
      {"proxies",
       {{{"decides_as", "000000"}, {"age_ms", 0}}, {{"decides_as", "0000d1"}, {"age_ms", 900}}}},
      {"partitions", {{"total", 8}, {"synced", 8}}},
      {"repair", {{"state", "waiting"}, {"epoch", 7}, {"settled_epoch", 7}}}};
  milliseconds asked{5000};

  Json& node() { return nodes["nodes"][0]; }
  Json& decider() { return status["proxies"][1]; }
  NodeSighting seen() const { return {nodes, status, asked, asked}; }
  bool is_over() const { return awaited_of(seen(), "n1").empty(); }
  bool awaits(const std::string& what) const {
    const std::string awaited = awaited_of(seen(), "n1");
    INFO(awaited);
    CHECK(awaited.find(what) != std::string::npos);
    return awaited.find(what) != std::string::npos;
  }
};

}  // namespace

TEST_CASE("a wait is over when the node is back and nothing lacks redundancy") {
  Told told;
  CHECK(told.is_over());
  told.status["partitions"]["synced"] = 7;
  CHECK(told.awaits("7 of 8 partitions"));
  told = {};
  told.status["repair"]["settled_epoch"] = 6;
  told.status["repair"]["waits_for"] = "node n2 to come back";
  CHECK(told.awaits("not full: repair waits for node n2"));
  told = {};
  told.node()["state"] = "lost";
  CHECK(told.awaits("n1 is lost"));
  told = {};
  told.status["state"] = "waiting";
  told.status["reason"] = "no proxy decides";
  CHECK(told.awaits("waiting: no proxy decides"));
}

TEST_CASE("what a node answered before the wait began tells nothing") {
  Told told;
  told.node()["last_answer_age_ms"] = 4900;
  CHECK(told.awaits("has not answered"));
  // It may have been on its way.
  told.node()["last_answer_age_ms"] = 4001;
  CHECK(told.awaits("has not answered"));
  told.node()["last_answer_age_ms"] = 4000;
  CHECK(told.is_over());
  told.asked = milliseconds(0);
  told.node()["last_answer_age_ms"] = 0;
  CHECK(told.awaits("has not answered"));
}

TEST_CASE("a proxy of an older build does not tell as whom others decide") {
  Told told;
  for (Json& proxy : told.status["proxies"]) proxy.erase("decides_as");
  CHECK(told.awaits("has not confirmed"));
  told.decider()["decides"] = true;
  CHECK(told.is_over());
  told.decider()["age_ms"] = 4900;
  CHECK(told.awaits("has not confirmed"));
}

TEST_CASE("a process that the map does not name is another one than the map is of") {
  Told told;
  told.node()["process"] = "b2";
  CHECK(told.awaits("none that the cluster knows"));
}

TEST_CASE("a map is the newest one if the proxy that made it has said so since") {
  Told told;
  told.decider()["age_ms"] = 4500;
  CHECK(told.awaits("has not confirmed"));
  told = {};
  told.decider()["decides_as"] = "0000d2";
  CHECK(told.awaits("has not confirmed"));
  told = {};
  told.status["repair"]["epoch"] = 8;  // while its settled_epoch may still be of the map before
  CHECK(told.awaits("has not confirmed"));
  told = {};
  told.nodes["epoch"] = 6;
  CHECK(told.awaits("has not confirmed"));
  told = {};
  told.status["decides"] = true;
  told.status["proxies"] = Json::array();
  CHECK(told.is_over());
}

TEST_CASE("a name that no node has is told from a map") {
  Told told;
  CHECK_FALSE(is_unknown(told.seen(), "n1"));
  CHECK(is_unknown(told.seen(), "n9"));
  told.status["state"] = "starting";
  CHECK_FALSE(is_unknown(told.seen(), "n9"));
  told = {};
  told.nodes["epoch"] = 0;
  CHECK_FALSE(is_unknown(told.seen(), "n9"));
}

}  // namespace elastripe::cli
