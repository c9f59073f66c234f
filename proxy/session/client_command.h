// ClientCommand: one command of a client, from when it is taken until it is answered.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "proxy/memcache/data_block.h"
#include "proxy/memcache/request.h"
#include "proxy/session/binary_responder.h"
#include "proxy/session/text_responder.h"

namespace elastripe {

// Owns what it refers to. Is used again for other commands, with its memory.
struct ClientCommand {
  // Takes over the request, and chooses who answers it: nothing else does. The clock outlives this.
  void assign(const memcache::Request& request, const Clock& clock);
  // What comes behind its value.
  size_t terminator_bytes() const { return is_binary ? 0 : memcache::DataBlock::kTerminatorBytes; }
  // In the dialect in which the command was asked.
  const Responder& responder() const;
  // The keys of a retrieval, which uses either `key` or `keys`.
  size_t key_count() const { return keys.empty() ? size_t{!key.empty()} : keys.size(); }
  const std::string& key_at(size_t index) const { return keys.empty() ? key : keys[index]; }
  // May change what its keys hold, their exptime included.
  bool writes() const { return memcache::is_write(command) || touches || creates || wins_before; }

  memcache::Command command = memcache::Command::kQuit;
  bool noreply = false;
  bool is_binary = false;
  std::string key;
  std::vector<std::string> keys;  // of retrievals of more than one
  uint32_t flags = 0;
  int64_t exptime = 0;
  std::optional<uint64_t> cas;         // of writes: only if the value has this one
  std::optional<int64_t> creates;      // what is not there is made, with this exptime
  std::optional<int64_t> touches;      // of meta commands: the new exptime
  std::optional<int64_t> wins_before;  // of mg: the client may win what expires before that
  std::optional<uint64_t> new_cas;     // of meta commands: what is written gets this one
  bool invalidates = false;            // of ms and md: makes stale
  bool empties = false;                // of md
  bool is_use = true;                  // of retrievals
  bool tells_use = false;
  objects::StoreVerb verb{};  // of storage commands
  bool is_part = false;       // ms: the value is one of a part (`range`)
  bool increments = true;     // of counters
  uint64_t delta = 0;
  uint64_t initial = 0;         // of a counter that is made
  objects::ByteRange range;     // of the value, of a retrieval; of ms: where its bytes begin
  objects::ByteRange concerns;  // the part of the value on which its effect and answer depend
  std::string argument;         // of `stats`
  uint32_t limit = 0;           // of a listing: objects at most; 0: all
  memcache::Refusal refusal{};  // it does nothing: this is its answer, when its turn comes
  objects::ValueSource* value = nullptr;  // of storage commands; outlives the command

 private:
  void read_binary(const memcache::Request& request);
  void read_meta(const memcache::Request& request, const Clock& clock);
  void forget_cas_of_0();

  // In place: a command takes no memory for it.
  std::variant<TextResponder, DumpResponder, MetaResponder, BinaryResponder> responder_;
};

}  // namespace elastripe
