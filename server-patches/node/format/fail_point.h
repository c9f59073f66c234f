// Fail points: named places between two steps of a protocol where a process can be made to die, in
// builds with ELASTRIPE_FAIL_POINTS (tests/e2e/test_transition_crash.py, test_update_crash.py). The
// environment arms one:
//
//   ELASTRIPE_FAIL_POINT=NAME[:N][@FILE]
//
// The process kills itself, as kill -9 would, the N-th time (default 1) that it gets there; with
// FILE, only times while that file exists count. In every other build fail_point() is nothing, and
// a process that finds the variable set refuses to start.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace elastripe {

enum class FailPoint : uint8_t {
  // Proxy.
  kRecordRead,       // of a window, as all of transition/: no node was asked for blocks yet
  kInputsRead,       // the blocks are there, nothing is computed or staged yet
  kParityStaged,     // a parity node has staged its shard; others may have
  kAllStaged,        // all have; the commit was not begun
  kWindowCommitted,  // the tail has it; windows may follow, old parities are to be deleted
  kHeadCommitted,    // of any record: the head has it, no other home
  kMiddlesStored,    // of any record: all homes have it but the tail
  kSuperseded,       // nodes are about to be told of superseded shards
  kDeletionTold,     // a node has been told; others may have been
  kUpdateNumbered,   // of an update: the tail has it, and no other copy of the log was asked
  kUpdateCopied,     // a copy has it; others may have
  kUpdateSettled,    // all copies have it; neither the tail nor the client was told
  kNumbersTold,      // of an update in one round: a copy knows its number; others may, or the tail
  kDataPatched,      // of a fold: the data shards of a segment are made, no parity
  kParitiesPatched,  // all shards of a segment are made
  kAllPatched,       // those of all segments; the commit was not begun
  kFoldCommitted,    // the tail has it; old shards are to be deleted
  // Node. received: has passed the gate, nothing is changed; done: as it asks, and not answered.
  kShardReadDone,
  kShardConfirmDone,
  kShardBuildReceived,
  kShardBuildDone,
  kShardWriteReceived,
  kShardWriteDone,
  kRecordApplyReceived,
  kRecordApplyDone,
  kRecordStoreReceived,
  kRecordStoreDone,
  kShardDeleteReceived,
  kShardDeleteDone,
  kShardPatchReceived,
  kShardPatchDone,
  kLogAppendReceived,
  kLogAppendDone,
  kLogStoreReceived,
  kLogStoreDone,
  kLogSettleReceived,
  kLogSettleDone,
};

// The process that has a fail point, and its name; in the order of the fail points.
struct FailPointName {
  std::string_view process;
  std::string_view name;
};
inline constexpr std::array kFailPointNames = {
    FailPointName{"proxy", "transition/record-read"},
    FailPointName{"proxy", "transition/inputs-read"},
    FailPointName{"proxy", "transition/parity-staged"},
    FailPointName{"proxy", "transition/all-staged"},
    FailPointName{"proxy", "transition/window-committed"},
    FailPointName{"proxy", "commit/head-committed"},
    FailPointName{"proxy", "commit/middles-stored"},
    FailPointName{"proxy", "delete/superseded"},
    FailPointName{"proxy", "delete/told"},
    FailPointName{"proxy", "update/numbered"},
    FailPointName{"proxy", "update/copied"},
    FailPointName{"proxy", "update/settled"},
    FailPointName{"proxy", "update/numbers-told"},
    FailPointName{"proxy", "fold/data-patched"},
    FailPointName{"proxy", "fold/parities-patched"},
    FailPointName{"proxy", "fold/all-patched"},
    FailPointName{"proxy", "fold/committed"},
    FailPointName{"node", "shard-read/done"},
    FailPointName{"node", "shard-confirm/done"},
    FailPointName{"node", "shard-build/received"},
    FailPointName{"node", "shard-build/done"},
    FailPointName{"node", "shard-write/received"},
    FailPointName{"node", "shard-write/done"},
    FailPointName{"node", "record-apply/received"},
    FailPointName{"node", "record-apply/done"},
    FailPointName{"node", "record-store/received"},
    FailPointName{"node", "record-store/done"},
    FailPointName{"node", "shard-delete/received"},
    FailPointName{"node", "shard-delete/done"},
    FailPointName{"node", "shard-patch/received"},
    FailPointName{"node", "shard-patch/done"},
    FailPointName{"node", "log-append/received"},
    FailPointName{"node", "log-append/done"},
    FailPointName{"node", "log-store/received"},
    FailPointName{"node", "log-store/done"},
    FailPointName{"node", "log-settle/received"},
    FailPointName{"node", "log-settle/done"},
};
static_assert(kFailPointNames.size() == static_cast<size_t>(FailPoint::kLogSettleDone) + 1);

// At the start of a `process` ("proxy" or "node"), before it has threads: arms what the environment
// names. An error if this build, or this process, has no such fail point: then it lists those that
// there are.
std::expected<void, std::string> arm_fail_point(std::string_view process);

#ifdef ELASTRIPE_FAIL_POINTS
// Any thread. Does not return from the armed one.
void fail_point(FailPoint passed);
#else
constexpr void fail_point(FailPoint) {}
#endif

}  // namespace elastripe
