#include "proxy/memcache/meta.h"

#include <charconv>
#include <utility>

#include "proxy/base/base64.h"
#include "proxy/memcache/replies.h"

namespace elastripe::memcache {
namespace {

// As in memcached.
constexpr size_t kMaxFlags = 17;
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
  if (count_words(flags) > kMaxFlags) return replies::kTooManyFlags;
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

// Digits, all of what follows the letter, with a sign or without.
template <class Number>
Refusal take_number(std::string_view text, Number& number, Refusal refusal = replies::kBadToken) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc{} && stop == end ? Refusal{} : refusal;
}

// What memcached has and this has not, by the commands that it means something to.
bool is_missing(Command command, char flag) {
  switch (flag) {
    case 'E':
    case 'x':
      return true;
    case 'h':
    case 'l':
    case 'R':
    case 'N':
      return command == Command::kMetaGet;
    case 'I':
      return command == Command::kMetaSet || command == Command::kMetaDelete;
    default:
      return false;
  }
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
      flags.answers += name;
      return {};
    case 'C':
      return take_number(argument, flags.cas.emplace());
    case 'T':
      return take_number(argument, flags.exptime.emplace());
    case 'N':
      return take_number(argument, flags.creates.emplace());
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
    case 'h':  // where they mean nothing
    case 'l':
    case 'R':
    case 'I':
    case 'u':  // there is no order of use that a read could change
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

}  // namespace

std::expected<MetaFlags, Refusal> parse_meta_flags(Command command, std::string_view flags) {
  MetaFlags parsed;
  Refusal refusal = each_flag(flags, [&](char name, std::string_view argument) {
    return is_missing(command, name) ? replies::kInvalidFlag : take_flag(parsed, name, argument);
  });
  // As memcached, whatever it is.
  const bool is_vague = command == Command::kMetaArithmetic || command == Command::kMetaDelete;
  if (refusal && is_vague) refusal = replies::kBadFlag;
  if (!refusal) refusal = check_mode(command, parsed.mode);
  // An update of a part changes what is there, and does nothing else.
  const bool is_part = command == Command::kMetaSet && parsed.offset;
  if (!refusal && is_part && parsed.mode != '\0' && parsed.mode != 'S') {
    refusal = replies::kBadSetMode;
  }
  if (!refusal && parsed.opaque.size() > kMaxOpaqueBytes) refusal = replies::kOpaqueTooLong;
  if (refusal) return std::unexpected(refusal);
  return parsed;
}

std::expected<std::string, Refusal> decode_key(std::string_view sent) {
  auto key = decode_base64(sent);
  if (!key || key->empty()) return std::unexpected(replies::kBadBase64);
  return std::move(*key);
}

}  // namespace elastripe::memcache
