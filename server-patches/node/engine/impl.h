// The inside of the engine, shared by its sources: membership.cc (gate, maps, sync state),
// records.cc, sync.cc, shards.cc, scans.cc, statistics.cc. Section names refer to
// docs/node-protocol.md.
//
// Locks, in the order in which they are taken: the gate (shared by data frames, exclusive for
// INSTALL_MAP), one latch of a key, then a partition's mutex or the store's own. Never two latches.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "server-patches/node/engine/answer.h"
#include "server-patches/node/engine/board.h"
#include "server-patches/node/engine/brought_map.h"
#include "server-patches/node/engine/context.h"
#include "server-patches/node/engine/counters.h"
#include "server-patches/node/engine/delayed_deletions.h"
#include "server-patches/node/engine/engine.h"
#include "server-patches/node/engine/gate.h"
#include "server-patches/node/engine/item_formats.h"
#include "server-patches/node/engine/partition_state.h"
#include "server-patches/node/engine/roles.h"
#include "server-patches/node/engine/shard_updates.h"
#include "server-patches/node/engine/versions.h"
#include "server-patches/node/format/mutant.h"
#include "server-patches/node/update/update_logs.h"

namespace elastripe::node {

void raise(std::atomic<uint64_t>& number, uint64_t to);

class Engine::Impl {
 public:
  Impl(EngineOptions options, ItemStore& store, const NodeClock& clock);

  Reply serve(const Frame& frame);
  void tick();
  Progress& progress() { return progress_; }
  std::vector<std::pair<std::string, std::string>> statistics() const;

 private:
  // Only one of them on a thread, at any time.
  using Latch = std::unique_lock<std::mutex>;
  Latch latch(uint64_t hash) { return Latch(latches_[hash & (options_.latches - 1)]); }

  // engine.cc
  Answer dispatch(const Frame& frame);
  Answer pass_gate(const Frame& frame, Room& room);
  Answer dispatch_data(const Context& c);
  Answer handle_data(const Context& c);
  template <class Request>
  Answer with_request(const Context& c, Answer (Impl::*handler)(const Context&, const Request&));
  // Null if there is no room: the frame changes nothing, and answers kNoSpace.
  ItemRef allocate(const Context& c, std::string_view key, size_t value_bytes, Urgency urgency);
  ShardBodies::Allocate allocator(const Context& c);

  struct Found {  // a record's item, found under its latch
    ItemRef item;
    RecordItemPrefix prefix;
    bool forgotten = false;  // of an older tenure: counts as missing, is overwritten
    bool damaged = false;    // so does this, but others may know it
    OwnedBytes copy;         // of the record, while nobody has taken it; of an item in chunks
    bool visible() const { return item && !forgotten && !damaged; }
  };

  // membership.cc
  std::optional<Answer> check_gate(const Frame& frame, uint64_t now_ms,
                                   std::optional<NodeId>& self) const;
  std::optional<NodeId> find_self(const ClusterMap& map, uint64_t incarnation) const;
  Answer hello(const Frame& frame);
  Answer heartbeat(const Frame& frame);
  Answer install_map(const Frame& frame);
  Answer notices(const Frame& frame);
  bool stays_home(const ClusterMap* before, size_t partition) const;
  bool has_homes_of(const ClusterMap& before, size_t partition) const;
  Answer mark_synced(const Context& c, const MarkSyncedRequest& request);
  Answer raise_floor(const Context& c, const RaiseFloorRequest& request);
  // Under the gate. `known_synced`: as in HeartbeatRequest.
  HelloReply describe(uint32_t known_synced = HeartbeatRequest::kTellSynced) const;
  void hear_decider(bool grants, DeciderSign sign);
  // Why the node should get no lease although it answers.
  std::optional<Answer> check_progress() const;
  bool has_lease(uint64_t now_ms) const { return now_ms < lease_until_ms_; }
  // Both under the key's latch. All but kSynced is a refusal, unless the request says otherwise.
  Knowledge knowledge(size_t partition, std::string_view key, const Found& found);
  // False if there is no room.
  bool mark_key(const Context& c, size_t partition, std::string_view key, const Found& found);
  void mark_absent(PartitionState& state, std::string_view key);
  // The copy is damaged, of at most this version: the key is no longer synced here.
  void note_damaged(size_t partition, std::string_view key, uint64_t version);
  // A source of the partition that was told that its homes are synced: it can tell nothing more.
  bool has_passed_on(size_t partition) const {
    return partitions_[partition].tenure == map_->epoch.number && self_ &&
           is_source(map_->partitions[partition], *self_);
  }
  // That the item can have had.
  uint64_t highest_version(const RecordItemPrefix& prefix) const {
    const uint64_t highest = max_version_;
    return prefix.version != 0 ? std::min(prefix.version, highest) : highest;
  }
  void forget_damage(size_t partition, std::string_view key);
  bool is_damaged(size_t partition, std::string_view key);
  uint64_t damaged_version(size_t partition, std::string_view key);

  // records.cc
  // kPrefix: of a key whose copy was not damaged so far just the prefix is checked. For what
  // replaces a record, and need not read a value that is in no cache of the processor.
  enum class Trust : uint8_t { kNothing, kPrefix };
  // Checks the record, and notes damage.
  Found find_record(size_t partition, std::string_view item_key, Trust trust = Trust::kNothing);
  Found take_record(ItemRef item, size_t partition, std::string_view item_key, Trust trust);
  // All of it: sets found.damaged, and notes damage.
  void check(size_t partition, std::string_view item_key, Found& found);
  bool is_intact(Found& found) const;
  struct Loaded {
    Record record;           // without the inline value
    std::string_view value;  // in the item, or in `copy`
    OwnedBytes copy;         // of an item in several chunks
  };
  OwnedBytes record_bytes(Found& found) const;
  // Refuses what is damaged. `to_replace`: without the content of an inline record, unchecked.
  Decoded<Loaded> load_record(Found& found, bool to_replace = false) const;
  // Whether the record is, or certainly comes of, what was committed as `version`.
  bool has_commit(Found& found, uint64_t version) const;
  Answer store_lost(const Context& c, const RecordStoreRequest& request);
  // The bytes of the record are those of `meta` and `content`, one after the other. `marks`: the
  // key is synced from now on, if it was not.
  bool link_record(const Context& c, size_t partition, std::string_view item_key,
                   const Record& record, ByteView meta, ByteView content, Urgency urgency,
                   const Found& replaced, bool marks);
  // The same record in an item of the current tenure, for which there always is room.
  bool relink_record(const Context& c, size_t partition, std::string_view item_key,
                     const Found& found, bool marks);
  uint32_t synced_in(size_t partition, std::string_view item_key, const Found& replaced,
                     bool marks);
  void remove_record(std::string_view item_key, const Found& found);
  Answer record_read(const Context& c, const RecordReadRequest& request);
  Answer record_apply(const Context& c, const RecordApplyRequest& request);
  Answer apply_latched(const Context& c, const RecordApplyRequest& request, size_t partition,
                       RecordContent given);
  // `current` is null if the record counts as missing; its meta goes over into the new record.
  // `replaced` is what lies there all the same. The content of a SET is stored as it came.
  Answer commit(const Context& c, const RecordApplyRequest& request, size_t partition,
                Record* current, RecordContent content, const Found& replaced, bool revives);
  Answer record_store(const Context& c, const RecordStoreRequest& request);
  Answer drop_tombstones(const Context& c, const DropTombstonesRequest& request);

  // logs.cc. All under the key's latch.
  // The log of a visible record; null if it has none.
  UpdateLogs::Entry* find_log(size_t partition, std::string_view key, const Found& found);
  // The highest LSN of the record's log, 0 without one.
  uint64_t last_lsn(size_t partition, std::string_view key, const Found& found);
  bool has_unnumbered(size_t partition, std::string_view key, const Found& found);
  // After `record` was stored: its log keeps what the shards have not, while the value is the same.
  void fit_log(size_t partition, std::string_view key, const Record& record);
  // Before another value takes the place of `old`: of a log that was folded and dropped, the record
  // is all that tells that there were updates.
  void note_folded(size_t partition, std::string_view key, const Found& replaced,
                   const Record& old);
  struct ToldLog {
    std::string encoded;  // empty without one
    uint64_t age_ms = 0;
  };
  // What the request wants of the log.
  ToldLog tell_log(const Context& c, size_t partition, const RecordReadRequest& request,
                   const Found& found, Knowledge known);
  // Why the image of a log that sync brings for a stored record is not taken over, or nothing.
  std::optional<Answer> store_log(const Context& c, const RecordStoreRequest& request,
                                  const Record& record, size_t partition);
  Answer refuse_value(Found& found) const;
  Answer log_append(const Context& c, const LogAppendRequest& request);
  Answer append_latched(const Context& c, const LogAppendRequest& request, size_t partition);
  // LOG_APPEND without bytes, of a live record.
  Answer number_latched(const LogAppendRequest& request, const Record& record, Found& found,
                        size_t partition, uint64_t now_ms);
  Answer log_store(const Context& c, const LogStoreRequest& request);
  Answer answer_for_former(const Context& c, const LogStoreRequest& request, Found& found);
  class CopiedUpdates;
  Answer store_latched(const Context& c, const LogStoreRequest& request, size_t partition);
  Answer log_settle(const Context& c, const LogSettleRequest& request);
  bool settle_latched(const Context& c, const LogSettleRequest::Entry& settled, size_t partition);
  Answer log_cancel(const Context& c, const LogCancelRequest& request);
  Answer log_scan(const Context& c, const LogScanRequest& request);
  void forget_logs();
  // What statistics tell of logs: each is looked at, so once a second.
  void survey_logs();

  // sync.cc
  // Whether forgotten records of the partition may become current again, by RECORD_CONFIRM.
  bool is_confirmable(size_t partition) const;
  bool has_room_for_forgotten() const;
  bool confirm_latched(const Context& c, const RecordConfirmRequest::Entry& entry);
  Answer record_confirm(const Context& c, const RecordConfirmRequest& request);
  Answer record_fetch(const Context& c, const RecordFetchRequest& request);

  // shards.cc
  struct FoundShard {
    ItemRef item;  // of its name; null: there is none
    ShardItem layout;
    ShardBodies::Image image;  // of one whose bytes are in a body
    bool is_whole = false;     // its bytes can be read; else there is none as far as others know
  };
  // What is found is held by reference, without a latch.
  FoundShard find_shard(const ShardName& name);
  FoundShard find_latched(std::string_view item_key);
  void read_bytes(const FoundShard& found, size_t offset, MutableByteView out) const;
  // As stored, of pages.
  std::vector<uint32_t> checksums(const FoundShard& found, size_t first, size_t count) const;
  bool is_intact(const FoundShard& found, uint32_t* crc) const;
  Answer refuse_bad_page();
  Answer shard_write(const Context& c, const ShardWriteRequest& request);
  // Links the shard unless its name is taken; ShardWriteReply, for SHARD_BUILD too.
  Answer store_shard(const Context& c, const ShardHeader& header, ByteView payload);
  // The same with these checksums of its pages; without args.
  enum class Keeping : uint8_t { kInItem, kInBody };
  Answer store_shard(const Context& c, const ShardHeader& header, ByteView payload,
                     const std::vector<uint32_t>& checksums_given, Keeping keeping);
  // False if there is no room. All under the latch of the shard's key.
  bool link_in_item(const Context& c, std::string_view item_key, const ShardHeader& header,
                    ByteView payload, const std::vector<uint32_t>& checksums_given);
  bool link_in_new_body(const Context& c, std::string_view item_key, const ShardHeader& header,
                        ByteView payload, const std::vector<uint32_t>& checksums_given);
  bool link_version(const Context& c, std::string_view item_key, const ShardHeader& header,
                    const BodyVersion& version);
  void link_shard(const ItemRef& item);
  void forget_shard(const FoundShard& gone);  // its item is linked no more
  Answer shard_read(const Context& c, const ShardReadRequest& request);
  Answer shard_confirm(const Context& c, const ShardConfirmRequest& request);
  Answer shard_delete(const Context& c, const ShardDeleteRequest& request);
  bool has_shard(const ShardName& name);
  bool delete_shard(const ShardName& name);  // true if it was there
  Answer shard_update(const Context& c, const ShardUpdateRequest& request);
  void fold_parities();

  // shard_fingerprint.cc
  void add_fingerprints(const FoundShard& found, uint32_t block_bytes,
                        const coding::Fingerprinter& fingerprinter, ShardFingerprintReply& reply);
  Answer shard_fingerprint(const Context& c, const ShardFingerprintRequest& request);

  // shard_build.cc, shard_patch.cc
  Answer shard_build(const Context& c, const ShardBuildRequest& request);
  Answer shard_patch(const Context& c, const ShardPatchRequest& request);
  // Nothing: a copy has to be changed.
  std::optional<Answer> patch_in_place(const Context& c, const ShardPatchRequest& request,
                                       const BodyVersion& from);
  Answer patch_copy(const Context& c, const ShardPatchRequest& request);

  // scans.cc
  Answer record_scan(const Context& c, const RecordScanRequest& request);
  Answer shard_scan(const Context& c, const ShardScanRequest& request);
  void delete_due_shards();
  void forget_slice();

  // statistics.cc
  void count(const Frame& frame, const Answer& answer);
  NodeStatistics node_statistics() const;

  const EngineOptions options_;
  ItemStore& store_;
  const NodeClock& clock_;
  const std::unique_ptr<std::mutex[]> latches_;

  Progress progress_;
  mutable Gate gate_;
  // Written under the exclusive gate, read under the shared one.
  MapPtr map_;
  std::string encoded_map_;
  KeptChanges map_changes_;     // since the map before
  std::optional<NodeId> self_;  // if the map names this incarnation as up
  std::unique_ptr<PartitionState[]> partitions_;
  std::vector<uint32_t> own_partitions_;  // of which it is a home

  std::atomic<uint64_t> lease_until_ms_ = 0;    // on clock_; 0: none
  std::atomic<uint64_t> decider_heard_ms_ = 0;  // likewise
  Board board_;
  std::atomic<uint64_t> max_version_ = 0;
  // Counts changes of tenures: what was stored before is to be forgotten.
  std::atomic<uint64_t> tenures_changed_ = 0;
  // tick()'s own, for forgetting: where the walk stands, what it began with, and what the last
  // whole one had begun with.
  uint64_t forget_cursor_ = 0;
  uint64_t forgets_ = 0;
  uint64_t forgotten_ = 0;
  bool keeps_confirmable_ = true;  // there was room for them
  DelayedDeletions deletions_;
  UpdateLogs logs_;
  ShardBodies bodies_;
  uint64_t logs_surveyed_ms_ = 0;              // tick()'s own
  std::atomic<uint64_t> logs_with_bytes_ = 0;  // as the survey found them
  std::atomic<uint64_t> oldest_log_ms_ = 0;    // on clock_; 0: there is none
  Counters counters_;
  ShardUpdates shard_updates_;
};

}  // namespace elastripe::node
