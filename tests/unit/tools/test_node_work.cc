#include <catch2/catch.hpp>

#include "tools/bench/node_work.h"

namespace elastripe::bench {
namespace {

constexpr const char* kMetrics =
    R"(# HELP elastripe_node_request_duration_seconds From a frame sent to its reply.
elastripe_folded_logs_total 5
elastripe_folded_bytes_total 1000
elastripe_node_received_bytes_total{node="n0"} 10
elastripe_node_received_bytes_total{node="n1"} 20
elastripe_node_request_duration_seconds_count{node="n0",request="HEARTBEAT"} 100
elastripe_node_request_duration_seconds_count{node="n0",request="LOG_APPEND"} 7
elastripe_node_request_duration_seconds_count{node="n1",request="LOG_APPEND"} 8
elastripe_node_request_duration_seconds_count{node="n1",request="LOG_STORE"} 0
elastripe_node_request_duration_seconds_sum{node="n1",request="LOG_APPEND"} 900
elastripe_node_sent_bytes_total{node="n0"} 4096
elastripe_node_sent_bytes_total{node="n1"} 4096
)";

}  // namespace

TEST_CASE("counters of all nodes are added up from metrics") {
  const NodeWork work = node_work_of(kMetrics);
  CHECK(work.frames == std::map<std::string, uint64_t>{{"HEARTBEAT", 100}, {"LOG_APPEND", 15}});
  CHECK(work.update_frames() == 15);
  CHECK(work.sent_bytes == 8192);
  CHECK(work.received_bytes == 30);
  CHECK(work.folded_logs == 5);
  CHECK(work.folded_bytes == 1000);
}

TEST_CASE("work of several loads is told of each update") {
  const NodeWork before = node_work_of(kMetrics);
  NodeWork after = before;
  after.frames["LOG_APPEND"] += 20;
  after.frames["LOG_STORE"] += 40;
  after.sent_bytes += 61'440;
  after.folded_logs += 2;
  after.merged_bytes += 6'000;
  NodeWork work = after - before;
  CHECK(work.frames == std::map<std::string, uint64_t>{{"LOG_APPEND", 20}, {"LOG_STORE", 40}});
  work += after - before;
  const Json figures = figures_of(work, {.updates = 40, .bytes = 8'000}, /*copies=*/3);
  CHECK(figures.at("frames") == 3);
  CHECK(figures.at("frames_by_request").at("LOG_STORE") == 2);
  CHECK(figures.at("sent_kib") == 3);
  CHECK(figures.at("received_bytes") == 0);
  CHECK(figures.at("updates_per_fold") == 10);
  CHECK(figures.at("merged_share") == 0.5);
}

TEST_CASE("what there is none of is not told") {
  const Json figures = figures_of({}, {.updates = 1, .bytes = 1}, /*copies=*/0);
  CHECK_FALSE(figures.contains("updates_per_fold"));
  CHECK_FALSE(figures.contains("merged_share"));
  CHECK(figures_of({}, {}, /*copies=*/3).empty());
}

}  // namespace elastripe::bench
