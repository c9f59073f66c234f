#include "proxy/ops/objects/modify.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "proxy/ops/attempt.h"
#include "proxy/ops/objects/extend_segments.h"
#include "proxy/ops/objects/object_read.h"
#include "proxy/ops/objects/put.h"
#include "proxy/ops/records/read_tail.h"
#include "server-patches/node/format/counter.h"

namespace elastripe::objects {

using node::Condition;
using node::Mutation;
using node::RecordKind;

namespace {

// Writes another value in the place of the record that it was made from; kConditionFailed if that
// is no longer the newest.
Put replacement(std::string_view key, const ObjectRead& read, uint64_t new_cas) {
  const node::Record& record = *read.record();
  Put request;
  request.commit.key = key;
  request.commit.condition = Condition::kIfVersion;
  request.commit.condition_argument = record.meta.version;
  request.commit.made_of_cas = read.cas();
  request.commit.known_version = record.meta.version;
  request.commit.content.cas = new_cas;
  request.flags = record.content.flags;
  request.exptime = record.content.exptime;
  return request;
}

// An object's value, with bytes added before or behind it.
class ExtendedValue : public ValueSource {
 public:
  ExtendedValue(ObjectRead& read, Buffer added, bool in_front)
      : read_(read), added_(std::move(added)), in_front_(in_front) {}

  uint64_t size() const override { return read_.object().size + added_.size(); }

  Task<Result<Buffer>> next(size_t bytes) override {
    if (auto piece = co_await find_piece(); !piece) co_return fail(piece.error());
    if (piece_.size() == bytes) co_return std::exchange(piece_, {});
    Buffer part = Buffer::allocate(bytes);
    for (size_t filled = 0; filled < bytes;) {
      if (auto piece = co_await find_piece(); !piece) co_return fail(piece.error());
      const size_t taken = std::min(bytes - filled, piece_.size());
      std::ranges::copy(piece_.bytes().first(taken), part.mutable_data() + filled);
      piece_ = piece_.slice(taken, piece_.size() - taken);
      filled += taken;
    }
    co_return part;
  }

 private:
  // piece_ has what comes next.
  Task<Result<void>> find_piece() {
    if (!piece_.empty()) co_return Result<void>{};
    if (read_.at_end() || (in_front_ && !has_added_)) {
      piece_ = added_;
      has_added_ = true;
      co_return Result<void>{};
    }
    auto part = co_await read_.next();
    if (!part) co_return fail(part.error());
    piece_ = std::move(*part);
    co_return Result<void>{};
  }

  ObjectRead& read_;
  const Buffer added_;
  const bool in_front_;
  bool has_added_ = false;
  Buffer piece_;
};

// At least so many, however long they take.
constexpr int kExtendAttempts = 8;

// What joining takes at most, if all is written again: a segment that is read, and one that is
// written.
uint64_t joining_bytes(const Pool& pool, uint64_t size) {
  const uint64_t segment = std::min<uint64_t>(pool.segment_bytes, size);
  const auto k = static_cast<uint64_t>(pool.scheme.k);
  return segment + segment * (k + static_cast<uint64_t>(pool.scheme.m)) / k;
}

// append or prepend of an object that is striped, or will be.
class ExtendStriped {
 public:
  ExtendStriped(OpsContext& ops, const Pool& pool, const StoreRequest& request, Buffer added)
      : ops_(ops),
        pool_(pool),
        key_(request.key),
        in_front_(request.verb == StoreVerb::kPrepend),
        cas_(request.cas),
        new_cas_(given_cas(request.key, request.new_cas)),
        added_(std::move(added)) {}

  // What it takes of memory beside the bytes that are added, as far as is known.
  uint64_t wanted_memory() const { return wanted_memory_; }

  // Nothing: wanted_memory() is more than `memory`, which is reserved. Made of newer and newer
  // values.
  Task<Result<std::optional<StoreOutcome>>> run(uint64_t memory, TimePoint deadline) {
    const TimePoint began = ops_.clock.now();
    for (int attempts = 1;; ++attempts) {
      // An attempt takes long if the object is large.
      if (attempts > 1) deadline = std::max(deadline, fresh_deadline(ops_));
      auto outcome = co_await attempt(memory, deadline);
      if (!outcome) co_return fail(outcome.error());
      if (outcome->wanted_memory > memory) {
        wanted_memory_ = outcome->wanted_memory;
        co_return std::nullopt;
      }
      if (outcome->end == ExtensionEnd::kStored) {
        co_return StoreOutcome{StoreStatus::kStored, outcome->cas, outcome->size};
      }
      if (outcome->end == ExtensionEnd::kNotStored) co_return StoreStatus::kNotStored;
      if (outcome->end == ExtensionEnd::kExists) co_return StoreStatus::kExists;
      ++ops_.counters.commit_conflicts;
      if (attempts >= kExtendAttempts &&
          ops_.clock.now() - began >= ops_.settings.request_timeout) {
        co_return fail(ErrorCode::kTimeout, "too many writers of one key");
      }
    }
  }

 private:
  Task<Result<ExtensionOutcome>> attempt(uint64_t memory, TimePoint deadline) {
    auto outcome = co_await extend_segments(ops_, pool_,
                                            {.key = key_,
                                             .added = added_,
                                             .in_front = in_front_,
                                             .cas = cas_,
                                             .new_cas = new_cas_,
                                             .memory = memory},
                                            deadline);
    if (!outcome || outcome->end != ExtensionEnd::kWhole) co_return outcome;
    co_return co_await write_whole(memory, deadline);
  }

  Task<Result<ExtensionOutcome>> write_whole(uint64_t memory, TimePoint deadline) {
    StagedRead own(pool_.segment_bytes, ops_.clock, UINT64_MAX);
    ObjectRead read(ops_, key_, own, ByteRange{}, deadline);
    auto opened = co_await read.open();
    if (!opened) co_return fail(opened.error());
    if (!read.is_live()) co_return ExtensionOutcome{ExtensionEnd::kNotStored};
    if (cas_ && *cas_ != cas_of(key_, read.cas())) {
      co_return ExtensionOutcome{ExtensionEnd::kExists};
    }
    ExtendedValue value(read, added_, in_front_);
    const uint64_t size = value.size();
    if (size > ops_.settings.max_object_bytes) {
      co_return fail(ErrorCode::kTooLarge, "object too large for cache");
    }
    const uint64_t wanted = joining_bytes(pool_, size);
    if (wanted > memory) co_return ExtensionOutcome{ExtensionEnd::kWhole, wanted};
    Put put_request = replacement(key_, read, new_cas_);
    put_request.value = &value;
    auto result = co_await put(ops_, pool_, put_request, deadline);
    const bool is_overwritten = !result && result.error().code == ErrorCode::kConflict;
    if (!result && !is_overwritten) co_return fail(result.error());
    const bool is_stored = result && result->status == records::CommitStatus::kCommitted;
    if (!is_stored) co_return ExtensionOutcome{ExtensionEnd::kChanged};
    co_return ExtensionOutcome{
        .end = ExtensionEnd::kStored, .cas = cas_after(key_, *result), .size = size};
  }

  OpsContext& ops_;
  const Pool& pool_;
  const std::string_view key_;
  const bool in_front_;
  const std::optional<uint64_t> cas_;
  const uint64_t new_cas_;
  const Buffer added_;
  uint64_t wanted_memory_ = 0;
};

// What it will take of memory, if the object is as it is known, and has no log.
uint64_t known_memory(OpsContext& ops, const Pool& pool, const StoreRequest& request) {
  const uint64_t added = request.value->size();
  const RecordPtr known = ops.cache.find(request.key);
  if (known == nullptr) return joining_bytes(pool, pool.segment_bytes);
  if (!known->is_striped()) return joining_bytes(pool, known->content.size + added);
  return memory_of(known->content, changes_of_extension(pool, known->content, added,
                                                        request.verb == StoreVerb::kPrepend));
}

Task<Result<StoreOutcome>> extend_striped(OpsContext& ops, const Pool& pool, StoreRequest request,
                                          TimePoint deadline) {
  const uint64_t size = request.value->size();
  if (size > kMaxExtensionBytes) {
    co_return fail(ErrorCode::kTooLarge, "object too large for cache");
  }
  TimePoint asked = ops.clock.now();
  auto arrived = co_await request.value->arrived(size);
  if (!arrived) co_return fail(arrived.error());
  const StagingMemory staging(ops.memory.staged, request.staging_memory);
  // All at once, and before the key's lock: who holds some of it never waits for more.
  uint64_t memory = known_memory(ops, pool, request);
  auto permit = co_await staging.acquire(size + memory);
  auto added = co_await request.value->next(size);
  if (!added) co_return fail(added.error());
  deadline += ops.clock.now() - asked;
  ExtendStriped extending(ops, pool, request, std::move(*added));
  for (;;) {
    {
      const auto guard = co_await ops.locks.lock(request.key);
      auto outcome = co_await extending.run(memory, deadline);
      if (!outcome) co_return fail(outcome.error());
      if (*outcome) co_return **outcome;
    }
    memory = extending.wanted_memory();
    permit.release();
    asked = ops.clock.now();
    permit = co_await staging.acquire(size + memory);
    deadline += ops.clock.now() - asked;
  }
}

// Nothing: it is not inline, or would not be any more.
Task<Result<std::optional<StoreOutcome>>> extend_inline(OpsContext& ops, const Pool& pool,
                                                        const StoreRequest& request,
                                                        const Buffer& added, TimePoint deadline) {
  const auto guard = co_await ops.locks.lock(request.key);
  records::Commit commit;
  commit.key = request.key;
  commit.condition = Condition::kIfPresent;
  if (request.cas) {
    commit.condition = Condition::kIfValueVersion;
    commit.condition_argument = version_of_cas(request.key, *request.cas);
  }
  commit.mutation = request.verb == StoreVerb::kAppend ? Mutation::kAppend : Mutation::kPrepend;
  commit.inline_max_bytes = pool.inline_max_bytes;
  commit.content.kind = RecordKind::kInline;
  commit.content.value = added.text();
  commit.content.size = added.size();
  commit.content.scheme = pool.scheme;
  commit.content.cas = given_cas(request.key, request.new_cas);
  auto result = co_await records::commit_record(ops, commit, deadline);
  if (!result) co_return fail(result.error());
  switch (result->status) {
    case records::CommitStatus::kCommitted:
      after_commit(ops, request.key, *result);
      if (!result->is_exact) co_return StoreStatus::kStored;
      co_return StoreOutcome{StoreStatus::kStored, cas_after(request.key, *result),
                             result->record->content.size};
    case records::CommitStatus::kNotInline:
    case records::CommitStatus::kTooLarge:
      co_return std::nullopt;
    case records::CommitStatus::kConditionFailed:
      co_return request.cas ? StoreStatus::kExists : StoreStatus::kNotStored;
    default:
      co_return StoreStatus::kNotStored;
  }
}

// What is added is small, and here.
Task<Result<StoreOutcome>> extend_by_small(OpsContext& ops, const Pool& pool, StoreRequest request,
                                           Buffer added, TimePoint deadline) {
  const auto outcome = co_await extend_inline(ops, pool, request, added, deadline);
  if (!outcome) co_return fail(outcome.error());
  if (*outcome) co_return **outcome;
  WholeValue value(std::move(added));
  request.value = &value;
  co_return co_await extend_striped(ops, pool, request, deadline);
}

// There is no value to be extended. kNotStored: there is one now.
Task<Result<StoreOutcome>> create(OpsContext& ops, StoreRequest request, TimePoint deadline) {
  request.verb = StoreVerb::kAdd;
  request.exptime = *request.creates;
  return store_object(ops, request, deadline);
}

// What is added is large, and comes once: so it is decided before whether there is a value.
Task<Result<StoreOutcome>> extend_or_create(OpsContext& ops, const Pool& pool, StoreRequest request,
                                            TimePoint deadline) {
  const auto tail = co_await records::read_tail(ops, request.key, deadline);
  if (!tail) co_return fail(tail.error());
  const bool is_there = tail->record != nullptr && is_live_now(ops, *tail->map, *tail->record);
  auto outcome = co_await (is_there ? extend_striped(ops, pool, request, deadline)
                                    : create(ops, request, deadline));
  if (outcome && *outcome == StoreStatus::kNotStored) {
    co_return fail(ErrorCode::kConflict, "the object was {} meanwhile",
                   is_there ? "deleted" : "made");
  }
  co_return outcome;
}

}  // namespace

Task<Result<StoreOutcome>> extend_object(OpsContext& ops, StoreRequest request,
                                         TimePoint deadline) {
  const Pool& pool = ops.pools.pool_of(request.key);
  const uint64_t size = request.value->size();
  if (storage_of(pool, size) == Storage::kStriped) {
    co_return co_await (request.creates ? extend_or_create(ops, pool, request, deadline)
                                        : extend_striped(ops, pool, request, deadline));
  }
  auto added = co_await request.value->next(size);
  if (!added) co_return fail(added.error());
  for (;;) {
    auto outcome = co_await extend_by_small(ops, pool, request, *added, deadline);
    const bool is_absent = outcome && *outcome == StoreStatus::kNotStored;
    if (!is_absent || !request.creates) co_return outcome;
    WholeValue value(*added);
    request.value = &value;
    auto created = co_await create(ops, request, deadline);
    if (!created || *created == StoreStatus::kStored) co_return created;
    if (ops.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "too many writers of one key");
    }
  }
}

namespace {

Result<CounterOutcome> counter_value(OpsContext& ops, std::string_view key,
                                     const records::CommitResult& result) {
  if (!result.is_exact) {
    return unknown_outcome(ops, "the counter was changed, and changed again since");
  }
  const auto& text = result.record->content.value;
  CounterOutcome outcome{.cas = cas_after(key, result), .exptime = result.record->content.exptime};
  std::from_chars(text.data(), text.data() + text.size(), outcome.value);
  return outcome;
}

// A counter in a pool that stripes even the smallest objects, or one that gets another exptime.
Task<Result<CounterOutcome>> rewrite_counter(OpsContext& ops, const Pool& pool,
                                             CounterRequest request, TimePoint deadline) {
  StagedRead memory(node::kMaxCounterBytes, ops.clock, node::kMaxCounterBytes);
  for (;;) {
    ObjectRead read(ops, request.key, memory, ByteRange{}, deadline);
    auto opened = co_await read.open();
    if (!opened && opened.error().code == ErrorCode::kTooLarge) {
      co_return CounterOutcome{CounterStatus::kNotNumber, 0};
    }
    if (!opened) co_return fail(opened.error());
    if (!read.is_live()) co_return CounterOutcome{CounterStatus::kNotFound, 0};
    if (request.cas && *request.cas != cas_of(request.key, read.cas())) {
      co_return CounterOutcome{CounterStatus::kExists};
    }
    std::string text;
    while (!read.at_end()) {
      auto part = co_await read.next();
      if (!part) co_return fail(part.error());
      text += part->text();
    }
    const auto sum = node::add_delta(text, request.increment, request.delta);
    if (!sum) co_return CounterOutcome{CounterStatus::kNotNumber, 0};
    Put put_request = replacement(request.key, read, given_cas(request.key, request.new_cas));
    put_request.commit.content.marks = read.record()->content.marks;
    put_request.exptime = request.exptime.value_or(put_request.exptime);
    WholeValue value(Buffer::copy_of(sum->text));
    put_request.value = &value;
    put_request.memory = StagingMemory(ops.memory.rebuilt);
    auto result = co_await put(ops, pool, put_request, deadline);
    if (!result) co_return fail(result.error());
    if (result->status == records::CommitStatus::kCommitted) {
      co_return CounterOutcome{CounterStatus::kOk, sum->number, cas_after(request.key, *result),
                               put_request.exptime};
    }
    ++ops.counters.commit_conflicts;
    if (ops.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "too many writers of one key");
    }
  }
}

Task<Result<CounterOutcome>> change_present_counter(OpsContext& ops, CounterRequest request,
                                                    TimePoint deadline) {
  const auto guard = co_await ops.locks.lock(request.key);
  const Pool& pool = ops.pools.pool_of(request.key);
  if (request.exptime || request.new_cas) {
    co_return co_await rewrite_counter(ops, pool, request, deadline);
  }
  records::Commit commit;
  commit.key = request.key;
  commit.condition = Condition::kIfPresent;
  if (request.cas) {
    commit.condition = Condition::kIfValueVersion;
    commit.condition_argument = version_of_cas(request.key, *request.cas);
  }
  commit.mutation = request.increment ? Mutation::kIncrement : Mutation::kDecrement;
  commit.delta = request.delta;
  auto result = co_await records::commit_record(ops, commit, deadline);
  if (!result) co_return fail(result.error());
  switch (result->status) {
    case records::CommitStatus::kCommitted:
      after_commit(ops, request.key, *result);
      co_return counter_value(ops, request.key, *result);
    case records::CommitStatus::kNotNumber:
      co_return CounterOutcome{CounterStatus::kNotNumber, 0};
    case records::CommitStatus::kNotInline:
      co_return co_await rewrite_counter(ops, pool, request, deadline);
    case records::CommitStatus::kConditionFailed:
      co_return CounterOutcome{request.cas ? CounterStatus::kExists : CounterStatus::kNotFound};
    default:
      co_return CounterOutcome{CounterStatus::kNotFound, 0};
  }
}

}  // namespace

Task<Result<CounterOutcome>> change_counter(OpsContext& ops, CounterRequest request,
                                            TimePoint deadline) {
  for (;;) {
    auto outcome = co_await change_present_counter(ops, request, deadline);
    const bool is_absent = outcome && outcome->status == CounterStatus::kNotFound;
    if (!is_absent || !request.creates) co_return outcome;
    const auto [initial, exptime] = *request.creates;
    WholeValue value(Buffer::copy_of(std::to_string(initial)));
    StoreRequest add;
    add.verb = StoreVerb::kAdd;
    add.key = request.key;
    add.exptime = exptime;
    add.new_cas = request.new_cas;
    add.value = &value;
    auto added = co_await store_object(ops, add, deadline);
    if (!added) co_return fail(added.error());
    if (*added == StoreStatus::kStored) {
      co_return CounterOutcome{CounterStatus::kOk, initial, added->cas, exptime};
    }
    if (ops.clock.now() >= deadline) {
      co_return fail(ErrorCode::kTimeout, "too many writers of one key");
    }
  }
}

}  // namespace elastripe::objects
