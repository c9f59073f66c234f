// Notices that proxies leave for each other at the nodes (proxy/ops/decider/proxy_notices.h), of
// whatever build. What is read of one must be written so that another build reads the same, and,
// cut off anywhere or with more behind it, must not be more than that.
#include "proxy/base/check.h"
#include "proxy/ops/decider/proxy_notices.h"
#include "tests/fuzz/fuzzer.h"

using namespace elastripe;
using namespace elastripe::decider;
using namespace std::chrono_literals;

bool fuzz::accepts(std::string_view input) {
  const auto notice = decode_notice(input);
  if (!notice) return false;
  const std::string text = encode(*notice);
  const auto again = decode_notice(text);
  CHECK(again.has_value());
  CHECK(again->index() == notice->index());
  CHECK(encode(*again) == text);
  // As a later build may write it.
  const auto later = decode_notice(std::string(input) + "more");
  CHECK(!later || later->index() == notice->index());
  return true;
}

std::vector<std::string> fuzz::seeds() {
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
  card.handover.rooms = {
      {.node = 1, .incarnation = 79, .room = Room::kNone, .wait = 20s, .try_in = 7ms},
      {.node = 2, .incarnation = 80, .room = Room::kForMore, .wait = 10s, .try_in = 0ms}};
  card.handover.surveyed_in = 12;
  MemberChange change;
  change.kind = MemberChange::Kind::kDrain;
  change.node.name = "n1";
  change.node.host = "h";
  change.node.port = 7;
  change.node.domain = "d";
  SettingsChange settings{.of_version = 4, .max_parities = 2, .settings = {}};
  settings.settings.text = "pools: []";
  const jobs::ClusterJob job{.id = 3,
                             .token = 8,
                             .kind = "repair",
                             .order = "{}",
                             .term = 4,
                             .version = 5,
                             .runs = 6,
                             .state = jobs::JobState::kCancelled,
                             .cancelling = true,
                             .report = "{}"};
  const std::vector<ProxyNotice> notices = {
      card,
      TaskRequest{7, 8, FlushAll{5}},
      TaskRequest{7, 8, AcceptLoss{}},
      TaskRequest{7, 8, DeclareDead{"n2"}},
      TaskRequest{7, 8, change},
      TaskRequest{7, 8, settings},
      TaskRequest{7, 8, StartJob{6, "transition", "{}"}},
      TaskRequest{7, 8, CancelJob{3}},
      job,
      TaskReply{4, {}},
      TaskReply{4, TaskOutcome{.loss = {1, 2, 3}}},
      TaskReply{4, TaskOutcome{.job = job}},
      TaskReply{4, DeciderAnswer(fail(ErrorCode::kNotFound, "no node"))}};
  std::vector<std::string> all;
  for (const ProxyNotice& notice : notices) all.push_back(encode(notice));
  return all;
}
