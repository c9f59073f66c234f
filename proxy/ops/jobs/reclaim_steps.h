// What the parts of reclaim share: expiry and tombstones (reclaim.cc), orphans (orphans.cc).
#pragma once

#include <string>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/records/commit.h"

namespace elastripe::jobs {

// What one round did.
struct ReclaimReport {
  uint64_t shards_deleted = 0;  // or will be, once their grace is over
  uint64_t keys_fenced = 0;
  uint64_t chains_completed = 0;  // commits that a proxy left half-way, pushed to the tail
  uint64_t records_expired = 0;
  uint64_t tombstones_dropped = 0;
  friend bool operator==(const ReclaimReport&, const ReclaimReport&) = default;
};

// Keys or partitions that are worked on at once; heartbeats share the channels.
inline constexpr size_t kReclaimedAtOnce = 32;

// The deadline of one call.
TimePoint soon(const OpsContext& ops);

// Errors that end the round, since the map is over or the proxy stops; others leave one thing to
// the next round.
bool ends_round(const Error& error);
Result<void> end_or_go_on(const Error& error);

// A commit that needs no content, if the record still has that version; a missing one has the floor
// as its version. `content` is of no use but to a mutant of commit().
Task<Result<records::CommitResult>> commit_at_version(OpsContext& ops, MapPtr map, std::string key,
                                                      node::Mutation mutation, uint64_t version,
                                                      node::RecordContent content = {});

// It was refused for a record that its proxy had left half-way, and which has reached the tail now.
bool has_completed_other(const records::CommitResult& result);

}  // namespace elastripe::jobs
