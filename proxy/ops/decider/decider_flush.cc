// flush_all (rule 27): a map says from which versions on values live, and it is served like any.
#include <algorithm>
#include <utility>

#include "proxy/base/log.h"
#include "proxy/ops/decider/decider_impl.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

namespace {

// In heartbeats, from a map that is served to the next one that flushes: each makes uploads confirm
// their shards again. While partitions are synced it stops that, too, which needs some time.
constexpr int kFlushPause = 2;
constexpr int kFlushPauseInSync = 20;
// A node that has not answered for so many is asked nothing new: the map would wait for it, and
// everybody for the map. It answers, or the next map is without it and flushes as well.
constexpr int kSilentHeartbeats = 3;

}  // namespace

Task<Result<void>> Decider::Impl::flush_all(uint32_t at, TimePoint deadline) {
  if (over_) co_return fail(ErrorCode::kUnavailable, "{}", deposed_ ? reason_ : "shutting down");
  const bool is_past = at <= ops_.clock.unix_ms() / 1000;
  OneShot<Result<void>> answer;
  requests_.add({.flush_at = is_past ? 0 : at, .deadline = deadline, .answer = &answer});
  co_return co_await answer;
}

// A clock that was set forward does not flush early: what is flushed stays so.
void Decider::Impl::look_at_flush_time() {
  if (map_ == nullptr || map_->flush_at == 0) return;
  const auto unix_s = last_.expiry_clock().look();
  flush_is_due_ = unix_s && *unix_s >= map_->flush_at;
}

bool Decider::Impl::wants_flush() const {
  if (!serving_ || !(flush_is_due_ || requests_.are_asked())) return false;
  const int pause = all_synced() ? kFlushPause : kFlushPauseInSync;
  if (now() < served_at_ + pause * settings_.heartbeat) return false;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const bool waits = map_->is_up(static_cast<NodeId>(id)) &&
                       peers_[id].is_silent(kSilentHeartbeats * settings_.heartbeat);
    if (waits) return false;
  }
  return true;
}

void Decider::Impl::carry_flushes() {
  requests_.carried();
  flush_is_due_ = false;
  if (mutant(Mutant::kFlushUnserved)) requests_.served(/*is_followed=*/false);
}

void Decider::Impl::note_flushed() {
  const auto before = std::exchange(served_flush_floor_, map_->flush_floor);
  if (before && map_->flush_floor > *before) {
    log_info("epoch {}: values up to version {} are flushed", map_->epoch.number,
             map_->flush_floor);
    reclaim_after_ = now();
  }
}

}  // namespace elastripe::decider
