// Which of the logs that nodes have of a key sync takes to all homes. Rule 14 of
// docs/consistency.md.
#pragma once

#include <cstdint>
#include <span>

#include "proxy/cluster/pool.h"
#include "proxy/cluster/record_chain.h"

namespace elastripe::records {

// What a node told.
struct ToldLog {
  uint64_t value = 0;      // that its record has
  uint32_t synced_in = 0;  // RecordReply
  LogViewPtr log;          // null: it has none
};

// What a reply tells that has a record. Builds that know of no updates without a number do not tell
// when they were synced; while there are such, no home counts more than another.
ToldLog told_log(const node::ClusterMap& map, const RecordReply& reply);

// The log of `record`, which is the newest of the key; null if nobody has one. Of those who were
// synced last each copy has all that was acknowledged since; who has missed a sync may have updates
// that others have got their numbers for, and have folded.
LogViewPtr newest_log(const node::Record& record, std::span<const ToldLog> logs,
                      LogCopies log_copies);

// What takes the place of logs that do not count.
LogViewPtr empty_log(const node::Record& record);

}  // namespace elastripe::records
