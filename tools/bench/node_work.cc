#include "tools/bench/node_work.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

constexpr std::array<std::string_view, 9> kAlways{"HELLO",    "HEARTBEAT",       "INSTALL_MAP",
                                                  "NOTICES",  "RECORD_SCAN",     "SHARD_SCAN",
                                                  "LOG_SCAN", "DROP_TOMBSTONES", "MARK_SYNCED"};

constexpr std::string_view kFrames = "elastripe_node_request_duration_seconds_count";
constexpr std::string_view kSeconds = "elastripe_node_request_duration_seconds_sum";
constexpr std::string_view kRequest = "request=\"";

using Sum = std::pair<std::string_view, uint64_t NodeWork::*>;
constexpr std::array kSums{
    Sum{"elastripe_node_sent_bytes_total", &NodeWork::sent_bytes},
    Sum{"elastripe_node_received_bytes_total", &NodeWork::received_bytes},
    Sum{"elastripe_folded_logs_total", &NodeWork::folded_logs},
    Sum{"elastripe_folded_bytes_total", &NodeWork::folded_bytes},
    Sum{"elastripe_fold_microseconds_total", &NodeWork::fold_us},
    Sum{"elastripe_folded_age_milliseconds_total", &NodeWork::folded_age_ms},
    Sum{"elastripe_full_update_logs_total", &NodeWork::waits},
};

// What stands between the quotes of the label.
std::string_view label_of(std::string_view series, std::string_view label) {
  const size_t at = series.find(label);
  if (at == std::string_view::npos) return {};
  series.remove_prefix(at + label.size());
  return series.substr(0, series.find('"'));
}

void add_line(NodeWork& work, std::string_view line) {
  const size_t space = line.rfind(' ');
  if (line.starts_with('#') || space == std::string_view::npos) return;
  const std::string_view series = line.substr(0, space);
  const std::string_view name = series.substr(0, series.find('{'));
  if (name == kSeconds) {
    double seconds = 0;
    std::from_chars(line.data() + space + 1, line.data() + line.size(), seconds);
    if (seconds > 0) work.seconds[std::string(label_of(series, kRequest))] += seconds;
    return;
  }
  uint64_t value = 0;
  std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
  if (name == kFrames && value > 0) work.frames[std::string(label_of(series, kRequest))] += value;
  for (const auto& [metric, sum] : kSums) {
    if (name == metric) work.*sum += value;
  }
}

constexpr std::array kStatistics{
    Sum{"log_merged_bytes", &NodeWork::merged_bytes},
    Sum{"shard_changes", &NodeWork::shard_changes},
    Sum{"shard_changed_bytes", &NodeWork::shard_changed_bytes},
};

}  // namespace

uint64_t NodeWork::update_frames() const {
  uint64_t sum = 0;
  for (const auto& [request, number] : frames) {
    if (std::ranges::find(kAlways, request) == kAlways.end()) sum += number;
  }
  return sum;
}

NodeWork& NodeWork::operator+=(const NodeWork& other) {
  for (const auto& [request, number] : other.frames) frames[request] += number;
  for (const auto& [request, time] : other.seconds) seconds[request] += time;
  for (const auto& [_, sum] : kSums) this->*sum += other.*sum;
  for (const auto& [_, sum] : kStatistics) this->*sum += other.*sum;
  return *this;
}

NodeWork NodeWork::operator-(const NodeWork& before) const {
  NodeWork work = *this;
  for (const auto& [request, number] : before.frames) work.frames[request] -= number;
  for (const auto& [request, time] : before.seconds) work.seconds[request] -= time;
  std::erase_if(work.frames, [](const auto& of_request) { return of_request.second == 0; });
  std::erase_if(work.seconds,
                [&](const auto& of_request) { return !work.frames.contains(of_request.first); });
  for (const auto& [_, sum] : kSums) work.*sum -= before.*sum;
  for (const auto& [_, sum] : kStatistics) work.*sum -= before.*sum;
  return work;
}

void take_statistics(NodeWork& work, const std::map<std::string, uint64_t>& sums) {
  for (const auto& [name, sum] : kStatistics) {
    const auto told = sums.find(std::string(name));
    work.*sum = told == sums.end() ? 0 : told->second;
  }
}

void take_folds(NodeWork& work, const NodeWork& told) {
  work.folded_logs = told.folded_logs;
  work.folded_bytes = told.folded_bytes;
  work.fold_us = told.fold_us;
  work.folded_age_ms = told.folded_age_ms;
  work.waits = told.waits;
}

NodeWork node_work_of(std::string_view metrics) {
  NodeWork work;
  while (!metrics.empty()) {
    const size_t end = std::min(metrics.find('\n'), metrics.size());
    add_line(work, metrics.substr(0, end));
    metrics.remove_prefix(std::min(end + 1, metrics.size()));
  }
  return work;
}

Json figures_of(const NodeWork& work, const WrittenParts& written, int copies) {
  Json figures = Json::object();
  if (written.updates == 0) return figures;
  const auto updates = static_cast<double>(written.updates);
  const double operations = updates + static_cast<double>(written.reads);
  const auto each = [operations](uint64_t sum) { return static_cast<double>(sum) / operations; };
  figures["frames"] = each(work.update_frames());
  for (const auto& [request, number] : work.frames) {
    figures["frames_by_request"][request] = each(number);
  }
  figures["sent_bytes"] = each(work.sent_bytes);
  figures["received_bytes"] = each(work.received_bytes);
  figures["sent_kib"] = each(work.sent_bytes) / kKiB;
  figures["received_kib"] = each(work.received_bytes) / kKiB;
  for (const auto& [request, time] : work.seconds) {
    const auto frames = work.frames.find(request);
    if (frames == work.frames.end()) continue;
    figures["us_by_request"][request] = time * 1e6 / static_cast<double>(frames->second);
  }
  figures["shard_changes"] = each(work.shard_changes);
  figures["shard_changed_kib"] = each(work.shard_changed_bytes) / kKiB;
  figures["folds"] = work.folded_logs;
  figures["waits"] = work.waits;
  if (work.folded_logs > 0) {
    const auto folds = static_cast<double>(work.folded_logs);
    figures["updates_per_fold"] = updates / folds;
    figures["fold_ms"] = static_cast<double>(work.fold_us) / 1000 / folds;
    figures["log_age_ms"] = static_cast<double>(work.folded_age_ms) / folds;
  }
  if (copies > 0) {
    figures["merged_share"] =
        static_cast<double>(work.merged_bytes) / (static_cast<double>(written.bytes) * copies);
  }
  return figures;
}

}  // namespace elastripe::bench
