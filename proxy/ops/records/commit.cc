#include "proxy/ops/records/commit.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "proxy/base/memory_pool.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/records/log_copies.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/records/sync.h"
#include "proxy/ops/shards.h"
#include "server-patches/node/format/fail_point.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::records {

using node::Condition;
using node::Mutation;
using node::RecordApplyRequest;
using node::Status;

namespace {

// Said in every chain: a head answers only for keys that it knows, so in a LOST partition this one
// has been revived, maybe by a proxy that never reached the other homes.
constexpr bool kRevive = true;

// Gives the same value other shards.
bool moves_shards(Mutation mutation) {
  return mutation == Mutation::kReshape || mutation == Mutation::kFold;
}
bool keeps_value(Mutation mutation) {
  return mutation == Mutation::kTouch || mutation == Mutation::kMark || moves_shards(mutation);
}

// Strings up to this size are kept for the next text, and copied out of a reply.
constexpr size_t kSmallTextBytes = 1024;

// What `encode` writes to the string that it is given.
template <class Encode>
Buffer bytes_of(Encode encode) {
  std::string text = Spares<std::string>::take();
  encode(text);
  Buffer bytes = Buffer::copy_of(text);
  text.clear();
  if (text.capacity() <= kSmallTextBytes) Spares<std::string>::keep(std::move(text));
  return bytes;
}

// The encoded content, without its inline_value, which is the end of it. Empty if the mutation has
// no content.
[[gnu::noinline]] Buffer content_head(const Commit& commit) {
  const bool has_content =
      commit.mutation == Mutation::kSet || commit.mutation == Mutation::kAppend ||
      commit.mutation == Mutation::kPrepend || commit.mutation == Mutation::kTouch ||
      commit.mutation == Mutation::kReshape || commit.mutation == Mutation::kFold ||
      commit.mutation == Mutation::kMark;
  if (!has_content) return {};
  return bytes_of([&](std::string& head) {
    if (commit.inline_value.empty()) {
      node::encode(commit.content, head);
    } else {
      node::encode_head(commit.content, commit.inline_value.bytes(), head);
    }
  });
}

// This and read_decision: outside of commit(), so that what only they need is not in its frame.
[[gnu::noinline]] Question<RecordApplyRequest> apply_question(const node::ClusterMap& map,
                                                              const Commit& commit,
                                                              const Buffer& content_head) {
  RecordApplyRequest message;
  message.m = map.max_parities;
  message.attempt_id = commit.attempt_id;
  message.base_version = commit.base_version;
  message.condition = commit.condition;
  message.condition_argument = commit.condition_argument;
  message.mutation = commit.mutation;
  message.delta = commit.delta;
  message.inline_max_bytes = commit.inline_max_bytes;
  message.made_of_cas = commit.made_of_cas;
  message.blind = commit.blind;
  message.key = commit.key;
  auto apply = question(message);
  if (!content_head.empty()) apply.payload(std::array{content_head, commit.inline_value});
  return apply;
}

// The head answers for its own memory only. A record that it commits and another home has no room
// for would be stuck half-way, so new data is refused while any home is at its soft limit, or will
// be when all that is on its way there has arrived. A claim counts as on its way while it lives. It
// is of the whole record, which every home allocates beside the one that it replaces.
class RoomClaim {
 public:
  explicit RoomClaim(const NodeRooms& rooms) : rooms_(rooms) {}
  RoomClaim(const RoomClaim&) = delete;
  RoomClaim& operator=(const RoomClaim&) = delete;
  ~RoomClaim() {
    for (const NodeId home : homes_) rooms_.leave(home, bytes_);
  }

  Result<void> make(const OpsContext& ops, const node::ClusterMap& map, const Chain& chain,
                    const Commit& commit) {
    const bool forgets =
        commit.mutation == Mutation::kDelete || commit.mutation == Mutation::kFence;
    if (forgets) return {};
    bytes_ = record_bytes(ops, commit);
    for (const NodeId home : chain.nodes) {
      // What is hardly longer than what it replaces is not refused; what follows sees it.
      if (keeps_value(commit.mutation)) {
        rooms_.enter_anyway(home, bytes_);
      } else if (!rooms_.enter(home, bytes_)) {
        return fail(ErrorCode::kNoSpace, "node {} is full", node_name(map, home));
      }
      homes_ = chain.nodes.first(homes_.size() + 1);
    }
    return {};
  }

 private:
  static constexpr uint64_t kRecordBytes = 512;  // beside the value, about

  static uint64_t bytes_of_table(const node::RecordContent& content) {
    const auto shards = static_cast<uint64_t>(content.scheme.shards());
    uint64_t moved = 0;
    for (const auto& segment : content.segments) moved += segment.moved.size();
    return content.segments.size() * (node::kSegmentBytes + shards * sizeof(NodeId)) +
           moved * node::kMovedShardBytes;
  }
  // What the record has at most: only the head knows what a mutation makes of it.
  static uint64_t record_bytes(const OpsContext& ops, const Commit& commit) {
    switch (commit.mutation) {
      case Mutation::kIncrement:
      case Mutation::kDecrement:
        return kRecordBytes;
      case Mutation::kAppend:
      case Mutation::kPrepend:
        return kRecordBytes + commit.inline_max_bytes;
      case Mutation::kTouch:
      case Mutation::kMark: {
        const RecordPtr known = ops.cache.find(commit.key);
        if (known != nullptr) return kRecordBytes + bytes_of_table(known->content);
        return kRecordBytes + ops.pools.pool_of(commit.key).inline_max_bytes;
      }
      default:
        return kRecordBytes + bytes_of_table(commit.content) + commit.content.value.size() +
               commit.inline_value.size();
    }
  }

  const NodeRooms& rooms_;
  uint64_t bytes_ = 0;
  std::span<const NodeId> homes_;
};

// What an answer of the head means, with the record decoded.
struct Decision {
  CommitResult result;
  EncodedRecord encoded;  // result.record, to push down; empty if there is none
};

CommitStatus status_of(Status status) {
  switch (status) {
    case Status::kOk:
    case Status::kSuperseded:
      return CommitStatus::kCommitted;
    case Status::kNotFound:
      return CommitStatus::kNotFound;
    case Status::kFenced:
      return CommitStatus::kFenced;
    case Status::kNotInline:
      return CommitStatus::kNotInline;
    case Status::kNotNumber:
      return CommitStatus::kNotNumber;
    case Status::kTooLarge:
      return CommitStatus::kTooLarge;
    default:
      return CommitStatus::kConditionFailed;
  }
}

EncodedRecord encoded(const node::Record& record) {
  return {{bytes_of([&](std::string& text) { node::encode(record, text); })}};
}

// Whether the value is still what the attempt made of it: fences and touches that followed leave
// it.
bool has_value_of(const node::Record& record, const node::Id128& attempt_id) {
  const node::RecentAttempt* attempt = record.find_attempt(attempt_id);
  return attempt != nullptr &&
         (attempt->version == record.meta.version || attempt->version == record.meta.value_version);
}

// A copy of what is small: a part of the reply would keep the whole block that the channel reads
// to from being used again.
Buffer payload_of(const NodeReply& reply) {
  if (reply.payload().size() <= kSmallTextBytes) return Buffer::copy_of(reply.payload());
  return reply.body.slice(reply.header.args_bytes, reply.payload().size());
}

[[gnu::noinline]] Result<Decision> read_decision(const node::ClusterMap& map, NodeId head,
                                                 const Commit& commit, const Buffer& content_head,
                                                 const Answer<RecordApplyRequest>& answer) {
  const auto unreadable = [&](const std::string& why) {
    return std::unexpected(malformed(map, head, why));
  };
  Decision decision;
  decision.result.status = status_of(answer.status());
  decision.result.floor = answer.args.floor;

  const auto record = new_record();
  if (answer.args.whole_record) {
    auto decoded = node::decode_record(answer.payload(), *record);
    if (!decoded) return unreadable(decoded.error());
    decision.result.is_exact = has_value_of(*record, commit.attempt_id);
    decision.encoded.pieces = {payload_of(answer.reply)};
  } else if (answer.status() == Status::kOk) {
    node::Reader in(answer.payload());
    auto meta = node::decode_meta(in, record->meta);
    if (!meta) return unreadable(meta.error());
    if (commit.mutation == Mutation::kSet) {
      record->content = commit.content;
      decision.encoded.pieces = {payload_of(answer.reply), content_head, commit.inline_value};
    } else {
      const auto encode = [&](std::string& text) { node::encode(record->content, text); };
      decision.encoded.pieces = {payload_of(answer.reply), bytes_of(encode)};
    }
  } else {
    return decision;  // refused, and there is no record
  }
  if (!answer.args.superseded.empty()) {
    node::Reader in(node::as_view(answer.args.superseded));
    auto content = node::decode_content(in);
    if (!content) return unreadable(content.error());
    decision.result.superseded = std::move(content->segments);
    decision.result.superseded_scheme = content->scheme;
  }
  decision.result.record = record;
  return decision;
}

// True if the record's list of attempts reaches back to a version that is below any that the
// attempt could have been given, so that an attempt that is not in it did not commit (rule 6).
bool covers(const node::Record* record, uint64_t known_version) {
  if (record == nullptr) return true;
  const auto& recent = record->meta.recent;
  return recent.size() < node::kRecentAttempts || recent.front().version <= known_version;
}

// Counts a commit that has reached the tail of `map` with less than its scheme promises.
void count_degraded(OpsContext& ops, const node::ClusterMap& map, const Commit& commit) {
  if (moves_shards(commit.mutation)) return;  // no client's write
  const int m = ops.pools.pool_of(commit.key).scheme.m;
  const auto lacks_shards = [](const node::Segment& segment) {
    return std::ranges::find(segment.placement, kNoNode) != segment.placement.end();
  };
  if (!chain_of(map, commit.key).survives(m) ||
      std::ranges::any_of(commit.content.segments, lacks_shards)) {
    ++ops.counters.degraded_writes;
  }
}

CommitResult found_committed(const Commit& commit, RecordPtr record) {
  CommitResult result;
  result.is_exact = has_value_of(*record, commit.attempt_id);
  result.record = std::move(record);
  return result;
}

enum class Verdict : uint8_t {
  kCannotTell,    // not yet
  kCommitted,     // and the chain is finished
  kNeverCommits,  // definitely not, and no late copy can change that
  kForgotten,     // it may have committed, too long ago for the list of attempts
};
struct Look {
  Verdict verdict = Verdict::kCannotTell;
  RecordPtr record;
};

Task<Result<Look>> look_at_head(OpsContext& ops, const MapPtr& map, bool is_newer,
                                const Commit& commit, uint64_t known_version, TimePoint deadline) {
  auto head = co_await try_read_head(ops, map, commit.key, deadline);
  if (!head) co_return fail(head.error());
  const RecordPtr record = head->record;
  if (mutant(Mutant::kMismatchIsFailure)) co_return Look{Verdict::kNeverCommits, nullptr};
  if (record == nullptr || record->find_attempt(commit.attempt_id) == nullptr) {
    if (!is_newer) co_return Look{};
    // A LOST partition has forgotten its history.
    const bool is_lost = map->partitions[map->partition_of(commit.key)].lost;
    const bool is_covered = !is_lost && covers(record.get(), known_version);
    co_return Look{is_covered ? Verdict::kNeverCommits : Verdict::kForgotten, nullptr};
  }
  const NodeRoomsPtr rooms = ops.map.rooms();
  const EncodedRecord bytes = encoded(*record);
  auto pushed = co_await push_down(ops.nodes, *rooms, map, commit.key, bytes, kRevive,
                                   call_deadline(ops, deadline));
  if (pushed) co_return Look{Verdict::kCommitted, record};
  if (pushed.error().code == ErrorCode::kConflict) {
    co_await lift_above_floor(ops, map, std::string(commit.key), record, deadline);
  }
  co_return Look{};
}

// An answer or a store of an attempt went missing.
struct Unsettled {
  OpsContext& ops;
  const MapPtr& pinned;
  const Commit& commit;
  const Error why;
  const uint64_t known_version;

  Task<Result<Look>> look(const MapPtr& map, TimePoint& deadline) const {
    const bool is_newer = map->epoch.number > pinned->epoch.number;
    if (mutant(Mutant::kResendAlways) && !is_newer) {
      const NodeId head = chain_of(*map, commit.key).head();
      (void)co_await ask(ops.nodes, *map, head, apply_question(*map, commit, content_head(commit)),
                         call_deadline(ops, deadline));
    }
    auto look = co_await look_at_head(ops, map, is_newer, commit, known_version, deadline);
    if (!look && look.error().code == ErrorCode::kCancelled) co_return fail(look.error());
    if (!look || look->verdict == Verdict::kCannotTell) {
      co_return fail(ErrorCode::kTimeout, "{}", why.message);
    }
    if (look->verdict == Verdict::kCommitted) count_degraded(ops, *map, commit);
    co_return look;
  }
};

// Finds out whether the attempt has committed, and finishes the chain if so. Nothing is sent again.
// Under a newer epoch no copy of the old frame can take effect any more, so then a record whose
// list covers the attempt and lacks it settles that it never will.
Task<Result<CommitResult>> settle(OpsContext& ops, const MapPtr& pinned, const Commit& commit,
                                  Error why, TimePoint deadline) {
  // Whatever is committed under a map is above its floor.
  const Unsettled attempt{ops, pinned, commit, std::move(why),
                          std::max(commit.known_version, pinned->version_floor)};
  const auto look = co_await under_newest_map(
      ops, deadline, [&](const MapPtr& map, TimePoint& until) { return attempt.look(map, until); });
  if (look && look->verdict == Verdict::kCommitted) co_return found_committed(commit, look->record);
  const std::string& reason = attempt.why.message;
  if (look && look->verdict == Verdict::kNeverCommits) {
    co_return fail(ErrorCode::kStaleEpoch, "not committed: {}", reason);
  }
  if (mutant(Mutant::kTimeoutIsNotDone)) co_return fail(ErrorCode::kTimeout, "{}", reason);
  co_return unknown_outcome(ops, reason);
}

// Whether it may be an update in the head's log that the value has another cas by, rather than its
// record, which is at the tail.
bool depends_on_log(const node::ClusterMap& map, const Commit& commit, const CommitResult& result) {
  return may_have_log(map) && commit.condition == Condition::kIfValueVersion &&
         result.status == CommitStatus::kConditionFailed && result.record != nullptr &&
         result.record->is_striped() &&
         node::last_change(*result.record, 0) <= commit.condition_argument;
}

// What became of the calls around a commit that was refused says nothing about the commit.
Error not_committed(Error error) {
  if (error.code != ErrorCode::kCancelled && may_be_done(error)) {
    error.code = ErrorCode::kUnavailable;
  }
  return error;
}

// Whether the head has refused the attempt for good as it lacked what it takes to decide.
bool lacks_something(const Answer<RecordApplyRequest>& answer) {
  return answer.status() == Status::kNotSynced ||
         (answer.status() == Status::kConditionFailed && answer.args.has_unnumbered);
}

// Sees to what the head lacks to decide, so that an attempt may go again.
Task<Result<void>> help_head(OpsContext& ops, MapPtr map, Commit& commit,
                             const Answer<RecordApplyRequest>& answer, TimePoint deadline) {
  const std::string key(commit.key);
  if (answer.status() == Status::kNotSynced) {
    auto synced = co_await sync_key(ops, map, key, deadline);
    if (!synced) co_return fail(synced.error());
    if (ops.clock.now() >= deadline) {
      co_return fail(ErrorCode::kUnavailable, "the key could not be synced in time");
    }
    co_return Result<void>();
  }
  auto numbered = co_await number_all(ops, map, key, chain_of(*map, key).head(), deadline);
  if (!numbered) co_return fail(not_committed(numbered.error()));
  if (ops.clock.now() >= deadline) {
    co_return fail(ErrorCode::kUnavailable, "the value was changed again and again");
  }
  commit.attempt_id = ops.ids.next();
  co_return Result<void>();
}

// Whether the value has the cas of the condition after all, by what all copies of its log have.
Task<Result<bool>> has_cas(OpsContext& ops, const MapPtr& map, const Commit& commit,
                           TimePoint deadline) {
  if (ops.clock.now() >= deadline) {
    co_return fail(ErrorCode::kUnavailable, "the value was changed again and again");
  }
  const auto tail = co_await try_read_updated(ops, map, commit.key, /*if_version=*/0, /*offset=*/0,
                                              UINT64_MAX, deadline);
  if (!tail) co_return fail(tail.error());
  co_return tail->record != nullptr&& is_live_now(ops, *map, *tail->record) &&
      node::cas_of(*tail->record, tail->last_lsn()) == commit.condition_argument;
}

}  // namespace

Result<void> check_homes(const OpsContext& ops, const node::ClusterMap& map, std::string_view key,
                         bool adds_nothing) {
  const Chain chain = chain_of(map, key);
  const Pool& pool = ops.pools.pool_of(key);
  if (chain.nodes.empty()) {
    return fail(ErrorCode::kTooFewNodes, "no home of the key's partition is up");
  }
  if (map.max_parities < pool.scheme.m && !pool.degraded_writes && !adds_nothing) {
    return fail(ErrorCode::kTooFewNodes,
                "the cluster keeps {} copies of records and the pool wants {}: the proxy that "
                "decides has no such pool",
                map.max_parities + 1, pool.scheme.m + 1);
  }
  if (!chain.survives(pool.scheme.m) && !pool.degraded_writes && !adds_nothing) {
    return fail(ErrorCode::kTooFewNodes,
                "{} of {} homes are up and have room, and degraded_writes is off",
                chain.nodes.size(), pool.scheme.m + 1);
  }
  return {};
}

Task<void> lift_above_floor(OpsContext& ops, MapPtr map, std::string key, RecordPtr record,
                            TimePoint deadline) {
  Commit fence;
  fence.key = key;
  fence.condition = Condition::kIfVersion;
  fence.condition_argument = record->meta.version;
  fence.mutation = Mutation::kFence;
  fence.attempt_id = ops.ids.next();
  const NodeId head = chain_of(*map, fence.key).head();
  const auto fenced = co_await ask(ops.nodes, *map, head, apply_question(*map, fence, {}),
                                   call_deadline(ops, deadline));
  if (fenced && fenced->status() == Status::kOk) ++ops.counters.fences;
}

Task<Result<CommitResult>> commit(OpsContext& ops, const MapPtr& map, Commit& commit,
                                  TimePoint deadline) {
  const bool adds_nothing =
      commit.mutation == Mutation::kDelete || commit.mutation == Mutation::kFence;
  if (auto homes = check_homes(ops, *map, commit.key, adds_nothing); !homes) {
    co_return fail(homes.error());
  }
  // The lock of the key, or what came before, may have taken all the time that there was: what is
  // sent now could only end as unknown.
  if (ops.clock.turn_time() >= deadline) {
    co_return fail(ErrorCode::kNotSent, "the commit could not begin in time");
  }
  const bool depends_on_cas =
      commit.made_of_cas != 0 || commit.condition == Condition::kIfValueVersion;
  if (depends_on_cas && is_in_place(ops.pools.pool_of(commit.key).updates)) {
    auto told = co_await tell_head_numbers(ops, map, std::string(commit.key), deadline);
    if (!told) co_return fail(told.error());
  }
  const Chain chain = chain_of(*map, commit.key);
  const NodeRoomsPtr rooms = ops.map.rooms();
  RoomClaim claim(*rooms);
  if (auto room = claim.make(ops, *map, chain, commit); !room) co_return fail(room.error());
  commit.attempt_id = ops.ids.next();
  if (mutant(Mutant::kAttemptIsTxid) && !commit.content.segments.empty()) {
    commit.attempt_id = commit.content.segments.front().data_txid;
  }
  if (mutant(Mutant::kReshapeIsTxid) && commit.mutation == Mutation::kReshape) {
    commit.attempt_id = commit.content.segments.front().data_txid;
  }

  if (commit.content.is_marked() && !commit.inline_value.empty()) {  // marks follow the value
    commit.content.value = std::exchange(commit.inline_value, {}).text();
  }
  const Buffer content = content_head(commit);
  if (content.size() + commit.inline_value.size() > node::kMaxContentBytes) {
    co_return fail(ErrorCode::kTooLarge, "object too large for cache");
  }
  for (;;) {
    auto answer = co_await ask(ops.nodes, *map, chain.head(), apply_question(*map, commit, content),
                               call_deadline(ops, deadline));
    if (!answer) {
      const Error& error = answer.error();
      if (!may_be_done(error)) co_return fail(error);
      if (error.code == ErrorCode::kCancelled) co_return unknown_outcome(ops, "shutting down");
      co_return co_await settle(ops, map, commit, error, deadline);
    }
    rooms->note_free_bytes(chain.head(), answer->reply.header.free_bytes);
    if (answer->status() == Status::kNoSpace) {
      co_return fail(refusal(*map, chain.head(), answer->reply));
    }
    if (lacks_something(*answer)) {
      const auto helped = co_await help_head(ops, map, commit, *answer, deadline);
      if (!helped) co_return fail(helped.error());
      continue;
    }

    auto decision = read_decision(*map, chain.head(), commit, content, *answer);
    if (!decision) co_return co_await settle(ops, map, commit, decision.error(), deadline);
    answer->reply.body = {};  // a part of what the channel reads to
    CommitResult& result = decision->result;
    const bool committed = result.status == CommitStatus::kCommitted;
    if (decision->encoded.empty() || (committed && mutant(Mutant::kAckBeforeTail))) {
      co_return std::move(result);
    }
    if (committed && mutant(Mutant::kDeleteBeforeTail)) {
      co_await delete_shards(ops, shards_by_node(result.superseded_scheme, result.superseded),
                             call_deadline(ops, deadline));
    }
    if (committed) fail_point(FailPoint::kHeadCommitted);
    auto pushed = co_await push_down(ops.nodes, *rooms, map, commit.key, decision->encoded, kRevive,
                                     call_deadline(ops, deadline));
    if (mutant(Mutant::kRestampEpoch)) {
      for (MapPtr tried = map; committed && !pushed; tried = ops.map.current()) {
        auto again = co_await before_retry(ops, tried, pushed.error(), deadline);
        if (!again || ops.map.current() == nullptr) break;
        pushed = co_await push_down(ops.nodes, *rooms, ops.map.current(), commit.key,
                                    decision->encoded, kRevive, call_deadline(ops, deadline));
      }
    }
    if (pushed && !committed && depends_on_log(*map, commit, result)) {
      auto value = co_await has_cas(ops, map, commit, deadline);
      if (!value) co_return fail(value.error());
      if (*value) {  // what the head had then is nowhere, or not settled as it was
        commit.attempt_id = ops.ids.next();
        continue;
      }
    }
    if (pushed) {
      if (committed) count_degraded(ops, *map, commit);
      co_return std::move(result);
    }
    if (!committed) {
      // A refusal that could not be made visible may be tried again: nothing was committed.
      if (pushed.error().code == ErrorCode::kConflict) {
        co_await lift_above_floor(ops, map, std::string(commit.key), result.record, deadline);
      }
      co_return fail(ErrorCode::kUnavailable, "{}", pushed.error().message);
    }
    co_return co_await settle(ops, map, commit, pushed.error(), deadline);
  }
}

Task<Result<CommitResult>> commit_record(OpsContext& ops, Commit& request, TimePoint deadline) {
  return under_newest_map(ops, deadline, [&ops, &request](const MapPtr& map, TimePoint& until) {
    return commit(ops, map, request, until);
  });
}

}  // namespace elastripe::records
