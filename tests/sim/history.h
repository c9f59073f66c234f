// What clients asked and what they were told: the input of the checker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace elastripe::sim {

enum class Verb : uint8_t {
  kGet,
  kSet,
  kAdd,
  kReplace,
  kAppend,
  kPrepend,
  kCas,
  kIncrement,
  kDecrement,
  kDelete,
  kTouch,
  kUpdate,      // `value` at `offset`; with a cas, only if the value has it
  kTransition,  // an operator's: no client sees anything of it
  kFlush,       // of all keys; `key` is empty
  kRebalance,   // an operator's: the key's shards move as if nodes were unequally full
  kLose,        // not a client's: the operator accepts that the key is gone
};
inline constexpr size_t kVerbs = 16;
inline constexpr size_t kKeyVerbs = 12;  // those of clients, each of one key: the first ones
const char* name(Verb verb);
// No client sees anything of it.
constexpr bool is_unseen(Verb verb) {
  return verb == Verb::kTransition || verb == Verb::kRebalance;
}

enum class Answer : uint8_t {
  kNone,       // a read that failed, or definitely not executed: no information
  kUnknown,    // may have taken effect, at any time since, or never
  kHit,        // get
  kCutOff,     // get: it broke off; what came is the beginning of what was asked for
  kMiss,       // get
  kDone,       // stored, deleted, touched, counted; transition: ended, `error` tells how
  kNotStored,  // add, replace, append, prepend; update: it ends beyond the value
  kExists,     // cas, update
  kNotFound,   // cas, counters, delete, touch, update
  kNotNumber,  // counters
};
inline constexpr size_t kAnswers = 10;
const char* name(Answer answer);

struct Operation {
  Verb verb = Verb::kGet;
  std::string key;
  // The request.
  std::string value;
  uint32_t flags = 0;
  uint32_t exptime = 0;  // unix seconds; 0 = never
  uint64_t delta = 0;
  uint64_t pace = 0;    // not 0: its value goes part by part, and this is the seed of its pauses
  uint64_t offset = 0;  // get: a range; update
  uint64_t length = UINT64_MAX;
  int to = 0;             // transition: the k to have
  bool at_proxy = false;  // transition: the proxy computes the parities, not their nodes
  uint32_t at = 0;        // flush: unix seconds, 0 = now
  // What a cas, or an update with one, expects: the value that was read together with the cas
  // unique. Values are unique, so comparing them is comparing cas uniques.
  std::string expected;
  // The answer.
  Answer answer = Answer::kUnknown;
  std::string read_value;  // kHit, kCutOff
  uint64_t read_size = 0;  // kCutOff, or kHit of a range: of the whole value
  uint32_t read_flags = 0;
  uint64_t cas = 0;
  uint64_t number = 0;  // counters
  std::string error;
  // Its interval: positions in the one order of all events, and unix time for expiry.
  uint64_t invoked = 0;
  uint64_t returned = UINT64_MAX;
  uint64_t invoked_ms = 0;
  uint64_t returned_ms = UINT64_MAX;
  int client = 0;
  int proxy = 0;
};
std::string to_string(const Operation& operation);

inline bool is_conditional(const Operation& op) {
  return op.verb == Verb::kCas || (op.verb == Verb::kUpdate && op.cas != 0);
}

inline bool is_streamed(const Operation& op) { return op.pace != 0; }
// A get that was answered with the whole value.
inline bool is_whole_hit(const Operation& op) {
  return op.answer == Answer::kHit && op.offset == 0 && op.length == UINT64_MAX;
}

using History = std::vector<Operation>;

}  // namespace elastripe::sim
