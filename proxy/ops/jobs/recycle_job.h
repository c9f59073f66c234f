// A job that folds update logs now, however young they are: what was updated before it began is in
// shards when it ends. In pools that update shards in place it has the parities get what their
// nodes keep for them; nobody tells which objects that concerns, so all of these are done.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "proxy/ops/jobs/job.h"

namespace elastripe::jobs {

struct RecycleJobSpec {
  // Its rate is of what the updates in the logs put on the network when they are folded: an
  // estimate, as segments that have to be written again as a whole cost more.
  JobSpec job = {};
};

class RecycleJob final : public Job {
 public:
  RecycleJob(OpsContext& ops, RecycleJobSpec spec);

 private:
  // Asks the tail that a page is of for its logs.
  Task<Result<void>> look_at(MapPtr map, const node::RecordScanReply& page) override;
  Task<void> look_at_one(MapPtr map, std::string key, RecordPtr record) override;
  Result<ObjectNeed> need_of(const MetObject& object) override;
  Task<Result<ObjectOutcome>> flow(JobObject& object) override;
  bool is_drained(std::string_view key);
  // What the log of the object had: whether that was anything.
  Task<Result<bool>> fold(std::string key);
  struct Drained {};
  // Nothing: the object has other shards by now.
  Task<Result<std::optional<Drained>>> try_drain(MapPtr map, std::string key, TimePoint deadline);

  const bool is_of_one_;
  // By tail, as it told last: bytes of its logs by key.
  std::map<NodeId, std::unordered_map<std::string, uint64_t>> logs_;
};

}  // namespace elastripe::jobs
