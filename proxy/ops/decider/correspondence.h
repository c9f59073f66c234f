// Correspondence: what this proxy and the others tell each other, by notices at the nodes. So no
// proxy has to know or to reach another one, and what nodes and proxies prove to each other is
// enough.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proxy/async/one_shot.h"
#include "proxy/async/scope.h"
#include "proxy/ops/context.h"
#include "proxy/ops/decider/proxy_notices.h"
#include "proxy/ops/jobs/work_share.h"

namespace elastripe::decider {

// All meet at the same few nodes, the first ones that the map has as up, and at more of them than
// may crash; a node that does not answer is not waited for. While nothing is served more may have
// crashed: then they meet at the first ones that answer. On one thread, that of `ops`. Outlives
// its run().
class Correspondence {
 public:
  static constexpr size_t kMeetingNodes = 3;  // at least
  static constexpr Duration kCardPeriod = std::chrono::seconds(1);
  static constexpr Duration kCardLife = std::chrono::seconds(5);
  static constexpr Duration kReplyLife = std::chrono::seconds(10);
  static constexpr size_t kMostAtOnce = 256;  // notices

  using Describe = std::function<ProxyCard()>;
  using DecidesAs = std::function<uint32_t()>;  // that of the card
  // Does what this proxy was asked for, as it decides.
  using Perform = std::function<Task<DeciderAnswer>(DeciderTask task, TimePoint deadline)>;

  // `self` is unique among proxies, and not 0. Whoever decides looks for what it is asked every
  // `period`, and so does who waits for an answer.
  // While this proxy decides it tells of all jobs in the book; what others tell goes into it.
  Correspondence(OpsContext& ops, uint64_t self, Duration period, jobs::JobBook& jobs,
                 Describe describe, DecidesAs decides_as, Perform perform);

  // Until cancelled.
  Task<void> run();
  // The card has news that do not wait for its turn.
  void tell_at_once();
  // Those of which was heard lately, itself first.
  std::vector<KnownProxy> proxies() const;
  // What all other proxies can do that have told of themselves; none before each has had the time
  // to, and none while this proxy does not hear.
  node::CapabilitySet others_have() const;
  // What their wall clocks show now, in unix ms: of those that were heard lately, or else the
  // earliest one of those that are gone since a while. Nothing: not all had the time to tell, as
  // for others_have().
  std::optional<std::vector<int64_t>> clocks() const;
  // This proxy's part of what any of them may do, among those that do not shut down.
  jobs::WorkShare work_share() const;
  // What the one tells that makes the maps of this decider; null: it was not heard of.
  const ProxyCard* find_decider(uint32_t decider) const;
  // The decider whose map is served; while nothing is, who says that it decides, and has done so
  // lately. 0: nobody.
  uint32_t whom_to_ask() const;
  // Does it, if this proxy decides, or has the one do it whose maps it follows; while another one
  // takes over that is nobody, and it waits. kUnavailable: nobody has done it; kUnknownOutcome:
  // that one has not answered; all else is the decider's answer.
  Task<DeciderAnswer> do_task(DeciderTask task, TimePoint deadline);
  // For who begins to decide: reads at all nodes what others have left before `since`, as they may
  // have met elsewhere. Returns whether it is known; ask until it is. A node that does not answer
  // is waited for until the map leaves it out.
  bool hear_all(TimePoint since);
  // Since when others can learn of the job as it is now, should this proxy end, and nodes with it:
  // all have it where proxies meet, and had a map of this decider then. Nothing: they can not yet.
  // Whoever decides next hears all nodes once its own map is everywhere.
  std::optional<TimePoint> told_at(const jobs::ClusterJob& job) const;
  // Has the proxy that decides as `decider` do it. Nothing: it was not done, as that one is not
  // known, or does not decide any more. kUnknownOutcome: it has not answered.
  Task<std::optional<DeciderAnswer>> ask(uint32_t decider, DeciderTask task, TimePoint deadline);

 private:
  struct Sent {
    uint64_t to = 0;
    uint64_t number = 0;
    TimePoint until;
    std::string text;
    std::set<std::pair<NodeId, uint64_t>> at = {};  // processes that have it
    // Those of them that had a map of this decider then, and since when they have it.
    std::map<std::pair<NodeId, uint64_t>, TimePoint> told = {};
    TimePoint since = {};
    uint64_t version = 0;  // of what has the same number again and again
    bool is_cancelling = false;
    uint64_t answers = 0;       // the number of the request by `to`; 0: it is no reply
    bool is_withdrawn = false;  // what was left is of no use any more: the nodes are told so
  };
  struct Place {  // where a node was read up to
    uint64_t incarnation = 0;
    uint64_t last = 0;
    bool is_busy = false;
    size_t most = kMostAtOnce;  // that are left in one frame: fewer while there is no room
    TimePoint read_at = TimePoint::min();  // all that it had then is known
    TimePoint asked_at = {};
  };
  struct Heard {
    ProxyCard card;
    TimePoint at;
  };
  bool has_heard_all() const;
  struct WallClock {
    int64_t unix_ms = 0;
    TimePoint at;  // when it showed that
  };
  struct Waiting {
    uint32_t decider = 0;
    TimePoint deadline;
    OneShot<std::optional<DeciderAnswer>>* answer = nullptr;
  };

  void turn();
  void renew_card();
  void tell_jobs();
  void forget_jobs();
  std::vector<NodeId> meeting_nodes(const node::ClusterMap& map) const;
  std::vector<NodeId> nodes_instead(const node::ClusterMap& map,
                                    const std::vector<NodeId>& meeting) const;
  bool is_answering(NodeId at) const;
  bool is_unheard(NodeId at) const;
  void send(uint64_t to, TimePoint until, const ProxyNotice& notice, uint64_t answers = 0);
  void withdraw(Sent& sent);
  void withdraw_reply(uint64_t to, uint64_t answers);
  void forget_withdrawn(const node::ClusterMap& map);
  std::vector<const Sent*> news_for(NodeId at, const Place& place) const;
  void forget(TimePoint now);
  void meet();
  MapPtr known_map() const;
  // `tells`: it also leaves there what this proxy has to say.
  Task<void> exchange(MapPtr map, NodeId at, bool tells);
  void read(const node::Notice& notice);
  Task<void> perform(uint64_t from, uint64_t number, TaskRequest request);

  OpsContext& ops_;
  const uint64_t self_;
  const Duration period_;
  jobs::JobBook& jobs_;
  const Describe describe_;
  const DecidesAs decides_as_;
  const Perform perform_;
  Scope scope_;
  bool over_ = false;
  TimePoint begun_;
  uint64_t last_number_ = 0;
  TimePoint card_at_;
  uint64_t card_version_ = 0;
  std::vector<Sent> sent_;  // the card is number 0
  std::map<NodeId, Place> places_;
  std::map<uint64_t, Heard> heard_;                               // by sender
  std::map<uint64_t, WallClock> clocks_;                          // likewise
  std::map<std::pair<uint64_t, uint64_t>, TimePoint> performed_;  // by sender and number
  std::map<uint64_t, Waiting> waiting_;                           // by number
  std::map<uint64_t, TimePoint> job_heard_;                       // by its id
  uint32_t heeded_ = 0;  // the decider whose card was seen in every turn
  TimePoint heeded_since_;
  TimePoint hear_since_ = TimePoint::min();  // all nodes shall be read since then
};

}  // namespace elastripe::decider
