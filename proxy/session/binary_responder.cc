#include "proxy/session/binary_responder.h"

#include <string>

namespace elastripe {

using memcache::BinaryResponse;
using memcache::BinaryStatus;
using memcache::Output;

namespace {

// The cas of what was stored; if nobody knows it, one that no value has. 0 would make a write that
// the client sends with it unconditional.
uint64_t told_cas(uint64_t cas) { return cas != 0 ? cas : UINT64_MAX; }

}  // namespace

void BinaryResponder::done(Output& output, uint64_t cas, std::string_view value) const {
  if (is_quiet(opcode())) return;
  compose_binary(output, {.to = to_, .cas = cas, .value_bytes = value.size()});
  output.append(value);
}

void BinaryResponder::fail(Output& output, Status status) const {
  fail(output, status, text_of(status));
}

void BinaryResponder::fail(Output& output, Status status, std::string_view text) const {
  compose_binary(output, {.to = to_, .status = status, .value_bytes = text.size()});
  output.append(text);
}

void BinaryResponder::tell(Output& output, const objects::StoreOutcome& outcome) const {
  switch (outcome.status) {
    case objects::StoreStatus::kStored:
      return done(output, told_cas(outcome.cas));
    case objects::StoreStatus::kExists:
      return fail(output, Status::kExists);
    case objects::StoreStatus::kNotFound:
      return fail(output, Status::kNotFound);
    case objects::StoreStatus::kNotStored:
      break;
  }
  if (command_ == memcache::Command::kAdd) return fail(output, Status::kExists);
  const bool is_replace = command_ == memcache::Command::kReplace;
  fail(output, is_replace ? Status::kNotFound : Status::kNotStored);
}

void BinaryResponder::tell(Output& output, const objects::CounterOutcome& outcome) const {
  switch (outcome.status) {
    case objects::CounterStatus::kOk:
      return done(output, told_cas(outcome.cas),
                  memcache::big_endian(outcome.value, sizeof(uint64_t)));
    case objects::CounterStatus::kNotFound:
      return fail(output, Status::kNotFound);
    case objects::CounterStatus::kNotNumber:
      return fail(output, Status::kNotNumber);
    case objects::CounterStatus::kExists:
      return fail(output, Status::kExists);
  }
}

void BinaryResponder::tell(Output& output, objects::RemoveStatus status) const {
  switch (status) {
    case objects::RemoveStatus::kRemoved:
      return done(output);
    case objects::RemoveStatus::kNotFound:
      return fail(output, Status::kNotFound);
    case objects::RemoveStatus::kExists:
      return fail(output, Status::kExists);
  }
}

// Each by itself; one without a name ends them.
void BinaryResponder::tell(Output& output, const StatPairs& pairs) const {
  for (const auto& [name, value] : pairs) {
    compose_binary(output, {.to = to_, .key = name, .value_bytes = value.size()});
    output.append(value);
  }
  done(output);
}

void BinaryResponder::tell(Output& output, const VersionOutcome& outcome) const {
  done(output, /*cas=*/0, outcome.version);
}

void BinaryResponder::tell(Output& output, const SaslMechanisms& mechanisms) const {
  done(output, /*cas=*/0, mechanisms.names);
}

void BinaryResponder::tell(Output& output, LoggedIn) const {
  done(output, /*cas=*/0, "Authenticated");
}

void BinaryResponder::tell(Output& output, memcache::Refusal refusal) const {
  const bool is_unknown_group = command_ == memcache::Command::kStats &&
                                refusal.code != memcache::RefusalCode::kUnauthenticated;
  if (is_unknown_group) return fail(output, Status::kNotFound);
  switch (refusal.code) {
    case memcache::RefusalCode::kTooLarge:
      return fail(output, Status::kTooLarge);
    case memcache::RefusalCode::kInvalid:
      return fail(output, Status::kInvalid);
    case memcache::RefusalCode::kUnauthenticated:
    case memcache::RefusalCode::kNotAllowed:
      return fail(output, Status::kUnauthenticated);
    case memcache::RefusalCode::kUnknownCommand:
    case memcache::RefusalCode::kNone:
      break;
  }
  fail(output, Status::kUnknownCommand);
}

void BinaryResponder::answer(Output& output, const CommandOutcome& outcome) const {
  std::visit([&](const auto& what) { tell(output, what); }, outcome);
}

bool BinaryResponder::begin_value(Output& output, std::string_view key,
                                  const objects::Object& object) const {
  const std::string flags = memcache::big_endian(object.flags, sizeof(object.flags));
  compose_binary(output, {.to = to_,
                          .cas = object.cas,
                          .extras = flags,
                          .key = answers_key(opcode()) ? key : std::string_view(),
                          .value_bytes = object.range_bytes});
  return true;
}

void BinaryResponder::miss(Output& output, std::string_view key) const {
  if (is_quiet(opcode())) return;
  if (!answers_key(opcode())) return fail(output, Status::kNotFound);
  compose_binary(output, {.to = to_, .status = Status::kNotFound, .key = key});
}

void BinaryResponder::error(Output& output, const Error& error,
                            std::string_view not_serving) const {
  switch (error.code) {
    case ErrorCode::kNoSpace:
      return fail(output, Status::kNoMemory);
    case ErrorCode::kTooLarge:
      return fail(output, Status::kTooLarge);
    case ErrorCode::kUnknownOutcome:
      return fail(output, Status::kTemporaryFailure, "outcome unknown: " + error.message);
    default:
      break;
  }
  const std::string text =
      not_serving.empty() ? to_string(error) : "not serving: " + std::string(not_serving);
  fail(output, Status::kTemporaryFailure, text);
}

}  // namespace elastripe
