// What the copies of update logs beside the tail are asked. docs/updates.md; rules 10 to 16 of
// docs/consistency.md; docs/node-protocol.md, "LOG_STORE", "LOG_SETTLE", "LOG_CANCEL".
#include <algorithm>

#include "server-patches/node/engine/impl.h"
#include "server-patches/node/format/crc32c.h"

namespace elastripe::node {
namespace {

// Why the entries are not those of the payload, or nothing.
std::optional<std::string_view> check_entries(const LogStoreRequest& request, ByteView payload) {
  size_t at = 0;
  for (const auto& entry : request.entries) {
    if (entry.length > payload.size() - at) return "the payload lacks bytes of an update";
    if (crc32c(payload.subspan(at, entry.length)) != entry.crc32c) {
      return "an update does not match its checksum";
    }
    at += entry.length;
  }
  if (at != payload.size()) return "the payload has bytes of no update";
  return std::nullopt;
}

uint64_t highest_of(const std::vector<UpdateName>& names) {
  uint64_t highest = 0;
  for (const UpdateName& name : names) highest = std::max(highest, name.lsn);
  return highest;
}

// The highest of its numbers, all of which are in the order of versions.
uint64_t highest_of(const LogStoreRequest& request) {
  uint64_t highest = std::max({request.settled_to, request.known, highest_of(request.unsettled)});
  for (const auto& entry : request.entries) highest = std::max(highest, entry.name.lsn);
  return highest;
}

}  // namespace

Answer Engine::Impl::log_store(const Context& c, const LogStoreRequest& request) {
  const size_t partition = c.map.partition_of(request.key);
  if (!is_home(c.map.partitions[partition], c.self, request.m + size_t{1})) {
    return refuse(Status::kNotHome, "the node is no home of the key");
  }
  if (auto wrong = check_entries(request, c.frame.payload)) {
    return refuse(Status::kInvalid, *wrong);
  }
  if (highest_of(request) > max_version(c.map)) return refuse(Status::kInvalid, kNoSuchVersion);
  const Latch held = latch(hash_key(request.key));
  return store_latched(c, request, partition);
}

// The head has decided on another value. Updates that it had before that are older, and count.
// Those that it had not, nobody has ever seen: whatever it has committed since was made without
// them, so they must not take effect any more. The others go by what the head says.
Answer Engine::Impl::answer_for_former(const Context& c, const LogStoreRequest& request,
                                       Found& found) {
  const size_t partition = c.map.partition_of(request.key);
  if (c.map.partitions[partition].homes.back() != c.self) {
    return answer(Status::kOk, LogStoreReply{});
  }
  bool is_forgotten = false;
  for (const auto& entry : request.entries) {
    const auto had =
        logs_.had(request.key, request.value, partitions_[partition].tenure, entry.name);
    if (had == UpdateLogs::Had::kNo) return refuse_value(found);
    is_forgotten |= had == UpdateLogs::Had::kForgotten;
  }
  // What a reader names without bytes, or an update is not to be stored without.
  for (const UpdateName& name : request.unsettled) {
    const auto had = logs_.had(request.key, request.value, partitions_[partition].tenure, name);
    if (had == UpdateLogs::Had::kNo) return refuse_value(found);
    is_forgotten |= had == UpdateLogs::Had::kForgotten && request.entries.empty();
  }
  if (is_forgotten) return refuse(Status::kForgotten, "the value was replaced some time ago");
  return answer(Status::kOk, LogStoreReply{});
}

// Nothing over a gap: of two logs the one that has the later update has all of the other. What
// comes over one waits without its number.
class Engine::Impl::CopiedUpdates {
 public:
  CopiedUpdates(const Context& c, UpdateLogs::Entry& entry, LogPool& pool)
      : c_(c), entry_(entry), log_(entry.log), pool_(pool) {}

  // In ascending order: one that is to be here. False: it is not.
  bool number(const UpdateName& name) {
    // What is settled it has had, though it may not remember.
    if (name.lsn <= log_.settled_to() || has(name)) return true;
    if (contradicts_) return false;
    if (!log_.has_unnumbered(name.id)) {
      has_gap_ |= !mutant(Mutant::kSettleOwnOnly);
      return false;
    }
    if (!has_gap_) take(name);
    return true;
  }
  // One that comes with its bytes. False: there is no memory.
  bool store(const LogStoreRequest::Entry& entry, ByteView bytes, std::vector<Id128>& missing) {
    if (has(entry.name) || contradicts_) return true;
    if (log_.has_unnumbered(entry.name.id)) {
      if (!has_gap_) take(entry.name);
      return true;
    }
    if (has_gap_) {
      if (!wait(entry, bytes, /*known=*/0)) missing.push_back(entry.name.id);
      return true;
    }
    auto stored = pool_.append(bytes, LogPool::Claim::kAccepted);
    if (!stored) return false;
    if (log_.empty()) entry_.since_ms = c_.now_ms;
    log_.add(entry.name, entry.offset, std::move(*stored), entry.crc32c);
    note(entry.name.lsn);
    return true;
  }
  // One that has no number yet.
  void store_unnumbered(const LogStoreRequest::Entry& entry, ByteView bytes, uint64_t known,
                        LogStoreReply& reply) {
    if (log_.find(entry.name.id)) return;
    if (!log_.has_unnumbered(entry.name.id) && !wait(entry, bytes, known)) {
      reply.missing.push_back(entry.name.id);
      return;
    }
    const uint64_t end = entry.offset + bytes.size();
    for (const UpdateLog::Unnumbered& other : log_.unnumbered()) {
      if (other.name.id == entry.name.id) break;
      if (other.offset < end && other.end() > entry.offset) reply.ahead.push_back(other.name.id);
    }
  }

  bool has_gap() const { return has_gap_; }
  // A number or an update has another partner here.
  bool contradicts() const { return contradicts_; }
  // The lowest number of those that are here since; 0: none.
  uint64_t lowest() const { return lowest_; }

 private:
  bool has(const UpdateName& name) {
    const UpdateLog::Has has = log_.has(name);
    contradicts_ |= has == UpdateLog::Has::kElsewhere;
    return has == UpdateLog::Has::kYes;
  }
  void take(const UpdateName& name) {
    if (log_.empty()) entry_.since_ms = c_.now_ms;
    if (log_.give_number(name)) note(name.lsn);
  }
  bool wait(const LogStoreRequest::Entry& entry, ByteView bytes, uint64_t known) {
    // Whoever does not know of such updates would not see to their numbers.
    if (!c_.map.capabilities.has(Capability::kUnnumberedUpdates) ||
        !log_.takes_unnumbered(entry.name, bytes.size(), known, c_.map.epoch)) {
      return false;
    }
    auto kept = pool_.append(bytes, LogPool::Claim::kNew);
    if (!kept) return false;
    log_.keep_unnumbered({entry.name, entry.offset, entry.crc32c, std::move(*kept), c_.now_ms});
    return true;
  }
  void note(uint64_t lsn) {
    entry_.written_ms = c_.now_ms;
    if (lowest_ == 0) lowest_ = lsn;
  }

  const Context& c_;
  UpdateLogs::Entry& entry_;
  UpdateLog& log_;
  LogPool& pool_;
  bool has_gap_ = false;
  bool contradicts_ = false;
  uint64_t lowest_ = 0;
};

namespace {

std::vector<Id128> ids_of(const LogStoreRequest& request) {
  std::vector<Id128> ids;
  ids.reserve(request.entries.size() + request.unsettled.size());
  for (const auto& entry : request.entries) ids.push_back(entry.name.id);
  for (const UpdateName& name : request.unsettled) ids.push_back(name.id);
  return ids;
}

}  // namespace

Answer Engine::Impl::store_latched(const Context& c, const LogStoreRequest& request,
                                   size_t partition) {
  Found found = find_record(partition, record_item_key(request.key));
  if (auto refusal = check_knowledge(knowledge(partition, request.key, found))) {
    return std::move(*refusal);
  }
  // Without a number, and of another value, it is not for this copy: nobody relies on it.
  const auto of_other_value = [&] {
    if (request.has_unnumbered()) return answer(Status::kOk, LogStoreReply{ids_of(request), {}});
    return answer_for_former(c, request, found);
  };
  if (!found.visible()) return of_other_value();
  const auto loaded = load_record(found);
  if (!loaded) return refuse(Status::kInvalid, "stored record: " + loaded.error());
  const Record& record = loaded->record;
  const bool is_same_value = record.is_striped() && record.meta.value_version == request.value;
  // The tail takes updates of a value only after all copies have its record: this one is newer.
  if (!is_same_value && !mutant(Mutant::kCopyTakesAll)) return of_other_value();
  UpdateLogs::Entry* entry = find_log(partition, request.key, found);
  if (entry == nullptr) {
    entry = &logs_.make(request.key, UpdateLog(request.value, record.meta.version),
                        partitions_[partition].tenure, c.now_ms);
  }
  UpdateLog& log = entry->log;
  CopiedUpdates updates(c, *entry, logs_.pool());
  LogStoreReply reply;
  auto name = request.unsettled.begin();
  const auto number_below = [&](uint64_t lsn) {
    for (; name != request.unsettled.end() && name->lsn < lsn; ++name) {
      if (!updates.number(*name)) reply.missing.push_back(name->id);
    }
  };
  size_t at = 0;
  for (const LogStoreRequest::Entry& stored : request.entries) {
    const ByteView bytes = c.frame.payload.subspan(at, stored.length);
    at += stored.length;
    if (stored.name.lsn == 0) continue;
    number_below(stored.name.lsn);
    if (!updates.store(stored, bytes, reply.missing)) {
      return refuse(Status::kNoSpace, "no memory for the update");
    }
  }
  number_below(UINT64_MAX);
  if (updates.contradicts()) return refuse(Status::kInvalid, "another update has that number");
  // Updates that were made in the shards: it is told their numbers only.
  const bool is_number = request.entries.empty() && request.unsettled.empty();
  if (is_number && log.empty()) log.number(request.settled_to);
  if (!updates.has_gap()) log.settle(request.settled_to);
  log.compact(logs_.pool());
  if (request.has_unnumbered()) {
    const LogStoreRequest::Entry& first = request.entries.front();
    if (record.is_live(c.frame.header.now_ms, c.map.flush_floor)) {
      updates.store_unnumbered(first, c.frame.payload.first(first.length), request.known, reply);
    } else {  // the tail refuses it: it must not get a number from a sync
      reply.missing.push_back(first.name.id);
    }
  }
  // It may be in the shards already.
  const bool may_be_folded =
      updates.lowest() != 0 && updates.lowest() <= folded_lsn(record.content);
  if (may_be_folded || log.empty()) fit_log(partition, request.key, record);
  return answer(Status::kOk, reply);
}

Answer Engine::Impl::log_settle(const Context& c, const LogSettleRequest& request) {
  if (request.entries.size() > kMaxListEntries) return refuse(Status::kInvalid, "too many keys");
  LogSettleReply reply;
  for (uint32_t i = 0; i < request.entries.size(); ++i) {
    const LogSettleRequest::Entry& entry = request.entries[i];
    const size_t partition = c.map.partition_of(entry.key);
    const Partition& homes = c.map.partitions[partition];
    if (!is_home(homes, c.self, homes.homes.size())) {
      return refuse(Status::kNotHome, "the node is no home of a key");
    }
    if (std::max(entry.settled_to, highest_of(entry.numbers)) > max_version(c.map)) {
      return refuse(Status::kInvalid, kNoSuchVersion);
    }
    const Latch held = latch(hash_key(entry.key));
    if (!settle_latched(c, entry, partition)) reply.lacking.push_back(i);
  }
  return answer(Status::kOk, reply);
}

// False: there are no updates with all of these numbers.
bool Engine::Impl::settle_latched(const Context& c, const LogSettleRequest::Entry& settled,
                                  size_t partition) {
  const Found found = find_record(partition, record_item_key(settled.key), Trust::kPrefix);
  UpdateLogs::Entry* const entry = find_log(partition, settled.key, found);
  const bool is_known = entry != nullptr && entry->log.value() == settled.value &&
                        !check_knowledge(knowledge(partition, settled.key, found));
  if (!is_known) return settled.numbers.empty();
  CopiedUpdates updates(c, *entry, logs_.pool());
  for (const UpdateName& name : settled.numbers) updates.number(name);
  const bool has_all = !updates.has_gap() && !updates.contradicts();
  if (has_all) entry->log.settle(std::min(settled.settled_to, entry->log.last()));
  return has_all;
}

Answer Engine::Impl::log_cancel(const Context& c, const LogCancelRequest& request) {
  const size_t partition = c.map.partition_of(request.key);
  const Partition& homes = c.map.partitions[partition];
  if (!is_home(homes, c.self, homes.homes.size())) {
    return refuse(Status::kNotHome, "the node is no home of the key");
  }
  if (request.known > max_version(c.map)) return refuse(Status::kInvalid, kNoSuchVersion);
  const Latch held = latch(hash_key(request.key));
  Found found = find_record(partition, record_item_key(request.key));
  if (auto refusal = check_knowledge(knowledge(partition, request.key, found))) {
    return std::move(*refusal);
  }
  LogCancelReply reply{std::vector<uint64_t>(request.ids.size())};
  if (!found.visible()) return answer(Status::kOk, reply);
  const auto loaded = load_record(found);
  if (!loaded) return refuse(Status::kInvalid, "stored record: " + loaded.error());
  const RecordMeta& meta = loaded->record.meta;
  const bool is_tail = homes.homes.front() == c.self;
  if (is_tail && meta.value_version < request.value) {
    return refuse(Status::kNotSynced, "the value that was updated is not here yet");
  }
  // An older one: it is refused here all the same, and what was here of it has gone.
  if (meta.value_version != request.value) return answer(Status::kOk, reply);
  UpdateLogs::Entry* entry = find_log(partition, request.key, found);
  if (entry == nullptr) {
    entry = &logs_.make(request.key, UpdateLog(request.value, meta.version),
                        partitions_[partition].tenure, c.now_ms);
  }
  for (size_t i = 0; i < request.ids.size(); ++i) {
    const Id128& id = request.ids[i];
    reply.lsns[i] = entry->log.find(id).value_or(0);
    if (reply.lsns[i] != 0) continue;
    if (!is_tail) {
      entry->log.cancel(id, request.known, c.map.epoch);
    } else if (!entry->log.forbid(id, c.map.epoch)) {
      return refuse(Status::kNoSpace, "too many updates of the key were cancelled");
    }
  }
  return answer(Status::kOk, reply);
}

}  // namespace elastripe::node
