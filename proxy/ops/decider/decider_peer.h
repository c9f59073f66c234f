// What the decider knows of one node, and how replies and silence change it.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>

#include "proxy/cluster/membership.h"
#include "proxy/ops/decider/decider.h"
#include "proxy/ops/decider/room_watch.h"

namespace elastripe::decider {

// What the operator has said of a node that does not answer: that it is dead. A word may be wrong,
// and the node be a part of another decider's majority. So at first it is a reason for a map
// without the node, and does not count where majorities are counted.
enum class Word : uint8_t {
  kNone,
  kSaid,
  kInstalled,  // counts: all who are left have a map without it, and whoever takes over meets that
  kForced,     // counts at once: without it there was no majority
};

struct Peer {
  NodeReport report;
  node::MapPtr found;  // the map that the node told, if any
  // The map of this process that the decider has seen, number 0 for none. `report.epoch` may be
  // ahead of it: every reply names an epoch, but only HELLO's has the map, and says whose it is.
  std::optional<node::Epoch> known;
  uint64_t free_bytes = 0;
  bool told_free_bytes = false;  // since the workers were told
  RoomWatch room;
  node::NodeStatistics statistics;

  // Answers. Times are of this process.
  bool judged = false;      // the verdict of `report` was earned
  TimePoint changed;        // replies to frames sent before are of another process, or refuted
  TimePoint answered_at;    // when the last answer came
  TimePoint answered_sent;  // when the frame that it answers left
  Duration silent_for{};
  // The epoch of the map under which it told last which partitions are synced.
  node::Epoch told_in;
  // Members only: the newest epochs under which it answered, and told that it has a lease.
  node::Epoch acknowledged;
  node::Epoch leased;

  // The lease: the node's clock in its last answer, when that came, and when every grant of ours is
  // over on any clock.
  uint64_t clock_ms = 0;
  TimePoint clock_at;
  TimePoint lease_until;
  bool may_hold_foreign_lease = true;  // of a decider before this one
  Word word = Word::kNone;             // of the operator, until it answers
  bool is_stray = false;               // this process belongs to another cluster
  // In its last answer: since it heard of a decider. Nothing: it knows of none.
  std::optional<Duration> decider_age = {};
  std::string version;        // of its build, for people
  node::CapabilitySet lacks;  // of what the cluster uses; logged
  // Changes of maps that were told did not fit: by the decider, or by the node.
  bool takes_whole = false;
  bool asks_for_whole = false;

  // Calls under way.
  bool greeting = false;
  bool installing = false;
  size_t heartbeats = 0;
  TimePoint greet_after;

  bool is_judged() const { return judged; }
  // Whether the decider knows what it would replace by installing a map of its own, and whom it
  // would have as a member.
  bool is_known(uint32_t decider) const {
    const bool knows_map =
        report.epoch.number == 0 || report.epoch.decider == decider || report.epoch == known;
    return knows_map && report.capabilities;
  }
  bool is_silent(Duration limit) const { return silent_for >= limit; }

  // Once a turn.
  void judge(Duration since_last, Duration suspect_after) {
    silent_for += since_last;
    if (!is_silent(suspect_after) || (judged && report.verdict == Verdict::kRefuses)) return;
    judged = true;
    report.verdict = Verdict::kSilent;
  }

  void answered(const node::ReplyHeader& header, TimePoint sent, TimePoint now) {
    // Also after look_again(): an empty successor must not be taken for having the old map.
    if (report.incarnation != 0 && header.incarnation != report.incarnation) begin_incarnation(now);
    judged = true;
    word = Word::kNone;
    silent_for = {};
    answered_at = now;
    answered_sent = std::max(answered_sent, sent);
    report.verdict = Verdict::kAnswers;
    report.incarnation = header.incarnation;
    free_bytes = header.free_bytes;
    told_free_bytes = true;
    // Replies may overtake each other, but a node's maps only go on.
    if (header.epoch.number >= report.epoch.number && header.epoch != report.epoch) {
      report.epoch = header.epoch;
      report.synced.clear();
    }
    if (report.epoch.number != 0) return;
    may_hold_foreign_lease = false;
    known = node::Epoch{};
  }

  // The map that a HelloReply brought is the one that the node has. True if it replaced one that
  // this decider knew, and is none of its own.
  bool shows(const node::ReplyHeader& header, node::MapPtr map, uint32_t decider) {
    if (header.incarnation != report.incarnation || header.epoch != report.epoch) return false;
    found = std::move(map);
    const bool is_news = known && *known != header.epoch && header.epoch.decider != decider;
    known = header.epoch;
    return is_news;
  }

  // Its address refuses connections: that process is gone, and its lease with it.
  void refused(TimePoint now) {
    if (report.verdict != Verdict::kRefuses || !judged) changed = now;
    judged = true;
    report.verdict = Verdict::kRefuses;
    may_hold_foreign_lease = false;
    lease_until = {};
    lacks = {};
  }

  // An answer to HELLO that is none: it is not waited for what the process can do.
  void tells_nothing(const node::ReplyHeader& header) {
    if (header.incarnation == report.incarnation && !report.capabilities) {
      report.capabilities = node::CapabilitySet();
    }
  }

  // A frame was not answered in time.
  void fell_silent() {
    if (judged && report.verdict == Verdict::kRefuses) return;
    judged = true;
    report.verdict = Verdict::kSilent;
  }

  // For a heartbeat: so many partitions it has told as synced, under the map that it has.
  uint32_t count_synced() const {
    uint32_t count = 0;
    for (const uint8_t bits : report.synced) count += static_cast<uint32_t>(std::popcount(bits));
    return count;
  }

  // A HelloReply; true if the node has a lease.
  bool told(const node::ReplyHeader& header, ByteView args, TimePoint now) {
    auto reply = node::decode<node::HelloReply>(args);
    if (header.incarnation != report.incarnation) return false;
    if (!reply) {
      tells_nothing(header);
      return false;
    }
    report.capabilities = reply->capabilities;
    version = reply->version;
    clock_ms = std::max(clock_ms, reply->clock_ms);
    clock_at = now;
    report.max_version = std::max(report.max_version, reply->max_version);
    statistics = reply->statistics;
    decider_age.reset();
    if (reply->decider_age_ms) {
      constexpr uint64_t kLongest_ms = uint64_t{24} * 3600 * 1000;
      decider_age = std::chrono::milliseconds(std::min(*reply->decider_age_ms, kLongest_ms));
    }
    if (header.epoch != report.epoch) return false;
    told_in = header.epoch;
    // Bits are only ever set within an epoch.
    report.synced.resize(std::max(report.synced.size(), reply->synced.size()));
    for (size_t i = 0; i < reply->synced.size(); ++i) {
      report.synced[i] = static_cast<uint8_t>(report.synced[i] | reply->synced[i]);
    }
    return reply->has_lease;
  }

  // Has a map of ours: whatever lease it had is void.
  void installed(const node::Epoch& epoch) {
    acknowledged = epoch;
    may_hold_foreign_lease = false;
    takes_whole = false;
  }

  // The operator vouches for its death, and for leases being over (force_epoch).
  void vouch_gone() {
    vouch_dead(Word::kForced);
    may_hold_foreign_lease = false;
  }

  void vouch_dead(Word said) { word = std::max(word, said); }
  bool is_vouched_dead() const { return word != Word::kNone; }
  // All who are left have a map of ours without it.
  void is_left_out() {
    if (word == Word::kSaid) word = Word::kInstalled;
  }

  // A process of another cluster answers in its place, which says that ours is gone.
  void belongs_elsewhere(TimePoint now) {
    refused(now);
    report.epoch = {};
    report.synced.clear();
    found = nullptr;
    known.reset();
    is_stray = true;
  }

  // Another process is to answer, maybe at another address.
  void begin_anew(TimePoint now) {
    begin_incarnation(now);
    judged = false;
    silent_for = {};
    word = Word::kNone;
    greet_after = {};
  }

  // Forgets the verdict, so that the node is asked again. What is built upon next may be another
  // decider's map, which has it.
  void look_again() {
    if (word == Word::kInstalled) word = Word::kSaid;
    judged = false;
    silent_for = {};
    found = nullptr;
    known.reset();
    greet_after = {};
    may_hold_foreign_lease = true;
  }

  NodeStatus status(TimePoint now) const {
    NodeStatus status;
    status.free_bytes = free_bytes;
    status.has_room = room.room() == Room::kForMore;
    status.statistics = statistics;
    status.version = version;
    status.lacks = lacks;
    status.process = report.incarnation;
    status.last_answer_age_ms = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now - answered_at).count());
    return status;
  }

 private:
  void begin_incarnation(TimePoint now) {
    changed = now;
    report = {};
    room = {};
    found = nullptr;
    known.reset();
    clock_ms = 0;
    lease_until = {};
    may_hold_foreign_lease = true;
    acknowledged = leased = {};
    is_stray = false;
    decider_age.reset();
    version.clear();
    lacks = {};
    takes_whole = asks_for_whole = false;
  }
};

}  // namespace elastripe::decider
