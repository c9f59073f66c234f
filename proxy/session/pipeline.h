// Pipeline: the commands of one connection, in their order.
//
// Replies leave in the order of the commands. Commands run at the same time unless they touch the
// same key and one of them writes it: then the later one is held, and nothing behind it is taken.
// So a client sees each of its keys change in the order in which it asked; commands on different
// keys that were sent without waiting for replies may take effect in any order, as if sent through
// several connections. With CommandOrder::kConnection all keys count as the same.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "proxy/async/scope.h"
#include "proxy/base/memory_pool.h"
#include "proxy/session/execute.h"
#include "proxy/session/incoming_value.h"
#include "proxy/session/keys_in_flight.h"
#include "proxy/session/replies.h"

namespace elastripe {

// Loop thread only. Is destroyed when no command runs any more.
class Pipeline {
 public:
  struct Slot;

  // The connection.
  class Owner {
   public:
    // There is something to do at the end of the turn.
    virtual void request_turn_end() = 0;
    // The command begins to run and will ask for its value, which comes in parts.
    virtual void begin_value(Slot& slot) = 0;
    // The command waits for more of it.
    virtual void value_asked() = 0;
    // The command has ended; it asks for nothing more.
    virtual void command_ended(Slot& slot) = 0;

   protected:
    ~Owner() = default;
  };

  // A command from its line to its reply, which leaves when the command is the first, as far as
  // there is one. Slots are used again, with their memory.
  struct Slot : CommandClient {
    explicit Slot(Pipeline& owner) : pipeline(owner) {}
    bool is_small() const;  // enough to be kept for another command
    void clear();           // what the next command does not set
    void send(memcache::Output part) override { pipeline.add_reply(*this, std::move(part)); }
    void cut() override { is_cut = true; }
    bool is_gone() const override { return pipeline.is_over(); }
    Turns& reads() override { return pipeline.reads_; }
    size_t& keys_read() override { return pipeline.keys_read_; }
    const std::shared_ptr<ClientMemory>& memory() override { return pipeline.memory_; }
    bool has_room() const override { return is_gone() || pipeline.may_send(*this); }
    Task<void> room() override { return pipeline.room_for(*this); }

    Pipeline& pipeline;
    ClientCommand command;
    KeyHashes key_hashes;
    // Where the command's value comes from, if it has one: it is here, or comes in parts.
    std::optional<objects::WholeValue> whole;
    uint64_t incoming_bytes = 0;
    std::unique_ptr<IncomingValue> incoming;  // once the command has begun
    bool is_malformed = false;                // the incoming value was
    bool writes = false;
    bool has_all_keys = false;
    uint64_t key_bytes = 0;  // of a command with many
    bool done = false;
    bool is_cut = false;  // the connection ends behind its output
    uint64_t value_bytes = 0;
    memcache::Output output;  // as far as it is not queued
  };
  using SlotPtr = std::unique_ptr<Slot>;

  Pipeline(SessionContext& context, Replies& replies, Owner& owner);

  // Whether a further command may be taken now.
  bool has_room() const;
  SlotPtr slot_for(const memcache::Request& request);
  // Starts the command, or holds it until it may run: then nothing more may be taken.
  void take(SlotPtr slot);
  // Starts the held command if it may run now.
  void retry_held();
  bool holds() const { return held_ != nullptr; }
  // Answers so in the place of the command, which does not run.
  void answer(SlotPtr slot, const CommandOutcome& outcome);

  // Queues the replies as far as they have come, in order. When one was cut, all behind it is
  // forgotten.
  void queue_replies();
  bool is_cut() const { return is_cut_; }
  // Lets commands go on that wait for room for their replies, as far as there is some.
  void wake_senders();
  // Nobody takes replies any more: running commands end as soon as they can.
  void close();

  bool is_empty() const { return slots_.empty() && held_ == nullptr; }
  bool is_running() const { return scope_.live() > 0; }
  // The held command waits for memory for its keys, which other clients have.
  bool waits_for_keys() const { return keys_wait_; }
  // Holds memory for keys that other clients may wait for.
  bool has_key_memory() const { return key_memory_.weight() > 0; }
  const ClientMemory& memory() const { return *memory_; }

 private:
  bool is_over() const { return is_closed_ || is_cut_; }
  bool may_start(const Slot& next) const;
  bool try_start(SlotPtr& slot);
  void start(SlotPtr next);
  Task<void> run(Slot* slot);
  bool fit_key_memory(uint64_t more);
  void add_reply(Slot& slot, memcache::Output&& part);
  void cut_off();
  bool may_send(const Slot& slot) const;
  Task<void> room_for(const Slot& slot);

  SessionContext& context_;
  Replies& replies_;
  Owner& owner_;
  std::deque<SlotPtr, Pooled<SlotPtr>> slots_;
  SlotPtr held_;  // parsed, but must wait for a command before it
  std::vector<SlotPtr> spare_slots_;
  KeysInFlight keys_;  // of commands that are running
  uint64_t key_bytes_ = 0;
  Semaphore::Permit key_memory_;  // of what key_bytes_ is above own_line_bytes
  bool keys_wait_ = false;
  uint64_t bytes_in_flight_ = 0;
  Turns reads_;
  size_t keys_read_ = 0;
  const std::shared_ptr<ClientMemory> memory_;
  WaitList senders_;     // commands that wait until more may be sent
  bool is_cut_ = false;  // a reply ended half-way: nothing follows what is queued
  bool is_closed_ = false;
  Scope scope_;
};

}  // namespace elastripe
