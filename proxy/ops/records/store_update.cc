#include "proxy/ops/records/store_update.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace elastripe {

struct StoringUpdate {
  MapPtr map;
  uint64_t value = 0;
  records::NumberedUpdate update;
  node::LogAppendReply told;
  TimePoint deadline;
  std::optional<Result<records::StoredCopies>> stored = {};  // what its round came to
  bool is_alone = false;  // its round has failed in a way that may concern others only
};

namespace records {

using node::UpdateName;

namespace {

// In one frame.
constexpr size_t kMaxUpdates = 64;
constexpr size_t kMaxBytes = 1 << 20;

// What goes to the copies together.
class Round {
 public:
  explicit Round(const StoringUpdate& first) : map_(first.map), value_(first.value) {}

  // Whether it fits.
  bool add(StoringUpdate& one) {
    if (one.map != map_ || one.value != value_ || members_.size() == kMaxUpdates) return false;
    const size_t bytes = bytes_ + one.update.bytes.size();
    std::vector<UpdateName> names = merged(names_, one.told.unsettled);
    // All of them may have to be asked for by name.
    if (!members_.empty() &&
        (bytes > kMaxBytes || names.size() + members_.size() >= node::kMaxUnsettled)) {
      return false;
    }
    bytes_ = bytes;
    names_ = std::move(names);
    settled_to_ = std::max(settled_to_, one.told.settled_to);
    deadline_ = std::max(deadline_, one.deadline);
    members_.push_back(&one);
    return true;
  }

  Task<void> run(OpsContext& ops, const std::string& key) {
    ++ops.counters.update_rounds;
    std::vector<NumberedUpdate> updates;
    updates.reserve(members_.size());
    for (const StoringUpdate* member : members_) updates.push_back(member->update);
    const auto lsn = [](const NumberedUpdate& update) { return update.name.lsn; };
    std::ranges::sort(updates, {}, lsn);
    std::erase_if(names_, [&](const UpdateName& name) {
      return std::ranges::binary_search(updates, name.lsn, {}, lsn);
    });
    const auto stored = co_await store_at_copies(ops, map_, key, value_, settled_to_,
                                                 std::move(updates), names_, deadline_);
    // The head refuses all if it lacks one, and may have had others.
    const bool is_of_some =
        stored ? stored->other != nullptr : stored.error().code == ErrorCode::kUnknownOutcome;
    for (StoringUpdate* member : members_) {
      if (is_of_some && members_.size() > 1) {
        member->is_alone = true;
      } else {
        member->stored = stored;
      }
    }
  }

 private:
  static std::vector<UpdateName> merged(const std::vector<UpdateName>& a,
                                        const std::vector<UpdateName>& b) {
    std::vector<UpdateName> all;
    all.reserve(a.size() + b.size());
    std::ranges::set_union(a, b, std::back_inserter(all), {}, &UpdateName::lsn, &UpdateName::lsn);
    return all;
  }

  const MapPtr map_;
  const uint64_t value_;
  std::vector<StoringUpdate*> members_;
  std::vector<UpdateName> names_;  // ascending by LSN
  uint64_t settled_to_ = 0;
  TimePoint deadline_;  // the last of theirs
  size_t bytes_ = 0;
};

// Takes those that wait and fit into a round with `own`, which waits too.
Round next_round(Storing& storing, const std::string& key, StoringUpdate& own) {
  Round round(own);
  round.add(own);
  const auto waiting = storing.waiting.find(key);
  std::erase_if(waiting->second,
                [&](StoringUpdate* one) { return one == &own || round.add(*one); });
  if (waiting->second.empty()) storing.waiting.erase(waiting);
  return round;
}

}  // namespace

Task<Result<StoredCopies>> store_update(OpsContext& ops, MapPtr map, std::string key,
                                        uint64_t value, NumberedUpdate update,
                                        node::LogAppendReply told, TimePoint deadline) {
  StoringUpdate own{std::move(map), value, std::move(update), std::move(told), deadline};
  ops.storing.waiting[key].push_back(&own);
  {
    const auto guard = co_await ops.storing.rounds.lock(key);
    if (!own.stored && !own.is_alone) {
      Round round = next_round(ops.storing, key, own);
      co_await round.run(ops, key);
    }
  }
  if (own.stored) co_return std::move(*own.stored);
  std::vector<NumberedUpdate> alone;
  alone.push_back(std::move(own.update));
  co_return co_await store_at_copies(ops, own.map, std::move(key), value, own.told.settled_to,
                                     std::move(alone), std::move(own.told.unsettled), deadline);
}

}  // namespace records
}  // namespace elastripe
