// Rule violations that can be switched on, one at a time, in builds with ELASTRIPE_MUTANTS: the
// simulator must catch each of them (tests/sim). In every other build mutant() is constant false
// and the broken branches are not compiled in.
#pragma once

namespace elastripe {

enum class Mutant {
  kNone,
  // Rules 1-4, membership.
  kIgnoreEpoch,           // node: serves requests of any epoch
  kIgnoreIncarnation,     // node: serves requests meant for its predecessor
  kServeBeforeInstalled,  // decider: serves a map before every survivor has it
  kAnswerUnsynced,        // node: an unsynced partition answers NOT_FOUND
  kLostIsMiss,            // node: a LOST partition answers NOT_FOUND
  kIgnoreLease,           // node: serves past its lease
  kSkipLeaseWait,         // decider: does not wait the lease of an excluded node out
  kChangesOfAnyBase,      // decider, node: changes of a map go to whatever map a node has
  kSuspectIsSource,       // decider: a returned suspect's old records count as synced
  kTimeoutIsLoss,         // decider: a timeout may make a partition LOST
  kTrustOldReports,       // decider: declares a loss by what nodes told another decider's map
  kServeBeyond,           // decider, proxy: use what a build can, whatever the others can
  kTrustWords,            // decider: who is declared dead counts as gone for majorities at once
  kCountLeftForDead,      // decider: a takeover counts who was taken for dead as a witness
  kFollowUnleased,        // proxy: follows a map though no node has a lease under it
  kFollowBack,            // proxy: goes back to an older map that a node has told last
  kFollowForever,         // proxy: serves on when no node has had a lease under its map for long
  kBeginImpatiently,      // proxy: begins to decide though nodes hear of a decider
  kServeUnfollowed,       // proxy: serves a map before it has taken the settings that are in it
  kSyncOneSource,         // sync: stores what one source has instead of the maximum
  kMarkBeforeStored,      // sync: marks synced before every home has stored
  kConfirmAny,            // node: confirms an old copy whatever its version is
  kFullIsStored,          // sync: takes a home without room for one that has stored
  // Rules 5-6, commit.
  kBlindHead,          // node: the head does not compare the expected version
  kStoreAnyVersion,    // node: a store overwrites a greater version
  kAckBeforeTail,      // proxy: acknowledges after the head
  kReadHead,           // proxy: reads at the head
  kMismatchIsFailure,  // proxy: takes a mismatch for "not stored" without looking at the attempts
  kAttemptIsTxid,      // proxy: attempt_id is the data_txid
  kResendAlways,       // proxy: resends an unconditional commit
  kTimeoutIsNotDone,   // proxy: a commit without an answer is told as if it had not been done
  kRestampEpoch,       // proxy: goes on with an operation in flight under a new epoch
  kRetryOldMap,        // proxy: tries again under the map that turned out to be over
  kNoReprepare,        // proxy: commits shards of an older epoch without confirming them
  // Damaged copies.
  kTrustBytes,  // node, proxy: does not compare the checksums of records
  // Rules 7-9, reclaim and versions.
  kIgnoreFence,          // node: the head does not compare base and fence
  kReclaimWithoutFence,  // reclaim: deletes unreferenced shards without a fence
  kReclaimByTimer,       // reclaim: deletes young uncommitted shards
  kReclaimQuietKeys,     // reclaim: keeps what is left of a key that is written all the time
  kDeleteBeforeTail,     // proxy: deletes superseded shards before the tail has the commit
  kNoReread,             // proxy: missing shards are lost, whatever the record is by now
  // Values in parts.
  kMixVersions,       // proxy: in mid-stream goes on with whatever record is the newest
  kKeepFencedShards,  // proxy: a fenced upload commits the same shards from a newer base
  kLateBase,          // proxy: an upload's base is what the record is when its value is there
  kNoRebuild,         // proxy: shards that nodes do not confirm are not written again
  kRelabelAcks,       // proxy: a segment counts old acknowledgements as those of its last try
  kAbandonUnknown,    // proxy: deletes the shards of an upload whose outcome is unknown
  kDeleteForgets,     // node: DELETE removes the record instead of leaving a tombstone
  kTrustOwnClock,     // reclaim: collects what has expired by the wall clock of the proxy alone
  kDropWithoutFloor,  // reclaim: drops tombstones before raising the floor
  kSyncForgetsFloor,  // sync: does not transfer the floor
  // Rule 26, transitions.
  kCommitBeforeStaged,   // proxy: commits whichever parity nodes have acknowledged
  kOverwriteParities,    // proxy, node: new parities take the names of the old ones
  kReuseParityTxid,      // proxy: every transition of an object stages under the same txid
  kReshapeIsTxid,        // proxy: the attempt_id of a transition is the data_txid
  kReshapeIgnoresFence,  // proxy: commits parities that were staged before a fence
  kDropStaged,           // reclaim: deletes young staged parities, without a fence
  kIgnoreGeneration,     // proxy: a reader keeps the parities it knows while the data is the same
  // Rule 28, repair.
  kReuseShardNames,  // proxy: a repair writes shards under the names that they had
  // Rule 31, updates.
  kUpdateDropsAll,  // proxy: an update deletes the shards of segments that it has not replaced, too
  // Rules 10-15, update logs.
  kLogSurvivesSet,          // node: a log goes on over the next value
  kAnyValue,                // node: the tail takes updates of another value
  kCopyTakesAll,            // node: a copy takes updates of another value
  kAppendTwice,             // node: the tail does not look whether it has an update already
  kIgnoreReach,             // node: the tail takes what it may have taken, and forgotten
  kReadUnsettled,           // proxy: reads what not all copies have
  kSettleOwnOnly,           // proxy: acknowledges an update though copies lack earlier ones
  kSyncForgetsLog,          // sync: does not transfer logs
  kSyncLowestLog,           // sync: takes the oldest image of a log
  kCasIgnoresLog,           // node: the head compares the cas of the record only
  kResendAsNewOp,           // proxy: an update without an answer is sent under another name
  kRefuseUncancelled,       // proxy: does not tell copies that the tail has refused an update
  kSyncIgnoresEpochs,       // sync: takes images of logs of those who have missed a sync
  kSyncForgetsUnnumbered,   // sync: what had no number in an image of a log is left out
  kCasIgnoresUnnumbered,    // node: the head compares a cas that updates without numbers move
  kUnnumberedIgnoresReach,  // node: a copy takes without a number what it may have had, and
                            // forgotten
  kFoldUnsettled,           // proxy: folds what not all copies have
  kFoldDropsLog,            // node: the commit of a fold ends the whole log of its segments
  // Rules 29-30, members.
  kRemoveUndrained,     // proxy: a node is removed with what it has
  kMoveFromHalfSynced,  // decider: a partition moves on before its homes have all of it
  // Rule 27, flushes.
  kReadFlushed,     // proxy: reads do not look at the flush floor
  kChangeFlushed,   // node: conditions and mutations do not look at it
  kExtendFlushed,   // node: takes a value that was made from a flushed one
  kTouchRevives,    // node: looks at the version of a record, not at that of its value
  kForgetFlush,     // decider: a takeover does not carry it over
  kFlushUnserved,   // decider: acknowledges a flush before its map is served
  kRepeatFlush,     // decider: flushes again when a map that flushes was given up
  kRepeatTask,      // proxy: what another one asks of the decider is done for each node that tells
  kForgetAsked,     // proxy: has an update taken that the tail may have taken, and forgotten
  kChangeUnserved,  // decider: acknowledges a change of the settings before its map is served
  kForgetLeases,    // decider: a takeover waits for leases of its own time only
  kNeverGiveWay,    // decider: waits on for nodes that another one need not wait for
  kBeginUnelected,  // decider: a proxy that hears of no decider begins without being elected
  // Jobs of the cluster.
  kLeaveJobs,        // proxy: who decides next does not go on with the job that is left
  kBeginTwice,       // proxy: a job that is asked for again is begun again
  kUncancel,         // proxy: who decides next goes on with a job that was cancelled
  kAnswerUntold,     // proxy: a job is answered before others can learn of it
  kRefuseMaybeDone,  // proxy: who may have been obeyed, and asks again, is told that it was refused
};

#ifdef ELASTRIPE_MUTANTS
inline Mutant active_mutant = Mutant::kNone;
inline bool mutant(Mutant which) { return active_mutant == which; }
#else
constexpr bool mutant(Mutant) { return false; }
#endif

}  // namespace elastripe
