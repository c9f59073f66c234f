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

}  // namespace

std::expected<MetaGet, Refusal> parse_meta_get(std::string_view flags) {
  if (count_words(flags) > kMaxFlags) return std::unexpected(replies::kTooManyFlags);
  MetaGet get;
  std::string seen;
  for (;;) {
    const size_t begin = flags.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    flags.remove_prefix(begin);
    const std::string_view flag = flags.substr(0, flags.find(' '));
    flags.remove_prefix(flag.size());
    const char name = flag.front();
    const std::string_view argument = flag.substr(1);
    // memcached says the same of what is no ASCII.
    if (seen.contains(name) || static_cast<unsigned char>(name) >= 127)
      return std::unexpected(replies::kDuplicateFlag);
    seen += name;
    switch (name) {
      case 'v':
        get.value = true;
        break;
      case 'q':
        get.quiet = true;
        break;
      case 'O':
        get.opaque = argument;
        get.answers += name;
        break;
      case 'c':
      case 'f':
      case 'k':
      case 's':
      case 't':
        get.answers += name;
        break;
      case 'o':
        if (!parse_whole(argument, get.offset)) return std::unexpected(replies::kBadToken);
        break;
      case 'n':
        if (!parse_whole(argument, get.length)) return std::unexpected(replies::kBadToken);
        break;
      default:
        return std::unexpected(replies::kInvalidFlag);
    }
  }
  if (get.opaque.size() > kMaxOpaqueBytes) return std::unexpected(replies::kOpaqueTooLong);
  return get;
}

}  // namespace elastripe::memcache
