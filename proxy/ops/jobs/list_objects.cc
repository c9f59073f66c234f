#include "proxy/ops/jobs/list_objects.h"

#include <algorithm>
#include <string>
#include <vector>

#include "proxy/base/bytes.h"
#include "proxy/cluster/membership.h"
#include "proxy/ops/attempt.h"
#include "proxy/ops/jobs/pages.h"
#include "proxy/ops/objects/outcome.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/records/record_scan.h"

namespace elastripe::jobs {
namespace {

constexpr uint32_t kPageBytes = 64 << 10;

class Listing {
 public:
  Listing(OpsContext& ops, ObjectVisitor& visitor) : ops_(ops), visitor_(visitor) {}

  Task<Result<void>> run() {
    TimePoint deadline = fresh_deadline(ops_);
    while (true) {
      const auto map = current_map(ops_);
      if (!map) co_return fail(map.error());
      if (to_list_.empty()) to_list_.assign((*map)->partitions.size(), true);
      const uint64_t shown = shown_;
      auto listed = co_await list_tails(*map);
      if (listed) break;
      if (shown_ != shown) deadline = fresh_deadline(ops_);
      auto again = co_await before_retry(ops_, *map, listed.error(), deadline);
      if (!again) co_return fail(again.error());
    }
    if (lost_ == 0 || !wants_more_) co_return Result<void>{};
    co_return fail(ErrorCode::kLost, "{} partitions or records are not whole", lost_);
  }

 private:
  Task<Result<void>> list_tails(MapPtr map) {
    for (auto& [tail, partitions] : records::partitions_by_tail(*map, to_list_)) {
      auto listed = co_await list_tail(map, tail, partitions);
      if (!listed || !wants_more_) co_return listed;
      for (size_t p = 0; p < to_list_.size(); ++p) {
        if (!has_bit(partitions, p)) continue;
        to_list_[p] = false;
        lost_ += map->partitions[p].lost;
      }
    }
    if (std::ranges::find(to_list_, true) == to_list_.end()) co_return Result<void>{};
    co_return fail(ErrorCode::kUnavailable, "no home of a partition is up");
  }

  // A node that has not all of a partition yet says so in its first page: nothing was shown then.
  Task<Result<void>> list_tail(MapPtr map, NodeId tail, const std::vector<uint8_t>& partitions) {
    node::RecordScanRequest message;
    message.max_bytes = kPageBytes;
    message.partitions = partitions;
    const auto listed =
        co_await for_each_page(ops_, map, tail, std::move(message),
                               [&](node::RecordScanReply& page) { return show(map, page); });
    if (!listed) co_return fail(listed.error());
    co_return Result<void>{};
  }

  Task<Result<bool>> show(MapPtr map, const node::RecordScanReply& page) {
    if (!page.unsynced.empty()) {
      co_return fail(ErrorCode::kUnavailable, "{} partitions are not synced yet",
                     page.unsynced.size());
    }
    for (const node::ScannedRecord& scanned : page.records) {
      const auto record = co_await record_of(map, scanned);
      if (!record) co_return fail(record.error());
      if (*record == nullptr || !is_live_now(ops_, *map, **record)) continue;
      ++shown_;
      const node::RecordContent& content = (*record)->content;
      const uint64_t cas = objects::cas_of(scanned.key, node::cas_of(**record, /*last_lsn=*/0));
      wants_more_ = co_await visitor_.visit({scanned.key, content.exptime, cas, content.size});
      if (!wants_more_) co_return false;
    }
    co_return true;
  }

  // Null: it is gone, or can not be read.
  Task<Result<RecordPtr>> record_of(MapPtr map, const node::ScannedRecord& scanned) {
    if (!scanned.record.empty()) {
      auto record = node::decode_record(as_bytes(scanned.record));
      if (record) co_return std::make_shared<const node::Record>(std::move(*record));
    }
    auto tail = co_await records::try_read_tail(ops_, map, scanned.key, /*if_version=*/0,
                                                fresh_deadline(ops_));
    if (!tail && tail.error().code == ErrorCode::kLost) {
      ++lost_;
      co_return nullptr;
    }
    if (!tail) co_return fail(tail.error());
    co_return tail->record;
  }

  OpsContext& ops_;
  ObjectVisitor& visitor_;
  std::vector<bool> to_list_;  // by partition
  uint64_t shown_ = 0;
  uint64_t lost_ = 0;
  bool wants_more_ = true;
};

}  // namespace

Task<Result<void>> list_objects(OpsContext& ops, ObjectVisitor& visitor) {
  Listing listing(ops, visitor);
  co_return co_await listing.run();
}

}  // namespace elastripe::jobs
