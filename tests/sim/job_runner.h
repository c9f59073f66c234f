// What runs jobs in a simulated proxy, as the maintenance thread does in a real one: one at a time,
// and the book hears how far each is. The work is time that passes, in steps.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "proxy/async/scope.h"
#include "proxy/async/semaphore.h"
#include "proxy/ops/decider/job_keeper.h"

namespace elastripe::sim {

// What a simulated job is to do, as the text of its order.
struct JobOrder {
  uint32_t steps = 1;
  uint32_t step_ms = 100;
  bool fails = false;  // at its last step

  std::string to_text() const;
};
inline constexpr const char* kSenselessOrder = "nonsense";  // no runner takes it
inline constexpr const char* kFailsByOrder = "it was to fail";

class SimJobRunner {
 public:
  // Flows end when the clock is cancelled, as that of a process that dies, and tell nothing of it.
  SimJobRunner(Clock& clock, jobs::JobBook& book, Scope& flows)
      : clock_(clock), book_(book), flows_(flows) {}

  decider::JobRunner interface();
  // Whether it came to its end here.
  bool has_ended(const jobs::ClusterJob& job) const { return ended_.contains({job.id, job.token}); }

 private:
  struct Running {
    jobs::ClusterJob job;
    JobOrder order;
    uint32_t done = 0;  // steps
    bool is_cancelled = false;
  };
  Result<void> begin(const jobs::ClusterJob& job);
  void cancel(uint64_t id);
  Task<void> run(uint64_t id, uint32_t term);
  Running* find(uint64_t id, uint32_t term);
  void tell(const Running& running, jobs::JobState state, std::string reason = {});

  Clock& clock_;
  jobs::JobBook& book_;
  Scope& flows_;
  Semaphore places_{1};
  std::map<uint64_t, Running> running_;            // or about to
  std::set<std::pair<uint64_t, uint64_t>> ended_;  // ids and tokens
};

}  // namespace elastripe::sim
