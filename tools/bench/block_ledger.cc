#include "tools/bench/block_ledger.h"

#include <algorithm>
#include <ranges>
#include <unordered_set>

namespace elastripe::bench {

using TimePoint = std::chrono::steady_clock::time_point;

void BlockLedger::add_load(const std::vector<std::vector<AnsweredUpdate>>& connections) {
  ++loads_;
  std::unordered_map<uint64_t, TimePoint> last_sent;
  for (const auto& updates : connections) {
    for (const AnsweredUpdate& update : updates) {
      for (uint64_t i = 0; i < update.run.blocks; ++i) {
        TimePoint& last = last_sent[update.run.first + i];
        last = std::max(last, update.sent);
      }
    }
  }
  for (const auto& [block, sent] : last_sent) last_[block].clear();
  for (const auto& updates : connections) {
    std::unordered_set<uint64_t> written;  // by later updates of the connection
    for (const AnsweredUpdate& update : updates | std::views::reverse) {
      for (uint64_t i = 0; i < update.run.blocks; ++i) {
        const uint64_t block = update.run.first + i;
        if (!written.insert(block).second || update.answered < last_sent[block]) continue;
        last_[block].push_back(update.revision);
      }
    }
  }
}

bool BlockLedger::may_have(uint64_t block, uint64_t revision) const {
  const auto found = last_.find(block);
  if (found == last_.end()) return revision == 0;
  return std::ranges::find(found->second, revision) != found->second.end();
}

}  // namespace elastripe::bench
