#include "tests/sim/linearizability.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <map>
#include <optional>
#include <unordered_set>

#include "proxy/base/check.h"

namespace elastripe::sim {

namespace {

constexpr size_t kMaxOperations = 512;
using Done = std::bitset<kMaxOperations>;

// What the key holds; value < 0: nothing. Values are interned, so that states compare fast.
struct State {
  int value = -1;
  uint32_t exptime = 0;
  friend bool operator==(const State&, const State&) = default;
};

using States = std::array<State, kMostKeysTogether>;  // by key

struct Node {
  Done done;
  States states;
  friend bool operator==(const Node&, const Node&) = default;
};
struct NodeHash {
  size_t operator()(const Node& node) const {
    size_t all = 0;
    for (const State& state : node.states) {
      all = all * 31 + static_cast<size_t>(state.value + 1) * 0x9e3779b97f4a7c15 +
            state.exptime * size_t{0xff51afd7ed558ccd};
    }
    return std::hash<Done>()(node.done) ^ (all + (all >> 29));
  }
};

class Search {
 public:
  Search(const History& history, std::span<const std::string> keys, uint64_t max_steps)
      : max_steps_(max_steps) {
    ELASTRIPE_CHECK(keys.size() <= kMostKeysTogether);
    for (size_t i = 0; i < history.size(); ++i) {
      const auto key = std::ranges::find(keys, history[i].key);
      const bool is_flush = history[i].verb == Verb::kFlush;
      if ((key == keys.end() && !is_flush) || history[i].answer == Answer::kNone) continue;
      // It changes nothing that a client sees, so no answer of it may need explaining.
      if (is_unseen(history[i].verb)) continue;
      // An unknown read tells nothing and changes nothing.
      if (history[i].verb == Verb::kGet && history[i].answer == Answer::kUnknown) continue;
      ops_.push_back(&history[i]);
      positions_.push_back(i);
      keys_.push_back(is_flush ? 0 : static_cast<size_t>(key - keys.begin()));
    }
    ELASTRIPE_CHECK(ops_.size() <= kMaxOperations, "a history of {} operations", ops_.size());
    order_.resize(ops_.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::ranges::sort(order_, {}, [this](size_t i) { return std::pair(end(i), i); });
    for (size_t i = 0; i < ops_.size(); ++i) required_.set(i, end(i) != UINT64_MAX);
  }

  Check run() {
    std::vector<Node> stack{{{}, {}}};
    Check check;
    size_t best = 0;
    while (!stack.empty()) {
      Node node = stack.back();
      stack.pop_back();
      absorb(node);
      if ((node.done & required_) == required_) return check;
      if (!seen_.insert(node).second) continue;
      if (++check.steps > max_steps_) {
        check.verdict = Verdict::kUndecided;
        return check;
      }
      const size_t known = (node.done & required_).count() + 1;
      if (known > best) {
        best = known;
        check.stuck_at = positions_[first_open(node.done)];
      }
      expand(node, stack);
    }
    check.verdict = Verdict::kNotLinearizable;
    return check;
  }

 private:
  uint64_t end(size_t i) const {
    return ops_[i]->answer == Answer::kUnknown ? UINT64_MAX : ops_[i]->returned;
  }
  size_t first_open(const Done& done) const {
    for (const size_t i : order_) {
      if (!done[i]) return i;
    }
    return 0;
  }
  // No operation that begins after the first open one has returned may go before it.
  uint64_t limit(const Done& done) const {
    for (const size_t i : order_) {
      if (!done[i]) return end(i);
    }
    return UINT64_MAX;
  }

  // Takes every operation that can go next and changes nothing: that never rules an order out.
  void absorb(Node& node) const {
    for (bool again = true; again;) {
      again = false;
      const uint64_t before = limit(node.done);
      for (const size_t i : order_) {
        if (node.done[i] || end(i) == UINT64_MAX || ops_[i]->invoked > before) continue;
        if (!keeps_state(*ops_[i], node.states[keys_[i]])) continue;
        node.done.set(i);
        again = true;
      }
    }
  }

  void expand(const Node& node, std::vector<Node>& stack) {
    const uint64_t before = limit(node.done);
    // In reverse: the earliest return is tried first.
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const size_t i = *it;
      if (node.done[i] || ops_[i]->invoked > before) continue;
      const auto push = [&](const States& states) {
        Node next{node.done, states};
        next.done.set(i);
        if (!seen_.contains(next)) stack.push_back(next);
      };
      if (ops_[i]->verb == Verb::kFlush) {
        push({});
        continue;
      }
      const State& state = node.states[keys_[i]];
      for (const bool live : {false, true}) {
        if (!possible(*ops_[i], state, live)) continue;
        if (auto after = apply(*ops_[i], state, live)) {
          States states = node.states;
          states[keys_[i]] = *after;
          push(states);
        }
      }
    }
  }

  // Can the operation have seen the state as live, or as not live?
  static bool possible(const Operation& op, const State& state, bool live) {
    if (state.value < 0) return !live;
    if (state.exptime == 0) return live;
    const uint64_t expires_ms = uint64_t{state.exptime} * 1000;
    const uint64_t last_ms = op.answer == Answer::kUnknown ? UINT64_MAX : op.returned_ms;
    return live ? op.invoked_ms < expires_ms : last_ms >= expires_ms;
  }

  bool keeps_state(const Operation& op, const State& state) const {
    for (const bool live : {false, true}) {
      if (!possible(op, state, live)) continue;
      switch (op.answer) {
        case Answer::kHit:
        case Answer::kCutOff:
          if (live && matches(op, state)) return true;
          break;
        case Answer::kMiss:
        case Answer::kNotFound:
          if (!live) return true;
          break;
        case Answer::kNotStored:
          if (op.verb == Verb::kUpdate) {
            if (live && !is_within(op, text(state))) return true;
          } else if (live == (op.verb == Verb::kAdd)) {
            return true;
          }
          break;
        case Answer::kExists:
          if (live && text(state) != op.expected) return true;
          break;
        case Answer::kNotNumber:
          if (uint64_t number = 0; live && !parse_number(text(state), number)) return true;
          break;
        default:
          break;
      }
    }
    return false;
  }

  // The state after an operation that took effect; nothing if it can not have.
  std::optional<State> apply(const Operation& op, const State& state, bool live) {
    if (op.answer != Answer::kDone && op.answer != Answer::kUnknown) return std::nullopt;
    switch (op.verb) {
      case Verb::kGet:
      case Verb::kTransition:
      case Verb::kRebalance:
      case Verb::kFlush:  // see expand()
        return std::nullopt;
      case Verb::kSet:
        return fresh(op);
      case Verb::kAdd:
        return live ? std::nullopt : fresh(op);
      case Verb::kReplace:
        return live ? fresh(op) : std::nullopt;
      case Verb::kCas:
        return live && text(state) == op.expected ? fresh(op) : std::nullopt;
      case Verb::kAppend:
        return live ? changed(state, text(state) + op.value) : std::nullopt;
      case Verb::kPrepend:
        return live ? changed(state, op.value + text(state)) : std::nullopt;
      case Verb::kIncrement:
      case Verb::kDecrement:
        return live ? count(op, state) : std::nullopt;
      case Verb::kDelete:
        return live ? std::optional(State{}) : std::nullopt;
      case Verb::kTouch:
        return live ? std::optional(State{state.value, op.exptime}) : std::nullopt;
      case Verb::kUpdate:
        return live ? updated(op, state) : std::nullopt;
      case Verb::kLose:
        return State{};
    }
    return std::nullopt;
  }

  std::optional<State> count(const Operation& op, const State& state) {
    uint64_t number = 0;
    if (!parse_number(text(state), number)) return std::nullopt;
    if (op.verb == Verb::kIncrement) {
      number += op.delta;
    } else {
      number = number > op.delta ? number - op.delta : 0;
    }
    if (op.answer == Answer::kDone && number != op.number) return std::nullopt;
    return changed(state, counter_text(number, text(state).size()));
  }

  static bool is_within(const Operation& op, const std::string& text) {
    return op.offset <= text.size() && op.value.size() <= text.size() - op.offset;
  }
  std::optional<State> updated(const Operation& op, const State& state) {
    std::string value = text(state);
    if (!is_within(op, value) || (is_conditional(op) && value != op.expected)) return std::nullopt;
    value.replace(op.offset, op.value.size(), op.value);
    return changed(state, std::move(value));
  }

  std::optional<State> fresh(const Operation& op) {
    return State{intern({op.value, op.flags}), op.exptime};
  }
  std::optional<State> changed(const State& state, std::string value) {
    return State{intern({std::move(value), values_[static_cast<size_t>(state.value)].second}),
                 state.exptime};
  }
  const std::string& text(const State& state) const {
    return values_[static_cast<size_t>(state.value)].first;
  }
  bool matches(const Operation& op, const State& state) const {
    const auto& value = values_[static_cast<size_t>(state.value)];
    if (value.second != op.read_flags) return false;
    if (is_whole_hit(op)) return value.first == op.read_value;
    const size_t offset = std::min(op.offset, value.first.size());
    const size_t wanted = std::min(op.length, value.first.size() - offset);
    const size_t came = op.read_value.size();
    const bool is_enough = op.answer == Answer::kCutOff ? came <= wanted : came == wanted;
    return is_enough && value.first.size() == op.read_size &&
           value.first.compare(offset, came, op.read_value) == 0;
  }
  int intern(std::pair<std::string, uint32_t> value) {
    const auto [it, added] = ids_.try_emplace(value, static_cast<int>(values_.size()));
    if (added) values_.push_back(std::move(value));
    return it->second;
  }

  const uint64_t max_steps_;
  std::vector<const Operation*> ops_;
  std::vector<size_t> positions_;  // of ops_, in the history
  std::vector<size_t> keys_;       // of ops_; a flush has all of them
  std::vector<size_t> order_;      // of ops_, by return
  Done required_;
  std::unordered_set<Node, NodeHash> seen_;
  std::map<std::pair<std::string, uint32_t>, int> ids_;
  std::vector<std::pair<std::string, uint32_t>> values_;
};

}  // namespace

Check check_key(const History& history, const std::string& key, uint64_t max_steps) {
  return Search(history, {&key, 1}, max_steps).run();
}

Check check_keys(const History& history, std::span<const std::string> keys, uint64_t max_steps) {
  return Search(history, keys, max_steps).run();
}

Judgement judge(const History& history) {
  std::map<std::string, size_t> sizes;  // by key
  for (const Operation& op : history) ++sizes[op.key];
  const auto flushes =
      static_cast<size_t>(std::ranges::count(history, Verb::kFlush, &Operation::verb));
  sizes.erase("");  // of which flushes are
  Judgement judgement;
  for (const auto& [key, size] : sizes) {
    ++judgement.keys;
    const Check check = size + flushes > kMaxOperations ? Check{.verdict = Verdict::kUndecided}
                                                        : check_key(history, key);
    if (check.verdict == Verdict::kUndecided) judgement.undecided.push_back(key);
    if (check.verdict == Verdict::kNotLinearizable) {
      judgement.refused.push_back(to_string(history[check.stuck_at]));
    }
  }
  return judgement;
}

std::string check_cas_uniques(const History& history, const std::string& key) {
  std::vector<const Operation*> reads;
  for (const Operation& op : history) {
    if (op.key == key && is_whole_hit(op)) reads.push_back(&op);
  }
  for (const Operation* a : reads) {
    for (const Operation* b : reads) {
      if ((a->read_value == b->read_value) != (a->cas == b->cas)) {
        return fmt::format("cas uniques do not follow values: {} / {}", to_string(*a),
                           to_string(*b));
      }
      if (a->returned < b->invoked && a->cas > b->cas) {
        return fmt::format("versions went back: {} / {}", to_string(*a), to_string(*b));
      }
    }
  }
  return {};
}

bool parse_number(const std::string& text, uint64_t& number) {
  const size_t last = text.find_last_not_of(' ');
  if (last == std::string::npos || text.size() > 20) return false;
  const char* const end = text.data() + last + 1;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

std::string counter_text(uint64_t number, size_t old_size) {
  std::string text = std::to_string(number);
  if (text.size() < old_size) text.resize(old_size, ' ');
  return text;
}

}  // namespace elastripe::sim
