// The operator of a schedule, who has jobs begun and cancelled at any proxy, as the admin interface
// does, and holds the proxies to what they have answered (docs/decider.md, "Jobs").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/cluster.h"

namespace elastripe::sim {

class Operator {
 public:
  Operator(Run& run, Cluster& cluster) : run_(run), cluster_(cluster) {}

  // As many orders as the scenario has, at random times while faults happen.
  void start();
  bool is_done() const { return orders_left_ == 0; }

  // When all has healed: every job has come to its end, which all proxies know, nothing that was
  // answered is forgotten or undone, and another one can be begun.
  void check();

 private:
  struct Order {
    TimePoint asked_at;
    uint64_t token = 0;      // of one that begins a job
    uint64_t cancelled = 0;  // of one that cancels it: the job
    bool fails = false;
    std::optional<jobs::ClusterJob> told = {};  // nothing: it was refused, or nobody knows
    std::optional<Error> refused = {};
  };

  Task<void> give_orders(uint64_t seed);
  size_t begin_job(SimRandom& random, SimProxy& proxy, bool makes_sense);
  void cancel_job(SimRandom& random, SimProxy& proxy);
  size_t ask(Order order, decider::DeciderTask task, SimProxy& proxy);
  void hear(size_t index, const decider::DeciderAnswer& answer);

  bool is_open(const Order& order) const;  // its answer may still come
  bool come_to_rest();
  // What keeps it from that, or empty.
  std::string why_unrest(Fault& fault);
  void check_book(const std::vector<jobs::ClusterJob>& book);
  void check_order(const Order& order, const std::vector<jobs::ClusterJob>& book);
  bool has_ended(const jobs::ClusterJob& job) const;
  std::string why_wrong_end(const jobs::ClusterJob& job) const;

  Run& run_;
  Cluster& cluster_;
  int orders_left_ = 0;
  std::vector<Order> orders_;
};

}  // namespace elastripe::sim
