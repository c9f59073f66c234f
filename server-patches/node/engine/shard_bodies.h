// Bodies: the bytes of shards that were made out of each other. A fold gives a shard that has
// changed a new name, and the old name stays for readers and for a fold that fails. So a body has
// the bytes of the newest version, which a patch changes in place, and undos that lead back to
// the versions before, as long as these have a name.
//
//   body item: key '\x04' + number;  value  head (20) | page checksums | bytes
//   undo item, which nothing finds: for each page that was changed its number, its checksum, then
//   all these pages' bytes
//
// Any thread. No call waits for more than a copy of the pages that a patch changes.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "server-patches/node/store/item_store.h"

namespace elastripe::node {

// What a shard's name stands for.
struct BodyVersion {
  uint64_t body = 0;    // its number at this node
  uint64_t serial = 0;  // counts the changes
  friend bool operator==(const BodyVersion&, const BodyVersion&) = default;
};

class ShardBodies {
 public:
  explicit ShardBodies(ItemStore& store) : store_(store) {}

  // Null if there is no room.
  using Allocate = std::function<ItemRef(std::string_view key, size_t value_bytes, Urgency)>;

  // A body of one version, which has one name. Nothing if there is no room.
  std::optional<BodyVersion> create(ByteView payload, const std::vector<uint32_t>& checksums,
                                    const Allocate& allocate);

  // A version as it was when it was found, whatever is patched since. Newest undo first.
  struct Image {
    ItemRef body;  // null: there is no such version
    std::vector<std::shared_ptr<const ItemRef>> undos;
    size_t payload_bytes = 0;
  };
  Image find(const BodyVersion& version) const;
  void read(const Image& image, size_t offset, MutableByteView out) const;
  std::vector<uint32_t> checksums(const Image& image, size_t first, size_t count) const;

  enum class PatchEnd {
    kPatched,
    kCopy,  // it is not the newest, or is being read: a copy has to be changed
    kBadPage,
    kNoRoom,
  };
  // Makes a newer version, with a name of its own, out of `from`: `change` is given the bytes of
  // `pages` (ascending), one after the other. `made` is set if that is done; nothing has changed
  // otherwise.
  PatchEnd patch(const BodyVersion& from, const std::vector<size_t>& pages,
                 const std::function<void(MutableByteView)>& change, const Allocate& allocate,
                 BodyVersion& made);

  // The version has lost its name. Returns stored_bytes() if that was the body's last one.
  size_t drop(const BodyVersion& version);

  // What the item of a body takes.
  static size_t stored_bytes(size_t payload_bytes);

 private:
  struct Head;
  // A version that is not the newest, and what makes it out of the next newer one.
  struct Older {
    uint64_t serial = 0;
    bool has_name = true;
    std::shared_ptr<const ItemRef> undo;
  };
  struct Part {
    std::mutex mutex;  // of all bodies of the part, too: it is what their readers find them under
    std::unordered_map<uint64_t, std::deque<Older>> older;  // by body, oldest first
    std::unordered_set<uint64_t> nameless;  // bodies of which the newest version has lost its name
  };

  Part& part_of(uint64_t body) const { return parts_[body % parts_.size()]; }
  std::optional<Head> read_head(const ItemRef& item) const;
  void write_head(const ItemRef& item, const Head& head);

  void forget_undo(const Older& older);

  ItemStore& store_;
  std::atomic<uint64_t> next_ = 1;
  std::atomic<size_t> undo_bytes_ = 0;  // of all older versions
  mutable std::array<Part, 64> parts_;
};

}  // namespace elastripe::node
