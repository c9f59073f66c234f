#include "proxy/memcache/meta.h"

#include <algorithm>
#include <utility>

#include "proxy/base/base64.h"
#include "proxy/memcache/numbers.h"
#include "proxy/memcache/replies.h"

namespace elastripe::memcache {
namespace {

// As in memcached.
constexpr size_t kMaxFlags = 17;
constexpr size_t kMaxFlagsOfSet = 16;  // the number of bytes counts as one
constexpr size_t kMaxOpaqueBytes = 31;

size_t count_words(std::string_view text) {
  size_t words = 0;
  for (size_t i = 0; i < text.size(); ++i)
    words += text[i] != ' ' && (i == 0 || text[i - 1] == ' ');
  return words;
}

// Takes the flags one by one. `take` is told a flag's letter and what follows it, and says why it
// is refused, if it is.
template <class Take>
Refusal each_flag(std::string_view flags, Take take) {
  std::string seen;
  for (;;) {
    const size_t begin = flags.find_first_not_of(' ');
    if (begin == std::string_view::npos) return {};
    flags.remove_prefix(begin);
    const std::string_view flag = flags.substr(0, flags.find(' '));
    flags.remove_prefix(flag.size());
    const char name = flag.front();
    // memcached says the same of what is no ASCII.
    if (seen.contains(name) || static_cast<unsigned char>(name) >= 127) {
      return replies::kDuplicateFlag;
    }
    seen += name;
    if (const Refusal refusal = take(name, flag.substr(1))) return refusal;
  }
}

// All of what follows the letter.
template <class Number>
Refusal take_number(std::string_view text, Number& number, Refusal refusal = replies::kBadToken) {
  const auto parsed = parse_number<Number>(text);
  if (!parsed) return refusal;
  number = *parsed;
  return {};
}

Refusal take_exptime(std::string_view text, std::optional<int64_t>& exptime) {
  exptime = parse_exptime(text);
  return exptime ? Refusal{} : replies::kBadToken;
}

Refusal take_flag(MetaFlags& flags, char name, std::string_view argument) {
  switch (name) {
    case 'v':
      flags.value = true;
      return {};
    case 'q':
      flags.quiet = true;
      return {};
    case 'b':
      flags.is_base64 = true;
      return {};
    case 'O':
      flags.opaque = argument;
      flags.answers += name;
      return {};
    case 'c':
    case 'f':
    case 'k':
    case 's':
    case 't':
    case 'h':
    case 'l':
      flags.answers += name;
      return {};
    case 'C':
      return take_number(argument, flags.cas.emplace());
    case 'T':
      return take_exptime(argument, flags.exptime);
    case 'N':
      return take_exptime(argument, flags.creates);
    case 'R':
      return take_exptime(argument, flags.recache);
    case 'E':
      return take_number(argument, flags.new_cas.emplace());
    case 'I':
      flags.invalidates = true;
      return {};
    case 'x':
      flags.empties = true;
      return {};
    case 'u':
      flags.is_no_use = true;
      return {};
    case 'F':
      return take_number(argument, flags.client_flags, replies::kBadLine);
    case 'J':
      return take_number(argument, flags.initial, replies::kBadInitial);
    case 'D':
      return take_number(argument, flags.delta, replies::kBadMetaDelta);
    case 'M':
      if (argument.size() != 1) return replies::kBadModeLength;
      flags.mode = argument.front();
      return {};
    case 'o':
      return take_number(argument, flags.offset.emplace());
    case 'n':
      return take_number(argument, flags.length.emplace());
    case 'P':  // for proxies of other kinds
    case 'L':
      return {};
    default:
      return replies::kInvalidFlag;
  }
}

Refusal check_mode(Command command, char mode) {
  if (mode == '\0') return {};
  if (command == Command::kMetaSet) {
    return std::string_view("EAPRS").contains(mode) ? Refusal{} : replies::kBadSetMode;
  }
  if (command == Command::kMetaArithmetic) {
    return std::string_view("I+D-").contains(mode) ? Refusal{} : replies::kBadArithmeticMode;
  }
  return {};
}

// memcached says the same of all that is wrong with their flags.
bool is_vague(Command command) {
  return command == Command::kMetaArithmetic || command == Command::kMetaDelete;
}

// It has one flag, which comes first; all others count for nothing.
MetaFlags parse_debug_flags(std::string_view flags) {
  flags.remove_prefix(std::min(flags.find_first_not_of(' '), flags.size()));
  MetaFlags parsed;
  parsed.is_base64 = flags.substr(0, flags.find(' ')) == "b";
  return parsed;
}

}  // namespace

std::expected<MetaFlags, Refusal> parse_meta_flags(Command command, std::string_view flags) {
  if (command == Command::kMetaDebug) return parse_debug_flags(flags);
  const bool is_set = command == Command::kMetaSet;
  if (count_words(flags) > (is_set ? kMaxFlagsOfSet : kMaxFlags)) {
    return std::unexpected(command == Command::kMetaGet ? replies::kTooManyFlagsOfGet
                                                        : replies::kTooManyFlags);
  }
  MetaFlags parsed;
  Refusal refusal = each_flag(flags, [&](char name, std::string_view argument) {
    const Refusal taken = take_flag(parsed, name, argument);
    // The later of N and T is that of what is made, but for a set, which has its value's T.
    const bool is_later = name == 'T' && !is_set && parsed.creates;
    if (is_later) parsed.creates = parsed.exptime;
    return taken;
  });
  if (refusal && is_vague(command)) refusal = replies::kBadFlag;
  if (!refusal) refusal = check_mode(command, parsed.mode);
  // An update of a part changes what is there, and does nothing else.
  const bool is_part = is_set && parsed.offset;
  if (!refusal && is_part && parsed.mode != '\0' && parsed.mode != 'S') {
    refusal = replies::kBadSetMode;
  }
  if (!refusal && is_part && (parsed.new_cas || parsed.invalidates)) {
    refusal = replies::kInvalidFlag;
  }
  if (!refusal && parsed.opaque.size() > kMaxOpaqueBytes) refusal = replies::kOpaqueTooLong;
  if (refusal) return std::unexpected(refusal);
  return parsed;
}

std::expected<std::string, Refusal> decode_key(Command command, std::string_view sent) {
  auto key = decode_base64(sent);
  if (key && !key->empty()) return std::move(*key);
  if (command == Command::kMetaDebug) return std::unexpected(replies::kBadLine);
  return std::unexpected(is_vague(command) ? replies::kBadFlag : replies::kBadBase64);
}

}  // namespace elastripe::memcache
