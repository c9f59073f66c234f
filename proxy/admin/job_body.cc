#include "proxy/admin/job_body.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "proxy/base/bytes.h"
#include "proxy/memcache/request.h"

namespace elastripe {
namespace {

constexpr uint64_t kAnyNumber = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMaxParallel = 256;

}  // namespace

Result<JobBody> JobBody::parse(std::string_view body) {
  Json json;
  try {
    json = Json::parse(body);
  } catch (const Json::parse_error& error) {
    return fail(ErrorCode::kInvalid, "byte {} of the body: it is no JSON", error.byte);
  } catch (const Json::exception& error) {  // a number beyond all
    return fail(ErrorCode::kInvalid, "the body: {}", error.what());
  }
  if (!json.is_object()) return fail(ErrorCode::kInvalid, "the body is no JSON object");
  return JobBody(std::move(json));
}

std::optional<std::string> JobBody::key_text(const char* field) {
  const Json* value = find(field);
  if (value == nullptr) return std::nullopt;
  if (value->is_string() && memcache::is_valid_key(value->get_ref<const std::string&>())) {
    return value->get<std::string>();
  }
  complain(field, "expected 1 to 250 bytes without white space");
  return std::nullopt;
}

std::optional<std::string> JobBody::text(const char* field) {
  const Json* value = find(field);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  complain(field, "expected a text");
  return std::nullopt;
}

std::optional<std::vector<std::string>> JobBody::texts(const char* field) {
  const Json* value = find(field);
  if (value == nullptr) return std::nullopt;
  if (value->is_array() && std::ranges::all_of(*value, &Json::is_string)) {
    return value->get<std::vector<std::string>>();
  }
  complain(field, "expected a list of texts");
  return std::nullopt;
}

std::optional<bool> JobBody::flag(const char* field) {
  const Json* value = find(field);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  complain(field, "expected true or false");
  return std::nullopt;
}

std::optional<uint64_t> JobBody::number(const char* field, uint64_t least, uint64_t most) {
  const Json* value = find(field);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned() && value->get<uint64_t>() >= least &&
      value->get<uint64_t>() <= most) {
    return value->get<uint64_t>();
  }
  complain(field,
           fmt::format("expected an integer from {}{}", least,
                       most < kAnyNumber ? fmt::format(" to {}", most) : std::string(" up")));
  return std::nullopt;
}

std::optional<size_t> JobBody::word(const char* field, const std::vector<std::string>& words) {
  const Json* value = find(field);
  if (value == nullptr) return std::nullopt;
  std::string expected = "expected";
  for (size_t i = 0; i < words.size(); ++i) {
    if (*value == words[i]) return i;
    expected += fmt::format("{}\"{}\"", i == 0 ? " " : " or ", words[i]);
  }
  complain(field, expected);
  return std::nullopt;
}

void JobBody::read_common(jobs::JobSpec& spec) {
  spec.dry_run = flag("dry_run").value_or(spec.dry_run);
  spec.rate = number("rate", 0, kAnyNumber).value_or(spec.rate);
  spec.parallel =
      static_cast<uint32_t>(number("parallel", 1, kMaxParallel).value_or(spec.parallel));
}

void JobBody::complain(std::string_view field, std::string_view why) {
  if (problem_.empty()) problem_ = fmt::format("{}: {}", field, why);
}

void JobBody::complain_of_unknown() {
  for (const auto& [field, _] : body_.items()) {
    if (std::ranges::find(known_, field) == known_.end()) {
      complain(escape_for_log(field), "there is no such field");
    }
  }
}

Result<void> JobBody::check() const {
  if (!problem_.empty()) return fail(ErrorCode::kInvalid, "{}", problem_);
  return {};
}

const JobBody::Json* JobBody::find(const char* field) {
  known_.emplace_back(field);
  const auto found = body_.find(field);
  return found == body_.end() ? nullptr : &*found;
}

}  // namespace elastripe
