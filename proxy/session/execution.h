// Execution: one command on its way to a reply, as the functions that run it see it.
#pragma once

#include <utility>

#include "proxy/memcache/exptime.h"
#include "proxy/session/execute.h"

namespace elastripe {

struct Execution {
  SessionContext& context;
  CommandClient& client;
  const Responder& responder;
  memcache::Output output{};
  CommandStatus status = CommandStatus::kOk;
  objects::ReadPath path = objects::ReadPath::kInline;
  bool in_parts = false;  // parts of the reply leave as they come; `output` is the next one

  void refuse(memcache::Refusal refusal) {
    status = CommandStatus::kClientError;
    responder.answer(output, refusal);
  }
  void fail(const Error& error) {
    status = CommandStatus::kServerError;
    responder.error(output, error, context.ops.not_serving());
  }
  void send_part() {
    in_parts = true;
    if (output.empty()) return;
    client.send(std::exchange(output, {}));
  }
  void count(Stat stat) { context.stats.add(stat); }
  uint32_t expiry(int64_t exptime) const {
    if (exptime == 0) return 0;  // never
    return memcache::absolute_exptime(exptime,
                                      static_cast<int64_t>(context.clock.unix_ms() / 1000));
  }
};

}  // namespace elastripe
