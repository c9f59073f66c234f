// The record chain: a key's homes, and moving records between them. The head decides, the middles
// follow in parallel, the tail comes last and is what reads see (rule 5).
#pragma once

#include <string>
#include <vector>

#include "proxy/cluster/map_view.h"
#include "proxy/cluster/node_client.h"
#include "proxy/cluster/record_cache.h"

namespace elastripe {

// The homes of a key in one map: all of its partition, whatever its pool's m (docs/decisions.md,
// "Records of every pool are kept M+1 times"). With fewer live homes the last of them is the head,
// and of a single one head and tail are the same node.
struct Chain {
  size_t partition = 0;
  std::vector<NodeId> nodes;  // tail first; empty if no home is up

  NodeId tail() const { return nodes.front(); }
  NodeId head() const { return nodes.back(); }
  // Enough for a record to survive m deaths.
  bool survives(int m) const { return nodes.size() > static_cast<size_t>(m); }
};
Chain chain_of(const node::ClusterMap& map, std::string_view key);

// A refusal as an Error. The statuses that say "another epoch, incarnation, role or lease" are
// kStaleEpoch: definitely not executed; look for a newer map and start again.
Error refusal(NodeId node, const NodeReply& reply);

struct RecordReply {
  node::Status status = node::Status::kNotFound;  // kOk, kSame, kNotFound or kNotSynced
  RecordPtr record;                               // kOk
  uint64_t floor = 0;  // of the partition: what a missing record counts as
};
// Other statuses are errors (refusal).
Task<Result<RecordReply>> read_record(NodeClient& nodes, MapPtr map, NodeId from, node::Role role,
                                      std::string key, uint64_t if_version, TimePoint deadline);

// The bytes of a record in up to two pieces, so that a value need not be copied behind what is
// before it.
struct EncodedRecord {
  Buffer head;
  Buffer value;
};

// Stores an encoded record at the middles, then at the tail (store-if-greater, so any proxy may do
// it, at any time, again). `revive`: see RecordStoreRequest. After an error it is unknown which of
// them have it.
Task<Result<void>> push_down(NodeClient& nodes, NodeRoomsPtr rooms, MapPtr map, std::string key,
                             EncodedRecord record, bool revive, TimePoint deadline);

// RECORD_STORE at one node. `rooms` learns how full it is now.
Task<Result<void>> store_record(NodeClient& nodes, NodeRoomsPtr rooms, MapPtr map, NodeId to,
                                node::RecordStoreRequest request, EncodedRecord record,
                                TimePoint deadline);

}  // namespace elastripe
