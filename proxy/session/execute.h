// Execution of one client command: from its request to its reply. No sockets.
#pragma once

#include <string>
#include <vector>

#include "proxy/async/turns.h"
#include "proxy/memcache/output.h"
#include "proxy/memcache/request.h"
#include "proxy/session/object_ops.h"
#include "proxy/session/server_stats.h"

namespace elastripe {

struct SessionSettings {
  uint64_t max_object_bytes = 64u << 20;
  // Of one connection:
  size_t commands_in_flight = 64;
  uint64_t bytes_in_flight = 8u << 20;  // values received and not yet answered
  uint64_t unsent_bytes = 8u << 20;     // replies; above, nothing more is read
  uint64_t read_bytes = 16u << 20;      // of values on their way to it
  // Different keys of all its commands that run; no further command begins above.
  size_t keys_in_flight = 65536;
  // Keys that are read at once; each of its retrievals may read one more, and the first of them
  // 256, so that it is not held up by those behind it.
  size_t keys_read = 1024;
  Duration idle_timeout = Duration::zero();  // without any command; zero: never
  // A client in a line, in a value or with unsent replies is cut if it moves nothing for so long,
  // or, unless it comes to the end of them, less than `progress_bytes`.
  Duration stall_timeout = std::chrono::seconds(30);
  uint64_t progress_bytes = 1u << 20;
  // Of the whole proxy:
  uint32_t max_connections = 1024;
};

// What sessions of one worker share.
struct SessionContext {
  ObjectOps& ops;
  Clock& clock;
  ServerStats& server;
  WorkerStats& stats;
  SessionSettings settings;
};

// A command that owns what it refers to.
struct ClientCommand {
  // Takes over the request, into the memory that this has.
  void assign(const memcache::Request& request);
  // Of retrievals, which use either `key` or `keys`.
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
  // Of storage commands: the whole value, or one that comes in parts while the command runs.
  Buffer value;
  uint64_t incoming_bytes = 0;
  ValueSource* source = nullptr;
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
  // What its reads may hold, of all that the proxy's may.
  virtual const std::shared_ptr<ReadBudget>& read_budget() = 0;
};

// Runs the command and composes its reply (also for noreply: the session drops it). `command` lives
// until it has ended, and is used up.
//
// A retrieval asks for many keys at once and answers in the order of the request. memcached's
// protocol has no error for a part, and a miss must not be confused with an object that can not be
// read now: if any key fails, the whole reply is one SERVER_ERROR line, without any VALUE. A value
// of several segments, and values that do not fit into memory together (ReadBudget), leave part
// by part; if a key fails then, the connection is closed.
Task<memcache::Output> execute(SessionContext& context, CommandClient& client,
                               ClientCommand& command);

// The SERVER_ERROR line of an error; `not_serving` is the proxy's reason, if it serves nothing.
void compose_error(memcache::Output& output, const Error& error, const std::string& not_serving);

}  // namespace elastripe
