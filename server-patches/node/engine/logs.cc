// Update logs: what lies over the shards of objects. docs/updates.md; rules 10 to 16 of
// docs/consistency.md; docs/node-protocol.md, "Update logs". Their copies beside the tail:
// log_copies.cc.
#include <algorithm>
#include <numeric>

#include "server-patches/node/engine/impl.h"
#include "server-patches/node/format/crc32c.h"

namespace elastripe::node {
namespace {

// What one LOG_SCAN answers at most.
constexpr size_t kMaxScannedLogs = 4096;
// A recycler that has begun to fold a log, and has not ended it after so long, may be dead.
constexpr uint64_t kFold_ms = 5000;
constexpr uint64_t kSurveyEvery_ms = 1000;
// An update that has waited for its number for so long may be one of a proxy that has died.
constexpr uint64_t kUnnumbered_ms = 2000;
// Smaller logs are not folded ahead of time to make room for others.
constexpr size_t kWorthAFold = 128 << 10;

bool can_be_updated(const Record& record, const Context& c) {
  return record.is_striped() && record.is_live(c.frame.header.now_ms, c.map.flush_floor);
}

// A log that is overwritten all the time takes little, and yet keeps many units, each for the few
// pieces in it that stay: it is as full as the node's units are. So there is time to fold.
uint32_t told_cost(size_t cost, const LogPool::Usage& usage) {
  if (cost < kWorthAFold || usage.limit_units == 0) return static_cast<uint32_t>(cost);
  const size_t units = std::min(usage.units, usage.limit_units);
  return static_cast<uint32_t>(std::max(cost, kMaxLogBytes * units / usage.limit_units));
}

uint64_t highest_of(const std::vector<LogExtent>& extents) {
  uint64_t highest = 0;
  for (const LogExtent& extent : extents) highest = std::max(highest, extent.lsn);
  return highest;
}

// The highest of its numbers, all of which are in the order of versions.
uint64_t highest_of(const LogImage& image) {
  const uint64_t recent = image.recent.empty() ? 0 : image.recent.back().lsn;
  return std::max({image.rank, image.settled_to, image.reach, recent, highest_of(image.settled),
                   highest_of(image.unsettled), highest_of(image.unnumbered)});
}

uint64_t age_of(const UpdateLogs::Entry& entry, uint64_t now_ms) {
  return now_ms - std::min(now_ms, entry.since_ms);
}

}  // namespace

UpdateLogs::Entry* Engine::Impl::find_log(size_t partition, std::string_view key,
                                          const Found& found) {
  UpdateLogs::Entry* const entry = logs_.find(key);
  if (entry == nullptr || !found.visible()) return nullptr;
  return entry->tenure < partitions_[partition].tenure ? nullptr : entry;
}

uint64_t Engine::Impl::last_lsn(size_t partition, std::string_view key, const Found& found) {
  const UpdateLogs::Entry* const entry = find_log(partition, key, found);
  return entry == nullptr ? 0 : entry->log.last();
}

bool Engine::Impl::has_unnumbered(size_t partition, std::string_view key, const Found& found) {
  const UpdateLogs::Entry* const entry = find_log(partition, key, found);
  return entry != nullptr && !entry->log.unnumbered().empty();
}

void Engine::Impl::fit_log(size_t partition, std::string_view key, const Record& record) {
  UpdateLogs::Entry* const entry = logs_.find(key);
  if (entry == nullptr) return;
  UpdateLog& log = entry->log;
  const bool is_same_value = record.is_striped() && log.value() == record.meta.value_version;
  if (entry->tenure < partitions_[partition].tenure) {
    logs_.drop(key);
    return;
  }
  if (!is_same_value && !mutant(Mutant::kLogSurvivesSet)) {
    logs_.retire(key);
    return;
  }
  const size_t before = log.bytes();
  uint64_t begin = 0;
  for (const Segment& segment : record.content.segments) {
    const bool drops = segment.folded_lsn != 0 && mutant(Mutant::kFoldDropsLog);
    log.trim(begin, begin + segment.length, drops ? log.last() : segment.folded_lsn);
    begin += segment.length;
  }
  if (log.bytes() < before) {
    entry->since_ms = clock_.boottime_ms();
    entry->taken_until_ms = 0;
  }
  // What it remembers of its updates is needed by those who know of no later version only.
  log.forget_forbidden(record.meta.version);
  // Nothing tells of updates that baselines make in the shards but the last number, which is the
  // object's cas unique.
  const bool is_told = log.last() <= last_change(record, /*last_lsn=*/0);
  if (is_told && log.says_nothing(record.meta.version, map_->epoch)) logs_.retire(key);
}

void Engine::Impl::note_folded(size_t partition, std::string_view key, const Found& replaced,
                               const Record& old) {
  if (last_lsn(partition, key, replaced) != 0) return;
  const uint64_t folded = folded_lsn(old.content);
  if (folded == 0) return;
  logs_.retire_folded(key, old.meta.value_version, partitions_[partition].tenure, folded);
}

Engine::Impl::ToldLog Engine::Impl::tell_log(const Context& c, size_t partition,
                                             const RecordReadRequest& request, const Found& found,
                                             Knowledge known) {
  UpdateLogs::Entry* const entry = find_log(partition, request.key, found);
  if (entry == nullptr) return {};
  if (request.log == LogWanted::kFold) {
    const uint64_t now_ms = clock_.boottime_ms();
    if (now_ms < entry->taken_until_ms) return {};
    if (!entry->log.empty()) entry->taken_until_ms = now_ms + kFold_ms;
  }
  const Partition& homes = c.map.partitions[partition];
  std::string bytes;
  LogImage told;
  switch (request.log) {
    case LogWanted::kImage:
      told = entry->log.image(bytes);
      // Where the key is synced the tail gives numbers, and sync must not.
      if (known == Knowledge::kSynced && is_home(homes, c.self, homes.homes.size())) {
        told.unnumbered.clear();
      }
      break;
    case LogWanted::kUnsettled:
      told = entry->log.unsettled(bytes);
      break;
    default:
      told = entry->log.view(request.log_offset, request.log_length, bytes);
  }
  ToldLog log;
  encode(told, log.encoded);
  log.age_ms = entry->log.empty() ? 0 : age_of(*entry, c.now_ms);
  return log;
}

std::optional<Answer> Engine::Impl::store_log(const Context& c, const RecordStoreRequest& request,
                                              const Record& record, size_t partition) {
  const auto image = decode_log(as_view(request.log));
  if (!image) return refuse(Status::kInvalid, image.error());
  if (highest_of(*image) > max_version(c.map)) return refuse(Status::kInvalid, kNoSuchVersion);
  const Found found = find_record(partition, record_item_key(request.key), Trust::kPrefix);
  // A newer record came meanwhile: whoever brought that has brought its log.
  if (!found.visible() || found.prefix.version != record.meta.version ||
      image->value != record.meta.value_version) {
    return std::nullopt;
  }
  // Two that have the same last update need not have the same ones before that. All homes are to
  // have those that sync has chosen.
  const UpdateLogs::Entry* const own = find_log(partition, request.key, found);
  const uint64_t rank = partitions_[partition].sync_floor;
  // Since this sync it has a log of that rank; whoever brings one more has chosen the same.
  const auto has_same = [&](const UpdateLog& log) {
    return log.rank() == image->rank && log.has_updates_of(*image) && log.unnumbered().empty() &&
           image->unnumbered.empty();
  };
  if (own != nullptr && (own->log.rank() >= rank || has_same(own->log))) return std::nullopt;
  UpdateLog log(image->value, record.meta.version);
  if (!log.restore(*image, rank, logs_.pool())) {
    return refuse(Status::kNoSpace, "no memory for the update log");
  }
  logs_.make(request.key, std::move(log), partitions_[partition].tenure, c.now_ms);
  fit_log(partition, request.key, record);
  return std::nullopt;
}

Answer Engine::Impl::refuse_value(Found& found) const {
  Answer refusal{.status = Status::kOtherValue, .args = {}, .payload = {}, .epoch = {}};
  if (found.visible()) refusal.payload = record_bytes(found);
  return refusal;
}

Answer Engine::Impl::log_append(const Context& c, const LogAppendRequest& request) {
  const size_t partition = c.map.partition_of(request.key);
  if (auto refusal = check_role(c, partition, Role::kTail, request.m)) return std::move(*refusal);
  const size_t size = c.frame.payload.size();
  if (size > kMaxLoggedBytes || request.offset > UINT64_MAX - size) {
    return refuse(Status::kInvalid, "an update of that size is not logged");
  }
  if (crc32c(c.frame.payload) != request.crc32c) {
    return refuse(Status::kInvalid, "the update does not match its checksum");
  }
  const Latch held = latch(hash_key(request.key));
  return append_latched(c, request, partition);
}

Answer Engine::Impl::append_latched(const Context& c, const LogAppendRequest& request,
                                    size_t partition) {
  Found found = find_record(partition, record_item_key(request.key));
  if (auto refusal = check_knowledge(knowledge(partition, request.key, found))) {
    return std::move(*refusal);
  }
  if (!found.visible()) return refuse(Status::kNotFound, "no such object");
  const auto loaded = load_record(found);
  if (!loaded) return refuse(Status::kInvalid, "stored record: " + loaded.error());
  const Record& record = loaded->record;
  UpdateLogs::Entry* entry = find_log(partition, request.key, found);
  if (entry != nullptr && entry->log.value() == request.value) {
    entry->log.settle(std::min(request.settled_to, entry->log.last()));
  }
  const auto answer_as = [&](uint64_t lsn) {
    LogAppendReply reply;
    reply.lsn = lsn;
    reply.settled_to = entry->log.settled_to();
    reply.last = entry->log.last();
    reply.unsettled = entry->log.unsettled_below(lsn);
    reply.cost = told_cost(entry->log.cost(), logs_.pool().usage());
    return answer(Status::kOk, reply);
  };
  const bool is_same_value =
      record.meta.value_version == request.value || mutant(Mutant::kAnyValue);
  // It was taken, whatever has become of the object since.
  if (is_same_value && entry != nullptr && !mutant(Mutant::kAppendTwice)) {
    if (const auto lsn = entry->log.find(request.id)) return answer_as(*lsn);
  }
  if (!record.is_live(c.frame.header.now_ms, c.map.flush_floor)) {
    return refuse(Status::kNotFound, "no such object");
  }
  if (!is_same_value || !can_be_updated(record, c)) return refuse_value(found);
  if (request.offset + c.frame.payload.size() > record.content.size) {
    return refuse(Status::kOutOfRange, "the update is beyond the end of the value");
  }
  if (c.frame.payload.empty()) return number_latched(request, record, found, partition, c.now_ms);
  const uint64_t version = record.meta.version;
  const uint64_t reach = entry != nullptr ? entry->log.reach() : version;
  const bool is_forbidden = entry != nullptr && entry->log.is_forbidden(request.id, c.map.epoch);
  if (is_forbidden || (request.known < reach && !mutant(Mutant::kIgnoreReach))) {
    LogAppendReply reply;
    reply.last = std::max({entry != nullptr ? entry->log.last() : 0, reach, version});
    return answer(Status::kForgotten, reply);
  }
  const uint64_t last = entry != nullptr ? entry->log.last() : 0;
  if (request.cas != 0 && request.cas != cas_of(record, last)) {
    return refuse(Status::kConditionFailed, "the value has another cas");
  }
  const uint64_t rank = entry != nullptr ? entry->log.rank() : version;
  const uint64_t sync_floor = partitions_[partition].sync_floor;
  const uint64_t lsn = std::max({rank, version, sync_floor}) + 1;
  if (lsn > last_of_block(std::max(version, sync_floor))) {
    return refuse(Status::kRenumber, "no number is left behind the record's version");
  }
  if (entry != nullptr &&
      (entry->log.cost() + UpdateLog::cost_of(c.frame.payload.size()) > kMaxLogBytes ||
       entry->log.unsettled_count() >= kMaxUnsettled)) {
    return refuse(Status::kLogFull, "the key's log is full");
  }
  auto bytes = logs_.pool().append(c.frame.payload, LogPool::Claim::kNew);
  if (!bytes) return refuse(Status::kLogFull, "the node's update logs are full");
  if (entry == nullptr) {
    entry = &logs_.make(request.key, UpdateLog(record.meta.value_version, version),
                        partitions_[partition].tenure, c.now_ms);
  } else if (entry->log.empty()) {
    entry->since_ms = c.now_ms;
  }
  entry->written_ms = c.now_ms;
  entry->log.add({request.id, lsn}, request.offset, std::move(*bytes), request.crc32c);
  // Nobody else has to have it.
  const std::vector<NodeId>& homes = c.map.partitions[partition].homes;
  if (homes.size() == 1) entry->log.settle(lsn);
  entry->log.compact(logs_.pool());
  return answer_as(lsn);
}

// The bytes go into the shards of that record: it must be the newest.
Answer Engine::Impl::number_latched(const LogAppendRequest& request, const Record& record,
                                    Found& found, size_t partition, uint64_t now_ms) {
  const uint64_t version = record.meta.version;
  if (request.known != version) return refuse_value(found);
  UpdateLogs::Entry* entry = find_log(partition, request.key, found);
  if (entry != nullptr && !entry->log.empty()) {
    return refuse(Status::kLogFull, "the log has updates that are to be folded first");
  }
  LogAppendReply reply;
  reply.last = entry != nullptr ? entry->log.last() : 0;
  if (request.cas != 0 && request.cas != cas_of(record, reply.last)) {
    return refuse(Status::kConditionFailed, "the value has another cas");
  }
  const uint64_t rank = entry != nullptr ? entry->log.rank() : version;
  const uint64_t sync_floor = partitions_[partition].sync_floor;
  const uint64_t lsn = std::max({rank, version, sync_floor}) + 1;
  if (lsn > last_of_block(std::max(version, sync_floor))) {
    return refuse(Status::kRenumber, "no number is left behind the record's version");
  }
  if (entry == nullptr) {
    entry = &logs_.make(request.key, UpdateLog(record.meta.value_version, version),
                        partitions_[partition].tenure, now_ms);
  }
  entry->log.number(lsn);
  reply.lsn = reply.last = reply.settled_to = lsn;
  return answer(Status::kOk, reply);
}

Answer Engine::Impl::log_scan(const Context& c, const LogScanRequest& request) {
  LogScanReply reply;
  const size_t limit = std::clamp<size_t>(request.max_entries, 1, kMaxScannedLogs);
  const size_t parts = logs_.count() == 0 ? 0 : logs_.parts();
  size_t part = std::min<uint64_t>(request.cursor, parts);
  const auto until_now = [&](uint64_t then_ms) {
    const uint64_t ms = c.now_ms - std::min(c.now_ms, then_ms);
    return static_cast<uint32_t>(std::min<uint64_t>(ms, std::numeric_limits<uint32_t>::max()));
  };
  for (; part < parts && reply.logs.size() + reply.unnumbered.size() < limit; ++part) {
    const Latch held(latches_[part]);
    logs_.visit(part, [&](const std::string& key, UpdateLogs::Entry& entry) {
      const size_t partition = c.map.partition_of(key);
      const uint32_t age_ms = until_now(entry.since_ms);
      const auto& unnumbered = entry.log.unnumbered();
      if (!unnumbered.empty() && until_now(unnumbered.front().since_ms) >= kUnnumbered_ms &&
          entry.tenure >= partitions_[partition].tenure) {
        reply.unnumbered.push_back(key);
      }
      if (entry.log.empty() || age_ms < request.min_age_ms ||
          entry.tenure < partitions_[partition].tenure ||
          !is_home(c.map.partitions[partition], c.self, 1)) {
        return;
      }
      reply.logs.push_back({.key = key,
                            .bytes = static_cast<uint32_t>(entry.log.bytes()),
                            .age_ms = age_ms,
                            .idle_ms = until_now(entry.written_ms)});
    });
  }
  reply.cursor = part < parts ? part : 0;
  return answer(Status::kOk, reply);
}

// Those in partitions that the node is no home of any more.
void Engine::Impl::forget_logs() {
  if (logs_.count() == 0) return;
  const Progress::Stay stay(progress_, clock_.coarse_ms());
  std::shared_lock shared(gate_);
  for (size_t part = 0; part < logs_.parts(); ++part) {
    const Latch held(latches_[part]);
    std::vector<std::string> forgotten;
    logs_.visit(part, [&](const std::string& key, UpdateLogs::Entry& entry) {
      if (entry.tenure < partitions_[map_->partition_of(key)].tenure) forgotten.push_back(key);
    });
    for (const std::string& key : forgotten) logs_.drop(key);
  }
}

void Engine::Impl::survey_logs() {
  const uint64_t now_ms = clock_.boottime_ms();
  if (now_ms < logs_surveyed_ms_ + kSurveyEvery_ms) return;
  logs_surveyed_ms_ = now_ms;
  uint64_t count = 0;
  uint64_t oldest_ms = 0;
  if (logs_.count() != 0) {
    const Progress::Stay stay(progress_, clock_.coarse_ms());
    std::shared_lock shared(gate_);
    for (size_t part = 0; part < logs_.parts(); ++part) {
      const Latch held(latches_[part]);
      logs_.visit(part, [&](const std::string& key, UpdateLogs::Entry& entry) {
        const bool is_forgotten = entry.tenure < partitions_[map_->partition_of(key)].tenure;
        if (entry.log.empty() || is_forgotten) return;
        ++count;
        oldest_ms = oldest_ms == 0 ? entry.since_ms : std::min(oldest_ms, entry.since_ms);
      });
    }
  }
  logs_with_bytes_ = count;
  oldest_log_ms_ = oldest_ms;
}

}  // namespace elastripe::node
