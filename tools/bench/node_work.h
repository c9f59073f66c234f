// What updates cost the nodes of a cluster: frames, bytes, and what logs save.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tools/bench/rows.h"

namespace elastripe::bench {

// Counters since the start of proxy and nodes, or the difference of two such.
struct NodeWork {
  std::map<std::string, uint64_t> frames = {};  // by request, as "LOG_APPEND"
  std::map<std::string, double> seconds = {};   // from these to their replies, added up
  uint64_t sent_bytes = 0;                      // to nodes
  uint64_t received_bytes = 0;
  uint64_t folded_logs = 0;
  uint64_t folded_bytes = 0;  // of updates, as they were when they were folded
  uint64_t fold_us = 0;
  uint64_t folded_age_ms = 0;  // of the logs that were folded
  uint64_t waits = 0;          // times that an update found a log full
  uint64_t shard_changes = 0;  // at all nodes, of data and of parities
  uint64_t shard_changed_bytes = 0;
  uint64_t merged_bytes = 0;  // of updates, at all copies: overwritten before they were folded

  // Without those that come whether or not somebody updates: to keep the cluster together, and to
  // look for what is to be done.
  uint64_t update_frames() const;
  NodeWork& operator+=(const NodeWork& other);
  NodeWork operator-(const NodeWork& before) const;
};

// What a proxy's /metrics say.
NodeWork node_work_of(std::string_view metrics);
// Adds the rest, which nodes tell: the sums of their statistics.
void take_statistics(NodeWork& work, const std::map<std::string, uint64_t>& sums);
// Has `work` what the other one tells of folds and of waits for them, which come later.
void take_folds(NodeWork& work, const NodeWork& told);

// Updates, and the bytes that they have written.
struct WrittenParts {
  uint64_t updates = 0;
  uint64_t bytes = 0;
  uint64_t reads = 0;  // beside them
};
// Figures of each update or read: "frames", "frames_by_request", "sent_bytes", "received_bytes",
// "sent_kib", "received_kib", "shard_changes", "shard_changed_kib". Of all: "folds", "waits", and
// "us_by_request", the mean time of a frame until its reply. If there were folds:
// "updates_per_fold", "fold_ms" and "log_age_ms", what one took and how old its log was. With
// `copies` of logs: "merged_share" of the bytes that were written.
Json figures_of(const NodeWork& work, const WrittenParts& written, int copies);

}  // namespace elastripe::bench
