// The record chain: a key's homes, and moving records between them. The head decides, the middles
// follow in parallel, the tail comes last and is what reads see (rule 5). What these flows take by
// reference or as a view lives until they have ended.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "proxy/cluster/ask.h"
#include "proxy/cluster/map_view.h"
#include "proxy/cluster/record_cache.h"
#include "server-patches/node/format/log_messages.h"

namespace elastripe {

// The homes of a key in one map: all of its partition, whatever its pool's m (docs/decisions.md,
// "Records of every pool are kept M+1 times"). With fewer live homes the last of them is the head,
// and of a single one head and tail are the same node.
struct Chain {
  size_t partition = 0;
  std::span<const NodeId> nodes;  // in the map; tail first; empty if no home is up

  NodeId tail() const { return nodes.front(); }
  NodeId head() const { return nodes.back(); }
  std::span<const NodeId> middles() const {
    return nodes.size() > 2 ? nodes.subspan(1, nodes.size() - 2) : std::span<const NodeId>();
  }
  // Enough for a record to survive m deaths.
  bool survives(int m) const { return nodes.size() > static_cast<size_t>(m); }
};
Chain chain_of(const node::ClusterMap& map, std::string_view key);

// What a node has told of the update log of a record. The bytes of the image's extents lie here.
struct LogView {
  std::string encoded;
  node::LogImage image;
  uint64_t age_ms = 0;  // of the oldest update of the log
};
using LogViewPtr = std::shared_ptr<const LogView>;

// What a read wants of the log beside the record, and whether it is one of a client.
struct LogQuestion {
  node::LogWanted wanted = node::LogWanted::kNone;
  uint64_t offset = 0, length = 0;  // of a view
  bool is_use = false, tells_use = false;
};

struct RecordReply {
  // kOk, kSame, kNotFound, kNotSynced, or in role any kBadPage: the node's copy was damaged.
  node::Status status = node::Status::kNotFound;
  RecordPtr record;              // kOk; kBadPage: what was stored there since, if anything
  uint64_t floor = 0;            // of the partition: what a missing record counts as
  uint64_t damaged_version = 0;  // kBadPage: the damaged copy had at most this one
  LogViewPtr log = {};           // null: there is none, or it was not asked for
  uint32_t synced_in = 0;        // with an image: as in RecordReadReply
  std::optional<node::RecordReadReply::Use> use = {};  // if it was asked for, and is known
};
// Other statuses are errors (refusal).
Task<Result<RecordReply>> read_record(NodeClient& nodes, const MapPtr& map, NodeId from,
                                      node::Role role, std::string_view key, uint64_t if_version,
                                      TimePoint deadline, LogQuestion log = {});

// The bytes of a record in pieces, so that neither what a node told of it nor a value is copied.
struct EncodedRecord {
  std::array<Buffer, 3> pieces;  // any may be empty
  bool empty() const { return std::ranges::all_of(pieces, &Buffer::empty); }
};

// Stores an encoded record at the middles, then at the tail (store-if-greater, so any proxy may do
// it, at any time, again). `revive`: see RecordStoreRequest. After an error it is unknown which of
// them have it.
Task<Result<void>> push_down(NodeClient& nodes, const NodeRooms& rooms, const MapPtr& map,
                             std::string_view key, const EncodedRecord& record, bool revive,
                             TimePoint deadline);

// RECORD_STORE at one node. `rooms` learns how full it is now, and whether it refused a sync.
Task<Result<void>> store_record(NodeClient& nodes, const NodeRooms& rooms, const MapPtr& map,
                                NodeId to, const node::RecordStoreRequest& request,
                                const EncodedRecord& record, TimePoint deadline);

}  // namespace elastripe
