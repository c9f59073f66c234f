// The node engine: records, shards, membership and sync of one node, as a pure library. It knows no
// socket and no memcached header; memcached's worker threads (server-patches/shim), the simulator
// and unit tests drive the same code.
//
// serve() answers a frame, and tick() does what time asks for. Nodes do not speak to each other:
// whatever needs several of them is driven by a proxy.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server-patches/node/engine/progress.h"
#include "server-patches/node/format/log_messages.h"
#include "server-patches/node/format/messages.h"
#include "server-patches/node/store/item_store.h"

namespace elastripe::node {

// Bytes that a reply owns; uninitialised when made.
class OwnedBytes {
 public:
  OwnedBytes() = default;
  explicit OwnedBytes(size_t size)
      : data_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}
  explicit OwnedBytes(std::string_view text);

  MutableByteView bytes() { return {data_.get(), size_}; }
  ByteView bytes() const { return {data_.get(), size_}; }
  size_t size() const { return size_; }

 private:
  std::unique_ptr<std::byte[]> data_;
  size_t size_ = 0;
};

struct Frame {
  RequestHeader header;
  ByteView args;  // views are valid during serve() only
  ByteView payload;
};

// The engine fills the header completely, sizes included.
struct Reply {
  ReplyHeader header;
  std::string args;
  OwnedBytes payload;
};

class NodeClock {
 public:
  virtual ~NodeClock() = default;
  virtual uint64_t boottime_ms() const = 0;  // CLOCK_BOOTTIME: goes on while the machine sleeps
  // From an arbitrary origin, some ms behind, and at little cost: for how long something lasts.
  virtual uint64_t coarse_ms() const { return boottime_ms(); }
  virtual uint64_t cpu_us() const { return 0; }  // used by the process; for statistics only
};

// Bounds of one frame of a scan; the reply's cursor goes on where they end. Tests make them small.
struct ScanLimits {
  size_t walks_per_frame = 8;     // of ItemStore::walk()
  size_t record_bytes = 4 << 20;  // of keys and records, whatever the request asks for
  size_t shards = 8192;
  size_t walks_per_tick = 64;  // of forgetting
};

struct EngineOptions {
  uint64_t incarnation = 0;  // random, of this process
  std::string version = {};  // of the build, for people
  CapabilitySet capabilities = own_capabilities();
  size_t latches = 1024;  // power of two
  ScanLimits scan = {};
  // Shards that one SHARD_CONFIRM or SHARD_FINGERPRINT reads; the caller asks for the rest again.
  size_t confirm_bytes = 32 << 20;
  // A thread that has been inside one frame for longer is stuck, and the node gets no lease.
  uint64_t stuck_after_ms = 3000;
  // Names of shards that wait for a SHARD_DELETE's time: some 100 bytes each, outside of the store.
  size_t max_delayed_deletions = 1 << 18;
  // Keys without a record that were synced by themselves, of all partitions together: remembered
  // outside of the store.
  size_t absent_keys = 64 << 10;
  // The memory of update logs, inside the store: so many units of that size.
  size_t log_unit_bytes = 64 << 10;
  size_t log_units = 20;
};

class Engine {
 public:
  Engine(EngineOptions options, ItemStore& store, const NodeClock& clock);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any thread. Malformed args answer kInvalid with the reason.
  Reply serve(const Frame& frame);

  // One thread, about every 100 ms: deletes shards whose time has come, and forgets what the node
  // is no longer a home or a source of, while there is any, some slices a tick.
  void tick();

  // What heartbeats look at. Whoever is inside keeps the node from a lease in the end: for threads
  // that serve frames in other ways than serve(), and for tests of threads that are stuck.
  Progress& progress();

  // Name and value pairs, for `stats elastripe`.
  std::vector<std::pair<std::string, std::string>> statistics() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace elastripe::node
