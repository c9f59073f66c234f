// One schedule: a cluster, its clients and its faults, run from one seed to a verdict.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/configuration.h"
#include "tests/sim/history.h"
#include "tests/sim/proxy.h"
#include "tests/sim/scenario.h"

namespace elastripe::sim {

// What a violation is called in reports.
enum class Fault : uint8_t {
  kNone,
  kStale,      // a history that no order explains
  kLost,       // an acknowledged write is gone, or can not be read, after everything has healed
  kTorn,       // bytes that no client wrote
  kParity,     // a shard that does not match the others of its segment
  kVersions,   // cas uniques that went back or do not follow the values
  kLeak,       // shards that nothing refers to are left after reclaim
  kStuck,      // the cluster does not heal, a flow does not end, a whole object can not transition
  kRefused,    // a full node refuses what gives memory back, or what there is room for
  kUndecided,  // the checker gave up
};
inline constexpr size_t kFaults = 10;
const char* name(Fault fault);

struct Totals {
  uint64_t schedules = 0, histories = 0, operations = 0, unknowns = 0, acknowledged_writes = 0;
  uint64_t errors = 0;  // definite ones, and of reads
  uint64_t refused_for_memory = 0;
  uint64_t transitions = 0;          // that changed the state of an object
  uint64_t refused_transitions = 0;  // shards were missing
  uint64_t streams = 0;              // operations whose values went part by part
  uint64_t cut_uploads = 0, cut_reads = 0;
  uint64_t lost_keys = 0;  // that the operator was told of, and accepted
  // Schedules in which partitions had too few homes, as nodes had no room.
  uint64_t short_of_room = 0;
  uint64_t node_kills = 0, node_stalls = 0, link_cuts = 0, proxy_kills = 0, proxy_pauses = 0;
  uint64_t node_sticks = 0, bit_flips = 0, burials = 0, joiners = 0, strays = 0;
  uint64_t clock_steps = 0, forced = 0, restarts = 0;
  // Schedules that ended with LOST partitions after more than m crashes and timeouts together.
  uint64_t beyond_promise = 0;
  uint64_t epochs = 0, frames = 0, dropped = 0, duplicated = 0, late = 0, events = 0;
  OpsCounters ops;
  void add(const Totals& other);
};

struct RunResult {
  Fault fault = Fault::kNone;
  std::string what;
  Totals totals;
  std::vector<std::string> trace;
  bool ok() const { return fault == Fault::kNone; }
};

class World {
 public:
  World(const Scenario& scenario, uint64_t seed, bool traced);
  ~World();

  RunResult run();

 private:
  struct Pending;

  // Phases.
  void form();
  void work();
  void heal();
  void fill_nodes();
  bool kill_one_of_full_nodes();
  void delete_everything();
  void accept_loss();
  bool accepts_doubt();
  bool lacks_too_many(int key, SimProxy& proxy);
  void transition_everything();
  void reclaim();
  void write_on();
  void find_old_orphans(Duration limit);
  void check_memory();
  void kill_to_the_limit();
  void check_histories();
  void shut_down();

  // The cluster.
  SimProxy* add_proxy();
  SimProxy* decider();  // the newest; null if it is dead
  static bool is_deciding(SimProxy& proxy);
  void follow_maps();
  bool node_is_up(node::NodeId id) { return network_.node(id).is_up(); }
  void tick_nodes();
  void start_new_decider();
  void change_configuration();
  void restart_proxies();
  void keep_a_decider();
  const PoolTable& pools() const { return configurations_.back()->pools; }
  std::vector<node::NodeId> choose_doomed();
  bool is_settled();
  bool is_settled_without(node::NodeId id);
  std::string why_unsettled();
  void unsettled(const char* what);
  template <class Condition>
  bool run_until(Duration limit, Condition condition);
  void violation(Fault fault, std::string what);

  // Clients.
  std::string key_name(int key) const;
  void start_clients(int operations);
  Task<void> client(int id, int operations, uint64_t seed);
  size_t begin(Operation op, SimProxy& proxy);
  void give_up(Pending& pending);
  Task<void> perform(size_t index, SimProxy* proxy);
  Operation choose_operation(SimRandom& random, int client, SimProxy& proxy);
  void choose_stream(Operation& op, SimRandom& random);
  SimProxy* choose_proxy(SimRandom& random);

  // Failures.
  void count_failures();
  void note_installed(const node::ClusterMap& map);
  void check_losses(const node::ClusterMap& map);
  bool is_complete(const ClusterStatus& status);
  void note_spare_homes(SimProxy& source);
  size_t tolerated() const;
  size_t count_domains(const std::set<node::NodeId>& nodes) const;
  bool is_tolerated(node::NodeId id) const;
  bool may_fail(node::NodeId id) const;
  void note_failure(node::NodeId id);
  bool is_beyond_promise() const;
  bool may_lack_shards(const std::string& key, bool arrives) const;
  bool has_majority(const std::set<node::NodeId>& known_dead);
  std::set<node::NodeId> silent_nodes();
  bool can_spare(node::NodeId id, bool silently);
  void bury_one();
  void take_over();

  // Wall clocks.
  Duration choose_step();
  void step_a_clock();
  void step_clock(SimProxy& proxy, Duration step);
  void set_clocks_right();
  uint64_t latest_ms(const Pending& pending, SimProxy& proxy) const;

  // Faults.
  void plan_faults();
  void kill_a_node();
  void kill_many();
  void kill_node(SimNode& victim);
  void put_stray(SimNode& at);
  void fault_after_commit(int proxy, node::NodeId head);
  void fault_after_answer(const Operation& op);
  void stall_a_node();
  void stick_a_node();
  void flip_a_bit();
  void cut_a_link();
  void cut(SimProxy& proxy, node::NodeId id, Duration how_long);
  void kill_a_proxy();
  void kill_proxy(SimProxy& proxy);
  void pause_a_proxy();
  void pause_proxy(SimProxy& paused);
  SimProxy* victim_proxy();
  uint32_t newest_epoch();

  // Looking, when all is quiet.
  void audit(const char* when);
  Operation ask(Operation op, SimProxy& proxy);
  Operation ask(Verb verb, int key, SimProxy& proxy, std::string value = {});
  Result<ObjectReport> inspect(int key, SimProxy& proxy);
  std::string why_unreadable(int key, SimProxy& proxy);
  void transition(int key, int to, SimProxy& proxy);
  void scrub(int key, SimProxy& proxy, const char* when);
  void note_reshapes(const node::Record& record);
  void check_missing(const std::string& key, const node::Record& record, size_t segment,
                     const std::vector<uint8_t>& missing);
  uint64_t whole_in_epoch(const node::Record& record, const node::Segment& segment) const;
  bool is_accounted_for(const std::string& key, uint64_t epoch, NodeId holder) const;
  std::string what_is_kept();
  std::set<int> find_lost_keys(SimProxy& proxy);
  bool may_be_revived(int key) const;
  void check_refusals(int key, SimProxy& proxy);
  Task<void> look_for_leaks();

  const Scenario scenario_;
  EventQueue events_;
  Trace trace_;
  SimRandom random_;
  VirtualClock clock_;  // of clients, never paused
  Network network_;
  std::vector<std::unique_ptr<Configuration>> configurations_;  // proxies start with the last one
  std::vector<std::unique_ptr<SimProxy>> proxies_;
  int decider_ = -1;  // index of the newest decider
  bool decider_wanted_ = false;
  Scope flows_;

  History history_;
  std::map<size_t, std::unique_ptr<Pending>> pending_;
  uint64_t order_ = 0;  // of all invocations and returns
  // What each client read last of each key: cas unique and value, for its next cas.
  std::map<std::pair<int, std::string>, std::pair<uint64_t, std::string>> last_read_;
  std::map<std::string, int> last_to_;  // by key: of its last transition
  int clients_left_ = 0;
  TimePoint stop_at_ = TimePoint::max();  // clients begin nothing more
  bool calm_ = false;
  std::vector<node::NodeId> doomed_;  // nodes whose memory may be lost: at most m distinct ones
  std::set<node::NodeId> killed_;     // ever
  std::set<node::NodeId> failed_;     // killed or excluded since the last complete sync
  uint32_t failed_in_epoch_ = 0;
  std::map<uint64_t, node::ClusterMap> installed_;  // by hash
  bool gave_up_silent_ = false;                     // so the operator said
  size_t spare_homes_ = SIZE_MAX;         // beside one, of any partition, at the last complete sync
  std::set<node::NodeId> buried_;         // died for good
  std::set<std::string> flipped_;         // keys with a damaged copy, maybe
  std::set<std::string> lost_by_damage_;  // maybe
  std::string scheme_;                    // of the default pool, in the newest configuration
  std::map<int, std::set<node::NodeId>> vouched_dead_;  // so the decider of that proxy was told
  std::set<node::NodeId> suspected_;                    // ever
  uint32_t newest_epoch_ = 0;                           // that was noticed
  std::map<node::NodeId, uint64_t> last_kill_;          // and the newest epoch served until then
  std::map<node::Id128, uint64_t> reshaped_in_;  // parity_txid -> epoch of its transition's commit
  std::map<uint64_t, size_t> up_in_epoch_;       // nodes, of the epochs that were noticed
  node::MapPtr followed_;                        // the newest map that a decider served
  std::vector<uint32_t> scheduled_epochs_;       // by proxy: the newest map on its way
  std::vector<uint32_t> heard_epochs_;
  bool accepted_loss_ = false;
  bool had_too_little_room_ = false;
  bool over_ = false;  // nothing more can be asked of this schedule
  bool leaks_checked_ = false;
  std::string leak_;  // the last one found
  RunResult result_;
};

}  // namespace elastripe::sim
