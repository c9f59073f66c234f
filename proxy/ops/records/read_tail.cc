#include "proxy/ops/records/read_tail.h"

#include <algorithm>

#include "proxy/base/log.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/records/log_copies.h"
#include "proxy/ops/records/sync.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe::records {

using node::Role;
using node::Status;

namespace {

// Asked for as it is read or folded, and not only shown.
bool is_to_be_settled(const LogQuestion& question, const TailRead& read) {
  const bool settles =
      question.wanted == node::LogWanted::kView || question.wanted == node::LogWanted::kFold;
  return settles && read.log != nullptr && !read.log->image.unsettled.empty() &&
         !mutant(Mutant::kReadUnsettled);
}

// One flow for all that is asked, as most GETs wait for nothing else.
Task<Result<TailRead>> try_read(OpsContext& ops, const MapPtr& map, Role role, std::string_view key,
                                uint64_t if_version, TimePoint deadline,
                                LogQuestion question = {}) {
  const Chain chain = chain_of(*map, key);
  if (chain.nodes.empty()) {
    co_return fail(ErrorCode::kUnavailable, "no home of the key's partition is up");
  }
  const NodeId from = role == Role::kHead ? chain.head() : chain.tail();
  for (;;) {
    auto reply = co_await read_record(ops.nodes, map, from, role, key, if_version,
                                      call_deadline(ops, deadline), question);
    if (!reply) co_return fail(reply.error());
    if (reply->status == Status::kNotSynced) {
      if (ops.clock.now() >= deadline) {
        co_return fail(ErrorCode::kTimeout, "the key could not be synced in time");
      }
      auto synced = co_await sync_key(ops, map, std::string(key), deadline);
      if (!synced) co_return fail(synced.error());
      continue;
    }
    TailRead read{reply->status == Status::kSame, std::move(reply->record), reply->floor};
    read.log = std::move(reply->log);
    read.use = reply->use;
    if (!is_to_be_settled(question, read)) co_return read;
    auto helped = co_await settle_view(ops, map, std::string(key), read.log, deadline);
    if (!helped) co_return fail(helped.error());
    if (*helped) co_return read;
    // The value has been replaced, and the tail knows it by now. A log that was taken stays so.
    if (question.wanted == node::LogWanted::kFold) question.wanted = node::LogWanted::kView;
    if (ops.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "the object was overwritten again and again");
    }
  }
}

Role reading_role() { return mutant(Mutant::kReadHead) ? Role::kHead : Role::kTail; }

}  // namespace

Task<Result<TailRead>> try_read_tail(OpsContext& ops, const MapPtr& map, std::string_view key,
                                     uint64_t if_version, TimePoint deadline) {
  return try_read(ops, map, reading_role(), key, if_version, deadline);
}

Task<Result<TailRead>> try_read_head(OpsContext& ops, const MapPtr& map, std::string_view key,
                                     TimePoint deadline) {
  return try_read(ops, map, Role::kHead, key, 0, deadline);
}

namespace {

// What was acknowledged before the read was asked for is in what the tail has.
void look_for_lost_updates(OpsContext& ops, std::string_view key, uint64_t acknowledged,
                           const TailRead& read, uint64_t if_version) {
  if (!read.same && read.record == nullptr) return;
  const uint64_t version = read.same ? if_version : read.record->meta.version;
  if (acknowledged <= std::max(version, read.last_lsn())) return;
  ops.cache.erase(key);  // it is counted once
  ++ops.counters.lost_updates;
  log_warning("updates of \"{}\" are lost that were acknowledged: too many copies of its log died",
              key);
}

Task<Result<TailRead>> read_acknowledged(OpsContext& ops, const MapPtr& map, std::string_view key,
                                         uint64_t if_version, LogQuestion question,
                                         uint64_t acknowledged, TimePoint deadline) {
  auto read = co_await try_read(ops, map, reading_role(), key, if_version, deadline, question);
  if (read) look_for_lost_updates(ops, key, acknowledged, *read, if_version);
  co_return read;
}

}  // namespace

Task<Result<TailRead>> try_read_updated(OpsContext& ops, const MapPtr& map, std::string_view key,
                                        uint64_t if_version, uint64_t offset, uint64_t length,
                                        TimePoint deadline, Use use) {
  LogQuestion question;
  if (map->capabilities.has(node::Capability::kMarks)) {
    question.is_use = use == Use::kCounts || use == Use::kCountsAndTells;
    question.tells_use = use == Use::kTells || use == Use::kCountsAndTells;
  }
  if (!may_have_log(*map)) {
    return try_read(ops, map, reading_role(), key, if_version, deadline, question);
  }
  question.wanted = node::LogWanted::kView;
  question.offset = offset;
  question.length = length;
  const uint64_t acknowledged = ops.cache.acknowledged_lsn(key);
  if (acknowledged == 0) {
    return try_read(ops, map, reading_role(), key, if_version, deadline, question);
  }
  return read_acknowledged(ops, map, key, if_version, question, acknowledged, deadline);
}

Task<Result<TailRead>> try_read_to_fold(OpsContext& ops, const MapPtr& map, std::string_view key,
                                        bool takes, TimePoint deadline) {
  LogQuestion question{takes ? node::LogWanted::kFold : node::LogWanted::kView, 0, UINT64_MAX};
  if (mutant(Mutant::kFoldUnsettled)) question.wanted = node::LogWanted::kImage;
  return try_read(ops, map, reading_role(), key, /*if_version=*/0, deadline, question);
}

Task<Result<TailRead>> try_read_log(OpsContext& ops, const MapPtr& map, std::string_view key,
                                    TimePoint deadline) {
  if (!may_have_log(*map)) return try_read_tail(ops, map, key, /*if_version=*/0, deadline);
  return try_read(ops, map, reading_role(), key, /*if_version=*/0, deadline,
                  {.wanted = node::LogWanted::kImage});
}

namespace {

Task<Result<TailRead>> read_with_map(OpsContext& ops, MapPtr map, std::string_view key,
                                     TimePoint deadline) {
  auto read = co_await try_read_tail(ops, map, key, /*if_version=*/0, deadline);
  if (read) read->map = std::move(map);
  co_return read;
}

}  // namespace

Task<Result<TailRead>> read_tail(OpsContext& ops, std::string_view key, TimePoint deadline) {
  return under_newest_map(ops, deadline, [&ops, key](const MapPtr& map, TimePoint& until) {
    return read_with_map(ops, map, key, until);
  });
}

}  // namespace elastripe::records
