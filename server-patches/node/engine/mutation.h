// What one RECORD_APPLY makes of a record: pure functions, no storage.
// docs/node-protocol.md, "RECORD_APPLY".
#pragma once

#include <optional>

#include "server-patches/node/format/messages.h"

namespace elastripe::node {

// Largest inline value, whatever a request allows.
inline constexpr size_t kMaxInlineBytes = kMaxContentBytes - 64;

// What decides whether a record is live.
struct Moment {
  uint64_t now_ms = 0;       // the sender's time
  uint64_t flush_floor = 0;  // of the map
};

// Why the condition of the request does not hold, or nothing. `current` is null if there is no
// record; it then counts as a tombstone of version `floor`. `last_lsn`: the highest in the record's
// update log, 0 without one.
std::optional<Status> check_condition(const RecordApplyRequest& request, const Record* current,
                                      uint64_t floor, uint64_t last_lsn, Moment now);

// The new content, or why there is none: kNotFound, kNotInline, kNotNumber, kTooLarge.
// `given` is the content that the request carries.
std::expected<RecordContent, Status> mutate(const RecordApplyRequest& request,
                                            const Record* current, Moment now, RecordContent given);

// Says of a cas that a mark gives, which mutate() leaves open, by which version it is given.
void name_given_cas(RecordContent& content, uint64_t version);

// Whether this mutation moves value_version, that is memcached's cas.
bool changes_value(Mutation mutation);

}  // namespace elastripe::node
