#include "proxy/ops/records/newest_log.h"

#include <algorithm>
#include <string>

#include "server-patches/node/format/mutant.h"

namespace elastripe::records {
namespace {

// Whether the first has all of the other, of those who were synced at the same time: the one with
// the later update does. A home that is no copy of the log has nothing without a number.
bool outranks(const node::LogImage& one, const node::LogImage& other) {
  if (mutant(Mutant::kSyncLowestLog)) return one.last < other.last;
  if (one.last != other.last) return one.last > other.last;
  return one.unnumbered.size() > other.unnumbered.size();
}

LogViewPtr without_unnumbered(const LogView& view) {
  auto copy = std::make_shared<LogView>(LogView{view.encoded, {}, view.age_ms});
  copy->image = *node::decode_log(node::as_view(copy->encoded));
  copy->image.unnumbered.clear();
  std::string encoded;
  node::encode(copy->image, encoded);
  copy->encoded = std::move(encoded);
  copy->image = *node::decode_log(node::as_view(copy->encoded));
  return copy;
}

}  // namespace

LogViewPtr empty_log(const node::Record& record) {
  auto view = std::make_shared<LogView>();
  view->image.value = record.meta.value_version;
  view->image.reach = record.meta.version;
  node::encode(view->image, view->encoded);
  return view;
}

ToldLog told_log(const node::ClusterMap& map, const RecordReply& reply) {
  const bool all_tell = map.capabilities.has(node::Capability::kUnnumberedUpdates);
  return {reply.record->meta.value_version, all_tell ? reply.synced_in : 0, reply.log};
}

LogViewPtr newest_log(const node::Record& record, std::span<const ToldLog> logs,
                      LogCopies log_copies) {
  LogViewPtr newest;
  if (mutant(Mutant::kSyncForgetsLog)) return newest;
  const uint64_t value = record.meta.value_version;
  uint32_t last = 0;
  for (const ToldLog& told : logs) {
    if (told.value == value) last = std::max(last, told.synced_in);
  }
  LogViewPtr old;
  for (const auto& [told_value, synced_in, log] : logs) {
    if (log == nullptr || log->image.value != value) continue;
    const bool is_old = synced_in < last && !mutant(Mutant::kSyncIgnoresEpochs);
    LogViewPtr& best = is_old ? old : newest;
    if (best == nullptr || outranks(log->image, best->image)) best = log;
  }
  if (old == nullptr) return newest;
  // A map that not all have installed may make the head's log an old one, while that of a middle,
  // which is no copy, counts. What has a number is right all the same.
  const bool has_more = newest == nullptr || old->image.last > newest->image.last;
  if (log_copies == LogCopies::kTwo && has_more) return without_unnumbered(*old);
  return newest == nullptr ? empty_log(record) : newest;
}

}  // namespace elastripe::records
