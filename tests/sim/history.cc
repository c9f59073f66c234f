#include "tests/sim/history.h"

#include <fmt/core.h>

namespace elastripe::sim {

const char* name(Verb verb) {
  static constexpr const char* kNames[] = {
      "get",       "set",    "add",   "replace", "append",     "prepend", "cas",       "increment",
      "decrement", "delete", "touch", "update",  "transition", "flush",   "rebalance", "lose"};
  return kNames[static_cast<size_t>(verb)];
}

const char* name(Answer answer) {
  static constexpr const char* kNames[] = {"none",      "unknown",   "hit",        "cut_off",
                                           "miss",      "done",      "not_stored", "exists",
                                           "not_found", "not_number"};
  return kNames[static_cast<size_t>(answer)];
}

std::string to_string(const Operation& op) {
  std::string text =
      fmt::format("client {} proxy {} {} {}", op.client, op.proxy, name(op.verb), op.key);
  if (!op.value.empty()) text += fmt::format(" {}", op.value);
  if (op.delta != 0) text += fmt::format(" by {}", op.delta);
  if (op.to != 0) text += fmt::format(" to {}{}", op.to, op.at_proxy ? " at the proxy" : "");
  if (op.at != 0) text += fmt::format(" at {}", op.at);
  if (op.exptime != 0) text += fmt::format(" exptime {}", op.exptime);
  if (op.verb == Verb::kUpdate) text += fmt::format(" at {}", op.offset);
  if (is_conditional(op)) text += fmt::format(" if {}", op.expected);
  if (op.length != UINT64_MAX) text += fmt::format(" [{}, +{})", op.offset, op.length);
  if (is_streamed(op)) text += " in parts";
  text += fmt::format(" -> {}", name(op.answer));
  if (op.answer == Answer::kHit || op.answer == Answer::kCutOff)
    text += fmt::format(" {} cas {}", op.read_value, op.cas);
  if (op.answer == Answer::kDone && op.delta != 0) text += fmt::format(" {}", op.number);
  if (!op.error.empty()) text += fmt::format(" ({})", op.error);
  return text;
}

}  // namespace elastripe::sim
