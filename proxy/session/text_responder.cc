#include "proxy/session/text_responder.h"

#include <algorithm>

#include "proxy/memcache/compose.h"
#include "proxy/memcache/replies.h"

namespace elastripe {
namespace {

using memcache::Output;
namespace replies = memcache::replies;

void compose(Output& output, objects::StoreOutcome outcome) {
  switch (outcome) {
    case objects::StoreOutcome::kStored:
      return memcache::compose_line(output, replies::kStored);
    case objects::StoreOutcome::kNotStored:
      return memcache::compose_line(output, replies::kNotStored);
    case objects::StoreOutcome::kExists:
      return memcache::compose_line(output, replies::kExists);
    case objects::StoreOutcome::kNotFound:
      return memcache::compose_line(output, replies::kNotFound);
  }
}
std::string_view code_of(objects::UpdateStatus status) {
  switch (status) {
    case objects::UpdateStatus::kUpdated:
      return replies::kMetaDone;
    case objects::UpdateStatus::kNotFound:
      return replies::kMetaNotFound;
    case objects::UpdateStatus::kExists:
      return replies::kMetaExists;
    case objects::UpdateStatus::kOutOfRange:
      break;
  }
  return replies::kMetaNotStored;
}
void compose(Output& output, const objects::UpdateOutcome& outcome) {
  memcache::compose_line(output, code_of(outcome.status));
}
void compose(Output& output, const objects::CounterOutcome& outcome) {
  switch (outcome.status) {
    case objects::CounterStatus::kOk:
      return memcache::compose_number(output, outcome.value);
    case objects::CounterStatus::kNotFound:
      return memcache::compose_line(output, replies::kNotFound);
    case objects::CounterStatus::kNotNumber:
      return memcache::compose_line(output, replies::kNonNumeric);
  }
}
void compose(Output& output, DeleteOutcome outcome) {
  memcache::compose_line(output, outcome.found ? replies::kDeleted : replies::kNotFound);
}
void compose(Output& output, TouchOutcome outcome) {
  memcache::compose_line(output, outcome.found ? replies::kTouched : replies::kNotFound);
}
void compose(Output& output, const VersionOutcome& outcome) {
  memcache::compose_version(output, outcome.version);
}
void compose(Output& output, const StatPairs& pairs) {
  for (const auto& [name, value] : pairs) memcache::compose_stat(output, name, value);
  memcache::compose_line(output, replies::kEnd);
}
void compose(Output& output, StatsReset) { memcache::compose_line(output, replies::kReset); }
void compose(Output& output, Noop) { memcache::compose_line(output, replies::kMetaNoop); }
void compose(Output& output, Accepted) { memcache::compose_line(output, replies::kOk); }
void compose(Output& output, memcache::Refusal refusal) {
  memcache::compose_line(output, refusal.line);
}

}  // namespace

void TextResponder::answer(Output& output, const CommandOutcome& outcome) const {
  std::visit([&](const auto& what) { compose(output, what); }, outcome);
}

bool TextResponder::begin_value(Output& output, std::string_view key,
                                const objects::Object& object) const {
  memcache::compose_value_header(output, key, object.flags, object.range_bytes,
                                 with_cas_ ? std::optional(object.cas) : std::nullopt);
  return true;
}

void TextResponder::end_value(Output& output) const { memcache::compose_value_trailer(output); }

void TextResponder::end(Output& output) const { memcache::compose_line(output, replies::kEnd); }

void TextResponder::error(Output& output, const Error& error, std::string_view not_serving) const {
  switch (error.code) {
    case ErrorCode::kNoSpace:
      return memcache::compose_line(output, replies::kOutOfMemory);
    case ErrorCode::kTooLarge:
      return compose(output, replies::kTooLarge);
    case ErrorCode::kUnknownOutcome:
      return memcache::compose_client_error(output, "outcome unknown: " + error.message);
    default:
      break;
  }
  if (not_serving.empty()) return memcache::compose_client_error(output, to_string(error));
  memcache::compose_server_error(output, fmt::format("not serving: {}", not_serving));
}

bool MetaResponder::begin_value(Output& output, std::string_view key,
                                const objects::Object& object) const {
  const auto bytes = get_.value ? std::optional(object.range_bytes) : std::nullopt;
  memcache::compose_meta_hit(output, bytes, flags(key, &object));
  return get_.value;
}

void MetaResponder::miss(Output& output, std::string_view key) const {
  if (!get_.quiet) memcache::compose_meta_miss(output, flags(key, nullptr));
}

// What was asked for, each with a space before it; of a miss (null) what the request itself says.
std::string MetaResponder::flags(std::string_view key, const objects::Object* object) const {
  std::string flags;
  for (const char flag : get_.answers) {
    if (object == nullptr && flag != 'k' && flag != 'O') continue;
    flags += {' ', flag};
    if (flag == 'c') flags += std::to_string(object->cas);
    if (flag == 'f') flags += std::to_string(object->flags);
    if (flag == 's') flags += std::to_string(object->size);
    if (flag == 't') {  // as memcached tells it: -1 is for ever
      const auto now = static_cast<int64_t>(clock_.unix_ms() / 1000);
      const int64_t left = std::max<int64_t>(0, object->exptime - now);
      flags += std::to_string(object->exptime == 0 ? -1 : left);
    }
    if (flag == 'k') flags += key;
    if (flag == 'O') flags += get_.opaque;
  }
  return flags;
}

// A success is not told if it was asked to be quiet.
void MetaSetResponder::answer(Output& output, const CommandOutcome& outcome) const {
  const auto* update = std::get_if<objects::UpdateOutcome>(&outcome);
  if (update == nullptr) return TextResponder::answer(output, outcome);
  const bool is_found = update->status != objects::UpdateStatus::kNotFound;
  if (set_.quiet && update->status == objects::UpdateStatus::kUpdated) return;
  std::string line(code_of(update->status));
  for (const char flag : set_.answers) {
    if (!is_found && flag != 'k' && flag != 'O') continue;
    line += {' ', flag};
    if (flag == 'c') line += std::to_string(update->cas);
    if (flag == 's') line += std::to_string(update->size);
    if (flag == 'k') line += key_;
    if (flag == 'O') line += set_.opaque;
  }
  memcache::compose_line(output, line);
}

}  // namespace elastripe
