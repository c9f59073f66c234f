#include "proxy/ops/records/sync_copies.h"

#include <algorithm>
#include <set>

#include "proxy/async/when_all.h"
#include "proxy/cluster/record_chain.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/records/newest_log.h"
#include "proxy/ops/records/sync_steps.h"

namespace elastripe::records {

using node::Partition;
using node::Role;
using node::Status;

namespace {

// A floor rises between two looks only if yet another copy of the partition is found damaged.
constexpr int kLooks = 4;

// The copy was damaged, and nothing has been stored there since that is certain to be as new.
bool cannot_tell(const RecordReply& reply) {
  return reply.status == Status::kBadPage &&
         (reply.record == nullptr || reply.record->meta.version < reply.damaged_version);
}

struct Look {
  Copies copies;
  std::vector<ToldLog> logs;
  std::set<NodeId> damaged;      // who can not tell
  std::vector<NodeId> behind;    // homes whose floor is below that of others
  uint64_t damaged_version = 0;  // none of the damaged copies had a higher one
  uint64_t intact_version = 0;   // the highest that somebody who can tell has a record of
  bool any_damaged = false;      // some copy is to be replaced
  bool any_forgot = false;       // a source: all homes are synced

  LogViewPtr newest_log(LogCopies log_copies) const {
    return copies.newest == nullptr ? nullptr
                                    : records::newest_log(*copies.newest, logs, log_copies);
  }
  void add(const node::ClusterMap& map, const RecordReply& reply) {
    copies.floor = std::max(copies.floor, reply.floor);
    damaged_version = std::max(damaged_version, reply.damaged_version);
    any_forgot |= reply.status == Status::kNotSynced;
    const RecordPtr& newest = copies.newest;
    if (reply.record == nullptr) return;
    logs.push_back(told_log(map, reply));
    if (!cannot_tell(reply)) {
      intact_version = std::max(intact_version, reply.record->meta.version);
    }
    if (newest == nullptr || reply.record->meta.version > newest->meta.version) {
      copies.newest = reply.record;
    }
  }
};

Task<Result<Look>> look_at(OpsContext& ops, MapPtr map, const std::string& key,
                           const std::vector<NodeId>& nodes, TimePoint deadline) {
  std::vector<Task<Result<RecordReply>>> reads;
  reads.reserve(nodes.size());
  const bool have_logs = map->capabilities.has(node::Capability::kUpdateLogs);
  const LogQuestion log{have_logs ? node::LogWanted::kImage : node::LogWanted::kNone};
  for (const NodeId id : nodes) {
    reads.push_back(read_record(ops.nodes, map, id, Role::kAny, key, /*if_version=*/0,
                                call_deadline(ops, deadline), log));
  }
  const auto replies = co_await when_all(std::move(reads));
  Look look;
  for (size_t i = 0; i < nodes.size(); ++i) {
    // All of them count: any may be the only one that holds the newest copy.
    if (!replies[i]) co_return fail(replies[i].error());
    look.add(*map, *replies[i]);
    if (replies[i]->status == Status::kBadPage) look.any_damaged = true;
    if (cannot_tell(*replies[i])) look.damaged.insert(nodes[i]);
  }
  const std::vector<NodeId>& homes = map->partitions[map->partition_of(key)].homes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const bool is_home = std::ranges::find(homes, nodes[i]) != homes.end();
    if (is_home && replies[i]->floor < look.copies.floor) look.behind.push_back(nodes[i]);
  }
  co_return look;
}

// Every acknowledged record is on each node of at least one group of sources, or on each home: if
// the partition is synced, or it was committed since. So the newest is known if some node of each
// group can tell, or if no damaged copy was newer than what is intact.
bool is_certain(const Partition& partition, const Look& look) {
  const auto is_damaged = [&](NodeId id) { return look.damaged.contains(id); };
  const auto tells = [&](const std::vector<NodeId>& group) {
    return group.empty() || !std::ranges::all_of(group, is_damaged);
  };
  if (look.intact_version != 0 && look.intact_version >= look.damaged_version) return true;
  const bool homes_suffice = partition.sources.empty() || look.any_forgot;
  return tells(partition.homes) && (homes_suffice || std::ranges::all_of(partition.sources, tells));
}

// Head and tail answer only if the key is synced there: then they have the newest, whatever the
// sources of the partition had.
Task<Result<bool>> ask_synced(OpsContext& ops, MapPtr map, const std::string& key, Look& look,
                              TimePoint deadline) {
  const Chain chain = chain_of(*map, key);
  if (chain.nodes.empty()) co_return false;
  for (const Role role : {Role::kTail, Role::kHead}) {
    const NodeId from = role == Role::kHead ? chain.head() : chain.tail();
    if (look.damaged.contains(from)) continue;
    auto reply = co_await read_record(ops.nodes, map, from, role, key, /*if_version=*/0,
                                      call_deadline(ops, deadline));
    if (!reply && reply.error().code == ErrorCode::kLost) continue;
    if (!reply) co_return fail(reply.error());
    if (reply->status == Status::kNotSynced) continue;
    look.add(*map, *reply);
    co_return true;
  }
  co_return false;
}

// Sync numbers what copies have without a number, unless the tail is synced, and may number it
// otherwise: then its log is what counts, and has all that was acknowledged (rule 14).
Task<Result<void>> leave_numbers_to_tail(OpsContext& ops, MapPtr map, const std::string& key,
                                         Look& look, TimePoint deadline) {
  LogViewPtr& log = look.copies.log;
  if (log == nullptr || log->image.unnumbered.empty()) {
    co_return Result<void>{};
  }
  const Chain chain = chain_of(*map, key);
  if (chain.nodes.empty()) co_return Result<void>{};
  const auto told = co_await read_record(ops.nodes, map, chain.tail(), Role::kTail, key,
                                         /*if_version=*/0, call_deadline(ops, deadline),
                                         {node::LogWanted::kImage});
  if (!told && told.error().code != ErrorCode::kLost) co_return fail(told.error());
  if (!told || told->record == nullptr) co_return Result<void>{};
  const node::Record& newest = *look.copies.newest;
  if (told->record->meta.value_version == newest.meta.value_version) {
    log = told->log != nullptr ? told->log : empty_log(newest);
  }
  co_return Result<void>{};
}

// A missing record counts as a tombstone of the floor's version: what is put in place of a damaged
// copy that no other home knows anything of.
RecordPtr tombstone_of(uint64_t floor) {
  const auto record = new_record();
  record->meta.version = record->meta.fence = std::max<uint64_t>(floor, 1);
  return record;
}

}  // namespace

Task<Result<Copies>> read_copies(OpsContext& ops, MapPtr map, std::string key,
                                 std::vector<NodeId> nodes, TimePoint deadline) {
  const auto number = static_cast<uint32_t>(map->partition_of(key));
  const Partition& partition = map->partitions[number];
  bool had_forgotten = false;
  for (int looks = 0; looks < kLooks; ++looks) {
    auto look = co_await look_at(ops, map, key, nodes, deadline);
    if (!look) co_return fail(look.error());
    look->copies.log = look->newest_log(ops.pools.pool_of(key).log_copies);
    auto left = co_await leave_numbers_to_tail(ops, map, key, *look, deadline);
    if (!left) co_return fail(left.error());
    if (!look->any_damaged) co_return std::move(look->copies);
    if (!look->behind.empty()) {
      // What the others have may change until they have it.
      auto raised = co_await raise_floors(
          ops.nodes, map, look->behind, {number, look->copies.floor}, call_deadline(ops, deadline));
      if (!raised) co_return fail(raised.error());
      continue;
    }
    // Others may have answered before they were brought what the source had.
    if (look->any_forgot && !std::exchange(had_forgotten, true)) continue;
    if (!is_certain(partition, *look)) {
      auto known = co_await ask_synced(ops, map, key, *look, deadline);
      if (!known) co_return fail(known.error());
      if (!*known) {
        look->copies.lost_version = std::max<uint64_t>(look->damaged_version, 1);
        co_return std::move(look->copies);
      }
      look->copies.log = look->newest_log(ops.pools.pool_of(key).log_copies);
      left = co_await leave_numbers_to_tail(ops, map, key, *look, deadline);
      if (!left) co_return fail(left.error());
    }
    // What was stored over a damaged copy, and nobody else has, may be older than a tombstone that
    // was collected since.
    const RecordPtr& newest = look->copies.newest;
    const bool is_gone = newest == nullptr ||
                         (look->intact_version == 0 && newest->meta.version <= look->copies.floor);
    if (is_gone && !partition.lost) {
      look->copies.newest = tombstone_of(look->copies.floor);
    }
    ++ops.counters.records_mended;
    co_return std::move(look->copies);
  }
  co_return fail(ErrorCode::kUnavailable, "copies of the partition's records keep being damaged");
}

}  // namespace elastripe::records
