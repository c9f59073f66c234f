#include "proxy/memcache/parse.h"

#include <algorithm>
#include <array>
#include <climits>
#include <optional>

#include "proxy/memcache/binary.h"
#include "proxy/memcache/meta.h"
#include "proxy/memcache/numbers.h"
#include "proxy/memcache/replies.h"

namespace elastripe::memcache {
namespace {

// Arguments beyond these are counted, not kept: no command takes so many (but for keys).
constexpr size_t kKeptTokens = 8;
constexpr int32_t kMaxValueBytes =
    INT_MAX - 2;  // as memcached, which adds the terminator in an int
constexpr size_t kTerminatorBytes = 2;

// The first token at or after `from`; empty at the end of the line. Tokens are split by spaces
// only.
std::string_view token_at(std::string_view line, size_t from) {
  const size_t begin = line.find_first_not_of(' ', from);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find(' ', begin) - begin);
}

size_t end_of(std::string_view line, std::string_view token) {
  return static_cast<size_t>(token.data() - line.data()) + token.size();
}

struct Tokens {
  std::array<std::string_view, kKeptTokens> at;  // [0] is the command
  std::string_view last;
  size_t count = 0;
};

Tokens tokenize(std::string_view line) {
  Tokens tokens;
  for (std::string_view token = token_at(line, 0); !token.empty();
       token = token_at(line, end_of(line, token))) {
    if (tokens.count < kKeptTokens) tokens.at[tokens.count] = token;
    tokens.last = token;
    ++tokens.count;
  }
  return tokens;
}

std::optional<uint32_t> parse_value_bytes(std::string_view token) {
  const auto bytes = parse_number<int32_t>(token);
  if (!bytes || *bytes < 0 || *bytes > kMaxValueBytes) return std::nullopt;
  return static_cast<uint32_t>(*bytes);
}

ParseResult accept() { return {.status = ParseStatus::kRequest}; }

ParseResult refuse(Refusal refusal) {
  return {.status = ParseStatus::kInvalid, .refusal = refusal};
}

ParseResult refuse_and_close(Refusal refusal) {
  return {.status = ParseStatus::kInvalid, .refusal = refusal, .close = true};
}

// For errors found where memcached has already seen a closing `noreply`, which silences them too.
ParseResult refuse(Refusal refusal, const Request& request) {
  return refuse(request.noreply ? Refusal{} : refusal);
}

ParseResult parse_retrieval(std::string_view line, const Tokens& tokens, size_t max_keys,
                            Request& request) {
  if (tokens.count < 2) return refuse(replies::kError);
  size_t next = end_of(line, tokens.at[0]);
  if (request.command == Command::kGat || request.command == Command::kGats) {
    const auto exptime = parse_exptime(tokens.at[1]);
    if (!exptime) return refuse(replies::kBadExptime);
    request.exptime = *exptime;
    next = end_of(line, tokens.at[1]);
  }
  for (std::string_view key = token_at(line, next); !key.empty();
       key = token_at(line, end_of(line, key))) {
    if (!is_valid_key(key)) return refuse(replies::kBadLine);
    if (request.keys.size() == max_keys) return refuse(replies::kTooManyKeys);
    request.keys.push_back(key);
  }
  return accept();
}

ParseResult parse_storage(const Tokens& tokens, Request& request) {
  const size_t required = request.command == Command::kCas ? 6 : 5;
  if (tokens.count != required && tokens.count != required + 1) return refuse(replies::kError);
  const auto flags = parse_number<uint32_t>(tokens.at[2]);
  const auto exptime = parse_exptime(tokens.at[3]);
  const auto value_bytes = parse_value_bytes(tokens.at[4]);
  const auto cas_unique = request.command == Command::kCas ? parse_number<uint64_t>(tokens.at[5])
                                                           : std::optional<uint64_t>(0);
  if (!is_valid_key(tokens.at[1]) || !flags || !exptime || !value_bytes || !cas_unique) {
    ParseResult result = refuse(replies::kBadLine, request);
    if (value_bytes) result.swallow_bytes = *value_bytes + kTerminatorBytes;
    return result;
  }
  request.key = tokens.at[1];
  request.flags = *flags;
  request.exptime = *exptime;
  request.value_bytes = *value_bytes;
  request.cas_unique = *cas_unique;
  return accept();
}

ParseResult parse_arithmetic(const Tokens& tokens, Request& request) {
  if (tokens.count != 3 && tokens.count != 4) return refuse(replies::kError);
  if (!is_valid_key(tokens.at[1])) return refuse(replies::kBadLine, request);
  const auto delta = parse_number<uint64_t>(tokens.at[2]);
  if (!delta) return refuse(replies::kBadDelta, request);
  request.key = tokens.at[1];
  request.delta = *delta;
  return accept();
}

ParseResult parse_touch(const Tokens& tokens, Request& request) {
  if (tokens.count != 3 && tokens.count != 4) return refuse(replies::kError);
  if (!is_valid_key(tokens.at[1])) return refuse(replies::kBadLine, request);
  const auto exptime = parse_exptime(tokens.at[2]);
  if (!exptime) return refuse(replies::kBadExptime, request);
  request.key = tokens.at[1];
  request.exptime = *exptime;
  return accept();
}

ParseResult parse_delete(const Tokens& tokens, Request& request) {
  if (tokens.count < 2 || tokens.count > 4) return refuse(replies::kError);
  if (tokens.count == 2) request.noreply = false;  // then the word is the key
  if (tokens.count > 2) {
    // An old protocol had a hold time here; 0 is still allowed.
    const bool hold_is_zero = tokens.at[2] == "0";
    const bool valid =
        tokens.count == 3 ? hold_is_zero || request.noreply : hold_is_zero && request.noreply;
    if (!valid) return refuse(replies::kBadDelete, request);
  }
  if (!is_valid_key(tokens.at[1])) return refuse(replies::kBadLine, request);
  request.key = tokens.at[1];
  return accept();
}

ParseResult parse_flush_all(const Tokens& tokens, Request& request) {
  if (tokens.count > 3) return refuse(replies::kError);
  if (tokens.count == (request.noreply ? 2U : 1U)) return accept();
  const auto delay = parse_exptime(tokens.at[1]);
  if (!delay) return refuse(replies::kBadExptime, request);
  request.exptime = *delay;
  return accept();
}

ParseResult parse_verbosity(const Tokens& tokens, Request& request) {
  if (tokens.count != 2 && tokens.count != 3) return refuse(replies::kError);
  const auto level = parse_number<uint32_t>(tokens.at[1]);
  if (!level) return refuse(replies::kBadLine, request);
  request.verbosity = *level;
  return accept();
}

// What the nodes may use is set where they are started: a limit that memcached would take is taken,
// and changes nothing.
ParseResult parse_cache_memlimit(const Tokens& tokens, Request& request) {
  constexpr uint32_t kLeastMegabytes = 8;
  constexpr uint32_t kMostMegabytes = 1'000'000'000;
  if (tokens.count != 2 && tokens.count != 3) return refuse(replies::kError);
  const auto megabytes = parse_number<uint32_t>(tokens.at[1]);
  if (!megabytes) return refuse(replies::kError, request);
  if (*megabytes < kLeastMegabytes) return refuse(replies::kMemlimitTooSmall, request);
  if (*megabytes > kMostMegabytes) return refuse(replies::kMemlimitTooLarge, request);
  return accept();
}

// memcached's LRU, its crawler and its slabs are not here. What it would take to tune them is
// taken, and changes nothing.
ParseResult parse_lru(const Tokens& tokens, Request& request) {
  const std::string_view what = tokens.at[1];
  if (what == "tune" && tokens.count >= 6) {
    const auto hot = parse_number<uint32_t>(tokens.at[2]);
    const auto warm = parse_number<uint32_t>(tokens.at[3]);
    const auto hot_age = parse_number<double>(tokens.at[4]);
    const auto warm_age = parse_number<double>(tokens.at[5]);
    if (!hot || !warm || !hot_age || !warm_age) return refuse(replies::kError, request);
    if (uint64_t{*hot} + *warm > 80) return refuse(replies::kHotAndWarmTooLarge, request);
    if (*hot_age <= 0 || *warm_age <= 0) return refuse(replies::kBadAgeFactor, request);
    return accept();
  }
  const std::string_view argument = tokens.at[2];
  const bool sets_mode = what == "mode" && (argument == "flat" || argument == "segmented");
  const bool sets_ttl = what == "temp_ttl" && parse_number<int32_t>(argument);
  return sets_mode || sets_ttl ? accept() : refuse(replies::kError, request);
}

// All objects are of one class.
constexpr std::string_view kOnlyClass = "1";
constexpr uint32_t kMaxClasses = 64;

ParseResult parse_lru_crawler(const Tokens& tokens, Request& request) {
  request.noreply = false;
  const std::string_view what = tokens.at[1];
  const std::string_view argument = tokens.at[2];
  if (tokens.count == 2 && (what == "enable" || what == "disable")) return accept();
  if (tokens.count != 3) return refuse(replies::kError);
  if (what == "crawl" || what == "metadump") {
    const bool lists = what == "metadump";
    const bool is_hash = lists && argument == "hash";
    if (argument != "all" && argument != kOnlyClass && !is_hash) return refuse(replies::kBadClass);
    if (lists) request.command = Command::kMetadump;
    return accept();
  }
  if (what != "tocrawl" && what != "sleep") return refuse(replies::kError);
  const auto number = parse_number<uint32_t>(argument);
  if (!number) return refuse(replies::kBadLine);
  constexpr uint32_t kMostMicroseconds = 1'000'000;
  if (what == "sleep" && *number > kMostMicroseconds) return refuse(replies::kSleepTooLong);
  return accept();
}

ParseResult parse_slabs(const Tokens& tokens, Request& request) {
  const std::string_view what = tokens.at[1];
  if (what == "reassign" && tokens.count == 4) return refuse(replies::kReassignDisabled);
  if (what != "automove" || tokens.count < 3) return refuse(replies::kError);
  const std::string_view argument = tokens.at[2];
  if (argument == "ratio") {
    const bool is_number = tokens.count >= 4 && parse_number<double>(tokens.at[3]);
    return is_number ? accept() : refuse(replies::kError, request);
  }
  const auto level = parse_number<uint32_t>(argument);
  if (!level) return refuse(replies::kBadLine, request);
  return *level <= 2 ? accept() : refuse(replies::kError, request);
}

// Keys that may be in a line of text only; the limit is of objects, 0: all.
ParseResult parse_cachedump(const Tokens& tokens, Request& request) {
  if (tokens.count < 4) return refuse(replies::kBadCachedump);
  const auto slab = parse_number<uint32_t>(tokens.at[2]);
  const auto limit = parse_number<uint32_t>(tokens.at[3]);
  if (!slab || !limit) return refuse(replies::kBadLine);
  if (*slab >= kMaxClasses) return refuse(replies::kIllegalSlab);
  if (tokens.at[2] == kOnlyClass) request.command = Command::kCachedump;
  request.limit = *limit;
  return accept();
}

ParseResult parse_stats(std::string_view line, const Tokens& tokens, Request& request) {
  request.noreply = false;
  if (tokens.count > 1) {
    const size_t begin = static_cast<size_t>(tokens.at[1].data() - line.data());
    request.argument = line.substr(begin, end_of(line, tokens.last) - begin);
  }
  if (tokens.at[1] == "cachedump") return parse_cachedump(tokens, request);
  return accept();
}

// The flags are looked at when the command is taken (meta.h).
ParseResult parse_meta(std::string_view line, const Tokens& tokens, Request& request) {
  request.noreply = false;
  const bool is_debug = request.command == Command::kMetaDebug;
  if (tokens.count < 2) return refuse(is_debug ? replies::kBadLine : replies::kError);
  if (!is_valid_key(tokens.at[1])) return refuse(replies::kBadLine);
  request.key = tokens.at[1];
  request.argument = line.substr(end_of(line, tokens.at[1]));
  return accept();
}

// Its data block must not be read as commands, so the flags are looked at before that comes.
ParseResult parse_meta_set_line(std::string_view line, const Tokens& tokens, Request& request) {
  request.noreply = false;
  if (tokens.count < 2) return refuse(replies::kError);
  const auto value_bytes = parse_value_bytes(tokens.at[2]);
  if (!value_bytes) return refuse(replies::kBadLine);
  request.key = tokens.at[1];
  request.value_bytes = *value_bytes;
  request.argument = line.substr(end_of(line, tokens.at[2]));
  Refusal refusal = is_valid_key(request.key) ? Refusal{} : replies::kBadLine;
  if (!refusal) {
    const auto flags = parse_meta_flags(Command::kMetaSet, request.argument);
    if (!flags) {
      refusal = flags.error();
    } else if (flags->is_base64) {
      const auto key = decode_key(Command::kMetaSet, request.key);
      if (!key) refusal = key.error();
    }
  }
  if (!refusal) return accept();
  ParseResult result = refuse(refusal);
  result.swallow_bytes = *value_bytes + kTerminatorBytes;
  return result;
}

ParseResult parse_unknown(const Tokens& tokens) {
  const std::string_view word = tokens.at[0];
  if (word == "shutdown") return refuse(replies::kShutdownDisabled);
  // A web browser, or a page that makes one post to us: nothing after this line may be obeyed.
  const bool first_of_a_command = std::string_view("acdgist").contains(word[0]);
  if (word.size() > 1 && !first_of_a_command && tokens.last.starts_with("HTTP/")) {
    return refuse_and_close({});
  }
  return refuse(replies::kError);
}

std::optional<Command> command_of(std::string_view word) {
  if (word == "bget") return Command::kGet;  // an undocumented alias in memcached
  for (int i = 0; i < kTextCommandCount; ++i) {
    const auto command = static_cast<Command>(i);
    if (word == name(command)) return command;
  }
  return std::nullopt;
}

ParseResult parse_line(std::string_view line, size_t max_keys, Request& request) {
  request.clear();
  const Tokens tokens = tokenize(line);
  if (tokens.count == 0) return refuse(replies::kError);
  const auto command = command_of(tokens.at[0]);
  if (!command) return parse_unknown(tokens);
  request.command = *command;
  if (is_retrieval(*command)) return parse_retrieval(line, tokens, max_keys, request);
  request.noreply = tokens.last == "noreply";
  if (*command == Command::kMetaSet) return parse_meta_set_line(line, tokens, request);
  if (is_storage(*command)) return parse_storage(tokens, request);
  switch (*command) {
    case Command::kIncr:
    case Command::kDecr:
      return parse_arithmetic(tokens, request);
    case Command::kTouch:
      return parse_touch(tokens, request);
    case Command::kDelete:
      return parse_delete(tokens, request);
    case Command::kFlushAll:
      return parse_flush_all(tokens, request);
    case Command::kVerbosity:
      return parse_verbosity(tokens, request);
    case Command::kCacheMemlimit:
      return parse_cache_memlimit(tokens, request);
    case Command::kStats:
      return parse_stats(line, tokens, request);
    case Command::kLru:
      return parse_lru(tokens, request);
    case Command::kLruCrawler:
      return parse_lru_crawler(tokens, request);
    case Command::kSlabs:
      return parse_slabs(tokens, request);
    case Command::kWatch:
      return refuse(replies::kWatchNotAllowed, request);
    case Command::kMetaGet:
    case Command::kMetaDelete:
    case Command::kMetaArithmetic:
    case Command::kMetaDebug:
      return parse_meta(line, tokens, request);
    default:  // version, mn and quit ignore their arguments
      request.noreply = false;
      return accept();
  }
}

size_t line_cap(std::string_view input, const ParseLimits& limits) {
  const std::string_view word = token_at(input.substr(0, limits.line_bytes), 0);
  const auto command = command_of(word);
  return command && is_retrieval(*command) ? limits.retrieval_line_bytes : limits.line_bytes;
}

}  // namespace

ParseResult RequestParser::parse(std::string_view input, Request& request) {
  if (input.empty()) return {};
  if (input.front() == kBinaryMagic) return parse_binary(input, request);
  const size_t feed = input.find('\n', scanned_);
  const bool complete = feed != std::string_view::npos;
  // Compared alike with and without the line's end, so that splits make no difference.
  const size_t line_bytes = complete ? feed : input.size();
  if (line_bytes > limits_.line_bytes && line_bytes > line_cap(input, limits_)) {
    scanned_ = 0;
    request.clear();
    ParseResult result = refuse_and_close(replies::kLineTooLong);
    result.consumed = input.size();
    return result;
  }
  if (!complete) {
    scanned_ = input.size();
    return {};
  }
  scanned_ = 0;
  std::string_view line = input.substr(0, feed);
  if (line.ends_with('\r')) line.remove_suffix(1);
  ParseResult result = parse_line(line, limits_.retrieval_keys, request);
  if (result.status == ParseStatus::kInvalid) request.clear();
  result.consumed = feed + 1;
  return result;
}

}  // namespace elastripe::memcache
