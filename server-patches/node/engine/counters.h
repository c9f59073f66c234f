// What the engine counts, for `stats elastripe` and heartbeats.
#pragma once

#include <array>
#include <atomic>
#include <utility>

#include "server-patches/node/format/frame.h"

namespace elastripe::node {

struct Counters {
  // The last of them is of those that are none.
  std::array<std::atomic<uint64_t>, kOpcodes.size() + 1> frames_by_opcode = {};
  std::array<std::atomic<uint64_t>, kStatuses> answers_by_status = {};
  std::atomic<uint64_t> frames = 0, bytes_in = 0, bytes_out = 0;
  std::atomic<uint64_t> records = 0, record_bytes = 0, shards = 0, shard_bytes = 0;
  // Shards that frames and folds have changed bytes of, in place or under a new name; these bytes.
  std::atomic<uint64_t> shard_changes = 0, shard_changed_bytes = 0;
  std::atomic<uint64_t> bad_pages = 0, bad_records = 0, out_of_memory = 0, forgotten = 0;
};
// Those that only `stats elastripe` tells, by its names.
using OwnCounter = std::pair<const char*, std::atomic<uint64_t> Counters::*>;
inline constexpr std::array kOwnCounters{
    OwnCounter{"shard_changes", &Counters::shard_changes},
    OwnCounter{"shard_changed_bytes", &Counters::shard_changed_bytes},
    OwnCounter{"bad_pages", &Counters::bad_pages},
    OwnCounter{"bad_records", &Counters::bad_records},
    OwnCounter{"out_of_memory", &Counters::out_of_memory},
    OwnCounter{"records_forgotten", &Counters::forgotten},
};

}  // namespace elastripe::node
