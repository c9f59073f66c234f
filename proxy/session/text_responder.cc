#include "proxy/session/text_responder.h"

#include <fmt/format.h>

#include <algorithm>

#include "proxy/base/base64.h"
#include "proxy/memcache/compose.h"
#include "proxy/memcache/replies.h"

namespace elastripe {
namespace {

using memcache::Output;
namespace replies = memcache::replies;

void compose(Output& output, const objects::StoreOutcome& outcome) {
  switch (outcome.status) {
    case objects::StoreStatus::kStored:
      return memcache::compose_line(output, replies::kStored);
    case objects::StoreStatus::kNotStored:
      return memcache::compose_line(output, replies::kNotStored);
    case objects::StoreStatus::kExists:
      return memcache::compose_line(output, replies::kExists);
    case objects::StoreStatus::kNotFound:
      return memcache::compose_line(output, replies::kNotFound);
  }
}
// As to the storage command that a client logs in with.
void compose(Output& output, LoggedIn) { memcache::compose_line(output, replies::kStored); }
// No text command asks for them.
void compose(Output&, const SaslMechanisms&) {}
std::string_view code_of(objects::StoreStatus status) {
  switch (status) {
    case objects::StoreStatus::kStored:
      return replies::kMetaDone;
    case objects::StoreStatus::kExists:
      return replies::kMetaExists;
    case objects::StoreStatus::kNotFound:
      return replies::kMetaNotFound;
    case objects::StoreStatus::kNotStored:
      break;
  }
  return replies::kMetaNotStored;
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
std::string_view code_of(objects::RemoveStatus status) {
  switch (status) {
    case objects::RemoveStatus::kRemoved:
      return replies::kMetaDone;
    case objects::RemoveStatus::kExists:
      return replies::kMetaExists;
    case objects::RemoveStatus::kNotFound:
      break;
  }
  return replies::kMetaNotFound;
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
    case objects::CounterStatus::kExists:
      return memcache::compose_line(output, replies::kExists);
  }
}
void compose(Output& output, objects::RemoveStatus status) {
  switch (status) {
    case objects::RemoveStatus::kRemoved:
      return memcache::compose_line(output, replies::kDeleted);
    case objects::RemoveStatus::kNotFound:
      return memcache::compose_line(output, replies::kNotFound);
    case objects::RemoveStatus::kExists:
      return memcache::compose_line(output, replies::kExists);
  }
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

// A key of the binary protocol may have bytes that would end the line of a cachedump.
void DumpResponder::listed(Output& output, const jobs::ListedObject& object) const {
  if (command_ == memcache::Command::kMetadump) {
    memcache::compose_metadump(output, object.key, object.exptime, object.cas, object.size);
  } else if (memcache::is_valid_key(object.key)) {
    memcache::compose_cachedump(output, object.key, object.exptime, object.size);
  }
}

MetaResponder::MetaResponder(memcache::MetaFlags flags, memcache::Command command,
                             std::string_view key, const Clock& clock)
    : flags_(std::move(flags)),
      command_(command),
      key_(!flags_.answers.contains('k') && command != memcache::Command::kMetaDebug ? ""
           : flags_.is_base64                                                        ? base64(key)
                                                                                     : key),
      clock_(clock) {}

bool MetaResponder::begin_value(Output& output, std::string_view,
                                const objects::Object& object) const {
  if (command_ == memcache::Command::kMetaDebug) {
    memcache::compose_line(output,
                           fmt::format("ME {} exp={} la={} cas={} fetch={} size={}", key_,
                                       seconds_left(object.exptime), object.idle_s, object.cas,
                                       object.was_used ? "yes" : "no", object.size));
    return false;
  }
  const bool is_value = flags_.value && flags_.cas != object.cas;
  memcache::compose_meta_hit(output, is_value ? std::optional(object.range_bytes) : std::nullopt,
                             answers({.cas = object.cas,
                                      .flags = object.flags,
                                      .size = object.size,
                                      .exptime = object.exptime,
                                      .object = &object}));
  return is_value;
}

void MetaResponder::miss(Output& output, std::string_view) const {
  if (!flags_.quiet) memcache::compose_meta_miss(output, answers({}));
}

std::string MetaResponder::seconds_left(uint32_t exptime) const {
  if (exptime == 0) return "-1";
  const auto now = static_cast<int64_t>(clock_.unix_ms() / 1000);
  return std::to_string(std::max<int64_t>(0, exptime - now));
}

std::string MetaResponder::answers(const Told& told) const {
  std::string answers;
  const auto add = [&](char flag, std::string_view text) {
    answers += {' ', flag};
    answers += text;
  };
  for (const char flag : flags_.answers) {
    if (flag == 'c' && told.cas) add(flag, std::to_string(*told.cas));
    if (flag == 'f' && told.flags) add(flag, std::to_string(*told.flags));
    if (flag == 's' && told.size) add(flag, std::to_string(*told.size));
    if (flag == 't' && told.exptime) add(flag, seconds_left(*told.exptime));
    if (flag == 'h' && told.object) add(flag, told.object->was_used ? "1" : "0");
    if (flag == 'l' && told.object) add(flag, std::to_string(told.object->idle_s));
    if (flag == 'O') add(flag, flags_.opaque);
    if (flag != 'k') continue;
    add(flag, key_);
    if (flags_.is_base64) answers += " b";
  }
  if (told.object && told.object->win_is_taken) add('Z', "");
  if (told.object && told.object->is_stale) add('X', "");
  if (told.object && told.object->is_won) add('W', "");
  return answers;
}

void MetaResponder::answer_line(Output& output, std::string_view code, const Told& told) const {
  // What is usual is not told if it was asked to be quiet.
  if (flags_.quiet && code == replies::kMetaDone) return;
  memcache::compose_line(output, std::string(code) + answers(told));
}

void MetaResponder::answer_counter(Output& output, const objects::CounterOutcome& counter) const {
  switch (counter.status) {
    case objects::CounterStatus::kNotNumber:
      return memcache::compose_line(output, replies::kNonNumeric);
    case objects::CounterStatus::kNotFound:
      return answer_line(output, replies::kMetaNotFound, {});
    case objects::CounterStatus::kExists:
      return answer_line(output, replies::kMetaExists, {});
    case objects::CounterStatus::kOk:
      break;
  }
  const Told told{.cas = counter.cas, .exptime = counter.exptime};
  if (!flags_.value) return answer_line(output, replies::kMetaDone, told);
  if (flags_.quiet) return;
  const std::string number = std::to_string(counter.value);
  memcache::compose_meta_hit(output, number.size(), answers(told));
  memcache::compose_line(output, number);
}

void MetaResponder::answer(Output& output, const CommandOutcome& outcome) const {
  if (const auto* store = std::get_if<objects::StoreOutcome>(&outcome)) {
    Told told{.cas = store->cas};
    if (store->cas != 0) told.size = store->size;
    return answer_line(output, code_of(store->status), told);
  }
  if (const auto* update = std::get_if<objects::UpdateOutcome>(&outcome)) {
    const bool is_found = update->status != objects::UpdateStatus::kNotFound;
    return answer_line(output, code_of(update->status),
                       is_found ? Told{.cas = update->cas, .size = update->size} : Told{});
  }
  if (const auto* removed = std::get_if<objects::RemoveStatus>(&outcome)) {
    return answer_line(output, code_of(*removed), {});
  }
  if (const auto* counter = std::get_if<objects::CounterOutcome>(&outcome)) {
    return answer_counter(output, *counter);
  }
  TextResponder::answer(output, outcome);
}

}  // namespace elastripe
