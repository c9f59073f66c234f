#include "tests/sim/operator.h"

#include <algorithm>
#include <map>

using namespace elastripe::decider;
using namespace elastripe::jobs;

namespace elastripe::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr double kSenseless = 0.05;  // of orders that begin jobs
constexpr double kFailing = 0.15;
constexpr double kRebalances = 0.3;
constexpr double kCancelling = 0.3;  // of all orders
constexpr Duration kOrderLimit = kRequestTimeout + seconds(1);
constexpr uint64_t kMostSteps = 8;
constexpr uint64_t kLongestStep_ms = 300;
// Longer than notices live, after which a proxy may forget what nobody tells of.
constexpr Duration kRestLimit = seconds(150);

std::string describe(const ClusterJob& job) {
  static constexpr const char* kStates[] = {"running", "done", "cancelled", "failed"};
  return fmt::format("{} {} ({}{}, term {}, {} runs: {})", job.kind, job.id,
                     kStates[static_cast<size_t>(job.state)],
                     job.is_running() && job.cancelling ? ", cancelling" : "", job.term, job.runs,
                     job.report);
}

const ClusterJob* find(const std::vector<ClusterJob>& book, uint64_t id) {
  const auto found = std::ranges::find(book, id, &ClusterJob::id);
  return found == book.end() ? nullptr : &*found;
}

// Later ones have taken its place.
bool is_pushed_out(const std::vector<ClusterJob>& book, uint64_t id) {
  return book.size() == JobBook::kRemembered && book.front().id > id;
}

}  // namespace

void Operator::start() {
  orders_left_ = run_.scenario.workload.jobs;
  if (orders_left_ > 0) run_.flows.spawn(give_orders(run_.random.next()));
}

Task<void> Operator::give_orders(uint64_t seed) {
  SimRandom random(seed);
  const Duration pause_max = 2 * run_.scenario.faults.until / run_.scenario.workload.jobs;
  for (; orders_left_ > 0; --orders_left_) {
    if (!co_await run_.clock.sleep_for(random.between(Duration::zero(), pause_max))) break;
    SimProxy* const proxy = cluster_.choose_proxy(random);
    if (proxy == nullptr) continue;
    if (random.chance(kCancelling)) {
      cancel_job(random, *proxy);
    } else {
      begin_job(random, *proxy, !random.chance(kSenseless));
    }
  }
  orders_left_ = 0;
}

size_t Operator::begin_job(SimRandom& random, SimProxy& proxy, bool makes_sense) {
  const bool fails = random.chance(kFailing);
  const JobOrder order{.steps = static_cast<uint32_t>(1 + random.below(kMostSteps)),
                       .step_ms = static_cast<uint32_t>(1 + random.below(kLongestStep_ms)),
                       .fails = fails};
  const uint64_t token = random.next();
  return ask({.asked_at = {}, .token = token, .fails = fails},
             StartJob{.token = token,
                      .kind = random.chance(kRebalances) ? "rebalance" : "transition",
                      .order = makes_sense ? order.to_text() : kSenselessOrder},
             proxy);
}

// One that the proxy shows, most likely the last one.
void Operator::cancel_job(SimRandom& random, SimProxy& proxy) {
  const auto shown = proxy.jobs().all();
  if (shown.empty()) return;
  const size_t index = random.chance(0.8) ? shown.size() - 1 : random.below(shown.size());
  const uint64_t id = shown[index].id;
  ask({.asked_at = {}, .cancelled = id}, CancelJob{id}, proxy);
}

size_t Operator::ask(Order order, DeciderTask task, SimProxy& proxy) {
  const size_t index = orders_.size();
  if (const auto* start = std::get_if<StartJob>(&task)) {
    run_.trace.add("order {} asks proxy {}: begin {}, {}", index, proxy.id(), start->kind,
                   start->order);
  } else {
    run_.trace.add("order {} asks proxy {}: cancel {}", index, proxy.id(), order.cancelled);
  }
  ++run_.totals.job_orders;
  order.asked_at = run_.events.now();
  orders_.push_back(std::move(order));
  proxy.do_task(std::move(task),
                [this, index](const DeciderAnswer& answer) { hear(index, answer); });
  return index;
}

void Operator::hear(size_t index, const DeciderAnswer& answer) {
  Order& order = orders_[index];
  if (!answer) {
    run_.trace.add("order {} ends: {}", index, answer.error().message);
    order.refused = answer.error();
    return;
  }
  order.told = answer->job;
  run_.trace.add("order {} ends: {}", index, describe(*order.told));
  ++(order.cancelled == 0 ? run_.totals.jobs_begun : run_.totals.jobs_cancelled);
}

// A proxy that has died answers no more.
bool Operator::is_open(const Order& order) const {
  const bool is_answered = order.told || order.refused;
  return !is_answered && order.asked_at + kOrderLimit > run_.events.now();
}

// Every proxy that lives knows the same of all jobs, and none runs.
std::string Operator::why_unrest(Fault& fault) {
  fault = Fault::kStuck;
  if (!cluster_.is_settled()) return cluster_.why_unsettled();
  const auto is_open = [this](const Order& order) { return this->is_open(order); };
  if (!is_done() || std::ranges::any_of(orders_, is_open)) return "an order is not answered";
  const auto book = cluster_.decider()->jobs().all();
  for (const ClusterJob& job : book) {
    if (job.is_running()) return fmt::format("{} does not end", describe(job));
  }
  for (const auto& proxy : cluster_.proxies()) {
    if (!proxy->is_alive()) continue;
    const auto own = proxy->jobs().all();
    for (const ClusterJob& job : own) {
      if (const ClusterJob* decided = find(book, job.id); decided != nullptr && *decided == job) {
        continue;
      }
      if (job.is_running()) {
        return fmt::format("proxy {} shows {}, for good", proxy->id(), describe(job));
      }
      fault = Fault::kJobs;
      return fmt::format("proxy {} shows {}, and not as the one that decides", proxy->id(),
                         describe(job));
    }
    for (const ClusterJob& job : book) {
      if (find(own, job.id) != nullptr || is_pushed_out(own, job.id)) continue;
      fault = Fault::kJobs;
      return fmt::format("proxy {} does not show {}", proxy->id(), describe(job));
    }
  }
  return {};
}

bool Operator::come_to_rest() {
  Fault fault = Fault::kNone;
  if (run_.until(kRestLimit, [&] { return why_unrest(fault).empty(); }, 64)) return true;
  const std::string why = why_unrest(fault);
  run_.violation(fault, why);
  return false;
}

bool Operator::has_ended(const ClusterJob& job) const {
  return std::ranges::any_of(cluster_.proxies(),
                             [&](const auto& proxy) { return proxy->has_ended(job); });
}

// Why it can not have ended so, or empty.
std::string Operator::why_wrong_end(const ClusterJob& job) const {
  const auto begun = std::ranges::find(orders_, job.token, &Order::token);
  if (begun == orders_.end()) return "nobody has asked for it";
  const bool is_overtaken = job.report.find("another job came after it") != std::string::npos;
  const bool was_cancelled =
      std::ranges::any_of(orders_, [&](const Order& order) { return order.cancelled == job.id; });
  switch (job.state) {
    case JobState::kRunning:
      return "it runs";
    case JobState::kDone:
      return begun->fails ? "it was to fail" : "";
    case JobState::kCancelled:
      return was_cancelled ? "" : "nobody has cancelled it";
    case JobState::kFailed:
      if (job.report.find(kFailsByOrder) != std::string::npos) {
        return begun->fails ? "" : "it was not to fail";
      }
      if (!is_overtaken) return "for no reason";
      // Another one is begun only when it has ended; of one that was not answered nobody may know.
      return begun->told && begun->told->is_running() && !has_ended(job) ? "though it never ended"
                                                                         : "";
  }
  return {};
}

void Operator::check_book(const std::vector<ClusterJob>& book) {
  std::map<uint64_t, uint64_t> id_of;
  for (const ClusterJob& job : book) {
    if (const auto [same, is_new] = id_of.emplace(job.token, job.id); !is_new) {
      run_.violation(Fault::kJobs,
                     fmt::format("{} was begun before, as {}", describe(job), same->second));
    }
    if (const std::string why = why_wrong_end(job); !why.empty()) {
      run_.violation(Fault::kJobs, fmt::format("{}: {}", describe(job), why));
    }
    run_.totals.jobs_gone_on += job.runs - 1;
  }
}

void Operator::check_order(const Order& order, const std::vector<ClusterJob>& book) {
  const auto begun = std::ranges::find(book, order.token, &ClusterJob::token);
  if (order.cancelled == 0 && begun != book.end() && order.refused &&
      order.refused->code != ErrorCode::kUnknownOutcome) {
    run_.violation(Fault::kJobs,
                   fmt::format("{} was refused: {}", describe(*begun), order.refused->message));
  }
  if (!order.told) return;
  const ClusterJob& told = *order.told;
  const ClusterJob* const now = find(book, told.id);
  if (now == nullptr && is_pushed_out(book, told.id)) return;
  if (now == nullptr || now->token != told.token) {
    return run_.violation(Fault::kJobs, fmt::format("{} is forgotten", describe(told)));
  }
  if (!told.is_running() && (now->state != told.state || now->report != told.report)) {
    return run_.violation(Fault::kJobs,
                          fmt::format("{} is now {}", describe(told), describe(*now)));
  }
  if (order.cancelled != 0 && now->runs != told.runs) {
    run_.violation(Fault::kJobs, fmt::format("{} was cancelled, and begun again", describe(*now)));
  }
}

void Operator::check() {
  run_.trace.add("-- wait for jobs");
  if (!come_to_rest()) return;
  auto book = cluster_.decider()->jobs().all();
  check_book(book);
  for (const Order& order : orders_) check_order(order, book);
  if (!run_.is_ok()) return;

  run_.trace.add("-- another job");
  SimRandom random(run_.random.next());
  SimProxy* const proxy = cluster_.choose_proxy(random);
  const size_t index = begin_job(random, *proxy, /*makes_sense=*/true);
  run_.until_promptly(kOrderLimit, [&] { return !is_open(orders_[index]); });
  if (!orders_[index].told) {
    const auto& refused = orders_[index].refused;
    return run_.violation(Fault::kStuck, fmt::format("no job can be begun: {}",
                                                     refused ? refused->message : "no answer"));
  }
  if (!come_to_rest()) return;
  book = cluster_.decider()->jobs().all();
  for (const Order& order : orders_) check_order(order, book);
}

}  // namespace elastripe::sim
