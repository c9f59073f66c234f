// What the log tells of the membership and of jobs.
#include <catch2/catch.hpp>

#include "proxy/ops/decider/decider_events.h"
#include "proxy/ops/jobs/job_events.h"

namespace elastripe::decider {
namespace {

using node::ClusterMap;
using node::NodeState;

ClusterMap map_of(uint32_t epoch, std::initializer_list<NodeState> states) {
  ClusterMap map;
  map.epoch.number = epoch;
  for (const NodeState state : states) {
    node::NodeInfo node;
    node.id = static_cast<node::NodeId>(map.nodes.size());
    node.name = "n" + std::to_string(node.id);
    node.incarnation = 100 + node.id;
    node.state = state;
    map.nodes.push_back(std::move(node));
  }
  return map;
}

std::vector<std::string> lines(const ClusterMap* before, const ClusterMap& next) {
  std::vector<std::string> lines;
  for (const NodeChange& change : node_changes(before, next)) {
    lines.push_back(fields_of(change, next, "why not").text());
  }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a map is told by how many nodes are in which state") {
  const ClusterMap map = map_of(42, {NodeState::kUp, NodeState::kLost, NodeState::kUp});
  CHECK(fields_of(map).text() ==
        "event=map epoch=42 nodes=3 up=2 suspect=0 away=0 lost=1 draining=0");
}

TEST_CASE("each node that changes has a line, and no other") {
  const ClusterMap before =
      map_of(1, {NodeState::kUp, NodeState::kUp, NodeState::kLost, NodeState::kSuspect});
  ClusterMap next = map_of(2, {NodeState::kUp, NodeState::kLost, NodeState::kUp, NodeState::kAway});
  CHECK(lines(&before, next) == Lines{"node=n1 from=up to=lost epoch=2 reason=\"why not\"",
                                      "node=n2 from=lost to=up epoch=2 reason=\"why not\"",
                                      "node=n3 from=suspect to=away epoch=2 reason=\"why not\""});
  CHECK(lines(&next, next).empty());
  ClusterMap restarted = next;
  restarted.nodes[0].incarnation = 7;
  CHECK(lines(&next, restarted) == Lines{"node=n0 from=up to=up epoch=2 reason=\"why not\""});
  CHECK(lines(nullptr, before).size() == 4);
  CHECK(lines(nullptr, before)[2] == "node=n2 from=unknown to=lost epoch=1 reason=\"why not\"");
}

TEST_CASE("a job has a line when it starts, and one when it has ended") {
  const auto map = std::make_shared<const ClusterMap>(map_of(42, {}));
  CHECK(jobs::started_line({.kind = "repair"}, map) ==
        "repair: event=started trigger=automatic epoch=42");
  jobs::JobProgress progress;
  progress.state = jobs::JobState::kFailed;
  progress.counts.seen = 9;
  progress.counts.done = 5;
  progress.counts.refused = 1;
  progress.done.shards = 7;
  progress.done.traffic = {.bytes_read = 100, .bytes_sent = 20};
  progress.elapsed = std::chrono::milliseconds(1500);
  progress.reason = "no home";
  CHECK(jobs::ended_line({.kind = "transition", .id = 3, .dry_run = true}, nullptr, progress) ==
        "transition: event=ended trigger=operator id=3 dry_run=true epoch=0 state=failed seen=9 "
        "objects=5 shards=7 bytes=120 refused=1 failed=0 seconds=1.500 reason=\"no home\"");
}

}  // namespace elastripe::decider
