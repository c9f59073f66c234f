#include "server-patches/node/update/update_logs.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace elastripe::node {
namespace {

// In a part, and updates of all of them. An object whose log is full again and again gets one value
// after the other, while more than a round of updates is on its way to the head.
constexpr size_t kFormers = 64;
constexpr size_t kFormerUpdates = 2 * kRecentUpdates;

}  // namespace

UpdateLogs::UpdateLogs(LogPool::Options options, ItemStore& store, size_t parts)
    : pool_(options, store), parts_(parts) {}

UpdateLogs::Entry* UpdateLogs::find(std::string_view key) {
  if (count_ == 0) return nullptr;  // most nodes have none, and are asked for one all the time
  auto& logs = part_of(key).logs;
  const auto found = logs.find(key);
  return found == logs.end() ? nullptr : &found->second;
}

UpdateLogs::Entry& UpdateLogs::make(std::string_view key, UpdateLog log, uint32_t tenure,
                                    uint64_t now_ms) {
  const auto [made, is_new] = part_of(key).logs.insert_or_assign(
      std::string(key), Entry{std::move(log), tenure, now_ms, now_ms});
  if (is_new) ++count_;
  return made->second;
}

void UpdateLogs::drop(std::string_view key) {
  if (count_ == 0) return;
  auto& logs = part_of(key).logs;
  const auto found = logs.find(key);
  if (found == logs.end()) return;
  logs.erase(found);
  --count_;
}

void UpdateLogs::retire(std::string_view key) {
  const Entry* const entry = find(key);
  if (entry == nullptr) return;
  // What it has forgotten it can tell nothing of: neither that it had it nor that it had not.
  if (entry->log.last() != 0) {
    const auto& recent = entry->log.recent();
    Former former{.key = std::string(key),
                  .value = entry->log.value(),
                  .tenure = entry->tenure,
                  .reach = entry->log.reach(),
                  .last = entry->log.last(),
                  .recent = {recent.begin(), recent.end()}};
    note(std::move(former));
  }
  drop(key);
}

void UpdateLogs::retire_folded(std::string_view key, uint64_t value, uint32_t tenure,
                               uint64_t folded_lsn) {
  note({.key = std::string(key),
        .value = value,
        .tenure = tenure,
        .reach = folded_lsn,
        .last = folded_lsn,
        .recent = {}});
}

void UpdateLogs::note(Former former) {
  Part& part = part_of(former.key);
  part.formers.push_back(std::move(former));
  size_t updates = 0;
  for (const Former& each : part.formers) updates += each.recent.size();
  while (part.formers.size() > kFormers || updates > kFormerUpdates) {
    updates -= part.formers.front().recent.size();
    part.forgotten = std::max(part.forgotten, part.formers.front().last);
    part.formers.pop_front();
  }
}

UpdateLogs::Had UpdateLogs::had(std::string_view key, uint64_t value, uint32_t tenure,
                                const UpdateName& update) const {
  const Part& part = parts_[place_of(key)];
  bool is_forgotten = false;
  for (const Former& former : part.formers | std::views::reverse) {
    if (former.key != key || former.value != value || former.tenure < tenure) continue;
    if (std::ranges::find(former.recent, update.id, &UpdateName::id) != former.recent.end()) {
      return Had::kYes;
    }
    // One from before the log was folded away, and made anew, may tell.
    is_forgotten |= update.lsn <= former.reach;
    if (!is_forgotten) return Had::kNo;
  }
  return is_forgotten || update.lsn <= part.forgotten ? Had::kForgotten : Had::kNo;
}

void UpdateLogs::visit(size_t part,
                       const std::function<void(const std::string&, Entry&)>& visitor) {
  for (auto& [key, entry] : parts_[part].logs) visitor(key, entry);
}

}  // namespace elastripe::node
