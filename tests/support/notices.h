// One notice of each kind that proxies leave for each other, with all that it may tell.
#pragma once

#include <chrono>
#include <vector>

#include "proxy/ops/decider/proxy_notices.h"

namespace elastripe::decider {

inline jobs::ClusterJob cancelled_job() {
  return {.id = 3,
          .token = 8,
          .kind = "repair",
          .order = "{}",
          .term = 4,
          .version = 5,
          .runs = 6,
          .state = jobs::JobState::kCancelled,
          .cancelling = true,
          .report = "{}"};
}

inline std::vector<ProxyNotice> notices_of_all_kinds() {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  MemberChange change;
  change.kind = MemberChange::Kind::kDrain;
  change.node.name = "n1";
  change.node.host = "h";
  change.node.port = 7;
  change.node.domain = "d";
  SettingsChange settings{.of_version = 4, .max_parities = 2, .settings = {}};
  settings.settings = {.version = 5,
                       .heartbeat_ms = 1,
                       .suspect_after_ms = 2,
                       .lease_ms = 3,
                       .longest_lease_ms = 4,
                       .refused_is_dead = true,
                       .text = "pools: []"};
  ProxyCard card;
  card.name = "a";
  card.clients = "b:1";
  card.admin = "c:2";
  card.version = "1.2";
  card.decides_as = 9;
  card.leaves = true;
  card.capabilities = node::own_capabilities();
  card.findings.objects_surviving = {1, 2};
  card.findings.can_accept_loss = true;
  card.findings.maintenance = "{}";
  card.runs_jobs = true;
  const jobs::ClusterJob job = cancelled_job();
  card.handover.rooms = {{.node = 1,
                          .incarnation = 79,
                          .room = Room::kNone,
                          .wait = seconds(20),
                          .try_in = milliseconds(7)},
                         {.node = 2,
                          .incarnation = 80,
                          .room = Room::kForMore,
                          .wait = seconds(10),
                          .try_in = milliseconds(0)}};
  card.handover.surveyed_in = 12;
  card.handover.scrub_due_in = seconds(90);
  card.unix_ms = 1'800'000'000'123;
  card.handover.forgets_in = {.number = 12, .decider = 9, .map_hash = 1};
  return {card,
          TaskRequest{7, 8, FlushAll{5}},
          TaskRequest{7, 8, AcceptLoss{}},
          TaskRequest{7, 8, DeclareDead{"n2"}},
          TaskRequest{7, 8, change},
          TaskRequest{7, 8, settings},
          TaskRequest{7, 8, StartJob{6, "transition", "{}"}},
          TaskRequest{7, 8, CancelJob{3, "repair"}},
          job,
          TaskReply{4, TaskOutcome{.job = job}},
          TaskReply{4, {}},
          TaskReply{4, TaskOutcome{.loss = {1, 2, 3}}},
          TaskReply{4, DeciderAnswer(fail(ErrorCode::kNotFound, "no node"))}};
}

}  // namespace elastripe::decider
