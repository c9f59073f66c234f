#include "proxy/memcache/request.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace elastripe::memcache {

std::string_view name(Command command) {
  switch (command) {
    case Command::kGet:
      return "get";
    case Command::kGets:
      return "gets";
    case Command::kGat:
      return "gat";
    case Command::kGats:
      return "gats";
    case Command::kSet:
      return "set";
    case Command::kAdd:
      return "add";
    case Command::kReplace:
      return "replace";
    case Command::kAppend:
      return "append";
    case Command::kPrepend:
      return "prepend";
    case Command::kCas:
      return "cas";
    case Command::kMetaSet:
      return "ms";
    case Command::kIncr:
      return "incr";
    case Command::kDecr:
      return "decr";
    case Command::kDelete:
      return "delete";
    case Command::kTouch:
      return "touch";
    case Command::kFlushAll:
      return "flush_all";
    case Command::kVersion:
      return "version";
    case Command::kVerbosity:
      return "verbosity";
    case Command::kCacheMemlimit:
      return "cache_memlimit";
    case Command::kStats:
      return "stats";
    case Command::kLru:
      return "lru";
    case Command::kLruCrawler:
      return "lru_crawler";
    case Command::kSlabs:
      return "slabs";
    case Command::kWatch:
      return "watch";
    case Command::kMetaGet:
      return "mg";
    case Command::kMetaDelete:
      return "md";
    case Command::kMetaArithmetic:
      return "ma";
    case Command::kMetaDebug:
      return "me";
    case Command::kMetaNoop:
      return "mn";
    case Command::kQuit:
      return "quit";
    case Command::kMetadump:
      return "metadump";
    case Command::kCachedump:
      return "cachedump";
    case Command::kSaslMechanisms:
      return "sasl_list_mechs";
    case Command::kSaslAuth:
      return "sasl_auth";
    case Command::kSaslStep:
      return "sasl_step";
  }
  std::abort();
}

bool is_storage(Command command) {
  return command >= Command::kSet && command <= Command::kMetaSet;
}

bool is_sasl_login(Command command) {
  return command == Command::kSaslAuth || command == Command::kSaslStep;
}

bool is_write(Command command) {
  switch (command) {
    case Command::kGat:
    case Command::kGats:
    case Command::kIncr:
    case Command::kDecr:
    case Command::kDelete:
    case Command::kTouch:
    case Command::kMetaDelete:
    case Command::kMetaArithmetic:
      return true;
    default:
      return is_storage(command);
  }
}

bool is_meta(Command command) {
  return command == Command::kMetaSet ||
         (command >= Command::kMetaGet && command <= Command::kMetaDebug);
}

bool is_listing(Command command) {
  return command == Command::kMetadump || command == Command::kCachedump;
}

bool is_retrieval(Command command) { return command <= Command::kGats; }

bool wants_cas(Command command) { return command == Command::kGets || command == Command::kGats; }

bool is_valid_key(std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyBytes) return false;
  return std::ranges::none_of(key, [](char c) { return c == '\0' || c == '\n' || c == ' '; });
}

void Request::clear() {
  std::vector<std::string_view> kept = std::move(keys);
  kept.clear();
  *this = Request{};
  keys = std::move(kept);
}

}  // namespace elastripe::memcache
