#include "tools/cli/job_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/cli/answer.h"

namespace elastripe::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBarWidth = 30;
// Bytes a second, where nothing better is known: what gigabit links carry.
constexpr double kAssumedRate = 100 << 20;

// What a kind of job does, in the words that people read.
struct KindWords {
  const char* kind;
  const char* done;  // the count of a report, too
  const char* to_do;
  const char* nothing_to_do;
  const char* refused_because;
  const char* after_refusal;
  const char* meanwhile;
  const char* where = "network";  // the bytes go
};
constexpr KindWords kWords[] = {
    {"transition", "transitioned", "to transition", "already there", "shards are missing",
     "Write objects again whose shards are missing; they can be transitioned then.",
     "reads and writes go on, and at every moment any m nodes may crash"},
    {"repair", "restored", "to restore", "lack nothing",
     "too many shards are missing, or nodes to put them",
     "Start nodes, or write objects again that lack too many shards.", "reads and writes go on"},
    {"scrub", "clean", "to scrub", "already there", "not clean, see below",
     "--repair makes shards again that are missing, bad or wrong.", "reads and writes go on",
     "nodes read"},
    {"rebalance", "moved", "to move", "stay where they are", "shards are missing",
     "What lacks shards is repaired first. The same command again goes on.",
     "reads and writes go on"},
    {"recycle", "folded", "to fold", "no log", "shards are missing",
     "The same command again goes on.", "reads, updates and writes go on"},
};

uint64_t count(const Json& json, const char* field) {
  return static_cast<uint64_t>(number(json, field));
}
const KindWords& words_of(const Json& report) {
  const auto found = std::ranges::find(kWords, text(report, "kind"), &KindWords::kind);
  return found == std::end(kWords) ? kWords[0] : *found;
}

double network_bytes(const Json& work) {
  return number(work, "read_bytes") + number(work, "sent_bytes");
}

std::string size(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string duration(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

std::string objects(uint64_t number) {
  return number == 1 ? "1 object" : fmt::format("{} objects", number);
}

std::string line(const char* what, const std::string& value) {
  return fmt::format("{:<14} {}\n", what, value);
}

std::string skipped_line(const Json& counts) {
  uint64_t total = 0;
  std::string reasons;
  for (const auto& [reason, skipped] : part(counts, "skipped").items()) {
    const auto number = skipped.is_number() ? skipped.get<uint64_t>() : 0;
    total += number;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", reason, number);
  }
  return line("skipped", reasons.empty() ? "0" : fmt::format("{} ({})", total, reasons));
}

std::string network_line(const Json& work) {
  return fmt::format("{} read, {} sent", size(number(work, "read_bytes")),
                     size(number(work, "sent_bytes")));
}

// Empty for work that changes no parities.
std::string parity_line(const Json& work) {
  const double before = number(work, "parity_bytes_before");
  const double after = number(work, "parity_bytes_after");
  if (before == 0 && after == 0) return {};
  return line("parities",
              fmt::format("{} before, {} after: {} {}", size(before), size(after),
                          size(std::abs(before - after)), after > before ? "more" : "less"));
}

std::string problem_lines(const Json& report) {
  std::string lines;
  const Json& problems = part(report, "problems");
  for (const Json& problem : problems) {
    lines += fmt::format("  {}: {}\n", text(problem, "key"), text(problem, "reason"));
  }
  const Json& counts = part(report, "counts");
  const uint64_t all = count(counts, "refused") + count(counts, "failed");
  if (all > problems.size()) lines += fmt::format("  and {} more\n", all - problems.size());
  return lines;
}

// Objects, and what there is of them.
std::string work_line(const Json& work, uint64_t how_many) {
  const uint64_t shards = count(work, "shards");
  return fmt::format("{}, {}{}", objects(how_many), size(number(work, "object_bytes")),
                     shards > 0 ? fmt::format(", {} shards", shards) : "");
}

// Bytes a second, and whose they are.
std::pair<double, std::string> expected_rate(const Json& report, const Json& jobs) {
  if (const double rate = number(part(report, "spec"), "rate"); rate > 0) {
    return {rate, "by --rate"};
  }
  const std::string kind = words_of(report).kind;
  const Json& list = part(jobs, "jobs");
  for (auto job = list.rbegin(); job != list.rend(); ++job) {
    const double bytes = network_bytes(part(*job, "done"));
    const double seconds = number(*job, "seconds");
    if (words_of(*job).kind != kind || text(*job, "state") != "done" || bytes <= 0 || seconds <= 0)
      continue;
    return {bytes / seconds, fmt::format("as {} {} had", kind, count(*job, "id"))};
  }
  return {kAssumedRate,
          fmt::format("an assumption: no {} was run yet, and there is no --rate", kind)};
}

// Whether `planned` is all that there is to do.
bool is_counted(const Json& report) { return report.value("counted", true); }

}  // namespace

bool is_running(const Json& report) {
  const std::string state = text(report, "state");
  return state == "running" || state == "cancelling";
}

int exit_status_of(const Json& report) {
  if (text(report, "state") == "cancelled") return kExitCancelled;
  const Json& counts = part(report, "counts");
  const bool names_key = part(report, "spec").contains("key");
  const bool whole = text(report, "state") == "done" && count(counts, "refused") == 0 &&
                     count(counts, "failed") == 0 && !(names_key && count(counts, "no_object") > 0);
  return whole ? kExitDone : kExitUnfinished;
}

void JobPace::note(const Json& report) {
  if (text(report, "phase") == "counting") return;
  last_ = {number(report, "seconds"), number(report, "settled_bytes")};
  if (!first_) first_ = last_;
}

std::optional<double> JobPace::bytes_per_second() const {
  if (!first_ || last_.seconds <= first_->seconds || last_.bytes <= first_->bytes) {
    return std::nullopt;
  }
  return (last_.bytes - first_->bytes) / (last_.seconds - first_->seconds);
}

std::string title_of(const Json& report) {
  const Json& spec = part(report, "spec");
  std::string asked;
  const auto add = [&](const std::string& what) { asked += (asked.empty() ? "" : ", ") + what; };
  for (const char* field : {"key", "prefix", "node"}) {
    if (!text(spec, field).empty()) add(fmt::format("{} {}", field, text(spec, field)));
  }
  if (part(spec, "all") == true) add("all");
  if (spec.contains("to")) add("to " + shown(spec, "to"));
  if (part(spec, "repair") == true) add("repair");
  if (part(spec, "dry_run") == true) add("dry run");
  return fmt::format("{} {}{}", text(report, "kind"), shown(report, "id"),
                     asked.empty() ? "" : " (" + asked + ")");
}

std::string progress_line(const Json& report, const JobPace& pace, bool bar) {
  std::string ending = text(report, "state") == "cancelling" ? ", cancelling" : "";
  if (const std::string reason = text(report, "reason"); !reason.empty()) {
    ending += fmt::format(", waits: {}", reason);
  }
  if (text(report, "phase") == "counting") {
    const Json& partitions = part(report, "partitions");
    if (count(partitions, "total") == 0) return "counting" + ending;
    return fmt::format("counting: {} of {} partitions, {}{}", count(partitions, "done"),
                       count(partitions, "total"), objects(count(part(report, "counts"), "seen")),
                       ending);
  }
  const double total = network_bytes(part(report, "planned"));
  const double settled = std::min(number(report, "settled_bytes"), total);
  const double fraction = total > 0 ? settled / total : 1;
  const auto rate = pace.bytes_per_second();
  if (!is_counted(report)) {
    return fmt::format("{} of at least {}{}{}", size(settled), size(total),
                       rate ? fmt::format(", {}/s", size(*rate)) : "", ending);
  }
  const std::string speed =
      rate ? fmt::format(", {}/s, {} left", size(*rate), duration((total - settled) / *rate)) : "";
  std::string drawn;
  if (bar) {
    const auto full = static_cast<size_t>(std::lround(fraction * kBarWidth));
    drawn = fmt::format("[{}{}] ", std::string(full, '#'), std::string(kBarWidth - full, '.'));
  }
  return fmt::format("{}{:.0f}%, {} of {}{}{}", drawn, std::floor(fraction * 100), size(settled),
                     size(total), speed, ending);
}

std::string summary_of(const Json& report) {
  const Json& counts = part(report, "counts");
  const Json& done = part(report, "done");
  const KindWords& words = words_of(report);
  const double seconds = number(report, "seconds");
  const std::string reason = text(report, "reason");
  std::string lines =
      fmt::format("{} {}: {} after {}{}{}\n", words.kind, count(report, "id"),
                  text(report, "state"), duration(seconds), reason.empty() ? "" : ": ", reason);
  lines += line(words.done, work_line(done, count(counts, words.done)));
  lines += line(words.nothing_to_do, fmt::format("{}", count(counts, "already_there")));
  lines += skipped_line(counts);
  if (const uint64_t gone = count(counts, "no_object"); gone > 0) {
    lines += line("no object", fmt::format("{}", gone));
  }
  lines += line("overwritten",
                fmt::format("{} (a concurrent write came first)", count(counts, "overwritten")));
  lines += line("refused", fmt::format("{} ({})", count(counts, "refused"), words.refused_because));
  lines += line("failed", fmt::format("{}", count(counts, "failed")));
  lines += problem_lines(report);
  const double bytes = network_bytes(done);
  lines += line(words.where, network_line(done) +
                                 (seconds > 0 ? fmt::format(", {}/s", size(bytes / seconds)) : ""));
  lines += parity_line(done);
  if (text(report, "state") != "done" || count(counts, "failed") > 0) {
    lines += fmt::format("What was {} stays so. The same command again goes on with the rest.\n",
                         words.done);
  }
  if (count(counts, "refused") > 0) {
    lines += fmt::format("{}\n", words.after_refusal);
  }
  return lines;
}

std::string forecast_of(const Json& report, const Json& jobs) {
  if (text(report, "state") != "done") {
    const std::string reason = text(report, "reason");
    return fmt::format("dry run: {}{}{}\n", text(report, "state"), reason.empty() ? "" : ": ",
                       reason);
  }
  const Json& counts = part(report, "counts");
  const Json& planned = part(report, "planned");
  const KindWords& words = words_of(report);
  const double bytes = network_bytes(planned);
  std::string lines = "dry run: nothing was changed\n";
  lines += line(words.to_do, work_line(planned, count(planned, "objects")));
  lines += line(words.nothing_to_do, fmt::format("{}", count(counts, "already_there")));
  lines += skipped_line(counts);
  if (const uint64_t gone = count(counts, "no_object"); gone > 0) {
    lines += line("no object", fmt::format("{}", gone));
  }
  lines += problem_lines(report);
  lines += line(words.where, fmt::format("{}: {}", size(bytes), network_line(planned)));
  lines += parity_line(planned);
  const auto [rate, why] = expected_rate(report, jobs);
  lines +=
      line("time", fmt::format("about {} at {}/s, {}", duration(bytes / rate), size(rate), why));
  lines += line("meanwhile", words.meanwhile);
  if (const double parities = number(planned, "parity_bytes_after"); parities > 0) {
    lines += fmt::format("{:<15}old parities stay for the read grace: at most {} more until then\n",
                         "", size(parities));
  }
  return lines;
}

}  // namespace elastripe::cli
