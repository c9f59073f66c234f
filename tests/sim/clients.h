// The clients of a schedule: what they ask, what they are told, and the history of it all. They
// think, ask any proxy that is alive, and give up what is not answered in time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "proxy/async/one_shot.h"
#include "tests/sim/promise.h"

namespace elastripe::sim {

inline constexpr int kAuditor = -1;  // the client that asks when all is quiet

class Clients {
 public:
  Clients(Run& run, Cluster& cluster, Promise& promise)
      : run_(run), cluster_(cluster), promise_(promise) {}

  // All of the scenario's clients, with so many operations each.
  void start(int operations);
  void stop_at(TimePoint when) { stop_at_ = when; }  // they begin nothing more
  bool are_done() const { return clients_left_ == 0; }
  // Everything that still waits for an answer does so no more.
  void give_up_all();

  // The auditor asks and waits. Its operations are part of the history.
  Operation ask(Operation op, SimProxy& proxy);
  Operation ask(Verb verb, int key, SimProxy& proxy, std::string value = {});
  // A write of the operator: the key is gone, from now on or at any time since, or never. Returns
  // its index.
  size_t begin_loss(int key, SimProxy& proxy);
  void end_loss(size_t index);  // it is done

  // Called at the instant at which a client hears that its operation is done.
  void watch_answers(std::function<void(const Operation&)> watch) {
    answer_watch_ = std::move(watch);
  }
  // The proxy's wall clock steps: whatever it is just doing may be judged by either time.
  void step_clock(SimProxy& proxy, Duration step);

  const History& history() const { return history_; }
  bool is_being_written(const std::string& key) const;
  std::string key_name(int key) const;
  std::string new_value(size_t bytes) const;  // unlike any other; at least its identity

 private:
  // An operation in flight: over when it is answered, or when its client has given it up.
  struct Pending {
    OneShot<bool> over;
    bool is_over = false;
    uint64_t latest_ms = 0;  // of its proxy's wall clock, before that stepped
  };

  Task<void> client(int id, int operations, uint64_t seed);
  Operation choose_operation(SimRandom& random, int client, SimProxy& proxy);
  void choose_update(Operation& op, SimRandom& random);
  void choose_value(Operation& op, SimRandom& random, SimProxy& proxy);
  void choose_stream(Operation& op, SimRandom& random);
  size_t begin(Operation op, SimProxy& proxy);
  Task<void> perform(size_t index, SimProxy* proxy);
  void check_loss(const Operation& op, TimePoint began);
  void check_progress(const Operation& op);
  static void give_up(Pending& pending);
  uint64_t latest_ms(const Pending& pending, SimProxy& proxy) const;

  Run& run_;
  Cluster& cluster_;
  Promise& promise_;
  History history_;
  std::map<size_t, std::unique_ptr<Pending>> pending_;  // by index
  uint64_t order_ = 0;                                  // of all invocations and returns
  // What each client read last of each key: cas unique and value, for its next cas.
  std::map<std::pair<int, std::string>, std::pair<uint64_t, std::string>> last_read_;
  std::map<std::string, int> last_to_;  // by key: of its last transition
  int clients_left_ = 0;
  TimePoint stop_at_ = TimePoint::max();
  std::function<void(const Operation&)> answer_watch_;
};

}  // namespace elastripe::sim
