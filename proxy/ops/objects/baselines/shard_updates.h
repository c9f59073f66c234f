// Frames of the baselines: changes of one shard in place, and of what its node keeps to add to it.
#pragma once

#include <vector>

#include "proxy/ops/context.h"
#include "proxy/ops/shards.h"
#include "server-patches/node/format/shard_update_messages.h"

namespace elastripe::objects {

// A frame, and what came of it. It must not be sent twice once a node may have taken it.
struct ShardUpdate {
  ShardUpdate(const node::Segment& segment, const coding::Scheme& scheme, size_t shard,
              node::ShardUpdateMode mode)
      : to(segment.placement[shard]), index(shard) {
    message.name = shard_name(segment, scheme, shard);
    message.mode = mode;
  }
  // Bytes of the shard from `offset` on; ascending, but for what is collected.
  void add(size_t offset, ByteView bytes);
  // Those that another one has, and no others.
  void copy_bytes_of(const ShardUpdate& other);
  // Where the bytes of the answer lie, by how much a data shard has changed.
  std::vector<node::ShardUpdateReply::Range> changed_ranges() const;

  NodeId to;
  size_t index;  // of the shard
  node::ShardUpdateRequest message;
  std::vector<Buffer> pieces;

  bool is_copy = false;  // of what another node has: it is done without where there is no room
  bool is_done = false;
  bool is_full = false;  // the node had no room for what it was to keep
  Buffer answer;         // of one that is done
  std::vector<node::ShardUpdateReply::Range> ranges;
  uint64_t epoch = 0;  // these are what the answer has of them, too
  uint64_t serial = 0;
};

// Sends those that are not done and not full, at the same time; all have ended when it returns. It
// tells one error of several: kUnknownOutcome, if some node may have done what it was asked; then
// what can not be tried again; then what can. kNotFound: a shard is not there, or not intact.
Task<Result<void>> send_updates(OpsContext& ops, MapPtr map, std::vector<ShardUpdate>& updates,
                                TimePoint deadline);

}  // namespace elastripe::objects
