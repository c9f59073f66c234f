#include <catch2/catch.hpp>

#include "tools/bench/node_work.h"

namespace elastripe::bench {
namespace {

constexpr const char* kMetrics =
    R"(# HELP elastripe_node_request_duration_seconds From a frame sent to its reply.
elastripe_folded_logs_total 5
elastripe_folded_bytes_total 1000
elastripe_fold_microseconds_total 15000
elastripe_folded_age_milliseconds_total 4000
elastripe_full_update_logs_total 3
elastripe_node_received_bytes_total{node="n0"} 10
elastripe_node_received_bytes_total{node="n1"} 20
elastripe_node_request_duration_seconds_count{node="n0",request="HEARTBEAT"} 100
elastripe_node_request_duration_seconds_count{node="n0",request="LOG_APPEND"} 7
elastripe_node_request_duration_seconds_count{node="n1",request="LOG_APPEND"} 8
elastripe_node_request_duration_seconds_count{node="n1",request="LOG_STORE"} 0
elastripe_node_request_duration_seconds_sum{node="n0",request="LOG_APPEND"} 0.25
elastripe_node_request_duration_seconds_sum{node="n1",request="LOG_APPEND"} 0.5
elastripe_node_request_duration_seconds_sum{node="n1",request="LOG_STORE"} 0
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
  CHECK(work.seconds == std::map<std::string, double>{{"LOG_APPEND", 0.75}});
  CHECK(work.fold_us == 15'000);
  CHECK(work.folded_age_ms == 4000);
  CHECK(work.waits == 3);
}

TEST_CASE("work of several loads is told of each update") {
  const NodeWork before = node_work_of(kMetrics);
  NodeWork after = before;
  after.frames["LOG_APPEND"] += 20;
  after.frames["LOG_STORE"] += 40;
  after.sent_bytes += 61'440;
  after.seconds["LOG_APPEND"] += 0.5;
  after.seconds["LOG_STORE"] += 1;
  after.folded_logs += 2;
  after.fold_us += 9000;
  after.folded_age_ms += 500;
  after.waits += 7;
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
  CHECK(figures.at("us_by_request").at("LOG_APPEND") == 25'000);
  CHECK(figures.at("fold_ms") == 4.5);
  CHECK(figures.at("log_age_ms") == 250);
  CHECK(figures.at("waits") == 14);
  CHECK_FALSE(figures.at("us_by_request").contains("HEARTBEAT"));
}

TEST_CASE("work is told of each operation where there were reads, too") {
  NodeWork work = node_work_of(kMetrics);
  const Json figures = figures_of(work, {.updates = 5, .bytes = 1, .reads = 10}, /*copies=*/0);
  CHECK(figures.at("frames") == 1);
  CHECK(figures.at("updates_per_fold") == 1);
}

TEST_CASE("what nodes tell is part of their work") {
  NodeWork work = node_work_of(kMetrics);
  take_statistics(work, {{"log_merged_bytes", 5}, {"shard_changes", 6}, {"shards", 7}});
  CHECK(work.merged_bytes == 5);
  CHECK(work.shard_changes == 6);
  CHECK(work.shard_changed_bytes == 0);
  CHECK(work.sent_bytes == 8192);
  const Json figures = figures_of(work, {.updates = 3, .bytes = 5}, /*copies=*/2);
  CHECK(figures.at("shard_changes") == 2);
  CHECK(figures.at("merged_share") == 0.5);
}

TEST_CASE("folds and waits are told later than the rest") {
  NodeWork work;
  work.sent_bytes = 1;
  take_folds(work, node_work_of(kMetrics));
  CHECK(work.folded_logs == 5);
  CHECK(work.folded_age_ms == 4000);
  CHECK(work.waits == 3);
  CHECK(work.sent_bytes == 1);
  CHECK(work.frames.empty());
}

TEST_CASE("what there is none of is not told") {
  const Json figures = figures_of({}, {.updates = 1, .bytes = 1}, /*copies=*/0);
  CHECK_FALSE(figures.contains("updates_per_fold"));
  CHECK_FALSE(figures.contains("merged_share"));
  CHECK(figures_of({}, {}, /*copies=*/3).empty());
}

}  // namespace elastripe::bench
