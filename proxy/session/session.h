// Session: one client connection: bytes -> commands -> flows -> replies.
//
// Order. Replies leave in the order of the commands. Commands of a pipeline run at the same time
// unless they touch the same key and one of them writes it: then the later one, and everything
// behind it, waits. So a client sees each of its keys change in the order in which it asked;
// commands on different keys that were sent without waiting for replies may take effect in any
// order, as if sent through several connections.
//
// Limits (SessionSettings): at any of them the session stops reading, and TCP slows the client
// down. A value that is striped is read as the flow that stores it asks for its parts, so that a
// connection holds a few segments of it; any other is received whole before its command runs.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "proxy/async/scope.h"
#include "proxy/base/memory_pool.h"
#include "proxy/io/loop.h"
#include "proxy/io/socket.h"
#include "proxy/io/write_queue.h"
#include "proxy/memcache/data_block.h"
#include "proxy/memcache/parse.h"
#include "proxy/session/execute.h"
#include "proxy/session/incoming_value.h"
#include "proxy/session/keys_in_flight.h"
#include "proxy/session/stall_watch.h"

namespace elastripe {

// Where sessions read to; one a worker, since what one leaves over it copies.
struct ReadScratch {
  static constexpr size_t kBytes = 64 << 10;
  std::unique_ptr<std::byte[]> bytes = std::make_unique_for_overwrite<std::byte[]>(kBytes);
};

// Loop thread only. Owned by Sessions, which destroys it when it says that it has ended.
class Session : private TurnEnd, private Timer {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void ended(Session& session) = 0;  // destroys it
  };

  Session(Loop& loop, Fd socket, SessionContext& context, ReadScratch& scratch, Owner& owner);
  ~Session() override;

  // Reads nothing more, answers what is running, then ends.
  void drain();
  // Closes at once; ends when the running commands have.
  void abort();

 private:
  // A command from its line to its reply, which leaves when the command is the first in the
  // pipeline, as far as there is one. Slots are used again, with their memory.
  struct Slot : CommandClient {
    explicit Slot(Session& owner) : session(owner) {}
    bool is_small() const;  // enough to be kept for another command
    void clear();           // what the next command does not set
    void send(memcache::Output part) override { session.add_reply(*this, std::move(part)); }
    void cut() override { is_cut = true; }
    bool is_gone() const override { return !session.open() || session.cut_; }
    Turns& reads() override { return session.reads_; }
    size_t& keys_read() override { return session.keys_read_; }
    const std::shared_ptr<ReadBudget>& read_budget() override { return session.read_budget_; }

    Session& session;
    ClientCommand command;
    KeyHashes key_hashes;
    std::unique_ptr<IncomingValue> incoming;  // of a command whose value comes in parts
    bool is_malformed = false;                // the incoming value was
    bool writes = false;
    bool done = false;
    bool is_cut = false;  // the connection ends behind its output
    uint64_t value_bytes = 0;
    memcache::Output output;  // as far as it did not leave
  };
  using SlotPtr = std::unique_ptr<Slot>;

  static void on_readable(int fd, short what, void* self);
  static void on_writable(int fd, short what, void* self);
  void on_turn_end() override;
  void on_timer() override;

  void read_some();
  size_t read_once();
  // Parses and starts what it can; returns how much of the input was used up.
  size_t process(std::string_view input);
  bool step(std::string_view& input);  // false: needs more, or must wait
  bool receive_value(std::string_view& input);
  bool receive_part(std::string_view& input);
  void end_value();
  MutableByteView value_room();
  void value_received(size_t bytes);
  void swallow_rest(Slot& slot);
  void break_off_upload(const char* why);
  void begin_command();
  void resume_input();

  bool has_room() const;
  bool can_take_input();
  bool may_go_on();
  void watch_client();
  SlotPtr new_slot();
  bool may_start(const Slot& next) const;
  void start_or_hold(SlotPtr slot);
  void start(SlotPtr next);
  Task<void> run(Slot* slot);
  void answer_line(std::string_view line, bool noreply);
  void add_reply(Slot& slot, memcache::Output part);
  void send_output(Slot& slot);
  void send_finished();
  void cut_off();
  void drop_replies();
  void watch();
  void close_socket();
  bool open() const { return socket_.valid(); }
  bool receiving() const { return !block_.complete() || swallow_left_ > 0; }

  Loop& loop_;
  Fd socket_;
  SessionContext& context_;
  ReadScratch& scratch_;
  Owner& owner_;
  event* read_event_;
  event* write_event_;
  bool reading_ = false;       // read_event_ is added
  bool end_of_input_ = false;  // the client sends nothing more
  bool cut_ = false;           // a reply ended half-way: nothing follows what is in out_
  bool finishing_ = false;     // no more commands: quit, drain, or all of a finished input is taken

  memcache::RequestParser parser_;
  memcache::Request request_;
  std::string left_over_;         // input that was read and not yet processed
  bool left_over_waits_ = false;  // for room or for a command, not for more input
  uint64_t swallow_left_ = 0;     // of a refused value
  // The value that is being received: whole, or by the slot of its command.
  memcache::DataBlock block_;
  SlotPtr storing_;
  size_t received_ = 0;
  Slot* uploading_ = nullptr;
  // Parsed, but must wait for a command before it.
  SlotPtr held_;

  std::deque<SlotPtr, Pooled<SlotPtr>> slots_;
  std::vector<SlotPtr> spare_slots_;
  KeysInFlight keys_;  // of commands that are running
  uint64_t bytes_in_flight_ = 0;
  size_t reply_bytes_ = 0;  // in slots_
  Turns reads_;
  size_t keys_read_ = 0;
  const std::shared_ptr<ReadBudget> read_budget_;
  Scope scope_;
  WriteQueue out_;
  TimePoint last_activity_;
  uint64_t value_bytes_ = 0;  // received since the start
  StallWatch sending_;        // the client its values
  StallWatch taking_;         // the client its replies
};

}  // namespace elastripe
