#include "proxy/ops/decider.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <ranges>

#include "proxy/base/hash.h"
#include "proxy/base/log.h"
#include "proxy/cluster/membership.h"
#include "proxy/ops/decider_peer.h"
#include "proxy/ops/reclaim.h"
#include "proxy/ops/sync.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

using node::ClusterMap;
using node::NodeState;
using node::Opcode;
using node::Status;

namespace {

constexpr size_t kHeartbeatsInFlight = 16;  // per node

// Incarnations are random, so this is too; and two proxies that form a cluster out of the same
// processes at the same time agree on it.
uint64_t cluster_id_of(const std::vector<Peer>& peers) {
  std::string incarnations;
  node::Writer writer(incarnations);
  for (const Peer& peer : peers) writer.u64(peer.report.incarnation);
  return hash64(incarnations) | 1;
}

MembershipSettings membership_of(const DeciderSettings& settings, const PoolTable& pools) {
  MembershipSettings membership;
  membership.partitions = settings.partitions;
  membership.max_parities = static_cast<uint8_t>(pools.max_parities());
  for (const ConfiguredNode& node : settings.nodes) {
    node::NodeInfo info;
    info.id = static_cast<NodeId>(membership.nodes.size());
    info.name = node.name;
    info.host = node.host;
    info.port = node.port;
    info.domain = node.domain.empty() ? node.name : node.domain;
    membership.nodes.push_back(std::move(info));
  }
  return membership;
}

}  // namespace

// A state machine: replies change what is known of a peer, and `advance` does what follows from it,
// at once; decisions about the membership are taken at the heartbeat's turns only, so that changes
// that come together make one map.
class Decider::Impl {
 public:
  Impl(OpsContext& ops, DeciderSettings settings)
      : ops_(ops),
        settings_(std::move(settings)),
        membership_(membership_of(settings_, ops.pools)),
        peers_(settings_.nodes.size()),
        decider_id_(static_cast<uint32_t>(ops.random.next() >> 32 | 1)),
        reclaimer_(ops) {}

  Task<void> run();
  ClusterStatus status() const;
  void accept_loss() { accept_loss_ = true; }

 private:
  // Turns.
  void turn();
  void start();
  void decide();
  void adopt(ClusterMap map);
  void send_frames();
  bool is_blocked_by_lease(const MapRequest& request) const;
  bool is_false_loss(const ClusterMap& next) const;
  MapRequest request() const;

  // Between turns.
  void advance();
  bool is_installed() const;
  void begin_grants();
  bool enough_leases() const;
  bool may_grant() const;
  bool peers_quorum() const;
  bool is_member(size_t id) const;
  void check_foreign(const node::Epoch& epoch);
  void yield_to(const node::Epoch& epoch);
  void wait_because(std::string reason);

  // Calls; each is a flow of scope_.
  Task<void> hello(size_t id);
  Task<void> install(size_t id, MapPtr map);
  Task<void> heartbeat(size_t id, MapPtr map, bool grant);
  void heard(size_t id, TimePoint sent, const Result<NodeReply>& reply);
  void send_heartbeat(size_t id);

  // Work that follows from maps.
  bool is_synced(uint32_t partition) const;
  bool all_synced() const;
  void start_work();
  Task<void> run_sync(MapPtr map);
  Task<void> run_reclaim(MapPtr map, std::vector<bool> synced);

  TimePoint now() const { return ops_.clock.now(); }

  OpsContext& ops_;
  const DeciderSettings settings_;
  const MembershipSettings membership_;
  std::vector<Peer> peers_;  // by node id
  const uint32_t decider_id_;
  Scope scope_;

  bool over_ = false;  // shut down or deposed
  bool deposed_ = false;
  std::string reason_;  // why it waits; empty if it does not
  TimePoint last_turn_;
  TimePoint start_after_;      // after losing a race with another starting decider
  uint32_t above_number_ = 0;  // of any map seen
  bool accept_loss_ = false;

  // The newest map that this decider made; null until it has made one.
  MapPtr map_;
  std::shared_ptr<const std::string> encoded_map_;
  bool installed_ = false;  // on every survivor
  bool granting_ = false;   // leases under map_
  bool serving_ = false;
  bool ever_served_ = false;
  TimePoint grants_began_;
  std::optional<TimePoint> took_over_;  // when all survivors first had a map of this decider

  bool sync_running_ = false;
  bool sync_stop_ = false;
  node::Epoch sync_done_;
  TimePoint sync_after_;
  TimePoint sync_ended_;
  bool reclaim_running_ = false;
  TimePoint reclaim_after_;
  Reclaimer reclaimer_;
};

Task<void> Decider::Impl::run() {
  last_turn_ = now();
  while (!over_) {
    turn();
    if (over_) break;
    if (!co_await ops_.clock.sleep_until(last_turn_ + settings_.heartbeat)) break;
  }
  over_ = true;
  sync_stop_ = true;
  if (!deposed_) ops_.map.stop_serving("shutting down");
  co_await scope_.join();
}

void Decider::Impl::turn() {
  // A turn that comes late is our own fault: answers may lie unread, so it blames nobody.
  const Duration since_last = now() - last_turn_;
  const bool is_late = since_last > 3 * settings_.heartbeat;
  last_turn_ = now();
  for (Peer& peer : peers_) {
    peer.judge(is_late ? Duration::zero() : since_last, settings_.suspect_after);
  }
  if (map_ == nullptr) {
    start();
  } else {
    decide();
  }
  if (over_) return;
  advance();
  if (!over_) send_frames();
  if (!over_) start_work();
}

MapRequest Decider::Impl::request() const {
  MapRequest request;
  request.decider = decider_id_;
  request.above_number = above_number_;
  request.accept_loss = accept_loss_;
  for (const Peer& peer : peers_) {
    request.reports.push_back(peer.report);
    // The operator vouches for the death of who was silent at the start.
    if (peer.vouched_dead) request.reports.back().verdict = Verdict::kRefuses;
  }
  return request;
}

bool Decider::Impl::peers_quorum() const {
  size_t refusing = 0, answering = 0;
  for (const NodeReport& report : request().reports) {
    refusing += report.verdict == Verdict::kRefuses;
    answering += report.verdict == Verdict::kAnswers;
  }
  return is_quorum(peers_.size(), refusing, answering);
}

void Decider::Impl::wait_because(std::string reason) {
  if (reason != reason_ && !reason.empty()) log_warning("membership waits: {}", reason);
  reason_ = std::move(reason);
  if (!serving_ && !reason_.empty() && ops_.map.current() == nullptr) {
    ops_.map.stop_serving(reason_);
  }
}

// Before the first map: what do the nodes know?
void Decider::Impl::start() {
  if (now() < start_after_) return;
  if (!std::ranges::all_of(peers_, &Peer::is_judged)) return;
  if (settings_.force_epoch) {
    for (Peer& peer : peers_) {
      if (peer.report.verdict == Verdict::kSilent) peer.vouch_dead();
    }
  }
  std::vector<NodeReport> reports;
  std::vector<MapPtr> maps;
  for (const Peer& peer : peers_) {
    reports.push_back(peer.report);
    maps.push_back(peer.found);
  }
  auto found = choose_base(reports, maps);
  if (!found) return wait_because(found.error().message);
  for (const Peer& peer : peers_) {
    above_number_ = std::max(above_number_, peer.report.epoch.number);
  }
  const MapPtr base = *found;
  const bool forms = base == nullptr;
  if (!forms && !peers_quorum()) {
    return wait_because("answers from a majority of the nodes that may be alive are needed");
  }
  auto next = forms ? first_map(membership_, ops_.ring, request(), cluster_id_of(peers_))
                    : next_map(*base, membership_, ops_.ring, request());
  if (!next) return wait_because(next.error().message);
  log_info("{} at epoch {}", forms ? "forms a new cluster" : "takes the cluster over",
           next->epoch.number);
  adopt(std::move(*next));
}

// With a map: does it still say what is so?
void Decider::Impl::decide() {
  const MapRequest now_known = request();
  if (!needs_map(*map_, membership_, now_known)) {
    wait_because(peers_quorum() ? "" : "a majority of the nodes that may be alive does not answer");
    return;
  }
  if (!peers_quorum()) {
    return wait_because("a majority of the nodes that may be alive does not answer");
  }
  if (is_blocked_by_lease(now_known)) return;
  auto next = next_map(*map_, membership_, ops_.ring, now_known);
  if (!next) return wait_because(next.error().message);
  if (is_false_loss(*next)) {
    sync_stop_ = true;
    return;
  }
  adopt(std::move(*next));
}

// A silent node may serve until its lease is over. Meanwhile the old map goes on being served: it
// is true until then, and the node may come back.
bool Decider::Impl::is_blocked_by_lease(const MapRequest& known) const {
  if (mutant(Mutant::kSkipLeaseWait)) return false;
  for (size_t id = 0; id < peers_.size(); ++id) {
    if (map_->is_up(static_cast<NodeId>(id)) && known.reports[id].verdict == Verdict::kSilent &&
        now() < peers_[id].lease_until) {
      return true;
    }
  }
  return false;
}

// A sync that is under way may have completed a partition since the nodes last reported: its
// sources forget it then, and would be missed though the homes have it all. So a loss is declared
// only with no sync running, on reports from after it.
bool Decider::Impl::is_false_loss(const ClusterMap& next) const {
  const bool is_new_loss = std::ranges::any_of(
      std::views::iota(size_t{0}, next.partitions.size()),
      [&](size_t p) { return next.partitions[p].lost && !map_->partitions[p].lost; });
  if (!is_new_loss) return false;
  if (sync_running_) return true;
  return std::ranges::any_of(peers_, [&](const Peer& peer) {
    return peer.report.verdict == Verdict::kAnswers && peer.answered_sent < sync_ended_;
  });
}

void Decider::Impl::adopt(ClusterMap map) {
  above_number_ = std::max(above_number_, map.epoch.number);
  auto encoded = std::make_shared<std::string>();
  node::encode(map, *encoded);
  encoded_map_ = std::move(encoded);
  map_ = std::make_shared<const ClusterMap>(std::move(map));
  installed_ = granting_ = serving_ = false;
  accept_loss_ = false;
  reason_.clear();
  for (const node::NodeInfo& info : map_->nodes) {
    log_info("epoch {}: node {} is {}", map_->epoch.number, info.name, node::name(info.state));
  }
}

// A node that has to have the map: the very process that the map names as up.
bool Decider::Impl::is_member(size_t id) const {
  return map_ != nullptr && map_->is_up(static_cast<NodeId>(id)) &&
         (!peers_[id].is_judged() || peers_[id].report.incarnation == map_->nodes[id].incarnation);
}

void Decider::Impl::send_frames() {
  for (size_t id = 0; id < peers_.size() && !over_; ++id) {
    Peer& peer = peers_[id];
    if (!is_member(id)) {
      if (!peer.greeting && now() >= peer.greet_after) scope_.spawn(hello(id));
    } else if (peer.report.epoch != map_->epoch) {
      if (!peer.installing) scope_.spawn(install(id, map_));
    } else {
      send_heartbeat(id);
    }
  }
}

void Decider::Impl::send_heartbeat(size_t id) {
  if (peers_[id].heartbeats >= kHeartbeatsInFlight) return;
  const bool grant = granting_ && may_grant() && !peers_[id].is_silent(settings_.suspect_after);
  scope_.spawn(heartbeat(id, map_, grant));
}

// A decider that is cut off must stop granting before another one may exclude its nodes.
bool Decider::Impl::may_grant() const {
  size_t refusing = 0, acknowledged = 0;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Peer& peer = peers_[id];
    if (peer.vouched_dead || peer.report.verdict == Verdict::kRefuses) {
      ++refusing;
    } else if (is_member(id) && peer.acknowledged == map_->epoch &&
               now() - peer.answered_sent <= settings_.lease) {
      ++acknowledged;
    }
  }
  return is_quorum(peers_.size(), refusing, acknowledged);
}

bool Decider::Impl::is_installed() const {
  size_t have = 0;
  for (size_t id = 0; id < peers_.size(); ++id) {
    if (!map_->is_up(static_cast<NodeId>(id))) continue;
    const bool has_it = is_member(id) && peers_[id].report.epoch == map_->epoch;
    have += has_it;
    if (!has_it && !mutant(Mutant::kServeBeforeInstalled)) return false;
  }
  return have > 0;
}

// What follows from the replies so far: installed -> leases -> served (rule 2).
void Decider::Impl::advance() {
  if (over_ || map_ == nullptr) return;
  if (!installed_) {
    if (!is_installed()) return;
    installed_ = true;
    if (!took_over_) took_over_ = now();
  }
  if (!granting_) {
    // A predecessor grants as long as a majority answers it, which ended when ours got the map; so
    // whoever it alone can reach serves two leases longer at most.
    const bool foreign_leases = std::ranges::any_of(
        peers_, [](const Peer& peer) { return peer.may_hold_foreign_lease && !peer.vouched_dead; });
    if (foreign_leases && now() < *took_over_ + 2 * settings_.lease &&
        !mutant(Mutant::kSkipLeaseWait)) {
      return wait_because("the leases of nodes that do not answer run out");
    }
    for (Peer& peer : peers_) peer.may_hold_foreign_lease = false;
    wait_because("");
    begin_grants();
    if (over_) return;
  }
  if (granting_ && !serving_ && enough_leases()) {
    serving_ = ever_served_ = true;
    log_info("serves epoch {}", map_->epoch.number);
    ops_.map.serve(map_);
  } else if (serving_ && !may_grant() && now() - grants_began_ > settings_.lease) {
    serving_ = false;
    ops_.map.stop_serving("a majority of the nodes does not answer");
  }
}

void Decider::Impl::begin_grants() {
  granting_ = true;
  grants_began_ = now();
  const MapPtr map = map_;
  for (size_t id = 0; id < peers_.size() && !over_ && map_ == map; ++id) {
    if (is_member(id) && peers_[id].report.epoch == map->epoch) send_heartbeat(id);
  }
}

// All members that answer; after a moment, a majority.
bool Decider::Impl::enough_leases() const {
  size_t refusing = 0, leases = 0, missing = 0;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Peer& peer = peers_[id];
    if (peer.vouched_dead || peer.report.verdict == Verdict::kRefuses) ++refusing;
    if (!is_member(id) || peer.report.verdict != Verdict::kAnswers) continue;
    const bool leased = peer.leased == map_->epoch;
    leases += leased;
    missing += !leased;
  }
  if (!is_quorum(peers_.size(), refusing, leases)) return false;
  return missing == 0 || now() - grants_began_ >= 3 * settings_.heartbeat;
}

// A map that is not ours and not older: another decider is at work.
void Decider::Impl::check_foreign(const node::Epoch& epoch) {
  if (over_ || map_ == nullptr) return;
  if (epoch.number >= map_->epoch.number && epoch != map_->epoch) yield_to(epoch);
}

void Decider::Impl::yield_to(const node::Epoch& epoch) {
  above_number_ = std::max(above_number_, epoch.number);
  if (ever_served_) {
    over_ = deposed_ = true;
    reason_ = fmt::format("deposed by proxy {:08x} at epoch {}", epoch.decider, epoch.number);
    log_warning("{}", reason_);
    ops_.map.stop_serving(reason_);
    return;
  }
  // Both were starting: look again, and build upon what the other has done.
  log_info("lost the race for epoch {}, looks again", map_->epoch.number);
  map_ = nullptr;
  installed_ = granting_ = serving_ = false;
  took_over_.reset();
  const auto pause = static_cast<uint64_t>((4 * settings_.heartbeat).count());
  start_after_ = now() + Duration(static_cast<int64_t>(ops_.random.next() % (pause + 1)));
  for (Peer& peer : peers_) peer.look_again();
}

void Decider::Impl::heard(size_t id, TimePoint sent, const Result<NodeReply>& reply) {
  Peer& peer = peers_[id];
  if (!reply) {
    if (reply.error().code == ErrorCode::kUnavailable && sent >= peer.changed) {
      peer.refused(now());
    }
    return;
  }
  if (sent >= peer.changed) peer.answered(reply->header, sent, now());
}

Task<void> Decider::Impl::hello(size_t id) {
  Peer& peer = peers_[id];
  peer.greeting = true;
  const TimePoint sent = now();
  peer.greet_after = sent + (map_ == nullptr ? 2 * settings_.heartbeat : settings_.suspect_after);
  NodeRequest request;
  request.opcode = Opcode::kHello;
  const auto reply = co_await ops_.nodes.call(static_cast<NodeId>(id), Stamp{}, std::move(request),
                                              sent + settings_.suspect_after);
  peer.greeting = false;
  if (over_) co_return;
  MapPtr found;
  if (reply && reply->status() == Status::kOk && !reply->payload().empty()) {
    auto decoded = node::decode_map(reply->payload());
    if (!decoded) {
      log_warning("node {}: {}", settings_.nodes[id].name, decoded.error());
      co_return;
    }
    found = std::make_shared<const ClusterMap>(std::move(*decoded));
  }
  heard(id, sent, reply);
  if (!reply || reply->status() != Status::kOk) co_return;
  peer.told(reply->header, reply->args(), now());
  peer.found = found;
  if (map_ != nullptr && found != nullptr) {
    if (found->cluster_id == map_->cluster_id) {
      check_foreign(found->epoch);
    } else {
      // Another cluster's process took the address: ours is gone, and this one is none of ours.
      log_warning("node {} belongs to another cluster", settings_.nodes[id].name);
      peer.refused(now());
    }
  }
  if (map_ == nullptr) {
    start();
    if (map_ != nullptr) send_frames();
  }
  advance();
}

Task<void> Decider::Impl::install(size_t id, MapPtr map) {
  Peer& peer = peers_[id];
  peer.installing = true;
  const TimePoint sent = now();
  // Accepted in place of the map that we know the node has, and of no other: a map that another
  // decider has had installed meanwhile is not overlooked.
  const node::Epoch replaced = peer.report.epoch;
  const Stamp stamp{map->cluster_id, replaced, 0};
  const Buffer bytes = Buffer::copy_of(*encoded_map_);
  NodeRequest request;
  request.opcode = Opcode::kInstallMap;
  request.payload.push_back(bytes.bytes());
  request.keep.push_back(bytes);
  const auto reply = co_await ops_.nodes.call(static_cast<NodeId>(id), stamp, std::move(request),
                                              sent + settings_.suspect_after);
  peer.installing = false;
  if (over_) co_return;
  heard(id, sent, reply);
  if (!reply || map_ != map || peer.report.incarnation != map->nodes[id].incarnation) co_return;
  if (reply->status() == Status::kOk) {
    peer.installed(map->epoch);
  } else if (reply->status() == Status::kStaleEpoch) {
    const node::Epoch& other = reply->header.epoch;
    if (other != replaced && other.decider != decider_id_) yield_to(other);
  } else {
    log_warning("node {} refuses the map: {}", settings_.nodes[id].name,
                node::name(reply->status()));
  }
  advance();
}

Task<void> Decider::Impl::heartbeat(size_t id, MapPtr map, bool grant) {
  Peer& peer = peers_[id];
  ++peer.heartbeats;
  const TimePoint sent = now();
  node::HeartbeatRequest message;
  if (grant) {
    message.lease_stamp_ms = peer.clock_ms;
    message.lease_ms = static_cast<uint32_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(settings_.lease).count());
    // The node told the stamp before it came here; a heartbeat more, since time here is of the
    // turn.
    if (peer.clock_ms != 0) {
      peer.lease_until =
          std::max(peer.lease_until, peer.clock_at + settings_.lease + settings_.heartbeat);
    }
  }
  const Stamp stamp{map->cluster_id, map->epoch, 0};
  const auto reply = co_await ops_.nodes.call(static_cast<NodeId>(id), stamp,
                                              make_request(Opcode::kHeartbeat, message),
                                              sent + settings_.suspect_after);
  --peer.heartbeats;
  if (over_) co_return;
  heard(id, sent, reply);
  if (!reply || map_ != map || peer.report.incarnation != map->nodes[id].incarnation) co_return;
  if (reply->status() == Status::kOk) {
    peer.acknowledged = map->epoch;
    const bool leased = peer.told(reply->header, reply->args(), now());
    if (leased && granting_) peer.leased = map->epoch;
  } else if (reply->status() == Status::kStaleEpoch) {
    check_foreign(reply->header.epoch);
  }
  advance();
}

// Every home has it: only then is it safe to collect in it, and is the promise of m crashes whole.
bool Decider::Impl::is_synced(uint32_t partition) const {
  const node::Partition& homes = map_->partitions[partition];
  if (homes.synced) return true;
  return std::ranges::all_of(homes.homes, [&](NodeId id) {
    return peers_[id].report.epoch == map_->epoch && has_bit(peers_[id].report.synced, partition);
  });
}

bool Decider::Impl::all_synced() const {
  for (uint32_t p = 0; p < map_->partitions.size(); ++p) {
    const node::Partition& partition = map_->partitions[p];
    if (partition.lost && partition.sources.empty()) continue;
    if (partition.lost ? sync_done_ != map_->epoch : !is_synced(p)) return false;
  }
  return true;
}

void Decider::Impl::start_work() {
  if (!serving_) return;
  if (!all_synced()) {
    if (sync_running_ || now() < sync_after_ || needs_map(*map_, membership_, request())) return;
    sync_running_ = true;
    sync_stop_ = false;
    scope_.spawn(run_sync(map_));
    return;
  }
  if (reclaim_running_ || now() < reclaim_after_) return;
  std::vector<bool> synced(map_->partitions.size());
  for (uint32_t p = 0; p < synced.size(); ++p) synced[p] = is_synced(p);
  reclaim_running_ = true;
  scope_.spawn(run_reclaim(map_, std::move(synced)));
}

Task<void> Decider::Impl::run_sync(MapPtr map) {
  const auto done = co_await sync_partitions(ops_, map, &sync_stop_);
  sync_running_ = false;
  sync_ended_ = now();
  // The next heartbeats tell what is synced; looking earlier would only start it again.
  sync_after_ = now() + 5 * settings_.heartbeat;
  if (done) {
    sync_done_ = map->epoch;
    log_info("epoch {}: partitions are synced", map->epoch.number);
  } else if (!over_) {
    log_info("epoch {}: sync: {}", map->epoch.number, to_string(done.error()));
  }
}

Task<void> Decider::Impl::run_reclaim(MapPtr map, std::vector<bool> synced) {
  const auto report = co_await reclaimer_.round(map, std::move(synced));
  reclaim_running_ = false;
  reclaim_after_ = now() + ops_.settings.upload_idle / 2;
  if (!report && !over_) log_info("reclaim: {}", to_string(report.error()));
}

ClusterStatus Decider::Impl::status() const {
  ClusterStatus status;
  status.reason = reason_;
  if (deposed_) {
    status.state = "deposed";
  } else if (!reason_.empty()) {
    status.state = "waiting";
  } else if (map_ == nullptr) {
    status.state = "starting";
  } else {
    status.state = serving_ ? "serving" : "forming";
  }
  for (size_t id = 0; id < peers_.size(); ++id) {
    NodeStatus node = peers_[id].status(now());
    node.info = map_ != nullptr ? map_->nodes[id] : membership_.nodes[id];
    if (map_ == nullptr) node.info.incarnation = peers_[id].report.incarnation;
    node.has_lease = map_ != nullptr && peers_[id].leased == map_->epoch;
    status.nodes.push_back(std::move(node));
  }
  if (map_ == nullptr) return status;
  status.epoch = map_->epoch;
  status.cluster_id = map_->cluster_id;
  status.partitions = static_cast<uint32_t>(map_->partitions.size());
  for (uint32_t p = 0; p < map_->partitions.size(); ++p) {
    const node::Partition& partition = map_->partitions[p];
    status.partitions_lost += partition.lost;
    status.partitions_synced += !partition.lost && is_synced(p);
    for (const NodeId home : partition.homes) {
      ++status.nodes[home].partitions_home;
      status.nodes[home].partitions_synced +=
          partition.synced ||
          (peers_[home].report.epoch == map_->epoch && has_bit(peers_[home].report.synced, p));
    }
  }
  return status;
}

Decider::Decider(OpsContext& ops, DeciderSettings settings)
    : impl_(std::make_unique<Impl>(ops, std::move(settings))) {}
Decider::~Decider() = default;
Task<void> Decider::run() { return impl_->run(); }
ClusterStatus Decider::status() const { return impl_->status(); }
void Decider::accept_loss() { impl_->accept_loss(); }

}  // namespace elastripe
