#include "proxy/ops/jobs/record_walk.h"

#include <algorithm>
#include <utility>

#include "proxy/async/when_all.h"
#include "proxy/cluster/membership.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/jobs/pages.h"

namespace elastripe::jobs {

Task<Result<void>> RecordWalk::run() {
  got_on();
  while (visitor_.wants_more()) {
    Error waits_for{ErrorCode::kUnavailable, "no home of a partition is up"};
    if (const auto map = current_map(ops_); !map) {
      waits_for = map.error();
    } else {
      if (to_walk_.empty()) to_walk_.assign((*map)->partitions.size(), true);
      auto scanned = co_await scan_tails(*map);
      if (!scanned) waits_for = scanned.error();
      if (waits_for.code == ErrorCode::kCancelled) co_return fail(waits_for);
      if (done_ == to_walk_.size()) {
        visitor_.walk_waits("");
        co_return Result<void>{};
      }
      if (!visitor_.wants_more()) break;
    }
    visitor_.walk_waits(waits_for.message);
    if (ops_.clock.now() - got_on_ >= kStalledAfter) {
      co_return fail(waits_for.code, "{} of {} partitions walked, then nothing got on for 60 s: {}",
                     done_, to_walk_.size(), waits_for.message);
    }
    if (!co_await ops_.clock.sleep_for(kPause)) {
      co_return fail(ErrorCode::kCancelled, "shutting down");
    }
  }
  co_return Result<void>{};
}

Task<Result<void>> RecordWalk::scan_tails(const MapPtr& map) {
  std::vector<Task<Result<void>>> scans;
  for (auto& [tail, bits] : records::partitions_by_tail(*map, to_walk_)) {
    scans.push_back(scan_tail(map, tail, std::move(bits)));
  }
  Result<void> scanned;
  for (const auto& scan : co_await when_all(std::move(scans))) {
    const bool ends_all = !scan && scan.error().code == ErrorCode::kCancelled;
    if (scanned || ends_all) scanned = scan;
  }
  co_return scanned;
}

Task<Result<void>> RecordWalk::scan_tail(MapPtr map, NodeId tail, std::vector<uint8_t> partitions) {
  const auto turn = co_await tails_.acquire(1);
  if (!visitor_.wants_more()) co_return Result<void>{};
  node::RecordScanRequest message;
  message.max_bytes = page_bytes_;
  message.without_values = true;
  message.prefix = prefix_;
  message.partitions = partitions;
  std::vector<uint32_t> unsynced;
  for (size_t p = 0; p < to_walk_.size(); ++p) {
    if (has_bit(partitions, p)) visitor_.partition_begins(p);
  }
  bool is_first = true;
  const auto walked =
      co_await for_each_page(ops_, map, tail, std::move(message), [&](node::RecordScanReply& page) {
        if (std::exchange(is_first, false)) unsynced = page.unsynced;
        return show(map, page);
      });
  if (!walked) co_return fail(walked.error());
  if (!*walked) co_return Result<void>{};
  mark_walked(partitions, unsynced);
  if (unsynced.empty()) co_return Result<void>{};
  co_return fail(ErrorCode::kUnavailable, "{} partitions are not synced yet", unsynced.size());
}

// False: the visitor wants no more.
Task<Result<bool>> RecordWalk::show(MapPtr map, node::RecordScanReply& page) {
  auto looked = co_await visitor_.look_at(map, page);
  if (!looked) co_return fail(looked.error());
  for (node::ScannedRecord& scanned : page.records) {
    if (!visitor_.wants_more()) co_return false;
    const size_t partition = map->partition_of(scanned.key);
    auto met = co_await visitor_.meet(map, partition, std::move(scanned));
    if (!met) co_return fail(met.error());
  }
  co_return page.cursor == 0 || visitor_.wants_more();
}

void RecordWalk::mark_walked(const std::vector<uint8_t>& partitions,
                             const std::vector<uint32_t>& unsynced) {
  for (size_t p = 0; p < to_walk_.size(); ++p) {
    if (!has_bit(partitions, p) || std::ranges::find(unsynced, p) != unsynced.end()) continue;
    to_walk_[p] = false;
    ++done_;
    visitor_.partition_walked(p);
    got_on();
  }
}

}  // namespace elastripe::jobs
