// Execution of one client command: from its request to its reply. No sockets.
#pragma once

#include <string>
#include <vector>

#include "proxy/async/turns.h"
#include "proxy/memcache/output.h"
#include "proxy/memcache/request.h"
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
};

// A command that owns what it refers to.
struct ClientCommand {
  // Takes over the request, into the memory that this has.
  void assign(const memcache::Request& request);
  // The keys of a retrieval, which uses either `key` or `keys`.
  size_t key_count() const { return keys.empty() ? size_t{!key.empty()} : keys.size(); }
  const std::string& key_at(size_t index) const { return keys.empty() ? key : keys[index]; }

  memcache::Command command = memcache::Command::kQuit;
  bool noreply = false;
  std::string key;
  std::vector<std::string> keys;  // of retrievals of more than one
  uint32_t flags = 0;
  int32_t exptime = 0;
  uint64_t cas_unique = 0;
  uint64_t delta = 0;
  std::string argument;
  objects::ValueSource* value = nullptr;  // of storage commands; outlives the command
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
