// Input: what a client sends: bytes -> commands and values, which a pipeline takes.
//
// At any limit of the pipeline it reads nothing more, and TCP slows the client down. A value that
// is striped is read as the flow that stores it asks for its parts, so that a connection holds a
// few segments of it; any other is received whole before its command runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "proxy/io/stream.h"
#include "proxy/memcache/data_block.h"
#include "proxy/memcache/parse.h"
#include "proxy/session/login.h"
#include "proxy/session/pipeline.h"
#include "proxy/session/stall_watch.h"

namespace elastripe {

// Where sessions read to; one a worker, since what one leaves over it copies.
struct ReadScratch {
  static constexpr size_t kBytes = 64 << 10;
  std::unique_ptr<std::byte[]> bytes = std::make_unique_for_overwrite<std::byte[]>(kBytes);
};

// Loop thread only.
class Input {
 public:
  // `users`: who may log in here; null: nobody has to.
  Input(SessionContext& context, ReadScratch& scratch, Pipeline& pipeline,
        const Published<Users>* users)
      : context_(context),
        scratch_(scratch),
        pipeline_(pipeline),
        login_(users),
        parser_(limits()) {}

  // Whether there is a place now for what comes next.
  bool wants_bytes();
  // Reads and processes what is there, up to one turn's share. False: the connection is broken.
  bool read_from(Stream& stream);
  // Goes on with what was left over, as far as it may now.
  void resume();
  // What was left over can be processed at once: sending has made room.
  bool may_resume();

  // Takes no further command; what runs goes on, but for a value that has not come whole.
  void finish(const char* why);
  // The same once the command that was taken last has all of its value.
  void drain();
  // No further command will come: the client's, or ours.
  bool is_finished() const { return finished_; }

  // The flow of this command will ask for its value.
  void begin_value(Pipeline::Slot& slot);
  // Waits anew for the client, since a flow asks for more.
  void value_asked() { sending_.restart(); }
  // Swallows the rest of its value, which the client may still be sending.
  void command_ended(Pipeline::Slot& slot);

  // Notes whether the client owes something; late_at() follows.
  void watch_client(TimePoint now);
  TimePoint late_at(Duration limit) const { return sending_.late_at(limit); }
  bool is_receiving() const { return !block_.complete() || swallow_left_ > 0; }
  uint64_t received_bytes() const { return received_bytes_; }  // since the start
  // Bytes that the client moved, of values and of its present line.
  uint64_t moved_bytes() const { return value_bytes_ + left_over_.size(); }

  // The client may do what it wants.
  bool has_logged_in() const { return login_.is_done(); }
  bool has_guessed_too_often() const { return login_.is_hopeless(); }

  // For Session::yield(): the line waits for memory, which lines of other clients have; it has such
  // memory, and waits for the client; so does a large value.
  bool line_waits() const { return line_waits_; }
  bool holds_line_memory() { return line_memory_.weight() > 0 && is_in_line(); }
  bool holds_value_memory();

 private:
  size_t read_once(Stream& stream, bool& is_broken);
  // Parses and starts what it can; returns how much of the input was used up.
  size_t process(std::string_view input);
  bool step(std::string_view& input);  // false: needs more, or must wait
  void keep(std::string_view input);
  void process_left_over();
  void give_memory_to_held();
  bool fit_line_memory();
  void begin_command();
  void answer_here(const CommandOutcome& outcome);
  void collect(Pipeline::SlotPtr slot);
  void log_in(Pipeline::SlotPtr slot, std::string_view value);
  bool swallow(std::string_view& input);
  bool can_take();
  bool is_in_command() const;
  memcache::ParseLimits limits() const;
  bool is_in_line();
  MutableByteView value_room();
  void value_received(size_t bytes);
  bool receive_value(std::string_view& input);
  void end_value();
  void break_off_upload(const char* why);

  SessionContext& context_;
  ReadScratch& scratch_;
  Pipeline& pipeline_;
  Login login_;
  bool finished_ = false;
  bool draining_ = false;
  bool at_end_ = false;  // the client sends nothing more
  memcache::RequestParser parser_;
  memcache::Request request_;
  std::string left_over_;         // was read and not yet processed
  bool left_over_waits_ = false;  // for room or for a command, not for more input
  bool line_waits_ = false;
  Semaphore::Permit line_memory_;  // of a line above own_line_bytes
  uint64_t swallow_left_ = 0;      // of a refused value
  // The value that is being received: whole, or by the slot of its command.
  memcache::DataBlock block_;
  Pipeline::SlotPtr storing_;
  bool is_login_ = false;  // that value is one
  Buffer value_;
  size_t received_ = 0;
  Pipeline::Slot* uploading_ = nullptr;
  uint64_t received_bytes_ = 0;
  uint64_t value_bytes_ = 0;  // of these
  StallWatch sending_;
};

}  // namespace elastripe
