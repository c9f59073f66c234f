#include "proxy/admin/transition_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "proxy/admin/admin_json.h"
#include "proxy/base/bytes.h"
#include "proxy/memcache/request.h"

namespace elastripe {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxK = 255;
constexpr uint64_t kMaxParallel = 256;

// Reads one field after the other of the body, up to the first that is wrong.
class Fields {
 public:
  explicit Fields(const Json& body) : body_(body) {}

  const std::string& problem() const { return problem_; }

  std::optional<std::string> key_text(const char* field) {
    const Json* value = find(field);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string() || !memcache::is_valid_key(value->get_ref<const std::string&>())) {
      return complain<std::string>(field, "expected 1 to 250 bytes without white space");
    }
    return value->get<std::string>();
  }
  std::optional<bool> flag(const char* field) {
    const Json* value = find(field);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) return complain<bool>(field, "expected true or false");
    return value->get<bool>();
  }
  std::optional<uint64_t> number(const char* field, uint64_t least, uint64_t most) {
    const Json* value = find(field);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_unsigned() || value->get<uint64_t>() < least ||
        value->get<uint64_t>() > most) {
      const bool bounded = most < std::numeric_limits<uint64_t>::max();
      return complain<uint64_t>(
          field, fmt::format("expected an integer from {}{}", least,
                             bounded ? fmt::format(" to {}", most) : std::string(" up")));
    }
    return value->get<uint64_t>();
  }
  std::optional<jobs::Execution> execution(const char* field) {
    const Json* value = find(field);
    if (value == nullptr) return std::nullopt;
    if (*value == "delta") return jobs::Execution::kDelta;
    if (*value == "proxy") return jobs::Execution::kProxy;
    return complain<jobs::Execution>(field, "expected \"delta\" or \"proxy\"");
  }
  // After all others: what was never asked for.
  void refuse_unknown() {
    for (const auto& [field, _] : body_.items()) {
      if (std::ranges::find(known_, field) == known_.end()) {
        complain<bool>(escape_for_log(field).c_str(), "there is no such field");
      }
    }
  }
  template <class T>
  std::optional<T> complain(const char* field, std::string_view why) {
    if (problem_.empty()) problem_ = fmt::format("{}: {}", field, why);
    return std::nullopt;
  }

 private:
  const Json* find(const char* field) {
    known_.emplace_back(field);
    const auto found = body_.find(field);
    return found == body_.end() ? nullptr : &*found;
  }

  const Json& body_;
  std::vector<std::string> known_;
  std::string problem_;
};

Result<Json> parse_object(std::string_view body) {
  Json json;
  try {
    json = Json::parse(body);
  } catch (const Json::parse_error& error) {
    return fail(ErrorCode::kInvalid, "byte {} of the body: it is no JSON", error.byte);
  } catch (const Json::exception& error) {  // a number beyond all
    return fail(ErrorCode::kInvalid, "the body: {}", error.what());
  }
  if (!json.is_object()) return fail(ErrorCode::kInvalid, "the body is no JSON object");
  return json;
}

const char* state_name(const jobs::JobProgress& progress) {
  switch (progress.state) {
    case jobs::JobState::kRunning:
      return progress.cancelling ? "cancelling" : "running";
    case jobs::JobState::kDone:
      return "done";
    case jobs::JobState::kCancelled:
      return "cancelled";
    case jobs::JobState::kFailed:
      return "failed";
  }
  return "unknown";
}

// To the microsecond.
double seconds(Duration duration) {
  return std::round(std::chrono::duration<double>(duration).count() * 1e6) / 1e6;
}

Json spec_json(const jobs::TransitionJobSpec& spec) {
  Json json = Json::object();
  if (!spec.job.key.empty()) {
    json["key"] = escape_for_log(spec.job.key, 250);
  } else if (!spec.job.prefix.empty()) {
    json["prefix"] = escape_for_log(spec.job.prefix, 250);
  } else {
    json["all"] = true;
  }
  json["to"] = spec.to;
  json["dry_run"] = spec.job.dry_run;
  json["rate"] = spec.job.rate;
  json["parallel"] = spec.job.parallel;
  json["execution"] = spec.execution == jobs::Execution::kDelta ? "delta" : "proxy";
  json["order_selection"] = spec.order_selection;
  return json;
}

Json work_json(const jobs::JobWork& work) {
  return {{"objects", work.objects},
          {"object_bytes", work.object_bytes},
          {"read_blocks", work.traffic.blocks_read},
          {"sent_blocks", work.traffic.blocks_sent},
          {"read_bytes", work.traffic.bytes_read},
          {"sent_bytes", work.traffic.bytes_sent},
          {"parity_bytes_before", work.parity.before},
          {"parity_bytes_after", work.parity.after}};
}

Json times_json(const jobs::ObjectTimes& times) {
  return {{"mean", seconds(times.mean())},
          {"p50", seconds(times.quantile(0.5))},
          {"p90", seconds(times.quantile(0.9))},
          {"p99", seconds(times.quantile(0.99))},
          {"max", seconds(times.most())}};
}

Json counts_json(const jobs::JobCounts& counts) {
  Json skipped = Json::object();
  for (const auto& [reason, count] : counts.skipped) skipped[reason] = count;
  return {{"seen", counts.seen},
          {"transitioned", counts.done},
          {"already_there", counts.already_there},
          {"skipped", skipped},
          {"no_object", counts.no_object},
          {"overwritten", counts.overwritten},
          {"refused", counts.refused},
          {"failed", counts.failed}};
}

Json report_json(const TransitionReport& report) {
  const jobs::JobProgress& progress = report.progress;
  Json problems = Json::array();
  for (const jobs::JobProblem& problem : progress.problems) {
    problems.push_back({{"key", escape_for_log(problem.key, 250)}, {"reason", problem.reason}});
  }
  return {{"id", report.id},
          {"state", state_name(progress)},
          {"phase", report.spec.job.dry_run ? "counting" : "transitioning"},
          {"counted", progress.counted},
          {"reason", progress.reason},
          {"spec", spec_json(report.spec)},
          {"seconds", seconds(progress.elapsed)},
          {"partitions", {{"total", progress.partitions}, {"done", progress.partitions_done}}},
          {"counts", counts_json(progress.counts)},
          {"planned", work_json(progress.planned)},
          {"done", work_json(progress.done)},
          {"settled_bytes", progress.settled_bytes},
          {"object_seconds", times_json(progress.object_times)},
          {"problems", problems}};
}

// Reasons may name keys and nodes: bytes that are no UTF-8 must not throw.
std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<jobs::TransitionJobSpec> parse_transition(std::string_view body) {
  const auto json = parse_object(body);
  if (!json) return fail(json.error());
  Fields fields(*json);
  jobs::TransitionJobSpec spec;
  const auto key = fields.key_text("key");
  const auto prefix = fields.key_text("prefix");
  const auto all = fields.flag("all");
  const auto to = fields.number("to", 1, kMaxK);
  spec.job.dry_run = fields.flag("dry_run").value_or(spec.job.dry_run);
  spec.job.rate =
      fields.number("rate", 0, std::numeric_limits<uint64_t>::max()).value_or(spec.job.rate);
  spec.job.parallel =
      static_cast<uint32_t>(fields.number("parallel", 1, kMaxParallel).value_or(spec.job.parallel));
  spec.execution = fields.execution("execution").value_or(spec.execution);
  spec.order_selection = fields.flag("order_selection").value_or(spec.order_selection);
  fields.refuse_unknown();
  if (!to) fields.complain<bool>("to", "is missing");
  if (key.has_value() + prefix.has_value() + all.value_or(false) != 1) {
    fields.complain<bool>("key, prefix, all", "give one of them");
  }
  if (!fields.problem().empty()) return fail(ErrorCode::kInvalid, "{}", fields.problem());
  spec.job.key = key.value_or("");
  spec.job.prefix = prefix.value_or("");
  spec.to = static_cast<int>(*to);
  return spec;
}

std::string transition_json(const TransitionReport& report) { return text_of(report_json(report)); }

std::string transitions_json(const TransitionReports& reports) {
  Json list = Json::array();
  if (reports != nullptr) {
    for (const TransitionReport& report : *reports) list.push_back(report_json(report));
  }
  return text_of({{"transitions", list}});
}

}  // namespace elastripe
