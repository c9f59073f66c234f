// Responder: what a command came to, told in one dialect of the protocol. Flows know outcomes only;
// another dialect adds a parser and a responder. Refusals of a line that is no command, or of a
// value that is not whole, and statistics are still text of the sessions' own.
#pragma once

#include <string_view>
#include <variant>

#include "proxy/memcache/output.h"
#include "proxy/ops/objects/outcome.h"

namespace elastripe {

// What a command came to that is no retrieval. Stores and counters have outcomes of their own.
struct DeleteOutcome {
  bool found;
};
struct TouchOutcome {
  bool found;
};
struct FlushOutcome {
  bool is_allowed;
};
struct VersionOutcome {
  std::string_view version;
};
struct Noop {};      // mn
struct Accepted {};  // there is nothing to do for it here
using CommandOutcome = std::variant<objects::StoreOutcome, objects::CounterOutcome, DeleteOutcome,
                                    TouchOutcome, FlushOutcome, VersionOutcome, Noop, Accepted>;

// Made for one command.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void answer(memcache::Output& output, const CommandOutcome& outcome) const = 0;

  // A retrieval has, for each key in order: begin_value(), then, if that says so, the
  // object.range_bytes bytes of the value and end_value(); or miss(). Then end() or error().
  virtual bool begin_value(memcache::Output& output, std::string_view key,
                           const objects::Object& object) const = 0;
  virtual void end_value(memcache::Output& output) const = 0;
  virtual void miss(memcache::Output& output, std::string_view key) const = 0;
  virtual void end(memcache::Output& output) const = 0;

  // `not_serving` is why the proxy serves nothing; empty while it serves.
  virtual void error(memcache::Output& output, const Error& error,
                     std::string_view not_serving) const = 0;
};

}  // namespace elastripe
