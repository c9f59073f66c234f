#include "proxy/ops/get.h"

#include <optional>

#include "proxy/async/one_shot.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/read_object.h"
#include "proxy/ops/read_tail.h"
#include "server-patches/node/format/mutant.h"

namespace elastripe {

using node::RecordKind;

namespace {

using BytesResult = Result<ObjectBytes>;

Result<VersionedRead> found(OpsContext& ops, RecordPtr record, ObjectBytes bytes) {
  if (bytes.is_degraded) ++ops.counters.degraded_reads;
  VersionedRead read;
  read.record = std::move(record);
  read.is_live = true;
  read.value = std::move(bytes.segments);
  read.path = bytes.is_degraded ? ReadPath::kDegraded : ReadPath::kStriped;
  return read;
}

Task<Result<VersionedRead>> read_value(OpsContext& ops, MapPtr map, std::string key,
                                       RecordPtr record, ReadMemory& memory, TimePoint* deadline) {
  if (record == nullptr || !record->is_live(ops.clock.unix_ms())) {
    ops.cache.erase(key);
    VersionedRead dead;
    dead.record = std::move(record);
    co_return dead;
  }
  co_return co_await read_bytes(ops, std::move(map), std::move(key), std::move(record), memory,
                                deadline);
}

}  // namespace

Task<Result<VersionedRead>> read_bytes(OpsContext& ops, MapPtr map, std::string key,
                                       RecordPtr record, ReadMemory& memory, TimePoint* deadline) {
  MemoryHold hold = memory.try_reserve(record->content.size);
  if (hold == nullptr) {
    const TimePoint asked = ops.clock.now();
    auto reserved = co_await memory.reserve(record->content.size);
    if (!reserved) co_return fail(reserved.error());
    *deadline += ops.clock.now() - asked;
    hold = std::move(*reserved);
  }
  if (record->content.kind == RecordKind::kInline) {
    VersionedRead read;
    if (!record->content.value.empty()) {
      read.value.push_back(Buffer::copy_of(as_bytes(record->content.value), std::move(hold)));
    }
    read.record = std::move(record);
    read.is_live = true;
    co_return read;
  }
  ops.cache.put(key, record);
  auto bytes = co_await read_object(ops, map, record, std::move(hold), *deadline);
  if (!bytes) co_return fail(bytes.error());
  co_return found(ops, std::move(record), std::move(*bytes));
}

namespace {

// The bytes of a cached record, read beside the question whether it is still the newest. Shared by
// the read and by who asked; the read goes on by itself when nobody waits for it any more.
using Speculation = std::shared_ptr<OneShot<BytesResult>>;

Task<void> read_ahead(OpsContext& ops, MapPtr map, RecordPtr record, MemoryHold hold,
                      Speculation speculation, TimePoint deadline) {
  auto bytes =
      co_await read_object(ops, std::move(map), std::move(record), std::move(hold), deadline);
  speculation->set(std::move(bytes));
}

// Null if the record is to be asked for first: there is no memory now, or no more background.
Speculation speculate(OpsContext& ops, MapPtr map, RecordPtr record, ReadMemory& memory,
                      TimePoint deadline) {
  MemoryHold hold = memory.try_reserve(record->content.size);
  if (hold == nullptr) return nullptr;
  auto speculation = std::make_shared<OneShot<BytesResult>>();
  const bool started = ops.background.try_spawn(
      read_ahead(ops, std::move(map), std::move(record), std::move(hold), speculation, deadline));
  return started ? speculation : nullptr;
}

// What a reader that only looks at data_txids makes of a newer record (rule 26).
RecordPtr with_known_parities(RecordPtr record, const RecordPtr& known) {
  if (!mutant(Mutant::kIgnoreGeneration) || record == nullptr || known == nullptr) return record;
  const auto& segments = record->content.segments;
  const auto& others = known->content.segments;
  if (segments.size() != others.size() || segments.empty()) return record;
  if (segments.front().data_txid != others.front().data_txid) return record;
  auto mixed = std::make_shared<node::Record>(*record);
  mixed->content.segments = others;
  return mixed;
}

// One try under `map`: one round if the cached record is still the newest, two if not. A record
// that was replaced while its shards were read is read again by the caller, who learns its version
// from `tried_version`.
Task<Result<VersionedRead>> try_read(OpsContext& ops, MapPtr map, std::string key,
                                     ReadMemory& memory, uint64_t* tried_version,
                                     TimePoint* deadline) {
  RecordPtr cached = ops.cache.find(key);
  if (cached != nullptr && !cached->is_live(ops.clock.unix_ms())) cached = nullptr;
  const uint64_t cached_version = cached == nullptr ? 0 : cached->meta.version;
  *tried_version = cached_version;
  Speculation speculation =
      cached == nullptr ? nullptr : speculate(ops, map, cached, memory, *deadline);
  auto tail = co_await try_read_tail(ops, map, key, cached_version, *deadline);
  if (!tail) co_return fail(tail.error());
  if (!tail->same) {
    speculation.reset();
    *tried_version = tail->record == nullptr ? 0 : tail->record->meta.version;
    co_return co_await read_value(ops, map, key, with_known_parities(tail->record, cached), memory,
                                  deadline);
  }
  if (speculation == nullptr) {
    co_return co_await read_bytes(ops, map, key, cached, memory, deadline);
  }
  auto bytes = co_await *speculation;
  if (!bytes) co_return fail(bytes.error());
  co_return found(ops, cached, std::move(*bytes));
}

}  // namespace

Task<Result<VersionedRead>> read_versioned(OpsContext& ops, std::string key, ReadMemory& memory,
                                           TimePoint deadline) {
  // Shards that are gone for good mean either a newer record or, if it is still the same, loss.
  std::optional<uint64_t> undecodable_version;
  for (;;) {
    auto map = current_map(ops);
    if (!map) co_return fail(map.error());
    uint64_t version = 0;
    auto read = co_await try_read(ops, *map, key, memory, &version, &deadline);
    if (read) co_return read;
    Error error = read.error();
    if (error.code == ErrorCode::kNotFound) {
      if (undecodable_version == version || mutant(Mutant::kNoReread)) {
        co_return fail(ErrorCode::kLost, "object lost: {}", error.message);
      }
      undecodable_version = version;
      if (!mutant(Mutant::kIgnoreGeneration)) ops.cache.erase(key);
      continue;
    }
    auto again = co_await before_retry(ops, *map, std::move(error), deadline);
    if (!again) co_return fail(again.error());
  }
}

ReadOutcome found_object(VersionedRead read) {
  ReadOutcome outcome;
  outcome.path = read.path;
  const auto& content = read.record->content;
  outcome.object =
      Object{content.flags, cas_of(read.record->meta), content.size, std::move(read.value)};
  return outcome;
}

Task<Result<ReadOutcome>> get_object(OpsContext& ops, std::string key, ReadMemory& memory,
                                     TimePoint deadline) {
  auto read = co_await read_versioned(ops, std::move(key), memory, deadline);
  if (!read) co_return fail(read.error());
  if (!read->is_live) co_return ReadOutcome{};
  co_return found_object(std::move(*read));
}

Task<Result<ReadOutcome>> get_object(OpsContext& ops, std::string key, TimePoint deadline) {
  SingleRead memory(ops.read_bytes, ops.clock);
  co_return co_await get_object(ops, std::move(key), memory, deadline);
}

}  // namespace elastripe
