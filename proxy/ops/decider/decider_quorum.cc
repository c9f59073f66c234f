// Who counts as what, and who are enough.
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "proxy/ops/decider/decider_impl.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::decider {

// As membership and majorities count them, by id. One process may answer at what are two addresses,
// or by two names. It is the member that comes first, and nobody else: it would count twice, and
// have two places of one shard.
std::vector<Verdict> Decider::Impl::verdicts() const {
  std::vector<Verdict> verdicts;
  verdicts.reserve(peers_.size());
  std::unordered_set<uint64_t> processes;
  processes.reserve(peers_.size());
  for (size_t id = 0; id < peers_.size(); ++id) {
    const NodeReport& report = peers_[id].report;
    const bool is_process =
        !is_removed(id) && report.verdict == Verdict::kAnswers && report.incarnation != 0;
    const bool is_alias = is_process && !processes.insert(report.incarnation).second;
    verdicts.push_back(is_alias ? Verdict::kRefuses : own_verdict(id));
  }
  return verdicts;
}

// By its own answers. A process that can not be a member is as good as gone: it takes no map that
// would keep another decider off, and has nothing of the cluster.
Verdict Decider::Impl::own_verdict(size_t id) const {
  const Peer& peer = peers_[id];
  if (is_removed(id)) return Verdict::kRefuses;
  const bool is_unable = peer.report.verdict == Verdict::kAnswers && peer.report.capabilities &&
                         !peer.report.capabilities->has_all(required_);
  return peer.is_vouched_dead() || is_unable ? Verdict::kRefuses : peer.report.verdict;
}

// So many count as gone where a majority is counted.
size_t Decider::Impl::count_gone(const std::vector<Verdict>& verdicts) const {
  size_t gone = 0;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const bool is_only_said = peers_[id].word == Word::kSaid && !is_removed(id) &&
                              peers_[id].report.verdict != Verdict::kRefuses &&
                              !mutant(Mutant::kTrustWords);
    gone += verdicts[id] == Verdict::kRefuses && !is_only_said;
  }
  return gone;
}

// Whether each node has answered, refused, or been silent for long enough to be taken for so.
bool Decider::Impl::has_asked_all() const {
  for (size_t id = 0; id < peers_.size(); ++id) {
    const bool has_answered =
        peers_[id].is_judged() && peers_[id].report.verdict != Verdict::kSilent;
    if (!is_removed(id) && !has_answered && !peers_[id].is_silent(settings_.suspect_after)) {
      return false;
    }
  }
  return true;
}

bool Decider::Impl::peers_quorum() const {
  const std::vector<Verdict> verdicts = this->verdicts();
  const auto answering = std::ranges::count(verdicts, Verdict::kAnswers);
  return is_quorum(peers_.size(), count_gone(verdicts), static_cast<size_t>(answering));
}

bool Decider::Impl::knows_all_peers() const {
  // A map of our own that we have given up is one to be seen, as any other.
  const uint32_t own = map_ == nullptr ? 0 : decider_id_;
  return std::ranges::all_of(peers_, [&](const Peer& peer) {
    return peer.report.verdict != Verdict::kAnswers || peer.is_known(own);
  });
}

// For people: before the first map nobody is told anything else; later one goes on being served.
std::string Decider::Impl::whom_it_awaits() const {
  if (over_ || (map_ != nullptr && !awaits_told_)) return {};
  const uint32_t own = map_ == nullptr ? 0 : decider_id_;
  std::vector<std::string_view> to_answer, to_tell;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Peer& peer = peers_[id];
    const std::string_view name = membership_.nodes[id].name;
    if (!peer.is_judged()) {
      if (map_ == nullptr && !is_removed(id)) to_answer.push_back(name);
    } else if (peer.report.verdict == Verdict::kAnswers) {
      const bool has_told = map_ == nullptr || !is_member(id) || peer.told_in == map_->epoch;
      if (!peer.is_known(own) || !has_told) to_tell.push_back(name);
    }
  }
  if (!to_answer.empty())
    return fmt::format("waiting for {} to answer", fmt::join(to_answer, ", "));
  if (!to_tell.empty()) {
    return fmt::format("waiting for {} to tell what {}", fmt::join(to_tell, ", "),
                       to_tell.size() == 1 ? "it has" : "they have");
  }
  return awaits_told_ && sync_running_ ? "waiting for a sync to end, before anything is lost" : "";
}

// A node that has to have the map: the very process that the map names as up.
bool Decider::Impl::is_member(size_t id) const {
  return map_ != nullptr && map_->is_up(static_cast<NodeId>(id)) &&
         (!peers_[id].is_judged() || peers_[id].report.incarnation == map_->nodes[id].incarnation);
}

// A decider that is cut off must stop granting before another one may exclude its nodes.
bool Decider::Impl::may_grant() const {
  const std::vector<Verdict> verdicts = this->verdicts();
  size_t acknowledged = 0;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Peer& peer = peers_[id];
    acknowledged += verdicts[id] != Verdict::kRefuses && is_member(id) &&
                    peer.acknowledged == map_->epoch &&
                    now() - peer.answered_sent <= settings_.lease;
  }
  return is_quorum(peers_.size(), count_gone(verdicts), acknowledged);
}

bool Decider::Impl::has_majority_since(TimePoint since) const {
  if (map_ == nullptr) return false;
  const std::vector<Verdict> verdicts = this->verdicts();
  size_t confirmed = 0;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Peer& peer = peers_[id];
    confirmed += verdicts[id] != Verdict::kRefuses && is_member(id) &&
                 peer.report.epoch == map_->epoch && peer.answered_sent >= since;
  }
  return is_quorum(peers_.size(), count_gone(verdicts), confirmed);
}

// All members that answer; after a moment, a majority.
bool Decider::Impl::enough_leases() const {
  const std::vector<Verdict> verdicts = this->verdicts();
  size_t leases = 0, missing = 0;
  for (size_t id = 0; id < peers_.size(); ++id) {
    const Peer& peer = peers_[id];
    if (!is_member(id) || peer.report.verdict != Verdict::kAnswers) continue;
    const bool leased = peer.leased == map_->epoch;
    leases += leased;
    missing += !leased;
  }
  if (!is_quorum(peers_.size(), count_gone(verdicts), leases)) return false;
  return missing == 0 || now() - grants_began_ >= 3 * settings_.heartbeat;
}

}  // namespace elastripe::decider
