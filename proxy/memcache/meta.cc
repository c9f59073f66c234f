#include "proxy/memcache/meta.h"

#include <charconv>

#include "proxy/memcache/replies.h"

namespace elastripe::memcache {
namespace {

constexpr size_t kMaxOpaqueBytes = 32;  // as in memcached

bool parse_whole(std::string_view text, uint64_t& number) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc{} && stop == end;
}

}  // namespace

std::expected<MetaGet, std::string_view> parse_meta_get(std::string_view flags) {
  MetaGet get;
  std::string seen;
  for (;;) {
    const size_t begin = flags.find_first_not_of(' ');
    if (begin == std::string_view::npos) return get;
    flags.remove_prefix(begin);
    const std::string_view flag = flags.substr(0, flags.find(' '));
    flags.remove_prefix(flag.size());
    const char name = flag.front();
    const std::string_view argument = flag.substr(1);
    if (seen.contains(name)) return std::unexpected(replies::kDuplicateFlag);
    seen += name;
    const bool has_argument = name == 'O' || name == 'o' || name == 'n';
    if (has_argument == argument.empty()) return std::unexpected(replies::kInvalidFlag);
    switch (name) {
      case 'v':
        get.value = true;
        break;
      case 'q':
        get.quiet = true;
        break;
      case 'O':
        if (argument.size() > kMaxOpaqueBytes) return std::unexpected(replies::kOpaqueTooLong);
        get.opaque = argument;
        get.answers += name;
        break;
      case 'c':
      case 'f':
      case 'k':
      case 's':
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
}

}  // namespace elastripe::memcache
