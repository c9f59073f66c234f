// Requests and outcomes of the client-facing flows: what a session turns commands into, and replies
// from. Errors (proxy/base/error.h) are operational; everything a client may expect is an outcome.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "proxy/base/buffer.h"
#include "proxy/base/error.h"
#include "proxy/base/hash.h"
#include "proxy/ops/context.h"
#include "proxy/ops/objects/value.h"
#include "proxy/ops/records/read_tail.h"

namespace elastripe::objects {

// memcached's cas unique is the version of the commit that made the value, or the LSN of its last
// update (node::cas_of), moved by 52 bits of the key's hash. A version is the epoch's number above
// 36 bits of a counter that carries into it, and every epoch begins above whatever was assigned
// before. So no two values of a key have the same cas, a later one has a greater one, none is 0,
// and all fit into clients' signed 64 bits for 100 million epochs. Versions of different keys are
// often the same: the hash tells their cas apart.
inline uint64_t cas_offset(std::string_view key) { return hash64(key) >> 12; }
inline uint64_t cas_of(std::string_view key, uint64_t version) { return version + cas_offset(key); }
// A cas that no value of the key ever had gives a version that none ever has; not 0, which stands
// for no condition.
inline uint64_t version_of_cas(std::string_view key, uint64_t cas) {
  return std::max<uint64_t>(cas - cas_offset(key), 1);
}

// A cas that the client gives, as it is kept in the record; 0: none.
inline uint64_t given_cas(std::string_view key, std::optional<uint64_t> cas) {
  return cas ? version_of_cas(key, *cas) : 0;
}

// kCas: a SET, if the value has a certain cas.
enum class StoreVerb { kSet, kAdd, kReplace, kAppend, kPrepend, kCas };
struct StoreRequest {
  StoreVerb verb = StoreVerb::kSet;
  std::string_view key;  // of all requests: outlives the operation
  uint32_t flags = 0;
  uint32_t exptime = 0;  // absolute unix seconds, 0 = never (memcached's rules are already applied)
  // Only if the value has this one: of kCas, kAppend and kPrepend.
  std::optional<uint64_t> cas = {};
  // kAppend and kPrepend: where there is no value one is made of what is added, with this exptime.
  std::optional<uint32_t> creates = {};
  std::optional<uint64_t> new_cas = {};  // the cas that the value gets; none: one of its own
  // kCas: a value with a later cas is replaced, too, and keeps its exptime; what comes in its place
  // is stale.
  bool stale_if_older = false;
  // One that is striped is read while it is stored, so that a large one is never held whole. Must
  // outlive the operation.
  ValueSource* value = nullptr;
  // The client's own, for a small value on its way into shards; null: it has none. Must outlive the
  // operation.
  Semaphore* staging_memory = nullptr;
};
enum class StoreStatus { kStored, kNotStored, kExists, kNotFound };
struct StoreOutcome {
  // NOLINTNEXTLINE(google-explicit-constructor): mostly the status is all
  StoreOutcome(StoreStatus what, uint64_t cas_now = 0, uint64_t bytes = 0)
      : status(what), cas(cas_now), size(bytes) {}
  friend bool operator==(const StoreOutcome& outcome, StoreStatus other) {
    return outcome.status == other;
  }

  StoreStatus status;
  uint64_t cas;   // of what was stored; 0: others have followed, so nobody knows
  uint64_t size;  // of the whole value that was
};

// New bytes for a part of a value.
struct UpdateRequest {
  std::string_view key;
  uint64_t offset = 0;
  std::optional<uint64_t> cas = {};  // only if it is this one
  // As of a store.
  ValueSource* value = nullptr;
  Semaphore* staging_memory = nullptr;
};
enum class UpdateStatus {
  kUpdated,
  kNotFound,
  kExists,      // its cas is another one
  kOutOfRange,  // it ends before the bytes do: an update changes no size
};
struct UpdateOutcome {
  UpdateStatus status = UpdateStatus::kUpdated;
  uint64_t cas = 0;   // of the value now; 0: others have followed, so nobody knows
  uint64_t size = 0;  // of the whole value
};

struct CounterRequest {
  std::string_view key;
  uint64_t delta = 0;
  bool increment = true;
  std::optional<uint64_t> cas = {};      // only if the value has this one
  std::optional<uint32_t> exptime = {};  // a new one
  std::optional<uint64_t> new_cas = {};  // as of a store
  // Where there is none, one is made, to which no delta is applied.
  struct Creation {
    uint64_t initial = 0;
    uint32_t exptime = 0;
  };
  std::optional<Creation> creates = {};
};
enum class CounterStatus { kOk, kNotFound, kNotNumber, kExists /* its cas is another one */ };
struct CounterOutcome {
  CounterStatus status = CounterStatus::kOk;
  // kOk: of the counter now.
  uint64_t value = 0;
  uint64_t cas = 0;
  uint32_t exptime = 0;
};

// What is removed: the object, or all that makes it useful.
struct RemoveRequest {
  std::string_view key;
  std::optional<uint64_t> cas = {};  // only if the value has this one
  bool marks_stale = false;          // the value stays, with another cas, for whoever makes it anew
  bool empties = false;              // an empty one takes the place of the value
  std::optional<uint32_t> exptime = {};  // a new one, of what is marked
  std::optional<uint64_t> new_cas = {};  // of what stays

  bool keeps_object() const { return marks_stale || empties; }
};

// A read of a client, and what it does beside.
struct ReadRequest {
  std::string_view key = {};
  ByteRange range = {};
  std::optional<uint32_t> touch = {};  // the new exptime
  bool is_use = true;                  // it counts for those that ask later whether there were any
  bool tells_use = false;
  // The client makes values anew (docs/client-protocol.md, "Stale values"): it wins a stale
  // one, one that expires before `wins_before`, or one that is not there and of which an empty one
  // is made then, unless another has won.
  bool may_win = false;
  uint32_t wins_before = 0;  // unix seconds
  struct Creation {
    uint32_t exptime = 0;
    std::optional<uint64_t> cas = {};
  };
  std::optional<Creation> creates = {};
};

// Where the time and the path of a read went, for metrics.
enum class ReadPath { kInline, kStriped, kDegraded };
struct ReadOutcome {
  bool found = false;  // else a miss
  ReadPath path = ReadPath::kInline;
};

// Linearizable read of a value, or a range of its bytes, into `sink`. A range touches no more
// shards than have its bytes. The time that the read waits for memory does not count, and every
// part that was given gives it `request_timeout` more. Errors: kLost, kUnavailable, kTimeout...,
// never a miss instead; also once the sink has had a part of the value, so that it is never whole.
// Here and below: `key` lives until it has ended.
Task<Result<ReadOutcome>> get_object(OpsContext& ops, std::string_view key, ValueSink& sink,
                                     ByteRange range, TimePoint deadline,
                                     records::Use use = records::Use::kCounts);
// The same of whatever is asked for. A read that touches or wins may have done so when it fails:
// then it is kUnknownOutcome.
Task<Result<ReadOutcome>> read_object(OpsContext& ops, const ReadRequest& request, ValueSink& sink,
                                      TimePoint deadline);
// Any storage command. kUnknownOutcome: it may or may not have taken effect, now or later.
Task<Result<StoreOutcome>> store_object(OpsContext& ops, StoreRequest request, TimePoint deadline);
// All of the bytes, or none. Errors as of a store; kTooLarge: more than update_max_bytes.
Task<Result<UpdateOutcome>> update_object(OpsContext& ops, UpdateRequest request,
                                          TimePoint deadline);
Task<Result<CounterOutcome>> change_counter(OpsContext& ops, CounterRequest request,
                                            TimePoint deadline);
enum class RemoveStatus { kRemoved, kNotFound, kExists /* its cas is another one */ };
Task<Result<RemoveStatus>> remove_object(OpsContext& ops, RemoveRequest request,
                                         TimePoint deadline);
// True if there was something to delete or touch.
Task<Result<bool>> remove_object(OpsContext& ops, std::string_view key, TimePoint deadline);
Task<Result<bool>> touch_object(OpsContext& ops, std::string_view key, uint32_t exptime,
                                TimePoint deadline);

// gat: the value, or a range of it, with the new expiry committed.
Task<Result<ReadOutcome>> touch_and_get_object(OpsContext& ops, std::string_view key,
                                               uint32_t exptime, ValueSink& sink, ByteRange range,
                                               TimePoint deadline);

// The record as the tail has it, and which shards of each segment are missing: `object KEY`.
struct SegmentHealth {
  // Shard indexes. Missing: gone with their node, or not on it any more, or failing their
  // checksums.
  std::vector<uint8_t> missing;
  std::vector<uint8_t> unreachable;  // their node does not answer, and may have them
};
// What the tail has of the object's update log.
struct LogHealth {
  uint64_t last_lsn = 0;  // the newest that it has, or had
  uint64_t settled_to = 0;
  uint64_t settled_bytes = 0;
  uint64_t unsettled_bytes = 0;
  uint64_t age_ms = 0;  // of the oldest update in it
};
struct ObjectReport {
  RecordPtr record;
  std::optional<LogHealth> log = {};
  bool is_flushed = false;
  std::vector<NodeId> homes;  // tail first
  size_t first_segment = 0;
  std::vector<SegmentHealth> segments;  // from that one on

  // The number of the newest update of the value, folded or not; 0: there was none.
  uint64_t last_lsn() const;
  bool is_live(uint64_t now_ms) const {
    return record != nullptr && !is_flushed && record->is_live(now_ms, /*flush_floor=*/0);
  }
};
// Looks at `most` segments from `first` on.
Task<Result<ObjectReport>> inspect_object(OpsContext& ops, std::string key, TimePoint deadline,
                                          size_t first = 0, size_t most = SIZE_MAX);

}  // namespace elastripe::objects
