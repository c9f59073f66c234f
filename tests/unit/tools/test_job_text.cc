// What commands make of the reports of a proxy's jobs.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tools/cli/job_text.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;

Json report_in(const std::string& state, const std::string& phase = "transitioning") {
  return {{"id", 3},
          {"state", state},
          {"phase", phase},
          {"counted", true},
          {"reason", ""},
          {"spec", {{"all", true}, {"to", 5}, {"rate", 0}}},
          {"seconds", 10.0},
          {"partitions", {{"total", 1024}, {"done", 512}}},
          {"counts",
           {{"seen", 10},
            {"transitioned", 4},
            {"already_there", 1},
            {"skipped", {{"inline", 2}, {"rs", 1}}},
            {"no_object", 0},
            {"overwritten", 2},
            {"refused", 0},
            {"failed", 0}}},
          {"planned",
           {{"objects", 6},
            {"object_bytes", 6 << 20},
            {"read_bytes", 3 << 20},
            {"sent_bytes", 1 << 20},
            {"parity_bytes_before", 4 << 20},
            {"parity_bytes_after", 3 << 20}}},
          {"done",
           {{"objects", 4},
            {"object_bytes", 4 << 20},
            {"read_bytes", 2 << 20},
            {"sent_bytes", 1 << 20},
            {"parity_bytes_before", 3 << 20},
            {"parity_bytes_after", 2 << 20}}},
          {"settled_bytes", 1 << 20},
          {"problems", Json::array()}};
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the exit status tells how a job ended") {
  Json report = report_in("done");
  CHECK(exit_status_of(report) == 0);
  report["counts"]["no_object"] = 1;  // deleted meanwhile
  CHECK(exit_status_of(report) == 0);
  report["spec"] = {{"key", "k"}};
  CHECK(exit_status_of(report) == 3);
  for (const char* count : {"refused", "failed"}) {
    report = report_in("done");
    report["counts"][count] = 1;
    CHECK(exit_status_of(report) == 3);
  }
  CHECK(exit_status_of(report_in("failed")) == 3);
  CHECK(exit_status_of(report_in("cancelled")) == 130);
  CHECK(exit_status_of(Json()) == 3);
  CHECK(is_running(report_in("cancelling")));
  CHECK(is_running(report_in("running")));
  CHECK_FALSE(is_running(report_in("done")));
}

TEST_CASE("progress has a share, a rate and what is left of the time") {
  JobPace pace;
  Json report = report_in("running", "counting");
  pace.note(report);
  CHECK(progress_line(report, pace, true) == "counting: 512 of 1024 partitions, 10 objects");
  report["partitions"]["total"] = 0;  // it has just begun, or has one key
  CHECK(progress_line(report, pace, true) == "counting");
  report = report_in("running");
  report["counted"] = false;
  pace.note(report);
  CHECK(progress_line(report, pace, true) == "1.0 MiB of at least 4.0 MiB");
  report["counted"] = true;
  CHECK(progress_line(report, pace, false) == "25%, 1.0 MiB of 4.0 MiB");
  report["seconds"] = 12.0;
  report["settled_bytes"] = 2 << 20;
  pace.note(report);
  CHECK(progress_line(report, pace, true) ==
        "[###############...............] 50%, 2.0 MiB of 4.0 MiB, 512.0 KiB/s, 4.0 s left");
  report["counted"] = false;
  CHECK(progress_line(report, pace, true) == "2.0 MiB of at least 4.0 MiB, 512.0 KiB/s");
  report["counted"] = true;
  report["state"] = "cancelling";
  report["reason"] = "node 3";
  CHECK(has(progress_line(report, pace, true), ", cancelling, waits: node 3"));
  // Nothing has to go: all of it is done.
  report["planned"] = Json();
  CHECK(has(progress_line(report, JobPace(), false), "100%, 0 B of 0 B"));
}

TEST_CASE("a summary tells every count, bytes and seconds, and how to go on") {
  Json report = report_in("done");
  std::string text = summary_of(report);
  CHECK(has(text, "transition 3: done after 10.0 s\n"));
  CHECK(has(text, "transitioned   4 objects, 4.0 MiB\n"));
  CHECK(has(text, "already there  1\n"));
  CHECK(has(text, "skipped        3 (inline 2, rs 1)\n"));
  CHECK(has(text, "overwritten    2 (a concurrent write came first)\n"));
  CHECK(has(text, "network        2.0 MiB read, 1.0 MiB sent, 307.2 KiB/s\n"));
  CHECK(has(text, "parities       3.0 MiB before, 2.0 MiB after: 1.0 MiB less\n"));
  CHECK(text.find("again") == std::string::npos);

  report["state"] = "cancelled";
  CHECK(has(summary_of(report), "The same command again goes on with the rest."));
  report["state"] = "failed";
  report["reason"] = "no home";
  report["counts"]["refused"] = 21;
  report["problems"].push_back({{"key", "k"}, {"reason", "shard 1 is missing"}});
  text = summary_of(report);
  CHECK(has(text, "failed after 10.0 s: no home\n"));
  CHECK(has(text, "  k: shard 1 is missing\n  and 20 more\n"));
  CHECK(has(text, "goes on with the rest"));
  report["state"] = "done";
  text = summary_of(report);
  CHECK(text.find("goes on with the rest") == std::string::npos);
  CHECK(has(text, "Write objects again whose shards are missing"));
}

TEST_CASE("the title of a job tells what was asked for") {
  const auto title = [](const char* kind, const Json& spec) {
    return title_of({{"id", 3}, {"kind", kind}, {"spec", spec}});
  };
  CHECK(title("transition", {{"prefix", "logs/"}, {"to", 10}, {"dry_run", false}}) ==
        "transition 3 (prefix logs/, to 10)");
  CHECK(title("transition", {{"all", true}, {"to", 5}, {"dry_run", true}}) ==
        "transition 3 (all, to 5, dry run)");
  CHECK(title("scrub", {{"key", "a"}, {"repair", true}}) == "scrub 3 (key a, repair)");
  CHECK(title("repair", {{"node", "n2"}}) == "repair 3 (node n2)");
  CHECK(title("rebalance", {{"dry_run", false}}) == "rebalance 3");
  CHECK(title_of({{"id", 3}, {"kind", "recycle"}}) == "recycle 3");
}

TEST_CASE("a dry run tells bytes, memory, and the time") {
  Json report = report_in("done", "counting");
  Json jobs = {{"jobs", Json::array()}};
  std::string text = forecast_of(report, jobs);
  CHECK(has(text, "to transition  6 objects, 6.0 MiB\n"));
  CHECK(has(text, "network        4.0 MiB: 3.0 MiB read, 1.0 MiB sent\n"));
  CHECK(has(text, "parities       4.0 MiB before, 3.0 MiB after: 1.0 MiB less\n"));
  CHECK(has(text,
            "time           about 0.0 s at 100.0 MiB/s, an assumption: no transition was run yet, "
            "and there is no --rate\n"));
  CHECK(has(text, "at every moment any m nodes may crash"));
  CHECK(has(text, "at most 3.0 MiB more until then\n"));

  jobs["jobs"] = {report_in("done"), report_in("running")};
  CHECK(has(forecast_of(report, jobs),
            "time           about 13.3 s at 307.2 KiB/s, as transition 3 had\n"));
  report["spec"]["rate"] = 1 << 10;
  CHECK(has(forecast_of(report, jobs), "time           about 1 h 8 min at 1.0 KiB/s, by --rate\n"));
  report["state"] = "failed";
  report["reason"] = "no home";
  CHECK(forecast_of(report, jobs) == "dry run: failed: no home\n");
}

TEST_CASE("a repair is told in words of its own") {
  Json report = report_in("done", "repairing");
  report["kind"] = "repair";
  report["counts"].erase("transitioned");
  report["counts"]["restored"] = 4;
  report["counts"]["refused"] = 1;
  for (const char* work : {"planned", "done"}) {
    report[work]["parity_bytes_before"] = report[work]["parity_bytes_after"] = 0;
    report[work]["shards"] = 7;
  }
  const std::string text = summary_of(report);
  CHECK(has(text, "repair 3: done after 10.0 s\n"));
  CHECK(has(text, "restored       4 objects, 4.0 MiB, 7 shards\n"));
  CHECK(has(text, "lack nothing   1\n"));
  CHECK(has(text, "refused        1 (too many shards are missing, or nodes to put them)\n"));
  CHECK(has(text, "Start nodes, or write objects again"));
  CHECK(text.find("parities") == std::string::npos);
  CHECK(exit_status_of(report) == 3);

  JobPace pace;
  report["state"] = "running";
  pace.note(report);
  report["seconds"] = 12.0;
  report["settled_bytes"] = 2 << 20;
  pace.note(report);
  CHECK(progress_line(report, pace, false) == "50%, 2.0 MiB of 4.0 MiB, 512.0 KiB/s, 4.0 s left");

  report["state"] = "done";
  report["phase"] = "counting";
  Json jobs = {{"jobs", {report_in("done")}}};
  CHECK(has(forecast_of(report, jobs), "to restore     6 objects, 6.0 MiB, 7 shards\n"));
  CHECK(has(forecast_of(report, jobs), "an assumption: no repair was run yet"));
  CHECK(forecast_of(report, jobs).find("parities") == std::string::npos);
  jobs["jobs"].push_back(report);
  CHECK(has(forecast_of(report, jobs), "as repair 3 had\n"));
}

}  // namespace elastripe::cli
