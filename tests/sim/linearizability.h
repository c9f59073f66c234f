// Linearizability of histories with memcached's semantics.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/sim/history.h"

namespace elastripe::sim {

enum class Verdict : uint8_t {
  kLinearizable,
  kNotLinearizable,
  kUndecided,  // the search was given up; never taken for a success
};

struct Check {
  Verdict verdict = Verdict::kLinearizable;
  // The longest explainable prefix ended here: positions in the history, of the operation that no
  // order explains (SIZE_MAX if none).
  size_t stuck_at = SIZE_MAX;
  uint64_t steps = 0;
};

// Wing and Gong's search with Lowe's memo of (operations done, state), over one key's operations.
// An operation of unknown outcome may take effect at any time after its invocation, or never; one
// with no information is ignored. Each operation judges expiry by a time inside its own interval.
Check check_key(const History& history, const std::string& key, uint64_t max_steps = 4'000'000);

// The same of several keys in one order. Only a flush, which is one operation on all of them, makes
// that more than the sum of its keys: it happens to all at the same moment.
inline constexpr size_t kMostKeysTogether = 3;
Check check_keys(const History& history, std::span<const std::string> keys, uint64_t max_steps);

// check_key() of every key in it. A key with more operations than a search can hold is undecided.
struct Judgement {
  size_t keys = 0;
  std::vector<std::string> refused;  // of each such key the operation that no order explains
  std::vector<std::string> undecided;
};
Judgement judge(const History& history);

// cas uniques: one per value, never two values with one, and never going back from one read to a
// read that began after it. Returns the violation, or empty.
std::string check_cas_uniques(const History& history, const std::string& key);

// The number that memcached reads in a value, if it does; and its text after a change in place.
bool parse_number(const std::string& text, uint64_t& number);
std::string counter_text(uint64_t number, size_t old_size);

}  // namespace elastripe::sim
