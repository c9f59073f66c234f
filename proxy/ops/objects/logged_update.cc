#include "proxy/ops/objects/logged_update.h"

#include <algorithm>
#include <array>
#include <optional>

#include "proxy/async/when_all.h"
#include "proxy/base/crc32c.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/fold.h"
#include "proxy/ops/records/commit.h"
#include "proxy/ops/records/log_copies.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/records/store_update.h"
#include "proxy/ops/records/sync.h"
#include "server-patches/node/format/fail_point.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::objects {

namespace {

using node::LogAppendRequest;
using node::Status;

// So often others may take the room that was made for an update.
constexpr int kMostFolds = 20;
// So often it waits where there is nothing to fold, as logs of other keys fill the node.
constexpr int kMostPauses = 20;
constexpr Duration kFoldWait = std::chrono::milliseconds(5);
// So long it waits for the fold of another thread or proxy, and altogether where there is nothing
// to fold.
constexpr Duration kMostWait = std::chrono::seconds(1);

class LoggedUpdate {
 public:
  LoggedUpdate(OpsContext& ops, const UpdateRequest& request, Buffer bytes)
      : ops_(ops),
        key_(request.key),
        cas_(request.cas),
        offset_(request.offset),
        bytes_(std::move(bytes)),
        crc32c_(elastripe::crc32c(bytes_.bytes())) {}

  Task<Result<LoggedUpdateEnd>> run(TimePoint deadline) {
    auto end = co_await under_newest_map(
        ops_, deadline,
        [this](const MapPtr& map, TimePoint& until) { return attempt(map, until); });
    if (end) co_return LoggedUpdateEnd{end->outcome, std::exchange(turn_, std::nullopt)};
    if (may_be_done_) co_return unknown_outcome(ops_, end.error().message);
    co_return fail(end.error());
  }

 private:
  // What the flow has come to: without an outcome, the update is not for the log.
  struct End {
    std::optional<UpdateOutcome> outcome;
  };
  using MaybeEnd = std::optional<End>;  // nothing: begin again at once

  MaybeEnd ended(UpdateStatus status) const {
    const uint64_t size = record_ == nullptr ? 0 : record_->content.size;
    return End{UpdateOutcome{.status = status, .cas = 0, .size = size}};
  }

  Task<Result<MaybeEnd>> attempt(MapPtr map, TimePoint& deadline) {
    if (!records::takes_updates(ops_, *map, key_) && !may_be_done_) co_return End{};
    auto homes = records::check_homes(ops_, *map, key_);
    if (!homes) co_return fail(homes.error());
    if (record_ == nullptr) {
      auto known = co_await find_record(map, deadline);
      if (!known) co_return fail(known.error());
      if (record_ == nullptr) co_return ended(UpdateStatus::kNotFound);
    }
    if (!record_->is_striped()) co_return End{};
    const uint64_t size = record_->content.size;
    if (bytes_.size() > size || offset_ > size - bytes_.size()) {
      co_return co_await refused_range(map, deadline);
    }
    if (id_.is_zero()) {
      id_ = ops_.ids.next();
      // All that is known of the key: whoever has forgotten what came after it must not take it.
      known_ = std::max({record_->meta.version, ops_.cache.last_lsn(key_), told_});
      first_epoch_ = map->epoch.number;
    }
    co_return co_await append(map, deadline);
  }

  // The record may be an old one, known from the cache: others may have made it longer.
  Task<Result<MaybeEnd>> refused_range(MapPtr map, TimePoint deadline) {
    const uint64_t version = record_->meta.version;
    auto tail = co_await records::try_read_tail(ops_, map, key_, version, deadline);
    if (!tail) co_return fail(tail.error());
    if (!tail->same) take_record(tail->record);
    if (record_ == nullptr || !is_live_now(ops_, *map, *record_)) {
      co_return ended(UpdateStatus::kNotFound);
    }
    if (tail->same) co_return ended(UpdateStatus::kOutOfRange);
    co_return std::nullopt;
  }

  Task<Result<void>> find_record(MapPtr map, TimePoint deadline) {
    record_ = ops_.cache.find(key_);
    if (record_ != nullptr) co_return Result<void>{};
    auto tail = co_await records::try_read_tail(ops_, map, key_, /*if_version=*/0, deadline);
    if (!tail) co_return fail(tail.error());
    const bool is_live = tail->record != nullptr && is_live_now(ops_, *map, *tail->record);
    take_record(is_live ? tail->record : nullptr);
    co_return Result<void>{};
  }

  void take_record(RecordPtr record) {
    record_ = std::move(record);
    if (record_ != nullptr) {
      ops_.cache.put(key_, record_);
    } else {
      ops_.cache.erase(key_);
    }
  }

  // Nothing of it has happened, or ever will: what follows is another update.
  void forget() {
    id_ = {};
    may_be_done_ = false;
    tail_may_have_ = false;
  }

  // Whether the update can not have a number up to `last`. If the tail has never taken it, then
  // only a sync can give it one, of what a copy was sent: under a later map, and above its floor.
  bool is_after(uint64_t last) const {
    if (mutant(Mutant::kForgetAsked)) return true;
    return !tail_may_have_ && last <= node::first_version_of(first_epoch_ + 1);
  }

  // What refuses an update that may have been taken before.
  Result<MaybeEnd> refuse_again(std::string_view why) const {
    return fail(ErrorCode::kUnknownOutcome, "{}", why);
  }

  Question<LogAppendRequest> append_question(const MapPtr& map) const {
    LogAppendRequest message;
    message.m = map->max_parities;
    message.id = id_;
    message.value = record_->meta.value_version;
    message.known = known_;
    message.cas = cas_ ? version_of_cas(key_, *cas_) : 0;
    message.offset = offset_;
    message.crc32c = crc32c_;
    message.key = key_;
    message.settled_to = records::take_settled(ops_, map, key_, message.value);
    auto append = question(message);
    append.payload(std::array{bytes_});
    return append;
  }

  // First the tail: it says whether the update is made at all, and as which.
  Task<Result<MaybeEnd>> append(MapPtr map, TimePoint& deadline) {
    // What came before goes first. What the tail may have needs no room.
    if (!turn_ && !may_be_done_ && !ops_.log_room.turns.is_free(key_)) {
      auto waited = co_await wait_for_turn(deadline);
      if (!waited) co_return fail(waited.error());
      turn_.reset();
    }
    if (goes_at_once(*map)) {
      // While others are on their way to the copies it goes with the next of these.
      if (auto guard = ops_.storing.rounds.try_lock(key_)) {
        co_return co_await append_at_once(map, std::move(*guard), deadline);
      }
    }
    for (;;) {
      auto answer = co_await ask_tail(map, deadline);
      if (!answer || answer->status() != Status::kNotSynced) {
        co_return co_await answered(map, std::move(answer), deadline);
      }
      auto synced = co_await sync(map, deadline);
      if (!synced) co_return fail(synced.error());
    }
  }

  Task<Result<void>> sync(MapPtr map, TimePoint deadline) {
    if (ops_.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "the key could not be synced in time");
    }
    co_return co_await records::sync_key(ops_, map, std::string(key_), deadline);
  }

  // What is refused, by a condition or as it is still without room, does not go to the copies; nor
  // what may be there already.
  bool goes_at_once(const node::ClusterMap& map) const {
    return map.capabilities.has(node::Capability::kUnnumberedUpdates) &&
           ops_.pools.pool_of(key_).log_rounds == LogRounds::kOne && !cas_ && !turn_ &&
           !may_be_done_;
  }

  using TailAnswer = Result<Answer<LogAppendRequest>>;

  Task<TailAnswer> ask_tail(MapPtr map, TimePoint deadline) {
    co_return co_await ask(ops_.nodes, *map, chain_of(*map, key_).tail(), append_question(map),
                           call_deadline(ops_, deadline));
  }

  // Tail and copies in one round. If all have it, and none would put anything over it that the tail
  // has not put below it, that is all (rule 10). Else the copies are told its number, as in two
  // rounds.
  Task<Result<MaybeEnd>> append_at_once(MapPtr map, KeyLocks::Guard guard, TimePoint& deadline) {
    const uint64_t value = record_->meta.value_version;
    const uint64_t known = known_;
    const node::Id128 id = id_;
    auto [answer, sent] = co_await when_both(
        ask_tail(map, deadline),
        records::send_ahead(ops_, map, key_, value, {{id, 0}, offset_, bytes_, crc32c_}, known,
                            deadline));
    guard = {};
    if (answer && answer->status() == Status::kOk) {
      if (sent.is_taken && is_below(sent.ahead, answer->args.unsettled)) {
        co_return made_in_one_round(map, answer->args);
      }
      co_return co_await answered(map, std::move(answer), deadline);
    }
    if (sent.may_be_there) {
      const bool is_gone = answer && is_overwritten(*answer, value);
      const bool can_cancel = answer && answer->status() != Status::kNotSynced;
      if (!is_gone && (!can_cancel || !co_await records::cancel_at_copies(ops_, map, key_, value,
                                                                          id, known, deadline))) {
        may_be_done_ = true;
      }
    }
    if (!answer || answer->status() != Status::kNotSynced) {
      co_return co_await answered(map, std::move(answer), deadline);
    }
    // What copies have of it may get its number so.
    tail_may_have_ |= sent.may_be_there;
    auto synced = co_await sync(map, deadline);
    if (!synced) co_return fail(synced.error());
    co_return std::nullopt;
  }

  // Whether the tail has a newer value, so that all copies have forgotten the update with its
  // value, or refuse it. Copies that are newer than the tail may have it.
  bool is_overwritten(const Answer<LogAppendRequest>& answer, uint64_t value) {
    if (answer.status() != Status::kOtherValue) return false;
    const auto record = new_record();
    return node::decode_record(answer.payload(), *record) && record->meta.value_version > value;
  }

  static bool is_below(const std::vector<node::Id128>& ahead,
                       const std::vector<node::UpdateName>& numbered) {
    return std::ranges::all_of(ahead, [&](const node::Id128& id) {
      return std::ranges::find(numbered, id, &node::UpdateName::id) != numbered.end();
    });
  }

  Result<MaybeEnd> made_in_one_round(const MapPtr& map, const node::LogAppendReply& numbered) {
    fail_point(FailPoint::kUpdateSettled);
    std::vector<node::UpdateName> numbers = numbered.unsettled;
    numbers.push_back({id_, numbered.lsn});
    records::hold(ops_, map, key_, record_->meta.value_version, std::move(numbers));
    ++ops_.counters.updates_in_one_round;
    ops_.cache.note_lsn(key_, std::max(numbered.last, numbered.lsn));
    return made(numbered);
  }

  // What the tail has answered, but that it has to be synced.
  Task<Result<MaybeEnd>> answered(MapPtr map, TailAnswer answer, TimePoint& deadline) {
    if (!answer) {
      tail_may_have_ |= may_be_done(answer.error());
      may_be_done_ |= tail_may_have_;
      if (may_be_done_) turn_.reset();
      if (mutant(Mutant::kResendAsNewOp)) forget();
      co_return fail(answer.error());
    }
    if (answer->status() != Status::kOk) co_return co_await refused(map, *answer, deadline);
    turn_.reset();
    may_be_done_ = tail_may_have_ = true;
    fail_point(FailPoint::kUpdateNumbered);
    co_return co_await store(map, answer->args, deadline);
  }

  // The tail has not taken it. That is so for good only if it was not asked before in vain.
  Task<Result<MaybeEnd>> refused(MapPtr map, const Answer<LogAppendRequest>& answer,
                                 TimePoint deadline) {
    switch (answer.status()) {
      case Status::kOtherValue: {
        if (may_be_done_) {
          co_return refuse_again("the object was overwritten before the answer was known");
        }
        forget();
        const auto record = new_record();
        auto decoded = node::decode_record(answer.payload(), *record);
        if (!decoded) {
          co_return fail(malformed(*map, chain_of(*map, key_).tail(), decoded.error()));
        }
        take_record(record);
        if (record->is_striped()) co_return std::nullopt;
        co_return End{};
      }
      case Status::kForgotten:
        co_return forgotten(answer.args.last);
      case Status::kNotFound:
        if (may_be_done_)
          co_return refuse_again("the object was deleted before the answer was known");
        co_return ended(UpdateStatus::kNotFound);
      case Status::kOutOfRange:
        if (may_be_done_)
          co_return refuse_again("the object was replaced before the answer was known");
        co_return ended(UpdateStatus::kOutOfRange);
      case Status::kConditionFailed:
        if (may_be_done_)
          co_return refuse_again("the object was changed before the answer was known");
        co_return co_await refused_cas(map, deadline);
      case Status::kRenumber:
        if (may_be_done_) co_return refuse_again("no number is left for the update");
        co_return co_await renumber(map, deadline);
      default:  // kLogFull
        if (may_be_done_) co_return refuse_again("the update log is full");
        ++ops_.counters.full_logs;
        forget();
        co_return co_await make_room(map, deadline);
    }
  }

  // The tail does not remember all that came after what was known. What the proxy knew may be old:
  // another one has changed the record meanwhile.
  Result<MaybeEnd> forgotten(uint64_t last) {
    if (!may_be_done_) {
      forget();
      told_ = last;
      return std::nullopt;
    }
    if (last <= known_ || !is_after(last)) {
      return refuse_again("too much has happened before the answer was known");
    }
    known_ = last;
    return std::nullopt;
  }

  Duration note_wait(TimePoint from) {
    const Duration waited = ops_.clock.now() - from;
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(waited);
    ops_.counters.full_log_us += static_cast<uint64_t>(us.count());
    return waited;
  }

  // Folds the log, or waits for whoever does. At last the update is written into the shards, with
  // all that is in the log.
  Task<Result<MaybeEnd>> make_room(MapPtr map, TimePoint deadline) {
    if (!turn_) turn_ = ops_.log_room.turns.try_lock(key_);
    if (!turn_) {
      // Whoever has it makes room, mostly for more than its own update.
      auto waited = co_await wait_for_turn(deadline);
      if (!waited) co_return fail(waited.error());
      co_return std::nullopt;
    }
    if (folds_ == kMostFolds) co_return End{};
    const TimePoint from = ops_.clock.now();
    if (from >= deadline) co_return was_full_for_too_long();
    const bool is_made = co_await fold_now(map, deadline);
    const Duration took = note_wait(from);
    if (is_made) {
      ++folds_;
      co_return std::nullopt;
    }
    ++pauses_;
    waited_ += took;
    // Room may have been made just before it was looked for.
    const bool is_too_long = pauses_ > 1 && waited_ >= kMostWait;
    if (pauses_ == kMostPauses || is_too_long) co_return End{};
    co_return std::nullopt;
  }

  Task<Result<void>> wait_for_turn(TimePoint deadline) {
    const TimePoint from = ops_.clock.now();
    turn_ = co_await ops_.log_room.turns.lock(key_);
    waited_ += note_wait(from);
    if (ops_.clock.now() < deadline) co_return Result<void>{};
    co_return was_full_for_too_long();
  }

  static std::unexpected<Error> was_full_for_too_long() {
    return fail(ErrorCode::kTimeout, "the update log of the key was full for too long");
  }

  // Whether the log was folded, by whomever. Takes a little time if it was not.
  Task<bool> fold_now(MapPtr map, TimePoint deadline) {
    const TimePoint until = std::min(deadline, ops_.clock.now() + kMostWait);
    bool others_fold = false;  // beside updates of this thread
    while (ops_.clock.now() < until) {
      if (auto folding = ops_.log_room.folding.try_lock(key_)) {
        if (others_fold) co_return true;
        const auto end = co_await fold_log(ops_, key_, deadline, takes_);
        takes_ = end.has_value();
        if (end && *end != FoldEnd::kNothing) co_return true;
        if (end && co_await others_have_folded(map, until)) co_return true;
        break;
      }
      others_fold = true;
      if (!co_await ops_.clock.sleep_for(kFoldWait)) co_return false;  // shutting down
    }
    (void)co_await ops_.clock.sleep_for(kFoldWait);
    co_return false;
  }

  // Waits while the log has something to fold: another thread or proxy does.
  Task<bool> others_have_folded(MapPtr map, TimePoint until) {
    uint64_t version = 0;
    uint64_t age_ms = 0;  // of what is to be folded
    while (ops_.clock.now() < until) {
      auto tail = co_await records::try_read_updated(ops_, map, key_, version, /*offset=*/0,
                                                     /*length=*/0, until);
      if (!tail) co_return false;
      const uint64_t now_ms = tail->log == nullptr ? 0 : tail->log->age_ms;
      if (now_ms < age_ms) co_return true;
      if (now_ms == 0) co_return false;
      age_ms = now_ms;
      if (tail->record != nullptr) version = tail->record->meta.version;
      if (!co_await ops_.clock.sleep_for(kFoldWait)) co_return false;
    }
    co_return false;
  }

  // Begins again where the object was changed meanwhile: a log that it has taken it still has.
  static Task<Result<FoldEnd>> fold_log(OpsContext& ops, std::string key, TimePoint deadline,
                                        bool takes) {
    auto end = co_await fold_object(ops, key, deadline, takes);
    for (int i = 0; i < kMostFolds && end && *end == FoldEnd::kAgain; ++i) {
      if (ops.clock.now() >= deadline) break;
      end = co_await fold_object(ops, key, deadline);
    }
    co_return end;
  }

  // Before the log is full, as updates go on meanwhile.
  void fold_early(uint32_t cost) {
    if (cost < node::kMaxLogBytes / 2) return;
    auto folding = ops_.log_room.folding.try_lock(key_);
    if (folding) (void)ops_.background.try_spawn(fold_beside(ops_, key_, std::move(*folding)));
  }

  // `folding` is held meanwhile.
  static Task<void> fold_beside(OpsContext& ops, std::string key, KeyLocks::Guard folding) {
    (void)co_await fold_log(ops, key, fresh_deadline(ops), /*takes=*/true);
    folding = {};
  }

  // Only what all copies have may say that the value is another one.
  Task<Result<MaybeEnd>> refused_cas(MapPtr map, TimePoint deadline) {
    auto tail = co_await records::try_read_updated(ops_, map, key_, /*if_version=*/0, /*offset=*/0,
                                                   UINT64_MAX, deadline);
    if (!tail) co_return fail(tail.error());
    const bool is_live = tail->record != nullptr && is_live_now(ops_, *map, *tail->record);
    take_record(is_live ? tail->record : nullptr);
    if (!is_live) co_return ended(UpdateStatus::kNotFound);
    if (node::cas_of(*record_, tail->last_lsn()) != version_of_cas(key_, *cas_)) {
      co_return ended(UpdateStatus::kExists);
    }
    forget();
    if (ops_.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "the object was changed again and again");
    }
    co_return std::nullopt;
  }

  // Gives the record the next version, and so its updates numbers, and leaves all else.
  Task<Result<MaybeEnd>> renumber(MapPtr map, TimePoint deadline) {
    auto record = co_await records::renumber(ops_, map, key_, deadline);
    if (!record) co_return fail(record.error());
    forget();
    take_record(*record);
    if (record_ != nullptr && !is_live_now(ops_, *map, *record_)) {
      co_return ended(UpdateStatus::kNotFound);
    }
    co_return std::nullopt;
  }

  // Then the other copies.
  Task<Result<MaybeEnd>> store(MapPtr map, const node::LogAppendReply& numbered,
                               TimePoint deadline) {
    ops_.cache.note_lsn(key_, std::max(numbered.last, numbered.lsn));
    const uint64_t value = record_->meta.value_version;
    auto stored = co_await records::store_update(ops_, map, std::string(key_), value,
                                                 {{id_, numbered.lsn}, offset_, bytes_, crc32c_},
                                                 numbered, deadline);
    if (!stored) co_return fail(stored.error());
    if (stored->other != nullptr) co_return co_await overtaken(map, stored->other, deadline);
    fail_point(FailPoint::kUpdateSettled);
    records::note_settled(ops_, map, key_, value, numbered.lsn);
    co_return made(numbered);
  }

  MaybeEnd made(const node::LogAppendReply& numbered) {
    ++ops_.counters.logged_updates;
    ops_.cache.note_acknowledged(key_, numbered.lsn);
    fold_early(numbered.cost);
    UpdateOutcome outcome;
    outcome.cas = cas_of(key_, numbered.lsn);
    outcome.size = record_->content.size;
    return End{outcome};
  }

  // A copy has another value already, which the tail is about to get: then the update is gone with
  // the log that it was in.
  Task<Result<MaybeEnd>> overtaken(MapPtr map, RecordPtr newer, TimePoint deadline) {
    if (newer->meta.version == 0) {
      co_return fail(ErrorCode::kUnavailable, "a home of the key has lost its record");
    }
    auto carried = co_await records::carry_down(ops_, map, std::string(key_), newer, deadline);
    if (!carried) co_return fail(carried.error());
    forget();
    ops_.cache.erase(key_);
    record_ = nullptr;
    co_return std::nullopt;
  }

  OpsContext& ops_;
  const std::string key_;
  const std::optional<uint64_t> cas_;
  const uint64_t offset_;
  const Buffer bytes_;
  const uint32_t crc32c_;

  RecordPtr record_;                     // that it is an update of
  node::Id128 id_;                       // of the update; the same until it certainly was not made
  uint64_t known_ = 0;                   // of the key: what may be the update is above that
  uint32_t first_epoch_ = 0;             // under which it got its id
  uint64_t told_ = 0;                    // by a tail that had forgotten
  bool may_be_done_ = false;             // some node may have taken it
  bool tail_may_have_ = false;           // the tail may have given it a number
  int folds_ = 0;                        // that left it no room
  bool takes_ = true;                    // the log, to fold it: it may have it already
  int pauses_ = 0;                       // with nothing to fold
  Duration waited_{};                    // behind others, and with nothing to fold
  std::optional<KeyLocks::Guard> turn_;  // since the log was found full
};

}  // namespace

Task<Result<LoggedUpdateEnd>> update_log(OpsContext& ops, const UpdateRequest& request,
                                         Buffer bytes, TimePoint deadline) {
  LoggedUpdate update(ops, request, std::move(bytes));
  co_return co_await update.run(deadline);
}

}  // namespace elastripe::objects
