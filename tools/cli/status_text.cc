#include "tools/cli/status_text.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "tools/cli/answer.h"
#include "tools/cli/job_text.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string line(const char* what, const std::string& value) {
  return fmt::format("{:<11} {}\n", what, value);
}

std::string nodes_line(const Json& nodes) {
  return line("nodes", fmt::format("{} of {} up, {} suspect, {} away, {} lost", shown(nodes, "up"),
                                   shown(nodes, "configured"), shown(nodes, "suspect"),
                                   shown(nodes, "away"), shown(nodes, "lost")));
}

// Only where there are several.
std::string proxies_line(const Json& proxies) {
  if (proxies.size() < 2) return {};
  std::string value;
  for (const Json& proxy : proxies) {
    const auto is = [&](const char* what) { return proxy.value(what, false); };
    value += fmt::format("{}{}{}{}", value.empty() ? "" : ", ", text(proxy, "clients"),
                         is("decides") ? " decides" : "", is("leaves") ? " leaves" : "");
  }
  return line("proxies", value);
}

// Where etcd elects.
std::string election_line(const Json& election) {
  if (text(election, "by") != "etcd") return {};
  const std::string problem = text(election, "problem");
  const std::string elected = text(election, "elected");
  return line("election", "by etcd: " + (problem.empty() ? (elected.empty() ? "nobody" : elected)
                                                         : "impossible now: " + problem));
}

std::string partitions_line(const Json& partitions) {
  std::string value = fmt::format("{} of {} synced, {} lost", shown(partitions, "synced"),
                                  shown(partitions, "total"), shown(partitions, "lost"));
  if (number(partitions, "short") > 0) {
    value += fmt::format(", {} with too few homes: nodes lack room", shown(partitions, "short"));
  }
  if (number(partitions, "to_move") > 0) {
    value += fmt::format(", {} to move", shown(partitions, "to_move"));
  }
  return line("partitions", value);
}

std::string redundancy_line(const Json& surviving) {
  std::string value;
  for (const auto& [failures, objects] : surviving.items()) {  // the fewest first
    if (objects == 0) continue;
    value = fmt::format("{} survive {}{}{}", objects.dump(), failures, value.empty() ? "" : ", ",
                        value);
  }
  return value.empty() ? "" : line("redundancy", value + " further failures");
}

std::string memory_line(const Json& memory) {
  const auto bytes = [&](const char* field) { return mebibytes(number(memory, field)); };
  std::string value = fmt::format("{} of {} used", bytes("used_bytes"), bytes("limit_bytes"));
  if (memory.contains("free_bytes")) {
    value += fmt::format(": {} records, {} shards, {} other; {} free", bytes("record_bytes"),
                         bytes("shard_bytes"), bytes("other_bytes"), bytes("free_bytes"));
  }
  return line("memory", value);
}

std::string objects_lines(const Json& objects) {
  if (number(objects, "lacking_shards") + number(objects, "lost") == 0) return {};
  return line("objects", fmt::format("{} lack shards, {} more are lost",
                                     shown(objects, "lacking_shards"), shown(objects, "lost")));
}

std::string repair_line(const Json& repair, bool is_any_lacking) {
  if (text(repair, "state") == "running") {
    const Json& objects = part(repair, "objects");
    const bool is_known = !part(repair, "seconds_left").is_null();
    return line(
        "repair",
        fmt::format(
            "{} of {} objects restored{}", shown(objects, "restored"), shown(objects, "planned"),
            is_known ? fmt::format(", {} s left", shown(repair, "seconds_left")) : std::string()));
  }
  const std::string problem = text(repair, "problem");
  if (!is_any_lacking && problem.empty()) return {};
  if (text(repair, "state") == "off") return line("repair", "off");
  const std::string waits_for = text(repair, "waits_for");
  return line("repair", fmt::format("{}{}{}",
                                    waits_for.empty() ? "has just ended, or begins: what lacks "
                                                        "shards is counted again"
                                                      : "waits for " + waits_for,
                                    problem.empty() ? "" : "; ", problem));
}

// Only where there is something to tell.
std::string scrub_line(const Json& scrub) {
  const Json& objects = part(scrub, "objects");
  if (text(scrub, "state") == "running") {
    return line("scrub", fmt::format("{} objects are clean so far, {} are not",
                                     shown(objects, "clean"), shown(objects, "refused")));
  }
  if (number(objects, "refused") + number(objects, "failed") == 0) return {};
  return line("scrub", fmt::format("the last found {} objects that are not clean, and {} failed",
                                   shown(objects, "refused"), shown(objects, "failed")));
}

// Only where there is something to tell.
std::string update_logs_line(const Json& logs) {
  if (number(logs, "bytes") == 0) return {};
  return line(
      "updates",
      fmt::format("{} in logs, not folded for {:.1f} s at most; {} of {} taken; {} were "
                  "merged, {} updates refused",
                  mebibytes(number(logs, "bytes")), number(logs, "age_ms") / 1000,
                  mebibytes(number(logs, "used_bytes")), mebibytes(number(logs, "limit_bytes")),
                  mebibytes(number(logs, "merged_bytes")), shown(logs, "refusals")));
}

// Only while one is pending.
std::string flush_line(const Json& status) {
  const auto at = static_cast<std::time_t>(number(status, "flush_at"));
  if (at == 0) return {};
  return line("flush_all",
              fmt::format("at {:%Y-%m-%d %H:%M:%S} UTC: what was stored before is gone then",
                          fmt::gmtime(at)));
}

std::string job_lines(const Json& jobs) {
  std::string lines;
  for (const Json& job : part(jobs, "jobs")) {
    if (!is_running(job)) continue;
    lines += line(
        "job", fmt::format("{}: {}", title_of(job), progress_line(job, JobPace(), /*bar=*/false)));
  }
  return lines;
}

}  // namespace

std::string mebibytes(double bytes) { return fmt::format("{:.1f} MiB", bytes / (1 << 20)); }

std::string status_text(const Json& status, const Json& jobs) {
  const std::string reason = text(status, "reason");
  const Json& objects = part(status, "objects");
  const bool follows = status.contains("decides") && !status["decides"].get<bool>();
  return line("state", shown(status, "state") + (reason.empty() ? "" : ": " + reason)) +
         (follows ? line("follows", "another proxy, which decides") : "") +
         line("epoch", shown(part(status, "epoch"), "number")) +
         proxies_line(part(status, "proxies")) + election_line(part(status, "election")) +
         nodes_line(part(status, "nodes")) + partitions_line(part(status, "partitions")) +
         redundancy_line(part(objects, "surviving")) + objects_lines(objects) +
         repair_line(part(status, "repair"), number(objects, "lacking_shards") > 0) +
         scrub_line(part(status, "scrub")) + job_lines(jobs) + flush_line(status) +
         memory_line(part(status, "memory")) + update_logs_line(part(status, "update_logs"));
}

}  // namespace elastripe::cli
