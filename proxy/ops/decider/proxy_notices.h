// What proxies say to each other, in notices that they leave at the nodes (docs/decider.md).
//
// They may be of different builds: a reader ignores what follows the fields that it knows, and
// notices of a kind that it does not know.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proxy/cluster/members.h"
#include "proxy/cluster/membership.h"
#include "proxy/ops/decider/cluster_status.h"
#include "proxy/ops/jobs/job_book.h"

namespace elastripe::decider {

// What only the decider can do.
struct FlushAll {
  uint32_t at = 0;  // unix seconds; 0: at once
};
struct AcceptLoss {};
struct DeclareDead {
  std::string node;
};
struct StartJob {
  uint64_t token = 0;  // random: the same one twice starts one job
  std::string kind;    // "transition"
  std::string order;   // a JSON object
};
struct CancelJob {
  uint64_t id = 0;
  std::string kind = {};  // that it has to be of; empty: of any, as builds of before took it
};
using DeciderTask = std::variant<FlushAll, AcceptLoss, DeclareDead, MemberChange, SettingsChange,
                                 StartJob, CancelJob>;
inline bool is_of_jobs(const DeciderTask& task) {
  return std::holds_alternative<StartJob>(task) || std::holds_alternative<CancelJob>(task);
}
struct TaskOutcome {
  AcceptedLoss loss = {};                    // of AcceptLoss
  std::optional<jobs::ClusterJob> job = {};  // of StartJob and CancelJob
};
using DeciderAnswer = Result<TaskOutcome>;

struct TaskRequest {
  uint32_t decider = 0;  // who is meant: nobody else does it
  uint32_t within_ms = 0;
  DeciderTask task;
};
struct TaskReply {
  uint64_t to_number = 0;               // of the notice that asked
  std::optional<DeciderAnswer> answer;  // nothing: it was not done, as somebody else decides
};
using ProxyNotice = std::variant<ProxyCard, TaskRequest, TaskReply, jobs::ClusterJob>;

std::string encode(const ProxyNotice& notice);
// Nothing: malformed, or of a kind that this build does not know.
std::optional<ProxyNotice> decode_notice(std::string_view text);

}  // namespace elastripe::decider
