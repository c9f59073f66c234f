// Execution of one client command: from its request to what its responder tells. No sockets.
#pragma once

#include "proxy/async/turns.h"
#include "proxy/memcache/output.h"
#include "proxy/session/client_command.h"
#include "proxy/session/client_memory.h"
#include "proxy/session/object_ops.h"
#include "proxy/session/server_stats.h"
#include "proxy/session/settings.h"

namespace elastripe {

// What sessions of one worker share.
struct SessionContext {
  ObjectOps& ops;
  Clock& clock;
  ServerStats& server;
  WorkerStats& stats;
  SessionSettings settings;
  Semaphore line_bytes{settings.line_bytes};
  size_t keys_read = 0;  // of multi-gets
  bool lists = false;    // one at a time: a listing is work for all nodes
  struct FailedLogins {
    TimePoint logged_at;
    uint64_t left_out = 0;  // of the log, since
  } failed_logins{};
};

// The client as a command sees it. Outlives the command.
class CommandClient {
 public:
  virtual ~CommandClient() = default;
  // The next part of the reply; it leaves when the replies before it have left.
  virtual void send(memcache::Output part) = 0;
  // Closes the connection behind what was sent: the rest of the reply can not be given.
  virtual void cut() = 0;
  virtual bool is_gone() const = 0;
  // The order of its commands, for the memory of their reads.
  virtual Turns& reads() = 0;
  // Keys that its retrievals are reading.
  virtual size_t& keys_read() = 0;
  // What its values may hold.
  virtual const std::shared_ptr<ClientMemory>& memory() = 0;
  // Whether more may be sent now; else room() ends when it has taken enough, or is gone.
  virtual bool has_room() const = 0;
  virtual Task<void> room() = 0;
};

// Runs the command and composes its reply (also for noreply: the session drops it). `command` lives
// until it has ended, and is used up.
//
// A retrieval asks for many keys at once and answers in the order of the request. A miss must not
// be confused with an object that can not be read now, unless its pool says so: then the values
// that can be read are followed by an error line in place of END. Large replies leave part by part;
// if a value can not be read to its end after its first bytes have left, the connection is closed.
Task<memcache::Output> execute(SessionContext& context, CommandClient& client,
                               ClientCommand& command);

}  // namespace elastripe
