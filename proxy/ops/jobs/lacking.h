// Which shards of striped objects are gone, asked of the nodes without a look at their bytes.
#pragma once

#include <string>
#include <vector>

#include "coding/codec.h"
#include "proxy/ops/context.h"

namespace elastripe::jobs {

// What counts as gone of what is on nodes that are not up.
struct GivenUp {
  bool away = false;  // shards on nodes that are away: when one comes back, they are orphans
  // Not the shards on these, even if they are lost: the nodes may be back soon.
  std::vector<NodeId> except = {};
};

// A striped object and what is known of its shards, by segment. A shard is gone for good if its
// node's memory is lost, if the node answers and has it not, or if it was never written; silent if
// its node does not answer, or is waited for: neither there nor gone; leaving if it is there, and
// its node drains.
struct Lacking {
  std::string key;
  RecordPtr record;
  std::vector<coding::ShardSet> gone = {}, silent = {}, leaving = {};

  bool is_lacking() const;
  bool is_leaving() const;
  // What is gone elsewhere is not looked at any more.
  void keep_only(NodeId on);
  // It lacks more than the code makes up for, whatever the silent ones have.
  bool is_lost() const;
  // How many shards more may go, of any segment: of those that are silent nothing is counted on.
  // Negative: it can not be read.
  int failures_survived() const;
};

// Fills in what is gone and silent of all of them; each node is asked once for some thousand
// shards. False: some nodes that are up did not answer, and what they have counts as silent.
// Errors: kStaleEpoch: `map` is over; kCancelled: shutdown.
Task<Result<bool>> find_lacking(OpsContext& ops, MapPtr map, std::vector<Lacking>& objects,
                                GivenUp given_up = {});

}  // namespace elastripe::jobs
