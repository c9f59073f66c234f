#include "tools/bench/node_work.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "tools/bench/units.h"

namespace elastripe::bench {
namespace {

constexpr std::array<std::string_view, 8> kAlways{"HELLO",           "HEARTBEAT",  "INSTALL_MAP",
                                                  "RECORD_SCAN",     "SHARD_SCAN", "LOG_SCAN",
                                                  "DROP_TOMBSTONES", "MARK_SYNCED"};

constexpr std::string_view kFrames = "elastripe_node_request_duration_seconds_count";
constexpr std::string_view kRequest = "request=\"";

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
  uint64_t value = 0;
  std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
  const std::string_view series = line.substr(0, space);
  const std::string_view name = series.substr(0, series.find('{'));
  if (name == kFrames && value > 0) work.frames[std::string(label_of(series, kRequest))] += value;
  if (name == "elastripe_node_sent_bytes_total") work.sent_bytes += value;
  if (name == "elastripe_node_received_bytes_total") work.received_bytes += value;
  if (name == "elastripe_folded_logs_total") work.folded_logs += value;
  if (name == "elastripe_folded_bytes_total") work.folded_bytes += value;
}

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
  sent_bytes += other.sent_bytes;
  received_bytes += other.received_bytes;
  folded_logs += other.folded_logs;
  folded_bytes += other.folded_bytes;
  merged_bytes += other.merged_bytes;
  return *this;
}

NodeWork NodeWork::operator-(const NodeWork& before) const {
  NodeWork work = *this;
  for (const auto& [request, number] : before.frames) work.frames[request] -= number;
  std::erase_if(work.frames, [](const auto& of_request) { return of_request.second == 0; });
  work.sent_bytes -= before.sent_bytes;
  work.received_bytes -= before.received_bytes;
  work.folded_logs -= before.folded_logs;
  work.folded_bytes -= before.folded_bytes;
  work.merged_bytes -= before.merged_bytes;
  return work;
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
  const auto each = [updates](uint64_t sum) { return static_cast<double>(sum) / updates; };
  figures["frames"] = each(work.update_frames());
  for (const auto& [request, number] : work.frames) {
    figures["frames_by_request"][request] = each(number);
  }
  figures["sent_bytes"] = each(work.sent_bytes);
  figures["received_bytes"] = each(work.received_bytes);
  figures["sent_kib"] = each(work.sent_bytes) / kKiB;
  figures["received_kib"] = each(work.received_bytes) / kKiB;
  figures["folds"] = work.folded_logs;
  if (work.folded_logs > 0) {
    figures["updates_per_fold"] = updates / static_cast<double>(work.folded_logs);
  }
  if (copies > 0) {
    figures["merged_share"] =
        static_cast<double>(work.merged_bytes) / (static_cast<double>(written.bytes) * copies);
  }
  return figures;
}

}  // namespace elastripe::bench
