// SHARD_UPDATE: shards that change in place, and what a node keeps to be added to parities. For the
// baselines among the methods of updates: docs/updates.md, "Baselines".
//
// Calls that concern a shard are made with the latch of its item key held.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "server-patches/node/engine/answer.h"
#include "server-patches/node/engine/counters.h"
#include "server-patches/node/format/shard_update_messages.h"
#include "server-patches/node/update/by_shard.h"
#include "server-patches/node/update/kept_pages.h"
#include "server-patches/node/update/parity_logs.h"
#include "server-patches/node/update/speculation.h"

namespace elastripe::node {

class ShardUpdates {
 public:
  // `pool` has the bytes that are kept.
  ShardUpdates(ItemStore& store, LogPool& pool, Counters& counters)
      : store_(store), pool_(pool), counters_(counters) {}

  // An item of that key for a value so long; null if there is no room.
  using Allocate = std::function<ItemRef(std::string_view item_key, size_t value_bytes)>;
  Answer serve(const ShardUpdateRequest& request, ByteView payload, const Allocate& allocate);
  // Adds what the log of the shard has to it. False if that is not possible now: it must not be
  // read.
  bool fold(const ShardName& name);
  // Forgets what is kept for a shard that goes.
  void drop(const ShardName& name);
  // Some shards with a log that nobody else folds. Needs no latch.
  std::vector<ShardName> to_fold(size_t most) { return logs_.next_names(most); }

 private:
  struct Part {
    size_t offset = 0;  // in the shard
    ByteView bytes;
  };
  // What is to become of bytes of a shard.
  struct Change {
    ShardName name;
    bool writes = false;      // else the bytes are XORed to those of the shard
    bool keeps = false;       // what its pages were, as far as there is room
    std::vector<Part> parts;  // ascending and disjoint
  };
  using Refusal = std::optional<Answer>;

  // Below: why it was not done, or nothing.
  Refusal make(const Change& change, MutableByteView deltas, const Allocate& allocate);
  void keep_pages(const ShardName& name, size_t first, ByteView bytes);
  static void leave_out(KeptPages& kept, const Part& part, MutableByteView delta);
  Refusal check_place(const ShardUpdateRequest& request) const;
  Refusal add_to_log(const ShardUpdateRequest& request, ByteView payload, const Allocate& allocate);
  Refusal fold(const ShardName& name, const Allocate& allocate);
  Refusal collect(const ShardUpdateRequest& request, ByteView payload);
  Answer take(const ShardName& name);
  Answer keep(const ShardUpdateRequest& request, ByteView payload, const Allocate& allocate);
  Answer flush(const ShardName& name, size_t left_bytes);
  Refusal hold(const ShardUpdateRequest& request, ByteView payload);
  Answer touch(const ShardUpdateRequest& request, ByteView payload, const Allocate& allocate);
  Refusal speculate(const ShardUpdateRequest& request, ByteView payload, const Allocate& allocate);
  Refusal settle(const ShardUpdateRequest& request, const Allocate& allocate);
  // Adds epochs that are complete.
  Refusal fold_epochs(const ShardName& name, const Allocate& allocate);
  Answer drop_held(const ShardUpdateRequest& request);
  static Change change_of(const ShardUpdateRequest& request, ByteView payload);
  // Nothing if there is no room.
  std::optional<std::vector<ParityLogs::Entry>> entries_of(const ShardUpdateRequest& request,
                                                           ByteView payload);

  ItemStore& store_;
  LogPool& pool_;
  Counters& counters_;
  ParityLogs logs_;
  ParityLogs collected_;                  // for all parities of a segment, by the name of the first
  ByShard<KeptPages> kept_;               // of data shards
  ByShard<HeldBytes> held_;               // by the name of the shard here, of another one
  ByShard<TouchedLines> touched_;         // of data shards
  ByShard<SpeculativeLog> speculated_;    // of parity shards
  std::atomic<uint64_t> last_epoch_ = 0;  // of any shard, so that none has a number twice
};

}  // namespace elastripe::node
