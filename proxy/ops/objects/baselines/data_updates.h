// What the baselines tell the data shards of a segment. docs/updates.md, "Baselines".
#pragma once

#include "proxy/ops/objects/baselines/parity_updates.h"

namespace elastripe::objects {

// A change of a data shard by that method, without bytes so far.
ShardUpdate data_update(UpdateMethod method, const node::Segment& segment,
                        const coding::Scheme& scheme, size_t shard);

// Sends `data`, and has what is kept flushed to the parities where there is no room for more. After
// an error it may be called again, for what is left. Errors as of send_updates().
Task<Result<void>> write_data_shards(OpsContext& ops, UpdateMethod method, MapPtr map,
                                     ChangedSegment& changed, TimePoint deadline);

}  // namespace elastripe::objects
