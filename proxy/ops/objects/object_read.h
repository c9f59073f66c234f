// ObjectRead: one object on its way out, from its newest record on, a few segments ahead of whoever
// takes them.
//
// Until its first part is there it starts again with whatever record is the newest. From then on
// its value is fixed: under a newer record it goes on only if that has the same value (rule 8: a
// transition or a touch changes no data), so that no reader ever sees two versions mixed. What is
// being read by the record that was known before stays, too, if the newer one has the same data
// shards.
#pragma once

#include <optional>
#include <vector>

#include "proxy/async/one_shot.h"
#include "proxy/cluster/record_cache.h"
#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/objects/read_segment.h"
#include "proxy/ops/records/read_tail.h"

namespace elastripe::objects {

// Shared by a read and by who waits for it.
struct ArrivingSegment {
  RecordPtr record;  // that it is read by
  OneShot<Result<SegmentBytes>> bytes;
  Duration waited{};  // for memory
};

// Belongs to one flow; outlives its calls, which follow each other.
class ObjectRead {
 public:
  // `key` outlives it. `deadline` moves by the time that the read waits for memory, and every part
  // renews it.
  ObjectRead(OpsContext& ops, std::string_view key, ReadMemory& memory, ByteRange range,
             TimePoint deadline, records::Use use = records::Use::kNone);

  // Finds the newest record and, if it is live, reads the first part. Errors: kLost, kUnavailable,
  // kTimeout..., and those of the memory.
  Task<Result<void>> open();
  // The same of a record that was the newest a moment ago, expired or not, but no tombstone.
  Task<Result<void>> open(RecordPtr record);

  // Once open:
  const RecordPtr& record() const { return record_; }  // null: there is none; may be a tombstone
  bool is_live() const { return is_live_; }            // decided once: the wall clock may step
  // The version that made the value, or the LSN of its last update: of memcached's cas.
  uint64_t cas() const { return node::cas_of(*record_, log_ == nullptr ? 0 : log_->image.last); }
  ReadPath path() const { return path_; }
  Object object() const;

  // Nothing is left to take of a live one.
  bool at_end() const { return !first_ && given_ == range_.length; }
  // The next part, if it is here already.
  std::optional<Buffer> take_ready() { return std::exchange(first_, std::nullopt); }
  // The next part of the range, verified. Errors: also kConflict: the object was overwritten and
  // its shards are gone.
  Task<Result<Buffer>> next();

 private:
  using Arriving = std::shared_ptr<ArrivingSegment>;

  Task<Result<Buffer>> read_part();
  Task<Result<Buffer>> go_on();
  Task<Result<Buffer>> read_newest();
  Task<Result<std::optional<Buffer>>> read_part_under(const MapPtr& map, TimePoint& deadline);
  Task<Result<std::optional<Buffer>>> take_later();
  RecordPtr known_record(const node::ClusterMap& map);
  Result<void> take_newest(records::TailRead tail, const RecordPtr& known);
  bool has_value_of(const records::TailRead& tail, const RecordPtr& newest) const;
  Task<Result<Buffer>> take_part();
  Task<Result<MemoryHold>> wait_for_memory(uint64_t bytes);
  std::optional<Buffer> take_now();
  Buffer inline_bytes(MemoryHold hold);

  void begin_reading(RecordPtr record);
  Task<Result<SegmentBytes>> next_segment();
  ByteRange range_in_segment(size_t index) const;
  void read_ahead();
  bool start(MemoryHold hold);

  OpsContext& ops_;
  const std::string_view key_;
  ReadMemory& memory_;
  const ByteRange wanted_;
  TimePoint deadline_;
  records::Use use_;  // of the next look at the tail
  node::RecordReadReply::Use used_before_;

  RecordPtr record_;
  bool is_live_ = false;
  bool is_open_ = false;     // the value is fixed
  bool is_current_ = false;  // record_ is the newest, as far as is known
  LogViewPtr log_;           // of record_, in the same moment, for the range; null: it has none
  ReadPath path_ = ReadPath::kInline;
  std::optional<uint64_t> undecodable_version_;
  std::optional<Buffer> first_;

  MapPtr map_;  // that it is read under
  // The segments of reading_ that are read.
  RecordPtr reading_;
  ByteRange range_;                // of the object's bytes
  std::vector<uint64_t> offsets_;  // where each segment begins, and the end of the last
  uint64_t given_ = 0;             // bytes of the range
  size_t segment_ = 0;             // the next one to take
  std::vector<Arriving> ahead_;    // from segment_ on
};

// Gives what an open read has to `sink`; with a win, if the client has got it.
Task<Result<ReadOutcome>> deliver(ObjectRead& read, ValueSink& sink, bool is_won = false);

}  // namespace elastripe::objects
