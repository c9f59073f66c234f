// What blocks of objects may be, when several connections have updated them: a check that also sees
// an update that was lost, or one that came back after a later one.
#pragma once

#include <chrono>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace elastripe::bench {

// Blocks in a row, by their numbers among all blocks of all objects; of one object.
struct BlockRun {
  uint64_t first = 0;
  uint64_t blocks = 1;

  friend bool operator==(const BlockRun&, const BlockRun&) = default;
};

// An update of all blocks of the run that was answered. It came into effect at some moment between.
struct AnsweredUpdate {
  BlockRun run;
  uint64_t revision = 0;  // of its own; above 0
  std::chrono::steady_clock::time_point sent;
  std::chrono::steady_clock::time_point answered;
};

class BlockLedger {
 public:
  // Loads come one after the other: all updates of one are answered before the next one begins.
  // Those of each connection are in their order, in which they come into effect.
  void add_load(const std::vector<std::vector<AnsweredUpdate>>& connections);
  uint64_t loads() const { return loads_; }

  // Whether the block may have that revision now: no other update of it was sent after that one was
  // answered. 0: none has written it.
  bool may_have(uint64_t block, uint64_t revision) const;

 private:
  uint64_t loads_ = 0;
  // By block, for those that were written: the revisions that it may have.
  std::unordered_map<uint64_t, std::vector<uint64_t>> last_;
};

}  // namespace elastripe::bench
