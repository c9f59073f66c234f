// What the admin interface takes and shows of jobs.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxy/admin/job_report.h"

using namespace elastripe::jobs;

namespace elastripe {
namespace {

using nlohmann::json;

std::string refusal_of(const std::string& body) {
  const auto spec = parse_transition(body);
  if (spec) return "taken";
  CHECK(spec.error().code == ErrorCode::kInvalid);
  return spec.error().message;
}

TEST_CASE("the body of a transition names what to take where; the rest has defaults") {
  const auto least = parse_transition(R"({"all": true, "to": 5})");
  REQUIRE(least.has_value());
  CHECK(least->job.key.empty());
  CHECK(least->job.prefix.empty());
  CHECK(least->to == 5);
  CHECK(least->execution == Execution::kDelta);
  CHECK(least->order_selection);
  CHECK_FALSE(least->job.dry_run);
  CHECK(least->job.rate == 0);
  CHECK(least->job.parallel == 4);

  const auto whole = parse_transition(
      R"({"prefix": "a/", "all": false, "to": 4, "dry_run": true, "rate": 1000000, "parallel": 9,
          "execution": "proxy", "order_selection": false})");
  REQUIRE(whole.has_value());
  CHECK(whole->job.prefix == "a/");
  CHECK(whole->execution == Execution::kProxy);
  CHECK_FALSE(whole->order_selection);
  CHECK(whole->job.dry_run);
  CHECK(whole->job.rate == 1'000'000);
  CHECK(whole->job.parallel == 9);
  CHECK(parse_transition(R"({"key": "k", "to": 4})")->job.key == "k");
}

TEST_CASE("a wrong body is refused with where and why") {
  CHECK(refusal_of("") == "byte 1 of the body: it is no JSON");
  CHECK(refusal_of(R"({"all": true, "to": })") == "byte 21 of the body: it is no JSON");
  CHECK(refusal_of(R"({"all": true, "to": 5, "rate": 1e999})").starts_with("the body: "));
  CHECK(refusal_of("[]") == "the body is no JSON object");
  CHECK(refusal_of(R"({"all": true})") == "to: is missing");
  CHECK(refusal_of(R"({"to": 5})") == "key, prefix, all: give one of them");
  CHECK(refusal_of(R"({"to": 5, "all": false})") == "key, prefix, all: give one of them");
  CHECK(refusal_of(R"({"to": 5, "all": true, "key": "k"})") ==
        "key, prefix, all: give one of them");
  CHECK(refusal_of(R"({"to": 5, "key": "two words"})") ==
        "key: expected 1 to 250 bytes without white space");
  CHECK(refusal_of(R"({"to": 5, "prefix": ""})") ==
        "prefix: expected 1 to 250 bytes without white space");
  CHECK(refusal_of(R"({"to": 5, "prefix": 7})") ==
        "prefix: expected 1 to 250 bytes without white space");
  CHECK(refusal_of(R"({"to": 256, "all": true})") == "to: expected an integer from 1 to 255");
  CHECK(refusal_of(R"({"to": 4.5, "all": true})") == "to: expected an integer from 1 to 255");
  CHECK(refusal_of(R"({"to": 5, "all": 1})") == "all: expected true or false");
  CHECK(refusal_of(R"({"to": 5, "all": true, "dry_run": "no"})") ==
        "dry_run: expected true or false");
  CHECK(refusal_of(R"({"to": 5, "all": true, "rate": -1})") ==
        "rate: expected an integer from 0 up");
  CHECK(refusal_of(R"({"to": 5, "all": true, "parallel": 0})") ==
        "parallel: expected an integer from 1 to 256");
  CHECK(refusal_of(R"({"to": 5, "all": true, "execution": "hub"})") ==
        R"(execution: expected "delta" or "proxy")");
  CHECK(refusal_of(R"({"to": 5, "all": true, "dryrun": true})") ==
        "dryrun: there is no such field");
  CHECK(refusal_of(R"({"too": 5, "all": true})") == "too: there is no such field");
}

TEST_CASE("a repair takes all that is gone, or what one node lacks") {
  auto known = std::make_shared<node::ClusterMap>();
  known->nodes.resize(3);
  for (size_t i = 0; i < 3; ++i) {
    known->nodes[i].id = static_cast<NodeId>(i);
    known->nodes[i].name = "n" + std::to_string(i + 1);
  }
  const MapPtr map = known;
  const auto all = parse_repair("{}", nullptr);
  REQUIRE(all.has_value());
  CHECK_FALSE(all->on.has_value());
  CHECK(all->given_up.away);
  CHECK(all->job.parallel == 4);
  const auto one = parse_repair(R"({"node": "n3", "rate": 9, "dry_run": true})", map);
  REQUIRE(one.has_value());
  CHECK(one->on == NodeId{2});
  CHECK(one->job.rate == 9);
  CHECK(one->job.dry_run);
  CHECK(parse_repair(R"({"node": "n4"})", map).error().message == "node: no node has this name");
  CHECK(parse_repair(R"({"node": 3})", map).error().message == "node: expected a text");
  CHECK(parse_repair(R"({"node": "n3"})", nullptr).error().message ==
        "node: the nodes are not known yet");
  CHECK(parse_repair(R"({"to": 5})", map).error().message == "to: there is no such field");

  JobReport report{.id = 1, .asked = *one, .progress = {}};
  report.progress.counts.done = 2;
  report.progress.planned.shards = 7;
  const json shown = json::parse(job_json(report));
  CHECK(shown["kind"] == "repair");
  CHECK(shown["phase"] == "counting");
  CHECK(shown["spec"] == json({{"node", "n3"}, {"dry_run", true}, {"rate", 9}, {"parallel", 4}}));
  CHECK(shown["counts"]["restored"] == 2);
  CHECK(shown["planned"]["shards"] == 7);
  report.asked = *all;
  CHECK(json::parse(job_json(report))["phase"] == "repairing");
}

TEST_CASE("a scrub takes one object, those that begin alike or all, and repairs if told to") {
  CHECK_FALSE(parse_scrub(R"({"all": true})")->repairs);
  const auto spec = parse_scrub(R"({"prefix": "a/", "repair": true, "rate": 9})");
  REQUIRE(spec.has_value());
  CHECK(spec->repairs);
  CHECK(spec->job.prefix == "a/");
  CHECK(parse_scrub("{}").error().message == "key, prefix, all: give one of them");
  JobReport report{.id = 1, .asked = *spec, .progress = {}};
  report.progress.counts.done = 2;
  const json shown = json::parse(job_json(report));
  CHECK(shown["kind"] == "scrub");
  CHECK(shown["phase"] == "scrubbing");
  CHECK(shown["counts"]["clean"] == 2);
  CHECK(
      shown["spec"] ==
      json({{"prefix", "a/"}, {"repair", true}, {"dry_run", false}, {"rate", 9}, {"parallel", 4}}));
}

TEST_CASE("a rebalance is slow unless told otherwise") {
  CHECK(parse_rebalance("{}")->job.rate == 50 << 20);
  CHECK(parse_rebalance(R"({"all": true})").error().message == "all: there is no such field");
  const auto spec = parse_rebalance(R"({"rate": 0, "parallel": 2})");
  REQUIRE(spec.has_value());
  JobReport report{.id = 1, .asked = *spec, .progress = {}};
  report.progress.counts.done = 2;
  const json shown = json::parse(job_json(report));
  CHECK(shown["kind"] == "rebalance");
  CHECK(shown["phase"] == "rebalancing");
  CHECK(shown["counts"]["moved"] == 2);
  CHECK(shown["spec"] == json({{"dry_run", false}, {"rate", 0}, {"parallel", 2}}));
}

TEST_CASE("a recycle takes one object, those that begin alike or all") {
  CHECK(parse_recycle("{}").error().message == "key, prefix, all: give one of them");
  CHECK(parse_recycle(R"({"all": true, "to": 5})").error().message == "to: there is no such field");
  const auto spec = parse_recycle(R"({"key": "a", "rate": 9})");
  REQUIRE(spec.has_value());
  CHECK(spec->job.key == "a");
  JobReport report{.id = 1, .asked = *spec, .progress = {}};
  report.progress.counts.done = 2;
  const json shown = json::parse(job_json(report));
  CHECK(shown["kind"] == "recycle");
  CHECK(shown["phase"] == "folding");
  CHECK(shown["counts"]["folded"] == 2);
  CHECK(shown["spec"] == json({{"key", "a"}, {"dry_run", false}, {"rate", 9}, {"parallel", 4}}));
}

TEST_CASE("a report tells what was asked for, how far it is, and what went wrong") {
  TransitionJobSpec spec{.job = {.prefix = "a/", .rate = 9}, .to = 5};
  JobReport report{.id = 7, .asked = spec, .progress = {}};
  JobProgress& progress = report.progress;
  progress.counts.seen = 8;
  progress.counts.done = 5;
  progress.counts.skipped["inline"] = 2;
  progress.counts.refused = 1;
  progress.planned.objects = 6;
  progress.planned.traffic.blocks_read = 10;
  progress.planned.traffic.blocks_sent = 5;
  progress.planned.traffic.bytes_read = 100;
  progress.planned.traffic.bytes_sent = 50;
  progress.planned.parity = {30, 20};
  progress.settled_bytes = 125;
  progress.partitions = 16;
  progress.partitions_done = 12;
  progress.elapsed = std::chrono::milliseconds(1500);
  progress.object_times.add(std::chrono::microseconds(2500));
  progress.problems.push_back({"a/\xff", "shard 1 is missing"});
  const json shown = json::parse(job_json(report));
  CHECK(shown["id"] == 7);
  CHECK(shown["kind"] == "transition");
  CHECK(shown["state"] == "running");
  CHECK(shown["phase"] == "transitioning");
  CHECK(shown["counted"] == false);
  CHECK(shown["spec"]["prefix"] == "a/");
  CHECK_FALSE(shown["spec"].contains("all"));
  CHECK(shown["spec"]["to"] == 5);
  CHECK(shown["spec"]["rate"] == 9);
  CHECK(shown["spec"]["execution"] == "delta");
  CHECK(shown["counts"]["transitioned"] == 5);
  CHECK(shown["counts"]["skipped"] == json({{"inline", 2}}));
  CHECK(shown["planned"]["read_blocks"] == 10);
  CHECK(shown["planned"]["sent_blocks"] == 5);
  CHECK(shown["planned"]["read_bytes"] == 100);
  CHECK(shown["planned"]["sent_bytes"] == 50);
  CHECK(shown["planned"]["parity_bytes_before"] == 30);
  CHECK(shown["planned"]["parity_bytes_after"] == 20);
  CHECK(shown["settled_bytes"] == 125);
  CHECK(shown["partitions"] == json({{"total", 16}, {"done", 12}}));
  CHECK(shown["seconds"] == 1.5);
  for (const char* figure : {"mean", "p50", "p90", "p99", "max"}) {
    CHECK(shown["object_seconds"][figure] == 0.0025);
  }
  CHECK(shown["problems"][0] == json({{"key", "a/\\xff"}, {"reason", "shard 1 is missing"}}));

  spec.job.dry_run = true;
  report.asked = spec;
  progress.counted = true;
  CHECK(json::parse(job_json(report))["phase"] == "counting");
  CHECK(json::parse(job_json(report))["counted"] == true);
  progress.cancelling = true;
  CHECK(json::parse(job_json(report))["state"] == "cancelling");
  progress.state = JobState::kFailed;
  progress.reason = "a node";
  CHECK(json::parse(job_json(report))["state"] == "failed");
  CHECK(json::parse(job_json(report))["reason"] == "a node");
  const std::vector<ClusterJob> all = {
      {.id = 6, .kind = "repair", .report = R"({"id": 6})"},
      {.id = 7, .kind = "transition", .report = job_json(report)},
      {.id = 8, .kind = "of a newer build", .report = "what that says"}};
  CHECK(json::parse(jobs_json(all, &report.kind()))["transitions"].size() == 1);
  const json list = json::parse(jobs_json(all, nullptr))["jobs"];
  CHECK(list.size() == 2);
  CHECK(list[1] == json::parse(job_json(report)));
}

TEST_CASE("a report has room where proxies tell of jobs, whatever keys there are") {
  JobReport report{.id = 7, .runs = 3, .asked = TransitionJobSpec{.to = 5}, .progress = {}};
  for (size_t i = 0; i < Job::kMaxProblems; ++i) {
    report.progress.problems.push_back({std::string(250, '\xff'), std::string(300, '"')});
  }
  const std::string text = job_json(report);
  CHECK(text.size() <= ClusterJob::kMaxReportBytes);
  const json shown = json::parse(text);
  CHECK(shown["runs"] == 3);
  CHECK(!shown["problems"].empty());
  CHECK(shown["problems"].size() < Job::kMaxProblems);
}

TEST_CASE("a job that nobody goes on with has its report say so") {
  JobReport report{.id = 7, .asked = TransitionJobSpec{.to = 5}, .progress = {}};
  report.progress.counts.done = 4;
  JobProgress end;
  end.state = JobState::kFailed;
  end.reason = "its proxy has ended";
  const json shown = json::parse(ended_job_json(job_json(report), end));
  CHECK(shown["id"] == 7);
  CHECK(shown["state"] == "failed");
  CHECK(shown["reason"] == "its proxy has ended");
  CHECK(shown["counts"]["transitioned"] == 4);
  CHECK(json::parse(ended_job_json("no JSON", end))["state"] == "failed");
}

}  // namespace
}  // namespace elastripe
