// UpdateLog: the updates of one object that are not in its shards yet. docs/updates.md, "The log".
//
// What all copies have is **settled**: of it, only the newest bytes of each place are kept, as
// disjoint extents by offset. All other updates lie beside them as they came, since what a copy
// misses must be sent to it whole.
//
// Belongs to whoever holds the latch of its key.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server-patches/node/format/frame.h"
#include "server-patches/node/format/log_messages.h"
#include "server-patches/node/update/log_pool.h"

namespace elastripe::node {

class UpdateLog {
 public:
  // The record has this value and version, and no updates so far.
  UpdateLog(uint64_t value, uint64_t version);

  uint64_t value() const { return value_; }
  uint64_t last() const { return last_; }
  uint64_t rank() const { return rank_; }
  uint64_t settled_to() const { return settled_to_; }
  uint64_t reach() const { return reach_; }
  size_t bytes() const { return bytes_; }  // of all that it has
  // The same with what each piece takes beside its bytes: what a log is limited by.
  static constexpr size_t cost_of(size_t bytes) { return bytes + LogPool::kBesideBytes; }
  size_t cost() const {
    return bytes_ + (settled_.size() + unsettled_.size()) * LogPool::kBesideBytes;
  }
  bool empty() const { return bytes_ == 0; }
  size_t unsettled_count() const { return unsettled_.size(); }

  // The number of an update that it has, or had, as long as it remembers.
  std::optional<uint64_t> find(const Id128& id) const;
  // The same, compared with a number that it was told. `kElsewhere`: the update has another number
  // here, or the number is another update's. One number for two updates would lose one of them.
  enum class Has : uint8_t { kNo, kYes, kElsewhere };
  Has has(const UpdateName& name) const;
  const std::deque<UpdateName>& recent() const { return recent_; }
  // Whether it has the same updates as the image. Both may have forgotten all names: then the last
  // number tells, up to which each has all.
  bool has_updates_of(const LogImage& image) const {
    return last() == image.last && reach_ == image.reach &&
           std::ranges::equal(recent_, image.recent);
  }

  // Takes an update under its number, which is not 0. An update that it knows changes nothing.
  void add(const UpdateName& name, uint64_t offset, LogBytes bytes, uint32_t crc32c);
  // Takes a number that no update goes with: all of them have it.
  void number(uint64_t lsn);

  // An update that is here without a number: nobody has told it yet, or others that come before it
  // are missing. It waits beside the log, in the order of arrival, until it gets its number. If the
  // tail dies before that, sync gives it one.
  struct Unnumbered {
    UpdateName name;  // lsn 0: it was not told; else the copy lacks one below it
    uint64_t offset = 0;
    uint32_t crc32c = 0;
    LogBytes bytes;
    uint64_t since_ms = 0;
    uint64_t end() const { return offset + bytes.size(); }
  };
  const std::vector<Unnumbered>& unnumbered() const { return unnumbered_; }
  bool has_unnumbered(const Id128& id) const;
  // Whether there is room for it, and it can not be one that was here, and is folded by now, or
  // cancelled. `known`: of an update without a number, as in LogAppendRequest.
  bool takes_unnumbered(const UpdateName& name, size_t bytes, uint64_t known,
                        const Epoch& epoch) const;
  void keep_unnumbered(Unnumbered update) { unnumbered_.push_back(std::move(update)); }
  // One that is here without a number becomes that update. False: it is not here.
  bool give_number(const UpdateName& name);
  // The update is not to be made: forgets what is here of it, and takes none without a number that
  // knew as little as it did, as its frame may still come: under this map.
  void cancel(const Id128& id, uint64_t known, const Epoch& epoch);
  // The tail's part of that. False: it has no place to remember it.
  bool forbid(const Id128& id, const Epoch& epoch);
  bool is_forbidden(const Id128& id, const Epoch& epoch) const;
  // A later version of the record is here: what was forbidden before knows of none.
  void forget_forbidden(uint64_t version);
  // Whether a new log of that version would be as good.
  bool says_nothing(uint64_t version, const Epoch& epoch) const;

  // Takes its settled bytes together where they may lie in many units, which others need: after as
  // much was made of the pool as would make up for the work.
  void compact(LogPool& pool);

  // All copies have the updates up to `lsn`.
  void settle(uint64_t lsn);
  // Those up to `folded_lsn` are in the shards of the segment that has these bytes.
  void trim(uint64_t begin, uint64_t end, uint64_t folded_lsn);

  // The names of what is not settled, below `lsn`.
  std::vector<UpdateName> unsettled_below(uint64_t lsn) const;
  // What a reader of the range needs: the settled extents that overlap it and, if others overlap
  // it, all that is not settled up to the newest of these. Its bytes lie in `bytes`, which it
  // fills.
  LogImage view(uint64_t offset, uint64_t length, std::string& bytes) const;
  // All that is not settled, and what has no number.
  LogImage unsettled(std::string& bytes) const;
  // All there is.
  LogImage image(std::string& bytes) const;
  // Becomes what `image` is, with a rank of at least `rank`. What is not settled there is not
  // settled here: only the head's word, that it takes an update, makes it count. What has no number
  // there gets one, in that order, above all others. False if the pool has no room: then the log
  // stays as it was.
  bool restore(const LogImage& image, uint64_t rank, LogPool& pool);

 private:
  struct Extent {
    Id128 id;
    uint64_t lsn = 0;
    uint64_t offset = 0;
    uint32_t crc32c = 0;
    LogBytes bytes;
    uint64_t end() const { return offset + bytes.size(); }
  };
  using Settled = std::map<uint64_t, Extent>;  // by offset
  struct Cancelled {
    Epoch epoch;             // of others no frame is taken anyway
    std::vector<Id128> ids;  // at the tail
    uint64_t known = 0;      // at a copy: without a number it takes what knew more
  };

  void remember(const UpdateName& name);
  // Those up to `lsn`.
  void forget_names(uint64_t lsn);
  // What there is to tell of the log, with these settled extents and so many others.
  LogImage told(Settled::const_iterator first, Settled::const_iterator last, size_t unsettled,
                bool tells_unnumbered, std::string& bytes) const;
  // The places among the settled extents from the first that ends behind `offset` on.
  Settled::const_iterator first_behind(uint64_t offset) const;
  void insert_settled(Extent extent);
  // Takes [begin, end) out of the settled extents with an LSN of at most `lsn`.
  void cut_out(uint64_t begin, uint64_t end, uint64_t lsn);
  static Extent cut(const Extent& whole, uint64_t begin, uint64_t end);

  uint64_t value_;
  uint64_t last_ = 0;
  uint64_t rank_;
  uint64_t settled_to_ = 0;
  uint64_t reach_;
  std::deque<UpdateName> recent_;  // ascending by LSN
  Settled settled_;
  std::vector<Extent> unsettled_;       // ascending by LSN
  std::vector<Unnumbered> unnumbered_;  // by arrival
  Cancelled cancelled_;
  size_t bytes_ = 0;
  uint64_t compacted_at_ = 0;  // units that the pool had made by then
};

}  // namespace elastripe::node
