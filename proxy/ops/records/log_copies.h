// The copies of an update log, but for the tail: what the tail has numbered is stored at them
// before it is acknowledged, or read (rule 10). docs/updates.md.
#pragma once

#include <string>
#include <vector>

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/context.h"

namespace elastripe::records {

// Whether an object may have an update log under this map, be it from before its pool was told
// otherwise; and whether updates go there.
bool may_have_log(const node::ClusterMap& map);
bool takes_updates(const OpsContext& ops, const node::ClusterMap& map, std::string_view key);

// An update that is on its way to the copies.
struct NumberedUpdate {
  node::UpdateName name;
  uint64_t offset = 0;
  Buffer bytes;
  uint32_t crc32c = 0;
};

struct StoredCopies {
  // Null: all of them have it. Else the head has this record of another value, and never had the
  // updates: they have not taken effect, and never will once the record is at the tail.
  RecordPtr other;
};
// Stores `updates`, ascending by LSN, at all copies of the log of `value`, together with those of
// `unsettled` that they lack, which the tail has. Errors: those of calls;
// kUnknownOutcome: the head has another value, and can not tell whether it had the updates before.
Task<Result<StoredCopies>> store_at_copies(OpsContext& ops, MapPtr map, std::string key,
                                           uint64_t value, uint64_t settled_to,
                                           std::vector<NumberedUpdate> updates,
                                           std::vector<node::UpdateName> unsettled,
                                           TimePoint deadline);

// What became of an update that went to the copies without a number.
struct SentAhead {
  bool is_taken = true;            // all copies have it
  bool may_be_there = false;       // some copy may have it, or get it yet
  bool has_numbers = true;         // all copies have those that were held under their numbers
  std::vector<node::Id128> ahead;  // others that some copy would put over it
};
// Sends an update to all copies while the tail is asked for its number (name.lsn is 0), with the
// numbers of those that are held. `known`: as in LogAppendRequest.
Task<SentAhead> send_ahead(OpsContext& ops, MapPtr map, std::string key, uint64_t value,
                           NumberedUpdate update, uint64_t known, TimePoint deadline);
// All copies have the last of these updates, and it was acknowledged: they are told the numbers
// soon, with the next update of the key or in the background. That this may be lost costs the next
// reader a round.
void hold(OpsContext& ops, const MapPtr& map, const std::string& key, uint64_t value,
          std::vector<node::UpdateName> numbers);

// Has the copies forget an update that the tail has refused, under the same map. True: it will
// never be made (rule 16).
Task<bool> cancel_at_copies(OpsContext& ops, MapPtr map, std::string key, uint64_t value,
                            node::Id128 id, uint64_t known, TimePoint deadline);
// Sees to it that nothing is left without a number of what the copy has so now: what the tail knows
// gets its number at all copies, all else is cancelled.
Task<Result<void>> number_all(OpsContext& ops, MapPtr map, std::string key, NodeId copy,
                              TimePoint deadline);

// Sees to it that all copies have what a tail has told as not settled. False: the value has been
// replaced; the tail knows it.
Task<Result<bool>> settle_view(OpsContext& ops, MapPtr map, std::string key, LogViewPtr view,
                               TimePoint deadline);

// Takes a record that some copy has to the others, the tail last: any proxy may (rule 5).
Task<Result<void>> carry_down(OpsContext& ops, MapPtr map, std::string key, RecordPtr record,
                              TimePoint deadline);

// The record under its next version, and so its updates under new numbers; all else stays. Null if
// it is no striped one any more. Errors: as of commit(); kUnavailable instead of an unknown
// outcome, as its value is the same either way.
Task<Result<RecordPtr>> renumber(OpsContext& ops, MapPtr map, std::string key, TimePoint deadline);

// Where shards change in place, the tail alone has numbers. Before a commit that depends
// on the cas the head is told the newest. (An update that comes between the two is not seen.)
Task<Result<void>> tell_head_numbers(OpsContext& ops, MapPtr map, std::string key,
                                     TimePoint deadline);

// The tail shall know that all copies have the updates up to `lsn`. It is told soon, in the
// background, or by the next update; that it may be lost costs a reader a round.
void note_settled(OpsContext& ops, const MapPtr& map, std::string_view key, uint64_t value,
                  uint64_t lsn);
// Takes what an update of the value is about to tell the tail: the LSN, or 0.
uint64_t take_settled(OpsContext& ops, const MapPtr& map, std::string_view key, uint64_t value);

}  // namespace elastripe::records
