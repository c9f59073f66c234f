// Reading a record where reads are decided: at the tail.
#pragma once

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/context.h"

namespace elastripe::records {

struct TailRead {
  bool same = false;    // the tail still has if_version; no record is sent
  RecordPtr record;     // null if there is none
  uint64_t floor = 0;   // of the partition: what a missing record counts as
  MapPtr map = {};      // of read_tail(): the one that it was read under
  LogViewPtr log = {};  // of try_read_updated(): null if the record has no log
  std::optional<node::RecordReadReply::Use> use = {};  // if it was asked for, and is known

  // The highest LSN of what lies in the log; 0 if there is none.
  uint64_t last_lsn() const { return log == nullptr ? 0 : log->image.last; }
};

// One try under `map`: syncs the key if the homes have not got it yet. `if_version` 0 always reads.
// Here and below: map and key live until it has ended.
Task<Result<TailRead>> try_read_tail(OpsContext& ops, const MapPtr& map, std::string_view key,
                                     uint64_t if_version, TimePoint deadline);

// Whether a read is one of a client, which the tail notes, and may tell of those before.
enum class Use : uint8_t { kNone, kCounts, kTells, kCountsAndTells };

// try_read_tail(), with what the update log has for the range: it goes over the bytes of the
// shards, settled, so that whoever reads later reads no older bytes (rule 10).
Task<Result<TailRead>> try_read_updated(OpsContext& ops, const MapPtr& map, std::string_view key,
                                        uint64_t if_version, uint64_t offset, uint64_t length,
                                        TimePoint deadline, Use use = Use::kNone);
// The same with the whole log, for a fold. `takes`: for some seconds other such reads find no log,
// nor does this one if another has taken it.
Task<Result<TailRead>> try_read_to_fold(OpsContext& ops, const MapPtr& map, std::string_view key,
                                        bool takes, TimePoint deadline);

// try_read_tail(), with all that the update log has, as the tail has it: nothing of it is settled.
// To be shown, not to be read.
Task<Result<TailRead>> try_read_log(OpsContext& ops, const MapPtr& map, std::string_view key,
                                    TimePoint deadline);

// Tries under newer and newer maps until the deadline.
Task<Result<TailRead>> read_tail(OpsContext& ops, std::string_view key, TimePoint deadline);

// The role's node in `map`, for reads that are not the tail's: the head, to settle an attempt.
Task<Result<TailRead>> try_read_head(OpsContext& ops, const MapPtr& map, std::string_view key,
                                     TimePoint deadline);

}  // namespace elastripe::records
