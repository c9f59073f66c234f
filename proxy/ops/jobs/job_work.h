// What comes of work on objects: how it ends, what it moves over the network and changes in the
// nodes.
#pragma once

#include <cstdint>

namespace elastripe::jobs {

// What crossed the network, headers aside: whole blocks of shards.
struct Traffic {
  uint64_t blocks_read = 0;
  uint64_t blocks_sent = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_sent = 0;

  uint64_t bytes() const { return bytes_read + bytes_sent; }
  Traffic& operator+=(const Traffic& other) {
    blocks_read += other.blocks_read;
    blocks_sent += other.blocks_sent;
    bytes_read += other.bytes_read;
    bytes_sent += other.bytes_sent;
    return *this;
  }
};

// How it went with an object; JobCounts has a count of each.
enum class ObjectStatus : uint8_t {
  kDone,
  kAlreadyThere,
  kNoObject,     // no object of this key (any more)
  kSkipped,      // it is none of those that the work is for; `reason` says why
  kOverwritten,  // a write came first, and stays
  kRefused,      // shards are missing; `reason` says which
};

// Bytes of parity shards.
struct ParityBytes {
  uint64_t before = 0;
  uint64_t after = 0;
};

// The objects that a job has to do something with, or has done it with.
struct JobWork {
  uint64_t objects = 0;
  uint64_t object_bytes = 0;
  Traffic traffic = {};
  ParityBytes parity = {};
  uint64_t shards = 0;  // to make again

  JobWork& operator+=(const JobWork& other) {
    objects += other.objects;
    object_bytes += other.object_bytes;
    traffic += other.traffic;
    parity.before += other.parity.before;
    parity.after += other.parity.after;
    shards += other.shards;
    return *this;
  }
};

}  // namespace elastripe::jobs
