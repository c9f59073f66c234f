// One client command, as parsed: of memcached's text protocol, or of its binary protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace elastripe::memcache {

inline constexpr size_t kMaxKeyBytes = 250;

enum class Command : uint8_t {
  kGet,
  kGets,
  kGat,
  kGats,
  kSet,
  kAdd,
  kReplace,
  kAppend,
  kPrepend,
  kCas,
  kMetaSet,
  kIncr,
  kDecr,
  kDelete,
  kTouch,
  kFlushAll,
  kVersion,
  kVerbosity,
  kCacheMemlimit,
  kStats,
  kLru,
  kLruCrawler,
  kSlabs,
  kWatch,
  kMetaGet,
  kMetaDelete,
  kMetaArithmetic,
  kMetaDebug,
  kMetaNoop,
  kQuit,
  // Told by more than their first word:
  kMetadump,
  kCachedump,
  // The binary protocol's only:
  kSaslMechanisms,
  kSaslAuth,
  kSaslStep,
};
inline constexpr int kCommandCount = static_cast<int>(Command::kSaslStep) + 1;
inline constexpr int kTextCommandCount = static_cast<int>(Command::kQuit) + 1;

// The command's word, for metrics and logs.
std::string_view name(Command command);

// A data block follows the command line.
bool is_storage(Command command);
// Says who the client is; the mechanism is its key, and its value follows.
bool is_sasl_login(Command command);
// May change what its keys hold, their exptime included.
bool is_write(Command command);
// Has flags (meta.h); but for mn.
bool is_meta(Command command);
// Answered by a line for each object that there is, and END.
bool is_listing(Command command);
// Answered by VALUE lines and END.
bool is_retrieval(Command command);
// The VALUE lines carry the cas unique.
bool wants_cas(Command command);

// 1 to 250 bytes: any but those that end a word or a line, which are NUL, line feed and space.
bool is_valid_key(std::string_view key);

// What the response to a binary request repeats of it.
struct BinaryHead {
  uint8_t opcode = 0;  // a BinaryOpcode, or one that is not known
  uint32_t opaque = 0;
};

// Views point into the parser's input and die with it.
struct Request {
  Command command = Command::kQuit;
  bool noreply = false;
  std::string_view key;                // of commands with one key
  std::vector<std::string_view> keys;  // of retrieval commands; none in `gat 0`
  uint32_t flags = 0;
  int64_t exptime = 0;       // as sent (exptime.h); also the delay of flush_all
  uint32_t value_bytes = 0;  // of the data block, without its terminator
  uint64_t cas_unique = 0;   // of a binary request: of any command, 0 is none
  uint64_t delta = 0;        // of incr and decr
  uint32_t limit = 0;        // of a listing: objects at most; 0: all
  // Binary, too: what is made where there is none, and with which exptime.
  uint64_t initial = 0;
  std::optional<int64_t> creates;
  uint32_t verbosity = 0;
  // For stats, everything after the word; for meta commands, after the key or (ms) the number of
  // bytes; without outer spaces.
  std::string_view argument;
  std::optional<BinaryHead> binary;  // of a binary request, refused or not

  // Back to the defaults; keeps the capacity of `keys`.
  void clear();
};

}  // namespace elastripe::memcache
