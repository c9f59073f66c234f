#include "proxy/memcache/meta.h"

#include <charconv>

#include "proxy/memcache/replies.h"

namespace elastripe::memcache {
namespace {

// As in memcached.
constexpr size_t kMaxFlags = 17;
constexpr size_t kMaxOpaqueBytes = 31;

bool parse_whole(std::string_view text, uint64_t& number) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc{} && stop == end;
}

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

Refusal take_number(std::string_view text, uint64_t& number) {
  return parse_whole(text, number) ? Refusal{} : replies::kBadToken;
}

}  // namespace

std::expected<MetaGet, Refusal> parse_meta_get(std::string_view flags) {
  MetaGet get;
  const Refusal refusal = each_flag(flags, [&](char name, std::string_view argument) -> Refusal {
    switch (name) {
      case 'v':
        get.value = true;
        return {};
      case 'q':
        get.quiet = true;
        return {};
      case 'O':
        get.opaque = argument;
        get.answers += name;
        return {};
      case 'c':
      case 'f':
      case 'k':
      case 's':
      case 't':
        get.answers += name;
        return {};
      case 'o':
        return take_number(argument, get.offset);
      case 'n':
        return take_number(argument, get.length);
      default:
        return replies::kInvalidFlag;
    }
  });
  if (refusal) return std::unexpected(refusal);
  if (get.opaque.size() > kMaxOpaqueBytes) return std::unexpected(replies::kOpaqueTooLong);
  return get;
}

std::expected<MetaSet, Refusal> parse_meta_set(std::string_view flags) {
  MetaSet set;
  bool has_offset = false;
  const Refusal refusal = each_flag(flags, [&](char name, std::string_view argument) -> Refusal {
    switch (name) {
      case 'q':
        set.quiet = true;
        return {};
      case 'O':
        set.opaque = argument;
        set.answers += name;
        return {};
      case 'c':
      case 'k':
      case 's':
        set.answers += name;
        return {};
      case 'C':
        return take_number(argument, set.cas.emplace());
      case 'o':
        has_offset = true;
        return take_number(argument, set.offset);
      default:
        return replies::kInvalidFlag;
    }
  });
  if (refusal) return std::unexpected(refusal);
  if (!has_offset) return std::unexpected(replies::kInvalidFlag);
  if (set.opaque.size() > kMaxOpaqueBytes) return std::unexpected(replies::kOpaqueTooLong);
  return set;
}

}  // namespace elastripe::memcache
