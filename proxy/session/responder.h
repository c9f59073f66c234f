// Responder: tells the client what its command came to, in one dialect of the protocol. All that
// leaves for clients is composed here; flows, execute() and the pipeline know outcomes only.
#pragma once

#include <string_view>

#include "proxy/memcache/output.h"
#include "proxy/ops/jobs/list_objects.h"
#include "proxy/session/command_outcome.h"

namespace elastripe {

// One belongs to one command (ClientCommand). It leaves out what a quiet mg need not hear; replies
// to noreply are dropped by the pipeline.
class Responder {
 public:
  virtual ~Responder() = default;

  // The whole reply of a command that is no retrieval; of any that is refused.
  virtual void answer(memcache::Output& output, const CommandOutcome& outcome) const = 0;

  // A retrieval has, for each key in order: begin_value(), then, if that says so, the
  // object.range_bytes bytes of the value and end_value(); or miss(). Then end() or error().
  virtual bool begin_value(memcache::Output& output, std::string_view key,
                           const objects::Object& object) const = 0;
  virtual void end_value(memcache::Output& output) const = 0;
  virtual void miss(memcache::Output& output, std::string_view key) const = 0;
  virtual void end(memcache::Output& output) const = 0;

  // A listing has each object, then end() or error().
  virtual void listed(memcache::Output& output, const jobs::ListedObject& object) const = 0;

  // `not_serving` is why the proxy serves nothing; empty while it serves.
  virtual void error(memcache::Output& output, const Error& error,
                     std::string_view not_serving) const = 0;
};

}  // namespace elastripe
