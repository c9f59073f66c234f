// What the decider does beside membership: sync, reclaim, status.
#include <algorithm>

#include "proxy/base/log.h"
#include "proxy/cluster/placement.h"
#include "proxy/ops/decider/decider_impl.h"
#include "proxy/ops/decider/decider_status.h"
#include "proxy/ops/records/sync.h"

namespace elastripe::decider {

namespace {
constexpr Duration kSurveyPause = std::chrono::seconds(1);
constexpr Duration kSurveyRetry = std::chrono::seconds(10);
constexpr Duration kSurveyAgain = std::chrono::seconds(60);
}  // namespace

bool Decider::Impl::is_synced(uint32_t partition) const {
  return decider::is_synced(*map_, peers_, partition);
}

// There are nodes for more homes, but they lack room.
bool Decider::Impl::is_short(uint32_t partition) const {
  const size_t homes = map_->partitions[partition].homes.size();
  const size_t wanted = map_->max_parities + size_t{1};
  return homes < wanted && homes < homes_of(*map_, ring(), partition, wanted).size();
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
  // Keys of LOST partitions that a home had no room for. All else goes on meanwhile.
  if (sync_done_ == map_->epoch && now() >= lost_again_after_) sync_done_ = {};
  if (all_synced()) {
    for (Peer& peer : peers_) peer.room.succeeded();
    start_survey();
  } else {
    start_sync();
  }
  start_reclaim();
}

void Decider::Impl::start_sync() {
  if (sync_running_ || now() < sync_after_) return;
  const MapRequest known = request();
  if (needs_map(*map_, membership_, known) || wants_homes(known)) return;
  sync_running_ = true;
  sync_stop_ = false;
  scope_.spawn(run_sync(map_));
}

// In what is synced, whatever the others are.
void Decider::Impl::start_reclaim() {
  // Its times have to be the cluster's.
  if (ops_.map.current() != map_) return;
  if (reclaim_running_ || now() < reclaim_after_) return;
  std::vector<bool> synced(map_->partitions.size());
  for (uint32_t p = 0; p < synced.size(); ++p) synced[p] = is_synced(p);
  if (std::ranges::find(synced, true) == synced.end()) return;
  reclaim_running_ = true;
  scope_.spawn(run_reclaim(map_, std::move(synced)));
}

Task<void> Decider::Impl::run_sync(MapPtr map) {
  const auto done = co_await records::sync_partitions(ops_, map, &sync_stop_);
  sync_running_ = false;
  sync_ended_ = now();
  // The next heartbeats tell what is synced; looking earlier would only start it again.
  sync_after_ = now() + 5 * settings_.heartbeat;
  if (done) {
    sync_done_ = map->epoch;
    sync_failure_.clear();
    log_membership(LogLevel::kInfo,
                   LogFields().add("event", "synced").add("epoch", map->epoch.number));
    lost_again_after_ = done->lost_waiting > 0 ? now() + RoomWatch::kFirstWait : TimePoint::max();
  } else if (!over_) {
    const LogFields failure = LogFields()
                                  .add("event", "sync_failed")
                                  .add("epoch", map->epoch.number)
                                  .add("reason", to_string(done.error()));
    // Once, however often it is tried.
    if (failure.text() != sync_failure_) log_membership(LogLevel::kInfo, failure);
    sync_failure_ = failure.text();
  }
}

void Decider::Impl::start_survey() {
  const bool is_wanted = survey_wanted_ || now() >= survey_due_;
  if (!is_wanted || survey_running_ || now() < survey_after_) return;
  survey_running_ = true;
  survey_wanted_ = false;
  scope_.spawn(run_survey(map_, forgets_in_ == map_->epoch));
}

Task<void> Decider::Impl::run_survey(MapPtr map, bool forgets) {
  const TimePoint started = now();
  const auto report = co_await jobs::survey_objects(ops_, map, forgets);
  survey_running_ = false;
  survey_after_ = now() + kSurveyPause;
  // It asks for every shard: a tenth of the time at most.
  survey_due_ = now() + std::max(kSurveyAgain, 9 * (now() - started));
  if (over_) co_return;
  if (!report) {  // it is wanted as before
    survey_wanted_ = true;
    log_info("survey: {}", to_string(report.error()));
    co_return;
  }
  const bool is_news = report->lost != surveyed_.lost || report->lacking != surveyed_.lacking;
  surveyed_ = *report;
  surveyed_in_ = map->epoch.number;
  has_surveyed_ = true;
  surveyed_.lost -= report->forgotten;
  if (!report->is_complete) {
    survey_wanted_ = true;
    survey_after_ = now() + kSurveyRetry;
  } else if (forgets) {
    forgets_in_ = {};
  }
  if (report->forgotten > 0) log_warning("{} lost objects are forgotten", report->forgotten);
  if (surveyed_.lost > 0 && is_news) {
    log_warning("{} objects lack too many shards, {} lack some", surveyed_.lost, surveyed_.lacking);
  }
}

Task<void> Decider::Impl::run_reclaim(MapPtr map, std::vector<bool> synced) {
  const TimePoint started = now();
  const auto report = co_await reclaimer_.round(map, std::move(synced));
  reclaim_running_ = false;
  // A round walks over all that is stored: at most half of the time, and while there is nothing to
  // do, seldom.
  const Duration took = now() - started;
  const bool is_busy = report && report->records_expired + report->shards_deleted > 0;
  const Duration pause = ops_.settings.upload_idle / (is_busy ? 15 : 2);
  reclaim_after_ = now() + std::max(pause, took);
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
  if (reason_.empty()) status.reason = whom_it_awaits();
  describe_nodes(status, map_.get(), membership_.nodes, peers_, now());
  status.can_accept_loss = awaits_last_copy_ || lost_objects() > 0;
  status.objects_lacking = surveyed_.lacking;
  status.objects_lost = surveyed_.lost;
  status.objects_surviving = surveyed_.surviving;
  if (map_ != nullptr) {
    describe_map(status, *map_, peers_);
    status.partitions_to_move = misplaced_;
    status.can_accept_loss |= status.partitions_lost > 0;
    for (uint32_t p = 0; p < status.partitions; ++p) status.partitions_short += is_short(p);
    for (size_t id = 0; id < peers_.size(); ++id) {
      status.nodes[id].has_lease = peers_[id].leased == map_->epoch;
    }
  } else if (const MapPtr followed = ops_.map.current(); followed != nullptr) {
    // It takes over, and serves by the map that it followed.
    describe_epoch(status, *followed);
  }
  leave_out_removed(status);
  return status;
}

}  // namespace elastripe::decider
