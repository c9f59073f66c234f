#include "proxy/ops/jobs/survey.h"

#include <algorithm>

#include "proxy/ops/attempt.h"
#include "proxy/ops/batches.h"
#include "proxy/ops/jobs/lacking.h"
#include "proxy/ops/jobs/pages.h"
#include "proxy/ops/objects/put.h"
#include "proxy/ops/records/commit.h"
#include "proxy/ops/records/read_tail.h"
#include "proxy/ops/records/record_scan.h"

namespace elastripe::jobs {

namespace {

constexpr uint32_t kScanBytes = 256 << 10;
constexpr size_t kDeletesAtOnce = 16;

bool ends_survey(const Error& error) {
  return error.code == ErrorCode::kStaleEpoch || error.code == ErrorCode::kCancelled;
}

// True if the object was deleted, being what it was when its shards were looked for.
Task<Result<bool>> forget(OpsContext& ops, const Lacking& object) {
  records::Commit removal;
  removal.key = object.key;
  removal.mutation = node::Mutation::kDelete;
  removal.condition = node::Condition::kIfVersion;
  removal.condition_argument = object.record->meta.version;
  removal.known_version = object.record->meta.version;
  auto removed = co_await records::commit_record(ops, removal, fresh_deadline(ops));
  if (!removed) co_return fail(removed.error());
  objects::after_commit(ops, object.key, *removed);
  co_return removed->status == records::CommitStatus::kCommitted;
}

// Shards are gone, too, when the object was overwritten after its record was read.
Task<Result<bool>> is_still(OpsContext& ops, MapPtr map, const Lacking& object) {
  const uint64_t version = object.record->meta.version;
  auto tail = co_await records::try_read_tail(ops, map, object.key, version, fresh_deadline(ops));
  if (!tail) co_return fail(tail.error());
  co_return tail->same || (tail->record != nullptr && tail->record->meta.version == version);
}

Task<Result<void>> survey_striped(OpsContext& ops, MapPtr map, bool forgets,
                                  std::vector<Lacking>& page, SurveyReport& report) {
  const auto asked = co_await find_lacking(ops, map, page);
  if (!asked) co_return fail(asked.error());
  report.is_complete &= *asked;
  std::vector<const Lacking*> lost;
  for (const Lacking& object : page) {
    ++report.objects;
    if (object.is_lost()) {
      lost.push_back(&object);
    } else {
      report.lacking += object.is_lacking();
      const auto survived = static_cast<size_t>(std::max(object.failures_survived(), 0));
      if (report.surviving.size() <= survived) report.surviving.resize(survived + 1);
      ++report.surviving[survived];
    }
  }
  co_return co_await in_batches(
      lost.size(), kDeletesAtOnce,
      [&](size_t i) { return forgets ? forget(ops, *lost[i]) : is_still(ops, map, *lost[i]); },
      [&](size_t, const Result<bool>& done) -> Result<void> {
        if (!done && ends_survey(done.error())) return fail(done.error());
        if (!done) report.is_complete = false;
        if (done && !*done) return {};  // it was overwritten
        ++report.lost;
        report.forgotten += done && forgets;
        return {};
      });
}

// The record, which may have not fitted in the page; null if it is gone by now, or damaged wherever
// it is.
Task<Result<RecordPtr>> record_of(OpsContext& ops, MapPtr map, const node::ScannedRecord& scanned) {
  if (!scanned.record.empty()) {
    auto record = node::decode_record(as_bytes(scanned.record));
    if (record) co_return std::make_shared<const node::Record>(std::move(*record));
  }
  auto tail =
      co_await records::try_read_tail(ops, map, scanned.key, /*if_version=*/0, fresh_deadline(ops));
  if (!tail && tail.error().code == ErrorCode::kLost) co_return nullptr;
  if (!tail) co_return fail(tail.error());
  co_return tail->record;
}

// The striped objects of a page that are live.
Task<Result<std::vector<Lacking>>> striped_objects(OpsContext& ops, MapPtr map,
                                                   const node::RecordScanReply& page) {
  std::vector<Lacking> objects;
  for (const node::ScannedRecord& scanned : page.records) {
    const auto record = co_await record_of(ops, map, scanned);
    if (!record) co_return fail(record.error());
    if (*record == nullptr || !(*record)->is_striped() || !is_live_now(ops, *map, **record))
      continue;
    objects.push_back({scanned.key, *record, {}, {}});
  }
  co_return objects;
}

Task<Result<bool>> survey_page(OpsContext& ops, MapPtr map, bool forgets,
                               const node::RecordScanReply& page, SurveyReport& report) {
  auto objects = co_await striped_objects(ops, map, page);
  if (!objects) co_return fail(objects.error());
  auto surveyed = co_await survey_striped(ops, map, forgets, *objects, report);
  if (!surveyed) co_return fail(surveyed.error());
  co_return true;
}

}  // namespace

Task<Result<SurveyReport>> survey_objects(OpsContext& ops, MapPtr map, bool forgets) {
  SurveyReport report;
  std::vector<bool> chosen(map->partitions.size());
  for (size_t p = 0; p < chosen.size(); ++p) chosen[p] = !map->partitions[p].lost;
  for (const auto& [tail, partitions] : records::partitions_by_tail(*map, chosen)) {
    node::RecordScanRequest message;
    message.max_bytes = kScanBytes;
    message.without_values = true;
    message.partitions = partitions;
    const auto surveyed = co_await for_each_page(
        ops, map, tail, std::move(message),
        [&](node::RecordScanReply& page) { return survey_page(ops, map, forgets, page, report); });
    if (!surveyed) co_return fail(surveyed.error());
  }
  co_return report;
}

}  // namespace elastripe::jobs
