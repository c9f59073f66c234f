// What homes and sources have of one key: the newest of the copies that are not damaged, if that is
// certain to be the newest there was.
#pragma once

#include "proxy/cluster/record_chain.h"
#include "proxy/ops/context.h"

namespace elastripe::records {

struct Copies {
  RecordPtr newest;  // null: there is none. To be stored at all homes.
  // The newest image of its update log, to be stored with it; null: it has none.
  LogViewPtr log = {};
  uint64_t floor = 0;  // the highest of the partition
  // Not 0: the record is lost. The damaged copies may have been the only ones of the newest
  // version, which was at most this one.
  uint64_t lost_version = 0;
};

// Asks each of `nodes`, which are all homes and sources of the key. Where one has a damaged copy,
// the others tell what it was, and its floor is raised at all homes first: nothing that a head had
// committed and lost with its copy can reach them any more (docs/node-protocol.md, "Damage").
// Errors: those of the calls, of which each counts.
Task<Result<Copies>> read_copies(OpsContext& ops, MapPtr map, std::string key,
                                 std::vector<NodeId> nodes, TimePoint deadline);

}  // namespace elastripe::records
