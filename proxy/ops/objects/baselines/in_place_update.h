// Updates by the baselines, which change shards in place: docs/updates.md, "Baselines".
#pragma once

#include <optional>
#include <string>

#include "proxy/ops/objects/outcome.h"

namespace elastripe::objects {

// By the method of the key's pool, which is one of these. Nothing: the object is not striped, and
// nothing was done. `bytes` are not empty. Errors: as of update_object(); kTooFewNodes: a node of
// the object is down; kInvalid: its pool had another method when it was stored.
Task<Result<std::optional<UpdateOutcome>>> update_in_place(OpsContext& ops,
                                                           const UpdateRequest& request,
                                                           Buffer bytes, TimePoint deadline);

// Has nodes add to the parities of the object all that they keep for them. Updates that come
// meanwhile may be left. Nodes that are down are passed over.
Task<Result<void>> drain_updates(OpsContext& ops, MapPtr map, RecordPtr record, TimePoint deadline);

}  // namespace elastripe::objects
